//! How long a decision takes in a cluster of 10,000 bindings, in nanoseconds.
//!
//! Decisions are timed a hundred at a time, so the slowest ones are slow batches.
//!
//! `cargo run --release -p tenure-rbac --example decide`

use std::hint::black_box;
use std::time::Instant;

use tenure_rbac::{Asked, Binding, Rbac, RoleRef, Rule, Subject, Who, bootstrap};

const NAMESPACES: usize = 500;
const BINDINGS: usize = 10_000;
const BATCH: u32 = 100;
const BATCHES: usize = 2_000;

fn main() {
    let rbac = world();
    let questions = [
        ("cluster-admin creates a pod", "admin", "team-0", "create", "pods", "n-3"),
        (
            "edit bound in the namespace creates a pod",
            "user-1205",
            "team-5",
            "create",
            "pods",
            "n-205",
        ),
        ("view bound in the namespace lists pods", "user-1204", "team-4", "list", "pods", "n-204"),
        ("edit is asked for what it lacks", "user-1205", "team-5", "create", "nodes", "n-205"),
        ("a group bound in the cluster reads nodes", "user-7", "team-7", "get", "nodes", ""),
        ("bound nowhere near", "user-3", "team-3", "delete", "secrets", "n-499"),
        ("unknown user", "nobody", "nobodies", "get", "pods", "n-1"),
    ];
    for (what, user, team, verb, resource, namespace) in questions {
        let groups = [team, "system:authenticated", "department-3", "everyone"].map(String::from);
        let who = Who { user, groups: &groups };
        let asked = Asked::Resource {
            verb,
            group: "",
            resource,
            subresource: "",
            namespace,
            name: "web-1",
        };
        let allowed = rbac.allows(&who, &asked).is_allowed();
        let (median, worst) = measure(|| {
            black_box(rbac.allows(black_box(&who), black_box(&asked)));
        });
        println!(
            "{median:>5} ns median, {worst:>6} ns p99 of batches  allowed={allowed:<5}  {what}"
        );
    }
}

fn measure(mut run: impl FnMut()) -> (u128, u128) {
    let mut times: Vec<u128> = (0..BATCHES)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..BATCH {
                run();
            }
            start.elapsed().as_nanos() / u128::from(BATCH)
        })
        .collect();
    times.sort_unstable();
    let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
    (at(50), at(99))
}

fn world() -> Rbac {
    let mut rbac = Rbac::new();
    for role in bootstrap::roles() {
        rbac.put_role(role);
    }
    for (name, rules) in rbac.aggregates(tenure_rbac::RoleChange::None) {
        let role = rbac.role("", &name).cloned().unwrap_or_default();
        rbac.put_role(tenure_rbac::Role { rules, ..role });
    }
    let nodes = Rule {
        verbs: vec!["get".into(), "list".into()],
        api_groups: vec!["".into()],
        resources: vec!["nodes".into()],
        ..Rule::default()
    };
    for team in 0..20 {
        let name = format!("team-{team}");
        rbac.put_role(tenure_rbac::Role {
            name: name.clone(),
            rules: vec![nodes.clone()],
            ..tenure_rbac::Role::default()
        });
        rbac.put_binding(bound("", &name, &name, Subject::Group(name.clone())));
    }
    rbac.put_binding(bound("", "admins", "cluster-admin", Subject::User("admin".into())));
    let standing = bootstrap::bindings();
    for number in standing.len() + 21..BINDINGS {
        let role = if number % 2 == 0 { "view" } else { "edit" };
        let namespace = format!("n-{}", number % NAMESPACES);
        let subject = Subject::User(format!("user-{}", number % 4_000));
        rbac.put_binding(bound(&namespace, &format!("b-{number}"), role, subject));
    }
    for binding in standing {
        rbac.put_binding(binding);
    }
    rbac
}

fn bound(namespace: &str, name: &str, role: &str, subject: Subject) -> Binding {
    Binding {
        namespace: namespace.into(),
        name: name.into(),
        role: RoleRef::ClusterRole(role.into()),
        subjects: vec![subject],
    }
}
