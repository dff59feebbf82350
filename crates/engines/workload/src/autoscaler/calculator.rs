//! From measurements to a size (HA4): the ratio of what is used to what is wanted, over the pods that count.
//!
//! Pods that are not ready, or were not measured, count as what moves the size least. Floating point as
//! upstream, so that sizes are the same to the last pod.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tenure_machinery::quantity::Quantity;
use tenure_machinery::{Object, ObjectExt};

use super::metrics::{PodMetric, PodMetrics};
use crate::api_question::{Fact, MissingFact};
use crate::view::VersionedObject;
use crate::{condition, owner, pod, time};

/// How long a pod may need all its CPU to start.
const CPU_INITIALIZATION: SignedDuration = SignedDuration::from_secs(300);
/// How long after its start a pod may have become unready for the first time.
const INITIAL_READINESS: SignedDuration = SignedDuration::from_secs(30);
/// How far a ratio may be from 1 without consequence, unless the behavior says so.
const TOLERANCE: f64 = 0.1;

/// How far a ratio may be from 1 without consequence.
#[derive(Clone, Copy, Debug)]
pub(super) struct RatioTolerance {
    down: f64,
    up: f64,
}

impl RatioTolerance {
    /// What an autoscaler says, or 10 %.
    pub(super) fn of(autoscaler: &Object) -> RatioTolerance {
        let said = |direction| {
            let value = autoscaler.at(&["spec", "behavior", direction, "tolerance"])?;
            Quantity::from_value(value).map(|tolerance| tolerance.milli() as f64 / 1000.0)
        };
        RatioTolerance {
            down: said("scaleDown").unwrap_or(TOLERANCE),
            up: said("scaleUp").unwrap_or(TOLERANCE),
        }
    }

    fn is_within(self, ratio: f64) -> bool {
        (1.0 - self.down) <= ratio && ratio <= (1.0 + self.up)
    }
}

/// A size, and what is used on average, in thousandths.
pub(super) struct SizeProposal {
    pub(super) replicas: i32,
    pub(super) average_milli: i64,
    /// In percent of what is requested, where that was asked for.
    pub(super) utilization: Option<i32>,
}

/// The whole number at or above; what is too large is the largest there is.
fn ceiling(number: f64) -> i32 {
    let whole = number as i64;
    let whole = if (whole as f64) < number { whole.saturating_add(1) } else { whole };
    i32::try_from(whole).unwrap_or(if whole < 0 { i32::MIN } else { i32::MAX })
}

/// What there is to decide from.
pub(super) struct Measured<'a> {
    pub(super) pods: &'a [VersionedObject],
    pub(super) metrics: PodMetrics,
    pub(super) current: i32,
    pub(super) tolerance: RatioTolerance,
    pub(super) now: Timestamp,
}

/// Which pods count, and as what.
#[derive(Default)]
struct PodGroups {
    ready: i32,
    unready: BTreeSet<String>,
    missing: BTreeSet<String>,
    ignored: BTreeSet<String>,
}

fn groups(measured: &Measured<'_>, resource: &str) -> PodGroups {
    let mut groups = PodGroups::default();
    for pod in measured.pods {
        let name = pod.name().to_string();
        if owner::deleting(pod) || pod::phase(pod) == "Failed" {
            groups.ignored.insert(name);
        } else if pod::phase(pod) == "Pending" {
            groups.unready.insert(name);
        } else if let Some(metric) = measured.metrics.get(&name) {
            if resource == "cpu" && is_starting(pod, metric, measured.now) {
                groups.unready.insert(name);
            } else {
                groups.ready += 1;
            }
        } else {
            groups.missing.insert(name);
        }
    }
    groups
}

