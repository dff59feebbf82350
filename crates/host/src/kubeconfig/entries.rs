//! Our three entries in the text of a kubeconfig: how they are put in and taken out. Files never live here.
//!
//! The cluster and the user are ours whole. Of the context, the cluster and the user are ours; its namespace,
//! and whatever else others say of it, stays. `current-context` is set when the context is new or leads
//! nowhere, as kind, minikube and k3d do, and afterwards belongs to whoever uses the file.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// The name of our context and of our cluster.
pub const CONTEXT: &str = "tenure";
/// What says that a cluster or a user is ours, as minikube says it of its own.
const EXTENSION: &str = "tenure.dev";
/// The first line of a file that was not there before.
const MARK: &str = "# `tenure up` keeps the entries of this file that are its own; yours stay.";
/// The same as former versions wrote it, which is not true any more.
const FORMER_MARK: &str = "# Written by tenure at every start; changes made here are lost.";

/// What a client needs to know.
#[derive(Clone, Copy, Debug)]
pub struct KubeconfigEntries<'a> {
    /// What the file calls the user: a plain word, since it is not quoted.
    pub user: &'a str,
    /// The address of the server, as a URL.
    pub server: &'a str,
    /// The certificate that signed the server's, in PEM form.
    pub authority_pem: &'a str,
    /// The client's certificate, in PEM form.
    pub certificate_pem: &'a str,
    /// The client's private key, in PEM form.
    pub key_pem: &'a str,
}

/// Why a file is not taken for a kubeconfig.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAKubeconfig {
    /// A folder, a pipe or a device.
    #[error("it is not a file")]
    NoFile,
    /// Far too long for one.
    #[error("it is too long")]
    TooLong,
    /// Somebody else owns it.
    #[error("it belongs to another user")]
    AnotherUsers,
    /// Not even text.
    #[error("it is not text")]
    NoText,
    /// Not in its form.
    #[error("it cannot be read as YAML: {0}")]
    NoYaml(String),
    /// YAML of something else.
    #[error("{0}")]
    SomethingElse(&'static str),
    /// A kubeconfig, with an entry of somebody else's at the name of one of ours.
    #[error("it has {0} of somebody else's")]
    Taken(String),
}

/// What is left of a text without our entries.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EntryRemoval {
    /// What others wrote.
    Left(String),
    /// Nothing that anybody wrote.
    NothingLeft,
    /// Ours were not in it.
    NotThere,
    /// Ours lead to another server.
    AnotherServer,
}

/// The text of a kubeconfig with one cluster, one user and one context.
#[must_use]
pub fn render(access: KubeconfigEntries<'_>) -> String {
    // Every value is a URL or base64, so none needs quoting.
    let mut text = String::new();
    let _ = write!(
        text,
        "{MARK}\n\
         apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: {CONTEXT}\n\
         \x20 cluster:\n\
         \x20   server: {server}\n\
         \x20   certificate-authority-data: {authority}\n\
         \x20   extensions:\n\
         \x20   - name: {EXTENSION}\n\
         \x20     extension:\n\
         \x20       provider: {EXTENSION}\n\
         users:\n\
         - name: {user}\n\
         \x20 user:\n\
         \x20   client-certificate-data: {certificate}\n\
         \x20   client-key-data: {key}\n\
         \x20   extensions:\n\
         \x20   - name: {EXTENSION}\n\
         \x20     extension:\n\
         \x20       provider: {EXTENSION}\n\
         contexts:\n\
         - name: {CONTEXT}\n\
         \x20 context:\n\
         \x20   cluster: {CONTEXT}\n\
         \x20   user: {user}\n\
         current-context: {CONTEXT}\n",
        user = access.user,
        server = access.server,
        authority = STANDARD.encode(access.authority_pem),
        certificate = STANDARD.encode(access.certificate_pem),
        key = STANDARD.encode(access.key_pem),
    );
    text
}

/// Fails if a text is of something else than a kubeconfig; an empty one may become one.
pub(super) fn check(text: &str) -> Result<(), NotAKubeconfig> {
    config(text).map(|_| ())
}

/// Who wrote the entries at our names.
struct EntryProvenance {
    /// The cluster, if there is one, is ours.
    cluster: Option<bool>,
    user: Option<bool>,
    context: Option<bool>,
}

