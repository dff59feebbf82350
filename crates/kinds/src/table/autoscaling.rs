//! Rows of the group autoscaling.
//!
//! Objects are stored as v2, whose row comes first; v1 is another view of them.

use tenure_machinery::kind::{Kind, StatusMeta};

use super::row::row;
use crate::autoscaler::AutoscalerRules;
use crate::autoscaler_v1::AutoscalerV1Rules;

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
        .acted_on_by("its controller, where somebody serves metrics")
        .short(&["hpa"])
        .category("all")
        .counted()
        .status("HorizontalPodAutoscaler", StatusMeta::Open)
        .done(),
        row(
            ("autoscaling", "v1"),
            "HorizontalPodAutoscaler",
            "horizontalpodautoscalers",
            "api.autoscaling.v1.HorizontalPodAutoscaler",
            AutoscalerV1Rules,
        )
        .acted_on_by("its controller, where somebody serves metrics")
        .short(&["hpa"])
        .category("all")
        .counted()
        .status("HorizontalPodAutoscaler", StatusMeta::Open)
        .done(),
    ]
}
