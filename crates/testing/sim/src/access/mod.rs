//! Access: random roles, bindings, users and request lines, decided by the parts of the server and by an obvious
//! model that shares no code with them.
//!
//! ```text
//!   request line ──► System: RequestInfo ──► Rbac      ──► yes or no
//!                └─► Model:  its own reading ──► every rule of every binding ──► yes or no
//!   write of a role or binding by somebody ──► System and Model: may they?
//!                └─► if so: does anybody now hold what the writer did not?
//! ```
//!
//! The system is a value, so that a test can put a fault into it and see it found.

mod draw;
mod line;
mod model;
mod system;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use tenure_kinds::builtin;
use tenure_machinery::kind::Verbs;

use crate::random::Random;
pub use draw::Draw;
pub use model::{Model, ModelAttributes, ModelBinding, ModelRole, ModelRule, RbacObject};
pub use system::{Real, System};

/// How many decisions one world sees.
pub const DECISIONS_EACH: u64 = 2_000;
/// One in so many steps is a write by somebody, judged.
const WRITE_EVERY: usize = 12;
/// One in so many steps is a change by somebody who may do everything.
const CHANGE_EVERY: usize = 20;
/// How many requests are tried before and after a write that was let through.
const PROBES: usize = 12;

/// A user with groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// The name.
    pub user: String,
    /// All groups.
    pub groups: Vec<String>,
}

/// One request, as far as access is concerned.
#[derive(Clone, Debug)]
pub struct SimulatedRequest {
    /// Such as `GET`.
    pub method: String,
    /// Path and query as they stand on the request line.
    pub target: String,
    /// Whether its body is an applied configuration.
    pub applies: bool,
    /// Whether what it names exists.
    pub exists: bool,
}

/// A write of a role or binding by somebody.
#[derive(Clone, Debug)]
pub struct RbacWrite {
    /// What stands.
    pub old: Option<RbacObject>,
    /// What it becomes.
    pub new: RbacObject,
}

/// A decision in which the system and the model differ, or that lets a right slip.
#[derive(Clone, Debug)]
pub struct AccessFailure {
    /// The seed.
    pub seed: u64,
    /// What was wrong.
    pub what: String,
    /// The roles and bindings of that moment.
    pub world: Vec<String>,
}

/// What was decided about.
#[derive(Clone, Debug, Default)]
pub struct AccessCoverage {
    /// Which of the offered ones, by their place.
    pub requests: BTreeSet<usize>,
    /// How many decisions there were.
    pub decisions: u64,
    /// How many of them allowed something.
    pub allowed: u64,
    /// How many were about creating by updating, and about writes of roles and bindings.
    pub creations: u64,
    /// See `creations`.
    pub writes: u64,
}

impl AccessCoverage {
    /// Takes in what another run has seen.
    pub fn merge(&mut self, other: AccessCoverage) {
        self.requests.extend(other.requests);
        self.decisions += other.decisions;
        self.allowed += other.allowed;
        self.creations += other.creations;
        self.writes += other.writes;
    }

    /// What of the built-in resources, their subresources and verbs was never asked about.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let rows = OFFERED.iter().enumerate().filter(|(place, _)| !self.requests.contains(place));
        let line = |(_, (group, resource, below, verb)): (usize, &ResourceVerb)| {
            format!("{verb} {resource}.{group}/{below}")
        };
        rows.map(line).collect()
    }
}

/// Group, resource, subresource and verb.
type ResourceVerb = (String, String, String, String);

/// Every built-in resource and subresource with every verb it offers, sorted.
static OFFERED: LazyLock<Vec<ResourceVerb>> = LazyLock::new(offered);

fn offered() -> Vec<ResourceVerb> {
    let mut rows = Vec::new();
    for kind in builtin() {
        let of = |below: &str, verb: &str| {
            (kind.group.to_string(), kind.plural.to_string(), below.to_owned(), verb.to_owned())
        };
        let verbs: &[&str] = match kind.verbs {
            Verbs::CreateOnly => &["create"],
            Verbs::NoDeleteCollection => {
                &["create", "delete", "get", "list", "patch", "update", "watch"]
            }
            _ => {
                &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
            }
        };
        rows.extend(verbs.iter().map(|verb| of("", verb)));
        for below in &kind.subresources {
            rows.extend(below.verbs.iter().map(|verb| of(below.name, verb)));
        }
    }
    rows.sort();
    rows.dedup();
    rows
}

/// Runs one world on the real system.
///
/// # Errors
/// A decision went wrong.
pub fn try_seed(seed: u64, decisions: u64) -> Result<AccessCoverage, Box<AccessFailure>> {
    try_system(seed, decisions, &mut Real::default())
}

