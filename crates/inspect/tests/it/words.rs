//! Text and JSON of all four answers, in full: see `tests/snapshots`. Rules of spec/ownership.md.

use tenure_inspect::render::{self, Paint};
use tenure_inspect::{
    AuditOptions, DeletionPropagation, FindingCode, Health, UnreadableKind, UnusedReport, Usage,
    UsageHolder, UsageState,
};

use crate::cluster::{NOW, SHOP, WRECK, look, object};
use crate::same;

const PROGRAM: &str = "tenure";

#[test]
fn a_tree_reads_like_this() {
    let look = look(SHOP);
    let tree = look.tree(object(&look, "d1"), false);
    same("tree.txt", &render::tree(&tree, Paint::Plain));
    same("tree.json", &render::json(&tree));
    let up = look.tree(object(&look, "c1"), true);
    same("tree-up.txt", &render::tree(&up, Paint::Plain));
}

#[test]
fn colors_add_nothing_but_colors() {
    let look = look(WRECK);
    for uid in ["d1", "c1", "w1"] {
        let tree = look.tree(object(&look, uid), false);
        let mut colored = render::tree(&tree, Paint::Colored);
        assert!(colored.contains("\x1b["), "{colored}");
        for code in ["0", "1", "2", "31", "32", "33", "36"] {
            colored = colored.replace(&format!("\x1b[{code}m"), "");
        }
        assert_eq!(colored, render::tree(&tree, Paint::Plain));
    }
}

#[test]
fn a_ring_ends_where_it_began() {
    let look = look(WRECK);
    let tree = look.tree(object(&look, "w1"), false);
    same("tree-ring.txt", &render::tree(&tree, Paint::Plain));
    let up = look.tree(object(&look, "c3"), true);
    same("tree-up-dangling.txt", &render::tree(&up, Paint::Plain));
}

#[test]
fn why_says_who_holds_whom() {
    let look = look(WRECK);
    let mut text = String::new();
    for uid in ["d1", "p1", "p3", "c1", "c2", "c3", "c4", "k1", "w1", "w3", "d3"] {
        let why = look.why(object(&look, uid));
        text.push_str(&render::why(&why, PROGRAM, Paint::Plain));
        text.push('\n');
    }
    same("why.txt", &text);
    same("why.json", &render::json(&look.why(object(&look, "p1"))));
}

#[test]
fn a_namespace_says_what_it_waits_for() {
    let look = look(
        "
        Namespace shop uid=n1 deleted=5m
        ConfigMap shop/a uid=a finalizer=example.com/x deleted=5m
        ConfigMap shop/b uid=b
        ConfigMap other/c uid=c
    ",
    );
    let why = look.why(object(&look, "n1"));
    same("why-namespace.txt", &render::why(&why, PROGRAM, Paint::Plain));
}

#[test]
fn a_blocking_reference_without_a_foreground_deletion_holds_nobody() {
    let look = look(
        "
        Deployment shop/web uid=d1 deleted=5m finalizer=example.com/x
        ReplicaSet shop/web-1 uid=r1 owner=d1!
    ",
    );
    let why = look.why(object(&look, "d1"));
    let codes: Vec<FindingCode> = why.reasons.iter().map(|reason| reason.code).collect();
    assert_eq!(codes, [FindingCode::Finalizer, FindingCode::NotBlocking]);
}

#[test]
fn plans_name_what_goes_and_what_stays() {
    let look = look(SHOP);
    let mut text = String::new();
    for policy in [
        DeletionPropagation::Background,
        DeletionPropagation::Foreground,
        DeletionPropagation::Orphan,
    ] {
        let plan = look.plan(object(&look, "d1"), policy);
        text.push_str(&render::plan(&plan, false, PROGRAM, Paint::Plain));
        text.push('\n');
    }
    let plan = look.plan(object(&look, "r1"), DeletionPropagation::Background);
    text.push_str(&render::plan(&plan, false, PROGRAM, Paint::Plain));
    same("plan.txt", &text);
    same(
        "plan.json",
        &render::json(&look.plan(object(&look, "d1"), DeletionPropagation::Foreground)),
    );
}

#[test]
fn r171d_a_plan_counts_steps_that_are_alike() {
    let pods: String = (0..300).map(|n| format!("Pod shop/web-{n} uid=p{n} owner=r1\n")).collect();
    let look = look(&format!("ReplicaSet shop/web uid=r1\n{pods}"));
    let plan = look.plan(object(&look, "r1"), DeletionPropagation::Background);
    let short = render::plan(&plan, false, PROGRAM, Paint::Plain);
    assert!(short.lines().count() < 12, "{short}");
    assert!(short.contains("Pod 298 more"), "{short}");
    assert!(short.contains("301 objects go: Pod (300), ReplicaSet (1)"), "{short}");
    let long = render::plan(&plan, true, PROGRAM, Paint::Plain);
    assert!((0..300).all(|n| long.contains(&format!("Pod shop/web-{n} "))), "{long}");
    // The numbers of the steps are the same.
    let last = |text: &str| {
        let step = text.lines().rfind(|line| line.starts_with("  ")).unwrap_or_default();
        step.split_whitespace().next().unwrap_or_default().to_owned()
    };
    assert_eq!(last(&short), last(&long));
}

