//! How fast a size may change (HA5): what was recommended lately, how the size changed lately, and the policies
//! of a behavior.

use alloc::vec::Vec;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

/// How long the highest recommendation holds before the size shrinks, unless a behavior says so.
const DOWN_WINDOW_SECONDS: i64 = 300;
/// Without a behavior the size is at most doubled at once, or raised to this.
const UP_LIMIT_MIN: i32 = 4;

/// What is remembered of an autoscaler; lost with the host, as upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AutoscalerMemory {
    /// What was recommended, and when.
    recommendations: Vec<(Timestamp, i32)>,
    /// By how much the size grew, and when.
    grown: Vec<(Timestamp, i32)>,
    /// By how much it shrank, and when.
    shrunk: Vec<(Timestamp, i32)>,
    /// When the metrics were last looked at.
    pub(super) looked: Option<Timestamp>,
    /// The generation that was looked at then.
    pub(super) generation: i64,
}

/// The sizes around which is decided.
#[derive(Clone, Copy)]
pub(super) struct SizeBounds {
    pub(super) current: i32,
    pub(super) min: i32,
    pub(super) max: i32,
}

/// A size with the reason for it and words about that.
pub(super) type LimitedSize = (i32, &'static str, &'static str);

const HIGHER: &str = "recent recommendations were higher than current one, applying the highest recent recommendation";
const LOWER: &str =
    "recent recommendations were lower than current one, applying the lowest recent recommendation";
const GROWS_TOO_FAST: &str =
    "the desired replica count is increasing faster than the maximum scale rate";
const SHRINKS_TOO_FAST: &str =
    "the desired replica count is decreasing faster than the maximum scale rate";
const TOO_MANY: &str = "the desired replica count is more than the maximum replica count";
const TOO_FEW: &str = "the desired replica count is less than the minimum replica count";
const WITHIN: &str = "the desired count is within the acceptable range";

fn before(now: Timestamp, seconds: i64) -> Timestamp {
    now.saturating_sub(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN)
}

impl AutoscalerMemory {
    /// The size that is counts as a recommendation until there is another.
    pub(super) fn begin(&mut self, current: i32, now: Timestamp) {
        if self.recommendations.is_empty() {
            self.recommendations.push((now, current));
        }
    }

    /// The size was changed.
    pub(super) fn resized(&mut self, behavior: &Object, from: i32, to: i32, now: Timestamp) {
        let (events, rules) = match to > from {
            true => (&mut self.grown, "scaleUp"),
            false => (&mut self.shrunk, "scaleDown"),
        };
        let policies = behavior.list_at(&[rules, "policies"]).iter();
        let periods = policies.filter_map(|policy| policy.get("periodSeconds")?.as_i64());
        let longest = periods.max().unwrap_or_default();
        events.retain(|(at, _)| *at >= before(now, longest));
        events.push((now, (to - from).abs()));
    }

    /// The size was not changed after all.
    pub(super) fn refused(&mut self) {
        let looked = self.looked;
        for events in [&mut self.grown, &mut self.shrunk] {
            events.retain(|(at, _)| Some(*at) != looked);
        }
    }

    fn recommend(&mut self, size: i32, now: Timestamp, keep_seconds: i64) {
        self.recommendations.retain(|(at, _)| *at >= before(now, keep_seconds));
        self.recommendations.push((now, size));
    }

    /// Without a behavior: the highest of what was recommended lately.
    pub(super) fn stabilized(&mut self, wanted: i32, now: Timestamp) -> i32 {
        let cutoff = before(now, DOWN_WINDOW_SECONDS);
        let recent = self.recommendations.iter().filter(|(at, _)| *at >= cutoff);
        let highest = recent.map(|(_, size)| *size).chain([wanted]).max().unwrap_or(wanted);
        self.recommend(wanted, now, DOWN_WINDOW_SECONDS);
        highest
    }

