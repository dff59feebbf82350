//! Parameters of logs and streams: as clients name them in, as nodes name them out.

use jiff::Timestamp;
use serde_json::Value;
use tenure_machinery::{Errors, Failure, Object, Path};

use super::ConnectSubresource;
use crate::query::Query;

/// The parameters of a log for the node, checked (R116).
pub(super) fn log(query: &Query, pod: &str) -> Result<String, Failure> {
    let tail = query.number("tailLines")?;
    let limit = query.number("limitBytes")?;
    let seconds = query.number("sinceSeconds")?;
    let time = match query.text("sinceTime") {
        "" => None,
        text => Some(text.parse::<Timestamp>().map_err(|_| {
            Failure::bad_request(format!("sinceTime: `{text}` is not a time of RFC 3339"))
        })?),
    };
    let stream = query.text("stream");
    let mut errors = Errors::new();
    let root = Path::Root;
    if let Some(lines) = tail.filter(|lines| *lines < 0) {
        errors.invalid(&root.field("tailLines"), lines, "must be greater than or equal to 0");
    }
    if let Some(bytes) = limit.filter(|bytes| *bytes < 1) {
        errors.invalid(&root.field("limitBytes"), bytes, "must be greater than 0");
    }
    match (seconds, time) {
        (Some(_), Some(_)) => {
            let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.forbidden(&root.field(""), why);
        }
        (Some(seconds), None) if seconds < 1 => {
            errors.invalid(&root.field("sinceSeconds"), seconds, "must be greater than 0");
        }
        _ => {}
    }
    if !matches!(stream, "" | "All" | "Stdout" | "Stderr") {
        errors.not_supported(&root.field("stream"), stream, &["All", "Stderr", "Stdout"]);
    } else if !matches!(stream, "" | "All") && tail.is_some() {
        let why = "`tailLines` and specific `stream` are mutually exclusive for now";
        errors.forbidden(&root.field(""), why);
    }
    if !errors.is_empty() {
        return Err(Failure::invalid("", "PodLogOptions", pod, errors));
    }
    let mut out = Out::default();
    for flag in ["follow", "previous", "timestamps"] {
        if query.flag(flag) {
            out.put(flag, "true");
        }
    }
    for (name, number) in [("tailLines", tail), ("limitBytes", limit), ("sinceSeconds", seconds)] {
        if let Some(number) = number {
            out.put(name, &number.to_string());
        }
    }
    if let Some(time) = time {
        out.put("sinceTime", &time.to_string());
    }
    if !stream.is_empty() {
        out.put("stream", stream);
    }
    Ok(out.0)
}

/// What policies call the parameters of a door.
pub(super) fn kind(subresource: ConnectSubresource) -> &'static str {
    match subresource {
        ConnectSubresource::Log => "PodLogOptions",
        ConnectSubresource::Exec => "PodExecOptions",
        ConnectSubresource::Attach => "PodAttachOptions",
        ConnectSubresource::Forward => "PodPortForwardOptions",
        ConnectSubresource::Node => "NodeProxyOptions",
        ConnectSubresource::Pod => "PodProxyOptions",
        ConnectSubresource::Service => "ServiceProxyOptions",
    }
}

/// The parameters of a door as an object, for policies.
pub(super) fn object(query: &Query, subresource: ConnectSubresource, kind: &str) -> Object {
    let mut object = Object::new();
    object.insert("kind".to_owned(), kind.into());
    object.insert("apiVersion".to_owned(), "v1".into());
    if matches!(subresource, ConnectSubresource::Exec | ConnectSubresource::Attach) {
        for flag in ["stdin", "stdout", "stderr", "tty"] {
            if query.flag(flag) {
                object.insert(flag.to_owned(), true.into());
            }
        }
        if let Some(container) = query.get("container") {
            object.insert("container".to_owned(), container.into());
        }
    }
    if subresource == ConnectSubresource::Exec {
        let command: Vec<Value> = query.all("command").map(Value::from).collect();
        object.insert("command".to_owned(), Value::Array(command));
    }
    if subresource == ConnectSubresource::Forward {
        let ports = query.all("ports").flat_map(|ports| ports.split(','));
        let ports = ports.filter_map(|port| port.parse::<u16>().ok()).map(Value::from);
        object.insert("ports".to_owned(), Value::Array(ports.collect()));
    }
    object
}

/// The parameters of a command or an attachment for the node (R125).
pub(super) fn streams(query: &Query, commands: bool) -> String {
    let mut out = Out::default();
    for (name, theirs) in
        [("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty")]
    {
        if query.flag(name) {
            out.put(theirs, "1");
        }
    }
    if commands {
        for word in query.all("command") {
            out.put("command", word);
        }
    }
    out.0
}

/// The ports to forward, if they are named (R130).
pub(super) fn forward(query: &Query) -> Result<String, Failure> {
    let mut out = Out::default();
    for text in query.all("ports").flat_map(|text| text.split(',')) {
        if text.parse::<i32>().is_err() {
            return Err(Failure::bad_request(format!("ports: `{text}` is not a whole number")));
        }
        out.put("port", text);
    }
    Ok(out.0)
}

/// Parameters in the making.
#[derive(Default)]
struct Out(String);

impl Out {
    fn put(&mut self, name: &str, value: &str) {
        if !self.0.is_empty() {
            self.0.push('&');
        }
        self.0.push_str(name);
        self.0.push('=');
        self.0.push_str(&escape(value));
    }
}

/// Everything but the letters that mean nothing in a URL, as `%41`.
pub(super) fn escape(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            // Writing to a text cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
