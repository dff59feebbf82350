//! Which kinds are served, and where their objects are kept.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arc_swap::ArcSwap;
use serde_json::Value;
use tenure_kinds::reference::ServedResource;
use tenure_machinery::{Failure, Kind, Object};
use tenure_openapi::compare_versions;
use tenure_schema::decode::decode;
use tenure_schema::{TypeId, facts};
use tenure_structural::RuleEngine;
use tenure_structural::crd::CustomResourceDefinitionRules;
use tenure_world::{LockStep, Record, SelectableFields, SelectablePath, World};
use tokio::sync::watch;

use crate::aggregate::{RemoteApi, RemoteApis, RemoteDiscovery};
use crate::custom::{self, Custom};
use crate::system::Documents;
use crate::view::{self, KindConversion};

/// A served kind with what the server looks up once.
pub struct ServedKind {
    /// The row.
    pub kind: Kind,
    /// `/registry/configmaps/`.
    pub prefix: String,
    /// The row's type in the facts table.
    pub type_id: Option<TypeId>,
    /// `v1` or `apps/v1`.
    pub api_version: String,
    /// How this kind turns into the one it is stored as, where the two differ.
    pub view: Option<KindConversion>,
    /// What a custom kind has beyond its row.
    pub custom: Option<Arc<Custom>>,
    /// Everything that is served, for kinds that show it.
    pub(crate) around: Weak<ArcSwap<Registry>>,
}

impl ServedKind {
    /// The key of one object.
    #[must_use]
    pub fn key(&self, namespace: &str, name: &str) -> String {
        if self.kind.namespaced {
            format!("{}{namespace}/{name}", self.prefix)
        } else {
            format!("{}{name}", self.prefix)
        }
    }

    /// Whether this is the same kind under a definition that says the same.
    pub(crate) fn same_as(&self, other: &ServedKind) -> bool {
        let identity =
            |served: &ServedKind| served.custom.as_ref().map(|custom| Arc::clone(&custom.identity));
        self.prefix == other.prefix && identity(self) == identity(other)
    }

    /// The group that a refused object is said to be of: that of its stored form, as upstream finds it first.
    pub(crate) fn refusing_group(&self) -> &str {
        match &self.view {
            Some(view) => view.api_version.split_once('/').map_or("", |(group, _)| group),
            None => &self.kind.group,
        }
    }

    /// Whether the bytes of a record are what this kind shows.
    #[must_use]
    pub fn shows_verbatim(&self, record: &Record) -> bool {
        self.view.is_none()
            && self.custom.as_ref().is_none_or(|c| c.shows_verbatim(record, &self.api_version))
    }

    /// Whether a webhook has to convert a record before this kind can show it.
    #[must_use]
    pub(crate) fn needs_conversion(&self, record: &Record) -> bool {
        let Some(custom) = &self.custom else { return false };
        custom.conversion.is_some()
            && !record.is_reshaped()
            && custom.converts(record.api_version(), &self.api_version)
    }

    /// Whether a record is in the version that objects of this kind are stored in now.
    #[must_use]
    pub(crate) fn stores_as(&self, record: &Record) -> bool {
        let own = self.custom.as_ref();
        own.is_none_or(|custom| record.api_version() == custom.storage_version)
    }

    /// Whether some records have to be converted before this kind can show them.
    #[must_use]
    pub(crate) fn may_convert(&self) -> bool {
        self.custom.as_ref().is_some_and(|custom| custom.conversion.is_some())
    }

    /// The row that works on a record in the version that it is stored in.
    #[must_use]
    pub fn as_stored(self: &Arc<ServedKind>, record: &Record) -> Arc<ServedKind> {
        self.in_stored_version(record.api_version())
    }

    /// As [`ServedKind::as_stored`], for an object that says its version.
    #[must_use]
    pub(crate) fn in_stored_version(self: &Arc<ServedKind>, api_version: &str) -> Arc<ServedKind> {
        let rows = self.custom.as_ref().map(|custom| &custom.as_stored);
        let mut rows = rows.into_iter().flat_map(|rows| rows.iter());
        Arc::clone(rows.find(|row| row.api_version == api_version).unwrap_or(self))
    }

    /// What selectors may name of this kind, as records know it.
    pub(crate) fn selectable_paths(&self) -> Option<Arc<[SelectablePath]>> {
        let fields = self.kind.fields.iter();
        let paths = fields.map(|field| SelectablePath::new(&field.path.join("."), field.absent));
        (!self.kind.fields.is_empty()).then(|| paths.collect())
    }