#[test]
fn plans_on_a_wreck_say_what_holds() {
    let look = look(WRECK);
    let mut text = String::new();
    for (uid, policy) in [
        ("n1", DeletionPropagation::Background),
        ("w1", DeletionPropagation::Foreground),
        ("d3", DeletionPropagation::Foreground),
        ("p1", DeletionPropagation::Background),
    ] {
        let plan = look.plan(object(&look, uid), policy);
        text.push_str(&render::plan(&plan, false, PROGRAM, Paint::Plain));
        text.push('\n');
    }
    same("plan-wreck.txt", &text);
}

#[test]
fn content_goes_before_what_holds_it() {
    let look = look(
        "
        Namespace shop uid=n1
        ConfigMap shop/a uid=a
        ConfigMap shop/b uid=b owner=a
        ConfigMap other/c uid=c owner=n1
        CustomResourceDefinition widgets.example.com uid=x
        Widget other/w uid=w
        ConfigMap other/d uid=d owner=w
    ",
    );
    let gone = |uid: &str| -> Vec<String> {
        let plan = look.plan(object(&look, uid), DeletionPropagation::Background);
        plan.gone.into_iter().map(|named| named.uid).collect()
    };
    assert_eq!(gone("n1"), ["a", "b", "n1", "c"]);
    assert_eq!(gone("x"), ["w", "d", "x"]);
}

#[test]
fn an_audit_reads_like_this() {
    let look = look(WRECK);
    let audit = look.audit(&AuditOptions::default());
    same("audit.txt", &render::audit(&audit, PROGRAM, Paint::Plain));
    same("audit.json", &render::json(&audit));
    let scope = AuditOptions { namespace: Some("staging".to_owned()), ..AuditOptions::default() };
    let audit = look.audit(&scope);
    assert_eq!(audit.findings.iter().map(|f| f.code).collect::<Vec<_>>(), [FindingCode::Ring]);
}

#[test]
fn an_audit_leaves_young_deletions_alone() {
    let look = look(WRECK);
    let hour = AuditOptions { namespace: None, stuck_after: std::time::Duration::from_secs(3600) };
    let codes: Vec<FindingCode> = look.audit(&hour).findings.iter().map(|f| f.code).collect();
    assert!(
        !codes.contains(&FindingCode::Blocked) && !codes.contains(&FindingCode::Finalizer),
        "{codes:?}"
    );
    let audit = crate::cluster::look(SHOP).audit(&AuditOptions::default());
    assert!(audit.findings.is_empty());
}

#[test]
fn what_could_not_be_read_is_said_and_never_guessed() {
    let look = look(
        "
        unread deployments.apps
        ReplicaSet shop/web-1 uid=r1 owner=Deployment/web:d1!
        ConfigMap shop/lost uid=c1 owner=Widget/old:w9
    ",
    );
    let audit = look.audit(&AuditOptions::default());
    same("audit-unread.txt", &render::audit(&audit, PROGRAM, Paint::Plain));
    let why = look.why(object(&look, "r1"));
    same("why-unread.txt", &render::why(&why, "kubectl tenure", Paint::Plain));
    let up = look.tree(object(&look, "r1"), true);
    same("tree-up-unread.txt", &render::tree(&up, Paint::Plain));
}

/// A Deployment with so many pods, one of which crashes.
fn crowd(pods: usize) -> String {
    let mut text = String::from(
        "Deployment shop/web uid=d1 status=9/10_ready\nReplicaSet shop/web-1 uid=r1 owner=d1*! status=9/10_ready\n",
    );
    for pod in 0..pods {
        let status = if pod == 3 { "CrashLoopBackOff_0/1" } else { "Running_1/1" };
        text +=
            &format!("Pod shop/p{pod:03} uid=p{pod} owner=r1*! age={}s status={status}\n", pod + 1);
    }
    text
}

#[test]
fn r171c_r171d_siblings_that_are_alike_are_counted_and_others_are_not() {
    let names = |pods: usize| -> Vec<(String, Option<Health>)> {
        let look = look(&crowd(pods));
        let tree = look.tree(object(&look, "d1"), false);
        assert_eq!(tree.objects.len(), pods + 2);
        let rows = tree.folded(false).objects.into_iter();
        rows.map(|row| (row.object.name, row.health)).collect()
    };
    let (good, failing) = (Some(Health::Good), Some(Health::Failing));
    let row = |name: &str, health| (name.to_owned(), health);
    assert_eq!(
        names(300),
        [
            // What is not ready because something below it fails does not merely wait.
            row("web", failing),
            row("web-1", failing),
            row("p000", good),
            row("p001", good),
            row("297 more", good),
            row("p003", failing),
        ]
    );
    assert_eq!(names(5).len(), 7, "four that are alike are all shown");
    assert_eq!(names(6).len(), 6);
    let look = look(&crowd(300));
    let tree = look.tree(object(&look, "d1"), false).folded(false);
    let text = render::tree(&tree, Paint::Plain);
    let more = text.lines().find(|line| line.contains("├─297 more")).unwrap();
    assert!(more.contains("more        Running 1/1") && more.contains(" 3s–5m "), "{text}");
}

