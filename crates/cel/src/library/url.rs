//! URLs: absolute ones, and paths from the root.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::{MapKey, Text, Value};

type Made<'a> = Result<Value<'a>, EvalError>;

/// A URL in its parts.
#[derive(Debug)]
pub struct Url {
    pub(crate) text: String,
    scheme: String,
    host: String,
    path: String,
    query: String,
}

/// Whether the text can stand in the first line of a request.
pub(crate) fn is_request_uri(text: &str) -> bool {
    read(text, false).is_some()
}

/// Reads a URL; a fragment is cut off first when `fragments`.
fn read(text: &str, fragments: bool) -> Option<Url> {
    if text.is_empty() || text.bytes().any(|b| b < 0x20 || b == 0x7f) {
        return None;
    }
    let rest =
        if fragments { text.split_once('#').map_or(text, |(before, _)| before) } else { text };
    if rest == "*" {
        return Some(Url::of(text, "", "", "*", ""));
    }
    let (scheme, rest) = split_scheme(rest)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    if !rest.starts_with('/') {
        // What has a scheme and no slash is opaque; what has neither is no request.
        return (!scheme.is_empty()).then(|| Url::of(text, &scheme, "", "", query));
    }
    // A scheme, or nothing, may be followed by a host.
    let (host, path) = match rest.strip_prefix("//") {
        Some(after) if !scheme.is_empty() || !after.starts_with('/') => {
            let end = after.find('/').unwrap_or(after.len());
            after.split_at(end)
        }
        _ => ("", rest),
    };
    let host = authority(host)?;
    escapes_are_whole(path).then(|| Url::of(text, &scheme, &host, path, query))
}

impl Url {
    fn of(text: &str, scheme: &str, host: &str, path: &str, query: &str) -> Url {
        Url {
            text: text.to_owned(),
            scheme: scheme.to_owned(),
            host: host.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
        }
    }

    /// The host without its port and brackets, and the port.
    fn host_and_port(&self) -> (&str, &str) {
        let (host, port) = match self.host.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (host, port),
            _ => (self.host.as_str(), ""),
        };
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        (bare.unwrap_or(host), port)
    }
}

/// The scheme in lower case, and the rest; `None` when a colon stands where it cannot.
fn split_scheme(text: &str) -> Option<(String, &str)> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return None,
            ':' => {
                let (scheme, rest) = text.split_at(at);
                return Some((scheme.to_ascii_lowercase(), rest.get(1..).unwrap_or_default()));
            }
            _ => break,
        }
    }
    Some((String::new(), text))
}

/// The host of an authority, percent signs decoded; `None` when it is malformed.
fn authority(text: &str) -> Option<String> {
    let host = match text.rsplit_once('@') {
        Some((user, host)) => {
            let fits = |b: u8| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&b);
            if !user.bytes().all(fits) || !escapes_are_whole(user) {
                return None;
            }
            host
        }
        None => text,
    };
    let port = match host.strip_prefix('[') {
        Some(inner) => inner.split_once(']')?.1,
        None => match host.find(':') {
            Some(at) => host.get(at..)?,
            None => "",
        },
    };
    let port_fits = match port.strip_prefix(':') {
        Some(digits) => digits.bytes().all(|b| b.is_ascii_digit()),
        None => port.is_empty(),
    };
    let host_fits = host
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b >= 0x80 || b"-._~!$&'()*+,;=:[]<>\"%".contains(&b));
    if !port_fits || !host_fits || !escapes_are_whole(host) {
        return None;
    }
    decode(host, false)
}

/// Whether every percent sign is followed by two digits of base sixteen.
fn escapes_are_whole(text: &str) -> bool {
    text.split('%').skip(1).all(|rest| {
        let mut digits = rest.bytes();
        let mut digit = || digits.next().is_some_and(|b| b.is_ascii_hexdigit());
        digit() && digit()
    })
}

/// Text with its escapes read; in queries a plus sign is a space.
fn decode(text: &str, query: bool) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        match b {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                out.push(u8::try_from(high * 16 + low).ok()?);
            }
            b'+' if query => out.push(b' '),
            b => out.push(b),
        }
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}

pub(crate) fn to_url<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::String(text)] => {
            let url = is_request_uri(text).then(|| read(text, true)).flatten();
            url.map(|url| Value::Url(Arc::new(url)))
                .ok_or_else(|| EvalError::failed("URL parse error during conversion from string"))
        }
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn is_url<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::String(text)] => Ok(Value::Bool(is_request_uri(text))),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn part<'a>(args: &[Value<'a>], read: fn(&Url) -> &str) -> Made<'a> {
    match args {
        [Value::Url(url)] => Ok(Value::text(read(url))),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn scheme<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    part(args, |url| &url.scheme)
}

pub(crate) fn host<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    part(args, |url| &url.host)
}

pub(crate) fn hostname<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    part(args, |url| url.host_and_port().0)
}

pub(crate) fn port<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    part(args, |url| url.host_and_port().1)
}

pub(crate) fn path<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let [Value::Url(url)] = args else { return Err(EvalError::no_such_overload()) };
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/[]%".contains(&b);
    let mut out = String::with_capacity(url.path.len());
    for b in url.path.bytes() {
        if plain(b) { out.push(char::from(b)) } else { out.push_str(&format!("%{b:02X}")) }
    }
    Ok(Value::text(out))
}

pub(crate) fn query<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let [Value::Url(url)] = args else { return Err(EvalError::no_such_overload()) };
    meter.charge(1)?;
    let mut found: BTreeMap<String, Vec<Value<'a>>> = BTreeMap::new();
    for pair in url.query.split('&').filter(|p| !p.is_empty() && !p.contains(';')) {
        meter.charge(1)?;
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if let (Some(key), Some(value)) = (decode(key, true), decode(value, true)) {
            found.entry(key).or_default().push(Value::text(value));
        }
    }
    let entries = found
        .into_iter()
        .map(|(key, values)| (MapKey::String(Text::Shared(key.into())), Value::list(values)));
    Ok(Value::map(entries.collect()))
}
