//! `/scale`: the replica count of a parent, under its own kind (R82).

use std::sync::Arc;

use serde_json::{Value, json};
use tenure_core::Revision;
use tenure_machinery::{Errors, Failure, Object, ObjectExt, Path};
use tenure_patch::TypeSchema;
use tenure_patch::managed::{Application, FieldManager, scale as managed_scale};
use tenure_schema::facts;

use crate::api::ApiServer;
use crate::clock::now;
use crate::query::{FieldValidation, WriteOptions};
use crate::read::get::missing;
use crate::registry::ServedKind;
use crate::request::ResourceRequest;
use crate::response::ResponseObject;
use crate::write::managed::ManagedFieldsMode;
use crate::write::patch::{PatchType, bad_result, failed, read_patch, repeated};
use crate::write::stages::StoredObject;
use crate::write::update::{UpdateOutcome, changed, check_uid, store};
use crate::write::{apply, decode};

/// What stands for replicas that a custom object does not have while its Scale is patched.
const UNSET: i64 = i32::MIN as i64;

/// The Scale that shows a parent; a custom object without replicas has none to show.
pub(crate) fn view(served: &ServedKind, parent: &Object) -> Result<Object, Failure> {
    if counts(served, parent).wanted == Some(UNSET) {
        let path = replicas_path(served).join(".");
        return Err(Failure::internal(format!(
            "the spec replicas field \".{path}\" does not exist"
        )));
    }
    Ok(shown(served, parent))
}

/// Where the parent has its replicas.
fn replicas_path(served: &ServedKind) -> Vec<&str> {
    let custom = served.custom.as_ref().and_then(|custom| custom.scale.as_ref());
    custom.map_or_else(
        || vec!["spec", "replicas"],
        |paths| paths.spec_replicas.iter().map(String::as_str).collect(),
    )
}

fn counts(served: &ServedKind, parent: &Object) -> ReplicaCounts {
    let Some(paths) = served.custom.as_ref().and_then(|custom| custom.scale.as_ref()) else {
        return ReplicaCounts {
            wanted: parent.int_at(&["spec", "replicas"]),
            current: parent.int_at(&["status", "replicas"]),
            selector: selector_text(parent),
        };
    };
    let at = |path: &[String]| parent.at(&path.iter().map(String::as_str).collect::<Vec<_>>());
    let selector = paths.label_selector.as_deref().and_then(at).and_then(Value::as_str);
    ReplicaCounts {
        wanted: Some(at(&paths.spec_replicas).and_then(Value::as_i64).unwrap_or(UNSET)),
        current: at(&paths.status_replicas).and_then(Value::as_i64),
        selector: selector.unwrap_or_default().to_owned(),
    }
}

/// The Scale of a parent, whatever its replicas.
fn shown(served: &ServedKind, parent: &Object) -> Object {
    let mut metadata = Object::new();
    for member in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = parent.at(&["metadata", member]) {
            metadata.insert(member.to_owned(), value.clone());
        }
    }
    let counts = counts(served, parent);
    let mut spec = Object::new();
    if let Some(wanted) = counts.wanted.filter(|count| *count != 0) {
        spec.insert("replicas".into(), wanted.into());
    }
    let mut status = Object::new();
    status.insert("replicas".into(), counts.current.unwrap_or(0).into());
    if !counts.selector.is_empty() {
        status.insert("selector".into(), counts.selector.into());
    }
    let mut scale = Object::new();
    scale.insert("kind".into(), "Scale".into());
    scale.insert("apiVersion".into(), "autoscaling/v1".into());
    scale.insert("metadata".into(), Value::Object(metadata));
    scale.insert("spec".into(), Value::Object(spec));
    scale.insert("status".into(), Value::Object(status));
    scale
}

struct ReplicaCounts {
    wanted: Option<i64>,
    current: Option<i64>,
    selector: String,
}

