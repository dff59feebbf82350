//! Rule R152 of `spec/api-server.md`.

use std::cell::RefCell;

use tenure_rbac::{
    Impersonated, ImpersonationRequest, RequestAttributes, impersonate, service_account,
};

const ASKED: RequestAttributes<'static> = RequestAttributes::Resource {
    verb: "list",
    group: "",
    resource: "pods",
    subresource: "",
    namespace: "shop",
    name: "",
};

/// A question as `verb group/resource/subresource namespace:name`.
fn text(asked: &RequestAttributes<'_>) -> String {
    match *asked {
        RequestAttributes::Resource { verb, group, resource, subresource, namespace, name } => {
            format!("{verb} {group}/{resource}/{subresource} {namespace}:{name}")
        }
        RequestAttributes::Path { verb, path } => format!("{verb} {path}"),
    }
}

#[derive(Default)]
struct Wanted {
    user: &'static str,
    uid: &'static str,
    groups: Vec<String>,
    extra: Vec<(String, String)>,
}

fn named(user: &'static str) -> Wanted {
    Wanted { user, ..Wanted::default() }
}

impl Wanted {
    fn groups(mut self, groups: &[&str]) -> Wanted {
        self.groups = groups.iter().map(|group| (*group).to_owned()).collect();
        self
    }

    fn extra(mut self, pairs: &[(&str, &str)]) -> Wanted {
        let owned = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        self.extra = owned.collect();
        self
    }

    /// As one who holds these rights, on a node.
    fn by(&self, held: &[&str], own_node: Option<&str>) -> Result<Impersonated, String> {
        let Wanted { user, uid, groups, extra } = self;
        let wanted = ImpersonationRequest { user, uid, groups, extra };
        let may = |asked: &RequestAttributes<'_>| held.contains(&text(asked).as_str());
        impersonate(&wanted, &ASKED, own_node, may).map_err(|asked| text(&asked))
    }

    /// Every question that is asked of one who holds all but the old right.
    fn questions(&self) -> Vec<String> {
        let Wanted { user, uid, groups, extra } = self;
        let wanted = ImpersonationRequest { user, uid, groups, extra };
        let questions = RefCell::new(Vec::new());
        let may = |asked: &RequestAttributes<'_>| {
            let old = asked.verb() == "impersonate";
            if !old {
                questions.borrow_mut().push(text(asked));
            }
            !old
        };
        assert!(impersonate(&wanted, &ASKED, None, may).is_ok());
        questions.into_inner()
    }
}

fn came(groups: &[&str], constraint: Option<&'static str>) -> Result<Impersonated, String> {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    Ok(Impersonated { groups, constraint })
}

#[test]
fn r152_every_part_of_an_identity_is_a_right_of_its_own() {
    let mut jane = named("jane").groups(&["devs"]).extra(&[("scopes", "view")]);
    jane.uid = "u-1";
    let rights = [
        "impersonate /users/ :jane",
        "impersonate /groups/ :devs",
        "impersonate authentication.k8s.io/uids/ :u-1",
        "impersonate authentication.k8s.io/userextras/scopes :view",
    ];
    assert_eq!(jane.by(&rights, None), came(&["devs", "system:authenticated"], None));
    for missing in rights {
        let held: Vec<&str> = rights.into_iter().filter(|right| *right != missing).collect();
        assert_eq!(jane.by(&held, None), Err(missing.to_owned()));
    }
}

#[test]
fn r152_a_service_account_brings_its_groups() {
    let web = "system:serviceaccount:shop:web";
    let right = ["impersonate /serviceaccounts/ shop:web"];
    let own = ["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"];
    assert_eq!(named(web).by(&right, None), came(&own, None));
    let held = [right[0], "impersonate /groups/ :g"];
    let claimed = named(web).groups(&["g"]).by(&held, None);
    assert_eq!(claimed, came(&["g", "system:authenticated"], None), "claimed ones replace them");
}

#[test]
fn r152_what_is_no_service_account_is_in_none_of_their_groups() {
    let long = format!("system:serviceaccount:{}:web", "n".repeat(64));
    let longer = format!("system:serviceaccount:shop:{}", "n".repeat(254));
    for user in [
        "system:serviceaccount:shop",
        "system:serviceaccount::web",
        "system:serviceaccount:shop:",
        "system:serviceaccount:shop:web:x",
        "system:serviceaccount:shop:Web",
        "system:serviceaccount:-shop:web",
        "system:serviceaccount:shop.a:web",
        "system:serviceaccount:kube-system:a/b",
        long.leak(),
        longer.leak(),
    ] {
        assert_eq!(service_account(user), None, "{user}");
        let right = format!("impersonate /users/ :{user}");
        assert_eq!(named(user).by(&[&right], None), came(&["system:authenticated"], None));
    }
    assert_eq!(service_account("system:serviceaccount:shop:a.b"), Some(("shop", "a.b")));
}

#[test]
fn r152_nobody_stays_nobody() {
    let right = ["impersonate /users/ :system:anonymous"];
    let anonymous = named("system:anonymous").by(&right, None);
    assert_eq!(anonymous, came(&["system:unauthenticated"], None));
    let held = ["impersonate /users/ :bob", "impersonate /groups/ :system:unauthenticated"];
    let bob = named("bob").groups(&["system:unauthenticated"]).by(&held, None);
    assert_eq!(bob, came(&["system:unauthenticated"], None));
}

