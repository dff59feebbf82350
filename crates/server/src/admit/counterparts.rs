//! What a strategy, a consumer or a grant means beside the others: worth telling, never refused
//! (spec/referential-authorization.md R34–R42).

use tenure_kinds::reference::{self, ReferencePolicyKind, TripleView, line, triples};
use tenure_machinery::validate::{objects, text};
use tenure_machinery::{Object, ObjectExt};
use tenure_rbac::{RbacDecision, RequestAttributes, Requester};
use tenure_world::World;

use crate::api::ApiServer;
use crate::reference::ReferenceContext;
use crate::request::ResourceRequest;

const STRATEGIES: &str = "/registry/referencestrategies/";
const CONSUMERS: &str = "/registry/clusterreferenceconsumers/";

/// What to tell about an object of the three kinds.
pub(super) fn warnings(
    api: &ApiServer,
    state: &World,
    request: &ResourceRequest,
    old: Option<&Object>,
    new: &Object,
) -> Vec<String> {
    let kind = &request.served.kind;
    let Some(of) = ReferencePolicyKind::of(kind) else { return Vec::new() };
    let around = ReferenceContext::now(api);
    let mut lines = reference::warnings(kind, new, old, &around);
    let beside = CounterpartCheck { api, around, new, strategies: all(state, STRATEGIES) };
    match of {
        ReferencePolicyKind::Grant => {
            let triple = TripleView::read(new);
            lines.extend(beside.no_strategy("", &triple));
            lines.extend(no_consumer(&all(state, CONSUMERS), &[triple]));
        }
        ReferencePolicyKind::Consumer => {
            lines.extend(beside.closed());
            for (index, entry) in objects(new, "references") {
                let place = format!("references[{index}]");
                lines.extend(beside.no_strategy(&place, &TripleView::read(entry)));
            }
            lines.extend(beside.broad());
        }
        ReferencePolicyKind::Strategy => {
            lines.extend(beside.void());
            lines.extend(no_consumer(&all(state, CONSUMERS), &triples(of, new, None)));
        }
    }
    lines
}

fn all(state: &World, prefix: &str) -> Vec<Object> {
    let records = state.range(prefix, None);
    records.filter_map(|record| serde_json::from_slice(record.bytes()).ok()).collect()
}