/// Writes the wanted count into a parent.
pub(crate) fn set_replicas(served: &ServedKind, parent: &mut Object, replicas: i64) {
    let path = replicas_path(served);
    let Some((last, parents)) = path.split_last() else { return };
    let mut at = parent;
    for member in parents {
        at = at.map_mut(member);
    }
    at.insert((*last).to_owned(), replicas.into());
}

/// A selector as text: `app=a,tier in (x,y)`.
fn selector_text(parent: &Object) -> String {
    let Some(selector) = parent.map_at(&["spec", "selector"]) else { return String::new() };
    // ReplicationControllers have a plain map, all others a LabelSelector.
    let plain = !selector.contains_key("matchLabels") && !selector.contains_key("matchExpressions");
    let labels = if plain { Some(selector) } else { selector.map_at(&["matchLabels"]) };
    let mut terms: Vec<(String, String)> = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), format!("{key}={}", value.as_str().unwrap_or_default())))
        .collect();
    let expressions = if plain { &[] } else { selector.list_at(&["matchExpressions"]) };
    for expression in expressions.iter().filter_map(Value::as_object) {
        let key = expression.str_at(&["key"]).unwrap_or_default();
        let mut values: Vec<&str> =
            expression.list_at(&["values"]).iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let text = match expression.str_at(&["operator"]).unwrap_or_default() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        };
        terms.push((key.to_owned(), text));
    }
    // Plain labels stay in front of expressions with the same key.
    terms.sort_by(|a, b| a.0.cmp(&b.0));
    terms.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}

/// How a Scale is written.
enum ScaleWrite {
    /// PUT: as the body says.
    Whole,
    /// A patch of it.
    Patch(PatchType, Value),
    /// An applied configuration.
    Apply(Object),
}

/// PUT or PATCH of a Scale.
pub(crate) async fn write(
    api: &ApiServer,
    request: &mut ResourceRequest,
    is_patch: bool,
) -> Result<ResponseObject, Failure> {
    let applies = is_patch && request.content_type == "application/apply-patch+yaml";
    let kind =
        if is_patch && !applies { Some(PatchType::read(&request.content_type)?) } else { None };
    let name = if is_patch { "PatchOptions" } else { "UpdateOptions" };
    let options = WriteOptions::read(&request.query, name, applies)?;
    let (change, findings) = match kind {
        Some(kind) => {
            let patch = read_patch(&request.body, kind)?;
            let findings = repeated(&request.body, kind, &patch, options.validation);
            (ScaleWrite::Patch(kind, patch), findings)
        }
        None if applies => {
            let (config, findings) = apply::read_config(
                request,
                options.validation,
                (managed_scale::SCALE_VERSION, "Scale"),
            )?;
            check_members(&config)?;
            (ScaleWrite::Apply(config), findings)
        }
        None => (ScaleWrite::Whole, Vec::new()),
    };
    let served = Arc::clone(&request.served);
    let key = served.key(&request.namespace, &request.name);
    loop {
        let Some(record) = api.world.current().get(&key).cloned() else {
            return Err(missing(&served, &request.name));
        };
        let live = StoredObject::read(api, request, &record).await?;
        let mut parent = live.object.clone();
        let mut scale = match &change {
            ScaleWrite::Whole => {
                let scale = body_scale(request)?;
                check_uid(request, &scale, record.uid())?;
                scale
            }
            ScaleWrite::Patch(PatchType::Json, patch) => {
                tenure_patch::json::apply(shown(&served, &parent), patch).map_err(failed)?
            }
            ScaleWrite::Patch(kind, patch) => {
                let patched = tenure_patch::merge::apply(shown(&served, &parent), patch);
                let mut scale = patched.map_err(failed)?;
                if *kind == PatchType::Strategic {
                    // Such a patch fills a Scale whatever it calls itself: Ansible names the parent's kind.
                    scale.insert("kind".into(), "Scale".into());
                    scale.insert("apiVersion".into(), "autoscaling/v1".into());
                }
                scale
            }
            ScaleWrite::Apply(config) => applied(request, &options, &mut parent, config)?,
        };
        if applies {
            decode::report(request, options.validation, &findings).map_err(Failure::bad_request)?;
        } else {
            check_type(request, &mut scale, is_patch)?;
            decode::report(request, options.validation, &findings).map_err(|m| bad_result(&m))?;
        }
        let conditional = check(request, &scale, record.revision())?;
        if is_patch && served.custom.is_none() && scale_uid(&scale) != record.uid() {
            let kind = &served.kind;
            // A patch is refused as a Scale, a PUT as what is scaled.
            let named = check_uid(request, &scale, record.uid());
            named.map_err(|failure| {
                failure.about(&kind.group, &format!("{}/scale", kind.plural), &request.name)
            })?;
        }
        let replicas = scale.int_at(&["spec", "replicas"]).unwrap_or(0);
        if replicas == UNSET {
            let path = replicas_path(&served).join(".");
            return Err(Failure::bad_request(format!(
                "the spec replicas field \".{path}\" cannot be empty"
            )));
        }
        if !applies {
            updated(request, &options, &mut parent, &scale)?;
        }
        set_replicas(&served, &mut parent, replicas);
        let fields = ManagedFieldsMode::Settled;
        match store(api, request, &options, live, parent, fields).await? {
            UpdateOutcome::Done(found) => {
                return Ok(ResponseObject::Object(view(&served, found.object(&served)?.as_ref())?));
            }
            UpdateOutcome::Moved if conditional && !is_patch => return Err(changed(request)),
            UpdateOutcome::Moved | UpdateOutcome::Again => {}
        }
    }
}