#[test]
fn r152_a_limited_right_is_to_an_identity_and_to_a_request() {
    let on = "impersonate-on:user-info:list /pods/ shop:";
    let who = "impersonate:user-info authentication.k8s.io/users/ :bob";
    let limited = Some("impersonate:user-info");
    assert_eq!(named("bob").by(&[on, who], None), came(&["system:authenticated"], limited));
    let refused = Err("impersonate /users/ :bob".to_owned());
    assert_eq!(named("bob").by(&[who], None), refused, "not for this request");
    assert_eq!(named("bob").by(&[on], None), refused, "not as this user");
    assert_eq!(
        named("bob").by(&[on, who, "impersonate /users/ :bob"], None).unwrap().constraint,
        None
    );
    // Groups, uid and extras are rights of their own here too.
    let group = "impersonate:user-info authentication.k8s.io/groups/ :devs";
    let bob = || named("bob").groups(&["devs"]);
    assert!(bob().by(&[on, who], None).is_err());
    assert_eq!(bob().by(&[on, who, group], None), came(&["devs", "system:authenticated"], limited));
}

#[test]
fn r152_a_limited_right_never_leads_to_masters_or_odd_identities() {
    let all_but_old = |wanted: &Wanted| {
        let Wanted { user, uid, groups, extra } = wanted;
        let wanted = ImpersonationRequest { user, uid, groups, extra };
        impersonate(&wanted, &ASKED, None, |asked| asked.verb() != "impersonate").is_ok()
    };
    assert!(all_but_old(&named("bob").groups(&["devs"]).extra(&[("acme.com/team", "x")])));
    for wanted in [
        named("bob").groups(&["system:masters"]),
        named("bob").groups(&["devs", ""]),
        named("bob").extra(&[("scopes", "view")]),
        named("bob").extra(&[("acme.com/Team", "x")]),
        named("bob").extra(&[("acme.com/team", "")]),
        named("bob").extra(&[("acme.com/", "x")]),
        // Accounts and nodes are only who they are.
        named("system:serviceaccount:shop:web").groups(&["devs"]),
        named("system:node:n").groups(&["system:nodes"]),
        named("system:node:n").extra(&[("acme.com/team", "x")]),
    ] {
        assert!(!all_but_old(&wanted), "{} {:?} {:?}", wanted.user, wanted.groups, wanted.extra);
    }
}

#[test]
fn r152_many_groups_or_extras_are_asked_for_at_once() {
    let few = named("bob").groups(&["a", "b", "c"]);
    let asked = few.questions();
    assert!(!asked.iter().any(|question| question.ends_with(":*")), "{asked:?}");
    let many = named("bob").groups(&["a", "b", "c", "d"]).questions();
    assert!(many.contains(&"impersonate:user-info authentication.k8s.io/groups/ :*".to_owned()));
    assert!(!many.iter().any(|question| question.ends_with(":a")), "{many:?}");
    // Who may not be in all groups may still be in each of them.
    let each = ["a", "b", "c", "d"]
        .map(|group| format!("impersonate:user-info authentication.k8s.io/groups/ :{group}"));
    let mut held: Vec<&str> = each.iter().map(String::as_str).collect();
    held.push("impersonate-on:user-info:list /pods/ shop:");
    held.push("impersonate:user-info authentication.k8s.io/users/ :bob");
    assert!(named("bob").groups(&["a", "b", "c", "d"]).by(&held, None).is_ok());
    assert!(named("bob").groups(&["a", "b", "c", "e"]).by(&held, None).is_err());
}

#[test]
fn r152_nodes_and_accounts_have_limited_rights_of_their_own() {
    let node = named("system:node:n1");
    let nodes = ["system:nodes", "system:authenticated"];
    let own = [
        "impersonate-on:associated-node:list /pods/ shop:",
        "impersonate:associated-node authentication.k8s.io/nodes/ :*",
    ];
    let limited = Some("impersonate:associated-node");
    assert_eq!(node.by(&own, Some("n1")), came(&nodes, limited));
    assert!(node.by(&own, Some("n2")).is_err(), "another node than one's own");
    assert!(node.by(&own, None).is_err(), "a caller on no node");
    let any = [
        "impersonate-on:arbitrary-node:list /pods/ shop:",
        "impersonate:arbitrary-node authentication.k8s.io/nodes/ :n1",
    ];
    assert_eq!(node.by(&any, None), came(&nodes, Some("impersonate:arbitrary-node")));
    assert!(named("system:node:n2").by(&any, None).is_err());
    let account = [
        "impersonate-on:serviceaccount:list /pods/ shop:",
        "impersonate:serviceaccount authentication.k8s.io/serviceaccounts/ shop:web",
    ];
    let own = ["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"];
    let web = named("system:serviceaccount:shop:web").by(&account, None);
    assert_eq!(web, came(&own, Some("impersonate:serviceaccount")));
    // The right to users in general is none to accounts or nodes.
    let users = |user: &'static str| {
        let right = format!("impersonate:user-info authentication.k8s.io/users/ :{user}");
        named(user).by(&["impersonate-on:user-info:list /pods/ shop:", &right], None)
    };
    assert!(users("system:serviceaccount:shop:web").is_err());
    assert!(users("system:node:n1").is_err());
    assert!(users("system:node:-").is_ok(), "no node's name");
}
