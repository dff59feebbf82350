//! What would break if broad access went, and what would replace it.
//! Rules of spec/referential-authorization.md.

use serde_json::{Value, json};
use tenure_inspect::access::{
    FilteredLists, Narrow, NarrowOutcome, NarrowQuestion, NarrowVerdict, Records, WrongLine,
    identity,
};
use tenure_inspect::render::{Paint, access};
use tenure_references::Strategy;

use super::*;
use crate::same;

/// Strategies that could be applied.
fn bundled() -> Vec<(Strategy, Value)> {
    let object = |value: Value| (Strategy::from_object(value.as_object().unwrap()).unwrap(), value);
    vec![object(ingress_strategy()), object(gateway_strategy())]
}

/// A controller of Ingresses and Gateways as they are today: it may read every Secret.
fn today() -> Town {
    let mut town = Town::story();
    town.snapshot.objects.clear();
    town.bind("", "edge-secrets", edge_account(), reads("", "secrets"));
    town.bind("", "edge-ingresses", edge_account(), reads(NETWORKING, "ingresses"));
    town
}

fn narrow(town: &Town, classes: &[&str], records: Option<&Records>) -> Narrow {
    narrow_with(town, classes, records, FilteredLists::Off)
}

fn narrow_with(
    town: &Town,
    classes: &[&str],
    records: Option<&Records>,
    filtered_lists: FilteredLists,
) -> Narrow {
    let classes: Vec<String> = classes.iter().map(|class| (*class).to_owned()).collect();
    town.rights().narrow(&NarrowQuestion {
        who: &identity(EDGE, &[]),
        resource: &secrets(),
        classes: &classes,
        bundled: &bundled(),
        records,
        filtered_lists,
    })
}

/// One line of an audit log.
fn event(verb: &str, namespace: &str, name: &str, query: &str) -> String {
    json!({
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "stage": "ResponseComplete", "verb": verb,
        "requestURI": format!("/api/v1/namespaces/{namespace}/secrets{query}"),
        "user": { "username": EDGE }, "userAgent": "edge/1.0",
        "objectRef": { "resource": "secrets", "namespace": namespace, "name": name, "apiVersion": "v1" },
        "responseStatus": { "code": 200 },
        "requestReceivedTimestamp": "2026-11-15T12:00:00.000000Z",
    })
    .to_string()
}

/// The controller lists its Ingresses: it has been started.
fn start() -> String {
    event("list", "", "", "")
        .replace("secrets", "ingresses")
        .replace("\"resource\"", "\"apiGroup\":\"networking.k8s.io\",\"resource\"")
}

fn log(lines: &[String]) -> Records {
    Records::read(lines.join("\n").as_bytes(), EDGE, "audit log `audit.log`").unwrap()
}

#[test]
fn r135_the_objects_that_would_replace_broad_access_are_told_and_do() {
    let mut town = today();
    let told = narrow(&town, &["nginx"], None);
    assert_eq!(told.bindings.len(), 1);
    assert_eq!(told.bindings[0].verbs, ["get", "list", "watch"]);
    let kinds: Vec<&str> = told.objects.iter().map(|it| it["kind"].as_str().unwrap()).collect();
    // It may not list Gateways, so only Ingresses are its origins.
    assert_eq!(kinds, ["ReferenceStrategy", "ClusterReferenceConsumer"]);
    assert_eq!(told.objects[1]["classNames"], json!(["nginx"]));
    assert_eq!(told.objects[1]["metadata"]["name"], "edge");
    let reached: Vec<String> = told.references.iter().map(|it| it.via.target.place()).collect();
    assert_eq!(reached, ["shop/web-tls"]);
    assert_eq!(told.references[0].outcome, NarrowOutcome::KeptWithObjects);
    // Once they are applied nothing is missing any more.
    town.snapshot.objects.extend(told.objects);
    let told = narrow(&town, &["nginx"], None);
    assert!(told.objects.is_empty(), "{:?}", told.objects);
    assert_eq!(told.references[0].outcome, NarrowOutcome::Kept);
}

