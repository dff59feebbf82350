//! What other API servers store in a namespace that is going (api-server R131h).
//!
//! ```text
//!   APIServices with a service ──► their resources ──► their objects in the namespace ──► deleted there
//!                                    └─ not answered ─┴─► a condition, and the namespace waits
//! ```
//!
//! Everything is asked of the API of this server, which passes it on.

use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;
use tenure_machinery::ObjectExt;

use super::{GONE_OR_MOVED, Remaining};
use crate::api_question::{ApiQuestions, Fact, escaped};
use crate::controller::Pass;
use crate::intent::ControllerIntent;
use crate::remote_kinds;

/// How many objects of one resource are asked for at once.
const PAGE: usize = 500;

/// What is elsewhere.
#[derive(Default)]
pub(super) struct Elsewhere {
    /// Deletions of what is there and not going yet.
    pub(super) deletions: Vec<ControllerIntent>,
    /// What could not be found out, in the words of the condition.
    pub(super) undiscovered: Vec<String>,
    /// What could not be listed.
    pub(super) failures: Vec<String>,
}

impl Elsewhere {
    /// Whether everything was answered.
    pub(super) fn is_known(&self) -> bool {
        self.undiscovered.is_empty() && self.failures.is_empty()
    }
}

/// Looks at what is elsewhere, and counts it with what remains; gives back what is still to be asked.
pub(super) fn look(
    pass: &Pass<'_>,
    remaining: &mut Remaining,
) -> Result<Elsewhere, BTreeSet<String>> {
    let asked = ApiQuestions::new(pass.answers);
    let mut found = Elsewhere::default();
    for group in remote_kinds::groups(pass.view) {
        let mut seen = BTreeSet::new();
        for version in &group.versions {
            let path = format!("/apis/{}/{version}", group.name);
            let Ok(answer) = asked.read(&path) else { continue };
            match answer {
                Err(refusal) => {
                    found
                        .undiscovered
                        .push(format!("{}/{version}: {}", group.name, refusal.message));
                }
                Ok(list) => {
                    for kind in remote_kinds::deletable(list).filter(|kind| kind.namespaced) {
                        if seen.insert(kind.plural.to_owned()) {
                            // What is still to be asked is asked with the others.
                            let at = (group.name.as_str(), kind.plural);
                            let _ = objects(&asked, pass, &path, at, &mut found, remaining);
                        }
                    }
                }
            }
        }
    }
    let questions = asked.into_questions();
    if questions.is_empty() { Ok(found) } else { Err(questions) }
}

/// Counts the objects of one resource, and deletes those that are not going.
fn objects(
    asked: &ApiQuestions<'_>,
    pass: &Pass<'_>,
    version: &str,
    (group, plural): (&str, &str),
    found: &mut Elsewhere,
    remaining: &mut Remaining,
) -> Fact<()> {
    let at = format!("{version}/namespaces/{}/{}", pass.key.name, escaped(plural));
    let list = match asked.read(&format!("{at}?limit={PAGE}"))? {
        Ok(list) => list,
        Err(refusal) if refusal.code == 404 => return Ok(()),
        Err(refusal) => {
            found.failures.push(format!("{plural}.{group}: {}", refusal.message));
            return Ok(());
        }
    };
    for object in list.list_at(&["items"]).iter().filter_map(Value::as_object) {
        *remaining.objects.entry(format!("{plural}.{group}")).or_default() += 1;
        for finalizer in object.list_at(&["metadata", "finalizers"]) {
            let finalizer = finalizer.as_str().unwrap_or_default().to_owned();
            *remaining.finalizers.entry(finalizer).or_default() += 1;
        }
        if object.str_at(&["metadata", "deletionTimestamp"]).is_none() {
            let path = format!("{at}/{}", escaped(object.name()));
            let uid = object.str_at(&["metadata", "uid"]).unwrap_or_default().to_owned();
            let first = found.deletions.is_empty();
            let delete = ControllerIntent::remove_elsewhere(path, object.name().to_owned(), uid);
            found.deletions.push(delete.independent().together(!first).forgiving(GONE_OR_MOVED));
        }
    }
    Ok(())
}
