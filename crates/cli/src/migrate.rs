//! `tenure migrate reference-grants`: files or a cluster in, grants of this API out. The conversion itself is
//! the library's.

mod follow;
mod write;

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;
use tenure_inspect::ClusterReader;
use tenure_references::live::{ProposedObjects, Snapshot};
use tenure_references::migrate::{
    Converted, InUse, MigrationContext, MigrationPlan, RemovalScope, SOURCE_GROUP, SourceGrant,
    convert_all, finding, is_source, verify,
};
use tenure_references::{Grant, Reference, Resource, Strategy, strategies};

use crate::access::bundled;
use crate::flags::MigrateGrants;
use crate::inspect::{block_on, connect};
use crate::progress::WaitIndicator;
use crate::report::CommandError;
use crate::say;

const DONE: u8 = 0;
/// A reference is lost or won, or a grant could not be created.
const DIFFERS: u8 = 1;
/// Something could not be read.
pub(crate) const COULD_NOT_READ: u8 = 2;
/// Something could not be converted.
const NOT_WHOLE: u8 = 3;

pub(crate) fn reference_grants(flags: &MigrateGrants) -> Result<ExitCode, CommandError> {
    if flags.follow && !(flags.from_cluster && flags.write) {
        return Err(CommandError::new(
            "`--follow` keeps the grants of a cluster in step, and needs `--cluster` and `--write`",
        )
        .hint("look first at what `--cluster` alone prints"));
    }
    if flags.file.is_empty() && !flags.from_cluster {
        return Err(CommandError::new("nothing says which ReferenceGrants to read")
            .hint("name files with `--file`, or take those of the cluster with `--cluster`"));
    }
    let mut objects = Vec::new();
    for file in &flags.file {
        objects.extend(read(file)?);
    }
    let bundled = bundled()?;
    let asks = flags.from_cluster || flags.write || flags.verify;
    if !asks {
        let strategies = strategies_in(&objects);
        let facts = MigrationContext {
            strategies: &strategies,
            bundled: &bundled,
            ..MigrationContext::default()
        };
        let sources: Vec<Value> = objects.into_iter().filter(is_source).collect();
        let all = convert_all(&sources, &facts);
        return Ok(ExitCode::from(printed(&all, false)));
    }
    block_on(async {
        let reader = connect(&flags.cluster, None).await?;
        let client = reader.client();
        if flags.follow {
            return follow::run(client.clone(), bundled).await;
        }
        let unread = |error: kube::Error| CommandError::from(reader.failed(error));
        let proposal =
            ProposedObjects { strategies: bundled.clone(), ..ProposedObjects::default() };
        let waiting = WaitIndicator::new("reading the cluster");
        let mut snapshot = Snapshot::read(client, &proposal).await.map_err(unread)?;
        if flags.from_cluster {
            let kind = Resource::new(SOURCE_GROUP, "referencegrants");
            objects.extend(snapshot.list(client, &kind, None).await.map_err(unread)?);
        }
        drop(waiting);
        snapshot.unread.iter().for_each(|what| warn(&format!("not read: {what}")));
        let unread = snapshot.unread.iter().any(|unread| unread.resource.group == SOURCE_GROUP);
        let sources: Vec<Value> =
            objects.iter().filter(|object| is_source(object)).cloned().collect();
        let mut strategies = snapshot.strategies();
        strategies.extend(strategies_in(&objects));
        let references = cross_namespace(&snapshot, &strategies, &bundled);
        let in_use = InUse::from_iter(&references);
        let facts = MigrationContext {
            served: &snapshot.served,
            strategies: &strategies,
            bundled: &bundled,
            in_use: Some(&in_use),
        };
        let all = convert_all(&sources, &facts);
        let mut code = match flags.write {
            true => written(&reader, &snapshot, &all, unread).await?,
            false => printed(&all, unread),
        };
        if flags.verify && !verified(&snapshot, &sources, &all, &references) {
            code = DIFFERS;
        }
        // Of what was not read nothing is known.
        if code == DONE && !snapshot.unread.is_empty() {
            code = COULD_NOT_READ;
        }
        Ok(ExitCode::from(code))
    })
}

/// A file as it is named to people.
pub(crate) fn named(file: &Path) -> String {
    if file == Path::new("-") { "stdin".to_owned() } else { format!("`{}`", file.display()) }
}