/// The Scale as a configuration makes it; the parent gets the managers that follow from it (R82a).
fn applied(
    request: &ResourceRequest,
    options: &WriteOptions,
    parent: &mut Object,
    config: &Object,
) -> Result<Object, Failure> {
    let served = &request.served;
    let replicas = replicas(served);
    let mut scale = managed(served, &replicas, parent);
    let now = now();
    let application = Application {
        config,
        who: FieldManager {
            manager: &request.manager(options.manager.as_deref()),
            api_version: managed_scale::SCALE_VERSION,
            subresource: "scale",
            now: &now,
        },
        reset: &[],
        force: options.force,
    };
    let merged = tenure_patch::managed::apply(&scale_schema()?, Some(&mut scale), &application)
        .map_err(|error| apply::refused(error, ("autoscaling", "Scale", &request.name)))?;
    set_managers(&replicas, parent, &merged);
    Ok(merged)
}

/// The parent gets the managers that follow from a Scale that was not applied (R82a).
fn updated(
    request: &ResourceRequest,
    options: &WriteOptions,
    parent: &mut Object,
    scale: &Object,
) -> Result<(), Failure> {
    let replicas = replicas(&request.served);
    let before = managed(&request.served, &replicas, parent);
    let mut after = scale.clone();
    let who = FieldManager {
        manager: &request.manager(options.manager.as_deref()),
        api_version: managed_scale::SCALE_VERSION,
        subresource: "scale",
        now: &now(),
    };
    tenure_patch::managed::update(&scale_schema()?, Some(&before), &mut after, &who, &[]);
    set_managers(&replicas, parent, &after);
    Ok(())
}

/// The Scale of a parent with the managers that it has.
fn managed(served: &ServedKind, replicas: &managed_scale::Replicas, parent: &Object) -> Object {
    let mut scale = shown(served, parent);
    if let Some(managers) = replicas.of_scale(parent) {
        scale.map_mut("metadata").insert("managedFields".into(), managers);
    }
    scale
}

fn set_managers(replicas: &managed_scale::Replicas, parent: &mut Object, scale: &Object) {
    let managers = replicas.of_parent(parent, scale);
    let metadata = parent.map_mut("metadata");
    match managers {
        Some(managers) => metadata.insert("managedFields".into(), managers),
        None => metadata.remove("managedFields"),
    };
}

