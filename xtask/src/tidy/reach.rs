//! Finds source files that no `mod` reaches: their tests never run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use syn::{Expr, Item, Lit, Meta};

use super::Complaints;
use crate::workspace::Member;

pub(super) fn check(
    root: &Path,
    files: &[String],
    members: &[Member],
    complaints: &mut Complaints,
) -> Result<()> {
    let mut reached = BTreeSet::new();
    for target in members.iter().flat_map(|member| &member.targets) {
        walk(target, true, &mut reached)?;
    }
    for file in files.iter().filter(|file| file.ends_with(".rs")) {
        let path = root.join(file);
        let ours = members
            .iter()
            .any(|member| member.manifest.parent().is_some_and(|folder| path.starts_with(folder)));
        if ours && !reached.contains(&path) {
            complaints.push(format!("{file}: no `mod` reaches it; name it or remove it"));
        }
    }
    Ok(())
}

/// Follows every `mod name;` from one file. A crate root and `mod.rs` look beside themselves,
/// any other file in the folder of its name.
fn walk(file: &Path, is_root: bool, reached: &mut BTreeSet<PathBuf>) -> Result<()> {
    if !reached.insert(file.to_owned()) {
        return Ok(());
    }
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let parsed = syn::parse_file(&text).with_context(|| file.display().to_string())?;
    let folder = file.parent().context("a folder")?;
    let beside = is_root || file.file_name().is_some_and(|name| name == "mod.rs");
    let below = if beside { folder.to_owned() } else { file.with_extension("") };
    items(&parsed.items, folder, &below, reached)
}

fn items(
    items_here: &[Item],
    folder: &Path,
    below: &Path,
    reached: &mut BTreeSet<PathBuf>,
) -> Result<()> {
    for item in items_here {
        let Item::Mod(module) = item else { continue };
        let name = module.ident.to_string();
        match &module.content {
            Some((_, inner)) => items(inner, folder, &below.join(&name), reached)?,
            None => {
                let named =
                    module.attrs.iter().find_map(path_attribute).map(|path| folder.join(path));
                let usual = || {
                    let file = below.join(format!("{name}.rs"));
                    if file.is_file() { file } else { below.join(&name).join("mod.rs") }
                };
                walk(&named.unwrap_or_else(usual), false, reached)?;
            }
        }
    }
    Ok(())
}

/// The text of `#[path = "…"]`.
fn path_attribute(attribute: &syn::Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else { return None };
    let Expr::Lit(value) = &pair.value else { return None };
    match &value.lit {
        Lit::Str(text) if pair.path.is_ident("path") => Some(text.value()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_followed_as_the_compiler_does() {
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut reached = BTreeSet::new();
        walk(&own.join("main.rs"), true, &mut reached).unwrap();
        for file in ["tidy.rs", "tidy/reach.rs", "schema/join.rs"] {
            assert!(reached.contains(&own.join(file)), "{file}");
        }
        assert!(!reached.contains(&own.join("nowhere.rs")));
    }
}
