//! `tenure access narrow`: a cluster and a log are read, and what would break is printed.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;
use tenure_inspect::ClusterReader;
use tenure_inspect::access::{ClusterAccess, NarrowQuestion, NarrowVerdict, Records, identity};
use tenure_inspect::render::{self, access};
use tenure_references::live::ProposedObjects;
use tenure_references::{Resource, Strategy};

use crate::access::bundled_objects;
use crate::flags::{AccessNarrow, NarrowForm};
use crate::inspect::{block_on, called, connect, paint};
use crate::report::{COULD_NOT_LOOK, CommandError};
use crate::say;

/// Where a server shows who has read what.
const RECORDER: &str = "/debug/tenure/access";

/// The fields that come first in an object.
const FIRST: [&str; 6] = ["apiVersion", "kind", "metadata", "subject", "classNames", "origin"];

/// Something would break, or too little is known.
const NOT_SAFE: u8 = 1;

pub(super) fn run(flags: &AccessNarrow, program: &str) -> Result<ExitCode, CommandError> {
    if flags.subject.is_empty() {
        return Err(CommandError::new("`--subject` names nobody").hint(format!(
            "write a user name: `{program} access narrow --subject system:serviceaccount:edge:edge`"
        )));
    }
    let who = identity(&flags.subject, &flags.groups);
    let log = match &flags.audit_log {
        Some(file) => Some(recorded(file, &who.user)?),
        None => None,
    };
    let bundled = bundled_objects()?;
    let strategies: Vec<Strategy> = bundled.iter().map(|(strategy, _)| strategy.clone()).collect();
    block_on(async {
        let reader = connect(&flags.cluster, None).await?;
        let remembered = remembered(&reader, &who.user).await?;
        let told = remembered.as_ref().and_then(|records| records.filtered_lists);
        let filtered_lists = if flags.filtered_lists { Some(true) } else { told };
        let mut records = log.or(remembered);
        if let (Some(records), Some(window)) = (&mut records, flags.window) {
            records.keep_last(window);
        }
        let kinds = reader.kinds().await?;
        let served = called(&kinds, &flags.resource)?;
        let resource = Resource::new(&served.group, &served.plural);
        let proposal = ProposedObjects { strategies, ..ProposedObjects::default() };
        let rights = ClusterAccess::read(&reader, &proposal, tenure_host::expressions()).await?;
        let narrow = rights.narrow(&NarrowQuestion {
            who: &who,
            resource: &resource,
            classes: &flags.classes,
            bundled: &bundled,
            records: records.as_ref(),
            filtered_lists: filtered_lists.into(),
        });
        let text = match flags.output {
            NarrowForm::Text => {
                let mut text = access::narrow(&narrow, paint(flags.cluster.color));
                if !narrow.objects.is_empty() {
                    text += "---\n";
                    text += &yaml(&narrow.objects);
                }
                text
            }
            NarrowForm::Json => render::json(&narrow),
            NarrowForm::Yaml => yaml(&narrow.objects),
        };
        say(text.as_bytes());
        Ok(match narrow.verdict {
            NarrowVerdict::Safe => ExitCode::SUCCESS,
            // What was not read may be what is missing to say so.
            NarrowVerdict::NotShown if !narrow.unread.is_empty() => ExitCode::from(COULD_NOT_LOOK),
            NarrowVerdict::WouldBreak | NarrowVerdict::NotShown => ExitCode::from(NOT_SAFE),
        })
    })
}

/// Objects as people write them: who they are first, then what they say.
fn yaml(objects: &[Value]) -> String {
    let texts: Vec<String> = objects.iter().map(ordered).collect();
    texts.join("---\n")
}

fn ordered(object: &Value) -> String {
    let Some(fields) = object.as_object() else { return tenure_yaml::from_json(object) };
    let place = |key: &str| FIRST.iter().position(|first| *first == key).unwrap_or(FIRST.len());
    let mut keys: Vec<&String> = fields.keys().collect();
    keys.sort_by_key(|key| place(key));
    let parts = keys.into_iter().filter_map(|key| {
        let value = fields.get(key)?.clone();
        let one: serde_json::Map<String, Value> = [(key.clone(), value)].into_iter().collect();
        Some(tenure_yaml::from_json(&Value::Object(one)))
    });
    parts.collect()
}

/// What the server remembers of a user; nothing if it remembers nothing, or does not tell us.
async fn remembered(reader: &ClusterReader, user: &str) -> Result<Option<Records>, CommandError> {
    let failed = |error: &dyn std::fmt::Display| {
        CommandError::new("the server does not say what was read").cause(error)
    };
    let escaped: String = user.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let request = http::Request::get(format!("{RECORDER}?user={escaped}")).body(Vec::new());
    let request = request.map_err(|error| failed(&error))?;
    match reader.client().request::<Value>(request).await {
        Ok(answer) => Ok(Records::of_server(&answer, user)),
        // Other servers know no such path, and answer with whatever they like.
        Err(kube::Error::Api(_) | kube::Error::SerdeError(_)) => Ok(None),
        Err(error) => Err(failed(&error)),
    }
}

/// What a log says of a user.
fn recorded(file: &Path, user: &str) -> Result<Records, CommandError> {
    let failed = |error: &dyn std::fmt::Display| {
        CommandError::new(format!("the audit log `{}` cannot be read", file.display())).cause(error)
    };
    let log: Box<dyn BufRead> = if file == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(BufReader::new(File::open(file).map_err(|error| failed(&error))?))
    };
    let source = format!("audit log `{}`", file.display());
    Records::read(log, user, &source).map_err(|error| {
        let problem = failed(&error);
        match std::error::Error::source(&error) {
            Some(cause) => problem.cause(&cause),
            None => problem,
        }
    })
}
