//! Who asks: client certificates today, tokens when they land (R148, R151).

use tenure_machinery::Failure;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::api::Peer;

/// The user behind a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Such as `kubernetes-admin` or `system:anonymous`.
    pub name: String,
    /// Every group, `system:authenticated` or `system:unauthenticated` included.
    pub groups: Vec<String>,
}

impl User {
    /// Whether the user is in that group.
    #[must_use]
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }
}

/// Finds the user. A certificate that TLS verified names one; no credential at all is anonymous; a
/// credential that is not understood is refused, never taken for anonymous.
pub fn authenticate(peer: &Peer, authorization: Option<&str>) -> Result<User, Failure> {
    if let Some(user) = &peer.user {
        return Ok(user.clone());
    }
    match authorization.map(str::trim).filter(|text| !text.is_empty()) {
        None => Ok(User {
            name: "system:anonymous".to_owned(),
            groups: vec!["system:unauthenticated".to_owned()],
        }),
        Some(_) => Err(Failure::new(401, "Unauthorized", "Unauthorized")),
    }
}

/// The user a certificate names; `None` when it names none.
pub(crate) fn user_of_certificate(der: &[u8]) -> Option<User> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    if name.is_empty() {
        return None;
    }
    let mut groups: Vec<String> = subject
        .iter_organization()
        .filter_map(|group| group.as_str().ok())
        .map(str::to_owned)
        .collect();
    groups.push("system:authenticated".to_owned());
    Some(User { name, groups })
}
