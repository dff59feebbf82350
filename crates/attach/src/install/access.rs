//! Referential authorization: three kinds, policies about who may write them, rights, and what runs (A40 to A43,
//! A20 to A23, A80).

use std::collections::BTreeSet;

use super::template::{documents, fill};
use super::{InstallError, is_subdomain};
use crate::{AttachFeature, ServerVersion};

/// The verbs that a reference gives, and that its authors must hold.
const VERBS: [&str; 3] = ["get", "list", "watch"];
/// How many names a grant holds at most.
const NAMES: usize = 16;
/// How many targets of one author are looked at; a check costs so much that no more fit into a policy.
const TARGETS: usize = 24;
/// How many versions a strategy holds at most.
const VERSIONS: usize = 16;
/// How many Roles a consumer has in a namespace.
pub(crate) const SHARDS: usize = 4;

const GROUP: &str = "{type: string, maxLength: 253, \
    pattern: '^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$', \
    x-kubernetes-validations: [{rule: \"self != 'core'\", message: 'the core group is written as \"\"'}]}";
const LABEL: &str =
    "{type: string, minLength: 1, maxLength: 63, pattern: '^[a-z]([-a-z0-9]*[a-z0-9])?$'}";
const EVERYBODY: &str = "'system:anonymous', 'system:unauthenticated', 'system:authenticated'";

/// How rights come to consumers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessMode {
    /// By Roles that a process in the cluster writes.
    Synthesis,
    /// By an authorization webhook beside the API server, which is started by whoever has its flags.
    Webhook,
}

/// What of access is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessInstall {
    /// How rights come to consumers.
    pub mode: AccessMode,
    /// The consumers that rights are written for.
    pub consumers: Vec<String>,
    /// The types of objects that point, as `(group, plural)`.
    pub origins: BTreeSet<(String, String)>,
    /// What runs.
    pub image: String,
}

/// What gives a cluster of this version referential authorization.
///
/// # Errors
/// The server has no ValidatingAdmissionPolicy, or a name is none.
pub fn access(server: ServerVersion, wanted: &AccessInstall) -> Result<String, InstallError> {
    let (feature, needs) = (AttachFeature::Access, ServerVersion::VALIDATING_POLICIES);
    if server < needs {
        return Err(InstallError::TooOld { feature, needs, server });
    }
    if let Some(wrong) = wanted.consumers.iter().find(|name| !is_subdomain(name, CONSUMER_MAX)) {
        return Err(InstallError::Name { what: "a consumer", name: wrong.clone() });
    }
    let mut texts = vec![include_str!("../../objects/namespace.yaml").to_owned(), kinds()];
    texts.extend(policies());
    texts.push(rights(&wanted.origins));
    match wanted.mode {
        AccessMode::Synthesis => {
            texts.push(include_str!("../../objects/synthesis-pin.yaml").to_owned());
            let consumers: BTreeSet<&String> = wanted.consumers.iter().collect();
            texts.extend(consumers.into_iter().map(|consumer| synthesis(consumer)));
            texts.push(process(&wanted.image)?);
        }
        AccessMode::Webhook => texts.push(ACCOUNT.to_owned()),
    }
    Ok(documents(feature, &texts))
}

/// As whom the authorizer reads.
const ACCOUNT: &str = "\
apiVersion: v1
kind: ServiceAccount
metadata: {name: tenure-access, namespace: tenure-system, labels: @LABELS@}
";

/// The longest name of a consumer whose Roles can be named after it.
const CONSUMER_MAX: usize = 230;

fn kinds() -> String {
    let text = include_str!("../../objects/access-kinds.yaml");
    let leaves =
        [("GROUP", GROUP), ("PLURAL", LABEL), ("PURPOSE", LABEL), ("EVERYBODY", EVERYBODY)];
    fill(text, &leaves)
}

