//! Applies `overlay.txt`: how the API writes values, where that differs from the usual (see `join::usual`),
//! and the markers of members that are newer than the tags.
//!
//! A line is a type, a word, and the members it is said of: `api.core.v1.PodSpec omit hostIPC hostNetwork`.
//! Words: `omit`, `always`, `null` (always, and null when unset), `keep` (none of these), `optional`, `required`,
//! `retain`, and with a value after `=`: `list`, `merge`, `default`. Without members, `atomic` is said of the type.
//!
//! `own=TAG:SHAPE` adds a member that upstream does not have. Tags of Tenure's own members begin at 70001, far above
//! any that upstream will give out, so that nobody's message is ever misread.

use anyhow::{Context, Result, bail, ensure};

use super::join::{Field, Table, Type};

/// The first tag of members that are Tenure's own.
const OWN_TAG_MIN: u32 = 70_001;

/// Changes the table as the lines say; a line about an unknown type or member is an error.
pub(super) fn apply(lines: &str, table: &mut Table) -> Result<()> {
    for line in lines.lines().filter(|line| !line.is_empty()) {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        let word = words.next().with_context(|| line.to_owned())?;
        let of = table.get_mut(name).with_context(|| format!("overlay: no type {name}"))?;
        let mut words = words.peekable();
        if word == "atomic" && words.peek().is_none() {
            of.atomic = true;
        }
        for json in words {
            if let Some(what) = word.strip_prefix("own=") {
                add(of, json, what).with_context(|| line.to_owned())?;
                continue;
            }
            let field = of
                .fields
                .get_mut(json)
                .with_context(|| format!("overlay: {name} has no {json}"))?;
            set(field, word).with_context(|| line.to_owned())?;
        }
    }
    Ok(())
}

/// Adds a member; one that upstream has by now is an error.
fn add(of: &mut Type, json: &str, what: &str) -> Result<()> {
    let (tag, shape) = what.split_once(':').context("overlay: own=TAG:SHAPE")?;
    let field = Field { tag: tag.parse()?, shape: shape.to_owned(), ..Field::default() };
    ensure!(field.tag >= OWN_TAG_MIN, "overlay: own tags begin at {OWN_TAG_MIN}");
    ensure!(!of.fields.contains_key(json), "overlay: upstream has {json} by now");
    of.fields.insert(json.to_owned(), field);
    Ok(())
}

fn set(field: &mut Field, word: &str) -> Result<()> {
    match word.split_once('=') {
        None => match word {
            "omit" => written(field, true, false, false),
            "always" => written(field, false, true, false),
            "null" => written(field, false, true, true),
            "keep" => written(field, false, false, false),
            "optional" => field.required = false,
            "required" => field.required = true,
            "atomic" => field.atomic = true,
            "retain" => field.retain = true,
            _ => bail!("overlay: no word {word}"),
        },
        Some(("list", "set")) => field.list = Some("set".into()),
        Some(("list", "atomic")) => field.list = None,
        Some(("list", keys)) => field.list = Some(format!("map={keys}")),
        Some(("merge", key)) => field.merge = Some(key.to_owned()),
        Some(("tag", number)) => field.tag = number.parse()?,
        Some(("default", value)) => field.default = Some(value.to_owned()),
        Some(_) => bail!("overlay: no word {word}"),
    }
    Ok(())
}

fn written(field: &mut Field, omit: bool, always: bool, null: bool) {
    field.omit = omit;
    field.always = always;
    field.null = null;
}
