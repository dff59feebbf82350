//! Two views of one stored object: events are kept in their core form (R146), autoscalers as v2.

use serde_json::Value;
use tenure_kinds::autoscaler_v1;
use tenure_machinery::Object;

/// A change of form, in place.
type ObjectTransform = fn(&mut Object);

/// How a kind that shares another kind's storage turns into it and back.
#[derive(Clone, Copy, Debug)]
pub struct KindConversion {
    /// The kind as stored.
    pub kind: &'static str,
    /// The version as stored.
    pub api_version: &'static str,
    /// Pairs of (stored member, shown member).
    renamed: &'static [(&'static str, &'static str)],
    /// What else is done to the stored form to show it, and back.
    turned: Option<(ObjectTransform, ObjectTransform)>,
}

/// Events of the `events.k8s.io` group.
pub(crate) const EVENTS: KindConversion = KindConversion {
    kind: "Event",
    api_version: "v1",
    renamed: &[
        ("involvedObject", "regarding"),
        ("message", "note"),
        ("source", "deprecatedSource"),
        ("firstTimestamp", "deprecatedFirstTimestamp"),
        ("lastTimestamp", "deprecatedLastTimestamp"),
        ("count", "deprecatedCount"),
        ("reportingComponent", "reportingController"),
    ],
    turned: None,
};

/// Autoscalers of version 1.
pub(crate) const AUTOSCALERS: KindConversion = KindConversion {
    kind: "HorizontalPodAutoscaler",
    api_version: "autoscaling/v2",
    renamed: &[],
    turned: Some((autoscaler_v1::to_shown, autoscaler_v1::to_stored)),
};

/// The view of a built-in kind that is stored as another one.
pub(crate) fn of(group: &str, version: &str, kind: &str) -> Option<KindConversion> {
    match (group, version, kind) {
        ("events.k8s.io", _, _) => Some(EVENTS),
        ("autoscaling", "v1", "HorizontalPodAutoscaler") => Some(AUTOSCALERS),
        _ => None,
    }
}

impl KindConversion {
    /// From the stored form to the shown one.
    pub fn show(&self, object: &mut Object) {
        for (stored, shown) in self.renamed {
            rename(object, stored, shown);
        }
        if let Some((show, _)) = self.turned {
            show(object);
        }
    }

    /// From the shown form to the stored one.
    pub fn store(&self, object: &mut Object) {
        for (stored, shown) in self.renamed {
            rename(object, shown, stored);
        }
        if let Some((_, store)) = self.turned {
            store(object);
        }
    }

    /// The stored path of a field that selectors name in the shown form.
    #[must_use]
    pub fn stored_path(&self, path: &str) -> String {
        let (head, rest) = path.split_once('.').map_or((path, None), |(h, r)| (h, Some(r)));
        let head = self.renamed.iter().find(|(_, shown)| *shown == head).map_or(head, |(s, _)| s);
        rest.map_or_else(|| head.to_owned(), |rest| format!("{head}.{rest}"))
    }
}

fn rename(object: &mut Object, from: &str, to: &str) {
    if let Some(value) = object.remove(from)
        && value != Value::Null
    {
        object.insert(to.to_owned(), value);
    }
}
