//! What an AuthorizationConfiguration says, and what is wrong with it (R154a).
//!
//! Fields and faults are upstream's (`apiserver.config.k8s.io`). Which file it comes from, and what its text looks
//! like, never lives here; neither does the kubeconfig that leads to a webhook.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tenure_machinery::query::parse_duration;
use tenure_machinery::{Errors, Object, Path, name};

use super::conditions::MatchConditions;
use crate::fields::{FieldReader, shown};

/// The versions of the configuration, which say the same.
const API_VERSIONS: [&str; 2] = ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1"];
const KIND: &str = "AuthorizationConfiguration";
/// The types that there are; upstream's `ABAC` is not among them.
const TYPES: [&str; 6] = ["AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Reference", "Webhook"];
/// The longest that a webhook may take.
const TIMEOUT_MAX: Duration = Duration::from_secs(30);
/// How long what a webhook allows is kept where nobody says otherwise.
const AUTHORIZED_TTL: Duration = Duration::from_secs(5 * 60);
/// The same for what it does not allow.
const UNAUTHORIZED_TTL: Duration = Duration::from_secs(30);
/// Which version of reviews conditions see.
const VERSION: &str = "matchConditionSubjectAccessReviewVersion";
/// How many conditions a webhook may have.
const CONDITIONS_MAX: usize = 64;

/// Who is asked, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationConfiguration {
    /// Never empty.
    pub authorizers: Vec<AuthorizerConfiguration>,
}

/// One authorizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizerConfiguration {
    /// What metrics and refusals call it.
    pub name: String,
    /// What it is.
    pub kind: AuthorizerType,
}

/// What authorizers there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthorizerType {
    /// What nodes may do because of their pods.
    Node,
    /// Roles and bindings.
    Rbac,
    /// What may be read because something refers to it.
    Reference,
    /// Everything is allowed.
    AlwaysAllow,
    /// Nobody is allowed anything by this.
    AlwaysDeny,
    /// A server that is asked.
    Webhook(Box<AuthorizationWebhookConfiguration>),
}

impl AuthorizerType {
    /// As the configuration spells it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            AuthorizerType::Node => "Node",
            AuthorizerType::Rbac => "RBAC",
            AuthorizerType::Reference => "Reference",
            AuthorizerType::AlwaysAllow => "AlwaysAllow",
            AuthorizerType::AlwaysDeny => "AlwaysDeny",
            AuthorizerType::Webhook(_) => "Webhook",
        }
    }
}

/// How a webhook is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationWebhookConfiguration {
    /// How long one call may take.
    pub timeout: Duration,
    /// How long what it allows is kept; `None` for not at all.
    pub authorized_ttl: Option<Duration>,
    /// How long what it does not allow is kept; `None` for not at all.
    pub unauthorized_ttl: Option<Duration>,
    /// The API version of the reviews that it gets.
    pub version: &'static str,
    /// Whether a call that fails refuses the request; otherwise it is no opinion.
    pub denies_on_failure: bool,
    /// The kubeconfig that leads to it.
    pub kubeconfig: PathBuf,
    /// What must hold for it to be asked.
    pub conditions: Vec<String>,
}

impl Default for AuthorizationConfiguration {
    /// Without a configuration.
    fn default() -> AuthorizationConfiguration {
        let all = [AuthorizerType::Rbac, AuthorizerType::Reference, AuthorizerType::Node];
        AuthorizationConfiguration { authorizers: all.into_iter().map(named).collect() }
    }
}

