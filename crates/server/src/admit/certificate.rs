//! Who may decide on certificates: whoever approves, signs or attests needs the right on the signer, and
//! nobody becomes an administrator by asking (api-server R136b).

use tenure_kinds::certificate_request;
use tenure_machinery::validate::same;
use tenure_machinery::{Errors, Failure, Object, ObjectExt, Path};
use tenure_rbac::RequestAttributes;

use super::{AdmissionPlugin, Operation};
use crate::api::ApiServer;
use crate::clock;
use crate::request::ResourceRequest;

/// Whose certificates the server takes for those of its users.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// The group that no check applies to.
const MASTERS: &str = "system:masters";
/// How far a signer's clock may be off.
const SKEW_SECONDS: i64 = 5 * 60;

/// Refuses what the user may not do to a CertificateSigningRequest.
pub(super) fn may_decide(
    api: &ApiServer,
    request: &ResourceRequest,
    operation: Operation,
    old: Option<&Object>,
    new: Option<&Object>,
) -> Result<(), Failure> {
    let on = |plugin| api.plugins.on(plugin);
    match (operation, request.subresource.as_str(), old, new) {
        (Operation::Create, "", _, Some(new))
            if on(AdmissionPlugin::CertificateSubjectRestriction) =>
        {
            check_subject(request, new)
        }
        (Operation::Update, "approval", Some(old), _)
            if on(AdmissionPlugin::CertificateApproval) =>
        {
            may(api, request, "approve", "approve requests with", signer(old), old.name())
        }
        (Operation::Update, "status", Some(old), Some(new))
            if on(AdmissionPlugin::CertificateSigning) =>
        {
            let same = |member| old.at(&["status", member]) == new.at(&["status", member]);
            if same("certificate") && same("conditions") {
                return Ok(());
            }
            may(api, request, "sign", "sign requests with", signer(old), old.name())
        }
        _ => Ok(()),
    }
}

/// Refuses a bundle in the name of a signer by somebody who does not speak for it. The garbage collector's
/// members may change.
pub(super) fn may_attest(
    api: &ApiServer,
    request: &ResourceRequest,
    old: Option<&Object>,
    new: &Object,
) -> Result<(), Failure> {
    let signer = signer(new);
    if signer.is_empty() || old.is_some_and(|old| only_collected(old, new)) {
        return Ok(());
    }
    may(api, request, "attest", "attest for", signer, new.name())
}

/// Refuses an answer to a pod's request by somebody who does not speak for its signer (R136e).
pub(super) fn may_issue(
    api: &ApiServer,
    request: &ResourceRequest,
    old: Option<&Object>,
    new: &Object,
) -> Result<(), Failure> {
    let Some(old) = old.filter(|_| request.subresource == "status") else { return Ok(()) };
    if same(old.get("status"), new.get("status")) {
        return Ok(());
    }
    let mut errors = Errors::new();
    check_begin(new, &mut errors);
    let signer = signer(old);
    if errors.is_empty() && !holds(api, request, "sign", signer) {
        let spec = Path::Root.field("spec");
        let user = &request.user.name;
        let why = format!("User {user:?} is not permitted to \"sign\" for signer {signer:?}");
        errors.forbidden(&spec.field("signerName"), &why);
    }
    if errors.is_empty() {
        return Ok(());
    }
    let kind = &request.served.kind;
    Err(Failure::invalid(&kind.group, &kind.kind, old.name(), errors))
}

/// A certificate begins about when it is issued.
fn check_begin(new: &Object, errors: &mut Errors) {
    let Some(text) = new.str_at(&["status", "notBefore"]) else { return };
    let begins = text.parse().map_or(i64::MIN, jiff::Timestamp::as_second);
    let apart = clock::timestamp().as_second().saturating_sub(begins).saturating_abs();
    if apart >= SKEW_SECONDS {
        let status = Path::Root.field("status");
        let why = "must be set to within 5 minutes of kube-apiserver's current time";
        errors.invalid(&status.field("notBefore"), format_args!("{text:?}"), why);
    }
}

fn signer(object: &Object) -> &str {
    object.str_at(&["spec", "signerName"]).unwrap_or_default()
}

fn only_collected(old: &Object, new: &Object) -> bool {
    let rest = |object: &Object| {
        let mut object = object.clone();
        let metadata = object.map_mut("metadata");
        for member in ["ownerReferences", "finalizers", "managedFields", "resourceVersion"] {
            metadata.remove(member);
        }
        object
    };
    rest(old) == rest(new)
}

fn may(
    api: &ApiServer,
    request: &ResourceRequest,
    verb: &str,
    deed: &str,
    signer: &str,
    name: &str,
) -> Result<(), Failure> {
    if holds(api, request, verb, signer) {
        return Ok(());
    }
    let kind = &request.served.kind;
    let why = format!("user not permitted to {deed} signerName {signer:?}");
    Err(Failure::forbidden(&kind.group, &kind.plural, name, &why))
}

/// Whether the user has this right on the signer, by its name or by its domain.
fn holds(api: &ApiServer, request: &ResourceRequest, verb: &str, signer: &str) -> bool {
    let domain = signer.split_once('/').map_or(signer, |(domain, _)| domain);
    let every = format!("{domain}/*");
    [signer, &every].into_iter().any(|name| {
        let requested = RequestAttributes::Resource {
            verb,
            group: "certificates.k8s.io",
            resource: "signers",
            subresource: "",
            namespace: "",
            name,
        };
        request.may(&api.access, &requested)
    })
}

fn check_subject(request: &ResourceRequest, new: &Object) -> Result<(), Failure> {
    if signer(new) != CLIENT_SIGNER {
        return Ok(());
    }
    let kind = &request.served.kind;
    let refuse = |why: &str| Err(Failure::forbidden(&kind.group, &kind.plural, new.name(), why));
    match certificate_request::of(new) {
        Err(why) => refuse(&format!("failed to parse CSR: {why}")),
        Ok(parsed) if parsed.organizations.iter().any(|group| group == MASTERS) => {
            refuse(&format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"))
        }
        Ok(_) => Ok(()),
    }
}
