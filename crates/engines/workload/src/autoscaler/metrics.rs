//! The three metrics APIs: their paths, and what their answers say (HA3). Whoever serves them is believed: a
//! server behind an APIService, or objects of a CustomResourceDefinition of that group.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tenure_core::selector::LabelSelector;
use tenure_machinery::quantity::Quantity;
use tenure_machinery::{Object, ObjectExt};

use super::target::{qualified, resource_of};
use crate::api_question::{ApiQuestions, Fact, MissingFact, escaped, versions};
use crate::time;

/// Over how long a custom metric was measured, unless it says so.
const WINDOW_SECONDS: i64 = 60;
const CUSTOM: &str = "custom.metrics.k8s.io";

/// One measurement of a pod.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PodMetric {
    /// When.
    pub(super) at: Option<Timestamp>,
    /// Over how long.
    pub(super) window: SignedDuration,
    /// In thousandths.
    pub(super) milli: i64,
}

impl PodMetric {
    /// A value nobody measured.
    pub(super) fn assumed(milli: i64) -> PodMetric {
        PodMetric { at: None, window: SignedDuration::ZERO, milli }
    }
}

/// Measurements by the names of pods.
pub(super) type PodMetrics = BTreeMap<String, PodMetric>;

fn milli(value: Option<&Value>) -> Option<i64> {
    value.and_then(Quantity::from_value).map(Quantity::milli)
}

fn items(list: &Object) -> impl Iterator<Item = &Object> {
    list.list_at(&["items"]).iter().filter_map(Value::as_object)
}

/// `name=text`, unless the text is empty.
fn query(parts: &[(&str, &str)]) -> String {
    let parts: Vec<String> = parts
        .iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(name, text)| format!("{name}={}", escaped(text)))
        .collect();
    if parts.is_empty() { String::new() } else { format!("?{}", parts.join("&")) }
}

/// What pods, or one container of each, use of a resource.
pub(super) fn resource_metric(
    questions: &ApiQuestions<'_>,
    namespace: &str,
    selector: &str,
    resource: &str,
    container: Option<&str>,
) -> Fact<PodMetrics> {
    let path = format!(
        "/apis/metrics.k8s.io/v1beta1/namespaces/{}/pods{}",
        escaped(namespace),
        query(&[("labelSelector", selector)]),
    );
    let list = questions
        .get(&path, "get pods.metrics.k8s.io")
        .map_err(|why| why.because("unable to fetch metrics from resource metrics API"))?;
    if items(list).next().is_none() {
        return Err(MissingFact::failed("no metrics returned from resource metrics API"));
    }
    let mut found = PodMetrics::new();
    for item in items(list) {
        if let Some(milli) = usage(item, resource, container) {
            let at = time::at(item, &["timestamp"]);
            let window = item.str_at(&["window"]).and_then(|text| text.parse().ok());
            let window = window.unwrap_or(SignedDuration::ZERO);
            found.insert(item.name().to_string(), PodMetric { at, window, milli });
        }
    }
    Ok(found)
}

/// What all containers of a pod use together, or what one uses; `None` where somebody was not measured.
fn usage(item: &Object, resource: &str, container: Option<&str>) -> Option<i64> {
    let containers = item.list_at(&["containers"]).iter().filter_map(Value::as_object);
    let mut sum = None;
    for measured in containers {
        if container.is_some() && measured.str_at(&["name"]) != container {
            continue;
        }
        let used = milli(measured.at(&["usage", resource]))?;
        sum = Some(sum.unwrap_or(0_i64).saturating_add(used));
    }
    sum
}

/// The start of paths of the custom metrics API, in the newest version that is served.
fn custom_base(questions: &ApiQuestions<'_>) -> Fact<String> {
    let served = versions(questions, CUSTOM)?;
    if served.is_empty() {
        return Err(MissingFact::Failed(format!("no custom metrics API ({CUSTOM}) registered")));
    }
    let known = served.iter().find(|version| ["v1beta2", "v1beta1"].contains(&version.as_str()));
    match known {
        Some(version) => Ok(format!("/apis/{CUSTOM}/{version}")),
        None => Err(MissingFact::failed("no known available metric versions found")),
    }
}

