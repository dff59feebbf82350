//! Rules of spec/api-server.md, for every kind alike: what upstream's end-to-end tests call the lifecycle
//! and the API operations of a kind (R81), as one table.

mod rows;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::house::*;

const APPLY: &str = "application/apply-patch+yaml";
/// The ways of writing, each to an object of its own.
const WAYS: [&str; 5] = [JSON_PATCH, MERGE, STRATEGIC, APPLY, "PUT"];
const VERBS: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// Where an object lies that other namespaces do not see.
const ELSEWHERE: &str = "kube-public";

/// A kind, and what is done with objects of it.
struct Row {
    /// What the row is called: the plural, and more where one kind has two rows.
    label: &'static str,
    api_version: &'static str,
    namespaced: bool,
    /// The object, in which `$` stands for its number and `@` for its namespace.
    body: Value,
    /// What may be changed, as a merge patch.
    change: Value,
    /// What may not be changed, as a merge patch.
    refused: Value,
    /// What is written to `/status`; null where there is none.
    status: Value,
    /// Whether a write to `/status` may change labels and annotations.
    status_annotates: bool,
    /// Whether only `/status` is tried.
    status_only: bool,
}

fn row(api_version: &'static str, label: &'static str, body: Value) -> Row {
    Row {
        label,
        api_version,
        namespaced: true,
        body,
        change: json!({}),
        refused: Value::Null,
        status: Value::Null,
        status_annotates: true,
        status_only: false,
    }
}

impl Row {
    fn wide(self) -> Row {
        Row { namespaced: false, ..self }
    }

    fn changes(self, change: Value) -> Row {
        Row { change, ..self }
    }

    fn refuses(self, refused: Value) -> Row {
        Row { refused, ..self }
    }

    fn status(self, status: Value) -> Row {
        Row { status, ..self }
    }

    fn plural(&self) -> &'static str {
        self.label.split(' ').next().unwrap()
    }

    /// `/apis/apps/v1`.
    fn group(&self) -> String {
        let root = if self.api_version == "v1" { "/api" } else { "/apis" };
        format!("{root}/{}", self.api_version)
    }

    fn collection(&self, namespace: &str) -> String {
        match self.namespaced {
            true => format!("{}/namespaces/{namespace}/{}", self.group(), self.plural()),
            false => format!("{}/{}", self.group(), self.plural()),
        }
    }

    /// The selector of what this row makes.
    fn selector(&self) -> String {
        format!("labelSelector=row%3D{}", self.label.replace(' ', "-"))
    }

    fn object(&self, number: usize, namespace: &str) -> Value {
        let text = self.body.to_string().replace('$', &number.to_string()).replace('@', namespace);
        let mut body: Value = serde_json::from_str(&text).unwrap();
        if body.pointer("/metadata/name").is_none() {
            body["metadata"]["name"] = format!("life-{number}").into();
        }
        body["metadata"]["labels"]["row"] = self.label.replace(' ', "-").into();
        body
    }
}

/// An object that is written to in one of the ways.
struct Target<'a> {
    house: &'a House,
    api_version: &'a str,
    kind: &'a str,
    path: String,
}

impl Target<'_> {
    /// Writes what a merge patch says, in another way; the answer.
    async fn write(&self, way: &str, part: &str, change: &Value) -> Answer {
        let path = format!("{}{part}", self.path);
        match way {
            "PUT" => self.put(&path, change).await,
            APPLY => {
                let mut body = change.clone();
                body["apiVersion"] = self.api_version.into();
                body["kind"] = self.kind.into();
                let path = format!("{path}?fieldManager=every-kind&force=true");
                self.house.patch(&path, APPLY, body).await
            }
            JSON_PATCH => {
                let mut whole = self.house.get(&self.path).await.with(200);
                merge(&mut whole, change);
                let operation = |path: &str, value: &Value| json!({ "op": "add", "path": path, "value": value });
                let members = change.as_object().unwrap().keys();
                let members = members.filter(|member| *member != "metadata");
                let mut patch: Vec<Value> = members
                    .map(|member| operation(&format!("/{member}"), &whole[member]))
                    .collect();
                patch.push(operation("/metadata/annotations", &whole["metadata"]["annotations"]));
                self.house.patch(&path, JSON_PATCH, patch.into()).await
            }
            kind => self.house.patch(&path, kind, change.clone()).await,
        }
    }

    /// Replaces what was read, again where somebody was faster.
    async fn put(&self, path: &str, change: &Value) -> Answer {
        loop {
            let mut whole = self.house.get(path).await.with(200);
            merge(&mut whole, change);
            let answer = self.house.put(path, whole).await;
            if answer.code != 409 {
                return answer;
            }
        }
    }
}

