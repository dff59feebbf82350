//! What policies and webhooks see of an object, and how what they make of it becomes the object of the request.
//!
//! ```text
//!   the object ──► another version of it │ its Scale │ what is posted to it ──► changed ──► the object
//! ```
//!
//! A webhook is asked for the way back where it converted the object on the way here (R129).
//!
//! Who changes it, and why, is decided beside this.

use std::sync::Arc;

use serde_json::Value;
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_patch::TypeSchema;
use tenure_patch::managed::{OverlayError, overlay};
use tenure_schema::{TypeId, decode as schema, facts};

use super::policy::subject::{SCALE, TypeName, convert};
use crate::api::ApiServer;
use crate::registry::ServedKind;
use crate::write::{decode, scale};

/// How an object is shown.
pub(super) struct ShownObject {
    /// The kind that it is shown as.
    pub(super) served: Arc<ServedKind>,
    /// The kind of the request.
    pub(super) requested: Arc<ServedKind>,
    /// The type of what is shown, where it is no object of the resource: its Scale, or what is posted to it.
    pub(super) kind: Option<TypeName>,
}

impl ShownObject {
    /// Decodes and defaults what somebody made of it; answers the members that nobody knows, which are dropped.
    ///
    /// # Errors
    /// Something has a wrong type.
    pub(super) fn read(&self, changed: &mut Object) -> Result<Vec<String>, String> {
        match (self.kind, self.type_id()) {
            (None, _) => {
                let unknown = decode::unknown_members(&self.served, changed)?;
                self.served.kind.rules.default(changed);
                Ok(unknown)
            }
            (Some(_), Some(type_id)) => {
                let noticed = schema::decode(type_id, changed).map_err(|wrong| wrong.message)?;
                Ok(noticed.unknown)
            }
            (Some(_), None) => Ok(Vec::new()),
        }
    }

    /// The object of the request, with what somebody made of what they saw of it.
    ///
    /// # Errors
    /// A webhook does not convert it back.
    pub(super) async fn restore(
        &self,
        api: &ApiServer,
        user: &str,
        changed: Object,
        object: &Object,
    ) -> Result<Object, Failure> {
        let (seen, wanted) = (&self.served.api_version, &self.requested.api_version);
        Ok(match self.kind {
            Some(SCALE) => {
                let mut object = object.clone();
                let replicas = changed.int_at(&["spec", "replicas"]).unwrap_or(0);
                scale::set_replicas(&self.requested, &mut object, replicas);
                object
            }
            Some(_) => changed,
            None if seen == wanted => changed,
            None => match &self.requested.custom {
                Some(custom) if custom.converts(seen, wanted) => {
                    let back = api.conversions.objects(user, custom, vec![changed], wanted);
                    let back = Box::pin(back).await?.into_iter().next();
                    back.ok_or_else(|| Failure::internal("a conversion without its object"))?
                }
                _ => convert(changed, &self.served, &self.requested),
            },
        })
    }

    /// Whether members that nobody knows are a fault; of custom objects they fall away in silence.
    pub(super) fn is_strict(&self) -> bool {
        self.kind.is_some() || self.served.custom.is_none()
    }

    /// Lays a configuration over what is shown.
    ///
    /// # Errors
    /// The configuration does not fit the type, or touches what is a unit.
    pub(super) fn overlay(&self, object: &Object, config: &Object) -> Result<Object, String> {
        let of_type =
            |why: String| format!("failed to convert patch object to typed object: {why}");
        let undeclared = self.undeclared(config).map_err(of_type)?;
        if !undeclared.is_empty() {
            let reported =
                undeclared.iter().map(|path| format!(".{path}: field not declared in schema"));
            return Err(of_type(reported.collect::<Vec<_>>().join("; ")));
        }
        let made = match (&self.served.custom, self.type_id()) {
            (Some(custom), _) if self.kind.is_none() => overlay(&custom.merging(), object, config),
            (_, Some(type_id)) => overlay(&TypeSchema::new(facts(), type_id), object, config),
            (_, None) => return Err(of_type("no corresponding type is known".to_owned())),
        };
        made.map_err(|error| match error {
            OverlayError::Atomic(places) => format!(
                "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
                places.join(", ")
            ),
            OverlayError::Invalid(why) => of_type(why),
        })
    }

    /// The members of a configuration that the type does not have.
    fn undeclared(&self, config: &Object) -> Result<Vec<String>, String> {
        if self.type_id().is_some_and(|type_id| schema::knows(type_id, config)) {
            return Ok(Vec::new());
        }
        // Decoding fills members in, so it works on a copy.
        let mut copy = config.clone();
        match (self.kind, self.type_id()) {
            (None, _) => decode::unknown_members(&self.served, &mut copy),
            (Some(_), Some(type_id)) => schema::decode(type_id, &mut copy)
                .map(|noticed| noticed.unknown)
                .map_err(|wrong| wrong.message),
            (Some(_), None) => Ok(Vec::new()),
        }
    }

    fn type_id(&self) -> Option<TypeId> {
        let Some(name) = self.kind else { return self.served.type_id };
        let mut types = facts().types().iter();
        let found = types
            .find(|of| of.kind.is_some_and(|kind| (kind.group, kind.version, kind.kind) == name));
        found.and_then(|of| facts().type_id(of.name))
    }
}

/// Whether two objects say that they are of one kind.
pub(super) fn is_same_kind(one: &Object, other: &Object) -> bool {
    let named = |object: &Object, member: &str| {
        object.get(member).and_then(Value::as_str).map(str::to_owned)
    };
    ["kind", "apiVersion"].iter().all(|member| named(one, member) == named(other, member))
}
