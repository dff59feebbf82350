//! Rules of spec/referential-authorization.md: a reference lets be read what it led to, when it led there (R180).

use serde_json::json;
use tenure_core::Revision;
use tenure_server::Peer;
use tenure_server::reference::ReferenceOptions;

use super::access::{TLS, town, town_in, watched};
use super::*;

const NAMED: &str = "fieldSelector=metadata.name%3Dacme-tls";

async fn revoke(house: &House) {
    house.delete(&format!("{GRANTS}/prod-gateways")).await.with(200);
}

async fn allow(house: &House) {
    house.made(GRANTS, grant("prod-gateways", &["acme-tls"])).await;
}

async fn write(house: &House, value: &str) {
    let data = json!({ "stringData": { "k": value } });
    house.merge(&format!("{TLS}/acme-tls"), data).await.with(200);
}

fn ahead(house: &House, commits: u64) -> Revision {
    Revision(house.revision().0 + commits)
}

/// What a request is answered that waits while the grant goes and the target is written.
async fn waits(house: &House, who: &Peer, path: &str) -> u16 {
    let changes = async {
        revoke(house).await;
        write(house, "after").await;
    };
    let (code, ()) = tokio::join!(house.reads(who, path), changes);
    code
}

#[tokio::test]
async fn r180_a_request_that_waited_is_answered_by_what_holds_then() {
    for query in [
        "/acme-tls?resourceVersion=".to_owned(),
        format!("?{NAMED}&resourceVersion="),
        format!("?{NAMED}&resourceVersionMatch=NotOlderThan&resourceVersion="),
        format!(
            "?{NAMED}&watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion="
        ),
    ] {
        let (house, contour) = town().await;
        let path = format!("{TLS}{query}{}", ahead(&house, 2));
        assert_eq!(waits(&house, &contour, &path).await, 403, "{query}");
    }
}

#[tokio::test]
async fn r180_a_fresh_grant_shows_nothing_from_before_it() {
    let (house, contour) = town().await;
    revoke(&house).await;
    write(&house, "before").await;
    let before = house.revision();
    write(&house, "between").await;
    allow(&house).await;
    let granted = house.revision();
    write(&house, "after").await;
    let exact = |at| format!("{TLS}?{NAMED}&resourceVersionMatch=Exact&resourceVersion={at}");
    house.ask_as(&contour, "GET", &exact(before), &[], "").await.fails(410, "Expired");
    assert_eq!(house.reads(&contour, &exact(granted)).await, 200);
    let limited = format!("{TLS}?{NAMED}&limit=1&resourceVersion={before}");
    house.ask_as(&contour, "GET", &limited, &[], "").await.fails(410, "Expired");
    let from = |at| format!("{TLS}?{NAMED}&watch=1&resourceVersion={at}");
    let mut watch = watched(&house, &contour, &from(before)).await;
    assert_eq!(watch.next().await.unwrap()["object"]["code"], 410);
    assert_eq!(watch.next().await, None);
    let mut watch = watched(&house, &contour, &from(granted)).await;
    watch.expect(&["MODIFIED acme-tls"]).await;
    // The administrator reads all of it.
    assert_eq!(house.get(&exact(before)).await.code, 200);
}

#[tokio::test]
async fn r180_what_others_change_meanwhile_cuts_nobody_off() {
    let (house, contour) = town().await;
    let from = house.revision();
    house.made(GRANTS, grant("others", &["other"])).await;
    house.made(TLS, named("unrelated")).await;
    write(&house, "new").await;
    let path = format!("{TLS}?{NAMED}&watch=1&resourceVersion={from}");
    watched(&house, &contour, &path).await.expect(&["MODIFIED acme-tls"]).await;
}

#[tokio::test]
async fn r180_a_watch_that_lost_its_permit_for_a_while_ends() {
    let (house, contour) = town().await;
    let path = format!("{TLS}?{NAMED}&watch=1");
    let mut watch = watched(&house, &contour, &path).await;
    watch.expect(&["ADDED acme-tls"]).await;
    revoke(&house).await;
    write(&house, "between").await;
    allow(&house).await;
    let last = watch.next().await.unwrap();
    assert_eq!(last["type"], "ERROR", "{last}");
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn r180_a_role_lets_its_holder_read_the_past() {
    let (house, contour) = town().await;
    let before = house.revision();
    revoke(&house).await;
    let rules = [rule(&["get", "list", "watch"], "", "secrets", &["acme-tls"])];
    user(&house, "contour", "prod-tls", &rules).await;
    allow(&house).await;
    let exact = format!("{TLS}?{NAMED}&resourceVersionMatch=Exact&resourceVersion={before}");
    assert_eq!(house.reads(&contour, &exact).await, 200);
}

#[tokio::test]
async fn r180_a_part_of_a_past_collection_is_what_was_seen_in_it() {
    let settings = ReferenceOptions { filtered_lists: true, ..ReferenceOptions::default() };
    let (house, contour) = town_in(House::referring(settings).await).await;
    revoke(&house).await;
    let before = house.revision();
    write(&house, "between").await;
    allow(&house).await;
    let exact = format!("{TLS}?resourceVersionMatch=Exact&resourceVersion={before}");
    let list = house.ask_as(&contour, "GET", &exact, &[], "").await.with(200);
    assert!(names(&list).is_empty(), "{list}");
    let list = house.ask_as(&contour, "GET", TLS, &[], "").await.with(200);
    assert_eq!(names(&list), ["acme-tls"]);
}
