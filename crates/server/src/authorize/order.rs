//! The authorizers as they are asked now, one after the other (R154).

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;

use super::configuration::{AuthorizationConfiguration, AuthorizerType};
use super::metrics::AuthorizationMetrics;
use super::webhook::{WebhookAuthorizer, WebhookEndpoint};

/// One that is asked.
#[derive(Clone)]
pub(crate) enum Authorizer {
    Node,
    Rbac,
    Reference,
    AlwaysAllow,
    AlwaysDeny,
    Webhook(Arc<WebhookAuthorizer>),
}

/// One that is asked, with its name and what it has decided so far.
pub(crate) struct NamedAuthorizer {
    pub(crate) name: String,
    pub(crate) authorizer: Authorizer,
    pub(crate) allowed: Counter,
    pub(crate) denied: Counter,
}

/// Who is asked, in this order.
pub(crate) struct AuthorizerOrder {
    pub(crate) all: Vec<NamedAuthorizer>,
    /// Grows with each change of the configuration.
    pub(crate) epoch: u64,
}

impl AuthorizerOrder {
    /// The order without a configuration.
    pub(crate) fn usual(metrics: &Arc<AuthorizationMetrics>) -> AuthorizerOrder {
        let usual = AuthorizationConfiguration::default();
        let nobody = AuthorizerOrder { all: Vec::new(), epoch: 0 };
        AuthorizerOrder::new(&usual, Vec::new(), metrics, 0).unwrap_or(nobody)
    }

    /// Makes an order ready; `endpoints` are those of the webhooks, as they come in the configuration.
    ///
    /// # Errors
    /// A webhook cannot be called as it is said, in a sentence that names it.
    pub(crate) fn new(
        configuration: &AuthorizationConfiguration,
        endpoints: Vec<WebhookEndpoint>,
        metrics: &Arc<AuthorizationMetrics>,
        epoch: u64,
    ) -> Result<AuthorizerOrder, String> {
        let mut endpoints = endpoints.into_iter();
        let all = configuration.authorizers.iter().map(|one| {
            let authorizer = match &one.kind {
                AuthorizerType::Node => Authorizer::Node,
                AuthorizerType::Rbac => Authorizer::Rbac,
                AuthorizerType::Reference => Authorizer::Reference,
                AuthorizerType::AlwaysAllow => Authorizer::AlwaysAllow,
                AuthorizerType::AlwaysDeny => Authorizer::AlwaysDeny,
                AuthorizerType::Webhook(webhook) => {
                    let endpoint = endpoints.next();
                    let endpoint =
                        endpoint.ok_or_else(|| format!("{}: nobody says where it is", one.name))?;
                    let made = WebhookAuthorizer::new(&one.name, webhook, endpoint, metrics)
                        .map_err(|why| format!("{}: {why}", one.name))?;
                    Authorizer::Webhook(Arc::new(made))
                }
            };
            let (allowed, denied) = metrics.decisions(one.kind.word(), &one.name);
            Ok(NamedAuthorizer { name: one.name.clone(), authorizer, allowed, denied })
        });
        Ok(AuthorizerOrder { all: all.collect::<Result<_, String>>()?, epoch })
    }

    /// Whether an authorizer is among them.
    pub(crate) fn has(&self, wanted: impl Fn(&Authorizer) -> bool) -> bool {
        self.all.iter().any(|one| wanted(&one.authorizer))
    }

    /// The names of the webhooks.
    pub(crate) fn webhooks(&self) -> impl Iterator<Item = &str> {
        let webhooks =
            self.all.iter().filter(|one| matches!(one.authorizer, Authorizer::Webhook(_)));
        webhooks.map(|one| one.name.as_str())
    }

    /// Whether somebody may have to be waited for.
    pub(crate) fn asks_webhooks(&self) -> bool {
        self.webhooks().next().is_some()
    }
}
