//! Which fields of itself a pod reads: uses of owner references, keys and paths that cannot work. What a
//! field is worth never lives here.

use serde_json::Value;
use tenure_core::field_path::{Extra, FieldPath, FieldPathTarget, PodField};
use tenure_machinery::{Errors, Object, Path};

use crate::podspec::view::{items, items_mut, map, text};

/// The path of the annotation that carries owner references on a cluster without the feature.
pub const CARRIER: &str = "metadata.annotations['tenure.dev/owner-references']";

/// The longest name of a file, and the longest path.
const NAME_MAX: usize = 255;
const PATH_MAX: usize = 4096;

/// Fields that a server does not offer, because their feature is off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Withheld {
    /// `metadata.ownerReferences` everywhere (R52).
    pub owner_references: bool,
    /// Fields of `spec` and `status` in files (R15).
    pub volume_parity: bool,
}

impl Withheld {
    fn holds(self, scope: FieldPathTarget, field: PodField) -> bool {
        match field {
            PodField::OwnerReferences => self.owner_references,
            field => {
                self.volume_parity
                    && scope == FieldPathTarget::Volume
                    && !scope.allows(field, Extra::default())
                    && scope.allows(field, Extra { volume_parity: true, ..Extra::default() })
            }
        }
    }

    /// Which of these fields a specification reads.
    #[must_use]
    pub fn used_by(self, spec: &Object) -> Withheld {
        let mut used = Withheld::default();
        each_field(spec, &Path::Root, &mut |scope, text, _| {
            if let Some(field) = whole(text).filter(|field| self.holds(scope, *field)) {
                let owners = field == PodField::OwnerReferences;
                used.owner_references |= owners;
                used.volume_parity |= !owners;
            }
        });
        used
    }

    /// Refuses these fields as a server does that does not know them: a cause for each use, and one
    /// for each mount of a volume that was refused.
    pub fn refuse(self, spec: &Object, path: &Path<'_>, errors: &mut Errors) {
        let mut refused = Vec::new();
        let list = path.field("volumes");
        for (index, volume) in items(spec, "volumes").enumerate() {
            let before = errors.causes().len();
            each_file(volume, &list.index(index), &mut |scope, text, at| {
                self.refuse_one(scope, text, at, errors);
            });
            if errors.causes().len() > before {
                refused.push(text(volume, "name"));
            }
        }
        for list in CONTAINERS {
            let list_path = path.field(list);
            for (index, container) in items(spec, list).enumerate() {
                let at = list_path.index(index);
                each_variable(container, &at, &mut |scope, text, at| {
                    self.refuse_one(scope, text, at, errors);
                });
                let mounts = at.field("volumeMounts");
                for (position, mount) in items(container, "volumeMounts").enumerate() {
                    let name = text(mount, "name");
                    if refused.contains(&name) {
                        let at = mounts.index(position);
                        errors.not_found(&at.field("name"), format_args!("{name:?}"));
                    }
                }
            }
        }
    }

    fn refuse_one(self, scope: FieldPathTarget, text: &str, at: &Path<'_>, errors: &mut Errors) {
        let Some(field) = whole(text).filter(|field| self.holds(scope, *field)) else { return };
        if field == PodField::OwnerReferences {
            let why = format!("error converting fieldPath: field label not supported: {text}");
            errors.invalid(at, format_args!("{text:?}"), &why);
        } else {
            let offered = Extra { owner_references: !self.owner_references, volume_parity: false };
            let allowed: Vec<&str> = scope.allowed(offered).collect();
            errors.not_supported(at, field.as_str(), &allowed);
        }
    }
}

/// The field that a path names whole.
fn whole(path: &str) -> Option<PodField> {
    match FieldPath::parse(path) {
        Ok(FieldPath::Whole(field)) => Some(field),
        _ => None,
    }
}

/// Where a specification at `path` reads the owner references of its pod, in either spelling (R57).
pub fn owner_reference_uses(spec: &Object, path: &Path<'_>) -> Vec<String> {
    let mut found = Vec::new();
    each_field(spec, path, &mut |_, field, at| {
        if is_owner_references(field) || field == CARRIER {
            found.push(at.to_string());
        }
    });
    found
}

/// The volume sources whose files may belong to a user.
const FILES: [&str; 4] = ["secret", "configMap", "downwardAPI", "projected"];

