//! Who may decide on certificates: whoever approves, signs or attests needs the right on the signer, and
//! nobody becomes an administrator by asking (api-server R136b).

use tenure_kinds::certificate_request;
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_rbac::Asked;

use super::Operation;
use crate::api::Api;
use crate::request::Request;

/// Whose certificates the server takes for those of its users.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// The group that no check applies to.
const MASTERS: &str = "system:masters";

/// Refuses what the user may not do to a CertificateSigningRequest.
pub(super) fn may_decide(
    api: &Api,
    request: &Request,
    operation: Operation,
    old: Option<&Object>,
    new: Option<&Object>,
) -> Result<(), Failure> {
    match (operation, request.subresource.as_str(), old, new) {
        (Operation::Create, "", _, Some(new)) => check_subject(request, new),
        (Operation::Update, "approval", Some(old), _) => {
            may(api, request, "approve", "approve requests with", signer(old), old.name())
        }
        (Operation::Update, "status", Some(old), Some(new)) => {
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
    api: &Api,
    request: &Request,
    old: Option<&Object>,
    new: &Object,
) -> Result<(), Failure> {
    let signer = signer(new);
    if signer.is_empty() || old.is_some_and(|old| only_collected(old, new)) {
        return Ok(());
    }
    may(api, request, "attest", "attest for", signer, new.name())
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

/// Whether the user has this right on the signer, by its name or by its domain.
fn may(
    api: &Api,
    request: &Request,
    verb: &str,
    deed: &str,
    signer: &str,
    name: &str,
) -> Result<(), Failure> {
    let domain = signer.split_once('/').map_or(signer, |(domain, _)| domain);
    let every = format!("{domain}/*");
    let allowed = [signer, &every].into_iter().any(|name| {
        let asked = Asked::Resource {
            verb,
            group: "certificates.k8s.io",
            resource: "signers",
            subresource: "",
            namespace: "",
            name,
        };
        api.access.may(&request.user, &asked).is_some()
    });
    if allowed {
        return Ok(());
    }
    let kind = &request.served.kind;
    let why = format!("user not permitted to {deed} signerName {signer:?}");
    Err(Failure::forbidden(&kind.group, &kind.plural, name, &why))
}

fn check_subject(request: &Request, new: &Object) -> Result<(), Failure> {
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