    /// The members of a stored object, in this kind's form.
    ///
    /// # Errors
    /// It cannot be read, or a webhook has to convert it first.
    pub fn read(&self, record: &Record) -> Result<Object, Failure> {
        self.read_as(record, record.bytes())
    }

    /// As [`ServedKind::read`], from other bytes than the record's own, such as those of its end.
    ///
    /// # Errors
    /// As [`ServedKind::read`].
    pub fn read_as(&self, record: &Record, bytes: &[u8]) -> Result<Object, Failure> {
        let mut object = custom::parse(bytes)?;
        if record.is_reshaped() {
            return Ok(object);
        }
        if self.needs_conversion(record) {
            let (from, to) = (record.api_version(), &self.api_version);
            let why = format!("an object that is stored as {from} is not converted to {to} here");
            return Err(Failure::internal(why));
        }
        if let Some(custom) = &self.custom {
            let stored = object.insert("apiVersion".into(), self.api_version.as_str().into());
            let stored = stored.as_ref().and_then(Value::as_str).unwrap_or(&self.api_version);
            custom.show(&mut object, stored);
        }
        if let Some(view) = self.view {
            view.show(&mut object);
            object.insert("kind".into(), self.kind.kind.as_ref().into());
            object.insert("apiVersion".into(), self.api_version.as_str().into());
            if let Some(type_id) = self.type_id {
                // Members that only the stored form always writes fall away here.
                decode(type_id, &mut object).map_err(|wrong| Failure::internal(wrong.message))?;
            }
        }
        Ok(object)
    }

    /// The prefix of a collection; an empty namespace means all of them.
    #[must_use]
    pub fn collection(&self, namespace: &str) -> String {
        if self.kind.namespaced && !namespace.is_empty() {
            format!("{}{namespace}/", self.prefix)
        } else {
            self.prefix.clone()
        }
    }
}

/// The served kinds as they are now: a registry that is replaced whole when kinds come or go.
pub struct ServedKinds {
    builtin: Vec<Arc<ServedKind>>,
    engine: Option<Arc<dyn RuleEngine>>,
    current: Arc<ArcSwap<Registry>>,
    /// Counts replacements, for those who must notice one.
    replaced: watch::Sender<u64>,
    /// Held while the registry is replaced: definitions and other servers do so independently.
    replacing: Mutex<()>,
}

impl ServedKinds {
    /// The built-in kinds; definitions add to them. Rules in schemas are run by the engine.
    #[must_use]
    pub fn new(engine: Option<Arc<dyn RuleEngine>>) -> ServedKinds {
        ServedKinds::without(engine, &[])
    }

    /// The built-in kinds but for those of these groups, which definitions may then define (referential
    /// authorization R3a).
    #[must_use]
    pub fn without(engine: Option<Arc<dyn RuleEngine>>, groups: &[&str]) -> ServedKinds {
        let mut rows: Vec<Arc<ServedKind>> = Vec::new();
        let current = Arc::new_cyclic(|around| {
            let kinds = tenure_kinds::builtin().into_iter();
            let kinds = kinds.filter(|kind| !groups.contains(&kind.group.as_ref()));
            rows = kinds.map(|kind| builtin(kind, engine.clone(), around)).collect();
            ArcSwap::from_pointee(Registry::new(rows.clone()))
        });
        ServedKinds {
            builtin: rows,
            engine,
            current,
            replaced: watch::Sender::new(0),
            replacing: Mutex::default(),
        }
    }

    /// Serves what the definitions of a state define, besides the built-in kinds.
    pub(crate) fn define(&self, world: &World) {
        let mut kinds = self.builtin.clone();
        let definitions = custom::definitions(world);
        let known = self.current.load();
        let mut rows: Vec<Arc<ServedKind>> = definitions
            .iter()
            .flat_map(|(record, object)| {
                // Compiling takes long, so what a definition made once is kept while it stands.
                let kept = known.made_by(record);
                if !kept.is_empty() {
                    return kept;
                }
                custom::served(record, object, self.engine.as_deref())
            })
            .collect();
        rows.sort_by(|a, b| (&a.kind.group, &a.prefix).cmp(&(&b.kind.group, &b.prefix)));
        kinds.extend(rows);
        let replacing = self.replace();
        let remote = self.current.load().remote.clone();
        self.current.store(Arc::new(Registry { remote, ..Registry::new(kinds) }));
        drop(replacing);
        self.replaced.send_modify(|count| *count += 1);
    }

