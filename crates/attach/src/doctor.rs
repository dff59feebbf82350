//! What of Tenure works on a cluster, what does not, and why (A82). Nothing is written but by [`try_downward`],
//! which removes what it made.
//!
//! ```text
//!   cluster ──► ClusterFacts ──► judge ──► DoctorReport
//! ```

mod facts;
mod trial;

use serde::Serialize;

use crate::ServerVersion;

pub use facts::{ClusterFacts, InstalledFeature, cluster_facts};
pub use trial::{TrialError, TrialOutcome, try_downward};

/// Whether something works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DoctorVerdict {
    /// It does.
    Works,
    /// It is here already, in the server itself.
    BuiltIn,
    /// It cannot be told, or needs something that cannot be seen.
    Perhaps,
    /// It does not.
    No,
}

/// What there is to say of one feature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DoctorFinding {
    /// Its name in commands.
    pub feature: &'static str,
    /// Whether it works here.
    pub verdict: DoctorVerdict,
    /// Why, a sentence each.
    pub reasons: Vec<String>,
    /// What to type next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// What there is to say of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DoctorReport {
    /// What the server says that it is.
    pub server: String,
    /// Each feature.
    pub findings: Vec<DoctorFinding>,
}

impl DoctorReport {
    /// Whether anything does not work.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.findings.iter().all(|finding| finding.verdict != DoctorVerdict::No)
    }
}

impl std::fmt::Display for DoctorReport {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(out, "server: {}", self.server)?;
        for DoctorFinding { feature, verdict, reasons, next } in &self.findings {
            let verdict = match verdict {
                DoctorVerdict::Works => "works",
                DoctorVerdict::BuiltIn => "built in",
                DoctorVerdict::Perhaps => "perhaps",
                DoctorVerdict::No => "does not work",
            };
            writeln!(out, "{feature}: {verdict}")?;
            for reason in reasons {
                writeln!(out, "  - {reason}")?;
            }
            if let Some(next) = next {
                writeln!(out, "  next: {next}")?;
            }
        }
        Ok(())
    }
}

/// What facts mean.
#[must_use]
pub fn judge(facts: &ClusterFacts) -> DoctorReport {
    let findings = vec![downward(facts), synthesis(facts), webhook(facts)];
    DoctorReport { server: facts.says.clone(), findings }
}

/// A finding in the making: what stands in the way decides.
#[derive(Default)]
struct Obstacles {
    no: Vec<String>,
    perhaps: Vec<String>,
    notes: Vec<String>,
}

impl Obstacles {
    fn version(&mut self, facts: &ClusterFacts, needs: ServerVersion, what: &str) {
        match facts.version {
            Some(version) if version < needs => {
                self.no.push(format!("the server is of {version}; {what} needs {needs}"));
            }
            Some(_) => {}
            None => self.perhaps.push(format!("the server says no version; {what} needs {needs}")),
        }
    }

    fn served(&mut self, facts: &ClusterFacts, plurals: &[&str]) {
        for plural in plurals {
            if !facts.served.contains(*plural) {
                self.no.push(format!("the server does not serve {plural}"));
            }
        }
    }

    fn rights(&mut self, facts: &ClusterFacts, feature: &str) {
        let denied = facts.denied.iter().filter(|(of, _)| of == feature);
        self.perhaps.extend(denied.map(|(_, right)| format!("you may not {right}")));
    }

    fn installed(&mut self, facts: &ClusterFacts, feature: &str) -> bool {
        let found = facts.installed.iter().find(|one| one.feature == feature);
        if let Some(InstalledFeature { version, .. }) = found {
            let ours = env!("CARGO_PKG_VERSION");
            self.notes.push(match version == ours {
                true => format!("installed, by {version}"),
                false => {
                    format!("installed by {version}; this is {ours}: install it again to change it")
                }
            });
        }
        found.is_some()
    }

    fn finding(self, feature: &'static str, next: Option<String>) -> DoctorFinding {
        let verdict = match (self.no.is_empty(), self.perhaps.is_empty()) {
            (false, _) => DoctorVerdict::No,
            (true, false) => DoctorVerdict::Perhaps,
            (true, true) => DoctorVerdict::Works,
        };
        let reasons = self.no.into_iter().chain(self.perhaps).chain(self.notes).collect();
        DoctorFinding {
            feature,
            verdict,
            reasons,
            next: next.filter(|_| verdict != DoctorVerdict::No),
        }
    }
}

fn downward(facts: &ClusterFacts) -> DoctorFinding {
    let mut found = Obstacles::default();
    let is_installed = found.installed(facts, "downward");
    if facts.native_path == Some(true) {
        let mut reasons = vec!["the server takes `metadata.ownerReferences` itself".to_owned()];
        reasons.extend(found.notes);
        let next = is_installed.then(|| "tenure uninstall downward".to_owned());
        return DoctorFinding {
            feature: "downward",
            verdict: DoctorVerdict::BuiltIn,
            reasons,
            next,
        };
    }
    found.version(facts, ServerVersion::MUTATING_POLICIES, "MutatingAdmissionPolicy");
    found.served(facts, &["mutatingadmissionpolicies", "validatingadmissionpolicies"]);
    found.rights(facts, "downward");
    let next = match is_installed {
        true => "tenure uninstall downward --dry-run",
        false => "tenure doctor --try downward && tenure install downward | kubectl apply -f -",
    };
    found.finding("downward", Some(next.to_owned()))
}

fn synthesis(facts: &ClusterFacts) -> DoctorFinding {
    let mut found = Obstacles::default();
    let is_installed = found.installed(facts, "access");
    if facts.native_kinds {
        let reasons =
            vec!["the server has the three kinds, and decides by them, itself".to_owned()];
        let verdict = DoctorVerdict::BuiltIn;
        return DoctorFinding { feature: "access", verdict, reasons, next: None };
    }
    found.version(facts, ServerVersion::VALIDATING_POLICIES, "ValidatingAdmissionPolicy");
    found.served(facts, &["validatingadmissionpolicies", "customresourcedefinitions"]);
    found.rights(facts, "access");
    found.notes.push("revocation: within 2 s; watches that are open stay open".to_owned());
    let next = match is_installed {
        true => "tenure access doctor",
        false => "tenure install access --consumer NAME | kubectl apply --server-side -f -",
    };
    found.finding("access", Some(next.to_owned()))
}

fn webhook(facts: &ClusterFacts) -> DoctorFinding {
    let mut found = Obstacles::default();
    let what = "match conditions of authorization webhooks";
    found.version(facts, ServerVersion::AUTHORIZATION_CONFIG, what);
    found.perhaps.push(match facts.authorization_config {
        Some(true) => "the server follows an --authorization-config; whether it is yours cannot be seen from here",
        Some(false) => "the server follows no --authorization-config: you need its flags",
        None => "you need the flags of the server, which cannot be seen from here",
    }.to_owned());
    let is_cached =
        facts.version.is_some_and(|at| at < ServerVersion::AUTHORIZATION_CACHE_SWITCHES);
    found.notes.push(match is_cached {
        true => {
            "revocation: within 5 s, what the server remembers; watches that are open stay open"
                .to_owned()
        }
        false => "revocation: within 1 s; watches that are open stay open".to_owned(),
    });
    let next = "tenure install access --mode webhook --authorization-config --user NAME";
    found.finding("access --mode webhook", Some(next.to_owned()))
}

#[cfg(test)]
mod tests;
