//! What is put into texts of kubeconfigs and taken out again. Rules of spec/api-server.md.

use super::*;

fn access(server: &str) -> KubeconfigEntries<'_> {
    KubeconfigEntries {
        user: "tenure-admin",
        server,
        authority_pem: "CA",
        certificate_pem: "CRT",
        key_pem: "KEY",
    }
}

fn read(text: &str) -> Value {
    Value::Object(config(text).unwrap())
}

/// As kubectl writes it: sorted, without comments.
const OTHERS: &str = "\
apiVersion: v1
clusters:
- cluster:
    server: https://other
  name: other
contexts:
- context:
    cluster: other
    namespace: shop
    user: me
  name: other
current-context: other
kind: Config
preferences: {}
users:
- name: me
  user:
    token: \"0123\"
";

#[test]
fn the_text_is_this() {
    let expected = "\
# `tenure up` keeps the entries of this file that are its own; yours stay.
apiVersion: v1
kind: Config
clusters:
- name: tenure
  cluster:
    server: https://127.0.0.1:6443
    certificate-authority-data: Q0E=
    extensions:
    - name: tenure.dev
      extension:
        provider: tenure.dev
users:
- name: tenure-admin
  user:
    client-certificate-data: Q1JU
    client-key-data: S0VZ
    extensions:
    - name: tenure.dev
      extension:
        provider: tenure.dev
contexts:
- name: tenure
  context:
    cluster: tenure
    user: tenure-admin
current-context: tenure
";
    assert_eq!(render(access("https://127.0.0.1:6443")), expected);
}

#[test]
fn r179a_what_kubectl_wrote_into_our_file_stays() {
    let mut edited = read(&render(access("https://a")));
    edited["contexts"][0]["context"]["namespace"] = json!("x");
    edited["preferences"] = json!({ "colors": true });
    let text = tenure_yaml::from_json(&edited);
    let after = read(&put(&text, access("https://b")).unwrap());
    edited["clusters"][0]["cluster"]["server"] = json!("https://b");
    assert_eq!(after, edited);
}

#[test]
fn r179a_others_stay_and_the_context_becomes_current_once() {
    let first = put(OTHERS, access("https://a")).unwrap();
    let merged = read(&first);
    assert_eq!(merged["current-context"], "tenure");
    assert_eq!(merged["users"][0], read(OTHERS)["users"][0]);
    assert_eq!(names(merged.as_object().unwrap(), "contexts"), ["other", "tenure"]);
    // Whoever goes back to another context is not called away again.
    let back = first.replace("current-context: tenure", "current-context: other");
    let again = read(&put(&back, access("https://b")).unwrap());
    assert_eq!(again["current-context"], "other");
    assert_eq!(again["clusters"][1]["cluster"]["server"], "https://b");
    // One that leads nowhere is nobody's choice.
    let nowhere = first.replace("current-context: tenure", "current-context: gone");
    assert_eq!(read(&put(&nowhere, access("https://b")).unwrap())["current-context"], "tenure");
}

#[test]
fn r179a_what_was_put_in_is_taken_out() {
    let merged = put(OTHERS, access("https://a")).unwrap();
    let EntryRemoval::Left(left) = take(&merged, None).unwrap() else { panic!("{merged}") };
    let mut expected = read(OTHERS);
    expected["current-context"] = json!("");
    assert_eq!(read(&left), expected);
    assert_eq!(take(&left, None), Ok(EntryRemoval::NotThere));
    assert_eq!(take(&render(access("https://a")), None), Ok(EntryRemoval::NothingLeft));
    assert_eq!(take(&merged, Some("https://b")), Ok(EntryRemoval::AnotherServer));
    assert_eq!(take("", None), Ok(EntryRemoval::NotThere));
}

#[test]
fn r179a_a_former_version_made_this_file() {
    let former = render(access("https://a")).replace(MARK, FORMER_MARK);
    assert_eq!(put(&former, access("https://b")), Ok(render(access("https://b"))));
    let edited =
        former.replace("    user: tenure-admin", "    user: tenure-admin\n    namespace: x");
    let after = put(&edited, access("https://b")).unwrap();
    assert!(after.starts_with(MARK), "{after}");
    assert_eq!(read(&after)["contexts"][0]["context"]["namespace"], "x");
}

#[test]
fn r179a_empty_lists_as_kubectl_writes_them() {
    let text = "apiVersion: v1\nclusters: null\ncontexts: null\ncurrent-context: \"\"\nkind: Config\nusers: null\n";
    let after = read(&put(text, access("https://a")).unwrap());
    assert_eq!(after["current-context"], "tenure");
    assert!(put("# only a comment\n", access("https://a")).is_ok());
}

#[test]
fn r179a_what_is_something_else_is_told() {
    for (text, why) in [
        ("hello", "it is no mapping of names to values"),
        ("apiVersion: v1\n", "it has neither clusters, users nor contexts"),
        ("kind: Pod\n", "its kind is not `Config`"),
        ("kind: Config\nusers: {}\n", "its clusters, users and contexts are not lists of entries"),
    ] {
        assert_eq!(check(text).unwrap_err().to_string(), why, "{text}");
    }
    assert!(matches!(check("a: [\n"), Err(NotAKubeconfig::NoYaml(_))));
}

#[test]
fn r179a_what_others_call_tenure_is_neither_overwritten_nor_taken_out() {
    for (from, to, taken) in [
        ("name: other\ncontexts", "name: tenure\ncontexts", "a cluster `tenure`"),
        ("name: me\n", "name: tenure-admin\n", "a user `tenure-admin`"),
        ("name: other\ncurrent", "name: tenure\ncurrent", "a context `tenure`"),
    ] {
        let text = OTHERS.replace(from, to);
        assert_ne!(text, OTHERS, "{from}");
        assert_eq!(put(&text, access("https://a")), Err(NotAKubeconfig::Taken(taken.to_owned())));
        for server in [None, Some("https://a")] {
            let left = take(&text, server);
            assert!(
                matches!(left, Ok(EntryRemoval::NotThere | EntryRemoval::AnotherServer)),
                "{left:?}"
            );
        }
    }
    // An older release marked nothing: its authority or its server says whose it is.
    let mark =
        "    extensions:\n    - name: tenure.dev\n      extension:\n        provider: tenure.dev\n";
    let former = put(OTHERS, access("https://a")).unwrap();
    let mut former = read(&former);
    for (list, member) in [("clusters", "cluster"), ("users", "user")] {
        former[list][1][member].as_object_mut().unwrap().remove("extensions").unwrap();
    }
    let former = tenure_yaml::from_json(&former);
    assert!(put(&former, access("https://b")).unwrap().contains("tenure.dev"));
    assert!(matches!(take(&former, Some("https://a")), Ok(EntryRemoval::Left(_))));
    let whole = render(access("https://a"));
    assert_eq!(put(&whole.replace(mark, ""), access("https://b")), Ok(render(access("https://b"))));
    // Another server of ours on this machine gives way, as it always did.
    let other = KubeconfigEntries { authority_pem: "ANOTHER", ..access("https://b") };
    assert!(put(&put(OTHERS, access("https://a")).unwrap(), other).is_ok());
}
