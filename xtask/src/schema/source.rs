//! What reading both sources shares: walking the tree, table names, taking Rust types apart.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Every Rust file under `root` with the module path of the items in it.
pub(super) fn rust_files(root: &Path) -> Result<Vec<(Vec<String>, PathBuf)>> {
    let mut files = Vec::new();
    let mut open = vec![(Vec::new(), root.to_owned())];
    while let Some((module, folder)) = open.pop() {
        let entries = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type()?.is_dir() {
                let mut inner = module.clone();
                inner.push(name);
                open.push((inner, entry.path()));
            } else if name.ends_with(".rs") {
                files.push((module.clone(), entry.path()));
            }
        }
    }
    files.sort();
    Ok(files)
}

/// `["apimachinery", "pkg", "apis", "meta", "v1"]` and `ObjectMeta` give `apimachinery.meta.v1.ObjectMeta`:
/// the segments `pkg` and `apis` are left out, nothing else changes.
pub(super) fn table_name(module: &[String], name: &str) -> String {
    let mut text = String::new();
    for segment in module {
        if segment != "pkg" && segment != "apis" {
            text.push_str(segment);
            text.push('.');
        }
    }
    text.push_str(name);
    text
}

/// The segments of a path type.
pub(super) fn path(ty: &syn::Type) -> Option<Vec<String>> {
    let syn::Type::Path(path) = ty else {
        return None;
    };
    Some(path.path.segments.iter().map(|s| s.ident.to_string()).collect())
}

/// The last generic argument of `outer<…>`, by the last segment of its path.
pub(super) fn argument<'a>(ty: &'a syn::Type, outer: &str) -> Option<&'a syn::Type> {
    let syn::Type::Path(path) = ty else {
        return None;
    };
    let last = path.path.segments.last()?;
    if last.ident != outer {
        return None;
    }
    let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return None;
    };
    match arguments.args.last()? {
        syn::GenericArgument::Type(inner) => Some(inner),
        _ => None,
    }
}
