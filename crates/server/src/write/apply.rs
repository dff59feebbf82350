//! PATCH with an applied configuration: server-side apply (R91–R102).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tenure_core::Revision;
use tenure_machinery::status::{Details, StatusCause};
use tenure_machinery::{Errors, Failure, Object, ObjectExt, Path};
use tenure_patch::TypeSchema;
use tenure_patch::managed::{
    Application, ApplyError, Conflict, FieldManager, ManagedFieldsOperation,
};
use tenure_schema::{decode as schema, duplicate, facts};

use crate::api::ApiServer;
use crate::clock::now;
use crate::query::{FieldValidation, WriteOptions};
use crate::registry::ServedKind;
use crate::request::ResourceRequest;
use crate::write::managed::{ManagedFieldsMode, reset};
use crate::write::patch::warn_of_kept;
use crate::write::stages::StoredObject;
use crate::write::update::{UpdateOutcome, Updated, changed, store};
use crate::write::{create, decode};

/// Applies the body to the object, or creates it; computed again on newer objects until the deadline.
pub(crate) async fn apply(
    api: &ApiServer,
    request: &mut ResourceRequest,
) -> Result<Updated, Failure> {
    let options = WriteOptions::read(&request.query, "PatchOptions", true)?;
    let (config, repeated) = read(request, options.validation)?;
    let served = Arc::clone(&request.served);
    let key = served.key(&request.namespace, &request.name);
    loop {
        let Some(record) = api.world.current().get(&key).cloned() else {
            if !request.subresource.is_empty() {
                return Err(crate::read::get::missing(&served, &request.name));
            }
            check_creation(request, &config)?;
            let object = merged(request, &options, None, &config)?;
            report(request, &options, &repeated)?;
            match create::from_object(api, request, &options, object, ManagedFieldsMode::Settled)
                .await
            {
                Err(failure) if failure.reason == "AlreadyExists" => continue,
                result => return result.map(Updated::Created),
            }
        };
        let conditional = check_version(request, &config, record.revision())?;
        check_uid(request, &config, record.uid())?;
        let StoredObject { object: mut old, .. } =
            StoredObject::read(api, request, &record).await?;
        let object = merged(request, &options, Some(&mut old), &config)?;
        report(request, &options, &repeated)?;
        warn_of_kept(request, &old, &object);
        let live = StoredObject { record: &record, object: old };
        match store(api, request, &options, live, object, ManagedFieldsMode::Settled).await? {
            UpdateOutcome::Done(found) => return Ok(Updated::Changed(found)),
            UpdateOutcome::Moved if conditional => return Err(changed(request)),
            UpdateOutcome::Moved | UpdateOutcome::Again => {}
        }
    }
}

/// Says which keys of the configuration stand twice, or refuses them: after the merge, so conflicts come
/// first (R32).
fn report(
    request: &mut ResourceRequest,
    options: &WriteOptions,
    repeated: &[String],
) -> Result<(), Failure> {
    decode::report(request, options.validation, repeated).map_err(Failure::bad_request)
}

/// Reads the configuration and checks that it speaks of the object in the path; answers the keys that stand
/// twice as well, of which the last counts.
fn read(
    request: &ResourceRequest,
    validation: FieldValidation,
) -> Result<(Object, Vec<String>), Failure> {
    let served = &request.served;
    let as_served = (served.api_version.as_str(), served.kind.kind.as_ref());
    let (config, repeated) = read_config(request, validation, as_served)?;
    if served.type_id.is_none_or(|id| !schema::knows(id, &config)) {
        check_members(served, &config)?;
    }
    Ok((config, repeated))
}

