//! Somebody who asks a running server, as themselves or as whom they may act for. What is asked never
//! lives here.

use serde_json::{Value, json};
use tenure_client_tests::wire::Access;

/// Where roles and bindings are.
pub(super) const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
/// The group of roles and bindings.
pub(super) const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// Who asks.
#[derive(Clone)]
pub(super) struct Caller {
    access: Access,
    /// Lines of the head that say for whom.
    head: String,
}

/// What was answered.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) code: u16,
    /// The body, or a text where it is no JSON.
    pub(super) json: Value,
    /// The head as it came, in lower case.
    pub(super) head: String,
}

impl Answered {
    /// Fails unless this was answered.
    #[track_caller]
    pub(super) fn expect(self, code: u16, what: &str) -> Value {
        assert_eq!(self.code, code, "{what}: {}", self.json);
        self.json
    }
}

impl Caller {
    pub(super) fn new(access: Access) -> Caller {
        Caller { access, head: String::new() }
    }

    /// The same, with one more line in the head of every request.
    pub(super) fn with(&self, name: &str, value: &str) -> Caller {
        let head = format!("{}{name}: {value}\r\n", self.head);
        Caller { access: self.access.clone(), head }
    }

    /// The same, acting for a user in these groups.
    pub(super) fn acting_as(&self, user: &str, groups: &[&str]) -> Caller {
        let user = self.with("impersonate-user", user);
        groups.iter().fold(user, |caller, group| caller.with("impersonate-group", group))
    }

    /// Lets a user do what these rules say, everywhere, and acts as that user.
    pub(super) async fn user_with(&self, user: &str, rules: Value) -> Caller {
        let subject = json!({"apiGroup": RBAC_GROUP, "kind": "User", "name": user});
        self.bind(user, rules, subject).await;
        self.acting_as(user, &[])
    }

    /// Gives rules to a subject everywhere, by a role and a binding of this name.
    pub(super) async fn bind(&self, name: &str, rules: Value, subject: Value) {
        let role = json!({"metadata": {"name": name}, "rules": rules});
        self.create(&format!("{RBAC}/clusterroles"), role).await;
        let binding = json!({
            "metadata": {"name": name}, "subjects": [subject],
            "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": name},
        });
        self.create(&format!("{RBAC}/clusterrolebindings"), binding).await;
    }

    pub(super) async fn get(&self, path: &str) -> Answered {
        self.send("GET", path, &Value::Null).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Answered {
        self.send("POST", path, body).await
    }

    pub(super) async fn merge(&self, path: &str, body: &Value) -> Answered {
        self.send_as("PATCH", path, "application/merge-patch+json", body).await
    }

    pub(super) async fn send(&self, method: &str, path: &str, body: &Value) -> Answered {
        self.send_as(method, path, "application/json", body).await
    }

    /// Creates an object, which must succeed.
    pub(super) async fn create(&self, path: &str, body: Value) -> Value {
        let answer = self.post(path, &body).await;
        assert_eq!(answer.code, 201, "{path}: {}", answer.json);
        answer.json
    }

    pub(super) async fn delete(&self, path: &str) -> Answered {
        self.send("DELETE", path, &Value::Null).await
    }

    /// Server-side apply.
    pub(super) async fn apply(&self, path: &str, body: &Value) -> Answered {
        self.send_as("PATCH", path, "application/apply-patch+yaml", body).await
    }

    pub(super) async fn send_as(
        &self,
        method: &str,
        path: &str,
        kind: &str,
        body: &Value,
    ) -> Answered {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: server\r\ncontent-type: {kind}\r\n\
             content-length: {}\r\n{}\r\n",
            body.len(),
            self.head
        );
        let mut connection = self.access.connect().await.unwrap();
        connection.write(format!("{head}{body}").as_bytes()).await.unwrap();
        let answer = connection.answer().await.unwrap();
        let text = || String::from_utf8_lossy(&answer.body).into_owned().into();
        let json = answer.json().unwrap_or_else(|_| text());
        Answered { code: answer.code, json, head: answer.head }
    }
}