/// Whether what a pod uses of the CPU says more about its start than about its work.
fn is_starting(pod: &Object, metric: &PodMetric, now: Timestamp) -> bool {
    let ready = condition::find(pod.list_at(&["status", "conditions"]), "Ready");
    let (Some(ready), Some(started)) = (ready, time::at(pod, &["status", "startTime"])) else {
        return true;
    };
    let since = time::at(ready, &["lastTransitionTime"]).unwrap_or(Timestamp::MIN);
    let unready = ready.str_at(&["status"]) == Some("False");
    let after = |time: Timestamp, wait| time.saturating_add(wait).unwrap_or(Timestamp::MAX);
    if after(started, CPU_INITIALIZATION) > now {
        // Not ready, or not measured for a whole window since it became so.
        let measured = metric.at.unwrap_or(Timestamp::MIN);
        return unready || measured < after(since, metric.window);
    }
    unready && after(started, INITIAL_READINESS) > since
}

impl Measured<'_> {
    fn count(&mut self, resource: &str) -> Fact<PodGroups> {
        if self.pods.is_empty() {
            let why = "no pods returned by selector while calculating replica count";
            return Err(MissingFact::failed(why));
        }
        let groups = groups(self, resource);
        self.metrics
            .retain(|name, _| !groups.ignored.contains(name) && !groups.unready.contains(name));
        if self.metrics.is_empty() {
            let why = "did not receive metrics for targeted pods (pods might be unready)";
            return Err(MissingFact::failed(why));
        }
        Ok(groups)
    }

    /// The size for a share of what the pods request.
    pub(super) fn for_utilization(
        mut self,
        resource: &str,
        container: Option<&str>,
        target: i32,
    ) -> Fact<SizeProposal> {
        let groups = self.count(resource)?;
        let requests = requests(self.pods, resource, container)?;
        let (ratio, utilization, average_milli) =
            utilization_ratio(&self.metrics, &requests, target)?;
        let full = i64::from(target.max(100));
        let assumed =
            |name: &str| requests.get(name).copied().unwrap_or_default().saturating_mul(full) / 100;
        let replicas = self.settle(groups, ratio, assumed, |metrics| {
            Ok(utilization_ratio(metrics, &requests, target)?.0)
        })?;
        Ok(SizeProposal { replicas, average_milli, utilization: Some(utilization) })
    }

    /// The size for so much used by each pod, in thousandths.
    pub(super) fn for_average(mut self, resource: &str, target: i64) -> Fact<SizeProposal> {
        let groups = self.count(resource)?;
        let ratio = |metrics: &PodMetrics| {
            let average = average(metrics);
            (average as f64 / target as f64, average)
        };
        let (first, average_milli) = ratio(&self.metrics);
        let replicas = self.settle(groups, first, |_| target, |metrics| Ok(ratio(metrics).0))?;
        Ok(SizeProposal { replicas, average_milli, utilization: None })
    }

    /// The size that follows from a ratio; pods without a measurement count as using `assumed` when less is
    /// wanted, and as idle when more is.
    fn settle(
        mut self,
        groups: PodGroups,
        ratio: f64,
        assumed: impl Fn(&str) -> i64,
        again: impl Fn(&PodMetrics) -> Fact<f64>,
    ) -> Fact<i32> {
        let grows_with_unready = !groups.unready.is_empty() && ratio > 1.0;
        if !grows_with_unready && groups.missing.is_empty() {
            let within = self.tolerance.is_within(ratio);
            let size = ceiling(ratio * f64::from(groups.ready));
            return Ok(if within { self.current } else { size });
        }
        for name in groups.missing {
            if ratio < 1.0 {
                let metric = PodMetric::assumed(assumed(&name));
                self.metrics.insert(name, metric);
            } else if ratio > 1.0 {
                self.metrics.insert(name, PodMetric::assumed(0));
            }
        }
        if grows_with_unready {
            self.metrics
                .extend(groups.unready.into_iter().map(|name| (name, PodMetric::assumed(0))));
        }
        let new = again(&self.metrics)?;
        let turns = (ratio < 1.0 && new > 1.0) || (ratio > 1.0 && new < 1.0);
        if self.tolerance.is_within(new) || turns {
            return Ok(self.current);
        }
        let size = ceiling(new * self.metrics.len() as f64);
        let turns = (new < 1.0 && size > self.current) || (new > 1.0 && size < self.current);
        Ok(if turns { self.current } else { size })
    }
}

