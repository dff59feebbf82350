//! What `/metrics` says, under the names that dashboards for upstream's server use (api-server R46).
//!
//! Label values are bounded: verbs and status codes come from fixed lists, and resources beyond
//! [`RESOURCES_MAX`] share one name. The handles of a resource are looked up once per request by two
//! borrowed strings; nothing is allocated after the first request of its kind.

mod build;
mod store;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, RwLock};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use tenure_supervise::{ProcessCollector, TaskRestartCollector};
use tenure_world::WorldHandle;

use crate::access::AuthorizerChain;
use crate::admit::DynamicAdmission;
use crate::conversion::Conversions;
use crate::fair::Shares;
use crate::reference::ReferenceMetrics;

use build::FeatureGauges;
use store::StoreGauges;

/// The media type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How many distinct resources get their own label value.
pub const RESOURCES_MAX: usize = 2_000;

/// The label value for everything past a bound.
const OTHER: &str = "other";

/// Verbs as upstream's metrics spell them; the last one stands for any other.
const VERBS: [&str; 11] = [
    "GET",
    "LIST",
    "WATCH",
    "POST",
    "PUT",
    "PATCH",
    "APPLY",
    "DELETE",
    "DELETECOLLECTION",
    "CONNECT",
    OTHER,
];

/// Status codes that get their own label value; the last one stands for any other.
const CODES: [(u16, &str); 24] = [
    (101, "101"),
    (200, "200"),
    (201, "201"),
    (202, "202"),
    (301, "301"),
    (304, "304"),
    (400, "400"),
    (401, "401"),
    (403, "403"),
    (404, "404"),
    (405, "405"),
    (406, "406"),
    (408, "408"),
    (409, "409"),
    (410, "410"),
    (413, "413"),
    (415, "415"),
    (422, "422"),
    (429, "429"),
    (500, "500"),
    (501, "501"),
    (503, "503"),
    (504, "504"),
    (0, OTHER),
];

