//! Reviews of references: may this origin point at that target, and by what (referential authorization R113, R131).
//!
//! Everybody who may ask is told yes or no and the condition that is not met, which depends neither on whether the
//! target exists nor on who else points at it. Which object comes nearest is for those who may `create`
//! `referencereviews/explain`.

use serde_json::{Value, json};
use tenure_kinds::reference::REVIEW_GROUP;
use tenure_machinery::{Errors, Failure, Object, ObjectExt, Path};
use tenure_rbac::RequestAttributes;
use tenure_reference::{Obj, RefQuery, Subject, Verdict, WhyNot};

use crate::api::ApiServer;
use crate::authenticate::User;
use crate::authorize::{AccessQuestion, Consultation};

/// Refuses a question that asks about nothing.
pub(super) fn check(review: &Object) -> Result<(), Failure> {
    let mut errors = Errors::new();
    let spec = Path::Root.field("spec");
    let text = |path: &[&str]| review.str_at(path).unwrap_or_default();
    for side in ["origin", "target"] {
        for member in ["resource", "name"] {
            if text(&["spec", side, member]).is_empty() {
                let path = spec.field(side);
                errors.required(&path.field(member), "must be specified");
            }
        }
    }
    if text(&["spec", "purpose"]).is_empty() {
        errors.required(&spec.field("purpose"), "must be specified");
    }
    if review.map_at(&["spec", "subject"]).is_some() && subject(review).is_none() {
        let why = "must be a User, a Group or a ServiceAccount with a namespace";
        errors.invalid(&spec.field("subject"), "{}", why);
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Failure::invalid(REVIEW_GROUP, "ReferenceReview", "", errors))
}

fn subject(review: &Object) -> Option<Subject> {
    let text = |member| review.str_at(&["spec", "subject", member]).unwrap_or_default().to_owned();
    let (name, namespace) = (text("name"), text("namespace"));
    if name.is_empty() {
        return None;
    }
    match (text("kind").as_str(), namespace.is_empty()) {
        ("User", true) => Some(Subject::User(name)),
        ("Group", true) => Some(Subject::Group(name)),
        ("ServiceAccount", false) => Some(Subject::ServiceAccount { namespace, name }),
        _ => None,
    }
}

fn object<'r>(review: &'r Object, side: &str) -> Obj<'r> {
    let text = |member| review.str_at(&["spec", side, member]).unwrap_or_default();
    Obj {
        group: text("group"),
        resource: text("resource"),
        namespace: text("namespace"),
        name: text("name"),
    }
}

/// Answers a question.
pub(super) async fn status(api: &ApiServer, user: &User, review: &Object) -> Value {
    // The state comes first: the index is never older than it.
    let observed = api.world.current().revision().to_string();
    let subject = subject(review);
    let query = RefQuery {
        origin: object(review, "origin"),
        target: object(review, "target"),
        purpose: review.str_at(&["spec", "purpose"]).unwrap_or_default(),
        class: review.str_at(&["spec", "class"]),
        subject: subject.as_ref(),
    };
    let explain = RequestAttributes::Resource {
        verb: "create",
        group: REVIEW_GROUP,
        resource: "referencereviews",
        subresource: "explain",
        namespace: "",
        name: "",
    };
    let question = AccessQuestion::plain(explain);
    let explains = Consultation::default().decide(&api.access, user, &question).await.is_ok();
    let mut status = api
        .access
        .reference_authorizer()
        .check(&query, |verdict| describe_verdict(verdict, explains));
    put(&mut status, "observedResourceVersion", observed.into());
    status
}

fn put(status: &mut Value, member: &str, value: Value) {
    if let Some(map) = status.as_object_mut() {
        map.insert(member.to_owned(), value);
    }
}

fn describe_verdict(verdict: &Verdict<'_>, explains: bool) -> Value {
    let refused =
        |code: &str, reason: &str| json!({ "allowed": false, "code": code, "reason": reason });
    match verdict {
        Verdict::Local { strategy } => json!({
            "allowed": true, "reason": "both are in one namespace", "strategies": [strategy],
        }),
        Verdict::Granted { strategy, grants } => {
            let grants: Vec<Value> = grants
                .iter()
                .map(|(namespace, name)| json!({ "namespace": namespace, "name": name }))
                .collect();
            json!({
                "allowed": true, "reason": "granted in the namespace of the target",
                "strategies": [strategy], "grants": grants,
            })
        }
        Verdict::NotAReference => {
            refused("REFERENCE", "the origin does not point there for this purpose")
        }
        Verdict::UnknownOrigin => refused("ORIGIN", "no strategy has seen such an origin"),
        Verdict::NotPermitted(why) => {
            let mut status = refused(why.code.as_str(), "the reference is not permitted");
            if explains {
                explain(&mut status, why);
            }
            status
        }
    }
}

fn explain(status: &mut Value, why: &WhyNot) {
    let Some(nearest) = &why.nearest else { return };
    put(status, "explanation", nearest.to_string().into());
    let nearest = json!({
        "kind": nearest.kind, "namespace": nearest.namespace, "name": nearest.name,
        "field": nearest.field, "wanted": nearest.wanted, "found": nearest.found,
    });
    put(status, "nearest", nearest);
}
