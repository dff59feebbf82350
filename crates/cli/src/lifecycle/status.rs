//! `tenure status`: is the server of a folder there, and does it answer.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use tenure_host::kubeconfig::CONTEXT;
use tenure_host::server_record::{self, ServerRecord, ServerState};
use tenure_inspect::{ClusterReader, ConnectionOptions};

use crate::clock;
use crate::flags::{OutputFormat, StatusOptions};
use crate::inspect::block_on;
use crate::report::CommandError;
use crate::say;
use crate::up::data_dir;

/// How long a server may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// It runs and does not answer as it should.
const NOT_READY: u8 = 1;
/// It does not run; the same as `systemctl status` says it.
const STOPPED: u8 = 3;

/// What a server answered.
struct Answers {
    ready: Result<(), String>,
    nodes: Option<u64>,
    pods: Option<u64>,
    namespaces: Option<u64>,
}

pub(crate) fn status(flags: &StatusOptions) -> Result<ExitCode, CommandError> {
    let dir = data_dir(flags.data_dir.clone())?;
    let (code, words, value) = match server_record::state(&dir) {
        ServerState::Stopped => {
            let value = json!({ "state": "stopped", "folder": dir.display().to_string() });
            (ExitCode::from(STOPPED), stopped(&dir), value)
        }
        ServerState::Busy(holder) => {
            let state = if holder.chore.is_some() { "busy" } else { "starting" };
            let words = format!("{state}: {holder} uses `{}`\n", dir.display());
            let value = json!({
                "state": state, "process": holder.process, "command": holder.chore,
                "folder": dir.display().to_string(),
            });
            (ExitCode::from(NOT_READY), words, value)
        }
        ServerState::Hidden => {
            let words = format!(
                "in use: a process that cannot be seen from here uses `{}`\n",
                dir.display()
            );
            let value = json!({ "state": "hidden", "folder": dir.display().to_string() });
            (ExitCode::from(NOT_READY), words, value)
        }
        ServerState::Running(record) => {
            let answers = ask(&record)?;
            let ready = answers.ready.is_ok();
            let code = if ready { ExitCode::SUCCESS } else { ExitCode::from(NOT_READY) };
            (code, running(&record, &answers), for_programs(&record, &answers))
        }
    };
    match flags.output {
        OutputFormat::Text => say(words.as_bytes()),
        OutputFormat::Json => say(format!("{value:#}\n").as_bytes()),
    }
    Ok(code)
}

fn stopped(dir: &Path) -> String {
    format!("stopped: no server uses `{}`\n{}", dir.display(), super::others(dir, "status"))
}

fn running(record: &ServerRecord, answers: &Answers) -> String {
    let since = clock::system_time().duration_since(record.since).unwrap_or_default();
    let ready = match &answers.ready {
        Ok(()) => "yes".to_owned(),
        Err(why) => format!("no: {why}"),
    };
    let log = record.log.as_ref().map(|log| log.display().to_string());
    let mut rows = vec![
        ("server", record.url.clone()),
        ("ready", ready),
        ("process", format!("{}, for {}", record.process, age(since))),
        ("version", record.version.clone()),
        ("data", record.folder.display().to_string()),
        ("kubeconfig", record.kubeconfig.display().to_string()),
        ("log", log.unwrap_or_else(|| "where it was started".to_owned())),
    ];
    for (name, count) in
        [("namespaces", answers.namespaces), ("nodes", answers.nodes), ("pods", answers.pods)]
    {
        rows.extend(count.map(|count| (name, count.to_string())));
    }
    let mut words = "running\n".to_owned();
    for (name, value) in rows {
        words += &format!("  {name:10}  {value}\n");
    }
    words
}

fn for_programs(record: &ServerRecord, answers: &Answers) -> Value {
    let mut value = record.to_json();
    if let Some(value) = value.as_object_mut() {
        value.insert("state".to_owned(), json!("running"));
        value.insert("ready".to_owned(), json!(answers.ready.is_ok()));
        if let Err(why) = &answers.ready {
            value.insert("cause".to_owned(), json!(why));
        }
        for (name, count) in
            [("namespaces", answers.namespaces), ("nodes", answers.nodes), ("pods", answers.pods)]
        {
            value.insert(name.to_owned(), json!(count));
        }
    }
    value
}

/// A time as people say it.
fn age(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

fn ask(record: &ServerRecord) -> Result<Answers, CommandError> {
    block_on(async {
        let asked = tokio::time::timeout(ANSWER_LIMIT, Box::pin(answers(record))).await;
        Ok(asked.unwrap_or_else(|_| {
            let ready = Err(format!("no answer within {} s", ANSWER_LIMIT.as_secs()));
            Answers { ready, nodes: None, pods: None, namespaces: None }
        }))
    })
}

async fn answers(record: &ServerRecord) -> Answers {
    let access = ConnectionOptions {
        kubeconfig: Some(record.folder.join("kubeconfig")),
        // Which context is the current one there is for whoever uses the file.
        context: Some(CONTEXT.to_owned()),
        namespace: None,
    };
    let reader = match ClusterReader::connect(&access).await {
        Ok(reader) => reader,
        Err(error) => {
            let ready = Err(error.to_string());
            return Answers { ready, nodes: None, pods: None, namespaces: None };
        }
    };
    let ready = match http::Request::get("/readyz").body(Vec::new()) {
        Ok(request) => reader.client().request_text(request).await.map(|_| ()),
        Err(error) => Err(kube::Error::HttpError(error)),
    };
    Answers {
        ready: ready.map_err(|error| error.to_string()),
        nodes: count(&reader, "nodes").await,
        pods: count(&reader, "pods").await,
        namespaces: count(&reader, "namespaces").await,
    }
}

/// How many objects of a kind there are: one is fetched, and the rest is told.
async fn count(reader: &ClusterReader, plural: &str) -> Option<u64> {
    let request = http::Request::get(format!("/api/v1/{plural}?limit=1"))
        .header(
            http::header::ACCEPT,
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        )
        .body(Vec::new())
        .ok()?;
    let list: Value = reader.client().request(request).await.ok()?;
    let here = list.get("items").and_then(Value::as_array).map_or(0, Vec::len);
    let rest = list.pointer("/metadata/remainingItemCount").and_then(Value::as_u64);
    Some(u64::try_from(here).unwrap_or_default() + rest.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_as_people_say_them() {
        for (seconds, said) in
            [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7_200, "2 h"), (200_000, "2 days")]
        {
            assert_eq!(age(Duration::from_secs(seconds)), said);
        }
    }
}
