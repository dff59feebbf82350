//! Request lines: any of them asks for one thing, and for the same thing however its letters are escaped.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenure_server::fuzzing::{ParsedAttributes, RequestHead};

const VERBS: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const VERBS_OF_PATHS: [&str; 5] = ["delete", "get", "patch", "post", "put"];

fuzz_target!(|bytes: &[u8]| {
    let Some(head) = RequestHead::parse(bytes) else { return };
    let asked = head.attributes();
    check(&head, &asked);
    let (path, rest) = (head.path(), bytes.split(|byte| *byte == b'\n').next().unwrap_or_default());
    let query = rest.iter().position(|byte| *byte == b'?').map_or(&[][..], |at| &rest[at..]);
    let again = [head.method().as_bytes(), b" ", escaped(path).as_bytes(), query].concat();
    let Some(again) = RequestHead::parse(&again) else { return };
    let again = again.attributes();
    if asked.path.is_empty() {
        assert_eq!(asked, again, "{path}");
    } else {
        // Whoever answers must not take for a resource what was authorized as a path.
        assert!(again.resource.is_empty(), "{path}");
    }
});

fn check(head: &RequestHead, asked: &ParsedAttributes) {
    let reads = matches!(head.method(), "GET" | "HEAD");
    if asked.path.is_empty() {
        // Only reading and streams may be asked for with methods that caches and browsers send by themselves.
        assert!(VERBS.contains(&asked.verb.as_str()) || !reads, "{asked:?}");
        let writes = matches!(head.method(), "POST" | "PUT" | "PATCH" | "DELETE");
        if writes {
            assert!(!matches!(asked.verb.as_str(), "get" | "list" | "watch"), "{asked:?}");
            // A selector narrows what is read; it never names what is written.
            assert!(
                asked.name.is_empty() || decoded(head.path()).contains(&asked.name),
                "{asked:?}"
            );
        }
    } else {
        assert!(VERBS_OF_PATHS.contains(&asked.verb.as_str()) || !reads, "{asked:?}");
        assert!(asked.name.is_empty() && asked.namespace.is_empty());
    }
}

/// The path with every letter and digit of it escaped; what was escaped stays as it was.
fn escaped(path: &str) -> String {
    let mut out = String::new();
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                out.push('%');
                let two: Vec<u8> = bytes.clone().take(2).collect();
                if two.len() == 2 && two.iter().all(u8::is_ascii_hexdigit) {
                    out.extend(two.into_iter().map(char::from));
                    bytes.nth(1);
                }
            }
            byte if byte.is_ascii_alphanumeric() => out.push_str(&format!("%{byte:02X}")),
            byte => out.push(char::from(byte)),
        }
    }
    out
}

/// The segments of a path without its escapes; an escaped slash parts them as well.
fn decoded(path: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        let hex = (first == b'%').then(|| after.get(..2)).flatten();
        let hex = hex.and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit())) {
            Some(hex) => {
                out.push(u8::from_str_radix(hex, 16).expect("two hexadecimal digits"));
                rest = &after[2..];
            }
            None => out.push(first),
        }
    }
    String::from_utf8_lossy(&out).split('/').map(str::to_owned).collect()
}