/// Reads a configuration of this version and kind for the object in the path.
pub(crate) fn read_config(
    request: &ResourceRequest,
    validation: FieldValidation,
    (api_version, kind): (&str, &str),
) -> Result<(Object, Vec<String>), Failure> {
    let (value, repeated) = if request.body.trim_ascii_start().starts_with(b"{") {
        let (value, paths) = duplicate::parse(&request.body).map_err(|error| {
            Failure::bad_request(format!("the configuration is not JSON: {error}"))
        })?;
        let wanted = validation != FieldValidation::Ignore;
        (value, if wanted { decode::repeated(&paths) } else { Vec::new() })
    } else {
        let limits = decode::yaml_limits();
        let (value, twice) =
            tenure_yaml::to_json_lenient(&request.body, limits).map_err(|error| {
                Failure::bad_request(format!("the configuration is not YAML: {error}"))
            })?;
        (value, twice.iter().map(ToString::to_string).collect())
    };
    decode::check_size(&value)?;
    let Value::Object(config) = value else {
        return Err(Failure::bad_request("the configuration is not an object"));
    };
    for (member, wanted) in [("apiVersion", api_version), ("kind", kind)] {
        if config.str_at(&[member]) != Some(wanted) {
            return Err(Failure::bad_request(format!(
                "{member}: a configuration says `{wanted}` here"
            )));
        }
    }
    if config.at(&["metadata", "managedFields"]).is_some_and(|fields| !fields.is_null()) {
        return Err(Failure::bad_request("metadata.managedFields must be nil"));
    }
    for (member, wanted) in [("name", &request.name), ("namespace", &request.namespace)] {
        let given = config.str_at(&["metadata", member]).unwrap_or_default();
        // What lives outside of namespaces has none, whatever is said.
        let counts = member == "name" || request.served.kind.namespaced;
        if counts && !given.is_empty() && given != wanted {
            return Err(Failure::bad_request(format!(
                "metadata.{member}: the {member} of the configuration ({given}) does not match the {member} on the URL ({wanted})"
            )));
        }
    }
    Ok((config, repeated))
}

/// A configuration with a member that the type does not have cannot be told apart into fields, whatever
/// the validation mode. Decoding fills members in, so it works on a copy: a dear one, made only where a
/// look at the members' names or the merge found a fault.
fn check_members(served: &ServedKind, config: &Object) -> Result<(), Failure> {
    let mut copy = config.clone();
    let unknown = decode::unknown_members(served, &mut copy).map_err(Failure::bad_request)?;
    let reported: Vec<String> =
        unknown.iter().map(|path| format!(".{path}: field not declared in schema")).collect();
    let reported = match reported.as_slice() {
        [] => return Ok(()),
        [one] => one.clone(),
        many => format!("errors:\n  {}", many.join("\n  ")),
    };
    Err(Failure::bad_request(format!(
        "failed to create typed patch object ({}/{}; {}, Kind={}): {reported}",
        config.namespace(),
        config.name(),
        served.api_version,
        served.kind.kind
    )))
}

/// The configuration merged over the live object, decoded, with its fields settled.
fn merged(
    request: &mut ResourceRequest,
    options: &WriteOptions,
    live: Option<&mut Object>,
    config: &Object,
) -> Result<Object, Failure> {
    let served = Arc::clone(&request.served);
    let manager = request.manager(options.manager.as_deref());
    let now = now();
    let application = Application {
        config,
        who: FieldManager {
            manager: &manager,
            api_version: &served.api_version,
            subresource: &request.subresource,
            now: &now,
        },
        reset: reset(&served, Some(request.subresource.as_str()).filter(|s| !s.is_empty())),
        force: options.force,
    };
    let merged = match (&served.custom, served.type_id) {
        (Some(custom), _) => tenure_patch::managed::apply(&custom.merging(), live, &application),
        (None, Some(type_id)) => {
            let schema = TypeSchema::new(facts(), type_id);
            tenure_patch::managed::apply(&schema, live, &application)
        }
        (None, None) => return Err(Failure::internal("the kind has no type")),
    };
    let mut object = match merged {
        Ok(object) => object,
        Err(error) => {
            check_members(&served, config)?;
            return Err(refused(error, (&served.kind.group, &served.kind.kind, &request.name)));
        }
    };
    decode::check_schema(&served, &mut object).map_err(Failure::bad_request)?;
    decode::settle_namespace(request, &mut object)?;
    Ok(object)
}

