//! The environment of one container, made at each of its starts (R61 to R61k).
//!
//! ```text
//!   service variables ──► envFrom, in order ──► env, in order        later wins, each name once
//! ```
//!
//! A running container's environment is never made again.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use crate::env_file;
use crate::expand::{expand, expand_strict};
use crate::field::resolve_field_ref;
use crate::resource::resolve_resource;
use crate::services::service_env;
use crate::view::{RuntimeView, Sources, ValueDestination};

/// What Linux takes for one `NAME=value`, its end included.
const ONE_MAX: usize = 131_072;

/// What Linux takes for all arguments and variables with the usual stack of 8 MiB.
const ALL_MAX: usize = 2 * 1024 * 1024;

/// Variables by name. Values never show when it is printed (R214).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    // INVARIANT: in the order of names, each name once.
    list: Vec<(String, Bytes)>,
}

impl fmt::Debug for Environment {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = self.iter().map(|(name, value)| (name, value.len()));
        out.debug_map().entries(sizes).finish()
    }
}

impl Environment {
    /// The value of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let at = self.list.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()?;
        self.list.get(at).map(|(_, value)| value.as_ref())
    }

    /// Sets a name; the last value counts.
    pub fn set(&mut self, name: String, value: impl Into<Bytes>) {
        match self.list.binary_search_by(|(known, _)| known.cmp(&name)) {
            Ok(at) => {
                if let Some((_, old)) = self.list.get_mut(at) {
                    *old = value.into();
                }
            }
            Err(at) => self.list.insert(at, (name, value.into())),
        }
    }

    /// Names and values, in the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.list.iter().map(|(name, value)| (name.as_str(), value.as_ref()))
    }

    /// Names and values, in the order of names.
    #[must_use]
    pub fn into_vec(self) -> Vec<(String, Vec<u8>)> {
        self.list.into_iter().map(|(name, value)| (name, value.into())).collect()
    }

    /// A `command` or `args` with its `$(NAME)` replaced (R61e); bytes that are no text are replaced
    /// by marks, because an argument is text.
    #[must_use]
    pub fn expand_all(&self, words: &[Value]) -> Vec<String> {
        let words = words.iter().filter_map(Value::as_str);
        words.map(|word| into_text(expand(word, |name| self.get(name)))).collect()
    }

    /// A `subPathExpr` with every name replaced (R61f).
    ///
    /// # Errors
    /// A name is not set or empty, or the path leads out of the volume.
    pub fn expand_path(&self, text: &str) -> Result<String, String> {
        let path = expand_strict(text, |name| self.get(name)).map_err(|error| error.to_string())?;
        let path = into_text(path);
        let backsteps = path.split('/').any(|element| element == "..");
        if path.starts_with('/') || backsteps || path.contains('\0') {
            return Err(format!("{text:?} expands to a path that leads out of the volume"));
        }
        Ok(path)
    }
}

fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Why a container cannot be started as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvError {
    /// The container.
    pub container: String,
    /// The waiting reason: `CreateContainerConfigError`.
    pub reason: &'static str,
    /// What people read; never a value.
    pub message: String,
}

impl fmt::Display for EnvError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl core::error::Error for EnvError {}

/// The environment of `container`, an item of one of the pod's lists of containers.
///
/// # Errors
/// Something it refers to is missing, or a value is nothing a process can be given.
pub fn build_env(
    pod: &Object,
    container: &Object,
    runtime: &RuntimeView<'_>,
    sources: &dyn Sources,
) -> Result<Environment, EnvError> {
    let build = Build { pod, container, runtime, sources };
    build.run().map_err(|message| EnvError {
        container: container.str_at(&["name"]).unwrap_or_default().to_owned(),
        reason: "CreateContainerConfigError",
        message,
    })
}

struct Build<'a> {
    pod: &'a Object,
    container: &'a Object,
    runtime: &'a RuntimeView<'a>,
    sources: &'a dyn Sources,
}

/// An environment that is being made: the container's own variables hide those of Services.
struct EnvironmentBuilder {
    services: Environment,
    own: BTreeMap<String, Bytes>,
}