/// Upstream's bounds, in seconds, so that quantiles compare.
const DURATION_BOUNDS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    verb: &'static str,
    group: Arc<str>,
    resource: Arc<str>,
    code: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct VerbLabels {
    verb: &'static str,
    group: Arc<str>,
    resource: Arc<str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResourceLabels {
    group: Arc<str>,
    resource: Arc<str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StoredLabels {
    resource: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StoreLabels {
    storage_cluster_id: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KeptLabels {
    of: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabels {
    request_kind: &'static str,
}

/// The counters of one server.
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    durations: Family<VerbLabels, Histogram, fn() -> Histogram>,
    long_running: Family<VerbLabels, Gauge>,
    watch_events: Family<ResourceLabels, Counter>,
    stored: Family<StoredLabels, Gauge>,
    store_bytes: Family<StoreLabels, Gauge>,
    store_quota: Gauge,
    kept: Family<KeptLabels, Gauge>,
    mutating: Gauge,
    read_only: Gauge,
    store: StoreGauges,
    features: FeatureGauges,
    // INVARIANT: `known` counts the resources in the map and never passes RESOURCES_MAX + 1.
    resources: RwLock<MetricsIndex>,
}

#[derive(Default)]
struct MetricsIndex {
    by_group: HashMap<Box<str>, HashMap<Box<str>, Arc<ResourceMetrics>>>,
    known: usize,
}

/// The handles of one resource, made when first used.
struct ResourceMetrics {
    group: Arc<str>,
    name: Arc<str>,
    // Boxed one by one: most resources see two or three verbs in their life.
    verbs: [OnceLock<Box<VerbMetrics>>; VERBS.len()],
    watch_events: OnceLock<Counter>,
}

#[derive(Default)]
struct VerbMetrics {
    requests: [OnceLock<Counter>; CODES.len()],
    duration: OnceLock<Histogram>,
    long_running: OnceLock<Gauge>,
}

/// A request that is being served; dropping it ends the count.
#[must_use = "the count ends when this is dropped"]
pub struct InFlightGuard(Gauge);

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

impl Metrics {
    /// Metrics at zero.
    #[must_use]
    pub fn new() -> Metrics {
        let in_flight = Family::<KindLabels, Gauge>::default();
        let metrics = Metrics {
            registry: Registry::default(),
            requests: Family::default(),
            durations: Family::new_with_constructor(new_histogram),
            long_running: Family::default(),
            watch_events: Family::default(),
            stored: Family::default(),
            store_bytes: Family::default(),
            store_quota: Gauge::default(),
            kept: Family::default(),
            mutating: in_flight.get_or_create_owned(&KindLabels { request_kind: "mutating" }),
            read_only: in_flight.get_or_create_owned(&KindLabels { request_kind: "readOnly" }),
            store: StoreGauges::default(),
            features: FeatureGauges::default(),
            resources: RwLock::default(),
        };
        metrics.registered(in_flight)
    }

    /// Shows how many audit lines were written, and how many were lost.
    #[must_use]
    pub fn with_audit(mut self, written: Counter, lost: Counter) -> Metrics {
        self.registry.register("apiserver_audit_event", "Audit lines written", written);
        self.registry.register(
            "apiserver_audit_error",
            "Audit lines lost: the queue was full, or the file could not be written",
            lost,
        );
        self
    }

    /// Shows what commits to this world cost.
    #[must_use]
    pub(crate) fn with_commits(mut self, world: &WorldHandle) -> Metrics {
        store::register_commits(&mut self.registry, world);
        self
    }

    /// Shows what is counted of references.
    #[must_use]
    pub(crate) fn with_references(mut self, tally: &ReferenceMetrics) -> Metrics {
        tally.register(&mut self.registry);
        self
    }

    /// Shows what calls of webhooks came to.
    #[must_use]
    pub(crate) fn with_admission(mut self, admission: &DynamicAdmission) -> Metrics {
        admission.webhooks.metrics().register(&mut self.registry);
        self
    }

    /// Shows what authorizers decided.
    #[must_use]
    pub(crate) fn with_authorization(mut self, access: &AuthorizerChain) -> Metrics {
        access.metrics().register(&mut self.registry);
        self
    }

    /// Shows what conversions of custom objects came to.
    #[must_use]
    pub(crate) fn with_conversions(mut self, conversions: &Conversions) -> Metrics {
        conversions.metrics().register(&mut self.registry);
        self
    }

    /// Shows how much runs, waits and is refused.
    #[must_use]
    pub(crate) fn with_shares(mut self, shares: &Shares) -> Metrics {
        shares.register(&mut self.registry);
        self
    }

    fn registered(mut self, in_flight: Family<KindLabels, Gauge>) -> Metrics {
        let registry = &mut self.registry;
        // The encoder adds `_total` to counters and the unit to the others.
        registry.register(
            "apiserver_request",
            "Requests answered, by verb, resource and status code",
            self.requests.clone(),
        );
        registry.register_with_unit(
            "apiserver_request_duration",
            "Time from the request head to the response head, watches excluded",
            Unit::Seconds,
            self.durations.clone(),
        );
        registry.register(
            "apiserver_current_inflight_requests",
            "Short requests that are being served now",
            in_flight,
        );
        registry.register(
            "apiserver_longrunning_requests",
            "Watches and other long requests that are open now",
            self.long_running.clone(),
        );
        registry.register(
            "apiserver_watch_events",
            "Events sent to watching clients",
            self.watch_events.clone(),
        );
        registry.register(
            "apiserver_storage_objects",
            "Objects stored, by resource",
            self.stored.clone(),
        );
        registry.register_with_unit(
            "apiserver_storage_size",
            "Bytes of all stored objects, with what is kept beside them, as the quota counts them",
            Unit::Bytes,
            self.store_bytes.clone(),
        );
        registry.register_with_unit(
            "tenure_store_quota",
            "Bytes that all stored objects may have together; 0 for no bound",
            Unit::Bytes,
            self.store_quota.clone(),
        );
        registry.register(
            "tenure_kept_entries",
            "How much is kept in memory under names; clients cannot make it grow without bound",
            self.kept.clone(),
        );
        self.store.register(registry);
        self.features.register(registry);
        registry.register_collector(Box::new(ProcessCollector));
        registry.register_collector(Box::new(TaskRestartCollector));
        self
    }

    /// Counts an answered request; watches count here too, but their duration is left out.
    ///
    /// `verb` is the verb of the request as authorization sees it (`create`, `list`, …) or an HTTP
    /// method; `resource` is empty for paths that name none, such as `/readyz`, and should be
    /// empty for resources that are not served: a client could otherwise use up the label values.
    pub fn observe(&self, verb: &str, group: &str, resource: &str, code: u16, took: Duration) {
        let verb = verb_index(verb);
        let resource = self.resource(group, resource);
        let Some(handles) = resource.verb(verb) else { return };
        let code = code_index(code);
        if let Some(counter) = handles.requests.get(code) {
            counter.get_or_init(|| self.new_counter(&resource, verb, code)).inc();
        }
        if VERBS.get(verb) != Some(&"WATCH") {
            let labels = || resource.verb_labels(verb);
            let make = || self.durations.get_or_create_owned(&labels());
            handles.duration.get_or_init(make).observe(took.as_secs_f64());
        }
    }

    /// Counts a short request as being served until the answer is dropped.
    pub fn in_flight(&self, mutating: bool) -> InFlightGuard {
        running(if mutating { &self.mutating } else { &self.read_only })
    }

    /// Counts a watch or another long request as open until the answer is dropped.
    pub fn long_running(&self, verb: &str, group: &str, resource: &str) -> InFlightGuard {
        let verb = verb_index(verb);
        let resource = self.resource(group, resource);
        let make = || self.long_running.get_or_create_owned(&resource.verb_labels(verb));
        match resource.verb(verb) {
            Some(handles) => running(handles.long_running.get_or_init(make)),
            None => running(&make()),
        }
    }

    /// The counter of events sent to watches of one resource; a watch asks once and keeps it.
    #[must_use]
    pub fn watch_events(&self, group: &str, resource: &str) -> Counter {
        let resource = self.resource(group, resource);
        let labels =
            || ResourceLabels { group: resource.group.clone(), resource: resource.name.clone() };
        let make = || self.watch_events.get_or_create_owned(&labels());
        resource.watch_events.get_or_init(make).clone()
    }

    /// Sets how many objects of one resource are stored; call it just before [`Metrics::render`].
    pub fn set_storage_objects(&self, group: &str, resource: &str, count: usize) {
        let resource = match group {
            "" => resource.to_owned(),
            _ => format!("{resource}.{group}"),
        };
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.stored.get_or_create(&StoredLabels { resource }).set(count);
    }

    /// Sets how many bytes are stored, of how many; call it just before [`Metrics::render`].
    pub fn set_storage_bytes(&self, bytes: u64, quota: Option<u64>) {
        let number = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let labels = StoreLabels { storage_cluster_id: "tenure" };
        self.store_bytes.get_or_create(&labels).set(number(bytes));
        self.store_quota.set(number(quota.unwrap_or_default()));
    }

    /// Looks up how large the store is and how far it reaches; call it just before [`Metrics::render`].
    pub async fn measure_store(&self, world: &WorldHandle) {
        self.store.measure(world).await;
    }

    /// Shows whether a feature gate is on, and whether it is by default.
    pub fn set_feature(&self, name: &'static str, by_default: bool, on: bool) {
        self.features.set(name, by_default, on);
    }

    /// Sets how many entries of something are kept; call it just before [`Metrics::render`].
    pub fn set_kept(&self, of: &'static str, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.kept.get_or_create(&KeptLabels { of }).set(count);
    }

    /// How many resources have label values of their own.
    #[must_use]
    pub fn resources_known(&self) -> usize {
        self.resources.read().unwrap_or_else(|poison| poison.into_inner()).known
    }

    /// Forgets the counts of stored objects, so that resources which no longer exist vanish.
    pub fn clear_storage_objects(&self) {
        self.stored.clear();
    }

    /// Everything as OpenMetrics text, see [`CONTENT_TYPE`].
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }

    fn new_counter(&self, resource: &ResourceMetrics, verb: usize, code: usize) -> Counter {
        let VerbLabels { verb, group, resource } = resource.verb_labels(verb);
        let code = CODES.get(code).map_or(OTHER, |(_, label)| label);
        self.requests.get_or_create_owned(&RequestLabels { verb, group, resource, code })
    }

    fn resource(&self, group: &str, name: &str) -> Arc<ResourceMetrics> {
        {
            // Poison is no danger here: an entry is inserted whole or not at all.
            let known = self.resources.read().unwrap_or_else(|poison| poison.into_inner());
            if let Some(found) = known.get(group, name) {
                return Arc::clone(found);
            }
            if known.known >= RESOURCES_MAX
                && let Some(other) = known.get(OTHER, OTHER)
            {
                return Arc::clone(other);
            }
        }
        self.resources.write().unwrap_or_else(|poison| poison.into_inner()).insert(group, name)
    }
}

impl MetricsIndex {
    fn get(&self, group: &str, name: &str) -> Option<&Arc<ResourceMetrics>> {
        self.by_group.get(group)?.get(name)
    }

    fn insert(&mut self, group: &str, name: &str) -> Arc<ResourceMetrics> {
        // Another thread may have been faster.
        if let Some(found) = self.get(group, name) {
            return Arc::clone(found);
        }
        let (group, name) = if self.known < RESOURCES_MAX { (group, name) } else { (OTHER, OTHER) };
        let of_group = self.by_group.entry(group.into()).or_default();
        let made = of_group.entry(name.into()).or_insert_with(|| {
            self.known += 1;
            Arc::new(ResourceMetrics::new(group, name))
        });
        Arc::clone(made)
    }
}

impl ResourceMetrics {
    fn new(group: &str, name: &str) -> ResourceMetrics {
        ResourceMetrics {
            group: group.into(),
            name: name.into(),
            verbs: Default::default(),
            watch_events: OnceLock::new(),
        }
    }

    fn verb(&self, verb: usize) -> Option<&VerbMetrics> {
        self.verbs.get(verb).map(|handles| &**handles.get_or_init(Box::default))
    }

    fn verb_labels(&self, verb: usize) -> VerbLabels {
        VerbLabels {
            verb: VERBS.get(verb).copied().unwrap_or(OTHER),
            group: self.group.clone(),
            resource: self.name.clone(),
        }
    }
}

fn new_histogram() -> Histogram {
    Histogram::new(DURATION_BOUNDS)
}

fn running(gauge: &Gauge) -> InFlightGuard {
    gauge.inc();
    InFlightGuard(gauge.clone())
}

/// The place of a verb in [`VERBS`].
fn verb_index(verb: &str) -> usize {
    let name = match verb {
        "get" | "HEAD" => "GET",
        "list" => "LIST",
        "watch" => "WATCH",
        "create" => "POST",
        "update" => "PUT",
        "patch" => "PATCH",
        "apply" => "APPLY",
        "delete" => "DELETE",
        "deletecollection" => "DELETECOLLECTION",
        "connect" => "CONNECT",
        method => method,
    };
    VERBS.iter().position(|known| *known == name).unwrap_or(VERBS.len() - 1)
}

/// The place of a status code in [`CODES`].
fn code_index(code: u16) -> usize {
    CODES.iter().position(|(known, _)| *known == code).unwrap_or(CODES.len() - 1)
}

#[cfg(test)]
mod tests {
    //! Rule numbers are those of spec/api-server.md.

    use super::*;

    #[test]
    fn r46_names_are_those_of_upstream() {
        let metrics = Metrics::new();
        metrics.observe("create", "apps", "deployments", 201, Duration::from_millis(30));
        metrics.observe("GET", "", "", 200, Duration::ZERO);
        metrics.watch_events("", "pods").inc_by(3);
        metrics.set_storage_objects("apps", "deployments", 7);
        let _short = metrics.in_flight(true);
        let _watch = metrics.long_running("watch", "", "pods");
        let text = metrics.render();
        for line in [
            r#"apiserver_request_total{verb="POST",group="apps",resource="deployments",code="201"} 1"#,
            r#"apiserver_request_total{verb="GET",group="",resource="",code="200"} 1"#,
            r#"apiserver_request_duration_seconds_bucket{le="0.05",verb="POST",group="apps",resource="deployments"} 1"#,
            r#"apiserver_request_duration_seconds_bucket{le="0.025",verb="POST",group="apps",resource="deployments"} 0"#,
            r#"apiserver_watch_events_total{group="",resource="pods"} 3"#,
            r#"apiserver_storage_objects{resource="deployments.apps"} 7"#,
            r#"apiserver_current_inflight_requests{request_kind="mutating"} 1"#,
            r#"apiserver_current_inflight_requests{request_kind="readOnly"} 0"#,
            r#"apiserver_longrunning_requests{verb="WATCH",group="",resource="pods"} 1"#,
        ] {
            assert!(text.lines().any(|found| found == line), "missing {line} in\n{text}");
        }
        let memory =
            text.lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes "));
        assert!(memory.unwrap().parse::<u64>().unwrap() > 100_000);
    }

    #[test]
    fn running_counts_end_with_the_request() {
        let metrics = Metrics::new();
        drop(metrics.in_flight(false));
        drop(metrics.long_running("watch", "", "pods"));
        let text = metrics.render();
        assert!(text.contains(r#"inflight_requests{request_kind="readOnly"} 0"#), "{text}");
        assert!(text.contains(r#"longrunning_requests{verb="WATCH",group="",resource="pods"} 0"#));
    }

    #[test]
    fn watches_have_no_duration() {
        let metrics = Metrics::new();
        metrics.observe("watch", "", "pods", 200, Duration::from_secs(300));
        let text = metrics.render();
        assert!(text.contains(r#"request_total{verb="WATCH""#), "{text}");
        assert!(!text.contains("request_duration_seconds_count"), "{text}");
    }

    #[test]
    fn labels_are_bounded() {
        let metrics = Metrics::new();
        for number in 0..RESOURCES_MAX + 50 {
            metrics.observe("get", "", &format!("r{number}"), 200, Duration::ZERO);
        }
        metrics.observe("brew", "", "r0", 418, Duration::ZERO);
        let text = metrics.render();
        let requests = text.lines().filter(|line| line.starts_with("apiserver_request_total{"));
        assert_eq!(requests.count(), RESOURCES_MAX + 2);
        assert!(text.contains(r#"{verb="GET",group="other",resource="other",code="200"} 50"#));
        assert!(text.contains(r#"{verb="other",group="",resource="r0",code="other"} 1"#));
    }
}