/// Why a configuration cannot be applied to the object of this group, kind and name.
pub(crate) fn refused(error: ApplyError, (group, kind, name): (&str, &str, &str)) -> Failure {
    match error {
        ApplyError::Conflicts(conflicts) => conflict(&conflicts),
        ApplyError::Invalid(message) => {
            let mut errors = Errors::new();
            errors.invalid(&Path::Root, "the configuration", &message);
            Failure::invalid(group, kind, name, errors)
        }
    }
}

/// 409 with one cause per field that belongs to somebody else (R93).
fn conflict(conflicts: &[Conflict]) -> Failure {
    let causes: Vec<StatusCause> = conflicts
        .iter()
        .map(|conflict| StatusCause {
            reason: "FieldManagerConflict".to_owned(),
            message: format!("conflict with {}", manager(conflict)),
            field: conflict.field.clone(),
        })
        .collect();
    let message = match causes.as_slice() {
        [only] => format!("Apply failed with 1 conflict: {}: {}", only.message, only.field),
        _ => format!("Apply failed with {} conflicts: {}", causes.len(), by_manager(conflicts)),
    };
    Failure::new(409, "Conflict", message).with(Details { causes, ..Details::default() })
}

/// Who owns a field. An applier is one manager in every version, so only an updater's is told.
fn manager(conflict: &Conflict) -> String {
    let mut reported = format!("{:?}", conflict.manager);
    if !conflict.subresource.is_empty() {
        reported = format!("{reported} with subresource {:?}", conflict.subresource);
    }
    match conflict.operation {
        ManagedFieldsOperation::Apply => reported,
        ManagedFieldsOperation::Update => format!("{reported} using {}", conflict.api_version),
    }
}

/// The fields of each manager, below its name.
fn by_manager(conflicts: &[Conflict]) -> String {
    let mut fields: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for conflict in conflicts {
        fields.entry(manager(conflict)).or_default().push(&conflict.field);
    }
    let mut lines = Vec::new();
    for (manager, fields) in fields {
        lines.push(format!("conflicts with {manager}:"));
        lines.extend(fields.into_iter().map(|field| format!("- {field}")));
    }
    lines.join("\n")
}

fn check_creation(request: &ResourceRequest, config: &Object) -> Result<(), Failure> {
    let kind = &request.served.kind;
    if config.str_at(&["metadata", "uid"]).is_some_and(|uid| !uid.is_empty()) {
        let why =
            "uid mismatch: the provided object specified a uid, and no existing object was found";
        return Err(Failure::conflict(&kind.group, &kind.plural, &request.name, why));
    }
    if config.name().is_empty() {
        return Err(Failure::bad_request("metadata.name: name must be provided"));
    }
    Ok(())
}

/// Whether the configuration asks for just this version (R91).
fn check_version(
    request: &ResourceRequest,
    config: &Object,
    stored: Revision,
) -> Result<bool, Failure> {
    match config.str_at(&["metadata", "resourceVersion"]) {
        None | Some("") => Ok(false),
        Some(text) if Revision::parse(text) == Some(stored) => Ok(true),
        Some(_) => Err(changed(request)),
    }
}

fn check_uid(request: &ResourceRequest, config: &Object, stored: &str) -> Result<(), Failure> {
    match config.str_at(&["metadata", "uid"]) {
        Some(uid) if !uid.is_empty() && uid != stored => {
            let mut errors = Errors::new();
            let metadata = Path::Root.field("metadata");
            errors.invalid(&metadata.field("uid"), uid, "field is immutable");
            let kind = &request.served.kind;
            Err(Failure::invalid(&kind.group, &kind.kind, &request.name, errors))
        }
        _ => Ok(()),
    }
}
