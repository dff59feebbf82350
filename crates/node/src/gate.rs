//! Who may ask a node directly: the server decides, the agent asks it (R133).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt as _};

use crate::client::Client;
use crate::clock;
use crate::serve::{AccessRejection, ClientIdentity, NodeAuthorizer, RequiredAccess};

/// How long an answer of the server is believed.
const BELIEVED: Duration = Duration::from_secs(10);
/// How many answers are kept.
const KEPT: usize = 1024;

/// What the server said, and when.
type Answers = HashMap<String, (Instant, Result<(), AccessRejection>)>;

/// Asks the server about everybody who knocks.
pub(crate) struct ServerGate {
    client: Client,
    node: String,
    answers: Mutex<Answers>,
}

impl ServerGate {
    pub(crate) fn new(client: Client, node: String) -> ServerGate {
        ServerGate { client, node, answers: Mutex::default() }
    }

    async fn ask(
        &self,
        caller: &ClientIdentity,
        asked: &RequiredAccess,
    ) -> Result<(), AccessRejection> {
        let (user, groups) = match &caller.token {
            Some(token) => self.who(token).await.ok_or(AccessRejection::Unknown)?,
            None if caller.user.is_empty() => return Err(AccessRejection::Unknown),
            None => {
                let mut groups = caller.groups.clone();
                groups.push("system:authenticated".to_owned());
                (caller.user.clone(), groups)
            }
        };
        for subresource in asked.subresources {
            if self.may(&user, &groups, asked.verb, subresource).await? {
                return Ok(());
            }
        }
        Err(AccessRejection::Forbidden(format!(
            "Forbidden (user={user}, verb={}, resource=nodes, subresource(s)={:?})",
            asked.verb, asked.subresources
        )))
    }

    /// Whether the server lets a user do this to the node.
    async fn may(
        &self,
        user: &str,
        groups: &[String],
        verb: &str,
        subresource: &str,
    ) -> Result<bool, AccessRejection> {
        let question = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user, "groups": groups,
                "resourceAttributes": {
                    "verb": verb, "group": "", "version": "v1", "resource": "nodes",
                    "subresource": subresource, "name": self.node,
                },
            },
        });
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        match self.client.post(path, &object(question)).await {
            Ok(answer) => Ok(answer.bool_at(&["status", "allowed"]) == Some(true)),
            Err(error) => Err(AccessRejection::Forbidden(format!("nobody can be asked: {error}"))),
        }
    }

    /// Whose token it is.
    async fn who(&self, token: &str) -> Option<(String, Vec<String>)> {
        let question = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "spec": {"token": token},
        });
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        let answer = self.client.post(path, &object(question)).await.ok()?;
        if answer.bool_at(&["status", "authenticated"]) != Some(true) {
            return None;
        }
        let groups = answer.list_at(&["status", "user", "groups"]).iter();
        let groups = groups.filter_map(Value::as_str).map(str::to_owned).collect();
        Some((answer.str_at(&["status", "user", "username"])?.to_owned(), groups))
    }

    fn answers(&self) -> std::sync::MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NodeAuthorizer for ServerGate {
    fn judge<'a>(
        &'a self,
        caller: &'a ClientIdentity,
        asked: &'a RequiredAccess,
    ) -> BoxFuture<'a, Result<(), AccessRejection>> {
        Box::pin(async move {
            let key = format!("{caller:?} {} {:?}", asked.verb, asked.subresources);
            if let Some((at, answer)) = self.answers().get(&key)
                && at.elapsed() < BELIEVED
            {
                return answer.clone();
            }
            let answer = self.ask(caller, asked).await;
            let mut answers = self.answers();
            if answers.len() >= KEPT {
                answers.clear();
            }
            answers.insert(key, (clock::instant(), answer.clone()));
            answer
        })
    }
}

fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        _ => Object::new(),
    }
}