/// Runs one world on a system that has not seen anything yet.
///
/// # Errors
/// A decision went wrong.
pub fn try_system(
    seed: u64,
    decisions: u64,
    system: &mut impl System,
) -> Result<AccessCoverage, Box<AccessFailure>> {
    let mut run = AccessSimulation {
        draw: Draw::new(Random::new(seed)),
        model: Model::default(),
        system,
        seen: AccessCoverage::default(),
    };
    run.live(decisions)
        .map_err(|what| Box::new(AccessFailure { seed, what, world: run.model.lines() }))?;
    Ok(run.seen)
}

struct AccessSimulation<'a, S> {
    draw: Draw,
    model: Model,
    system: &'a mut S,
    seen: AccessCoverage,
}

impl<S: System> AccessSimulation<'_, S> {
    fn live(&mut self, decisions: u64) -> Result<(), String> {
        for _ in 0..self.draw.between(15, 30) {
            let stored = self.draw.stored(&self.model);
            self.put(&stored);
        }
        while self.seen.decisions < decisions {
            if self.draw.once_in(CHANGE_EVERY) {
                self.change();
            } else if self.draw.once_in(WRITE_EVERY) {
                self.write()?;
            } else {
                self.request()?;
            }
        }
        Ok(())
    }

    fn put(&mut self, stored: &RbacObject) {
        self.model.put(stored.clone());
        self.system.put(stored);
    }

    /// Somebody who may do everything changes something.
    fn change(&mut self) {
        match self.draw.one_of(&self.model) {
            Some(gone) if self.draw.once_in(5) => {
                self.model.remove(&gone);
                self.system.remove(&gone);
            }
            _ => {
                let stored = self.draw.stored(&self.model);
                self.put(&stored);
            }
        }
    }

    fn request(&mut self) -> Result<(), String> {
        let (person, request) = (self.draw.person(), self.draw.request());
        let read = self.system.attributes(&request.method, &request.target);
        let meant = line::attributes(&request.method, &request.target);
        self.note(&meant);
        if read != meant {
            return Err(format!("{request:?} is read as {read:?} and means {meant:?}"));
        }
        let decided = self.system.decide(&person, &request);
        let (wanted, creates) = self.model.decide(&person, &request);
        self.seen.creations += u64::from(creates);
        self.compare(decided, wanted, || format!("{person:?} {request:?} ({meant:?})"))
    }

    fn note(&mut self, requests: &ModelAttributes) {
        let ModelAttributes::Resource { verb, group, resource, subresource, .. } = requests else {
            return;
        };
        let wanted = [group, resource, subresource, verb];
        let found = OFFERED.binary_search_by(|(group, resource, below, verb)| {
            [group, resource, below, verb].cmp(&wanted)
        });
        self.seen.requests.extend(found);
    }

    fn compare(
        &mut self,
        decided: bool,
        wanted: bool,
        about: impl FnOnce() -> String,
    ) -> Result<(), String> {
        self.seen.decisions += 1;
        self.seen.allowed += u64::from(decided);
        if decided == wanted {
            return Ok(());
        }
        let word = |yes: bool| if yes { "allowed" } else { "refused" };
        Err(format!("{} is {}, but must be {}", about(), word(decided), word(wanted)))
    }

    /// Somebody writes a role or a binding.
    fn write(&mut self) -> Result<(), String> {
        let (person, change) = (self.draw.person(), self.draw.change(&self.model));
        let decided = self.system.may_write(&person, &change);
        let wanted = self.model.may_write(&person, &change);
        self.seen.writes += 1;
        self.compare(decided, wanted, || format!("{person:?} {change:?}"))?;
        if !decided {
            return Ok(());
        }
        let probes: Vec<(Person, ModelAttributes)> =
            (0..PROBES).map(|_| (self.draw.person(), self.draw.probe(&self.model))).collect();
        let may = |model: &Model| -> Vec<bool> {
            probes.iter().map(|(person, requests)| model.allows(person, requests)).collect()
        };
        let before = may(&self.model);
        let licensed = self.model.is_licensed(&person, &change);
        let held: Vec<bool> =
            probes.iter().map(|(_, requests)| self.model.allows(&person, requests)).collect();
        self.put(&change.new);
        let after = may(&self.model);
        for (place, (gainer, requests)) in probes.iter().enumerate() {
            let gained = after[place] && !before[place];
            if gained && !held[place] && !licensed {
                return Err(format!(
                    "{person:?} hands {gainer:?} what they do not hold, {requests:?}, by {change:?}"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