fn average(metrics: &PodMetrics) -> i64 {
    let sum = metrics.values().fold(0_i64, |sum, metric| sum.saturating_add(metric.milli));
    let count = i64::try_from(metrics.len()).unwrap_or(i64::MAX);
    sum.checked_div(count).unwrap_or_default()
}

/// The ratio to a target in percent, the percentage, and the average in thousandths.
fn utilization_ratio(
    metrics: &PodMetrics,
    requests: &BTreeMap<String, i64>,
    target: i32,
) -> Fact<(f64, i32, i64)> {
    let (mut used, mut requested, mut count) = (0_i64, 0_i64, 0_i64);
    for (name, metric) in metrics {
        let Some(request) = requests.get(name) else { continue };
        used = used.saturating_add(metric.milli);
        requested = requested.saturating_add(*request);
        count += 1;
    }
    let percent = used.saturating_mul(100).checked_div(requested);
    let Some(percent) = percent else {
        return Err(MissingFact::failed("no metrics returned matched known pods"));
    };
    let percent = i32::try_from(percent).unwrap_or(i32::MAX);
    let average = used.checked_div(count).unwrap_or_default();
    Ok((f64::from(percent) / f64::from(target), percent, average))
}

/// What each pod requests, or one container of each, in thousandths.
fn requests(
    pods: &[VersionedObject],
    resource: &str,
    container: Option<&str>,
) -> Fact<BTreeMap<String, i64>> {
    let mut requests = BTreeMap::new();
    for pod in pods {
        requests.insert(pod.name().to_string(), request(pod, resource, container)?);
    }
    Ok(requests)
}

fn request(pod: &Object, resource: &str, container: Option<&str>) -> Fact<i64> {
    let milli = |object: &Object, path: &[&str]| {
        object.at(path).and_then(Quantity::from_value).map(Quantity::milli)
    };
    let own = pod.map_at(&["spec", "resources", "requests"]).filter(|own| !own.is_empty());
    if container.is_none()
        && let Some(own) = own
    {
        // What the pod says as a whole counts for what it names; of the rest, what its containers say.
        let said = milli(own, &[resource]);
        let each =
            containers(pod).filter_map(|one| milli(one, &["resources", "requests", resource]));
        let sum = each.reduce(i64::saturating_add);
        return said.or(sum).ok_or_else(|| {
            let name = pod.name();
            MissingFact::Failed(format!("missing pod-level request for {resource} in Pod {name}"))
        });
    }
    containers_request(pod, resource, container)
}

/// The containers that run at the same time.
fn containers(pod: &Object) -> impl Iterator<Item = &Object> {
    let list = |name| pod.list_at(&["spec", name]).iter().filter_map(Value::as_object);
    let sidecar = |init: &&Object| init.str_at(&["restartPolicy"]) == Some("Always");
    list("containers").chain(list("initContainers").filter(sidecar))
}

fn containers_request(pod: &Object, resource: &str, container: Option<&str>) -> Fact<i64> {
    let mut sum = 0_i64;
    for one in containers(pod) {
        if container.is_some() && one.str_at(&["name"]) != container {
            continue;
        }
        let request = one.at(&["resources", "requests", resource]);
        let Some(request) = request.and_then(Quantity::from_value) else {
            let name = one.str_at(&["name"]).unwrap_or_default();
            return Err(MissingFact::Failed(format!(
                "missing request for {resource} in container {name} of Pod {}",
                pod.name()
            )));
        };
        sum = sum.saturating_add(request.milli());
        if container.is_some() {
            return Ok(sum);
        }
    }
    match container {
        Some(name) => {
            Err(MissingFact::Failed(format!("container {name} not found in Pod {}", pod.name())))
        }
        None => Ok(sum),
    }
}