/// Who may write grants, consumers and strategies.
fn policies() -> Vec<String> {
    let mut texts = Vec::new();
    for verb in VERBS {
        let checks = |number: usize| {
            format!(
                "  - expression: >-
      size(variables.names) <= {number} || variables.all || variables.target.name(variables.names[{number}]).check('{verb}').allowed()
    messageExpression: variables.message + variables.names[{number}] + '\"'
    reason: Forbidden"
            )
        };
        let text = include_str!("../../objects/access-grants.yaml");
        texts.push(fill(text, &[("VERB", verb), ("CHECKS", &lines(NAMES, checks))]));
    }
    let consumers = Authors {
        kind: "ClusterReferenceConsumer",
        plural: "clusterreferenceconsumers",
        policy: "access-consumers",
        changed: "oldObject == null || object.references != oldObject.references || object.subject != oldObject.subject \
                  || object.?classNames != oldObject.?classNames",
        targets: "object.references.map(r, r.target)".to_owned(),
    };
    let of_version = |number: usize| {
        format!(
            "(size(object.versions) <= {number} ? [] : object.versions[{number}].references.map(r, r.target))"
        )
    };
    let versions: Vec<String> = (0..VERSIONS).map(of_version).collect();
    let strategies = Authors {
        kind: "ReferenceStrategy",
        plural: "referencestrategies",
        policy: "access-strategies",
        changed: "oldObject == null || object.versions != oldObject.versions || object.origin != oldObject.origin",
        targets: versions.join("\n      + "),
    };
    for authors in [consumers, strategies] {
        texts.extend(VERBS.iter().map(|verb| authors.policy(verb)));
    }
    texts.push(include_str!("../../objects/access-no-regrant.yaml").to_owned());
    texts
}

/// Those who write objects of a kind that opens targets everywhere.
struct Authors {
    kind: &'static str,
    plural: &'static str,
    policy: &'static str,
    changed: &'static str,
    targets: String,
}

impl Authors {
    fn policy(&self, verb: &str) -> String {
        let checks = |number: usize| {
            format!(
                "  - expression: >-
      size(variables.targets) <= {number} || authorizer.group(variables.targets[{number}].group).resource(variables.targets[{number}].resource).check('{verb}').allowed()
    messageExpression: \"'cannot give what you do not hold everywhere: {verb} ' + variables.targets[{number}].resource\"
    reason: Forbidden"
            )
        };
        let text = include_str!("../../objects/access-authors.yaml");
        let places = [
            ("KIND", self.kind),
            ("PLURAL", self.plural),
            ("POLICY", self.policy),
            ("CHANGED", self.changed),
            ("TARGETS", &self.targets),
            ("VERB", verb),
            ("CHECKS", &lines(TARGETS, checks)),
        ];
        fill(text, &places)
    }
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect::<Vec<_>>().join("\n")
}

/// What the process reads, and who may see and write grants.
fn rights(origins: &BTreeSet<(String, String)>) -> String {
    let rule = |(group, plural): &(String, String)| {
        format!("- apiGroups: ['{group}']\n  resources: [{plural}]\n  verbs: [get, list, watch]")
    };
    let rules: Vec<String> = origins.iter().map(rule).collect();
    fill(include_str!("../../objects/access-rights.yaml"), &[("ORIGINS", &rules.join("\n"))])
}

/// What the process may write for a consumer.
fn synthesis(consumer: &str) -> String {
    let shards: Vec<String> =
        (0..SHARDS).map(|shard| format!("tenure-ref-{consumer}-{shard}")).collect();
    let text = include_str!("../../objects/synthesis-rights.yaml");
    fill(text, &[("CONSUMER", consumer), ("SHARDS", &shards.join(", "))])
}

/// Whether a text can be the name of an image: nothing in it means anything to YAML or to a template.
pub(super) fn is_image(text: &str) -> bool {
    let (name, digest) = text.split_once('@').unwrap_or((text, "sha256:0"));
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-._/:".contains(letter);
    let is_digest =
        |digest: &str| !digest.is_empty() && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.starts_with(|letter: char| letter.is_ascii_alphanumeric())
        && name.chars().all(is_plain)
        && digest.strip_prefix("sha256:").is_some_and(is_digest)
}

fn process(image: &str) -> Result<String, InstallError> {
    if !is_image(image) {
        return Err(InstallError::Name { what: "an image", name: image.to_owned() });
    }
    let arguments = "[attach, --features, access, --listen, '0.0.0.0:8080']";
    let text = include_str!("../../objects/process.yaml");
    let image = format!("'{image}'");
    Ok(fill(text, &[("NAME", "tenure-access"), ("IMAGE", &image), ("ARGUMENTS", arguments)]))
}