    /// With a behavior: between the lowest of what was recommended within the window of growing and the highest
    /// within that of shrinking.
    pub(super) fn stabilized_by(
        &mut self,
        behavior: &Object,
        current: i32,
        wanted: i32,
        now: Timestamp,
    ) -> LimitedSize {
        let window = |rules, default| {
            behavior.int_at(&[rules, "stabilizationWindowSeconds"]).unwrap_or(default)
        };
        let (up, down) = (window("scaleUp", 0), window("scaleDown", DOWN_WINDOW_SECONDS));
        let within = |seconds| {
            let cutoff = before(now, seconds);
            let recent = self.recommendations.iter().filter(move |(at, _)| *at > cutoff);
            recent.map(|(_, size)| *size).chain([wanted])
        };
        let lowest = within(up).min().unwrap_or(wanted);
        let highest = within(down).max().unwrap_or(wanted);
        self.recommend(wanted, now, up.max(down));
        let size = current.max(lowest).min(highest);
        if wanted >= current {
            (size, "ScaleUpStabilized", LOWER)
        } else {
            (size, "ScaleDownStabilized", HIGHER)
        }
    }

    /// The size that the policies of a behavior allow.
    pub(super) fn limited(
        &self,
        behavior: &Object,
        wanted: i32,
        at: SizeBounds,
        now: Timestamp,
    ) -> LimitedSize {
        if wanted > at.current {
            let limit = self.policy_limit(behavior, true, at.current, now).max(at.current);
            let (most, reason, words) = if at.max > limit {
                (limit, "ScaleUpLimit", GROWS_TOO_FAST)
            } else {
                (at.max, "TooManyReplicas", TOO_MANY)
            };
            if wanted > most {
                return (most, reason, words);
            }
        } else if wanted < at.current {
            let limit = self.policy_limit(behavior, false, at.current, now).min(at.current);
            let (least, reason, words) = if at.min < limit {
                (limit, "ScaleDownLimit", SHRINKS_TOO_FAST)
            } else {
                (at.min, "TooFewReplicas", TOO_FEW)
            };
            if wanted < least {
                return (least, reason, words);
            }
        }
        (wanted, "DesiredWithinRange", WITHIN)
    }

    /// How far the policies of one direction let the size go.
    fn policy_limit(&self, behavior: &Object, grows: bool, current: i32, now: Timestamp) -> i32 {
        let rules = if grows { "scaleUp" } else { "scaleDown" };
        let select = behavior.str_at(&[rules, "selectPolicy"]).unwrap_or("Max");
        if select == "Disabled" {
            return current;
        }
        let policies = behavior.list_at(&[rules, "policies"]).iter().filter_map(Value::as_object);
        let limits = policies.map(|policy| self.one_limit(policy, grows, current, now));
        // The largest change is the highest size when growing, and the lowest when shrinking.
        let found = if grows == (select != "Min") { limits.max() } else { limits.min() };
        found.unwrap_or(current)
    }

    fn one_limit(&self, policy: &Object, grows: bool, current: i32, now: Timestamp) -> i32 {
        let cutoff = before(now, policy.int_at(&["periodSeconds"]).unwrap_or_default());
        let changed = |events: &[(Timestamp, i32)]| {
            let recent = events.iter().filter(|(at, _)| *at > cutoff);
            recent.fold(0_i32, |sum, (_, change)| sum.saturating_add(*change))
        };
        let start =
            current.saturating_sub(changed(&self.grown)).saturating_add(changed(&self.shrunk));
        let value = policy.int_at(&["value"]).and_then(|value| i32::try_from(value).ok());
        let value = value.unwrap_or_default();
        match (policy.str_at(&["type"]), grows) {
            (Some("Percent"), true) => {
                // Rounded up: a change of less than one pod would never be made.
                let grown = i64::from(start).saturating_mul(100 + i64::from(value));
                let whole = grown / 100 + i64::from(grown % 100 > 0);
                i32::try_from(whole).unwrap_or(i32::MAX)
            }
            (Some("Percent"), false) => {
                let left = i64::from(start).saturating_mul(100 - i64::from(value)) / 100;
                i32::try_from(left).unwrap_or_default()
            }
            (_, true) => start.saturating_add(value),
            (_, false) => start.saturating_sub(value),
        }
    }
}

/// Without a behavior: the size within the bounds, at most doubled at once.
pub(super) fn bounded(wanted: i32, at: SizeBounds) -> LimitedSize {
    let limit = at.current.saturating_mul(2).max(UP_LIMIT_MIN);
    let (most, reason, words) = if at.max > limit {
        (limit, "ScaleUpLimit", GROWS_TOO_FAST)
    } else {
        (at.max, "TooManyReplicas", TOO_MANY)
    };
    if wanted < at.min {
        (at.min, "TooFewReplicas", TOO_FEW)
    } else if wanted > most {
        (most, reason, words)
    } else {
        (wanted, "DesiredWithinRange", WITHIN)
    }
}