fn custom_failed(why: MissingFact) -> MissingFact {
    why.because("unable to fetch metrics from custom metrics API")
}

/// A metric of all pods that a selector selects.
pub(super) fn pods_metric(
    questions: &ApiQuestions<'_>,
    namespace: &str,
    selector: &str,
    metric: &MetricName,
) -> Fact<PodMetrics> {
    let base = custom_base(questions).map_err(custom_failed)?;
    let path = format!(
        "{base}/namespaces/{}/pods/%2A/{}{}",
        escaped(namespace),
        escaped(&metric.name),
        query(&[("labelSelector", selector), ("metricLabelSelector", &metric.selector)]),
    );
    let list = questions.get(&path, &format!("get pods.{CUSTOM} *")).map_err(custom_failed)?;
    if items(list).next().is_none() {
        return Err(MissingFact::failed("no metrics returned from custom metrics API"));
    }
    let mut found = PodMetrics::new();
    for item in items(list) {
        let seconds = item.int_at(&["windowSeconds"]).or_else(|| item.int_at(&["window"]));
        let measured = PodMetric {
            at: time::at(item, &["timestamp"]),
            window: SignedDuration::from_secs(seconds.unwrap_or(WINDOW_SECONDS)),
            milli: milli(item.get("value")).unwrap_or_default(),
        };
        let name = item.str_at(&["describedObject", "name"]).unwrap_or_default();
        found.insert(name.to_string(), measured);
    }
    Ok(found)
}

/// A metric of one object, in thousandths.
pub(super) fn object_metric(
    questions: &ApiQuestions<'_>,
    namespace: &str,
    described: &Object,
    metric: &MetricName,
) -> Fact<i64> {
    object_value(questions, namespace, described, metric).map_err(custom_failed)
}

fn object_value(
    questions: &ApiQuestions<'_>,
    namespace: &str,
    described: &Object,
    metric: &MetricName,
) -> Fact<i64> {
    let base = custom_base(questions)?;
    let text = |name| described.str_at(&[name]).unwrap_or_default();
    let at = format!("{base}/namespaces/{}", escaped(namespace));
    let query = query(&[("metricLabelSelector", &metric.selector)]);
    let name = escaped(&metric.name);
    let (path, what) = if text("kind") == "Namespace" && !text("apiVersion").contains('/') {
        (format!("{at}/metrics/{name}{query}"), format!("get metrics.{CUSTOM} {}", metric.name))
    } else {
        let (group, resource) = resource_of(questions, text("apiVersion"), text("kind"))
            .map_err(|why| why.because("unable to map the kind to a resource"))?;
        let resource = qualified(&group, &resource);
        let object = escaped(text("name"));
        let what = format!("get {resource}.{CUSTOM} {}", text("name"));
        (format!("{at}/{}/{object}/{name}{query}", escaped(&resource)), what)
    };
    let list = questions.get(&path, &what)?;
    let mut values = items(list);
    match (values.next(), values.count()) {
        (Some(value), 0) => Ok(milli(value.get("value")).unwrap_or_default()),
        (first, more) => {
            let count = more + usize::from(first.is_some());
            Err(MissingFact::Failed(format!("there are {count} values where one was asked for")))
        }
    }
}

/// All values of a metric from outside the cluster, in thousandths.
pub(super) fn external_metric(
    questions: &ApiQuestions<'_>,
    namespace: &str,
    metric: &MetricName,
) -> Fact<Vec<i64>> {
    let path = format!(
        "/apis/external.metrics.k8s.io/v1beta1/namespaces/{}/{}{}",
        escaped(namespace),
        escaped(&metric.name),
        query(&[("labelSelector", &metric.selector)]),
    );
    let list = questions
        .get(&path, &format!("get {}.external.metrics.k8s.io", metric.name))
        .map_err(|why| why.because("unable to fetch metrics from external metrics API"))?;
    let values: Vec<i64> =
        items(list).map(|item| milli(item.get("value")).unwrap_or_default()).collect();
    if values.is_empty() {
        return Err(MissingFact::failed("no metrics returned from external metrics API"));
    }
    Ok(values)
}