#[test]
fn r171d_what_is_inside_a_namespace_hangs_on_it() {
    let look = look(WRECK);
    let tree = look.tree(object(&look, "n1"), false);
    let mut uids: Vec<&str> = tree.objects.iter().map(|row| row.object.uid.as_str()).collect();
    uids.sort_unstable();
    // Everything once, also what owns itself; nothing from elsewhere but what depends on it.
    assert_eq!(
        uids,
        ["c1", "c2", "c3", "c4", "d1", "d3", "k1", "n1", "p1", "p3", "r1", "w3", "w3"]
    );
}

#[test]
fn r171a_what_was_read_in_its_namespace_is_not_missing_there() {
    let look = look(
        "
        unread deployments.apps@shop
        unread nodes
        unread widgets.example.com
        ReplicaSet shop/web-1 uid=r1 owner=Deployment/web:d1!
    ",
    );
    let why = look.why(object(&look, "r1"));
    let text = render::why(&why, PROGRAM, Paint::Plain);
    assert!(
        text.contains("`web` (uid d1) is not in namespace `shop`, and others could not be read"),
        "{text}"
    );
    assert!(text.contains("1 kind was read in namespace `shop` only"), "{text}");
    let kinds: Vec<&str> = why.unread.iter().map(|unread| unread.kind.as_str()).collect();
    assert_eq!(kinds, ["deployments.apps", "widgets.example.com"], "nodes own nothing there");
    let scope = AuditOptions { namespace: Some("shop".to_owned()), ..AuditOptions::default() };
    assert!(!look.audit(&scope).is_whole());
}

#[test]
fn r171e_controllers_let_go_what_nobody_uses() {
    let text = "
        ConfigMap shop/claim uid=c1 finalizer=kubernetes.io/pvc-protection
        Pod shop/user uid=p1
    ";
    let plan = |users: &[&str]| {
        let mut look = look(text);
        let users = users.iter().map(|user| (*user).to_owned()).collect();
        look.set_releases([("c1".to_owned(), users)].into());
        let plan = look.plan(object(&look, "c1"), DeletionPropagation::Background);
        render::plan(&plan, false, PROGRAM, Paint::Plain)
    };
    let free = plan(&[]);
    assert!(free.contains("its protection ends: no pod uses the claim"), "{free}");
    let used = plan(&["p1"]);
    assert!(
        used.contains(
            "`kubernetes.io/pvc-protection` holds it while it is used by Pod `shop/user`"
        ),
        "{used}"
    );
}

/// A report with every verdict.
fn report() -> UnusedReport {
    let user = |kind: &str, namespace: &str, name: &str| UsageHolder {
        kind: kind.into(),
        namespace: namespace.into(),
        name: name.into(),
    };
    let usage = |kind: &'static str, name: &str, verdict: UsageState| Usage {
        kind,
        namespace: "shop".into(),
        name: name.into(),
        uid: format!("uid-of-{name}"),
        verdict,
        entries: Some(2),
        created: Some("2026-06-12T12:00:00Z".parse().unwrap()),
        controllers_as_owners: false,
        users: Vec::new(),
        users_total: 0,
        owners: Vec::new(),
        reasons: Vec::new(),
    };
    let users = ["web", "api", "job"].map(|name| user("Deployment", "", name));
    let volume = user("PersistentVolume", "", "disk");
    UnusedReport {
        subjects: vec![
            Usage {
                entries: None,
                created: None,
                ..usage("ConfigMap", "left", UsageState::Unused)
            },
            usage("Secret", "old-password", UsageState::Unused),
            Usage {
                reasons: vec!["programs find it by `grafana_dashboard`".into()],
                ..usage("ConfigMap", "dashboard", UsageState::Unknown)
            },
            Usage {
                users: users.to_vec(),
                users_total: 5,
                controllers_as_owners: true,
                owners: vec![user("ReplicaSet", "", "web-5d9")],
                ..usage("ConfigMap", "settings", UsageState::Used)
            },
            Usage {
                users: vec![volume, user("Gateway", "edge", "front")],
                users_total: 2,
                ..usage("Secret", "certificate", UsageState::Used)
            },
        ],
        unused: 2,
        unknown: 1,
        used: 2,
        namespace: None,
        objects: 1234,
        unread: vec![UnreadableKind::new("things.example.com", "you may not list it")],
        now: NOW.parse().unwrap(),
    }
}

#[test]
fn an_unused_report_is_a_table() {
    let text = render::unused(&report(), Paint::Plain);
    same("unused.txt", &text);
    assert!(!text.contains("safe"), "{text}");
    same("unused.json", &render::json(&report()));
    let none = UnusedReport { subjects: Vec::new(), unused: 0, unknown: 0, used: 0, ..report() };
    let text = render::unused(&UnusedReport { unread: Vec::new(), ..none }, Paint::Plain);
    assert_eq!(text, "nothing unused, 0 unknown, 0 used: looked through 1234 objects\n");
}
