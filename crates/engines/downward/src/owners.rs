//! `metadata.ownerReferences` in the envelope of KEP-4753. Owners of owners never show.

use alloc::string::String;

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use crate::view::ValueDestination;

/// Members of a reference that are texts, in order (R41).
const TEXTS: [&str; 4] = ["apiVersion", "kind", "name", "uid"];

/// Members that show only if they are set (R41).
const TRUTHS: [&str; 2] = ["controller", "blockOwnerDeletion"];

/// The references of a pod, as stored: one line for a variable, indented lines for a file.
#[must_use]
pub fn owner_envelope(references: &[Value], form: ValueDestination) -> String {
    // A reference is some 150 bytes, more when indented; a guess that is too small costs a copy.
    let mut json = JsonWriter {
        out: String::with_capacity(80 + references.len() * 320),
        indented: form == ValueDestination::File,
        depth: 0,
        first: true,
    };
    json.open('{');
    json.text("kind", "OwnerReference");
    json.text("apiVersion", "meta/v1");
    json.name("items");
    json.open('[');
    for reference in references.iter().filter_map(Value::as_object) {
        json.item();
        write_reference(&mut json, reference);
    }
    json.close(']');
    json.close('}');
    json.out
}

fn write_reference(json: &mut JsonWriter, reference: &Object) {
    json.open('{');
    for name in TEXTS {
        json.text(name, reference.str_at(&[name]).unwrap_or_default());
    }
    for name in TRUTHS {
        if let Some(truth) = reference.bool_at(&[name]) {
            json.name(name);
            json.out.push_str(if truth { "true" } else { "false" });
        }
    }
    json.close('}');
}

/// JSON with members in the order they are written.
struct JsonWriter {
    out: String,
    indented: bool,
    depth: usize,
    /// Whether nothing was written since the last bracket opened.
    first: bool,
}

impl JsonWriter {
    fn open(&mut self, bracket: char) {
        self.out.push(bracket);
        self.depth += 1;
        self.first = true;
    }

    fn close(&mut self, bracket: char) {
        self.depth = self.depth.saturating_sub(1);
        // Nothing inside: the brackets stay together (R43).
        if !self.first {
            self.line();
        }
        self.out.push(bracket);
        self.first = false;
    }

    fn item(&mut self) {
        if !self.first {
            self.out.push(',');
        }
        self.first = false;
        self.line();
    }

    fn name(&mut self, name: &str) {
        self.item();
        self.out.push('"');
        self.out.push_str(name);
        self.out.push_str(if self.indented { "\": " } else { "\":" });
    }

    fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        self.out.push('"');
        escape_into(value, &mut self.out);
        self.out.push('"');
    }

    fn line(&mut self) {
        if self.indented {
            self.out.push('\n');
            (0..self.depth).for_each(|_| self.out.push_str("    "));
        }
    }
}

/// Minimal JSON escapes: quotes, backslashes and control characters, nothing else (R46).
fn escape_into(text: &str, out: &mut String) {
    const HEX: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        out.push_str(text);
        return;
    }
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            letter if letter < ' ' => {
                out.push_str(if u32::from(letter) < 0x10 { "\\u000" } else { "\\u001" });
                let low = u32::from(letter) as usize % 16;
                out.extend(HEX.get(low));
            }
            letter => out.push(letter),
        }
    }
}
