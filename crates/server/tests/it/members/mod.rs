//! Nothing is accepted and ignored (api-server R255): every member of every built-in kind, generated from
//! the table of types, is written, and either a Warning says that nobody acts on it, or
//! `crates/kinds/members.txt` says who does.

pub mod bases;
mod table;
mod walk;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tenure_kinds::{IGNORED, builtin};
use tenure_machinery::kind::{ActedOn, Kind, Verbs};
use tenure_schema::facts;

use crate::house::{Answer, House, PODS};
use bases::{base, dress, example};
use table::{Entry, Table};
use walk::{Member, members};

const NODES: &str = "/api/v1/nodes";

fn acted_on(row: &Kind) -> bool {
    matches!(row.acted_on, ActedOn::By(_))
}

#[test]
fn r255_every_member_of_every_kind_says_who_acts_on_it() {
    let (table, mut seen) = (Table::read(), BTreeSet::new());
    let mut missing = Vec::new();
    for row in builtin().iter().filter(|row| acted_on(row)) {
        for member in members(&row.type_name, &table) {
            let key = (member.api_type.name, member.field.json);
            if seen.insert(key) && table.get(key).is_none() {
                missing.push(format!("{} {}", key.0, key.1));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "crates/kinds/members.txt does not say who acts on:\n{}",
        missing.join("\n")
    );
    let stale: Vec<_> = table.keys().filter(|key| !seen.contains(key)).collect();
    assert!(stale.is_empty(), "crates/kinds/members.txt has what no kind has: {stale:?}");
}

#[test]
fn r255_who_acts_on_a_member_names_it() {
    let table = Table::read();
    for ((api_type, member), entry) in table.entries() {
        let Entry::By(place) = entry else { continue };
        let text = table::source(place)
            .unwrap_or_else(|| panic!("{api_type} {member}: there is no file {place}"));
        let named = text
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '$'))
            .any(|word| word == *member);
        assert!(named, "{api_type} {member}: {place} does not name it");
    }
}

#[test]
fn r255_what_is_stored_only_is_marked_so_in_both_tables() {
    let table = Table::read();
    for ignored in IGNORED {
        let key = (ignored.type_name, ignored.member);
        assert_eq!(table.get(key), Some(&Entry::StoredOnly), "{key:?}");
        let field = facts().type_id(key.0).and_then(|id| facts().get(id)?.field(key.1));
        assert!(field.is_some(), "{key:?} is no member of the table of types");
    }
    let marked = table.entries().filter(|(_, entry)| **entry == Entry::StoredOnly).count();
    assert_eq!(marked, IGNORED.len());
}

/// Writes an object of a kind as a dry run; reviews are answered and stored nowhere.
async fn write(house: &House, row: &Kind, object: &Value) -> Answer {
    let prefix = match row.group.is_empty() {
        true => format!("/api/{}", row.version),
        false => format!("/apis/{}/{}", row.group, row.version),
    };
    let namespace = if row.namespaced { "/namespaces/default" } else { "" };
    let dry = if row.verbs == Verbs::CreateOnly { "" } else { "?dryRun=All" };
    house.post(&format!("{prefix}{namespace}/{}{dry}", row.plural), object.clone()).await
}

/// The members that the answer warns about as stored only.
fn warned(answer: &Answer) -> Vec<String> {
    let all = answer.headers.get_all("warning").iter();
    let texts = all.map(|value| value.to_str().unwrap_or_default().to_owned());
    texts.filter(|text| text.contains("does not act on it")).collect()
}

#[tokio::test]
async fn r255_a_kind_that_nobody_acts_on_says_so() {
    let house = House::new().await;
    house.made(NODES, json!({"metadata": {"name": "a"}})).await;
    let pod =
        json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    house.made(PODS, pod).await;
    for row in &builtin() {
        let mut object = base(row);
        if row.kind == "Pod" || row.kind == "Node" {
            object["metadata"]["name"] = "b".into();
        }
        let answer = write(&house, row, &object).await;
        assert!([200, 201].contains(&answer.code), "{}: {}", row.kind, answer.json);
        let said = warned(&answer).len();
        assert_eq!(said, usize::from(!acted_on(row)), "{}: {:?}", row.kind, warned(&answer));
    }
}

#[tokio::test]
async fn r255_every_member_that_is_written_is_acted_on_or_warned_about() {
    let house = House::new().await;
    let mut faults = Vec::new();
    let (table, mut written, mut warnings) = (Table::read(), BTreeSet::new(), BTreeSet::new());
    for row in builtin().iter().filter(|row| acted_on(row)) {
        for member in members(&row.type_name, &table) {
            let key = (member.api_type.name, member.field.json);
            let stored_only = table.get(key) == Some(&Entry::StoredOnly);
            // One place is enough for what is acted on; a warning must come from everywhere.
            if !written.insert(key) && !stored_only {
                continue;
            }
            let mut object = base(row);
            match example(&member, &mut object) {
                Some(value) => member.set(&mut object, value),
                None => member.put(&mut object, member.value()),
            }
            dress(&member, &mut object);
            let answer = write(&house, row, &object).await;
            let place = format!("{} {}", row.kind, member.way.join("."));
            faults.extend(fault(&member, stored_only, &answer, &place));
            if stored_only {
                warnings.insert(key);
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert_eq!(warnings.len(), IGNORED.len(), "every member that is stored only was written");
    assert!(written.len() > 1_000, "{} members", written.len());
}

/// What is wrong with the answer to a write of a member.
fn fault(member: &Member, stored_only: bool, answer: &Answer, place: &str) -> Option<String> {
    let warned = warned(answer);
    let about = |text: &String| text.contains(&format!("{}: this server", member.field.json));
    let said = warned.iter().any(about);
    let taken = answer.code < 300;
    // Refused is not accepted and ignored; broken would be neither.
    let judged = taken || [403, 404, 409, 422].contains(&answer.code);
    let why = match (stored_only, said) {
        // They come by a subresource of pods alone.
        (true, _) if !taken && member.way.contains(&"ephemeralContainers") => return None,
        (true, _) if !taken => "is refused, so that nobody sees its warning",
        (true, false) => "is taken in silence",
        (false, true) => "is acted on and warned about",
        _ if !judged => "breaks the server, or is none of its type",
        _ => return None,
    };
    Some(format!("{place} {why}: {} {warned:?} {}", answer.code, answer.json["message"]))
}
