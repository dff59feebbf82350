//! Which updates of a pod are judged again: those that change what runs.

use tenure_machinery::Object;

use crate::podspec::view::{items, map, text};

/// Whether an update adds or removes containers or changes an image; anything else that matters cannot change.
#[must_use]
pub fn is_significant_update(new: &Object, old: &Object) -> bool {
    let empty = Object::new();
    let (new, old) = (map(new, "spec").unwrap_or(&empty), map(old, "spec").unwrap_or(&empty));
    let changed = ["containers", "initContainers"].into_iter().any(|list| {
        let images = |of| items(of, list).map(|container| text(container, "image"));
        images(new).ne(images(old))
    });
    changed
        || items(new, "ephemeralContainers").any(|container| {
            let name = text(container, "name");
            let before = items(old, "ephemeralContainers").find(|one| text(one, "name") == name);
            before.is_none_or(|before| text(before, "image") != text(container, "image"))
        })
}
