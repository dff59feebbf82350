//! HorizontalPodAutoscalers: what is measured, the size that follows from it, and who is told (HA1–HA8).
//!
//! ```text
//!   scale of the target ──┐
//!   metrics, as the API ──┼──► a size for each metric ──► the largest ──► behavior, bounds ──► Scale
//!     serves them         │                                                     └──► status, events
//!   what was said before ─┘
//! ```
//!
//! Who measures is not decided here: paths of the API are asked for, and whoever answers there is believed.

mod behavior;
mod calculator;
mod compute;
mod look;
mod metrics;
mod target;

use core::time::Duration;

use tenure_machinery::ObjectExt;

use crate::controller::{Controller, ObjectChange, Pass, ReconcileKey, ReconcileResult};
use crate::resource::BuiltinResource;
use crate::view::ClusterView;
use crate::wake;

pub use behavior::AutoscalerMemory;

const AUTOSCALERS: BuiltinResource = BuiltinResource::HorizontalPodAutoscalers;
/// How often the metrics are looked at.
const SYNC_PERIOD: Duration = Duration::from_secs(15);

/// The controller of HorizontalPodAutoscalers.
pub struct HorizontalAutoscalers;

impl Controller for HorizontalAutoscalers {
    fn name(&self) -> &'static str {
        "horizontal-pod-autoscaler-controller"
    }
    fn alias(&self) -> &'static str {
        "horizontalpodautoscaling"
    }
    fn component(&self) -> &'static str {
        "horizontal-pod-autoscaler"
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[AUTOSCALERS]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        _: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        // A status that was just written is no reason to look again (HA1).
        let same = match (change.before, change.after) {
            (Some(before), Some(after)) => before.map_at(&["spec"]) == after.map_at(&["spec"]),
            _ => false,
        };
        if !same {
            wake::itself(change, wake);
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        look::reconcile(pass)
    }
}