    /// Passes on what the APIServices of a state register, besides what is served here (R131a).
    pub(crate) fn register(&self, world: &World) {
        let _replacing = self.replace();
        let known = self.current.load();
        let remote = known.remote.read(world);
        if !remote.registers_as(&known.remote) {
            self.current.store(Arc::new(known.with_remote(remote)));
        }
    }

    /// Takes over what another server says of itself.
    pub(crate) fn learn(&self, api: &Arc<RemoteApi>, discovery: RemoteDiscovery) {
        let _replacing = self.replace();
        let known = self.current.load();
        let mut remote = known.remote.clone();
        if remote.learn(api, discovery) {
            self.current.store(Arc::new(known.with_remote(remote)));
        }
    }

    fn replace(&self) -> MutexGuard<'_, ()> {
        self.replacing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of replacements.
    pub(crate) fn replacements(&self) -> watch::Receiver<u64> {
        self.replaced.subscribe()
    }

    /// The index that must be handed to the world.
    #[must_use]
    pub fn feed(self: &Arc<ServedKinds>) -> Box<dyn LockStep> {
        Box::new(custom::CustomKindUpdater { kinds: Arc::clone(self) })
    }

    /// What is served now.
    #[must_use]
    pub fn current(&self) -> Arc<Registry> {
        self.current.load_full()
    }
}

impl SelectableFields for ServedKinds {
    fn fields(&self, key: &str) -> Option<Arc<[SelectablePath]>> {
        self.current.load().fields(key)
    }
}

/// All kinds served at one moment.
pub struct Registry {
    kinds: Vec<Arc<ServedKind>>,
    /// Plurals are nearly unique, so each leads to a short list.
    by_plural: HashMap<String, Vec<Arc<ServedKind>>>,
    /// The first kind of each storage prefix.
    by_prefix: HashMap<String, Arc<ServedKind>>,
    fields: HashMap<String, Arc<[SelectablePath]>>,
    /// What other servers serve; it comes before what is served here.
    pub(crate) remote: RemoteApis,
    /// Documents about these kinds, made when first asked for.
    pub(crate) documents: Documents,
}

/// One built-in row, with what the server looks up once.
fn builtin(
    mut kind: Kind,
    engine: Option<Arc<dyn RuleEngine>>,
    around: &Weak<ArcSwap<Registry>>,
) -> Arc<ServedKind> {
    if kind.kind == "CustomResourceDefinition" {
        kind.rules = Box::new(CustomResourceDefinitionRules { engine });
    }
    Arc::new(ServedKind {
        prefix: format!("/registry/{}/", kind.storage),
        type_id: facts().type_id(&kind.type_name),
        api_version: kind.api_version(),
        view: view::of(&kind.group, &kind.version, &kind.kind),
        custom: None,
        around: Weak::clone(around),
        kind,
    })
}

impl Registry {
    fn new(kinds: Vec<Arc<ServedKind>>) -> Registry {
        let mut by_plural: HashMap<String, Vec<Arc<ServedKind>>> = HashMap::new();
        let mut by_prefix = HashMap::new();
        for served in &kinds {
            by_prefix.entry(served.prefix.clone()).or_insert_with(|| Arc::clone(served));
            by_plural.entry(served.kind.plural.to_string()).or_default().push(Arc::clone(served));
        }
        let mut fields: HashMap<String, Arc<[SelectablePath]>> = HashMap::new();
        for served in &kinds {
            let Some(own) = served.selectable_paths() else { continue };
            match fields.get_mut(&served.prefix) {
                None => drop(fields.insert(served.prefix.clone(), own)),
                // Each version of a custom kind says what selectors may name; what several say stands once.
                Some(known) if served.custom.is_some() => {
                    let fresh = own.iter().filter(|path| !known.contains(*path));
                    *known = known.iter().chain(fresh).cloned().collect();
                }
                // Two views of one storage (events) share the row that comes first.
                Some(_) => {}
            }
        }
        Registry {
            kinds,
            by_plural,
            by_prefix,
            fields,
            remote: RemoteApis::default(),
            documents: Documents::default(),
        }
    }

    /// The same kinds beside other servers.
    fn with_remote(&self, remote: RemoteApis) -> Registry {
        Registry { remote, ..Registry::new(self.kinds.clone()) }
    }

