//! Rules of spec/downward-api.md that the engine keeps, section by section.

mod certificates;
mod environment;
mod files;
mod owners;
mod policies;
mod quoting;
mod values;
mod writer;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tenure_machinery::Object;

use crate::view::{Sources, TokenWanted};

fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        other => panic!("not an object: {other}"),
    }
}

/// The objects a test gives.
#[derive(Default)]
struct Shelf {
    services: Vec<Arc<Object>>,
    not_yet: bool,
    config_maps: BTreeMap<String, Arc<Object>>,
    secrets: BTreeMap<String, Arc<Object>>,
    files: BTreeMap<(String, String), Vec<u8>>,
}

impl Shelf {
    fn config_map(mut self, name: &str, content: Value) -> Shelf {
        self.config_maps.insert(name.into(), Arc::new(object(content)));
        self
    }

    fn secret(mut self, name: &str, data: &[(&str, &[u8])]) -> Shelf {
        let data: Object = data
            .iter()
            .map(|(key, value)| ((*key).into(), STANDARD.encode(value).into()))
            .collect();
        self.secrets.insert(name.into(), Arc::new(object(json!({ "data": data }))));
        self
    }

    fn service(mut self, namespace: &str, name: &str, spec: Value) -> Shelf {
        let service = json!({ "metadata": { "namespace": namespace, "name": name }, "spec": spec });
        self.services.push(Arc::new(object(service)));
        self
    }

    fn file(mut self, volume: &str, path: &str, text: &str) -> Shelf {
        self.files.insert((volume.into(), path.into()), text.into());
        self
    }
}

impl Sources for Shelf {
    fn services(&self) -> Result<&[Arc<Object>], String> {
        if self.not_yet {
            return Err("services have not yet been read at least once".into());
        }
        Ok(&self.services)
    }

    fn config_map(&self, name: &str) -> Result<Option<Arc<Object>>, String> {
        Ok(self.config_maps.get(name).cloned())
    }

    fn secret(&self, name: &str) -> Result<Option<Arc<Object>>, String> {
        Ok(self.secrets.get(name).cloned())
    }

    fn file(&self, volume: &str, path: &str) -> Result<Vec<u8>, String> {
        let found = self.files.get(&(volume.into(), path.into())).cloned();
        found.ok_or_else(|| "no such file".into())
    }

    fn token(&self, wanted: &TokenWanted) -> Result<Vec<u8>, String> {
        let audience = wanted.audience.as_deref().unwrap_or("the server");
        Ok(alloc::format!("token for {audience}, {} s", wanted.expiration_seconds).into_bytes())
    }
}