/// A merge patch, applied.
fn merge(whole: &mut Value, patch: &Value) {
    let Some(members) = patch.as_object() else {
        *whole = patch.clone();
        return;
    };
    if !whole.is_object() {
        *whole = json!({});
    }
    for (member, value) in members {
        merge(&mut whole[member], value);
    }
}

/// Whether all that is wanted is there; lists may hold more.
fn holds(found: &Value, wanted: &Value) -> bool {
    match wanted {
        Value::Object(members) => members.iter().all(|(name, value)| holds(&found[name], value)),
        Value::Array(wanted) => {
            let found = found.as_array().map(Vec::as_slice).unwrap_or_default();
            wanted.iter().all(|one| found.iter().any(|other| holds(other, one)))
        }
        wanted => found == wanted,
    }
}

/// The entry of a kind in discovery, which lists the group and all that can be done.
async fn discovered(house: &House, row: &Row) -> Value {
    if let Some((group, version)) = row.api_version.split_once('/') {
        let groups = house.get("/apis").await.with(200);
        let versions = json!([{ "name": group, "versions": [{ "version": version }] }]);
        assert!(holds(&groups["groups"], &versions), "{}", row.label);
        let alone = house.get(&format!("/apis/{group}")).await.with(200);
        assert!(holds(&alone, &versions[0]), "{}", row.label);
    }
    let list = house.get(&row.group()).await.with(200);
    let entry = json!({ "name": row.plural(), "namespaced": row.namespaced, "verbs": VERBS });
    let all = list["resources"].as_array().unwrap();
    if !row.status.is_null() {
        let status = format!("{}/status", row.plural());
        let status = json!({ "name": status, "verbs": ["get", "patch", "update"] });
        assert!(holds(&list["resources"], &json!([status])), "{}", row.label);
    }
    let found = all.iter().find(|one| one["name"] == row.plural()).unwrap();
    assert!(row.status_only || holds(found, &entry), "{}: {found}", row.label);
    found.clone()
}

/// Insists that a list has so many objects.
async fn counts(house: &House, path: &str, wanted: usize) {
    house
        .until_looks(path, |list| list["items"].as_array().is_some_and(|it| it.len() == wanted))
        .await;
}

/// Waits until a watch tells this of an object.
async fn tells(stream: &mut Stream, what: &str, wanted: &Value) {
    loop {
        let event = stream.next().await.expect("the watch ended");
        if event["type"] == what && holds(&event["object"], wanted) {
            return;
        }
    }
}

