//! ServiceAccount: secrets by name, and one annotation that is going.

use tenure_machinery::validate::objects_mut;
use tenure_machinery::{Cx, Object, ObjectExt, Rules};

/// Rules of ServiceAccount.
pub(crate) struct ServiceAccountRules;

const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";

impl Rules for ServiceAccountRules {
    fn prepare_create(&self, object: &mut Object, _cx: &Cx) {
        clean_secrets(object);
    }

    fn prepare_update(&self, object: &mut Object, _old: &Object, _cx: &Cx) {
        clean_secrets(object);
    }

    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        let set = |object: &Object| object.at(&["metadata", "annotations", ENFORCE]).is_some();
        // Whoever finds the annotation there is not told again.
        if !set(object) || old.is_some_and(set) {
            return Vec::new();
        }
        let advice = "prefer separate namespaces to isolate access to mounted secrets";
        vec![format!("metadata.annotations[{ENFORCE}]: deprecated in v1.32+; {advice}")]
    }
}

/// Secrets are those of the account's namespace, so only their names mean anything.
fn clean_secrets(account: &mut Object) {
    for secret in objects_mut(account, "secrets") {
        secret.retain(|member, value| member == "name" && value.as_str().is_some());
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use super::ENFORCE;
    use crate::check::{created, row, updated, warned, warned_update};

    #[test]
    fn r136_accounts_keep_the_names_of_secrets() {
        let kind = row("", "ServiceAccount");
        let body =
            json!({"secrets": [{"name": "a", "namespace": "n", "kind": "Secret"}, {"uid": "u"}]});
        let want = json!({"secrets": [{"name": "a"}, {}]});
        assert_eq!(created(&kind, body.clone()), want);
        assert_eq!(updated(&kind, json!({}), body), want);
    }

    #[test]
    fn r31_an_account_that_newly_enforces_its_secrets_is_warned_about() {
        let kind = row("", "ServiceAccount");
        let with = json!({"metadata": {"annotations": {ENFORCE: "true"}}});
        assert_eq!(warned(&kind, with.clone()).len(), 1);
        assert_eq!(warned(&kind, json!({})), [""; 0]);
        assert_eq!(warned_update(&kind, json!({}), with.clone()).len(), 1);
        assert_eq!(warned_update(&kind, with.clone(), with), [""; 0]);
    }
}