impl AuthorizationConfiguration {
    /// Reads a document; references are asked last where it does not name them.
    ///
    /// # Errors
    /// All that is wrong with it, field by field.
    pub fn read(document: &Value) -> Result<AuthorizationConfiguration, Errors> {
        let mut errors = Errors::new();
        let mut authorizers = Vec::new();
        match document {
            Value::Object(document) => {
                let mut reader = FieldReader { errors: &mut errors };
                authorizers = reader.authorizers(document);
            }
            _ => errors.invalid(&Path::Root.field("kind"), "{}", "the document is no mapping"),
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        if !authorizers.iter().any(|one| one.kind == AuthorizerType::Reference) {
            authorizers.push(named(AuthorizerType::Reference));
        }
        Ok(AuthorizationConfiguration { authorizers })
    }

    /// The webhooks, each with its place in the list.
    pub fn webhooks(&self) -> impl Iterator<Item = (usize, &AuthorizationWebhookConfiguration)> {
        self.authorizers.iter().enumerate().filter_map(|(place, one)| match &one.kind {
            AuthorizerType::Webhook(webhook) => Some((place, &**webhook)),
            _ => None,
        })
    }

    /// The types besides webhooks that another configuration has and this one lacks: a running server keeps those that
    /// it was started with, as upstream. References are not among them, because nobody has to name them.
    #[must_use]
    pub fn missing_of(&self, other: &AuthorizationConfiguration) -> Vec<&'static str> {
        let words = |of: &AuthorizationConfiguration| {
            let kinds = of.authorizers.iter().map(|one| one.kind.word());
            kinds.filter(|word| *word != "Webhook").collect::<BTreeSet<_>>()
        };
        let own = words(self);
        words(other).into_iter().filter(|word| !own.contains(word)).collect()
    }
}

/// An authorizer under the one name that it may have.
fn named(kind: AuthorizerType) -> AuthorizerConfiguration {
    AuthorizerConfiguration { name: kind.word().to_lowercase(), kind }
}

