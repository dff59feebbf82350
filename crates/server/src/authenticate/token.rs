//! Service-account tokens: believed against the state, issued on request (R143, R149).

use std::sync::Arc;

use http::{Response, StatusCode};
use serde_json::{Value, json};
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_token::{
    BoundKind, Issuing, Keys, Refused, Standing, Subject, Verified, bound_asked, grant, verify,
};
use tenure_world::{Handle, Record, World};

use crate::admit::{Operation, policy};
use crate::answer;
use crate::api::Api;
use crate::authenticate::User;
use crate::body::Body;
use crate::negotiate::Offer;
use crate::node;
use crate::query::WriteOptions;
use crate::read::get;
use crate::request::Request;
use crate::write::{decode, managed};

/// What is needed to believe and to issue.
pub(crate) struct Tokens {
    pub(crate) keys: Keys,
    issuer: String,
    world: Handle,
}

impl Tokens {
    pub(crate) fn new(keys: Keys, issuer: String, world: Handle) -> Tokens {
        Tokens { keys, issuer, world }
    }

    /// The issuer, which is also the audience of this server.
    pub(crate) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The public keys.
    pub(crate) fn jwks(&self) -> Value {
        self.keys.jwks()
    }

    /// The discovery document of the issuer.
    pub(crate) fn configuration(&self) -> Value {
        let keys = format!("{}/openid/v1/jwks", self.issuer.trim_end_matches('/'));
        tenure_token::openid_configuration(&self.keys, &self.issuer, &keys)
    }

    /// The user a token speaks for, if it is believed and what it is bound to still stands.
    pub(crate) fn user(&self, token: &str) -> Result<User, Refused> {
        self.review(token, &[&self.issuer]).map(|(user, _)| user)
    }

    /// As [`Tokens::user`], for these audiences; answers the ones that fit as well.
    pub(crate) fn review(
        &self,
        token: &str,
        audiences: &[&str],
    ) -> Result<(User, Vec<String>), Refused> {
        let now = jiff::Timestamp::now().as_second();
        let verified = verify(&self.keys, token, now, &self.issuer, audiences)?;
        let state = self.world.current();
        let account = state
            .get(&format!("/registry/serviceaccounts/{}/{}", verified.namespace, verified.name));
        let bound = bound_record(&state, &verified);
        verified.stands(now, account.map(standing), bound.map(standing))?;
        let mut groups = verified.groups();
        groups.push("system:authenticated".to_owned());
        let user = User {
            name: verified.username(),
            uid: verified.uid.clone(),
            groups,
            extra: verified.extra(),
        };
        Ok((user, verified.audiences))
    }
}

fn bound_record<'a>(state: &'a World, verified: &Verified) -> Option<&'a Arc<Record>> {
    let bound = verified.bound.as_ref()?;
    state.get(&bound_key(bound.kind, &verified.namespace, &bound.name))
}

fn bound_key(kind: BoundKind, namespace: &str, name: &str) -> String {
    match kind {
        BoundKind::Pod => format!("/registry/pods/{namespace}/{name}"),
        BoundKind::Secret => format!("/registry/secrets/{namespace}/{name}"),
        BoundKind::Node => format!("/registry/minions/{name}"),
    }
}

fn standing(record: &Arc<Record>) -> Standing<'_> {
    let deleted_at = record
        .deleted()
        .and_then(|text| text.parse::<jiff::Timestamp>().ok())
        .map(jiff::Timestamp::as_second);
    Standing { uid: record.uid(), deleted_at }
}

/// POST `serviceaccounts/{name}/token`.
pub(crate) fn request(api: &Api, request: &mut Request) -> Result<Response<Body>, Failure> {
    let wanted = request.wanted(Offer::PlainOnly)?;
    let style = request.style()?;
    let options = WriteOptions::read(&request.query, "CreateOptions", false)?;
    let mut body = decode::unstored(
        request,
        options.validation,
        "TokenRequest",
        "api.authentication.v1.TokenRequest",
    )?;
    let state = api.world.current();
    let account = get::stored(&state, &request.served, &request.namespace, &request.name)?;
    node::restrict_token(&state, request, &body)?;
    let posted = policy::Subject {
        operation: Operation::Create,
        old: None,
        new: Some(&body),
        dry_run: options.dry_run,
        kind: Some(("authentication.k8s.io", "v1", "TokenRequest")),
    };
    policy::enforce_now(api, request, posted)?;
    let manager = request.manager(options.manager.as_deref());
    managed::record_unstored(
        "api.authentication.v1.TokenRequest",
        "authentication.k8s.io/v1",
        &mut body,
        &manager,
        "token",
    );
    let subject = Subject {
        namespace: request.namespace.clone(),
        name: request.name.clone(),
        uid: account.uid().to_owned(),
    };
    let bound = bound_asked(&body)
        .and_then(|(kind, name)| state.get(&bound_key(kind, &request.namespace, name)))
        .and_then(|record| serde_json::from_slice::<Object>(record.bytes()).ok());
    let node = bound
        .as_ref()
        .and_then(|pod| pod.str_at(&["spec", "nodeName"]))
        .and_then(|node| state.get(&bound_key(BoundKind::Node, "", node)))
        .and_then(|record| serde_json::from_slice::<Object>(record.bytes()).ok());
    let issuing = Issuing {
        issuer: api.tokens.issuer(),
        audiences: &[api.tokens.issuer()],
        now: jiff::Timestamp::now().as_second(),
        id: &api.chance.uid(),
    };
    let granted = grant(&body, &subject, bound.as_ref(), node.as_ref(), issuing)?;
    let response = granted.sealed(&api.tokens.keys).map_err(Failure::internal)?;
    answer::json_value(StatusCode::CREATED, &Value::Object(response), wanted.format, style)
}

/// The status of a TokenReview.
pub(crate) fn review(api: &Api, review: &Object) -> Value {
    let token = review.str_at(&["spec", "token"]).unwrap_or_default();
    let asked: Vec<&str> =
        review.list_at(&["spec", "audiences"]).iter().filter_map(Value::as_str).collect();
    let own = [api.tokens.issuer()];
    let audiences: &[&str] = if asked.is_empty() { &own } else { &asked };
    match api.tokens.review(token, audiences) {
        Ok((user, audiences)) => json!({
            "authenticated": true,
            "user": crate::review::user_info(&user),
            "audiences": audiences,
        }),
        Err(refused) => json!({ "user": {}, "error": refused.to_string() }),
    }
}
