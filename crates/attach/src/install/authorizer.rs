//! The file that makes an API server ask the authorizer, and keeps everything else away from it (A10, A13).

use std::collections::BTreeSet;

use super::InstallError;
use crate::{AttachFeature, ServerVersion};

/// The longest list of users that is written; one expression holds 100,000 characters.
const USERS_BYTES_MAX: usize = 90_000;

/// Who asks for what, and how the authorizer is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationFile {
    /// The users that consumers name, such as `system:serviceaccount:edge-system:edge`.
    pub users: BTreeSet<String>,
    /// The groups that consumers name.
    pub groups: BTreeSet<String>,
    /// The plural names of what is pointed at.
    pub targets: BTreeSet<String>,
    /// The kubeconfig that leads to the authorizer, on the machine of the API server.
    pub kubeconfig: String,
}

/// The text of `--authorization-config` for a server of this version.
///
/// # Errors
/// The server has no match conditions, nobody would ask, or a name is none.
pub fn authorization_config(
    server: ServerVersion,
    wanted: &AuthorizationFile,
) -> Result<String, InstallError> {
    let (feature, needs) = (AttachFeature::Access, ServerVersion::AUTHORIZATION_CONFIG);
    if server < needs {
        return Err(InstallError::TooOld { feature, needs, server });
    }
    let is_plural = |name: &&String| {
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    if let Some(wrong) = wanted.targets.iter().find(|name| !is_plural(name)) {
        return Err(InstallError::Name { what: "a resource", name: wrong.clone() });
    }
    if wanted.targets.is_empty() || (wanted.users.is_empty() && wanted.groups.is_empty()) {
        return Err(InstallError::Nobody);
    }
    let mut text = HEAD.to_owned();
    if server >= ServerVersion::AUTHORIZATION_CACHE_SWITCHES {
        text += SWITCHES;
    }
    text += &format!(
        "    connectionInfo: {{type: KubeConfigFile, kubeConfigFile: {}}}\n    matchConditions:\n",
        yaml(&wanted.kubeconfig)
    );
    let conditions = [
        "has(request.resourceAttributes)".to_owned(),
        "request.resourceAttributes.verb in ['get', 'list', 'watch']".to_owned(),
        "request.resourceAttributes.name != '' && request.resourceAttributes.namespace != '' \
         && request.resourceAttributes.subresource == ''"
            .to_owned(),
        format!("request.resourceAttributes.resource in {}", list(&wanted.targets)),
        requesters(wanted),
    ];
    for condition in conditions {
        text += &format!("    - expression: {}\n", yaml(&condition));
    }
    Ok(text)
}

/// Whose requests are looked at.
fn requesters(wanted: &AuthorizationFile) -> String {
    let users = list(&wanted.users);
    let mut any = Vec::new();
    if users.len() > USERS_BYTES_MAX {
        any.push("'system:serviceaccounts' in request.groups".to_owned());
        let is_account = |user: &&String| user.starts_with("system:serviceaccount:");
        let others: BTreeSet<String> =
            wanted.users.iter().filter(|user| !is_account(user)).cloned().collect();
        if !others.is_empty() {
            any.push(format!("request.user in {}", list(&others)));
        }
    } else if !wanted.users.is_empty() {
        any.push(format!("request.user in {users}"));
    }
    if !wanted.groups.is_empty() {
        any.push(format!("request.groups.exists(group, group in {})", list(&wanted.groups)));
    }
    any.join(" || ")
}

/// A list of texts, as expressions write it.
fn list(texts: &BTreeSet<String>) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| literal(text)).collect();
    format!("[{}]", quoted.join(", "))
}

/// A text as expressions write it.
fn literal(text: &str) -> String {
    let mut out = String::from("'");
    for letter in text.chars() {
        match letter {
            '\'' | '\\' => out.extend(['\\', letter]),
            letter if letter.is_control() => out += &format!("\\u{:04x}", u32::from(letter)),
            letter => out.push(letter),
        }
    }
    out.push('\'');
    out
}

/// A text as YAML writes it in quotes, whatever is in it.
fn yaml(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

const HEAD: &str = "\
# kube-apiserver --authorization-config=FILE
# The webhook stands last: it is asked only what RBAC refused, and can only add.
apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- {type: Node, name: node}
- {type: RBAC, name: rbac}
- type: Webhook
  name: tenure-reference
  webhook:
    timeout: 1s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: NoOpinion
    authorizedTTL: 5s   # 0s would mean the default of 5 minutes
    unauthorizedTTL: 1s
";

const SWITCHES: &str = "    cacheAuthorizedRequests: false
    cacheUnauthorizedRequests: false
";

#[cfg(test)]
mod tests {
    //! Rules of spec/attach.md.
    use super::*;

    fn wanted(users: &[&str]) -> AuthorizationFile {
        AuthorizationFile {
            users: users.iter().map(|user| (*user).to_owned()).collect(),
            groups: BTreeSet::new(),
            targets: BTreeSet::from(["secrets".to_owned()]),
            kubeconfig: "/etc/kubernetes/tenure-authorizer.kubeconfig".into(),
        }
    }

    const NEW: ServerVersion = ServerVersion { major: 1, minor: 34 };

    #[test]
    fn a10_caches_are_off_where_they_can_be_and_no_ttl_is_zero() {
        let text = authorization_config(NEW, &wanted(&["a"])).unwrap();
        assert!(
            text.contains("cacheAuthorizedRequests: false\n    cacheUnauthorizedRequests: false\n")
        );
        let older = authorization_config("1.33".parse().unwrap(), &wanted(&["a"])).unwrap();
        assert!(!older.contains("cache") && older.contains("authorizedTTL: 5s"));
        assert!(!text.contains("TTL: 0"));
        let too_old = authorization_config("1.31".parse().unwrap(), &wanted(&["a"])).unwrap_err();
        assert!(too_old.to_string().contains("needs Kubernetes 1.32"), "{too_old}");
        assert_eq!(authorization_config(NEW, &wanted(&[])), Err(InstallError::Nobody));
    }

    #[test]
    fn a13_names_of_users_are_texts_whatever_is_in_them() {
        let text = authorization_config(NEW, &wanted(&["o'neill\\", "a\": [b]\n"])).unwrap();
        let line = text.lines().last().unwrap();
        let json = line.trim_start().strip_prefix("- expression: ").unwrap();
        let expression: String = serde_json::from_str(json).unwrap();
        assert_eq!(expression, r#"request.user in ['a": [b]\u000a', 'o\'neill\\']"#);
    }

    #[test]
    fn a13_too_many_service_accounts_are_named_by_their_group() {
        let many: Vec<String> =
            (0..3_000).map(|n| format!("system:serviceaccount:edge-system:edge-{n}")).collect();
        let mut file = wanted(&["alice"]);
        file.users.extend(many);
        file.groups.insert("readers".into());
        let text = authorization_config(NEW, &file).unwrap();
        let line = text.lines().last().unwrap();
        assert!(
            line.ends_with(
                "'system:serviceaccounts' in request.groups || request.user in ['alice'] \
             || request.groups.exists(group, group in ['readers'])\""
            ),
            "{line}"
        );
        assert!(text.len() < 100_000);
        let few = authorization_config(NEW, &wanted(&["system:serviceaccount:a:b"])).unwrap();
        assert!(
            few.ends_with("    - expression: \"request.user in ['system:serviceaccount:a:b']\"\n")
        );
    }
}