impl EnvironmentBuilder {
    fn new(mut services: Vec<(String, Bytes)>) -> EnvironmentBuilder {
        // The ports of one Service may give the same name twice, and the last counts; but mostly the list
        // comes as it should be.
        if !services.is_sorted_by(|(one, _), (other, _)| one < other) {
            services.sort_by(|(one, _), (other, _)| one.cmp(other));
            services.reverse();
            services.dedup_by(|(one, _), (other, _)| one == other);
            services.reverse();
        }
        EnvironmentBuilder { services: Environment { list: services }, own: BTreeMap::new() }
    }

    fn get(&self, name: &str) -> Option<&[u8]> {
        let own = self.own.get(name).map(Bytes::as_ref);
        own.or_else(|| self.services.get(name))
    }

    fn set(&mut self, name: String, value: Bytes) {
        self.own.insert(name, value);
    }

    fn finish(self) -> Environment {
        let mut list = Vec::with_capacity(self.services.list.len() + self.own.len());
        let mut own = self.own.into_iter().peekable();
        for (name, value) in self.services.list {
            let order = loop {
                let order = own.peek().map_or(Ordering::Greater, |(own, _)| own.cmp(&name));
                match own.next_if(|_| order == Ordering::Less) {
                    Some(earlier) => list.push(earlier),
                    None => break order,
                }
            };
            if order != Ordering::Equal {
                list.push((name, value));
            }
        }
        list.extend(own);
        Environment { list }
    }
}

impl Build<'_> {
    fn run(&self) -> Result<Environment, String> {
        let links = self.pod.bool_at(&["spec", "enableServiceLinks"]).unwrap_or(true);
        let services = self.sources.services()?;
        let mut env = EnvironmentBuilder::new(service_env(services, self.pod.namespace(), links));
        for source in self.container.list_at(&["envFrom"]).iter().filter_map(Value::as_object) {
            self.take_all(source, &mut env)?;
        }
        for variable in self.container.list_at(&["env"]).iter().filter_map(Value::as_object) {
            let name = variable.str_at(&["name"]).unwrap_or_default();
            if let Some(value) = self.value(variable, &env)? {
                env.set(name.to_owned(), value.into());
            }
        }
        let env = env.finish();
        check_sizes(&env)?;
        Ok(env)
    }

    /// One entry of `envFrom`.
    fn take_all(&self, source: &Object, env: &mut EnvironmentBuilder) -> Result<(), String> {
        let prefix = source.str_at(&["prefix"]).unwrap_or_default();
        if let Some(reference) = source.map_at(&["configMapRef"]) {
            let Some(map) = self.config_map(reference)? else { return Ok(()) };
            let data = map.map_at(&["data"]).into_iter().flatten();
            for (key, value) in data {
                let value = value.as_str().unwrap_or_default();
                env.set([prefix, key].concat(), Bytes::copy_from_slice(value.as_bytes()));
            }
        } else if let Some(reference) = source.map_at(&["secretRef"]) {
            let Some(secret) = self.secret(reference)? else { return Ok(()) };
            for (key, value) in secret.map_at(&["data"]).into_iter().flatten() {
                env.set([prefix, key].concat(), decoded(value)?.into());
            }
        }
        Ok(())
    }

    /// The value of one entry of `env`; none where an optional source is missing.
    fn value(
        &self,
        variable: &Object,
        env: &EnvironmentBuilder,
    ) -> Result<Option<Vec<u8>>, String> {
        let value = variable.str_at(&["value"]).unwrap_or_default();
        let Some(from) = variable.map_at(&["valueFrom"]).filter(|_| value.is_empty()) else {
            return Ok(Some(expand(value, |name| env.get(name))));
        };
        if let Some(reference) = from.map_at(&["fieldRef"]) {
            let text = resolve_field_ref(reference, self.pod, self.runtime, ValueDestination::Env);
            return text.map(|text| Some(text.into_bytes())).map_err(|error| error.to_string());
        }
        if let Some(reference) = from.map_at(&["resourceFieldRef"]) {
            let text = resolve_resource(reference, self.pod, Some(self.container), self.runtime);
            return text.map(|text| Some(text.into_bytes())).map_err(|error| error.to_string());
        }
        if let Some(reference) = from.map_at(&["configMapKeyRef"]) {
            let Some(map) = self.config_map(reference)? else { return Ok(None) };
            let value = map.str_at(&["data", key(reference)]).map(|text| text.as_bytes().to_vec());
            return self.found(value, "ConfigMap", reference);
        }
        if let Some(reference) = from.map_at(&["secretKeyRef"]) {
            let Some(secret) = self.secret(reference)? else { return Ok(None) };
            let value = secret.at(&["data", key(reference)]).map(decoded).transpose()?;
            return self.found(value, "Secret", reference);
        }
        match from.map_at(&["fileKeyRef"]) {
            Some(reference) => self.file_value(reference),
            // Only an object of a later version has a source that is not known.
            None => Ok(Some(Vec::new())),
        }
    }

    fn file_value(&self, reference: &Object) -> Result<Option<Vec<u8>>, String> {
        let of = |name: &str| reference.str_at(&[name]).unwrap_or_default();
        let (volume, path, key) = (of("volumeName"), of("path"), of("key"));
        let bytes = self.sources.file(volume, path)?;
        let text = core::str::from_utf8(&bytes)
            .map_err(|_| format!("couldn't parse env file {path:?} of volume {volume:?}"))?;
        // The words of the parser name a line, never what stands in it.
        let value = env_file::value(text, key).map_err(|why| {
            format!("couldn't parse env file {path:?} of volume {volume:?}: {why}")
        })?;
        match value {
            Some(value) => Ok(Some(value.into_bytes())),
            None if optional(reference) => Ok(None),
            None => Err(format!("environment variable key {key:?} not found in file {path:?}")),
        }
    }

    fn found(
        &self,
        value: Option<Vec<u8>>,
        kind: &str,
        reference: &Object,
    ) -> Result<Option<Vec<u8>>, String> {
        if value.is_some() || optional(reference) {
            return Ok(value);
        }
        let (namespace, name) = (self.pod.namespace(), name(reference));
        Err(format!("couldn't find key {} in {kind} {namespace}/{name}", key(reference)))
    }

    fn config_map(&self, reference: &Object) -> Result<Option<SharedObject>, String> {
        let map = self.sources.config_map(name(reference))?;
        missing(map, "configmap", reference)
    }

    fn secret(&self, reference: &Object) -> Result<Option<SharedObject>, String> {
        let secret = self.sources.secret(name(reference))?;
        missing(secret, "secret", reference)
    }
}

