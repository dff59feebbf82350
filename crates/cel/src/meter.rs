//! The meter that every step of a run pays into, and the budget that runs share.
//!
//! Costs follow upstream's counting. Where upstream counts one for work that grows with the data, the
//! growth is charged on top: a unit stands for about fifty nanoseconds, and so a spent budget is
//! also spent time.

use std::sync::Arc;

use crate::error::EvalError;
use crate::library::regexes::CompiledRegex;

/// The most one call may cost.
pub const CALL_COST_MAX: u64 = 1_000_000;
/// The most all calls for one object may cost together.
pub const OBJECT_COST_MAX: u64 = 10_000_000;
/// The most match conditions of one policy or webhook may cost together.
pub const MATCH_COST_MAX: u64 = 2_500_000;
/// The most one expression may be estimated to cost when it is registered.
pub const EXPRESSION_ESTIMATE_MAX: u64 = 10_000_000;
/// The most all expressions of one definition may be estimated to cost.
pub const DEFINITION_ESTIMATE_MAX: u64 = 100_000_000;

/// What several calls may still spend together.
#[derive(Clone, Debug)]
pub struct CostBudget {
    remaining: u64,
    call_max: u64,
    /// Checks of rights that may be paid by the time they take.
    cheap_checks: u64,
}

impl CostBudget {
    /// The budget for all rules of one object.
    #[must_use]
    pub fn for_object() -> CostBudget {
        CostBudget::new(OBJECT_COST_MAX)
    }

    /// A budget of so many units, of which one call may spend [`CALL_COST_MAX`].
    #[must_use]
    pub fn new(units: u64) -> CostBudget {
        CostBudget { remaining: units, call_max: CALL_COST_MAX, cheap_checks: 0 }
    }

    /// A budget for a run that may be broken off and made again: so many checks of rights are paid by the time
    /// they take, which is far less than what upstream counts for them.
    #[must_use]
    pub fn hasty(units: u64, cheap_checks: u64) -> CostBudget {
        CostBudget { cheap_checks, ..CostBudget::new(units) }
    }

    /// What is left.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Takes away units for work around a run.
    pub fn spend(&mut self, units: u64) {
        self.remaining = self.remaining.saturating_sub(units);
    }

    pub(crate) fn meter(&self) -> Meter {
        let limit = self.remaining.min(self.call_max);
        let cheap_checks = self.cheap_checks.min(CHECKS_PER_CALL);
        Meter {
            limit,
            left: limit,
            work: 0,
            cheap_checks,
            given: cheap_checks,
            patterns: Vec::new(),
        }
    }

    pub(crate) fn settle(&mut self, meter: &Meter) {
        self.remaining = self.remaining.saturating_sub(meter.spent());
        let checks = meter.given.saturating_sub(meter.cheap_checks);
        self.cheap_checks = self.cheap_checks.saturating_sub(checks);
    }
}

/// Counts one call.
pub(crate) struct Meter {
    limit: u64,
    left: u64,
    /// Work not yet worth a unit.
    work: u64,
    /// Checks of rights that are left to be paid by time, and how many there were.
    cheap_checks: u64,
    given: u64,
    /// Patterns made while running, so that each is paid for once.
    pub(crate) patterns: Vec<(Arc<str>, Arc<CompiledRegex>)>,
}

/// How many bytes are looked at for one unit.
const WORK_PER_UNIT: u64 = 256;
/// How many elements of a new list cost little.
const ELEMENTS_CHEAP: u64 = 16;
/// What a check of rights costs, so that one call can afford two.
pub(crate) const CHECK_COST: u64 = 350_000;
const CHECKS_PER_CALL: u64 = CALL_COST_MAX / CHECK_COST;
/// What a check of rights takes, in units.
const CHECK_TIME: u64 = 200;
/// What making a struct costs.
pub(crate) const STRUCT_COST: u64 = 40;
/// What visiting one value is worth in bytes.
pub(crate) const VISIT: u64 = 32;

impl Meter {
    pub(crate) fn spent(&self) -> u64 {
        self.limit.saturating_sub(self.left)
    }

    pub(crate) fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        match self.left.checked_sub(cost) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(EvalError::overspent())
            }
        }
    }

    /// Pays for a check of rights.
    pub(crate) fn check_access(&mut self) -> Result<(), EvalError> {
        match self.cheap_checks.checked_sub(1) {
            Some(left) => {
                self.cheap_checks = left;
                self.charge(CHECK_TIME)
            }
            None => self.charge(CHECK_COST),
        }
    }

    /// Pays for looking at bytes.
    pub(crate) fn work(&mut self, bytes: u64) -> Result<(), EvalError> {
        self.work = self.work.saturating_add(bytes);
        if self.work < WORK_PER_UNIT {
            return Ok(());
        }
        let units = self.work / WORK_PER_UNIT;
        self.work %= WORK_PER_UNIT;
        self.charge(units)
    }

    /// Pays for elements put into a new list; a few are part of the call.
    pub(crate) fn elements(&mut self, count: u64) -> Result<(), EvalError> {
        if count > ELEMENTS_CHEAP {
            self.charge(count)
        } else {
            self.work(count.saturating_mul(VISIT))
        }
    }

    pub(crate) fn work_len(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.work(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

/// A size times a factor, rounded up.
pub(crate) fn scaled(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}