/// The size for one value that all pods share: in proportion to the ready ones, or from nothing to what the
/// ratio says.
pub(super) fn for_shared_value(
    pods: &[VersionedObject],
    current: i32,
    tolerance: RatioTolerance,
    usage: i64,
    target: i64,
) -> Fact<i32> {
    let ratio = usage as f64 / target as f64;
    if current == 0 {
        return Ok(ceiling(ratio));
    }
    if tolerance.is_within(ratio) {
        return Ok(current);
    }
    if pods.is_empty() {
        let why = "unable to calculate ready pods: no pods returned by selector while calculating \
                   replica count";
        return Err(MissingFact::failed(why));
    }
    let ready = pods.iter().filter(|pod| pod::phase(pod) == "Running" && pod::ready(pod)).count();
    Ok(ceiling(ratio * ready as f64))
}

/// The size for one value of which each pod is to have so much, and how much each has.
pub(super) fn for_value_per_pod(
    current: i32,
    tolerance: RatioTolerance,
    usage: i64,
    target: i64,
) -> (i32, i64) {
    let ratio = usage as f64 / (target as f64 * f64::from(current));
    let size =
        if tolerance.is_within(ratio) { current } else { ceiling(usage as f64 / target as f64) };
    let each = usage as f64 / f64::from(current);
    let whole = each as i64;
    let each = if (whole as f64) < each { whole.saturating_add(1) } else { whole };
    (size, each)
}

#[cfg(test)]
mod tests {
    //! Rules of spec/workload-controllers.md.
    use super::*;
    use alloc::sync::Arc;
    use alloc::vec::Vec;
    use serde_json::json;
    use tenure_core::Revision;

    const NOW: &str = "2026-01-01T01:00:00Z";

    struct Case {
        pods: Vec<VersionedObject>,
        metrics: PodMetrics,
    }

