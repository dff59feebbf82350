//! Which requests of a node are let in before anything of their body is known (R139, R139a). What the body
//! decides is left to `restrict`.

use std::sync::LazyLock;

use tenure_kinds::podspec::ReferenceKind;
use tenure_rbac::{RequestAttributes, Role};
use tenure_world::World;

use super::{LEASES, node_of, related};
use crate::authenticate::User;

/// What every node may do with kinds that are not divided among nodes.
static FIXED: LazyLock<Option<Role>> = LazyLock::new(|| {
    tenure_rbac::bootstrap::roles().into_iter().find(|role| role.name == "system:node")
});

/// A refusal; the sentence may be empty.
type Judged = Result<(), String>;

/// Whether a node may do it. `None`: it is no node. `Some(Err)`: why it may not. `selected` is the value
/// that a field selector demands of `spec.nodeName`.
#[must_use]
pub(crate) fn may(
    state: &World,
    user: &User,
    requested: &RequestAttributes<'_>,
    selected: Option<&str>,
) -> Option<Judged> {
    let node = node_of(user)?;
    if node.is_empty() {
        return Some(Err(format!("unknown node for user {:?}", user.name)));
    }
    let RequestAttributes::Resource { verb, group, resource, subresource, namespace, name } =
        *requested
    else {
        return Some(Err(String::new()));
    };
    let question = NodeRequest { state, node, verb, subresource, namespace, name, selected };
    Some(match (group, resource) {
        ("", "secrets") => question.read(|| question.mentions(ReferenceKind::Secret)),
        ("", "configmaps") => question.read(|| question.mentions(ReferenceKind::ConfigMap)),
        ("", "persistentvolumeclaims") => question.claim(),
        ("", "persistentvolumes") => question.get(|| related::volume(state, node, name)),
        ("", "serviceaccounts") => question.account(),
        ("", "nodes") => question.nodes(),
        ("", "pods") => question.pods(),
        ("resource.k8s.io", "resourceclaims") => {
            question.get(|| related::resource_claim(state, node, namespace, name))
        }
        ("resource.k8s.io", "resourceslices") => question.slice(),
        ("storage.k8s.io", "volumeattachments") => {
            question.get(|| related::attachment(state, node, name))
        }
        ("storage.k8s.io", "csinodes") => question.csi_node(),
        ("coordination.k8s.io", "leases") => question.lease(),
        ("certificates.k8s.io", "podcertificaterequests") => question.pod_certificate(),
        _ => match FIXED.as_ref() {
            Some(role) if role.rules.iter().any(|rule| rule.allows(requested)) => Ok(()),
            _ => Err(String::new()),
        },
    })
}

struct NodeRequest<'a> {
    state: &'a World,
    node: &'a str,
    verb: &'a str,
    subresource: &'a str,
    namespace: &'a str,
    name: &'a str,
    selected: Option<&'a str>,
}

fn refuse(why: &str) -> Judged {
    Err(why.to_owned())
}