/// Which metric is meant.
pub(super) struct MetricName {
    pub(super) name: String,
    /// Which series of it, as text; empty for all.
    pub(super) selector: String,
}

impl MetricName {
    /// Reads `metric` of a source.
    pub(super) fn read(source: &Object) -> Fact<MetricName> {
        let name = source.str_at(&["metric", "name"]).unwrap_or_default().to_string();
        let selector = match source.map_at(&["metric", "selector"]) {
            None => String::new(),
            Some(selector) => LabelSelector::from_object(selector)
                .ok_or_else(|| MissingFact::failed("the selector of the metric is not understood"))?
                .to_string(),
        };
        Ok(MetricName { name, selector })
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/workload-controllers.md.
    use super::*;
    use crate::controller::{ApiAnswers, ApiRefusal};
    use serde_json::json;

    const PODS: &str = "/apis/metrics.k8s.io/v1beta1/namespaces/n/pods?labelSelector=app%3Dweb";

    fn measured(answer: Value, container: Option<&str>) -> Fact<PodMetrics> {
        let answers = ApiAnswers::from([(PODS.to_string(), Ok(answer))]);
        resource_metric(&ApiQuestions::new(&answers), "n", "app=web", "cpu", container)
    }

    #[test]
    fn ha3_what_is_not_known_yet_is_asked_for() {
        let nothing = ApiAnswers::new();
        let questions = ApiQuestions::new(&nothing);
        let metric = resource_metric(&questions, "n", "app=web", "cpu", None);
        assert_eq!(metric, Err(MissingFact::Unasked));
        assert_eq!(questions.into_questions().into_iter().collect::<Vec<_>>(), [PODS]);
    }

    #[test]
    fn ha3_containers_are_added_up_and_a_pod_that_lacks_one_counts_as_missing() {
        let pod = |name: &str, usages: &[Value]| {
            let containers: Vec<Value> = usages
                .iter()
                .enumerate()
                .map(|(index, usage)| json!({"name": format!("c{index}"), "usage": usage}))
                .collect();
            json!({"metadata": {"name": name}, "timestamp": "2026-01-01T00:00:00Z",
                   "window": "1m30s", "containers": containers})
        };
        let list = json!({"items": [
            pod("a", &[json!({"cpu": "100m"}), json!({"cpu": "1"})]),
            pod("b", &[json!({"cpu": "100m"}), json!({"memory": "1"})]),
            pod("c", &[]),
        ]});
        let all = measured(list.clone(), None).unwrap();
        assert_eq!(all.keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!((all["a"].milli, all["a"].window.as_secs()), (1100, 90));
        let one = measured(list, Some("c0")).unwrap();
        assert_eq!(one.values().map(|metric| metric.milli).collect::<Vec<_>>(), [100, 100]);
    }

    #[test]
    fn ha3_without_anybody_who_measures_it_is_said_what_is_missing() {
        let refusal = ApiRefusal {
            code: 404,
            message: "the server could not find the requested resource".to_string(),
        };
        let answers = ApiAnswers::from([(PODS.to_string(), Err(refusal))]);
        let why = resource_metric(&ApiQuestions::new(&answers), "n", "app=web", "cpu", None);
        let words = "unable to fetch metrics from resource metrics API: the server could not find \
                     the requested resource (get pods.metrics.k8s.io)";
        assert_eq!(why, Err(MissingFact::failed(words)));
        assert_eq!(
            measured(json!({"items": []}), None),
            Err(MissingFact::failed("no metrics returned from resource metrics API"))
        );
    }
}
