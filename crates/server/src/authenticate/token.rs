//! Service-account tokens: believed against the state, issued on request (R143, R149).

use std::net::SocketAddr;
use std::sync::Arc;

use http::{Response, StatusCode};
use serde_json::{Value, json};
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_token::{
    BoundKind, Issuing, KeySet, TokenError, TokenSubject, grant, requested_bound_object, verify,
};
use tenure_world::WorldHandle;

use crate::admit::{self, AdmissionPlugin, Operation, policy};
use crate::api::ApiServer;
use crate::authenticate::User;
use crate::authenticate::fixed::{AuthenticationOptions, FixedTokens};
use crate::body::Body;
use crate::clock;
use crate::negotiate::Offer;
use crate::node;
use crate::permit::Credential;
use crate::permit::credential::{self, TokenCredential, key_of};
use crate::query::{WriteOptions, write_options};
use crate::read::get;
use crate::request::ResourceRequest;
use crate::response;
use crate::write::decode::{self, Unstored};
use crate::write::managed;

/// What is needed to believe and to issue.
pub(crate) struct Tokens {
    pub(crate) keys: KeySet,
    issuer: String,
    fixed: FixedTokens,
    anonymous: bool,
    world: WorldHandle,
}

impl Tokens {
    /// The tokens of accounts that these keys sign, and those of a file; where nobody says who issues them, the
    /// server at this address does.
    pub(crate) fn new(
        keys: KeySet,
        address: SocketAddr,
        options: AuthenticationOptions,
        world: WorldHandle,
    ) -> Tokens {
        let AuthenticationOptions { issuer, fixed_tokens: fixed, anonymous } = options;
        let issuer = issuer.unwrap_or_else(|| format!("https://{address}"));
        Tokens { keys, issuer, fixed, anonymous, world }
    }

    /// Whether whoever shows nothing is answered.
    pub(crate) fn takes_anonymous(&self) -> bool {
        self.anonymous
    }

    /// The user of a token that a file names.
    pub(crate) fn fixed(&self, token: &str) -> Option<Arc<User>> {
        self.fixed.find(token)
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
    pub(crate) fn believe(&self, token: &str) -> Result<(User, Credential), TokenError> {
        let (user, token) = self.verify(token, &[&self.issuer])?;
        Ok((user, Credential::Token(Box::new(token))))
    }

    /// The same for these audiences; answers the ones that fit.
    fn review(&self, token: &str, audiences: &[&str]) -> Result<(User, Vec<String>), TokenError> {
        // A token of a file is meant for this server alone.
        if let Some(user) = self.fixed(token).filter(|_| audiences.contains(&self.issuer.as_str()))
        {
            return Ok((User::clone(&user), vec![self.issuer.clone()]));
        }
        self.verify(token, audiences).map(|(user, token)| (user, token.verified.audiences))
    }

    fn verify(
        &self,
        token: &str,
        audiences: &[&str],
    ) -> Result<(User, TokenCredential), TokenError> {
        let now = clock::timestamp().as_second();
        let verified = verify(&self.keys, token, now, &self.issuer, audiences)?;
        let state = self.world.current();
        let (account, bound) = credential::found(&verified, &state);
        verified.stands(now, account, bound)?;
        let mut groups = verified.groups();
        groups.push("system:authenticated".to_owned());
        let user = User {
            name: verified.username(),
            uid: verified.uid.clone(),
            groups,
            extra: verified.extra(),
        };
        Ok((user, TokenCredential { verified, believed_at: state.revision() }))
    }
}

/// POST `serviceaccounts/{name}/token`.
pub(crate) async fn request(
    api: &ApiServer,
    request: &mut ResourceRequest,
) -> Result<Response<Body>, Failure> {
    let wanted = request.wanted(Offer::PlainOnly)?;
    let style = request.style()?;
    let options = WriteOptions::read(&request.query, "CreateOptions", false)?;
    let mut body = decode::unstored(request, options.validation, Unstored::TOKEN_REQUEST)?;
    let state = api.world.current();
    let kind = &request.served.kind;
    admit::namespace_must_take(api, &state, kind, &request.namespace, &request.name)?;
    get::stored(&state, &request.served, &request.namespace, &request.name)?;
    if api.plugins.on(AdmissionPlugin::NodeRestriction) {
        let judge = || node::restrict_token(api, &state, request, &body);
        request.consultation.settle(judge).await?;
    }
    let said = write_options(&request.query, "CreateOptions", options.dry_run);
    let posted = policy::AdmissionAttributes {
        operation: Operation::Create,
        old: None,
        new: None,
        dry_run: options.dry_run,
        kind: Some(("authentication.k8s.io", "v1", "TokenRequest")),
        options: Some(&said),
    };
    admit::review(api, request, posted, Some(&mut body)).await?;
    // Whoever was asked may have taken long: the account may be another by now.
    request.permit.check(&api.world)?;
    let state = api.world.current();
    let account = get::stored(&state, &request.served, &request.namespace, &request.name)?;
    let manager = request.manager(options.manager.as_deref());
    managed::record_unstored(
        "api.authentication.v1.TokenRequest",
        "authentication.k8s.io/v1",
        &mut body,
        &manager,
        "token",
    );
    let subject = TokenSubject {
        namespace: request.namespace.clone(),
        name: request.name.clone(),
        uid: account.uid().to_owned(),
    };
    let bound = requested_bound_object(&body)
        .and_then(|(kind, name)| state.get(&key_of(kind, &request.namespace, name)))
        .and_then(|record| serde_json::from_slice::<Object>(record.bytes()).ok());
    let node = bound
        .as_ref()
        .and_then(|pod| pod.str_at(&["spec", "nodeName"]))
        .and_then(|node| state.get(&key_of(BoundKind::Node, "", node)))
        .and_then(|record| serde_json::from_slice::<Object>(record.bytes()).ok());
    let issuing = Issuing {
        issuer: api.tokens.issuer(),
        audiences: &[api.tokens.issuer()],
        now: clock::timestamp().as_second(),
        id: &api.chance.uid(),
    };
    let granted = grant(&body, &subject, bound.as_ref(), node.as_ref(), issuing)?;
    let response = granted.sealed(&api.tokens.keys).map_err(Failure::internal)?;
    response::json_value(StatusCode::CREATED, &Value::Object(response), wanted.format, style)
}

/// The status of a TokenReview.
pub(crate) fn review(api: &ApiServer, review: &Object) -> Result<Value, Failure> {
    let token = review.str_at(&["spec", "token"]).unwrap_or_default();
    if token.is_empty() {
        return Err(Failure::bad_request("spec.token: a review needs a token"));
    }
    let requested: Vec<&str> =
        review.list_at(&["spec", "audiences"]).iter().filter_map(Value::as_str).collect();
    let own = [api.tokens.issuer()];
    let audiences: &[&str] = if requested.is_empty() { &own } else { &requested };
    Ok(match api.tokens.review(token, audiences) {
        Ok((user, audiences)) => json!({
            "authenticated": true,
            "user": crate::review::user_info(&user),
            "audiences": audiences,
        }),
        Err(refused) => json!({ "user": {}, "error": refused.to_string() }),
    })
}
