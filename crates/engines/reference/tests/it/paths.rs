//! Rules of spec/referential-authorization.md, section 3: the path dialect.

use serde_json::{Value, json};
use tenure_reference::path::{JsonPath, JsonPathError, Overflow, Warning};
use tenure_reference::*;

use crate::house::*;

fn values(path: &str, object: &Value) -> Vec<Value> {
    let path = JsonPath::parse(path).unwrap_or_else(|error| unreachable!("{path}: {error}"));
    path.evaluate(object).unwrap().into_iter().map(|found| found.value.clone()).collect()
}

fn error(path: &str) -> JsonPathError {
    JsonPath::parse(path).map(|path| path.text().to_owned()).unwrap_err()
}

#[test]
fn r70_selectors_select() {
    let object = json!({ "a": { "b": [1, 2, 3, 4], "c-d": "x", "e.f/g": "y" }, "n": null });
    let rows: [(&str, Value); 22] = [
        ("$.a['c-d']", json!(["x"])),
        (".a.c-d", json!(["x"])),
        ("{.a.c-d}", json!(["x"])),
        (r".a.e\.f/g", json!(["y"])),
        (r#"$["a"]["e.f/g"]"#, json!(["y"])),
        (".a.b[0]", json!([1])),
        (".a.b[-1]", json!([4])),
        (".a.b[9]", json!([])),
        (".a.b[*]", json!([1, 2, 3, 4])),
        (".a.b.*", json!([1, 2, 3, 4])),
        (".a.b[1:3]", json!([2, 3])),
        (".a.b[::2]", json!([1, 3])),
        (".a.b[::-1]", json!([4, 3, 2, 1])),
        (".a.b[2:100]", json!([3, 4])),
        (".a.b[::0]", json!([])),
        (".a.b[0, 2,-1]", json!([1, 3, 4])),
        (".a.b[?(@ > 2)]", json!([3, 4])),
        (".a.b[?@ <= 2 || @ == 4.0]", json!([1, 2, 4])),
        (".a.b.c", json!([])),
        (".n", json!([null])),
        (".n.x", json!([])),
        (r#".a["\u0063-d"]"#, json!(["x"])),
    ];
    for (path, expected) in rows {
        assert_eq!(Value::from(values(path, &object)), expected, "{path}");
    }
}

#[test]
fn r70_filters_compare_as_the_rfc_says() {
    let object = json!({
        "want": "b",
        "list": [
            { "k": "a", "n": 1 }, { "k": "b", "n": 2, "x": null }, { "n": 3, "in": [{ "z": 1 }] },
            { "k": ["b"], "n": 4 }, "text",
        ],
    });
    let numbers =
        |filter: &str| -> Vec<Value> { values(&format!(".list[?({filter})].n"), &object) };
    let rows: [(&str, &[i32]); 14] = [
        ("@.k == 'b'", &[2]),
        ("@.k == $.want", &[2]),
        ("@.k != 'b'", &[1, 3, 4]),
        ("@.k && @.k != 'b'", &[1, 4]),
        ("!@.k", &[3]),
        ("!(@.k == 'a')", &[2, 3, 4]),
        ("@.x", &[2]),
        ("@.x == null", &[2]),
        ("@.k == @.missing", &[3]),
        ("@.n >= 2 && @.n < 4", &[2, 3]),
        ("@.in[?(@.z == 1)]", &[3]),
        ("@.k < 'b'", &[1]),
        ("@.k == true || (@.n == 1)", &[1]),
        ("@['k'] == \"a\"", &[1]),
    ];
    for (filter, expected) in rows {
        let found = numbers(filter);
        let found: Vec<i64> = found.iter().filter_map(Value::as_i64).collect();
        let expected: Vec<i64> = expected.iter().map(|n| i64::from(*n)).collect();
        assert_eq!(found, expected, "{filter}");
    }
    // Whole values are the same whatever the order of their members.
    let same = json!({ "l": [{ "a": { "x": 1, "y": [2] }, "b": { "y": [2], "x": 1.0 }, "n": 1 }] });
    assert_eq!(values(".l[?(@.a == @.b)].n", &same), [json!(1)]);
}

#[test]
fn r23_what_does_not_parse_says_where_and_what_was_expected() {
    let rows = [
        ("", 0, "`$`, `.` or `[`"),
        ("spec", 0, "`$`, `.` or `[`"),
        ("@.spec", 0, "`$`, `.` or `[`"),
        ("$..name", 2, "a member; `..` is not supported"),
        (".spec.", 6, "a member or `*`"),
        (".spec[", 6, "a quoted member, `*`, a number or `?`"),
        (".a[01]", 3, "a whole number"),
        (".a['x]", 6, "the closing quote"),
        (".a[?(@.b == 'c']", 15, "`&&`, `||` or `)`"),
        (".a[?(@.b & @.c)]", 9, "`&&`, `||` or `)`"),
        (".a[?(length(@.b) > 1)]", 5, "`@`, `$` or a literal; functions are not supported"),
        (".a[?('x')]", 8, "a comparison"),
        (".a[?(@.* == 1)]", 13, "a comparison of single values"),
        (".a[?(@[?(@[?(@.x)])])]", 12, "no filter here: two may stand in one another"),
        ("{.a", 3, "`.`, `[` or `}`"),
        (".a}", 2, "`.`, `[` or the end"),
        (".a b", 2, "`.`, `[` or the end"),
        ("{range .items[*]}", 1, "`$`, `.` or `[`"),
    ];
    for (path, offset, expected) in rows {
        assert_eq!(error(path), JsonPathError { offset, expected }, "{path}");
    }
    assert_eq!(error("$..x").to_string(), "at byte 2: expected a member; `..` is not supported");
}

#[test]
fn r24_singular_paths_are_told_from_others() {
    for (path, singular) in [
        (".spec.gatewayClassName", true),
        ("$['a'][0]", true),
        (".a[*]", false),
        (".a.*", false),
        (".a[0:1]", false),
        (".a['x','y']", false),
        (".a[?(@.x)]", false),
    ] {
        assert_eq!(JsonPath::parse(path).unwrap().is_singular(), singular, "{path}");
    }
}

#[test]
fn r33_r71_double_bracket_is_normalised() {
    let plain = "$.spec.listeners[*].tls.certificateRefs[?(@.group=='' && @.kind=='Secret')].name";
    let closed_twice =
        "$.spec.listeners[*].tls.certificateRefs[[?(@.group=='' && @.kind=='Secret')]].name";
    for written in [SEED_PATH, closed_twice] {
        let path = JsonPath::parse(written).unwrap();
        assert_eq!(path.text(), plain);
        assert_eq!(path.warnings(), [Warning::ExtraBracket { read_as: plain.into() }]);
        assert_eq!(
            path.warnings()[0].to_string(),
            format!("the path has an extra `[`; it is read as `{plain}`")
        );
    }
    assert_eq!(JsonPath::parse(plain).unwrap().warnings(), []);
    assert_eq!(JsonPath::parse("{$.a[[?(@.b)]}").unwrap().text(), "$.a[?(@.b)]");
    assert_eq!(JsonPath::parse(".a[?(@.b[[?(@.c)]])].d").unwrap().text(), ".a[?(@.b[?(@.c)])].d");
    assert_eq!(JsonPath::parse(".a[?@.b[[?(@.c)]].d").unwrap().text(), ".a[?@.b[?(@.c)]].d");
}

#[test]
fn double_bracket_is_normalised() {
    r33_r71_double_bracket_is_normalised();
}

#[test]
fn r41_an_inequality_without_a_test_of_existence_is_told() {
    let member = |path: &str| match JsonPath::parse(path).unwrap().warnings() {
        [Warning::MissingMatches { member }] => Some(member.clone()),
        [] => None,
        other => unreachable!("{other:?}"),
    };
    assert_eq!(member(".a[?(@.kind!='x')]").as_deref(), Some("@.kind"));
    assert_eq!(member(".a[?(@.kind && @.kind!='x')]"), None);
    assert_eq!(member(".a[?(!@.kind || @.kind!='x')]"), None);
    assert_eq!(member(".a[?(@.kind=='x')]"), None);
    assert_eq!(member(".a[?(@.b && @.kind!='x')]").as_deref(), Some("@.kind"));
}

#[test]
fn r72_limits_hold() {
    let long = format!(".{}", "a".repeat(1023));
    assert!(JsonPath::parse(&long).is_ok());
    assert_eq!(error(&format!("{long}a")).expected, "at most 1024 bytes");
    assert!(JsonPath::parse(&".a".repeat(32)).is_ok());
    assert_eq!(error(&".a".repeat(33)).expected, "at most 32 segments");
    let terms = |count: usize| format!("$[?({})]", vec!["@ == 1"; count].join("||"));
    assert!(JsonPath::parse(&terms(16)).is_ok());
    assert_eq!(error(&terms(17)).expected, "at most 16 terms in filters");
    assert!(JsonPath::parse(&format!("$[?{}@.a{}]", "(".repeat(200), ")".repeat(200))).is_err());
    // 64 listeners with 64 certificates each are allowed; ten thousand are not.
    let listener = |count: usize| json!({ "refs": vec![json!({ "name": "s" }); count] });
    let path = JsonPath::parse(".spec[*].refs[*].name").unwrap();
    assert_eq!(path.evaluate(&json!({ "spec": vec![listener(64); 64] })).unwrap().len(), 4096);
    let many = json!({ "spec": [listener(10_000)] });
    assert_eq!(path.evaluate(&many).unwrap_err(), Overflow::Results);
    let wide = json!(vec![vec![1; 400]; 400]);
    let explode = JsonPath::parse("$[*][*].x").unwrap();
    assert_eq!(explode.evaluate(&wide).unwrap_err(), Overflow::Visited);
    let union = format!("$[{}][*].x", vec!["*"; 400].join(","));
    assert_eq!(JsonPath::parse(&union).unwrap().evaluate(&wide).unwrap_err(), Overflow::Visited);
    let whole = JsonPath::parse("$[?(@ == $[0])]").unwrap();
    assert_eq!(whole.evaluate(&wide).unwrap_err(), Overflow::Visited);
}

#[test]
fn r72_an_object_that_is_too_large_has_no_edges_of_that_path_and_is_reported() {
    let mut house = House::story();
    let many: Vec<(String, &str)> = (0..10_000).map(|n| (format!("s{n}"), "")).collect();
    let many: Vec<(&str, &str)> =
        many.iter().map(|(name, place)| (name.as_str(), *place)).collect();
    house.gateway("prod", "huge", "contour", &many);
    assert!(!house.may("prod", "s0"));
    let report = house.out.reports.last().unwrap();
    assert_eq!((&*report.name, &report.failed), ("huge", &Failed::TooMuch(Overflow::Results)));
    assert_eq!(house.index.stats().overflows, 1);
    house.gateway("prod", "huge", "contour", &many[..4096]);
    assert!(house.may("prod", "s0") && house.may("prod", "s4095"));
    assert!(house.may("prod-tls", "acme-tls"));
}

#[test]
fn r73_wrong_types_give_nothing() {
    let mut house = House::story();
    for spec in
        [json!(null), json!(7), json!([1]), json!({ "listeners": { "tls": [] } }), json!("x")]
    {
        house.origin("gateways", "prod", "odd", spec);
    }
    let verdict = house.check(("prod", "odd"), ("prod", "x"));
    assert_eq!(verdict, Verdict::NotAReference);
}

fn references(path: Value, spec: Value) -> Vec<(String, String)> {
    let object = json!({ "spec": spec.clone(), "metadata": spec });
    let strategy = json!({
        "metadata": { "name": "s" }, "origin": { "group": GATEWAYS, "resource": "gateways" },
        "versions": [{ "version": "v1", "references": [path] }],
    });
    let strategy = Strategy::from_object(strategy.as_object().unwrap()).unwrap();
    let origin = Obj { group: GATEWAYS, resource: "gateways", namespace: "local", name: "o" };
    let (served, strategies) = (served(&["v1"]), [strategy]);
    let found = references_of(&served, &strategies, &origin, &object, &NoExpressions);
    found.into_iter().map(|found| (found.name, found.namespace)).collect()
}

#[test]
fn path_vectors() {
    let secret = |name: &str| json!({ "group": "", "kind": "Secret", "name": name });
    let mut elsewhere = secret("b");
    elsewhere["namespace"] = json!("q");
    let config = json!({ "group": "", "kind": "ConfigMap", "name": "c" });
    let listeners = json!({ "listeners": [
        { "tls": { "certificateRefs": [secret("a"), config] } },
        { "tls": { "certificateRefs": [elsewhere] } },
    ] });
    type Row<'a> = (Value, &'a str, &'a [(&'a str, &'a str)]);
    let rows: [Row<'_>; 10] = [
        (listeners, SEED_PATH, &[("a", "local"), ("b", "q")]),
        (
            json!({ "tls": [{ "hosts": ["h"], "secretName": "s" }] }),
            "$.spec.tls[*].secretName",
            &[("s", "local")],
        ),
        (json!({ "secretName": "s", "namespace": "other" }), ".spec.secretName", &[("s", "local")]),
        (
            json!({ "ref": { "name": "s", "namespace": "other" } }),
            ".spec.ref.name",
            &[("s", "other")],
        ),
        (json!({ "ref": { "name": "s", "namespace": "" } }), ".spec.ref.name", &[("s", "local")]),
        (
            json!({ "ref": { "name": "s", "namespace": null } }),
            ".spec.ref['name']",
            &[("s", "local")],
        ),
        (json!({ "ref": { "name": 7 } }), ".spec.ref.name", &[]),
        (json!({ "ref": null }), ".spec.ref.name", &[]),
        (
            json!({ "annotations": { "a.b/c": "s" } }),
            r".metadata.annotations.a\.b/c",
            &[("s", "local")],
        ),
        (
            json!({ "annotations": { "a.b/c": "s" } }),
            ".metadata.annotations['a.b/c']",
            &[("s", "local")],
        ),
    ];
    for (spec, path, expected) in rows {
        let found = references(secret_path(path), spec);
        let found: Vec<(&str, &str)> =
            found.iter().map(|(n, ns)| (n.as_str(), ns.as_str())).collect();
        assert_eq!(found, expected, "{path}");
    }
}

#[test]
fn r74_an_object_is_a_reference_only_to_its_own_kind() {
    let whole =
        |reference: Value| references(secret_path(".spec.ref"), json!({ "ref": reference }));
    assert_eq!(whole(json!({ "name": "s" })), [("s".into(), "local".into())]);
    assert_eq!(whole(json!({ "name": "s", "namespace": "q", "kind": "Secret" }))[0].1, "q");
    assert_eq!(
        whole(json!({ "name": "s", "group": "", "apiGroup": null, "kind": "Secret" })).len(),
        1
    );
    for other in [
        json!({ "name": "s", "kind": "ConfigMap" }),
        json!({ "name": "s", "kind": "secrets" }),
        json!({ "name": "s", "group": "x", "kind": "Secret" }),
        json!({ "name": "s", "apiGroup": "x" }),
        json!({ "name": "s", "kind": 7 }),
        json!({ "kind": "Secret" }),
        json!(["s"]),
        json!(true),
    ] {
        assert_eq!(whole(other.clone()), [], "{other}");
    }
}

#[test]
fn r75_the_origins_own_namespace_is_local() {
    let mut house = House::story();
    house.gateway("prod", "web", "contour", &[("s", "prod")]);
    assert_eq!(
        house.check(("prod", "web"), ("prod", "s")),
        Verdict::Local { strategy: "gateways" }
    );
}

#[test]
fn r76_names_that_cannot_be_asked_for_are_dropped_and_counted() {
    let long = "x".repeat(254);
    for name in ["", ".", "..", "a/b", "a%b", &long] {
        assert_eq!(references(secret_path(".spec.s"), json!({ "s": name })), [], "{name}");
    }
    for namespace in ["Upper", "a.b", "-a", "a/b", &"n".repeat(64)] {
        let spec = json!({ "r": { "name": "s", "namespace": namespace } });
        assert_eq!(references(secret_path(".spec.r.name"), spec), [], "{namespace}");
    }
    let mut house = House::story();
    house.gateway("prod", "bad", "contour", &[("a/b", ""), ("ok", "Upper"), ("fine", "")]);
    let dropped = house.index.stats().dropped;
    let count = |label: &str| dropped.iter().find(|(known, _)| *known == label).unwrap().1;
    assert_eq!((count("invalid_name"), count("invalid_namespace")), (1, 1));
    assert!(house.may("prod", "fine"));
}

#[test]
fn r77_a_missing_group_matches_only_what_tests_for_it() {
    let spec = json!({ "refs": [{ "kind": "X", "name": "a" }, { "apiGroup": "", "kind": "X", "name": "b" }] });
    let strict = secret_path(".spec.refs[?(@.apiGroup=='' && @.kind=='X')].name");
    let tolerant =
        secret_path(".spec.refs[?((!@.apiGroup || @.apiGroup=='') && @.kind=='X')].name");
    assert_eq!(references(strict, spec.clone()).len(), 1);
    assert_eq!(references(tolerant, spec).len(), 2);
}

#[test]
fn r78_a_namespace_may_be_elsewhere() {
    let spec =
        json!({ "ref": { "secretName": "s", "secretNamespace": "q" }, "place": "r", "odd": 7 });
    let with = |path: &str| {
        let mut entry = secret_path(".spec.ref.secretName");
        entry["namespacePath"] = json!(path);
        references(entry, spec.clone())
    };
    assert_eq!(with("@.secretNamespace"), [("s".into(), "q".into())]);
    assert_eq!(with("$.spec.place"), [("s".into(), "r".into())]);
    assert_eq!(with("@.missing"), [("s".into(), "local".into())]);
    assert_eq!(with("$.spec.odd"), [("s".into(), "local".into())]);
    assert!(JsonPath::parse_relative(".a").is_err() && JsonPath::parse_relative("@[*]").is_err());
}

struct Canned(Result<Value, String>);

impl Expressions for Canned {
    fn evaluate(&self, _: &str, _: &Value, _: &mut u64) -> Result<Value, String> {
        self.0.clone()
    }
}

#[test]
fn r79_expressions_give_names_or_maps_flattened_once() {
    let strategy = json!({
        "metadata": { "name": "s" }, "origin": { "group": GATEWAYS, "resource": "gateways" },
        "versions": [{ "version": "v1", "references": [{
            "expression": "self.x", "target": { "group": "", "resource": "secrets" }, "purpose": "p",
        }] }],
    });
    let strategy = [Strategy::from_object(strategy.as_object().unwrap()).unwrap()];
    let origin = Obj { group: GATEWAYS, resource: "gateways", namespace: "local", name: "o" };
    let run = |value: Result<Value, String>| {
        let served = served(&["v1"]);
        let found = references_of(&served, &strategy, &origin, &json!({}), &Canned(value));
        found
            .into_iter()
            .map(|found| format!("{}/{}", found.namespace, found.name))
            .collect::<Vec<_>>()
    };
    let given = json!(["a", [{ "name": "b", "namespace": "q" }, { "name": "c" }], 7, [["deep"]]]);
    assert_eq!(run(Ok(given)), ["local/a", "q/b", "local/c"]);
    assert!(run(Ok(json!({ "name": "no list" }))).is_empty());
    assert!(run(Ok(json!(vec!["x"; 8_193]))).is_empty());
    assert!(run(Err("no such key".into())).is_empty());
    let mut index = Index::new(1).with_expressions(std::sync::Arc::new(Canned(Err("no".into()))));
    let mut out = Outputs::default();
    index.apply(IndexEvent::Served(served(&["v1"])), &mut out);
    index.apply(IndexEvent::PutStrategy(strategy[0].clone()), &mut out);
    let name = OriginName { group: GATEWAYS, resource: "gateways", namespace: "n", name: "o" };
    index
        .apply(IndexEvent::PutOrigin(Origin { name, version: "v1", object: &json!({}) }), &mut out);
    assert_eq!(out.reports[0].failed, Failed::Expression("no".into()));
}

#[test]
fn d14_the_seeds_gaps_are_closed_by_compound_filters_and_the_root() {
    let object =
        json!({ "spec": { "want": "a", "refs": [{ "name": "a", "k": 1 }, { "name": "b" }] } });
    assert_eq!(values(".spec.refs[?(@.name==$.spec.want && @.k)].name", &object), [json!("a")]);
}
