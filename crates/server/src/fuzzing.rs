//! The parsers that strangers reach, for the fuzz targets. Nothing here is part of the interface, and
//! nothing of the server uses it.
//!
//! ```text
//!   METHOD /path?query
//!   Name: value            one line each
//! ```

mod reviews;

use http::request::Parts;
use tenure_rbac::RequestAttributes as Question;

use crate::access::AuthorizerChain;
use crate::authenticate::{self, User};
use crate::authorize::Consultation;
use crate::reference::ReferenceOptions;
use crate::request_line::RequestLine;

pub use reviews::{UID, admission_answer, conversion_answer};

/// The head of a request.
pub struct RequestHead {
    parts: Parts,
}

/// What access is checked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedAttributes {
    /// Such as `get`.
    pub verb: String,
    /// Empty for core, and for paths outside the API.
    pub group: String,
    /// Empty for paths outside the API.
    pub resource: String,
    /// Empty for the object itself.
    pub subresource: String,
    /// Empty for cluster scope or all namespaces.
    pub namespace: String,
    /// Empty for a collection.
    pub name: String,
    /// The path, if it names no resource.
    pub path: String,
}

impl RequestHead {
    /// Reads a head; `None` for what an HTTP library would not pass on.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<RequestHead> {
        let mut lines = bytes.split(|byte| *byte == b'\n');
        let line = std::str::from_utf8(lines.next()?).ok()?;
        let (method, target) = line.split_once(' ')?;
        let mut request = http::Request::builder().method(method).uri(target);
        for line in lines {
            let at = line.iter().position(|byte| *byte == b':')?;
            let (name, value) = line.split_at_checked(at)?;
            request = request.header(name, value.get(1..)?.trim_ascii());
        }
        let (parts, ()) = request.body(()).ok()?.into_parts();
        parts.uri.path().starts_with('/').then_some(RequestHead { parts })
    }

    /// The method.
    #[must_use]
    pub fn method(&self) -> &str {
        self.parts.method.as_str()
    }

    /// The path as it came.
    #[must_use]
    pub fn path(&self) -> &str {
        self.parts.uri.path()
    }

    /// Whether a header has this name or one that begins with it.
    #[must_use]
    pub fn has_header(&self, start: &str) -> bool {
        self.parts.headers.keys().any(|name| name.as_str().starts_with(start))
    }

    /// Every value of a header that is plain text.
    #[must_use]
    pub fn header(&self, name: &str) -> Vec<&str> {
        let values = self.parts.headers.get_all(name).iter();
        values.filter_map(|value| value.to_str().ok()).collect()
    }

    /// What access is checked for.
    #[must_use]
    pub fn attributes(&self) -> ParsedAttributes {
        match RequestLine::new(&self.parts).attributes() {
            Question::Resource { verb, group, resource, subresource, namespace, name } => {
                ParsedAttributes {
                    verb: verb.to_owned(),
                    group: group.to_owned(),
                    resource: resource.to_owned(),
                    subresource: subresource.to_owned(),
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                    path: String::new(),
                }
            }
            Question::Path { verb, path } => ParsedAttributes {
                verb: verb.to_owned(),
                path: path.to_owned(),
                ..ParsedAttributes::default()
            },
        }
    }

    /// As whom the request runs if this user sends it; else the code of the refusal. No role exists, so only
    /// a member of `system:masters` may act as anybody.
    pub fn runs_as(&self, user: User) -> Result<User, u16> {
        let line = RequestLine::new(&self.parts);
        let (headers, access) =
            (&self.parts.headers, AuthorizerChain::new(ReferenceOptions::default()));
        let nobody = Consultation::default();
        match authenticate::impersonate(&user, headers, &line.attributes(), &access, &nobody) {
            Ok(acting) => Ok(acting.map_or(user, |acting| acting.user)),
            Err(failure) => Err(failure.code),
        }
    }
}

/// The user that a client certificate names, in DER form.
#[must_use]
pub fn user_of_certificate(der: &[u8]) -> Option<User> {
    authenticate::user_of_certificate(der).map(|(user, _)| user)
}
