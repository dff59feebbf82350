//! One request as policies see it: which resource, which object, by whom.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use tenure_cel::{AccessCheck, AccessDecision, Authorize};
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_world::Record;

use super::bound::read;
use super::evaluate::{AuthorizerContext, EvaluationContext};
use super::matching::{GroupVersionResource, MatchContext, Matching};
use crate::access::{AccessJudgement, AuthorizerChain};
use crate::admit::shown::ShownObject;
use crate::admit::{Operation, namespace};
use crate::api::ApiServer;
use crate::authenticate::User;
use crate::authorize::{AccessQuestion, Consultation};
use crate::registry::ServedKind;
use crate::request::ResourceRequest;
use crate::write::scale;

/// Group, version and kind.
pub(in crate::admit) type TypeName = (&'static str, &'static str, &'static str);

/// What the object of `scale` is.
pub(in crate::admit) const SCALE: TypeName = ("autoscaling", "v1", "Scale");

/// Whose objects are the rules themselves: a policy over them could never be taken back.
const EXEMPT: [&str; 6] = [
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
];

/// What is written.
#[derive(Clone, Copy)]
pub(crate) struct AdmissionAttributes<'a> {
    /// What is done.
    pub(crate) operation: Operation,
    /// The object as it was.
    pub(crate) old: Option<&'a Object>,
    /// The object as it shall be.
    pub(crate) new: Option<&'a Object>,
    /// Whether nothing is stored.
    pub(crate) dry_run: bool,
    /// The kind of the object where it is not that of the resource.
    pub(crate) kind: Option<TypeName>,
    /// The options of the request, as an object; without them only their kind is known.
    pub(crate) options: Option<&'a Object>,
}

/// A request, understood.
pub(in crate::admit) struct AdmissionRequest<'a> {
    operation: Operation,
    /// The kind as it was asked for, and the others that show the same objects.
    served: Vec<Arc<ServedKind>>,
    subresource: Cow<'a, str>,
    name: Cow<'a, str>,
    /// Where the object lives; a namespace lives nowhere.
    namespace: Cow<'a, str>,
    namespace_record: Option<Arc<Record>>,
    namespace_object: OnceLock<Object>,
    new: Option<Cow<'a, Object>>,
    old: Option<Cow<'a, Object>>,
    /// What a webhook converted, by the place of the kind: the object as it shall be and as it was.
    converted: Vec<ConvertedForm>,
    kind: Option<TypeName>,
    user: Value,
    authorizer: RequestAuthorizer,
    dry_run: bool,
    options: Option<Cow<'a, Object>>,
}

/// An object in the form of another of its kinds, made by a webhook.
struct ConvertedForm {
    place: usize,
    new: Option<Object>,
    old: Option<Object>,
}

/// Answers what the user of a request, or an account, may do.
struct RequestAuthorizer {
    access: Arc<AuthorizerChain>,
    user: Arc<User>,
    consultation: Consultation,
}

impl Authorize for RequestAuthorizer {
    fn decide(&self, check: &AccessCheck, verb: &str) -> AccessDecision {
        let account =
            check.account.as_ref().map(|(namespace, name)| User::account(namespace, name));
        let user = account.as_ref().unwrap_or(&*self.user);
        let about = if check.path.is_empty() {
            tenure_rbac::RequestAttributes::Resource {
                verb,
                group: &check.group,
                resource: &check.resource,
                subresource: &check.subresource,
                namespace: &check.namespace,
                name: &check.name,
            }
        } else {
            tenure_rbac::RequestAttributes::Path { verb, path: &check.path }
        };
        let question = AccessQuestion::plain(about);
        let (allowed, reason, error) =
            match self.access.judge(user, &question, Some(&self.consultation)) {
                AccessJudgement::Allowed(grant) => {
                    let reason = self.access.reason(&grant, user, &about);
                    (true, reason, String::new())
                }
                AccessJudgement::Refused(why) => (false, why.reason(), why.error()),
                // What comes of it is thrown away, and the expression runs again.
                AccessJudgement::Open => (false, String::new(), String::new()),
            };
        AccessDecision { allowed, reason, error }
    }
}

