//! `tenure unused` and `tenure retention drain`: what nothing mentions, and the end of retention. Only `drain` writes.

use std::process::ExitCode;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use tenure_inspect::render;
use tenure_inspect::{ClusterReader, MANAGER, RetainedSubject};

use crate::flags::{Drain, OutputFormat, TableForm, UnusedFlags};
use crate::inspect::{block_on, connect, paint};
use crate::progress::WaitIndicator;
use crate::report::{COULD_NOT_LOOK, CommandError};
use crate::say;

/// The exit code of a report that found something unused.
const FOUND_UNUSED: u8 = 3;

/// How long an engine that still runs may take to write an entry again.
const ENGINE_PAUSE: Duration = Duration::from_secs(2);

/// How often a subject that changes meanwhile is tried again.
const TRIES: usize = 5;

pub(crate) fn unused(flags: &UnusedFlags) -> Result<ExitCode, CommandError> {
    block_on(async {
        let reader = connect(&flags.cluster, flags.namespace.clone()).await?;
        let waiting = WaitIndicator::new("reading the cluster");
        let report = reader.unused(flags.all_namespaces, flags.partial).await?;
        drop(waiting);
        let code = match (report.unused, report.unread.is_empty() || flags.partial) {
            (0, true) => ExitCode::SUCCESS,
            (0, false) => ExitCode::from(COULD_NOT_LOOK),
            _ => ExitCode::from(FOUND_UNUSED),
        };
        let text = match flags.output {
            TableForm::Table => render::unused(&report, paint(flags.cluster.color)),
            TableForm::Json => render::json(&report),
        };
        say(text.as_bytes());
        Ok(code)
    })
}

pub(crate) fn drain(flags: &Drain) -> Result<ExitCode, CommandError> {
    block_on(async {
        let reader = connect(&flags.reply.cluster, flags.namespace.clone()).await?;
        let everywhere = flags.namespace.is_none();
        let retained = reader.retained(everywhere).await?;
        let entries: usize = retained.iter().map(|one| one.managed.len()).sum();
        if !flags.dry_run {
            for one in &retained {
                strip(&reader, one, everywhere).await?;
            }
            if !retained.is_empty() {
                tokio::time::sleep(ENGINE_PAUSE).await;
                settled(&reader, everywhere).await?;
            }
        }
        say(drain_report(&retained, entries, flags).as_bytes());
        Ok(ExitCode::SUCCESS)
    })
}

/// What was done, or would be.
fn drain_report(retained: &[RetainedSubject], entries: usize, flags: &Drain) -> String {
    if flags.reply.output == OutputFormat::Json {
        let subjects: Vec<_> = retained.iter().map(|one| &one.subject).collect();
        return render::json(&serde_json::json!({
            "subjects": subjects, "entries": entries, "dryRun": flags.dry_run,
        }));
    }
    let (would, was) =
        if flags.dry_run { ("would take", "") } else { ("took", "; all objects stay") };
    let mut text = String::new();
    for one in retained {
        text += &format!("{}: {}\n", one.subject, counted(one.managed.len(), "owner"));
    }
    let (owners, objects) = (counted(entries, "owner"), counted(retained.len(), "object"));
    text + &format!("{would} {owners} from {objects}{was}\n")
}

fn counted(number: usize, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

/// Takes the managed entries from one subject; the others stay, and so does the object.
async fn strip(
    reader: &ClusterReader,
    retained: &RetainedSubject,
    everywhere: bool,
) -> Result<(), CommandError> {
    let mut wanted = retained.clone();
    for _ in 0..TRIES {
        match patch(reader, &wanted).await {
            Ok(()) => return Ok(()),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409 | 422) => {
                // Gone, replaced, or changed by somebody: what is there now decides.
                let now = reader.retained(everywhere).await?;
                match now.into_iter().find(|one| one.subject.uid == wanted.subject.uid) {
                    Some(again) => wanted = again,
                    None => return Ok(()),
                }
            }
            Err(error) => {
                let what = format!("{} could not be changed", wanted.subject);
                return Err(CommandError::new(what).cause(&error));
            }
        }
    }
    Err(CommandError::new(format!("{} changes all the time", wanted.subject)).hint("try again"))
}

async fn patch(reader: &ClusterReader, retained: &RetainedSubject) -> Result<(), kube::Error> {
    let subject = &retained.subject;
    let gone: Vec<_> = retained
        .managed
        .iter()
        .map(|owner| serde_json::json!({ "$patch": "delete", "uid": owner.uid }))
        .collect();
    let patch = serde_json::json!({ "metadata": { "uid": subject.uid, "ownerReferences": gone } });
    let plural = if subject.kind == "Secret" { "secrets" } else { "configmaps" };
    let path = format!(
        "/api/v1/namespaces/{}/{plural}/{}?fieldManager={MANAGER}",
        subject.namespace, subject.name
    );
    let request = http::Request::patch(path)
        .header(CONTENT_TYPE, "application/strategic-merge-patch+json")
        .body(patch.to_string().into_bytes())
        .map_err(kube::Error::HttpError)?;
    reader.client().request_text(request).await.map(|_| ())
}

/// An engine that still runs writes its entries again: then nothing is drained.
async fn settled(reader: &ClusterReader, everywhere: bool) -> Result<(), CommandError> {
    match reader.retained(everywhere).await?.as_slice() {
        [] => Ok(()),
        [first, ..] => Err(CommandError::new(
            "the retention engine still runs and writes owners again",
        )
        .cause(&format!("{} has {} of them", first.subject, first.managed.len()))
        .hint(
            "start the server with `--feature-gates ControllersAsOwners=false`: it takes all of \
                 them back by itself",
        )),
    }
}