#[test]
fn r135_references_into_other_namespaces_get_grants_of_sixteen_names() {
    let mut town = today();
    town.bind("", "edge-gateways", edge_account(), reads(GATEWAY, "gateways"));
    town.snapshot.origins.clear();
    let names: Vec<String> = (10..27).map(|number| format!("tls-{number}")).collect();
    let secrets: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "prod-tls")).collect();
    town.gateway("prod", "web", "nginx", &secrets);
    let told = narrow(&town, &[], None);
    let grants: Vec<&Value> =
        told.objects.iter().filter(|it| it["kind"] == "ReferenceGrant").collect();
    let sizes: Vec<usize> =
        grants.iter().map(|it| it["target"]["names"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [16, 1]);
    assert_eq!(grants[0]["metadata"]["namespace"], "prod-tls");
    assert_ne!(grants[0]["metadata"]["name"], grants[1]["metadata"]["name"]);
    assert_eq!(told.references.len(), 17);
    assert!(told.notes.iter().any(|note| note.contains("read each before it is applied")));
    // A name that is taken is not taken away.
    let taken = grants[0]["metadata"]["name"].as_str().unwrap().to_owned();
    town.snapshot.objects.push(grant("prod-tls", &taken, "elsewhere", &["x"]));
    let told = narrow(&town, &[], None);
    assert!(told.objects.iter().all(|it| it["metadata"]["name"] != taken.as_str()));
}

#[test]
fn r135_r155_a_whole_collection_is_read_where_the_server_filters_it() {
    let mut town = today();
    let reads = log(&[start(), event("list", "", "", ""), event("watch", "", "", "?watch=1")]);
    let told = |town: &Town, lists| {
        let told = narrow_with(town, &["nginx"], Some(&reads), lists);
        let outcomes: Vec<(NarrowOutcome, bool)> =
            told.reads.iter().map(|read| (read.outcome, read.filtered)).collect();
        let asks = told.notes.iter().any(|note| note.contains("--filtered-lists"));
        (outcomes, told.verdict, told.verdict_with_objects, asks)
    };
    let broken = vec![(NarrowOutcome::Breaks, false); 2];
    let (would_break, safe) = (NarrowVerdict::WouldBreak, NarrowVerdict::Safe);
    assert_eq!(told(&town, FilteredLists::Off), (broken.clone(), would_break, would_break, false));
    assert_eq!(told(&town, FilteredLists::Unknown), (broken, would_break, would_break, true));
    // It becomes a consumer by the objects, and then is one.
    let with = vec![(NarrowOutcome::KeptWithObjects, true); 2];
    assert_eq!(told(&town, FilteredLists::On), (with, would_break, safe, false));
    let objects = narrow(&town, &["nginx"], None).objects;
    town.snapshot.objects.extend(objects);
    let kept = vec![(NarrowOutcome::Kept, true); 2];
    assert_eq!(told(&town, FilteredLists::On), (kept, safe, safe, false));
}

#[test]
fn r135_what_was_read_is_kept_lost_or_breaks() {
    let mut town = today();
    let objects = narrow(&town, &["nginx"], None).objects;
    let reads = [
        start(),
        event("get", "shop", "web-tls", "/web-tls"),
        event("get", "shop", "web-tls", "/web-tls"),
        event("watch", "shop", "", "?watch=1&fieldSelector=metadata.name%3Dweb-tls"),
        event("get", "shop", "db-password", "/db-password"),
        event("list", "", "", ""),
    ];
    let told = narrow(&town, &["nginx"], Some(&log(&reads)));
    same("access-narrow.txt", &access::narrow(&told, Paint::Plain));
    let outcomes: Vec<(&str, NarrowOutcome, usize)> =
        told.reads.iter().map(|it| (it.verb.as_str(), it.outcome, it.times)).collect();
    assert_eq!(
        outcomes,
        [
            ("get", NarrowOutcome::Lost, 1),
            ("get", NarrowOutcome::KeptWithObjects, 2),
            ("list", NarrowOutcome::Breaks, 1),
            ("watch", NarrowOutcome::KeptWithObjects, 1),
        ]
    );
    assert_eq!(told.reads[2].user_agents, ["edge/1.0"]);
    assert!(
        told.reads[2].why.starts_with("whole-collection read: ")
            && told.reads[2].why.contains("ReferencedCache")
    );
    assert!(
        told.reads[0].why.contains("points at secrets shop/db-password"),
        "{}",
        told.reads[0].why
    );
    assert_eq!(
        (told.verdict, told.verdict_with_objects),
        (NarrowVerdict::WouldBreak, NarrowVerdict::WouldBreak)
    );
    // Without what nobody points at, the objects are enough.
    let told = narrow(&town, &["nginx"], Some(&log(&reads[..4])));
    assert_eq!(
        (told.verdict, told.verdict_with_objects),
        (NarrowVerdict::WouldBreak, NarrowVerdict::Safe)
    );
    assert_eq!(told.bindings[0].loses, ["get shop/web-tls", "watch shop/web-tls"]);
    town.snapshot.objects.extend(objects);
    let told = narrow(&town, &["nginx"], Some(&log(&reads[..4])));
    assert_eq!(
        (told.verdict, told.verdict_with_objects),
        (NarrowVerdict::Safe, NarrowVerdict::Safe)
    );
    assert!(told.bindings[0].loses.is_empty());
}

