//! Rows of the group autoscaling.
//!
//! Only v2 is served: v1 needs a conversion of every metric into annotations and back.

use tenure_machinery::kind::{Kind, StatusMeta};

use super::row::row;
use crate::autoscaler::AutoscalerRules;

/// `autoscaling`.
pub(super) fn rows() -> Vec<Kind> {
    vec![
        row(
            ("autoscaling", "v2"),
            "HorizontalPodAutoscaler",
            "horizontalpodautoscalers",
            "api.autoscaling.v2.HorizontalPodAutoscaler",
            AutoscalerRules,
        )
        .short(&["hpa"])
        .category("all")
        .counted()
        .status("HorizontalPodAutoscaler", StatusMeta::Open)
        .done(),
    ]
}
