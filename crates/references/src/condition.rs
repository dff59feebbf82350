//! What a controller writes into the status of an origin whose reference it may not follow (R116).
//! The words are those of Gateway API. They never depend on whether the target exists (R131).

use serde_json::{Value, json};
use tenure_reference::{RefQuery, Verdict};

/// A condition for the status of the origin. The grant has no status: its author is another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// Why, in one word.
    pub reason: &'static str,
    /// Why, in a sentence.
    pub message: String,
}

impl Condition {
    /// The type of the condition.
    pub const TYPE: &'static str = "ResolvedRefs";

    /// The condition that a verdict on one reference makes.
    ///
    /// Of several references of one origin the first that is not `True` is the one to show.
    #[must_use]
    pub fn of(query: &RefQuery<'_>, verdict: &Verdict<'_>) -> Condition {
        let (status, reason, what) = match verdict {
            Verdict::Local { .. } | Verdict::Granted { .. } => {
                ("True", "ResolvedRefs", "may be used")
            }
            Verdict::NotPermitted(_) => ("False", "RefNotPermitted", "may not be used"),
            Verdict::NotAReference => ("False", "RefNotPermitted", "is not referenced"),
            Verdict::UnknownOrigin => ("Unknown", "Pending", "is not known yet to be usable"),
        };
        let message = format!("{} {what} here for {}", query.target, query.purpose);
        Condition { status, reason, message }
    }

    /// The condition as it stands in a status. The caller knows the generation it looked at, and when the
    /// status last changed.
    #[must_use]
    pub fn to_json(&self, observed_generation: i64, last_transition_time: &str) -> Value {
        json!({
            "type": Condition::TYPE,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "observedGeneration": observed_generation,
            "lastTransitionTime": last_transition_time,
        })
    }
}
