//! The numbers of a rollout: how many pods more, how many fewer (DP8, DP11).
//!
//! All arithmetic is on `i64`, so that no size a user writes can overflow it.

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use crate::share::{self, Round};

/// Whether old pods must be gone before new ones come.
pub(super) fn recreates(deployment: &Object) -> bool {
    deployment.str_at(&["spec", "strategy", "type"]) == Some("Recreate")
}

/// How far a rolling update may go above and below the wanted size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slack {
    /// Pods above the wanted size.
    pub(super) surge: i64,
    /// Pods below it.
    pub(super) unavailable: i64,
}

impl Slack {
    /// The slack of a Deployment; none unless it rolls.
    pub(super) fn of(deployment: &Object, wanted: i64) -> Slack {
        if recreates(deployment) {
            return Slack { surge: 0, unavailable: 0 };
        }
        let limit = |name| deployment.at(&["spec", "strategy", "rollingUpdate", name]);
        Slack::new(limit("maxSurge"), limit("maxUnavailable"), wanted)
    }

    fn new(surge: Option<&Value>, unavailable: Option<&Value>, wanted: i64) -> Slack {
        let surge = scaled(surge, wanted, Round::Up);
        let mut unavailable = scaled(unavailable, wanted, Round::Down);
        if surge == 0 && unavailable == 0 {
            // Percentages of a small size may both vanish; the rollout must still move.
            unavailable = 1;
        }
        // Nothing can be missing of nothing.
        Slack { surge, unavailable: unavailable.min(wanted) }
    }
}

/// A number, or a percentage of the wanted size; nothing when it is neither.
fn scaled(limit: Option<&Value>, wanted: i64, round: Round) -> i64 {
    limit.and_then(|limit| share::of(limit, wanted, round)).unwrap_or_default().max(0)
}

/// The size of a new ReplicaSet while others hold `total` pods, its own included (DP8).
pub(super) fn grown(own: i64, total: i64, wanted: i64, surge: i64) -> i64 {
    let limit = wanted.saturating_add(surge);
    if total >= limit { own } else { own + (limit - total).min(wanted - own) }
}

/// By how much one ReplicaSet changes when the Deployment's limit changes (DP11).
pub(super) fn part(own: i64, limit: i64, limit_before: i64, wanted: i64) -> i64 {
    if wanted == 0 {
        return -own;
    }
    if limit_before <= 0 {
        return 0;
    }
    // Rounded to the nearest, halves up.
    let twice = own.saturating_mul(limit).saturating_mul(2);
    twice.saturating_add(limit_before) / limit_before.saturating_mul(2) - own
}

#[cfg(test)]
mod tests {
    //! Rules of spec/workload-controllers.md.
    use super::{Slack, grown, part};
    use serde_json::{Value, json};

    fn slack(surge: Value, unavailable: Value, wanted: i64) -> (i64, i64) {
        let slack = Slack::new(Some(&surge), Some(&unavailable), wanted);
        (slack.surge, slack.unavailable)
    }

    #[test]
    fn dp8_percentages_round_apart() {
        assert_eq!(slack(json!("25%"), json!("25%"), 10), (3, 2));
        assert_eq!(slack(json!("25%"), json!("25%"), 1), (1, 0));
        assert_eq!(slack(json!("1%"), json!("1%"), 2), (1, 0));
        assert_eq!(slack(json!("0%"), json!("1%"), 2), (0, 1), "both vanish");
        assert_eq!(slack(json!(0), json!(0), 5), (0, 1));
        assert_eq!(slack(json!(1), json!(7), 5), (1, 5), "no more than there are");
        assert_eq!(slack(json!("25%"), json!("25%"), 0), (0, 0));
        assert_eq!(slack(json!("100%"), json!(2), i64::from(i32::MAX)), (2_147_483_647, 2));
    }

    #[test]
    fn dp8_new_size_fills_the_room_that_is_left() {
        assert_eq!(grown(0, 10, 10, 3), 3);
        assert_eq!(grown(0, 13, 10, 3), 0);
        assert_eq!(grown(0, 0, 10, 3), 10, "never above the wanted size");
        assert_eq!(grown(8, 10, 10, 3), 10);
        assert_eq!(grown(4, 20, 10, 3), 4);
    }

    #[test]
    fn dp11_shares_are_rounded_to_the_nearest() {
        assert_eq!(part(10, 20, 10, 20), 10);
        assert_eq!(part(5, 13, 26, 10), -2, "2.5 rounds up to 3");
        assert_eq!(part(3, 10, 0, 10), 0, "nothing is known of before");
        assert_eq!(part(3, 0, 10, 0), -3);
    }
}
