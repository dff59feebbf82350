//! What nodes may do: read what their own pods mention, write about themselves and their pods, and
//! nothing of others (downward-api R139–R139d). Whoever is no node is never judged here.
//!
//! ```text
//!   authorize ─ after the roles, before the body is read ─► related: node ◄ pod ◄ secret, claim ◄ volume …
//!   restrict  ─ with the object as it was sent ───────────► only itself, only its pods, no labels that place pods
//!   token     ─ with the request for a token ─────────────► only for its pods, only audiences that they ask for
//! ```

mod authorize;
mod mirror_pod;
mod pod_certificate;
mod related;
mod restrict;
mod token;

use crate::authenticate::User;

pub(crate) use authorize::may;
pub(crate) use mirror_pod::{credential as mirror_credential, is_mirror};
pub(crate) use restrict::{restrict, restrict_eviction, restrict_posted};
pub(crate) use token::restrict_token;

/// The names of nodes as users, and the group they are all in.
const PREFIX: &str = "system:node:";
const GROUP: &str = "system:nodes";
/// Where nodes renew their leases.
const LEASES: &str = "kube-node-lease";

/// The node behind a user. It is empty for a member of the group whose name ends with the prefix: that is
/// a node, but none that may do anything.
#[must_use]
pub(crate) fn node_of(user: &User) -> Option<&str> {
    let node = user.name.strip_prefix(PREFIX)?;
    user.groups.iter().any(|group| group == GROUP).then_some(node)
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.

    use super::*;

    #[test]
    fn r139_a_node_is_known_by_name_and_group() {
        let user = |name: &str, group: &str| User {
            name: name.to_owned(),
            groups: vec![group.to_owned()],
            ..User::default()
        };
        assert_eq!(node_of(&user("system:node:a", "system:nodes")), Some("a"));
        assert_eq!(node_of(&user("system:node:a", "other")), None);
        assert_eq!(node_of(&user("system:node:", "system:nodes")), Some(""));
        assert_eq!(node_of(&user("alice", "system:nodes")), None);
    }
}