/// What is said when the size that holds is not the one that was computed, and there is no behavior.
pub(super) const DOWN_STABILIZED: (&str, &str) = ("ScaleDownStabilized", HIGHER);

#[cfg(test)]
mod tests {
    //! Rules of spec/workload-controllers.md.
    use super::*;
    use serde_json::json;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn object(value: Value) -> Object {
        value.as_object().unwrap().clone()
    }

    fn bounds(current: i32) -> SizeBounds {
        SizeBounds { current, min: 1, max: 100 }
    }

    #[test]
    fn ha5_a_size_shrinks_once_nothing_higher_was_recommended_for_five_minutes() {
        let mut memory = AutoscalerMemory::default();
        memory.begin(5, at(0));
        assert_eq!(memory.stabilized(2, at(15)), 5);
        assert_eq!(memory.stabilized(3, at(30)), 5);
        assert_eq!(memory.stabilized(2, at(301)), 3);
        assert_eq!(memory.stabilized(2, at(331)), 2);
        assert_eq!(memory.stabilized(9, at(340)), 9, "it grows at once");
    }

    #[test]
    fn ha5_windows_of_a_behavior_hold_both_directions() {
        let behavior = object(json!({
            "scaleUp": {"stabilizationWindowSeconds": 60},
            "scaleDown": {"stabilizationWindowSeconds": 120},
        }));
        let mut memory = AutoscalerMemory::default();
        memory.begin(5, at(0));
        let mut size = |wanted, seconds| memory.stabilized_by(&behavior, 5, wanted, at(seconds)).0;
        assert_eq!(size(8, 10), 5, "5 was enough a moment ago");
        assert_eq!(size(9, 65), 8);
        assert_eq!(size(3, 70), 5);
        assert_eq!(size(3, 180), 5, "9 was wanted two minutes ago");
        assert_eq!(size(3, 200), 3);
    }

    #[test]
    fn ha5_policies_bound_the_change_of_each_period() {
        let policies = json!([
            {"type": "Pods", "value": 4, "periodSeconds": 60},
            {"type": "Percent", "value": 50, "periodSeconds": 60},
        ]);
        let rules = |select: &str| {
            let rules = json!({"selectPolicy": select, "policies": policies});
            object(json!({"scaleUp": rules, "scaleDown": rules}))
        };
        let mut memory = AutoscalerMemory::default();
        let size = |memory: &AutoscalerMemory, select, wanted, current| {
            memory.limited(&rules(select), wanted, bounds(current), at(100)).0
        };
        assert_eq!(size(&memory, "Max", 90, 20), 30);
        assert_eq!(size(&memory, "Min", 90, 20), 24);
        assert_eq!(size(&memory, "Max", 1, 20), 10);
        assert_eq!(size(&memory, "Min", 1, 20), 16);
        assert_eq!(size(&memory, "Disabled", 90, 20), 20);
        assert_eq!(size(&memory, "Disabled", 1, 20), 20);
        assert_eq!(size(&memory, "Max", 90, 1), 5);
        // What was added within the period counts.
        memory.resized(&rules("Max"), 20, 24, at(90));
        assert_eq!(size(&memory, "Min", 90, 24), 24);
        assert_eq!(memory.limited(&rules("Min"), 90, bounds(24), at(160)).0, 28);
        memory.looked = Some(at(90));
        memory.refused();
        assert_eq!(size(&memory, "Min", 90, 24), 28, "it was not added after all");
    }

    #[test]
    fn ha5_without_a_behavior_a_size_is_at_most_doubled() {
        let reason = |wanted, current| {
            let (size, reason, _) = bounded(wanted, SizeBounds { current, min: 2, max: 20 });
            (size, reason)
        };
        assert_eq!(reason(9, 1), (4, "ScaleUpLimit"));
        assert_eq!(reason(19, 8), (16, "ScaleUpLimit"));
        assert_eq!(reason(30, 15), (20, "TooManyReplicas"));
        assert_eq!(reason(1, 8), (2, "TooFewReplicas"));
        assert_eq!(reason(7, 8), (7, "DesiredWithinRange"));
    }
}