#[test]
fn r135_nothing_is_called_safe_without_a_restart_in_the_records() {
    let mut town = today();
    town.snapshot.objects.extend(narrow(&town, &["nginx"], None).objects);
    let told = narrow(&town, &["nginx"], None);
    assert_eq!(told.verdict, NarrowVerdict::NotShown);
    assert!(told.notes.iter().any(|note| note.contains("judged by references alone")));
    let read = event("get", "shop", "web-tls", "/web-tls");
    let told = narrow(&town, &["nginx"], Some(&log(std::slice::from_ref(&read))));
    assert_eq!(told.verdict, NarrowVerdict::NotShown);
    assert!(told.notes.iter().any(|note| note.contains("no restart was recorded")));
    let told = narrow(&town, &["nginx"], Some(&log(&[start(), read])));
    assert_eq!(told.verdict, NarrowVerdict::Safe);
    assert!(told.window.unwrap().restart_seen);
    // An empty log shows nothing either.
    assert_eq!(narrow(&town, &["nginx"], Some(&log(&[]))).verdict, NarrowVerdict::NotShown);
}

#[test]
fn r135_the_removal_of_each_binding_is_tried_alone() {
    let mut town = today();
    let everybody = json!([
        { "kind": "Group", "name": "system:serviceaccounts" }, { "kind": "User", "name": "bob" },
    ]);
    town.bind("shop", "too", everybody, reads("", "secrets"));
    let records = log(&[
        start(),
        event("get", "shop", "web-tls", "/web-tls"),
        event("get", "prod", "other", "/other"),
    ]);
    let told = narrow(&town, &["nginx"], Some(&records));
    assert_eq!(told.bindings.len(), 2);
    assert_eq!(told.bindings[0].loses, ["get prod/other"]);
    assert!(told.bindings[1].loses.is_empty());
    let others: Vec<String> = told.bindings[1].others.iter().map(ToString::to_string).collect();
    assert_eq!(others, ["group system:serviceaccounts", "user bob"]);
    assert!(told.bindings.iter().all(|it| !it.gives_more));
    // A role that gives more must not go as a whole.
    let rule = json!({ "apiGroups": ["", NETWORKING], "resources": ["secrets", "ingresses"], "verbs": ["list"] });
    town.bind("shop", "mixed", edge_account(), rule);
    let mixed = narrow(&town, &["nginx"], None);
    assert!(mixed.bindings[2].gives_more && mixed.bindings[2].verbs == ["list"]);
    let text = access::narrow(&mixed, Paint::Plain);
    assert!(
        text.contains("(Role mixed): list in namespace shop\n    the role gives more than that"),
        "{text}"
    );
    town.roles.truncate(town.roles.len() - 2);
    // A right to single names is not broad, and stays.
    town.bind("prod", "named", edge_account(), json!({
        "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["other"], "verbs": ["get"],
    }));
    let told = narrow(&town, &["nginx"], Some(&records));
    assert_eq!(told.bindings.len(), 2);
    assert_eq!(told.reads[0].why, "RoleBinding prod/named still gives it");
}

#[test]
fn r135_without_broad_access_there_is_nothing_to_take_away() {
    let mut town = Town::story();
    town.bind("", "edge-ingresses", edge_account(), reads(NETWORKING, "ingresses"));
    let told = narrow(&town, &[], None);
    assert_eq!(told.verdict, NarrowVerdict::Safe);
    assert!(told.notes.iter().any(|note| note.starts_with("no binding gives")));
    // Where roles could not be read, nothing of the kind is said.
    town.roles.clear();
    assert_eq!(narrow(&town, &[], None).verdict, NarrowVerdict::NotShown);
    let mut nothing = Town::empty();
    nothing.bind("", "all", edge_account(), reads("", "secrets"));
    let told = narrow(&nothing, &[], None);
    assert!(told.objects.is_empty());
    assert!(told.notes.iter().any(|note| note.contains("serves no type")), "{:?}", told.notes);
}

