//! What `/metrics` says of the program itself: which it is, and which features it was started with.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::system::BuildFacts;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FeatureLabels {
    name: &'static str,
    stage: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct BuildLabels {
    major: &'static str,
    minor: &'static str,
    git_version: String,
    git_commit: &'static str,
    git_tree_state: &'static str,
    build_date: &'static str,
    go_version: &'static str,
    compiler: &'static str,
    platform: String,
}

/// Which features are on.
#[derive(Debug, Default)]
pub(super) struct FeatureGauges(Family<FeatureLabels, Gauge>);

impl FeatureGauges {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "kubernetes_feature_enabled",
            "Whether a feature gate is on; the stage is BETA for those that are on by default",
            self.0.clone(),
        );
        let build = Family::<BuildLabels, Gauge>::default();
        let facts = BuildFacts::of_this_program();
        build
            .get_or_create(&BuildLabels {
                major: facts.major,
                minor: facts.minor,
                git_version: facts.version,
                git_commit: facts.commit,
                git_tree_state: facts.tree_state,
                build_date: facts.date,
                go_version: facts.go_version,
                compiler: facts.compiler,
                platform: facts.platform,
            })
            .set(1);
        registry.register(
            "kubernetes_build_info",
            "Which program this is, as `/version` says it; always 1",
            build,
        );
    }

    /// Notes whether a gate is on.
    pub(super) fn set(&self, name: &'static str, by_default: bool, on: bool) {
        let stage = if by_default { "BETA" } else { "ALPHA" };
        self.0.get_or_create(&FeatureLabels { name, stage }).set(i64::from(on));
    }
}