impl EntryProvenance {
    /// What is marked is ours. Entries of former releases are not: those with the authority or the server that
    /// is meant are ours too.
    fn read(
        config: &Map<String, Value>,
        user: &str,
        meant: impl Fn(&Value) -> bool,
    ) -> EntryProvenance {
        let found = |list: &str, name: &str, member: &str| {
            let items = config.get(list).and_then(Value::as_array).into_iter().flatten();
            let mut named =
                items.filter(|item| item.get("name").and_then(Value::as_str) == Some(name));
            named.next().map(|item| item.get(member).unwrap_or(&Value::Null))
        };
        let is_marked = |entry: &Value| {
            let list = entry.get("extensions").and_then(Value::as_array).into_iter().flatten();
            list.into_iter().any(|it| it.get("name").and_then(Value::as_str) == Some(EXTENSION))
        };
        let empty = |entry: &Value| entry.as_object().is_none_or(Map::is_empty);
        let cluster = found("clusters", CONTEXT, "cluster")
            .map(|entry| empty(entry) || is_marked(entry) || meant(entry));
        let user = found("users", user, "user").map(|entry| {
            // Whose context leads to our cluster.
            let plain = entry.get("client-key-data").is_some() && entry.get("token").is_none();
            empty(entry) || is_marked(entry) || (plain && cluster == Some(true))
        });
        let context = found("contexts", CONTEXT, "context").map(|entry| {
            let leads_here = entry.get("cluster").and_then(Value::as_str) == Some(CONTEXT);
            cluster.unwrap_or(empty(entry) || leads_here)
        });
        EntryProvenance { cluster, user, context }
    }

    /// The first that is somebody else's.
    fn taken(&self, user: &str) -> Option<String> {
        let others = |ours: Option<bool>| ours == Some(false);
        if others(self.cluster) {
            return Some(format!("a cluster `{CONTEXT}`"));
        }
        if others(self.user) {
            return Some(format!("a user `{user}`"));
        }
        others(self.context).then(|| format!("a context `{CONTEXT}`"))
    }
}

/// The text with our entries in it; the same text if they are there already.
pub(super) fn put(text: &str, access: KubeconfigEntries<'_>) -> Result<String, NotAKubeconfig> {
    let mut config = config(text)?;
    // What nobody edited stays in the form that it had.
    if text.trim().is_empty() || is_plain(&config, text) {
        return Ok(render(access));
    }
    let before = config.clone();
    let authority = STANDARD.encode(access.authority_pem);
    let meant = |cluster: &Value| {
        cluster.get("certificate-authority-data").and_then(Value::as_str) == Some(&authority)
    };
    if let Some(taken) = EntryProvenance::read(&config, access.user, meant).taken(access.user) {
        return Err(NotAKubeconfig::Taken(taken));
    }
    let mark = json!([{ "name": EXTENSION, "extension": { "provider": EXTENSION } }]);
    let cluster = json!({
        "server": access.server,
        "certificate-authority-data": authority,
        "extensions": mark,
    });
    let user = json!({
        "client-certificate-data": STANDARD.encode(access.certificate_pem),
        "client-key-data": STANDARD.encode(access.key_pem),
        "extensions": mark,
    });
    *entry(&mut config, "clusters", CONTEXT, "cluster")? = cluster;
    *entry(&mut config, "users", access.user, "user")? = user;
    let is_new = !names(&config, "contexts").contains(&CONTEXT.to_owned());
    let context = entry(&mut config, "contexts", CONTEXT, "context")?;
    let mut whole = context.as_object().cloned().unwrap_or_default();
    whole.insert("cluster".to_owned(), json!(CONTEXT));
    whole.insert("user".to_owned(), json!(access.user));
    *context = Value::Object(whole);
    let current = config.get("current-context").and_then(Value::as_str).unwrap_or_default();
    if is_new || !names(&config, "contexts").iter().any(|name| name == current) {
        config.insert("current-context".to_owned(), json!(CONTEXT));
    }
    config.entry("apiVersion").or_insert_with(|| json!("v1"));
    config.entry("kind").or_insert_with(|| json!("Config"));
    if config == before {
        return Ok(text.to_owned());
    }
    Ok(written(text, config))
}

/// The text without our entries.
pub(super) fn take(text: &str, server: Option<&str>) -> Result<EntryRemoval, NotAKubeconfig> {
    let mut config = config(text)?;
    let found = |list: &str, name: &str, member: &str, field: &str| {
        let items = config.get(list).and_then(Value::as_array).into_iter().flatten();
        let mut named = items.filter(|item| item.get("name").and_then(Value::as_str) == Some(name));
        let value = named.next().and_then(|item| item.get(member)?.get(field)?.as_str());
        value.map(str::to_owned)
    };
    let leads_to = found("clusters", CONTEXT, "cluster", "server");
    if server.is_some() && leads_to.is_some() && leads_to.as_deref() != server {
        return Ok(EntryRemoval::AnotherServer);
    }
    let user = found("contexts", CONTEXT, "context", "user");
    let user = user.filter(|name| name.starts_with("tenure-")).unwrap_or("tenure-admin".to_owned());
    let meant = |cluster: &Value| {
        server.is_some() && cluster.get("server").and_then(Value::as_str) == server
    };
    let names = EntryProvenance::read(&config, &user, meant);
    let ours = [
        ("clusters", CONTEXT, names.cluster),
        ("users", user.as_str(), names.user),
        ("contexts", CONTEXT, names.context),
    ];
    let mut removed = false;
    for (list, name, _) in ours.into_iter().filter(|(.., ours)| *ours == Some(true)) {
        if let Some(items) = config.get_mut(list).and_then(Value::as_array_mut) {
            let before = items.len();
            items.retain(|item| item.get("name").and_then(Value::as_str) != Some(name));
            removed |= items.len() < before;
        }
    }
    if !removed {
        return Ok(EntryRemoval::NotThere);
    }
    if names.context == Some(true)
        && config.get("current-context").and_then(Value::as_str) == Some(CONTEXT)
    {
        config.insert("current-context".to_owned(), json!(""));
    }
    let is_empty = config.iter().all(|(name, value)| match name.as_str() {
        "apiVersion" | "kind" => true,
        _ => match value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => false,
        },
    });
    Ok(if is_empty { EntryRemoval::NothingLeft } else { EntryRemoval::Left(written(text, config)) })
}

