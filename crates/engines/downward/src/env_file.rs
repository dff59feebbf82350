//! Files of variables that a container wrote for the next one: `NAME='value'`, as `fileKeyRef` reads
//! them (R61j). Where a file lies never matters here.

use alloc::format;
use alloc::string::String;

/// The value of a key; none where the file does not have it or gives it nothing.
///
/// # Errors
/// The file is not of this form.
pub(crate) fn value(text: &str, key: &str) -> Result<Option<String>, String> {
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let wrong =
            |why: &str| format!("invalid environment variable format at line {}: {why}", at + 1);
        let line = line.trim_start_matches([' ', '\t']);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = line.split_once('=').ok_or_else(|| wrong("missing '='"))?;
        if name.trim_end_matches([' ', '\t']).is_empty() {
            return Err(wrong("empty variable name"));
        }
        if name.ends_with([' ', '\t']) {
            return Err(wrong("whitespace before '=' is not allowed"));
        }
        // As a shell has it, a space after the sign makes the value empty.
        if value.starts_with([' ', '\t']) {
            if name == key {
                return Ok(None);
            }
            continue;
        }
        let first = value
            .strip_prefix('\'')
            .ok_or_else(|| wrong("value must be enclosed in single quotes"))?;
        let mut whole = String::new();
        let mut piece = first;
        let rest = loop {
            if let Some((last, rest)) = piece.split_once('\'') {
                whole.push_str(last);
                break rest;
            }
            whole.push_str(piece);
            whole.push('\n');
            piece = lines.next().ok_or_else(|| wrong("unclosed single quote"))?.1;
        };
        let rest = rest.trim_start_matches([' ', '\t']);
        if !rest.is_empty() && !rest.starts_with('#') {
            return Err(wrong("unexpected content after closing quote"));
        }
        if name == key {
            return Ok(Some(whole).filter(|whole| !whole.is_empty()));
        }
    }
    Ok(None)
}