/// Takes users of files out of a specification, and says whether there were any (R62j).
pub fn drop_file_users(spec: &mut Object) -> bool {
    let mut found = false;
    for volume in items_mut(spec, "volumes") {
        for source in FILES {
            let Some(source) = volume.get_mut(source).and_then(Value::as_object_mut) else {
                continue;
            };
            found |= source.remove("defaultUser").is_some();
            found |= drop_item_users(source);
            for projected in items_mut(source, "sources") {
                for source in projected.values_mut().filter_map(Value::as_object_mut) {
                    found |= source.remove("user").is_some();
                    found |= drop_item_users(source);
                }
            }
        }
    }
    found
}

fn drop_item_users(source: &mut Object) -> bool {
    let mut found = false;
    for item in items_mut(source, "items") {
        found |= item.remove("user").is_some();
    }
    found
}

/// What to tell of keys that can never be set (R8) and of files that can never be written (R62i).
pub fn downward_warnings(spec: &Object, path: &Path<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    each_field(spec, path, &mut |_, field, at| {
        if let Ok(FieldPath::Key { key, escaped: true, .. }) = FieldPath::parse(field) {
            warnings.push(format!(
                "{at}: the annotation {key:?} can never be set, so the value is always empty"
            ));
        }
    });
    let list = path.field("volumes");
    for (index, volume) in items(spec, "volumes").enumerate() {
        let at = list.index(index);
        let projected = map(volume, "projected").into_iter();
        let sources = projected.flat_map(|projected| items(projected, "sources"));
        let all = core::iter::once(volume).chain(sources).flat_map(files_of);
        for file in all.filter(|file| is_too_long(file)) {
            warnings.push(format!(
                "{at}: the path of a file of {} bytes cannot be written: a name has {NAME_MAX} bytes at most, a path {PATH_MAX}",
                file.len()
            ));
        }
    }
    warnings
}

/// The paths of files that a volume, or a source of a projected one, gives to keys and fields.
fn files_of(source: &Object) -> impl Iterator<Item = &str> {
    let sources = ["secret", "configMap", "downwardAPI"];
    let sources = sources.into_iter().filter_map(|name| map(source, name));
    sources.flat_map(|source| items(source, "items")).map(|item| text(item, "path"))
}

const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

fn is_owner_references(field: &str) -> bool {
    field == PodField::OwnerReferences.as_str()
}

fn is_too_long(file: &str) -> bool {
    file.len() > PATH_MAX || file.split('/').any(|name| name.len() > NAME_MAX)
}

type Each<'a> = &'a mut dyn FnMut(FieldPathTarget, &str, &Path<'_>);

/// Every `fieldPath` of a specification and where it stands.
fn each_field(spec: &Object, path: &Path<'_>, each: Each<'_>) {
    let list = path.field("volumes");
    for (index, volume) in items(spec, "volumes").enumerate() {
        each_file(volume, &list.index(index), each);
    }
    for list in CONTAINERS {
        let list_path = path.field(list);
        for (index, container) in items(spec, list).enumerate() {
            each_variable(container, &list_path.index(index), each);
        }
    }
}

fn each_variable(container: &Object, path: &Path<'_>, each: Each<'_>) {
    let list = path.field("env");
    for (index, variable) in items(container, "env").enumerate() {
        let Some(source) = map(variable, "valueFrom") else { continue };
        reference(source, FieldPathTarget::Env, &list.index(index).field("valueFrom"), each);
    }
}

/// Causes about files name the source, not the item, and so do these places.
fn each_file(volume: &Object, path: &Path<'_>, each: Each<'_>) {
    if let Some(source) = map(volume, "downwardAPI") {
        let at = path.field("downwardAPI");
        items(source, "items").for_each(|item| reference(item, FieldPathTarget::Volume, &at, each));
    }
    let Some(projected) = map(volume, "projected") else { return };
    let at = path.field("projected");
    let list = at.field("sources");
    for (index, source) in items(projected, "sources").enumerate() {
        let Some(source) = map(source, "downwardAPI") else { continue };
        let at = list.index(index);
        let at = at.field("downwardAPI");
        items(source, "items").for_each(|item| reference(item, FieldPathTarget::Volume, &at, each));
    }
}

fn reference(source: &Object, scope: FieldPathTarget, path: &Path<'_>, each: Each<'_>) {
    if let Some(reference) = map(source, "fieldRef") {
        each(scope, text(reference, "fieldPath"), &path.field("fieldRef").field("fieldPath"));
    }
}