impl<'a> AdmissionRequest<'a> {
    pub(in crate::admit) fn new(
        api: &ApiServer,
        request: &'a ResourceRequest,
        subject: &AdmissionAttributes<'a>,
    ) -> AdmissionRequest<'a> {
        let served = &request.served;
        let object = subject.new.or(subject.old);
        let either = |said: &'a str, own: &'a str| if said.is_empty() { own } else { said };
        let name = either(&request.name, object.map_or("", |object| object.name()));
        let namespace = either(&request.namespace, object.map_or("", |object| object.namespace()));
        let namespace = if served.kind.namespaced { namespace } else { "" };
        let scaled = request.subresource == "scale";
        let shown = |object: &'a Object| match scaled.then(|| scale::view(served, object)) {
            Some(Ok(scale)) => Cow::Owned(scale),
            _ => Cow::Borrowed(object),
        };
        let user = &request.user;
        AdmissionRequest {
            operation: subject.operation,
            served: all_forms(api, request),
            subresource: Cow::Borrowed(&request.subresource),
            name: Cow::Borrowed(name),
            namespace_record: api.world.current().get(&namespace::key(namespace)).cloned(),
            namespace: Cow::Borrowed(namespace),
            namespace_object: OnceLock::new(),
            new: subject.new.map(shown),
            old: subject.old.map(shown),
            converted: Vec::new(),
            kind: if scaled { Some(SCALE) } else { subject.kind },
            user: json!({
                "username": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra,
            }),
            authorizer: RequestAuthorizer {
                access: Arc::clone(&api.access),
                user: Arc::clone(user),
                consultation: request.consultation.clone(),
            },
            dry_run: subject.dry_run,
            options: subject.options.map(Cow::Borrowed),
        }
    }

    /// The same with nothing borrowed, to be taken to another thread.
    pub(in crate::admit) fn into_owned(self) -> AdmissionRequest<'static> {
        let object =
            |object: Option<Cow<'a, Object>>| object.map(|object| Cow::Owned(object.into_owned()));
        AdmissionRequest {
            operation: self.operation,
            served: self.served,
            subresource: Cow::Owned(self.subresource.into_owned()),
            name: Cow::Owned(self.name.into_owned()),
            namespace: Cow::Owned(self.namespace.into_owned()),
            namespace_record: self.namespace_record,
            namespace_object: self.namespace_object,
            new: object(self.new),
            old: object(self.old),
            converted: self.converted,
            kind: self.kind,
            user: self.user,
            authorizer: self.authorizer,
            dry_run: self.dry_run,
            options: object(self.options),
        }
    }

    /// Where the object lives; empty for those that live nowhere.
    pub(in crate::admit) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Whether no policy is asked.
    pub(in crate::admit) fn is_exempt(&self) -> bool {
        self.served.first().is_none_or(|served| {
            let kind = &served.kind;
            kind.group == "admissionregistration.k8s.io" && EXEMPT.contains(&kind.kind.as_ref())
        })
    }

    /// Under which of its names the request is one that a policy or binding is about.
    pub(in crate::admit) fn place(&self, matching: &Matching) -> Option<usize> {
        let places: Vec<GroupVersionResource<'_>> =
            self.served.iter().map(|served| place(served)).collect();
        let question = MatchContext {
            operation: self.operation.verb(),
            places: &places,
            subresource: &self.subresource,
            name: &self.name,
            namespaced: !self.namespace.is_empty(),
            new: self.new.as_deref(),
            old: self.old.as_deref(),
        };
        let own = self.new.as_deref().or(self.old.as_deref()).filter(|_| self.is_namespace());
        match (own, &self.namespace_record) {
            (Some(own), _) => {
                let label = |key: &str| own.str_at(&["metadata", "labels", key]);
                matching.place(&question, Some(&label))
            }
            (None, Some(record)) => matching.place(&question, Some(&|key| record.label(key))),
            (None, None) => matching.place(&question, None),
        }
    }

    fn is_namespace(&self) -> bool {
        let kind = self.served.first().map(|served| &served.kind);
        kind.is_some_and(|kind| kind.group.is_empty() && kind.kind == "Namespace")
    }

    /// What expressions see when the resource goes by one of its names.
    pub(in crate::admit) fn at(&self, place: usize) -> LookedAt<'_> {
        LookedAt {
            new: self.form(self.new.as_deref(), place, |form| form.new.as_ref()),
            old: self.form(self.old.as_deref(), place, |form| form.old.as_ref()),
            request: self.request(place),
            authorizer: &self.authorizer,
            resource: Arc::new(self.resource()),
            namespace: self
                .namespace_record
                .as_ref()
                .map(|record| self.namespace_object.get_or_init(|| read(record))),
        }
    }

    /// An object in the form of one of its kinds.
    fn form<'o>(
        &'o self,
        object: Option<&'o Object>,
        place: usize,
        of: impl Fn(&ConvertedForm) -> Option<&Object>,
    ) -> Option<Cow<'o, Object>> {
        let object = object?;
        if let Some(form) = self.converted.iter().find(|form| form.place == place) {
            return of(form).map(Cow::Borrowed);
        }
        let (Some(from), Some(to)) = (self.served.first(), self.served.get(place)) else {
            return Some(Cow::Borrowed(object));
        };
        if place == 0 || self.kind.is_some() {
            return Some(Cow::Borrowed(object));
        }
        Some(Cow::Owned(convert(object.clone(), from, to)))
    }

    /// Whether a webhook has to convert the objects before they are looked at under this name.
    pub(in crate::admit) fn needs_conversion(&self, place: usize) -> bool {
        let (Some(from), Some(to)) = (self.served.first(), self.served.get(place)) else {
            return false;
        };
        let converts =
            from.custom.as_ref().is_some_and(|c| c.converts(&from.api_version, &to.api_version));
        converts
            && self.kind.is_none()
            && (self.new.is_some() || self.old.is_some())
            && !self.converted.iter().any(|form| form.place == place)
    }

    /// Has a webhook bring the objects into the form that they have under this name, if that is needed.
    ///
    /// # Errors
    /// It did not.
    pub(in crate::admit) async fn convert_to(
        &mut self,
        api: &ApiServer,
        user: &str,
        place: usize,
    ) -> Result<(), Failure> {
        if !self.needs_conversion(place) {
            return Ok(());
        }
        let (Some(from), Some(to)) = (self.served.first(), self.served.get(place)) else {
            return Ok(());
        };
        let Some(custom) = &from.custom else { return Ok(()) };
        let objects = [&self.new, &self.old].into_iter().flatten();
        let objects = objects.map(|object| Object::clone(object)).collect();
        let converted = api.conversions.objects(user, custom, objects, &to.api_version);
        let mut converted = Box::pin(converted).await?.into_iter();
        let new = self.new.as_ref().and_then(|_| converted.next());
        let old = self.old.as_ref().and_then(|_| converted.next());
        self.converted.push(ConvertedForm { place, new, old });
        Ok(())
    }

    /// What the request is about, to ask what else may be done to it.
    fn resource(&self) -> AccessCheck {
        let kind = self.served.first().map(|served| &served.kind);
        let namespace = if self.is_namespace() { &self.name } else { &self.namespace };
        AccessCheck {
            group: kind.map(|kind| kind.group.to_string()).unwrap_or_default(),
            resource: kind.map(|kind| kind.plural.to_string()).unwrap_or_default(),
            subresource: self.subresource.to_string(),
            namespace: namespace.to_string(),
            name: self.name.to_string(),
            ..AccessCheck::default()
        }
    }

    fn request(&self, place: usize) -> Object {
        let kind = |served: Option<&Arc<ServedKind>>| match (self.kind, served) {
            (Some((group, version, kind)), _) => {
                json!({"group": group, "version": version, "kind": kind})
            }
            (None, Some(served)) => {
                let kind = &served.kind;
                json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
            }
            (None, None) => Value::Null,
        };
        let resource = |served: Option<&Arc<ServedKind>>| {
            served.map_or(Value::Null, |served| {
                let kind = &served.kind;
                json!({"group": kind.group, "version": kind.version, "resource": kind.plural})
            })
        };
        let (attributes, seen) = (self.served.first(), self.served.get(place));
        let namespace = if self.is_namespace() { &self.name } else { &self.namespace };
        let options = match (&self.options, self.operation) {
            (Some(options), _) => Some(Value::Object(options.clone().into_owned())),
            (None, Operation::Create) => Some(write_options("CreateOptions")),
            (None, Operation::Update) => Some(write_options("UpdateOptions")),
            (None, Operation::Delete) => Some(write_options("DeleteOptions")),
            (None, Operation::Connect) => None,
        };
        let mut request = json!({
            "kind": kind(seen), "resource": resource(seen),
            "requestKind": kind(attributes), "requestResource": resource(attributes),
            "operation": self.operation.verb(), "userInfo": self.user,
            "dryRun": self.dry_run,
        });
        for (member, text) in [
            ("subResource", &self.subresource),
            ("requestSubResource", &self.subresource),
            ("name", &self.name),
            ("namespace", namespace),
        ] {
            if let Some(request) = request.as_object_mut().filter(|_| !text.is_empty()) {
                request.insert(member.to_owned(), Value::String(text.to_string()));
            }
        }
        let Value::Object(mut request) = request else { return Object::new() };
        request.extend(options.map(|options| ("options".to_owned(), options)));
        request
    }

    /// How an object is shown at a place.
    pub(in crate::admit) fn shown(&self, place: usize) -> Option<ShownObject> {
        let requested = self.served.first()?;
        let served = self.served.get(place)?;
        let (served, requested) = (Arc::clone(served), Arc::clone(requested));
        Some(ShownObject { served, requested, kind: self.kind })
    }

    /// Whether nothing is stored.
    pub(in crate::admit) fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// What a client is told whose request is refused.
    pub(in crate::admit) fn forbidden(&self, why: &str) -> Failure {
        let kind = self.served.first().map(|served| &served.kind);
        let (group, plural) = kind.map_or(("", ""), |kind| (&*kind.group, &*kind.plural));
        Failure::forbidden(group, plural, &self.name, why)
    }
}

