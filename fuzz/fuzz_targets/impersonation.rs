//! Impersonation headers: whoever may act as nobody stays who they are or is refused, and nobody gets a group that
//! was neither asked for nor follows from the name.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenure_server::authenticate::User;
use tenure_server::fuzzing::RequestHead;

fuzz_target!(|bytes: &[u8]| {
    let head = [b"GET /api\n".as_slice(), bytes].concat();
    let Some(head) = RequestHead::parse(&head) else { return };
    let ordinary = user("alice", "system:authenticated");
    let named = head.header("impersonate-user").into_iter().any(|name| !name.is_empty());
    match head.runs_as(ordinary.clone()) {
        Ok(runs) => {
            assert_eq!(runs, ordinary);
            assert!(!named, "acting as somebody without a right");
        }
        Err(code) => {
            assert!(matches!(code, 400 | 403), "{code}");
            assert!(head.has_header("impersonate-"));
        }
    }
    let administrator = user("root", "system:masters");
    if let Ok(runs) = head.runs_as(administrator.clone()) {
        if runs == administrator {
            return;
        }
        assert!(named);
        assert!(head.header("impersonate-user").contains(&runs.name.as_str()));
        let asked = head.header("impersonate-group");
        for group in &runs.groups {
            assert!(asked.contains(&group.as_str()) || follows(&runs.name, group), "{runs:?}");
        }
        let everybody = ["system:authenticated", "system:unauthenticated"];
        assert!(runs.groups.iter().any(|group| everybody.contains(&group.as_str())), "{runs:?}");
    }
});

fn user(name: &str, group: &str) -> User {
    User { name: name.to_owned(), groups: vec![group.to_owned()], ..User::default() }
}

/// Whether a group comes with a name.
fn follows(name: &str, group: &str) -> bool {
    let account = name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
    match group {
        "system:authenticated" => name != "system:anonymous",
        "system:unauthenticated" => name == "system:anonymous",
        "system:serviceaccounts" => account.is_some_and(well_formed),
        group => account.is_some_and(|(namespace, account)| {
            well_formed((namespace, account))
                && group == format!("system:serviceaccounts:{namespace}")
        }),
    }
}

fn well_formed((namespace, name): (&str, &str)) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let label = |text: &str| {
        text.bytes().all(|byte| plain(byte) || byte == b'-')
            && text.bytes().next().is_some_and(plain)
            && text.bytes().last().is_some_and(plain)
    };
    label(namespace) && name.split('.').all(label)
}
