//! Who may do what. Until role-based access lands: members of `system:masters` everything, everybody
//! the health and version paths, nobody anything else (R44, R154).

use tenure_machinery::Failure;

use crate::authenticate::User;

/// What is asked, in the words of access rules.
#[derive(Clone, Debug)]
pub enum Attributes<'a> {
    /// Something in the API.
    Resource {
        /// Such as `get`.
        verb: &'a str,
        /// API group.
        group: &'a str,
        /// Plural resource.
        resource: &'a str,
        /// Such as `status`; may be empty.
        subresource: &'a str,
        /// May be empty.
        namespace: &'a str,
        /// May be empty.
        name: &'a str,
    },
    /// A path outside the API.
    Path {
        /// The HTTP method in lower case.
        verb: &'a str,
        /// The path.
        path: &'a str,
    },
}

const PUBLIC_PATHS: &[&str] = &["/healthz", "/livez", "/readyz", "/version", "/version/"];

/// Passes or says what was missing, without a word on whether the object exists.
pub fn authorize(user: &User, asked: &Attributes<'_>) -> Result<(), Failure> {
    if user.is_in("system:masters") {
        return Ok(());
    }
    match asked {
        Attributes::Path { verb: "get", path } if PUBLIC_PATHS.contains(path) => Ok(()),
        Attributes::Path { verb, path } => {
            let why = format!("User \"{}\" cannot {verb} path \"{path}\"", user.name);
            Err(Failure::forbidden("", "", "", &why))
        }
        Attributes::Resource { verb, group, resource, subresource, namespace, name } => {
            let full = if subresource.is_empty() {
                (*resource).to_owned()
            } else {
                format!("{resource}/{subresource}")
            };
            let place = if namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace \"{namespace}\"")
            };
            let why = format!(
                "User \"{}\" cannot {verb} resource \"{full}\" in API group \"{group}\" {place}",
                user.name
            );
            Err(Failure::forbidden(group, resource, name, &why))
        }
    }
}
