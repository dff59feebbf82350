//! Who may do what: reviews over HTTP, and the engine alone in a cluster of 10,000 bindings.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;
use tenure_client_tests::Server;
use tenure_client_tests::wire::request;
use tenure_rbac::{
    BindingSubject, PolicyRule, Rbac, RequestAttributes, Requester, RoleBinding, RoleRef, bootstrap,
};

use super::measure::{Measure, each, storm};

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const ROLE_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
/// How many users of the server under load have a binding; twice as many are asked about.
const USERS: usize = 500;

const NAMESPACES: usize = 500;
const BINDINGS: usize = 10_000;
const BATCH: u32 = 100;
const BATCHES: usize = 2_000;

/// Reviews of 1,000 users, half of whom may.
pub(super) async fn reviews() -> Result<Vec<Measure>> {
    let server = Server::ephemeral()?;
    let access = server.access()?;
    let mut connection = access.connect().await?;
    for number in 0..USERS {
        let body = json!({
            "metadata": { "name": format!("view-{number}") },
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view",
            },
            "subjects": [{
                "kind": "User",
                "apiGroup": "rbac.authorization.k8s.io",
                "name": format!("user-{number}"),
            }],
        });
        let answer =
            connection.send("POST", ROLE_BINDINGS, Some(body.to_string().as_bytes())).await?;
        ensure!(answer.code == 201, "{}", String::from_utf8_lossy(&answer.body));
    }
    for (number, allowed) in [(0, true), (USERS, false)] {
        let answer = connection.send("POST", REVIEWS, Some(review(number).as_bytes())).await?;
        ensure!(
            answer.json()?.pointer("/status/allowed") == Some(&allowed.into()),
            "{}",
            String::from_utf8_lossy(&answer.body)
        );
    }
    let before = server.cpu()?;
    let rate = storm(&access, Duration::from_secs(4), 201, |_, number| {
        request("POST", REVIEWS, "application/json", Some(review(number).as_bytes()))
    });
    let rate = rate.await?;
    each("review", server.cpu()? - before, rate * 4.0);
    Ok(vec![Measure::at_least("SubjectAccessReviews, 32 clients", 20_000.0, rate)])
}

/// Text, not a tree, because the generator must be cheaper than the server.
fn review(number: usize) -> String {
    let number = number % (2 * USERS);
    format!(
        r#"{{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{{"user":"user-{number}","groups":["system:authenticated"],"resourceAttributes":{{"verb":"list","resource":"pods","namespace":"default"}}}}}}"#
    )
}

/// The engine without a server. Decisions are timed a hundred at a time; the slowest of the
/// questions counts.
pub(super) fn decisions() -> Result<Vec<Measure>> {
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
    let mut slowest = 0;
    for (what, user, team, verb, resource, namespace) in questions {
        let groups = [team, "system:authenticated", "department-3", "everyone"].map(String::from);
        let who = Requester { user, groups: &groups };
        let asked = RequestAttributes::Resource {
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
        eprintln!("  {median:>5} ns median, {worst:>6} ns p99  allowed={allowed:<5}  {what}");
        slowest = slowest.max(median);
    }
    #[expect(clippy::cast_precision_loss, reason = "a time needs few digits")]
    let microseconds = slowest as f64 / 1000.0;
    let name = "access decision, 10,000 bindings, slowest median";
    Ok(vec![Measure::at_most(name, 1.0, microseconds, "µs")])
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
    let nodes = PolicyRule {
        verbs: vec!["get".into(), "list".into()],
        api_groups: vec!["".into()],
        resources: vec!["nodes".into()],
        ..PolicyRule::default()
    };
    for team in 0..20 {
        let name = format!("team-{team}");
        rbac.put_role(tenure_rbac::Role {
            name: name.clone(),
            rules: vec![nodes.clone()],
            ..tenure_rbac::Role::default()
        });
        rbac.put_binding(bound("", &name, &name, BindingSubject::Group(name.clone())));
    }
    rbac.put_binding(bound("", "admins", "cluster-admin", BindingSubject::User("admin".into())));
    let standing = bootstrap::bindings();
    for number in standing.len() + 21..BINDINGS {
        let role = if number % 2 == 0 { "view" } else { "edit" };
        let namespace = format!("n-{}", number % NAMESPACES);
        let subject = BindingSubject::User(format!("user-{}", number % 4_000));
        rbac.put_binding(bound(&namespace, &format!("b-{number}"), role, subject));
    }
    for binding in standing {
        rbac.put_binding(binding);
    }
    rbac
}

fn bound(namespace: &str, name: &str, role: &str, subject: BindingSubject) -> RoleBinding {
    RoleBinding {
        namespace: namespace.into(),
        name: name.into(),
        role: RoleRef::ClusterRole(role.into()),
        subjects: vec![subject],
    }
}