async fn run_through(house: &House, row: &Row) {
    let kind = discovered(house, row).await["kind"].as_str().unwrap().to_owned();
    let (home, selector) = (row.collection("default"), row.selector());
    let listed = format!("{home}?{selector}");
    let everywhere = format!("{}/{}?{selector}", row.group(), row.plural());
    let mut stream = house.watch(&format!("{listed}&watch=1")).await;
    let mut targets = Vec::new();
    for number in 1..=WAYS.len() {
        let made = house.made(&home, row.object(number, "default")).await;
        let path = format!("{home}/{}", name(&made));
        let read = house.get(&path).await.with(200);
        assert_eq!(read["metadata"]["uid"], made["metadata"]["uid"]);
        tells(&mut stream, "ADDED", &json!({ "metadata": { "name": name(&made) } })).await;
        targets.push(Target { house, api_version: row.api_version, kind: &kind, path });
    }
    let mut all = WAYS.len();
    if row.namespaced {
        house.made(&row.collection(ELSEWHERE), row.object(all + 1, ELSEWHERE)).await;
        all += 1;
    }
    counts(house, &listed, WAYS.len()).await;
    counts(house, &everywhere, all).await;

    for (target, way) in targets.iter().zip(WAYS) {
        let said = format!("{} by {way}", row.label);
        let before = house.get(&target.path).await.with(200);
        if !row.refused.is_null() {
            let answer = target.write(way, "", &row.refused).await;
            assert_eq!(answer.code, 422, "{said}: {}", answer.text());
        }
        let mut change = row.change.clone();
        change["metadata"]["annotations"]["way"] = way.into();
        let answer = target.write(way, "", &change).await;
        assert_eq!(answer.code, 200, "{said}: {}", answer.text());
        assert!(holds(&answer.json, &change), "{said}: {}", answer.text());
        assert_ne!(version(&answer.json), version(&before), "{said}");
        tells(&mut stream, "MODIFIED", &change).await;
        write_status(target, row, way, &mut stream).await;
    }

    house.delete(&targets[0].path).await.with(200);
    house.until(&targets[0].path, 404).await;
    tells(&mut stream, "DELETED", &json!({})).await;
    counts(house, &listed, WAYS.len() - 1).await;
    house.delete(&listed).await.with(200);
    for _ in &targets[1..] {
        tells(&mut stream, "DELETED", &json!({})).await;
    }
    counts(house, &listed, 0).await;
    counts(house, &everywhere, all - WAYS.len()).await;
}

/// Writes a status, and insists that the rest of the object stays.
async fn write_status(target: &Target<'_>, row: &Row, way: &str, stream: &mut Stream) {
    if row.status.is_null() {
        return;
    }
    let said = format!("status of {} by {way}", row.label);
    let before = target.house.get(&format!("{}/status", target.path)).await.with(200);
    let mut change = json!({ "status": row.status });
    change["metadata"]["annotations"]["status-by"] = way.into();
    let mut with_spec = change.clone();
    if let Some(spec) = before.get("spec").filter(|_| way == MERGE) {
        // What is no status is passed over.
        with_spec["spec"] = spec.clone();
        merge(&mut with_spec, &row.change);
    }
    let answer = target.write(way, "/status", &with_spec).await;
    assert_eq!(answer.code, 200, "{said}: {}", answer.text());
    let written = answer.json;
    assert!(holds(&written["status"], &row.status), "{said}: {written}");
    assert_eq!(written["spec"], before["spec"], "{said}");
    let annotated = holds(&written, &json!({ "metadata": change["metadata"] }));
    assert_eq!(annotated, row.status_annotates, "{said}: {written}");
    tells(stream, "MODIFIED", &json!({ "status": row.status })).await;
}

/// What only has its status tried here.
async fn run_through_statuses(house: &House, row: &Row) {
    let kind = discovered(house, row).await["kind"].as_str().unwrap().to_owned();
    let home = row.collection("default");
    let mut stream = house.watch(&format!("{home}?{}&watch=1", row.selector())).await;
    for (number, way) in WAYS.iter().enumerate() {
        let made = house.made(&home, row.object(number, "default")).await;
        let path = format!("{home}/{}", name(&made));
        let target = Target { house, api_version: row.api_version, kind: &kind, path };
        write_status(&target, row, way, &mut stream).await;
    }
}

#[tokio::test]
async fn r81_every_kind_runs_through_its_lifecycle() {
    let house = Arc::new(House::new().await);
    let mut failed = Vec::new();
    for row in rows::rows() {
        let (house, label) = (Arc::clone(&house), row.label);
        let went = tokio::spawn(async move {
            match row.status_only {
                true => run_through_statuses(&house, &row).await,
                false => run_through(&house, &row).await,
            }
        });
        // What went wrong is told by the row itself, and the others are tried all the same.
        failed.extend(went.await.err().map(|_| label));
    }
    assert!(failed.is_empty(), "{failed:?}");
    // What is left over all namespaces has the one that the server makes.
    let services = house.get("/api/v1/services").await.with(200);
    assert!(names(&services).contains(&"kubernetes"), "{services}");
}