/// The documents of a file, and the items of lists in it.
pub(crate) fn read(file: &Path) -> Result<Vec<Value>, CommandError> {
    let failed = |error: &dyn std::fmt::Display| {
        CommandError::new(format!("{} cannot be read", named(file))).cause(error)
    };
    let mut text = String::new();
    if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).map_err(|error| failed(&error))?;
    } else {
        text = std::fs::read_to_string(file).map_err(|error| failed(&error))?;
    }
    let mut objects = Vec::new();
    for document in strategies::documents(&text) {
        let limits = tenure_yaml::YamlLimits::default();
        let value = tenure_yaml::to_json(document.as_bytes(), limits);
        let value = value.map_err(|error| failed(&error))?;
        match value.get("items").and_then(Value::as_array) {
            Some(items) => objects.extend(items.iter().cloned()),
            None => objects.push(value),
        }
    }
    Ok(objects)
}

fn strategies_in(objects: &[Value]) -> Vec<Strategy> {
    let fields = objects.iter().filter_map(Value::as_object);
    let strategies = fields
        .filter(|object| object.get("kind").and_then(Value::as_str) == Some("ReferenceStrategy"));
    strategies.filter_map(|object| Strategy::from_object(object).ok()).collect()
}

/// References into other namespaces.
fn cross_namespace(
    snapshot: &Snapshot,
    strategies: &[Strategy],
    bundled: &[Strategy],
) -> Vec<Reference> {
    let all: Vec<Strategy> = finding(strategies, bundled).into_iter().cloned().collect();
    let references = snapshot.references(&all, &*tenure_host::expressions());
    references.into_iter().filter(Reference::needs_grant).collect()
}

/// Prints grants on stdout and notes on stderr.
fn printed(all: &[(String, Converted)], unread: bool) -> u8 {
    tell_notes(all, unread);
    let grants = all.iter().flat_map(|(_, converted)| converted.grants());
    let texts: Vec<String> = grants.map(|grant| tenure_yaml::from_json(&grant)).collect();
    say(texts.join("---\n").as_bytes());
    whole(all)
}

fn tell_notes(all: &[(String, Converted)], unread: bool) {
    if all.is_empty() && unread {
        warn(&format!("no ReferenceGrant of {SOURCE_GROUP} could be read"));
    } else if all.is_empty() {
        warn(&format!("there is no ReferenceGrant of {SOURCE_GROUP}"));
    }
    for (place, converted) in all {
        for note in &converted.notes {
            warn(&format!("{place}: {note}"));
        }
    }
}

fn whole(all: &[(String, Converted)]) -> u8 {
    match all.iter().all(|(_, converted)| converted.is_whole()) {
        true => DONE,
        false => NOT_WHOLE,
    }
}

/// Creates the grants, and brings those that were made before to what they should be; each that cannot be is
/// told with what the server says (M7).
async fn written(
    reader: &ClusterReader,
    snapshot: &Snapshot,
    all: &[(String, Converted)],
    unread: bool,
) -> Result<u8, CommandError> {
    tell_notes(all, unread);
    let scope = if snapshot.unread.is_empty() { RemovalScope::Sources } else { RemovalScope::Part };
    let plan = MigrationPlan::new(all, &snapshot.objects, scope);
    let mut code = whole(all);
    for place in &plan.taken {
        say(format!("{}\n", write::taken(place)).as_bytes());
        code = DIFFERS;
    }
    for step in &plan.steps {
        let failed = |error| CommandError::from(reader.failed(error));
        let line = match write::write(reader.client(), step).await.map_err(failed)? {
            write::GrantWriteOutcome::Done(_) => step.to_string(),
            not => {
                code = DIFFERS;
                match not {
                    write::GrantWriteOutcome::Refused(why) => write::refused(step, &why),
                    _ => write::refused(step, "somebody changed it meanwhile; try again"),
                }
            }
        };
        say(format!("{line}\n").as_bytes());
    }
    if plan.steps.is_empty() && plan.taken.is_empty() {
        say(match snapshot.unread.is_empty() {
            true => b"nothing to do\n".as_slice(),
            false => b"nothing to do for what could be read\n",
        });
    }
    Ok(code)
}

/// Compares old and new verdicts; whether they agree (M5).
fn verified(
    snapshot: &Snapshot,
    sources: &[Value],
    all: &[(String, Converted)],
    references: &[Reference],
) -> bool {
    let old: Vec<SourceGrant> =
        sources.iter().filter_map(|source| SourceGrant::read(source).ok()).collect();
    let mut new: Vec<Grant> = snapshot.grants();
    let made = all.iter().flat_map(|(_, converted)| converted.grants());
    new.extend(made.filter_map(|grant| Grant::from_object(grant.as_object()?).ok()));
    let turned = verify(&old, &new, references, &snapshot.served);
    for one in &turned {
        let what = if one.lost { "lost" } else { "won" };
        warn(&format!("{what}: {}", one.reference));
    }
    let agree = references.len() - turned.len();
    warn(&format!(
        "{agree} of {} references into other namespaces keep their verdict",
        references.len()
    ));
    turned.is_empty()
}

fn warn(line: &str) {
    // A closed stderr leaves nobody to tell.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
