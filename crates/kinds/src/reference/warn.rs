//! What is worth telling about an object of the three kinds that is written all the same (R15, R31, R33–R37,
//! R41, R84). What it means together with other objects is told by the server.

use tenure_core::selector::LabelSelector;
use tenure_machinery::validate::{objects, text};
use tenure_machinery::{Kind, Object, ObjectExt, Path};
use tenure_reference::path::JsonPath as ReferencePath;

use super::read::{GroupResourceRef, TripleView, namespace_selector, target_names};
use super::{ReferencePolicyKind, Surroundings, is_everybody};

/// The longest warning, in bytes.
const BYTES_MAX: usize = 256;

/// A warning about a field, cut where it would be too long for a header.
#[must_use]
pub fn line(field: &str, text: &str) -> String {
    let mut line = format!("{field}: {text}");
    if line.len() > BYTES_MAX {
        let most = BYTES_MAX - "…".len();
        let end = (0..=most).rev().find(|&at| line.is_char_boundary(at)).unwrap_or(0);
        line.truncate(end);
        line.push('…');
    }
    line
}

/// What to tell, in the order of the fields.
#[must_use]
pub fn warnings(
    kind: &Kind,
    object: &Object,
    old: Option<&Object>,
    around: &dyn Surroundings,
) -> Vec<String> {
    let mut tell = WarningCollector { around, lines: Vec::new() };
    match ReferencePolicyKind::of(kind) {
        Some(ReferencePolicyKind::Strategy) => tell.strategy(object),
        Some(ReferencePolicyKind::Consumer) => tell.consumer(object),
        Some(ReferencePolicyKind::Grant) => tell.grant(object, old),
        None => {}
    }
    tell.lines
}

struct WarningCollector<'a> {
    around: &'a dyn Surroundings,
    lines: Vec<String>,
}

impl WarningCollector<'_> {
    fn say(&mut self, path: &Path<'_>, text: &str) {
        self.lines.push(line(&path.to_string(), text));
    }

    fn consumer(&mut self, consumer: &Object) {
        let part = |member| consumer.str_at(&["subject", member]).unwrap_or_default();
        let at = Path::Root.field("subject");
        let name = part("name");
        if part("kind") == "User" && is_account(name) {
            self.say(&at, "names a service account as a user; use kind ServiceAccount");
        }
        if part("kind") != "ServiceAccount" && is_everybody(name) {
            self.say(&at.field("name"), "gives what is referenced to everybody who can connect");
        }
        if consumer.map_at(&["classSelector"]).is_some() {
            self.served(consumer, "classSelector", &Path::Root);
        }
        let list = Path::Root.field("references");
        for (index, entry) in objects(consumer, "references") {
            let path = list.index(index);
            self.served(entry, "origin", &path);
            self.served(entry, "target", &path);
        }
    }

    fn strategy(&mut self, strategy: &Object) {
        self.served(strategy, "origin", &Path::Root);
        self.inert(strategy);
        let list = Path::Root.field("versions");
        for (index, versioned) in objects(strategy, "versions") {
            let path = list.index(index);
            let class = text(versioned, "classPath");
            self.path(class, &path.field("classPath"));
            let list = path.field("references");
            for (index, entry) in objects(versioned, "references") {
                let path = list.index(index);
                self.path(text(entry, "path"), &path.field("path"));
                self.served(entry, "target", &path);
            }
        }
    }

    fn path(&mut self, text: &str, at: &Path<'_>) {
        let Ok(path) = ReferencePath::parse(text) else { return };
        for warning in path.warnings() {
            self.say(at, &warning.to_string());
        }
    }

    /// The origin is served, but in none of the versions that have paths.
    fn inert(&mut self, strategy: &Object) {
        let origin = GroupResourceRef::read(strategy, "origin");
        let Some(served) = self.around.served(origin.group, origin.resource) else { return };
        let listed: Vec<&str> =
            objects(strategy, "versions").map(|(_, of)| text(of, "version")).collect();
        if served.versions.iter().any(|version| listed.contains(&version.as_str())) {
            return;
        }
        let why = format!(
            "none is served, so the strategy is inert: {origin} is served as {}",
            served.versions.join(", ")
        );
        self.say(&Path::Root.field("versions"), &why);
    }

    fn grant(&mut self, grant: &Object, old: Option<&Object>) {
        self.served(grant, "origin", &Path::Root);
        let namespace = grant.str_at(&["origin", "namespace"]).unwrap_or_default();
        if !namespace.is_empty() && namespace == grant.namespace() {
            let at = Path::Root.field("origin");
            self.say(
                &at.field("namespace"),
                "is the grant's own; references within a namespace need no grant",
            );
        }
        if namespace_selector(grant).is_some_and(|selector| labels(selector).is_empty()) {
            let at = Path::Root.field("origin");
            self.say(&at.field("namespaceSelector"), "is empty, which means all namespaces");
        }
        self.served(grant, "target", &Path::Root);
        if target_names(grant).is_empty() {
            let at = Path::Root.field("target");
            self.say(&at.field("names"), "is empty, so the grant grants nothing");
        }
        if let Some((field, revoked)) = old.and_then(|old| revoked(old, grant)) {
            self.lines.push(line(field, &revoked));
        }
    }

    fn served(&mut self, object: &Object, member: &str, path: &Path<'_>) {
        let named = GroupResourceRef::read(object, member);
        if self.around.served(named.group, named.resource).is_none() {
            let why = format!("{named} is not served by this cluster; has no effect until it is");
            self.say(&path.field(member), &why);
        }
    }
}

/// Whether a user name is that of a service account.
fn is_account(name: &str) -> bool {
    name.strip_prefix("system:serviceaccount:").is_some_and(|rest| rest.contains(':'))
}

/// The access that a change of a grant takes away, and the field that took it.
fn revoked(old: &Object, new: &Object) -> Option<(&'static str, String)> {
    let (before, after) = (TripleView::read(old), TripleView::read(new));
    let (had, has) = (target_names(old), target_names(new));
    let field = if before.origin != after.origin || place(old) != place(new) {
        "origin"
    } else if before.target != after.target {
        "target"
    } else if before.purpose != after.purpose {
        "purpose"
    } else {
        "target.names"
    };
    let kept = |name: &&str| field == "target.names" && has.contains(name);
    let gone: Vec<String> =
        had.into_iter().filter(|name| !kept(name)).map(|name| format!("{name:?}")).collect();
    if gone.is_empty() {
        return None;
    }
    let from = format!("{}{}", before.origin, place(old));
    let text = format!(
        "this update revokes {} {} for {} from {from}",
        before.target,
        gone.join(", "),
        before.purpose
    );
    Some((field, text))
}

/// Where the origins of a grant live, in words that follow their type.
fn place(grant: &Object) -> String {
    let namespace = grant.str_at(&["origin", "namespace"]).unwrap_or_default();
    match (namespace, namespace_selector(grant).map(labels)) {
        ("", None) => String::new(),
        ("", Some(labels)) if labels.is_empty() => " in all namespaces".to_owned(),
        ("", Some(labels)) => format!(" in namespaces with {labels:?}"),
        (namespace, _) => format!(" in namespace {namespace:?}"),
    }
}

/// A selector as clients write it; empty for all.
fn labels(selector: &Object) -> String {
    LabelSelector::from_object(selector).map(|read| read.to_string()).unwrap_or_default()
}
