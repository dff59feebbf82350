//! What users have to say about writes: policies and webhooks, in the order in which they are asked (R161).
//!
//! ```text
//!   mutate   policies that change ──► webhooks that change ──► once more, when one of them changed something
//!   enforce  policies that refuse ──► webhooks that refuse
//! ```

use std::sync::{Arc, Weak};

use tenure_machinery::{Failure, Object};
use tenure_outbound::Connect;
use tenure_world::LockStep;

use super::policy::{self, AdmissionAttributes, AdmissionPolicies};
use super::reinvocation::Reinvocation;
use super::webhook::{self, AdmissionWebhooks};
use super::{AdmissionPlugin, Operation};
use crate::api::ApiServer;
use crate::connect::ServiceConnect;
use crate::request::ResourceRequest;

/// What users have to say about writes, fed by the world.
pub struct DynamicAdmission {
    pub(crate) policies: Arc<AdmissionPolicies>,
    pub(crate) webhooks: Arc<AdmissionWebhooks>,
    services: Arc<ServiceConnect>,
}

impl Default for DynamicAdmission {
    fn default() -> DynamicAdmission {
        let services = Arc::new(ServiceConnect::default());
        let connect: Arc<dyn Connect> = Arc::clone(&services) as Arc<dyn Connect>;
        DynamicAdmission {
            policies: Arc::default(),
            webhooks: Arc::new(AdmissionWebhooks::new(connect)),
            services,
        }
    }
}

impl DynamicAdmission {
    /// The indexes that must be handed to the world.
    #[must_use]
    pub fn feeds(&self) -> [Box<dyn LockStep>; 2] {
        [self.policies.feed(), self.webhooks.feed()]
    }

    /// Looks Services up in this server from now on.
    pub(crate) fn serve(&self, api: Weak<ApiServer>) {
        self.services.serve(api);
    }

    /// How servers that users name are reached.
    pub(crate) fn connect(&self) -> Arc<dyn Connect> {
        Arc::clone(&self.services) as Arc<dyn Connect>
    }

    /// Whether there is nobody to be asked, so that nobody has to look further.
    pub(crate) fn is_empty(&self) -> bool {
        self.policies.is_empty() && self.webhooks.is_empty()
    }

    /// Whether somebody who has to be waited for may be asked about a follower's write: a webhook, or a policy
    /// that changes it.
    pub(crate) fn may_defer(&self, operation: Operation, request: &ResourceRequest) -> bool {
        self.policies.may_change(operation, request)
            || self.webhooks.may_concern(operation, request)
    }
}

/// What is known after the first round about those who change objects.
#[derive(Default)]
struct Rounds {
    policies: Reinvocation,
    webhooks: Reinvocation,
}

impl Rounds {
    fn is_needed(&self) -> bool {
        self.policies.is_needed() || self.webhooks.is_needed()
    }
}

/// Asks those that change what is written; `object` is what is written, if the operation has such a thing.
/// Whether it was changed.
///
/// `settle` is what the cluster itself does to the object; it is done once more when somebody changed it.
pub(crate) async fn mutate(
    api: &ApiServer,
    request: &mut ResourceRequest,
    subject: AdmissionAttributes<'_>,
    mut object: Option<&mut Object>,
    mut settle: impl FnMut(&mut ResourceRequest, &mut Object) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    let mut rounds = Rounds::default();
    round(api, request, subject, object.as_deref_mut(), &mut rounds).await?;
    if let Some(object) = object.filter(|_| rounds.is_needed()) {
        let consultation = request.consultation.clone();
        consultation.settle(|| settle(request, object)).await?;
        rounds.policies.again();
        rounds.webhooks.again();
        round(api, request, subject, Some(object), &mut rounds).await?;
    }
    Ok(rounds.is_needed())
}

/// Asks policies, then webhooks.
async fn round(
    api: &ApiServer,
    request: &mut ResourceRequest,
    subject: AdmissionAttributes<'_>,
    mut object: Option<&mut Object>,
    rounds: &mut Rounds,
) -> Result<(), Failure> {
    if let Some(object) = &mut object
        && api.plugins.on(AdmissionPlugin::MutatingAdmissionPolicy)
        && !api.admission.policies.mutating.is_empty()
    {
        policy::mutate(api, request, subject, object, &mut rounds.policies).await?;
    }
    let silent = !api.plugins.on(AdmissionPlugin::MutatingAdmissionWebhook);
    match silent || api.admission.webhooks.is_empty() {
        true => Ok(()),
        false => webhook::mutate(api, request, subject, object, &mut rounds.webhooks).await,
    }
}

/// Asks both about something that is not stored as it is sent: a removal, a connection, what is posted to
/// an object.
///
/// # Errors
/// As [`enforce`].
pub(crate) async fn review(
    api: &ApiServer,
    request: &mut ResourceRequest,
    subject: AdmissionAttributes<'_>,
    mut object: Option<&mut Object>,
) -> Result<(), Failure> {
    if api.admission.is_empty() {
        return Ok(());
    }
    let settle = |_: &mut ResourceRequest, _: &mut Object| Ok(());
    mutate(api, request, subject, object.as_deref_mut(), settle).await?;
    enforce(api, request, AdmissionAttributes { new: object.as_deref(), ..subject }).await
}

/// Asks those that refuse.
///
/// # Errors
/// In the words of whoever refuses, or why they could not be asked.
pub(crate) async fn enforce(
    api: &ApiServer,
    request: &mut ResourceRequest,
    subject: AdmissionAttributes<'_>,
) -> Result<(), Failure> {
    if api.plugins.on(AdmissionPlugin::ValidatingAdmissionPolicy) {
        policy::enforce(api, request, subject).await?;
    }
    let silent = !api.plugins.on(AdmissionPlugin::ValidatingAdmissionWebhook);
    match silent || api.admission.webhooks.is_empty() {
        true => Ok(()),
        false => webhook::validate(api, request, subject).await,
    }
}