type SharedObject = alloc::sync::Arc<Object>;

/// Passes an object on; one that is missing is told unless it is optional.
fn missing(
    found: Option<SharedObject>,
    kind: &str,
    reference: &Object,
) -> Result<Option<SharedObject>, String> {
    if found.is_none() && !optional(reference) {
        return Err(format!("{kind} {:?} not found", name(reference)));
    }
    Ok(found)
}

fn name(reference: &Object) -> &str {
    reference.str_at(&["name"]).unwrap_or_default()
}

fn key(reference: &Object) -> &str {
    reference.str_at(&["key"]).unwrap_or_default()
}

fn optional(reference: &Object) -> bool {
    reference.bool_at(&["optional"]).unwrap_or_default()
}

/// The bytes behind the text that JSON has for them.
pub(crate) fn decoded(value: &Value) -> Result<Vec<u8>, String> {
    let text = value.as_str().unwrap_or_default();
    STANDARD.decode(text).map_err(|_| "the data is not base64".to_owned())
}

/// What a process cannot be given is told by name and size (R61k).
fn check_sizes(env: &Environment) -> Result<(), String> {
    let mut all = 0_usize;
    let mut largest = ("", 0_usize);
    for (name, value) in env.iter() {
        if value.contains(&0) {
            let size = value.len();
            return Err(format!("environment variable {name:?} ({size} bytes) has a NUL byte"));
        }
        let size = name.len() + "=".len() + value.len();
        if size >= ONE_MAX {
            return Err(format!(
                "environment variable {name:?} takes {size} bytes, a process can be given {} at most",
                ONE_MAX - 1
            ));
        }
        // The kernel counts the end of each text and a pointer to it.
        all += size + 1 + size_of::<usize>();
        if size > largest.1 {
            largest = (name, size);
        }
    }
    if all > ALL_MAX {
        let (name, size) = largest;
        return Err(format!(
            "the environment takes {all} bytes, a process can be given {ALL_MAX} at most; the largest variable is {name:?} with {size} bytes"
        ));
    }
    Ok(())
}