impl NodeRequest<'_> {
    fn mentions(&self, kind: ReferenceKind) -> bool {
        related::mentioned(self.state, self.node, self.namespace, kind, self.name)
    }

    /// An object by its name, if something leads from it to the node.
    fn related(&self, found: impl Fn() -> bool) -> Judged {
        if self.name.is_empty() {
            return refuse("No Object name found");
        }
        if found() {
            return Ok(());
        }
        Err(format!("no relationship found between node '{}' and this object", self.node))
    }

    fn get(&self, found: impl Fn() -> bool) -> Judged {
        match (self.verb, self.subresource) {
            ("get", "") => self.related(found),
            ("get", _) => refuse("cannot get subresource"),
            _ => refuse("can only get individual resources of this type"),
        }
    }

    fn read(&self, found: impl Fn() -> bool) -> Judged {
        if !matches!(self.verb, "get" | "list" | "watch") {
            return refuse("can only read resources of this type");
        }
        if !self.subresource.is_empty() {
            return refuse("cannot read subresource");
        }
        if self.namespace.is_empty() {
            return refuse("can only read namespaced object of this type");
        }
        self.related(found)
    }

    fn claim(&self) -> Judged {
        let found = || related::claim(self.state, self.node, self.namespace, self.name);
        match (self.subresource, self.verb) {
            ("status", "update" | "patch") => self.related(found),
            ("status", _) => refuse("can only update/patch the status of this type"),
            _ => self.get(found),
        }
    }

    fn account(&self) -> Judged {
        let found = || related::account(self.state, self.node, self.namespace, self.name);
        match (self.verb, self.subresource) {
            ("get", "") => self.read(found),
            ("create", "token") => self.related(found),
            ("create", _) => refuse("can only create token subresource of serviceaccount"),
            _ => refuse("can only create tokens for individual service accounts"),
        }
    }

    fn lease(&self) -> Judged {
        if !matches!(self.verb, "get" | "create" | "update" | "patch" | "delete") {
            return refuse("can only get, create, update, patch, or delete a node lease");
        }
        if self.namespace != LEASES {
            return Err(format!("can only access leases in the {LEASES:?} system namespace"));
        }
        self.of_same_name("node lease")
    }

    fn csi_node(&self) -> Judged {
        if !self.subresource.is_empty() {
            return refuse("cannot authorize CSINode subresources");
        }
        if !matches!(self.verb, "get" | "create" | "update" | "patch" | "delete") {
            return refuse("can only get, create, update, patch, or delete a CSINode");
        }
        self.of_same_name("CSINode")
    }

    /// What is created has no name yet here.
    fn of_same_name(&self, what: &str) -> Judged {
        if self.verb == "create" || self.name == self.node {
            return Ok(());
        }
        Err(format!("can only access {what} with the same name as the requesting node"))
    }

    fn slice(&self) -> Judged {
        if !self.subresource.is_empty() {
            return refuse("cannot authorize ResourceSlice subresources");
        }
        match self.verb {
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => {
                self.related(|| related::slice(self.state, self.node, self.name))
            }
            "list" | "watch" | "deletecollection" => self.selects_itself(
                "can only list/watch/deletecollection resourceslices with nodeName field selector",
            ),
            _ => refuse("only the verbs of stored objects are allowed for a ResourceSlice"),
        }
    }

    fn selects_itself(&self, why: &str) -> Judged {
        if self.selected == Some(self.node) { Ok(()) } else { refuse(why) }
    }

    fn pod_certificate(&self) -> Judged {
        if !self.subresource.is_empty() {
            return refuse("nodes may not access the status subresource of PodCertificateRequests");
        }
        match self.verb {
            "create" => Ok(()),
            "get" => self.related(|| {
                related::pod_certificate(self.state, self.node, self.namespace, self.name)
            }),
            "list" | "watch" => self.selects_itself(
                "can only list/watch podcertificaterequests with nodeName field selector",
            ),
            verb => Err(format!("nodes may not {verb} podcertificaterequests")),
        }
    }

    fn nodes(&self) -> Judged {
        let node = self.node;
        match (self.subresource, self.verb) {
            ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
            ("", "get" | "list" | "watch") => match self.name {
                name if name == node => Ok(()),
                "" => Err(format!("node '{node}' cannot read all nodes, only its own Node object")),
                name => {
                    Err(format!("node '{node}' cannot read '{name}', only its own Node object"))
                }
            },
            _ => Err(String::new()),
        }
    }

    fn pods(&self) -> Judged {
        let found = || related::pod(self.state, self.node, self.namespace, self.name);
        match (self.subresource, self.verb) {
            ("", "get") => self.related(found),
            ("", "list" | "watch") => {
                if self.selected == Some(self.node) {
                    return Ok(());
                }
                if !self.name.is_empty() {
                    return self.related(found);
                }
                refuse("can only list/watch pods with spec.nodeName field selector")
            }
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => {
                Ok(())
            }
            _ => Err(String::new()),
        }
    }
}