fn scale_schema() -> Result<TypeSchema<'static>, Failure> {
    let type_id = facts().type_id("api.autoscaling.v1.Scale");
    let type_id = type_id.ok_or_else(|| Failure::internal("the facts table has no Scale"))?;
    Ok(TypeSchema::new(facts(), type_id))
}

/// Where every version that objects may have been written in has the replicas.
fn replicas(served: &ServedKind) -> managed_scale::Replicas {
    let own = &served.api_version;
    if let Some(custom) = &served.custom {
        let paths = custom.replicas.iter().map(|(version, path)| {
            let path = path.as_ref().map(|path| path.iter().map(String::as_str).collect());
            (version.as_str(), path)
        });
        return managed_scale::Replicas::new(own, paths);
    }
    // Older versions are served no more, and yet were written in.
    let older: &[&str] = match served.kind.plural.as_ref() {
        "deployments" | "statefulsets" => &["apps/v1beta1", "apps/v1beta2"],
        "replicasets" => &["apps/v1beta2"],
        _ => &[],
    };
    let versions = older.iter().copied().chain([own.as_str()]);
    managed_scale::Replicas::new(
        own,
        versions.map(|version| (version, Some(vec!["spec", "replicas"]))),
    )
}

/// A Scale has what its type has, whatever the validation mode.
fn check_members(config: &Object) -> Result<(), Failure> {
    let mut copy = config.clone();
    let unknown = decode::check_unstored(&mut copy, "Scale", "api.autoscaling.v1.Scale")
        .map_err(Failure::bad_request)?;
    match unknown.as_slice() {
        [] => Ok(()),
        some => Err(Failure::bad_request(format!("not declared in schema: {}", some.join(", ")))),
    }
}

fn scale_uid(scale: &Object) -> &str {
    scale.str_at(&["metadata", "uid"]).unwrap_or_default()
}

fn body_scale(request: &ResourceRequest) -> Result<Object, Failure> {
    let expected = decode::ExpectedType::named("api.autoscaling.v1.Scale", "Scale");
    let (value, _) =
        decode::parse(&request.content_type, &request.body, FieldValidation::Ignore, expected)?;
    match value {
        Value::Object(scale) => Ok(scale),
        _ => Err(Failure::bad_request("the body is not a Scale object")),
    }
}

/// The Scale is one, and speaks of the object in the path (R54, R55).
fn check_type(
    request: &ResourceRequest,
    scale: &mut Object,
    is_patch: bool,
) -> Result<(), Failure> {
    let wrong = |why: String| if is_patch { bad_result(&why) } else { Failure::bad_request(why) };
    decode::check_unstored(scale, "Scale", "api.autoscaling.v1.Scale").map_err(wrong)?;
    let (name, namespace) = (scale.name(), scale.namespace());
    if name != request.name || !(namespace.is_empty() || namespace == request.namespace) {
        return Err(Failure::bad_request(format!(
            "the name of the object ({namespace}/{name}) does not match the name on the URL ({}/{})",
            request.namespace, request.name
        )));
    }
    Ok(())
}

fn check(request: &ResourceRequest, scale: &Object, stored: Revision) -> Result<bool, Failure> {
    let replicas = scale.at(&["spec", "replicas"]).cloned().unwrap_or_else(|| json!(0));
    let path = Path::Root.field("spec");
    let path = path.field("replicas");
    let mut errors = Errors::new();
    match replicas.as_i64() {
        // Custom objects are checked by their own rules.
        Some(number) if number < 0 && request.served.custom.is_none() => {
            errors.invalid(&path, number, "must be greater than or equal to 0");
        }
        Some(number) if i32::try_from(number).is_ok() => {}
        _ => return Err(Failure::bad_request("spec.replicas: must be a 32-bit whole number")),
    }
    if !errors.is_empty() {
        return Err(Failure::invalid("autoscaling", "Scale", &request.name, errors));
    }
    match scale.str_at(&["metadata", "resourceVersion"]) {
        None | Some("") => Ok(false),
        Some(text) if Revision::parse(text) == Some(stored) => Ok(true),
        Some(_) => Err(changed(request)),
    }
}