    /// The kind behind a resource path.
    #[must_use]
    pub fn find(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<ServedKind>> {
        let candidates = self.by_plural.get(resource)?;
        candidates.iter().find(|s| s.kind.group == group && s.kind.version == version)
    }

    /// The kind of that name in a group, any version.
    #[must_use]
    pub fn by_kind(&self, group: &str, kind: &str) -> Option<&Arc<ServedKind>> {
        self.kinds.iter().find(|s| s.kind.group == group && s.kind.kind == kind)
    }

    /// How a resource is served, in whichever versions; the preferred one comes first.
    #[must_use]
    pub fn resource(&self, group: &str, resource: &str) -> Option<ServedResource> {
        let candidates = self.by_plural.get(resource)?;
        let mut rows: Vec<&Arc<ServedKind>> =
            candidates.iter().filter(|served| served.kind.group == group).collect();
        rows.sort_by(|a, b| compare_versions(&a.kind.version, &b.kind.version));
        let namespaced = rows.first()?.kind.namespaced;
        let versions = rows.iter().map(|served| served.kind.version.to_string()).collect();
        Some(ServedResource { namespaced, versions })
    }

    /// Whether any kind of that group is served.
    #[must_use]
    pub fn has_group(&self, group: &str) -> bool {
        self.kinds.iter().any(|s| s.kind.group == group)
    }

    /// Whether any kind of that group and version is served.
    #[must_use]
    pub fn has_version(&self, group: &str, version: &str) -> bool {
        self.kinds.iter().any(|s| s.kind.group == group && s.kind.version == version)
    }

    /// The schema of a custom kind as its definition says it.
    #[must_use]
    pub fn custom_schema(&self, kind: &Kind) -> Option<Value> {
        let served = self.find(&kind.group, &kind.version, &kind.plural)?;
        served.custom.as_ref().map(|custom| custom.raw.clone())
    }

    /// The kind whose objects are stored under a key, in one of its versions.
    #[must_use]
    pub fn stored_at(&self, key: &str) -> Option<&Arc<ServedKind>> {
        prefixes(key).find_map(|prefix| self.by_prefix.get(prefix))
    }

    /// The kind of a record in the version that it is stored in.
    #[must_use]
    pub fn stored_as(&self, record: &Record) -> Option<Arc<ServedKind>> {
        Some(self.stored_at(record.key())?.as_stored(record))
    }

    /// The rows that this very state of a definition made.
    fn made_by(&self, definition: &Record) -> Vec<Arc<ServedKind>> {
        let made = |custom: &Custom| {
            custom.revision == definition.revision() && custom.definition == definition.name()
        };
        let rows = self.kinds.iter();
        rows.filter(|served| served.custom.as_deref().is_some_and(made)).cloned().collect()
    }

    /// The kind that a definition defines, in one of its versions.
    #[must_use]
    pub fn defined_by(&self, definition: &str) -> Option<&Arc<ServedKind>> {
        let mut kinds = self.kinds.iter();
        kinds.find(|served| served.custom.as_ref().is_some_and(|c| c.definition == definition))
    }

    /// Kinds of objects in namespaces that have storage of their own; a second view of one storage is left
    /// out.
    pub fn in_namespaces(&self) -> impl Iterator<Item = &Arc<ServedKind>> {
        let mut seen = HashSet::new();
        let namespaced = self.kinds.iter().filter(|served| served.kind.namespaced);
        namespaced.filter(move |served| seen.insert(served.prefix.as_str()))
    }

    /// The key of an object of a resource, in whatever version.
    #[must_use]
    pub fn key_of(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<String> {
        let is =
            |served: &&Arc<ServedKind>| served.kind.group == group && served.kind.plural == plural;
        self.kinds.iter().find(is).map(|served| served.key(namespace, name))
    }

    /// All served kinds in table order.
    #[must_use]
    pub fn kinds(&self) -> &[Arc<ServedKind>] {
        &self.kinds
    }
}

impl SelectableFields for Registry {
    fn fields(&self, key: &str) -> Option<Arc<[SelectablePath]>> {
        prefixes(key).find_map(|prefix| self.fields.get(prefix)).cloned()
    }
}

/// What a key may be stored under: keys are `/registry/{one or two words}/…`, the longer comes first.
pub(crate) fn prefixes(key: &str) -> impl Iterator<Item = &str> {
    let mut slashes = key.match_indices('/').map(|(at, _)| at).skip(2);
    let short = slashes.next().and_then(|at| key.get(..=at));
    let long = slashes.next().and_then(|at| key.get(..=at));
    [long, short].into_iter().flatten()
}
