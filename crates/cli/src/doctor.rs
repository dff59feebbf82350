//! `tenure doctor`: what works on a cluster that is already there. What is asked and judged is decided elsewhere.

use std::process::ExitCode;

use tenure_attach::doctor::{DoctorReport, TrialOutcome, cluster_facts, judge, try_downward};
use tenure_attach::{ApiError, server_version};
use tenure_inspect::render;

use crate::flags::{DoctorFlags, OutputFormat, TrialFlag};
use crate::inspect::{block_on, connect};
use crate::report::{CommandError, NO};
use crate::say;

pub(crate) fn run(flags: &DoctorFlags) -> Result<ExitCode, CommandError> {
    block_on(async {
        let reader = connect(&flags.reply.cluster, None).await?;
        match flags.trial {
            None => {
                let facts = cluster_facts(reader.client()).await;
                let facts = facts.map_err(|error| unread("the cluster cannot be asked", &error))?;
                Ok(tell(&judge(&facts), flags.reply.output))
            }
            Some(TrialFlag::Downward) => {
                let version = server_version(reader.client()).await;
                let version = version
                    .map_err(|error| unread("the server does not say its version", &error))?;
                let version = version.ok_or_else(|| {
                    CommandError::new("the server does not say its version").unanswered()
                })?;
                let tried = try_downward(reader.client(), version).await.map_err(|error| {
                    let what = error.to_string();
                    match error.request() {
                        Some(request) => unread(&what, request),
                        None => CommandError::new(what).absent(),
                    }
                })?;
                Ok(tell_trial(&tried, flags.reply.output))
            }
        }
    })
}

fn tell(report: &DoctorReport, output: OutputFormat) -> ExitCode {
    let text = match output {
        OutputFormat::Text => report.to_string(),
        OutputFormat::Json => render::json(report),
    };
    say(text.as_bytes());
    if report.is_well() { ExitCode::SUCCESS } else { ExitCode::from(NO) }
}

fn tell_trial(tried: &[TrialOutcome], output: OutputFormat) -> ExitCode {
    let text = match output {
        OutputFormat::Text => tried
            .iter()
            .map(|one| match &one.problem {
                None => format!("{}: works\n", one.kind),
                Some(why) => format!("{}: {why}\n", one.kind),
            })
            .collect(),
        OutputFormat::Json => {
            let rows: Vec<_> = tried
                .iter()
                .map(|one| serde_json::json!({ "kind": one.kind, "problem": one.problem }))
                .collect();
            render::json(&rows)
        }
    };
    say(text.as_bytes());
    let works = tried.iter().all(|one| one.problem.is_none());
    if works { ExitCode::SUCCESS } else { ExitCode::from(NO) }
}

fn unread(what: &str, error: &ApiError) -> CommandError {
    CommandError::new(what).cause(error).cause(&error.reason()).unanswered()
}