impl FieldReader<'_> {
    fn authorizers(&mut self, document: &Object) -> Vec<AuthorizerConfiguration> {
        let root = Path::Root;
        self.known(document, &root, &["apiVersion", "kind", "authorizers"]);
        self.document_is(document, &API_VERSIONS, KIND);
        let path = root.field("authorizers");
        let list = self.list(document, &root, "authorizers");
        if list.is_empty() {
            self.errors.required(&path, "at least one authorizer must be defined");
        }
        let (mut types, mut names) = (BTreeSet::new(), BTreeSet::new());
        let mut all = Vec::new();
        for (index, one) in list.iter().enumerate() {
            let path = path.index(index);
            let Value::Object(one) = one else {
                self.no_mapping(&path, one);
                continue;
            };
            all.extend(self.authorizer(one, &path, &mut types, &mut names));
        }
        all
    }

    fn authorizer<'a>(
        &mut self,
        one: &'a Object,
        path: &Path<'_>,
        types: &mut BTreeSet<&'a str>,
        names: &mut BTreeSet<&'a str>,
    ) -> Option<AuthorizerConfiguration> {
        self.known(one, path, &["type", "name", "webhook"]);
        let word = self.text(one, path, "type");
        let at = path.field("type");
        if word.is_empty() {
            self.errors.required(&at, "");
            return None;
        }
        if !TYPES.contains(&word) {
            self.errors.not_supported(&at, word, &TYPES);
            return None;
        }
        if !types.insert(word) && word != "Webhook" {
            self.errors.duplicate(&at, format_args!("{word:?}"));
            return None;
        }
        let name = self.text(one, path, "name");
        self.name(name, word, &path.field("name"), names);
        let webhook = one.get("webhook").filter(|webhook| !webhook.is_null());
        let at = path.field("webhook");
        let kind = match (word, webhook) {
            ("Webhook", None) => {
                self.errors.required(&at, "required when type=Webhook");
                return None;
            }
            ("Webhook", Some(Value::Object(webhook))) => {
                AuthorizerType::Webhook(Box::new(self.webhook(webhook, &at)))
            }
            ("Webhook", Some(other)) => {
                self.no_mapping(&at, other);
                return None;
            }
            (_, Some(_)) => {
                self.errors.invalid(&at, "{}", "may only be specified when type=Webhook");
                return None;
            }
            ("Node", None) => AuthorizerType::Node,
            ("RBAC", None) => AuthorizerType::Rbac,
            ("Reference", None) => AuthorizerType::Reference,
            ("AlwaysAllow", None) => AuthorizerType::AlwaysAllow,
            (_, None) => AuthorizerType::AlwaysDeny,
        };
        Some(AuthorizerConfiguration { name: name.to_owned(), kind })
    }

    fn name<'a>(
        &mut self,
        name: &'a str,
        word: &str,
        path: &Path<'_>,
        names: &mut BTreeSet<&'a str>,
    ) {
        let shown = format!("{name:?}");
        if name.is_empty() {
            self.errors.required(path, "");
        } else if !names.insert(name) {
            self.errors.duplicate(path, shown);
        } else if word != "Webhook" && name != word.to_lowercase() {
            let why = format!("the name of the authorizer {word} is {:?}", word.to_lowercase());
            self.errors.invalid(path, shown, &why);
        } else {
            for why in name::dns_subdomain_faults(name) {
                self.errors.invalid(path, &shown, &format!("authorizer name is invalid: {why}"));
            }
        }
    }

    fn webhook(&mut self, webhook: &Object, path: &Path<'_>) -> AuthorizationWebhookConfiguration {
        self.known(
            webhook,
            path,
            &[
                "timeout",
                "authorizedTTL",
                "unauthorizedTTL",
                "cacheAuthorizedRequests",
                "cacheUnauthorizedRequests",
                "subjectAccessReviewVersion",
                "matchConditionSubjectAccessReviewVersion",
                "failurePolicy",
                "connectionInfo",
                "matchConditions",
            ],
        );
        let timeout = self.duration(webhook, path, "timeout");
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            self.errors.required(&path.field("timeout"), "");
        } else if timeout.is_some_and(|timeout| timeout > TIMEOUT_MAX) {
            let said = self.text(webhook, path, "timeout");
            let why = "must be > 0s and <= 30s";
            self.errors.invalid(&path.field("timeout"), format_args!("{said:?}"), why);
        }
        let authorized =
            self.ttl(webhook, path, ("authorizedTTL", "cacheAuthorizedRequests"), AUTHORIZED_TTL);
        let unauthorized = self.ttl(
            webhook,
            path,
            ("unauthorizedTTL", "cacheUnauthorizedRequests"),
            UNAUTHORIZED_TTL,
        );
        let version = self.choice(webhook, path, "subjectAccessReviewVersion", &["v1", "v1beta1"]);
        let policy = self.choice(webhook, path, "failurePolicy", &["NoOpinion", "Deny"]);
        let kubeconfig = self.connection(webhook, path);
        let conditions = self.conditions(webhook, path);
        AuthorizationWebhookConfiguration {
            timeout: timeout.unwrap_or_default(),
            authorized_ttl: authorized,
            unauthorized_ttl: unauthorized,
            version: version.unwrap_or("v1"),
            denies_on_failure: policy != Some("NoOpinion"),
            kubeconfig,
            conditions,
        }
    }

    fn ttl(
        &mut self,
        webhook: &Object,
        path: &Path<'_>,
        (member, switch): (&str, &str),
        usual: Duration,
    ) -> Option<Duration> {
        let given = self.duration(webhook, path, member).filter(|ttl| !ttl.is_zero());
        let kept = self.flag(webhook, path, switch).unwrap_or(true);
        kept.then(|| given.unwrap_or(usual))
    }

    fn connection(&mut self, webhook: &Object, path: &Path<'_>) -> PathBuf {
        let path = path.field("connectionInfo");
        let none = Object::new();
        let info = match webhook.get("connectionInfo") {
            None | Some(Value::Null) => &none,
            Some(Value::Object(info)) => info,
            Some(other) => {
                self.no_mapping(&path, other);
                return PathBuf::new();
            }
        };
        self.known(info, &path, &["type", "kubeConfigFile"]);
        let (word, file) =
            (self.text(info, &path, "type"), self.text(info, &path, "kubeConfigFile"));
        let at = path.field("kubeConfigFile");
        match word {
            "" => self.errors.required(&path.field("type"), ""),
            "KubeConfigFile" if file.is_empty() => self.errors.required(&at, ""),
            "KubeConfigFile" if !std::path::Path::new(file).is_absolute() => {
                self.errors.invalid(&at, format_args!("{file:?}"), "must be an absolute path");
            }
            "KubeConfigFile" => {}
            // It means a server that asks somebody else's API server; upstream's own refuses it as well.
            "InClusterConfig" => {
                let why = "this server cannot ask itself; use KubeConfigFile";
                self.errors.invalid(&path.field("type"), "\"InClusterConfig\"", why);
            }
            other => self.errors.not_supported(
                &path.field("type"),
                other,
                &["InClusterConfig", "KubeConfigFile"],
            ),
        }
        PathBuf::from(file)
    }

    fn conditions(&mut self, webhook: &Object, path: &Path<'_>) -> Vec<String> {
        let list = self.list(webhook, path, "matchConditions");
        match self.text(webhook, path, VERSION) {
            "" if list.is_empty() => {}
            "" => {
                let why = "required if match conditions are specified";
                self.errors.required(&path.field(VERSION), why);
            }
            "v1" => {}
            other => self.errors.not_supported(&path.field(VERSION), other, &["v1"]),
        }
        let path = path.field("matchConditions");
        if list.len() > CONDITIONS_MAX {
            self.errors.too_many(&path, list.len(), CONDITIONS_MAX);
            return Vec::new();
        }
        let mut all: Vec<String> = Vec::new();
        for (index, one) in list.iter().enumerate() {
            let path = path.index(index);
            let Value::Object(one) = one else {
                self.no_mapping(&path, one);
                continue;
            };
            self.known(one, &path, &["expression"]);
            let (text, at) = (self.text(one, &path, "expression"), path.field("expression"));
            if text.trim().is_empty() {
                self.errors.required(&at, "");
            } else if all.iter().any(|known| known == text) {
                self.errors.duplicate(&at, format_args!("{text:?}"));
            } else if let Err(why) = MatchConditions::compile(&[text.to_owned()]) {
                let shown: String = text.chars().take(200).collect();
                self.errors.invalid(&at, format_args!("{shown:?}"), &why);
            }
            all.push(text.to_owned());
        }
        all
    }

    /// A duration; zero where none is said, nothing where it is wrong.
    fn duration(&mut self, object: &Object, path: &Path<'_>, member: &str) -> Option<Duration> {
        let at = path.field(member);
        let text = match object.get(member) {
            None | Some(Value::Null) => return Some(Duration::ZERO),
            Some(Value::String(text)) => text,
            Some(other) => {
                let why = "must be a duration in quotes or with a unit, such as 3s";
                self.errors.invalid(&at, shown(other), why);
                return None;
            }
        };
        if let Some(duration) = parse_duration(text) {
            return Some(duration);
        }
        let is_negative = text.strip_prefix('-').is_some_and(|rest| parse_duration(rest).is_some());
        let why = if is_negative { "must be > 0s" } else { "must be a duration such as 3s" };
        self.errors.invalid(&at, format_args!("{text:?}"), why);
        None
    }

    /// One of a few words, which must be said.
    fn choice(
        &mut self,
        object: &Object,
        path: &Path<'_>,
        member: &str,
        words: &[&'static str],
    ) -> Option<&'static str> {
        let said = self.text(object, path, member);
        let found = words.iter().find(|word| **word == said);
        match (said, found) {
            ("", _) => self.errors.required(&path.field(member), ""),
            (other, None) => self.errors.not_supported(&path.field(member), other, words),
            _ => {}
        }
        found.copied()
    }
}

#[cfg(test)]
mod tests;
