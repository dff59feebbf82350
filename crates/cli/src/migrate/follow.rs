//! `tenure migrate reference-grants --cluster --write --follow`: grants are kept in step with the old ones until
//! somebody ends it. What has to be done is the library's to say.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use tenure_references::Strategy;
use tenure_references::live::{Follow, MigrationEvent};
use tenure_references::migrate::{Converted, MADE_FROM, MigrationPlan, SNAPSHOT};

use super::warn;
use super::write::{GrantWriteOutcome, place, refused, taken, write};
use crate::report::CommandError;
use crate::say;
use crate::up::Signals;

/// When a step that was refused is tried again, unless something changes before.
const REFUSED_PAUSE: Duration = Duration::from_secs(30);
/// The same where somebody was faster: the watch will say what there is now.
const STALE_PAUSE: Duration = Duration::from_millis(200);
/// The same where the cluster did not answer.
const SILENT_PAUSE: Duration = Duration::from_secs(1);

/// Keeps grants in step until a signal comes.
pub(super) async fn run(
    client: kube::Client,
    bundled: Vec<Strategy>,
) -> Result<ExitCode, CommandError> {
    let mut signals = Signals::new()?;
    let follow = Follow::start(client.clone(), bundled, tenure_host::expressions());
    let mut work = MigrationFollower { client, follow, open: BTreeSet::new(), in_step: false };
    tokio::select! {
        () = work.run() => {}
        () = signals.next() => {}
    }
    Ok(ExitCode::SUCCESS)
}

struct MigrationFollower {
    client: kube::Client,
    follow: Follow,
    /// What was said and is still so: it is not said again.
    open: BTreeSet<String>,
    in_step: bool,
}

impl MigrationFollower {
    async fn run(&mut self) {
        loop {
            match self.follow.next().await {
                MigrationEvent::Plan(plan, sources) => self.carry_out(plan, &sources).await,
                MigrationEvent::Unread(what) => warn(&format!("not read, and tried again: {what}")),
            }
        }
    }

    async fn carry_out(&mut self, plan: MigrationPlan, sources: &[(String, Converted)]) {
        let mut open: BTreeSet<String> = notes(sources).collect();
        open.extend(plan.taken.iter().map(|place| taken(place)));
        let mut whole = true;
        for step in &plan.steps {
            let (namespace, name) = place(step.grant());
            match write(&self.client, step).await {
                Ok(GrantWriteOutcome::Done(now)) => {
                    say(format!("{step}\n").as_bytes());
                    match now {
                        Some(grant) => self.follow.wrote(grant),
                        None => self.follow.deleted(namespace, name),
                    }
                    continue;
                }
                Ok(GrantWriteOutcome::Refused(why)) => {
                    open.insert(refused(step, &why));
                    self.follow.again_in(REFUSED_PAUSE);
                }
                Ok(GrantWriteOutcome::Stale) => self.follow.again_in(STALE_PAUSE),
                Err(error) => {
                    open.insert(format!("the cluster does not answer: {error}"));
                    self.follow.again_in(SILENT_PAUSE);
                    whole = false;
                    break;
                }
            }
            whole = false;
        }
        for line in open.difference(&self.open) {
            warn(line);
        }
        self.open = open;
        if whole && !self.in_step {
            self.in_step = true;
            let old = match sources.len() {
                1 => "1 old grant".to_owned(),
                count => format!("{count} old grants"),
            };
            warn(&format!(
                "in step with {old}; only grants with the annotation {MADE_FROM} are changed"
            ));
        }
    }
}

/// What there is to say about sources. That an entry means every name is what this command is for.
fn notes(sources: &[(String, Converted)]) -> impl Iterator<Item = String> {
    sources.iter().flat_map(|(place, converted)| {
        let notes = converted.notes.iter().filter(|note| note.code != SNAPSHOT);
        notes.map(move |note| format!("{place}: {note}"))
    })
}
