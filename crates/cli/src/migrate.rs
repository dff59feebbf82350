//! `tenure migrate reference-grants`: files or a cluster in, grants of this API out. The conversion itself is
//! the library's.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;
use tenure_references::live::Snapshot;
use tenure_references::migrate::{Converted, Facts, SourceGrant, convert_all, is_source, verify};
use tenure_references::{GROUP, Grant, NoExpressions, Reference, Resource, Strategy, strategies};

use crate::access::bundled;
use crate::flags::MigrateGrants;
use crate::inspect::{block_on, connect};
use crate::report::Problem;
use crate::say;

/// A reference is lost or won, or a grant could not be created.
const DIFFERS: u8 = 1;
/// Something could not be read.
pub(crate) const COULD_NOT_READ: u8 = 2;
/// Something could not be converted.
const NOT_WHOLE: u8 = 3;

/// The group of the sources.
const GATEWAY: &str = "gateway.networking.k8s.io";

pub(crate) fn reference_grants(flags: &MigrateGrants) -> Result<ExitCode, Problem> {
    let mut objects = Vec::new();
    for file in &flags.file {
        objects.extend(read(file)?);
    }
    let bundled = bundled()?;
    let asks = flags.from_cluster || flags.write || flags.verify;
    if !asks {
        let strategies = strategies_in(&objects);
        let facts = Facts { strategies: &strategies, bundled: &bundled, ..Facts::default() };
        let sources: Vec<Value> = objects.into_iter().filter(is_source).collect();
        let all = convert_all(&sources, &facts);
        return Ok(printed(&all));
    }
    block_on(async {
        let reader = connect(&flags.cluster, None).await?;
        let client = reader.client();
        let unread = |error: kube::Error| Problem::new("the cluster cannot be read").cause(&error);
        let mut snapshot = Snapshot::read(client, &bundled).await.map_err(unread)?;
        if flags.from_cluster {
            let kind = Resource::new(GATEWAY, "referencegrants");
            objects.extend(snapshot.list(client, &kind, None).await.map_err(unread)?);
        }
        snapshot.unread.iter().for_each(|what| warn(&format!("not read: {what}")));
        let sources: Vec<Value> =
            objects.iter().filter(|object| is_source(object)).cloned().collect();
        let mut strategies = snapshot.strategies();
        strategies.extend(strategies_in(&objects));
        let references = cross_namespace(&snapshot, &strategies, &bundled);
        let facts = Facts {
            served: &snapshot.served,
            strategies: &strategies,
            bundled: &bundled,
            references: Some(&references),
        };
        let all = convert_all(&sources, &facts);
        let mut code = match flags.write {
            true => created(client, &all).await?,
            false => printed(&all),
        };
        if flags.verify && !verified(&snapshot, &sources, &all, &references) {
            code = ExitCode::from(DIFFERS);
        }
        Ok(code)
    })
}

/// The documents of a file, and the items of lists in it.
pub(crate) fn read(file: &Path) -> Result<Vec<Value>, Problem> {
    let failed = |error: &dyn std::fmt::Display| {
        Problem::new(format!("`{}` cannot be read", file.display())).cause(error)
    };
    let mut text = String::new();
    if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).map_err(|error| failed(&error))?;
    } else {
        text = std::fs::read_to_string(file).map_err(|error| failed(&error))?;
    }
    let mut objects = Vec::new();
    for document in strategies::documents(&text) {
        let limits = tenure_yaml::Limits::default();
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

/// References into other namespaces; bundled strategies stand in for types that none in force covers.
fn cross_namespace(
    snapshot: &Snapshot,
    strategies: &[Strategy],
    bundled: &[Strategy],
) -> Vec<Reference> {
    let covered = |strategy: &&Strategy| {
        !strategies.iter().any(|in_force| in_force.origin == strategy.origin)
    };
    let mut all = strategies.to_vec();
    all.extend(bundled.iter().filter(covered).cloned());
    let references = snapshot.references(&all, &NoExpressions);
    let leaves = |reference: &Reference| reference.origin.namespace != reference.target.namespace;
    references.into_iter().filter(leaves).collect()
}

/// Prints grants on stdout and notes on stderr.
fn printed(all: &[(String, Converted)]) -> ExitCode {
    tell_notes(all);
    let grants = all.iter().flat_map(|(_, converted)| &converted.grants);
    let texts: Vec<String> = grants.map(tenure_yaml::from_json).collect();
    say(texts.join("---\n").as_bytes());
    whole(all)
}

fn tell_notes(all: &[(String, Converted)]) {
    for (place, converted) in all {
        for note in &converted.notes {
            warn(&format!("{place}: {note}"));
        }
    }
}

fn whole(all: &[(String, Converted)]) -> ExitCode {
    match all.iter().all(|(_, converted)| converted.is_whole()) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(NOT_WHOLE),
    }
}

/// Creates the grants; each that cannot be is told with what the server says (M7).
async fn created(client: &kube::Client, all: &[(String, Converted)]) -> Result<ExitCode, Problem> {
    tell_notes(all);
    let mut code = whole(all);
    for grant in all.iter().flat_map(|(_, converted)| &converted.grants) {
        let text =
            |pointer: &str| grant.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        let path = format!(
            "/apis/{GROUP}/v1alpha1/namespaces/{namespace}/referencegrants/{name}?fieldManager=tenure-migrate&force=true"
        );
        let failed = |error: &dyn std::fmt::Display| {
            Problem::new(format!("`{namespace}/{name}` cannot be created")).cause(error)
        };
        let request = http::Request::patch(path)
            .header(http::header::CONTENT_TYPE, "application/apply-patch+yaml")
            .body(grant.to_string().into_bytes())
            .map_err(|error| failed(&error))?;
        match client.request_text(request).await {
            Ok(_) => say(format!("{namespace}/{name}: created\n").as_bytes()),
            Err(kube::Error::Api(status)) => {
                say(format!("{namespace}/{name}: not created: {}\n", status.message).as_bytes());
                code = ExitCode::from(DIFFERS);
            }
            Err(error) => return Err(failed(&error)),
        }
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
    let made = all.iter().flat_map(|(_, converted)| &converted.grants).filter_map(Value::as_object);
    new.extend(made.filter_map(|object| Grant::from_object(object).ok()));
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