/// What a text says.
fn config(text: &str) -> Result<Map<String, Value>, NotAKubeconfig> {
    let text = text.trim_start_matches('\u{feff}');
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Map::new());
    }
    let value = tenure_yaml::to_json(text.as_bytes(), tenure_yaml::YamlLimits::default())
        .map_err(|error| NotAKubeconfig::NoYaml(error.to_string()))?;
    let Value::Object(config) = value else {
        return Err(NotAKubeconfig::SomethingElse("it is no mapping of names to values"));
    };
    let lists = ["clusters", "users", "contexts"];
    match config.get("kind").and_then(Value::as_str) {
        Some("Config") => {}
        Some("") | None if lists.iter().any(|list| config.contains_key(*list)) => {}
        Some("") | None => {
            return Err(NotAKubeconfig::SomethingElse(
                "it has neither clusters, users nor contexts",
            ));
        }
        Some(_) => return Err(NotAKubeconfig::SomethingElse("its kind is not `Config`")),
    }
    let is_list = |list: &&str| {
        config.get(*list).is_none_or(|value| match value {
            Value::Null => true,
            Value::Array(items) => items.iter().all(Value::is_object),
            _ => false,
        })
    };
    if !lists.iter().all(is_list) {
        let why = "its clusters, users and contexts are not lists of entries";
        return Err(NotAKubeconfig::SomethingElse(why));
    }
    Ok(config)
}

/// The part of a named entry that says something; made if it is not there.
fn entry<'a>(
    config: &'a mut Map<String, Value>,
    list: &str,
    name: &str,
    member: &str,
) -> Result<&'a mut Value, NotAKubeconfig> {
    let wrong = || NotAKubeconfig::SomethingElse("its entries are not as they should be");
    let items = config.entry(list).or_insert(Value::Null);
    if items.is_null() {
        *items = json!([]);
    }
    let items = items.as_array_mut().ok_or_else(wrong)?;
    let is_it = |item: &Value| item.get("name").and_then(Value::as_str) == Some(name);
    let place = match items.iter().position(is_it) {
        Some(place) => place,
        None => {
            items.push(json!({ "name": name }));
            items.len() - 1
        }
    };
    let item = items.get_mut(place).and_then(Value::as_object_mut).ok_or_else(wrong)?;
    Ok(item.entry(member).or_insert(Value::Null))
}

fn names(config: &Map<String, Value>, list: &str) -> Vec<String> {
    let items = config.get(list).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| item.get("name")?.as_str().map(str::to_owned)).collect()
}

/// Whether a text is one that was rendered here and that nobody changed.
fn is_plain(config: &Map<String, Value>, text: &str) -> bool {
    let text = text.strip_prefix(FORMER_MARK).or_else(|| text.strip_prefix(MARK));
    let config = Value::Object(config.clone());
    let at = |pointer: &str| config.pointer(pointer).and_then(Value::as_str);
    let decoded = |pointer: &str| {
        at(pointer).and_then(|data| String::from_utf8(STANDARD.decode(data).ok()?).ok())
    };
    let rendered = || {
        let access = KubeconfigEntries {
            user: at("/users/0/name")?,
            server: at("/clusters/0/cluster/server")?,
            authority_pem: &decoded("/clusters/0/cluster/certificate-authority-data")?,
            certificate_pem: &decoded("/users/0/user/client-certificate-data")?,
            key_pem: &decoded("/users/0/user/client-key-data")?,
        };
        Some(render(access))
    };
    // Former releases did not mark their entries.
    let unmarked = format!(
        "    extensions:\n    - name: {EXTENSION}\n      extension:\n        provider: {EXTENSION}\n"
    );
    text.is_some_and(|text| {
        rendered().is_some_and(|whole| {
            let former = whole.replace(&unmarked, "");
            [whole, former].iter().any(|whole| whole.strip_prefix(MARK) == Some(text))
        })
    })
}

/// The text of a changed kubeconfig; the comment at its head stays.
fn written(before: &str, config: Map<String, Value>) -> String {
    let mut text = String::new();
    for line in before.lines().take_while(|line| line.starts_with('#')) {
        let line = if line == FORMER_MARK { MARK } else { line };
        text.push_str(line);
        text.push('\n');
    }
    text + &tenure_yaml::from_json(&Value::Object(config))
}

#[cfg(test)]
mod tests;
