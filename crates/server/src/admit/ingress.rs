//! Ingresses get the default class (R254).

use tenure_machinery::{Object, ObjectExt};
use tenure_world::World;

use crate::admit::storage::default_of;

/// Names the default IngressClass in an Ingress that names none, in the field or in the old annotation.
pub(super) fn default_class(state: &World, ingress: &mut Object) {
    let annotation = ["metadata", "annotations", "kubernetes.io/ingress.class"];
    if ingress.at(&["spec", "ingressClassName"]).is_some() || ingress.at(&annotation).is_some() {
        return;
    }
    let marked = "ingressclass.kubernetes.io/is-default-class";
    if let Some(name) = default_of(state, "/registry/ingressclasses/", &[marked]) {
        ingress.map_mut("spec").insert("ingressClassName".into(), name.into());
    }
}