/// Options that say nothing.
fn write_options(kind: &str) -> Value {
    json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"})
}

/// An object of one kind in the form of another that shows the same objects.
pub(in crate::admit) fn convert(mut object: Object, from: &ServedKind, to: &ServedKind) -> Object {
    if let Some(view) = from.view {
        view.store(&mut object);
    }
    if let Some(view) = to.view {
        view.show(&mut object);
    }
    object.insert("kind".into(), to.kind.kind.as_ref().into());
    object.insert("apiVersion".into(), to.api_version.as_str().into());
    if let Some(custom) = &to.custom {
        custom.convert(&mut object);
    }
    object
}

/// The kind as it was asked for, and the others that show the same objects.
fn all_forms(api: &ApiServer, request: &ResourceRequest) -> Vec<Arc<ServedKind>> {
    let own = &request.served;
    let registry = api.kinds.current();
    let others = registry.kinds().iter().filter(|other| {
        other.prefix == own.prefix
            && other.api_version != own.api_version
            && (request.subresource.is_empty()
                || other.kind.subresource(&request.subresource).is_some())
    });
    std::iter::once(own).chain(others).cloned().collect()
}

fn place(served: &ServedKind) -> GroupVersionResource<'_> {
    let kind = &served.kind;
    GroupVersionResource { group: &kind.group, version: &kind.version, resource: &kind.plural }
}

/// What expressions see, kept while they run.
pub(in crate::admit) struct LookedAt<'a> {
    new: Option<Cow<'a, Object>>,
    old: Option<Cow<'a, Object>>,
    request: Object,
    authorizer: &'a RequestAuthorizer,
    resource: Arc<AccessCheck>,
    namespace: Option<&'a Object>,
}

impl LookedAt<'_> {
    pub(in crate::admit) fn seen(&self) -> EvaluationContext<'_> {
        EvaluationContext {
            new: self.new.as_deref(),
            old: self.old.as_deref(),
            request: &self.request,
            namespace: self.namespace,
            params: None,
            rights: AuthorizerContext { authorizer: self.authorizer, request: &self.resource },
        }
    }
}