/// Says that nobody consumes any of these, and who comes nearest (R40).
fn no_consumer(consumers: &[Object], wanted: &[TripleView<'_>]) -> Option<String> {
    let known: Vec<(&str, TripleView<'_>)> = consumers
        .iter()
        .flat_map(|consumer| {
            let of = triples(ReferencePolicyKind::Consumer, consumer, None);
            of.into_iter().map(|triple| (consumer.name(), triple))
        })
        .collect();
    if known.iter().any(|(_, triple)| wanted.contains(triple)) {
        return None;
    }
    let first = wanted.first()?;
    let what = match wanted {
        [one] => format!("no ClusterReferenceConsumer consumes {one}"),
        _ => "no ClusterReferenceConsumer consumes any of these references".to_owned(),
    };
    let near = wanted.iter().find_map(|triple| nearest(triple, &known));
    let near = near.or_else(|| nearest(first, &known));
    let (field, near) = near.unwrap_or(("origin", String::new()));
    Some(line(field, &format!("{what}{near}")))
}

/// The member in which the nearest of the known differs, and the words for it.
fn nearest(
    wanted: &TripleView<'_>,
    known: &[(&str, TripleView<'_>)],
) -> Option<(&'static str, String)> {
    known.iter().find_map(|(name, triple)| {
        let (member, value) = wanted.only_difference(triple)?;
        Some((member, format!("; the nearest, {name:?}, has {member} {value:?}")))
    })
}

struct CounterpartCheck<'a> {
    api: &'a ApiServer,
    around: ReferenceContext,
    new: &'a Object,
    strategies: Vec<Object>,
}

impl CounterpartCheck<'_> {
    /// Says that no strategy finds such references, and which comes nearest (R40).
    fn no_strategy(&self, place: &str, wanted: &TripleView<'_>) -> Option<String> {
        let known: Vec<(&str, TripleView<'_>)> = self
            .strategies
            .iter()
            .flat_map(|strategy| {
                let of = triples(ReferencePolicyKind::Strategy, strategy, None);
                of.into_iter().map(|triple| (strategy.name(), triple))
            })
            .collect();
        if known.iter().any(|(_, triple)| triple == wanted) {
            return None;
        }
        let (member, near) = nearest(wanted, &known).unwrap_or(("", String::new()));
        let field = match (place, member) {
            ("", "") => "origin".to_owned(),
            ("", member) => member.to_owned(),
            (place, "") => place.to_owned(),
            (place, member) => format!("{place}.{member}"),
        };
        Some(line(&field, &format!("no ReferenceStrategy finds {wanted}{near}")))
    }

    /// The version of a strategy that is read, or would be if its origin was served; and where it stands.
    fn version_read<'s>(&self, strategy: &'s Object) -> Option<(usize, &'s Object)> {
        let active = self.around.active_version(strategy);
        objects(strategy, "versions")
            .find(|(_, of)| active.as_deref().is_none_or(|active| text(of, "version") == active))
    }

    /// Says that a strategy without classes takes away what another keeps apart by class (R38).
    fn void(&self) -> Vec<String> {
        let Some((index, read)) = self.version_read(self.new) else { return Vec::new() };
        let field = format!("versions[{index}].classPath");
        let partitions = is_partitioned(read);
        let mine = triples(ReferencePolicyKind::Strategy, self.new, Some(text(read, "version")));
        let others = self.strategies.iter().filter(|other| other.name() != self.new.name());
        others
            .filter_map(|other| {
                let (_, theirs) = self.version_read(other)?;
                if is_partitioned(theirs) == partitions {
                    return None;
                }
                let of =
                    triples(ReferencePolicyKind::Strategy, other, Some(text(theirs, "version")));
                let shared = of.iter().find(|triple| mine.contains(triple))?;
                let why = if partitions {
                    format!("ReferenceStrategy {:?} covers {shared} without it", other.name())
                } else {
                    format!("absent, but ReferenceStrategy {:?} has it for {shared}", other.name())
                };
                Some(line(&field, &format!("{why}; the partition by class is void")))
            })
            .collect()
    }

    /// Says that a consumer without classes matches nothing of what is kept apart by class (R39).
    fn closed(&self) -> Option<String> {
        let selects = self.new.map_at(&["classSelector"]).is_some();
        if selects || !self.new.list_at(&["classNames"]).is_empty() {
            return None;
        }
        let mine = triples(ReferencePolicyKind::Consumer, self.new, None);
        self.strategies.iter().find_map(|strategy| {
            let (_, read) = self.version_read(strategy).filter(|(_, read)| is_partitioned(read))?;
            let of = triples(ReferencePolicyKind::Strategy, strategy, Some(text(read, "version")));
            let shared = of.iter().find(|triple| mine.contains(triple))?;
            let why = format!(
                "absent, but ReferenceStrategy {:?} has classes for {shared}; that part of the consumer \
                 matches nothing",
                strategy.name()
            );
            Some(line("classNames", &why))
        })
    }

    /// Says that the subject reads everything already (R42).
    fn broad(&self) -> Option<String> {
        let part = |member| self.new.str_at(&["subject", member]).unwrap_or_default();
        let (name, namespace) = (part("name"), part("namespace"));
        let (user, groups) = match part("kind") {
            "ServiceAccount" => (
                format!("system:serviceaccount:{namespace}:{name}"),
                vec![
                    "system:serviceaccounts".to_owned(),
                    format!("system:serviceaccounts:{namespace}"),
                    "system:authenticated".to_owned(),
                ],
            ),
            "Group" => (String::new(), vec![name.to_owned()]),
            _ => (name.to_owned(), vec!["system:authenticated".to_owned()]),
        };
        let who = Requester { user: &user, groups: &groups };
        let rbac = self.api.access.rbac();
        let broad =
            reference::targets(ReferencePolicyKind::Consumer, self.new).into_iter().find(|to| {
                let requested = RequestAttributes::Resource {
                    verb: "list",
                    group: to.group,
                    resource: to.resource,
                    subresource: "",
                    namespace: "",
                    name: "",
                };
                who.is_master() || matches!(rbac.allows(&who, &requested), RbacDecision::Allow(_))
            })?;
        let why = format!(
            "may list {broad} everywhere through RBAC; referential authorization adds nothing until that is \
             removed"
        );
        Some(line("subject", &why))
    }
}

fn is_partitioned(versioned: &Object) -> bool {
    !text(versioned, "classPath").is_empty()
}