    fn pod(name: &str, phase: &str, ready: bool, requested: &str) -> VersionedObject {
        let status = if ready { "True" } else { "False" };
        let object = json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": requested}}}]},
            "status": {"phase": phase, "startTime": "2026-01-01T00:00:00Z", "conditions": [
                {"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        });
        let object = Arc::new(object.as_object().unwrap().clone());
        VersionedObject { object, revision: Revision(1) }
    }

    impl Case {
        /// Pods that are ready and use so much, each of which requests 1 CPU.
        fn ready(used: &[i64]) -> Case {
            let mut case = Case { pods: Vec::new(), metrics: PodMetrics::new() };
            for used in used {
                case = case.with(true, Some(*used));
            }
            case
        }

        fn with(mut self, ready: bool, used: Option<i64>) -> Case {
            let name = format!("p{}", self.pods.len());
            self.pods.push(pod(&name, "Running", ready, "1"));
            if let Some(used) = used {
                let at = Some("2026-01-01T00:59:00Z".parse().unwrap());
                let window = SignedDuration::from_secs(60);
                self.metrics.insert(name, PodMetric { at, window, milli: used });
            }
            self
        }

        fn measured(&self, current: i32) -> Measured<'_> {
            Measured {
                pods: &self.pods,
                metrics: self.metrics.clone(),
                current,
                tolerance: RatioTolerance { down: 0.1, up: 0.1 },
                now: NOW.parse().unwrap(),
            }
        }

        fn size(&self, target: i32) -> i32 {
            let current = i32::try_from(self.pods.len()).unwrap();
            self.measured(current).for_utilization("cpu", None, target).unwrap().replicas
        }
    }

    #[test]
    fn ha4_the_size_follows_the_ratio_rounded_up() {
        assert_eq!(Case::ready(&[300, 500, 700]).size(30), 5);
        assert_eq!(Case::ready(&[100, 300, 500, 250, 250]).size(50), 3);
        let case = Case::ready(&[300, 500, 700]);
        let proposal = case.measured(3).for_utilization("cpu", None, 30).unwrap();
        assert_eq!((proposal.utilization, proposal.average_milli), (Some(50), 500));
    }

    #[test]
    fn ha4_a_ratio_within_the_tolerance_changes_nothing() {
        for used in [900, 1000, 1100] {
            assert_eq!(Case::ready(&[used; 10]).size(100), 10, "{used}");
        }
        assert_eq!(Case::ready(&[1110; 10]).size(100), 12);
        assert_eq!(Case::ready(&[890; 10]).size(100), 9);
        let case = Case::ready(&[1110; 10]);
        let wide = RatioTolerance { down: 0.0, up: 0.2 };
        let proposal = Measured { tolerance: wide, ..case.measured(10) };
        assert_eq!(proposal.for_utilization("cpu", None, 100).unwrap().replicas, 10);
        let case = Case::ready(&[990; 100]);
        let narrow = Measured { tolerance: wide, ..case.measured(100) };
        assert_eq!(narrow.for_utilization("cpu", None, 100).unwrap().replicas, 99);
    }

    #[test]
    fn ha4_a_pod_that_starts_counts_as_idle_when_more_is_wanted() {
        let mut case = Case::ready(&[1000, 1000, 1000]).with(false, Some(1000));
        // Not ready since its start: what it uses says nothing.
        assert_eq!(case.size(30), 10);
        case.pods.pop();
        case.pods.push(pod("p3", "Pending", false, "1"));
        assert_eq!(case.size(30), 10, "one that waits counts the same");
    }

    #[test]
    fn ha4_a_pod_nobody_measured_moves_the_size_least() {
        // More is wanted: it counts as idle. 2.0 of 3.0 requested is less than it seemed.
        assert_eq!(Case::ready(&[1000, 1000]).with(true, None).size(50), 4);
        // Less is wanted: it counts as using all it requests.
        assert_eq!(Case::ready(&[100, 100, 100]).with(true, None).size(50), 3);
        // The direction never turns.
        assert_eq!(Case::ready(&[400]).with(true, None).size(50), 2);
    }

    #[test]
    fn ha4_what_is_missing_is_said() {
        let why = |case: &Case, container| {
            let why = case.measured(1).for_utilization("cpu", container, 50).err().unwrap();
            let MissingFact::Failed(why) = why else { panic!() };
            why
        };
        let mut case = Case::ready(&[100]);
        assert_eq!(why(&case, Some("d")), "container d not found in Pod p0");
        let mut silent = Object::clone(&case.pods[0].object);
        silent["spec"]["containers"][0].as_object_mut().unwrap().remove("resources");
        case.pods[0].object = Arc::new(silent);
        assert_eq!(why(&case, None), "missing request for cpu in container c of Pod p0");
        case.metrics.clear();
        assert!(why(&case, None).starts_with("did not receive metrics"));
        case.pods.clear();
        assert!(why(&case, None).starts_with("no pods returned by selector"));
    }

    #[test]
    fn ha4_an_average_is_held_against_the_pods_that_are_ready() {
        let case = Case::ready(&[10_000, 20_000, 30_000]);
        let proposal = case.measured(3).for_average("", 15_000).unwrap();
        assert_eq!((proposal.replicas, proposal.average_milli), (4, 20_000));
    }

    #[test]
    fn ha4_one_value_is_shared_by_all() {
        let case = Case::ready(&[0, 0, 0]);
        let tolerance = RatioTolerance { down: 0.1, up: 0.1 };
        let size = |current, usage, target| {
            for_shared_value(&case.pods, current, tolerance, usage, target).unwrap()
        };
        assert_eq!(size(3, 20_000, 15_000), 4);
        assert_eq!(size(3, 15_500, 15_000), 3);
        assert_eq!(size(0, 31_000, 15_000), 3, "from nothing to what the ratio says");
        assert_eq!(for_value_per_pod(3, tolerance, 10_000, 2_000), (5, 3334));
        assert_eq!(for_value_per_pod(3, tolerance, 6_100, 2_000), (3, 2034));
        assert_eq!(for_value_per_pod(0, tolerance, 6_100, 2_000).0, 4);
    }
}