#[test]
fn r135_a_log_is_read_for_one_user_and_told_where_it_is_wrong() {
    let read = |text: &str| Records::read(text.as_bytes(), EDGE, "log");
    let good = event("get", "shop", "web-tls", "/web-tls");
    let refused = good.replace("\"code\":200", "\"code\":403");
    let other = good.replace(EDGE, "alice");
    let acting = other.replace(
        "\"user\":",
        &format!("\"impersonatedUser\":{{\"username\":\"{EDGE}\"}},\"user\":"),
    );
    let twice = good.replace("\"stage\"", "\"auditID\":\"1\",\"stage\"");
    let text = [&good, &refused, &other, &acting, &twice, &twice, ""].map(str::to_owned).join("\n");
    assert_eq!(read(&text).unwrap().requests.len(), 3);
    // The last line may still be written.
    assert_eq!(read(&format!("{good}\n{}", &good[..40])).unwrap().requests.len(), 1);
    let torn = read(&format!("{}\n{good}\n", &good[..40])).unwrap_err();
    assert!(matches!(torn, WrongLine::NotJson(1, _)), "{torn}");
    assert!(matches!(read("}{").unwrap_err(), WrongLine::NotJson(1, _)));
    let said = read(&format!("{good}\n{{\"kind\":\"Pod\"}}")).unwrap_err().to_string();
    assert_eq!(said, "line 2 is no event of audit.k8s.io: `kind` is missing or wrong");
    assert!(matches!(
        read(&good.replace("\"get\"", "7")).unwrap_err(),
        WrongLine::NotAnEvent(1, "verb")
    ));
    assert!(Records::read(&b"\xff\xfe\n"[..], EDGE, "log").is_err());
    // A selector that cannot be read is none.
    for query in [
        "?fieldSelector=metadata.name%3",
        "?fieldSelector=metadata.name!%3Da",
        "?fieldSelector=%ff",
    ] {
        let records = read(&event("list", "shop", "", query)).unwrap();
        assert_eq!(records.requests[0].name, "", "{query}");
    }
    let mut records = read(&[good.replace("12:00", "09:00"), good].join("\n")).unwrap();
    records.keep_last(std::time::Duration::from_secs(3600));
    assert_eq!(records.requests.len(), 1);
}

#[test]
fn r135_the_recorder_of_a_server_is_as_good_as_a_log() {
    let mut town = today();
    town.snapshot.objects.extend(narrow(&town, &["nginx"], None).objects);
    let read = |verb: &str, name: &str, count: u64, fresh: u64| {
        json!({
            "user": EDGE, "verb": verb, "group": "", "resource": "secrets", "namespace": "shop",
            "name": name, "userAgent": "edge/1.0", "count": count, "denied": 2, "fresh": fresh,
            "referenced": true, "first": "2026-11-15T12:00:00Z", "last": "2026-11-15T13:00:00Z",
        })
    };
    let mut answer = json!({ "since": "2026-11-15T11:00:00Z", "dropped": 0, "reads": [
        read("get", "web-tls", 3, 0), read("list", "web-tls", 1, 1), read("get", "db-password", 0, 0),
    ]});
    let judged = |answer: &Value| {
        let records = Records::of_server(answer, EDGE).unwrap();
        narrow(&town, &["nginx"], Some(&records))
    };
    let told = judged(&answer);
    assert_eq!(told.verdict, NarrowVerdict::Safe);
    let times: Vec<usize> = told.reads.iter().map(|it| it.times).collect();
    assert_eq!(times, [3, 1]);
    assert_eq!(told.window.unwrap().from.unwrap().to_string(), "2026-11-15T11:00:00Z");
    // What did not fit may have been anything.
    answer["dropped"] = json!(7);
    let told = judged(&answer);
    assert_eq!(told.verdict, NarrowVerdict::NotShown);
    assert!(told.notes.iter().any(|note| note.contains("no room for 7 requests")));
    let other = Records::of_server(&answer, "alice").unwrap();
    assert!(other.requests.is_empty());
    for odd in [json!(null), json!([]), json!({ "reads": 7 })] {
        assert!(Records::of_server(&odd, EDGE).is_none());
    }
    assert!(
        Records::of_server(&json!({ "reads": [null, 7, {}] }), EDGE).unwrap().requests.is_empty()
    );
}

#[test]
fn r135_a_subject_that_nothing_names_is_noticed() {
    let town = today();
    let told = |user: &str| {
        let told = town.rights().narrow(&NarrowQuestion {
            who: &identity(user, &[]),
            resource: &secrets(),
            classes: &[],
            bundled: &bundled(),
            records: None,
            filtered_lists: FilteredLists::Off,
        });
        told.notes.iter().any(|note| note.contains("see whether the name is right"))
    };
    assert!(!told(EDGE));
    assert!(told("edge") && told("system:serviceaccount:edge:edge-sytem"));
}
