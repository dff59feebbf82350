//! Random rules: against kube-cel where both know the language, and against nothing but the wish that
//! no text and no data end the process. After spec/dependencies.md 1.5.

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use tenure_cel::{Bindings, CostBudget, DeclaredType, Env, OldSelf, Value, compile, compile_rule};

use crate::support::{list, map, object};

fn schema() -> Json {
    object(json!({
        "i": {"type": "integer"},
        "j": {"type": "integer"},
        "s": {"type": "string"},
        "t": {"type": "string"},
        "l": list(json!({"type": "integer"})),
        "w": list(json!({"type": "string"})),
        "m": map(json!({"type": "integer"})),
        "o": object(json!({"x": {"type": "integer"}})),
    }))
}

fn data() -> impl Strategy<Value = Json> {
    let text = "[ab1 .-]{0,6}";
    (
        -5..6i64,
        -5..6i64,
        text,
        text,
        prop::collection::vec(-3..4i64, 0..5),
        prop::collection::vec("[ab]{0,2}", 0..4),
        prop::collection::btree_map("[ab]", -3..4i64, 0..3),
        prop::option::of(-3..4i64),
    )
        .prop_map(|(i, j, s, t, l, w, m, x)| {
            let o = x.map_or(json!({}), |x| json!({"x": x}));
            json!({"i": i, "j": j, "s": s, "t": t, "l": l, "w": w, "m": m, "o": o})
        })
}

fn number() -> BoxedStrategy<String> {
    let leaf = prop_oneof![
        (-4..5i64).prop_map(|n| n.to_string()),
        Just("self.i".to_owned()),
        Just("self.j".to_owned()),
        Just("self.o.x".to_owned()),
        Just("size(self.s)".to_owned()),
        Just("self.l.size()".to_owned()),
        Just("self.l[0]".to_owned()),
        Just("self.m['a']".to_owned()),
        Just("self.l.sum()".to_owned()),
        Just("self.s.indexOf('a')".to_owned()),
        Just("self.w.indexOf('a')".to_owned()),
    ];
    leaf.prop_recursive(2, 8, 2, |inner| {
        prop_oneof![
            (inner.clone(), prop::sample::select(vec!["+", "-", "*", "/", "%"]), inner.clone())
                .prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            inner.prop_map(|a| format!("-({a})")),
        ]
    })
    .boxed()
}

fn text() -> BoxedStrategy<String> {
    let leaf = prop_oneof![
        Just("self.s".to_owned()),
        Just("self.t".to_owned()),
        Just("'ab'".to_owned()),
        Just("''".to_owned()),
        Just("self.w.join('-')".to_owned()),
    ];
    leaf.prop_recursive(2, 6, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} + {b})")),
            inner.clone().prop_map(|a| format!("{a}.upperAscii()")),
            inner.clone().prop_map(|a| format!("{a}.trim()")),
            inner.clone().prop_map(|a| format!("{a}.replace('a', 'bb')")),
            inner.clone().prop_map(|a| format!("{a}.find('[0-9]+')")),
            inner.prop_map(|a| format!("{a}.substring(1)")),
        ]
    })
    .boxed()
}

fn truth() -> BoxedStrategy<String> {
    let order = prop::sample::select(vec!["<", "<=", ">", ">=", "==", "!="]);
    let leaf = prop_oneof![
        (number(), order.clone(), number()).prop_map(|(a, op, b)| format!("{a} {op} {b}")),
        (text(), order, text()).prop_map(|(a, op, b)| format!("{a} {op} {b}")),
        (text(), text()).prop_map(|(a, b)| format!("{a}.contains({b})")),
        (text(), text()).prop_map(|(a, b)| format!("{a}.startsWith({b})")),
        text().prop_map(|a| format!("{a}.matches('^[ab]+$')")),
        number().prop_map(|a| format!("({a}) in self.l")),
        text().prop_map(|a| format!("({a}) in self.m")),
        Just("has(self.o.x)".to_owned()),
        Just("has(self.m.a)".to_owned()),
        Just("self.l.isSorted()".to_owned()),
        number().prop_map(|a| format!("self.l.all(e, e < {a})")),
        number().prop_map(|a| format!("self.l.exists(e, e == {a})")),
        number().prop_map(|a| format!("self.l.exists_one(e, e == {a})")),
        number().prop_map(|a| format!("self.l.filter(e, e > {a}).size() > 1")),
        number().prop_map(|a| format!("self.l.map(e, e + {a}) == self.l")),
        text().prop_map(|a| format!("self.w.all(e, e != {a})")),
        Just("sets.contains(self.w, ['a'])".to_owned()),
        text().prop_map(|a| format!("isIP({a})")),
    ];
    leaf.prop_recursive(3, 12, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} && {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} || {b})")),
            inner.clone().prop_map(|a| format!("!({a})")),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
        ]
    })
    .boxed()
}

/// What this crate says: a verdict, or nothing when the rule fails on the data.
fn ours(rule: &str, data: &Json) -> Option<bool> {
    let shape = DeclaredType::from_schema(&schema(), false).expect("a schema rules can see");
    let program = compile_rule(rule, &Env::for_rule(&shape, OldSelf::Absent)).expect(rule);
    let value = Value::from_json(data, &shape).expect("data that fits");
    let made = program.eval(&Bindings::new().bind("self", value), &mut CostBudget::for_object());
    made.ok().and_then(|v| v.as_bool())
}

/// What kube-cel says, in the same terms.
fn theirs(rule: &str, data: &Json) -> Option<bool> {
    let mut schema = schema();
    schema["x-kubernetes-validations"] = json!([{"rule": rule}]);
    let errors = kube_cel::Validator::new().validate(&schema, data, None);
    match errors {
        Ok(()) => Some(true),
        Err(errors) => {
            let refuted =
                |e: &kube_cel::ValidationError| e.kind == kube_cel::ErrorKind::ValidationFailure;
            errors.as_slice().iter().all(refuted).then_some(false)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// Where both have a verdict it is the same, and what fails here passes nowhere.
    #[test]
    fn r18_verdicts_equal_those_of_the_oracle(rule in truth(), data in data()) {
        match (ours(&rule, &data), theirs(&rule, &data)) {
            (Some(ours), Some(theirs)) => prop_assert_eq!(ours, theirs, "{}\n{}", rule, data),
            (None, Some(_)) => prop_assert!(false, "only we fail: {}\n{}", rule, data),
            _ => {}
        }
    }
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        ".{0,8}".prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Json::from),
            prop::collection::btree_map("[ijstlwmox]", inner, 0..5)
                .prop_map(|m| Json::Object(m.into_iter().collect())),
        ]
    })
}

/// Words that rules are made of, in no order.
fn soup() -> impl Strategy<Value = String> {
    let words = vec![
        "self",
        "oldSelf",
        ".",
        ".",
        ".?",
        "i",
        "s",
        "l",
        "m",
        "o",
        "x",
        "[",
        "]",
        "[?",
        "(",
        ")",
        "{",
        "}",
        ":",
        ",",
        "+",
        "-",
        "*",
        "/",
        "%",
        "==",
        "!=",
        "<",
        "<=",
        "&&",
        "||",
        "!",
        "?",
        "in",
        "1",
        "-1",
        "1u",
        "2.5",
        "'a'",
        "\"b\"",
        "b'c'",
        "r'd'",
        "true",
        "false",
        "null",
        "size",
        "has",
        "all",
        "exists",
        "map",
        "filter",
        "x,",
        "e",
        "all(e,",
        "map(e,",
        "transformMap(k,v,",
        "sortBy(e,",
        "optMap(v,",
        "cel.bind(v,",
        "matches('a')",
        "split('')",
        "join()",
        "format([1])",
        "type(",
        "string(",
        "int(",
        "dyn(",
        "duration(",
        "timestamp(",
        "quantity(",
        "ip(",
        "url(",
        "semver(",
        "getHours()",
        "reverse()",
        "sort()",
        "flatten()",
        "distinct()",
        "sum()",
        "min()",
        "first()",
        "value()",
        "orValue(1)",
        "optional.of(",
        "optional.none()",
        "lists.range(3)",
        "sets.contains(",
        "math.greatest(",
        "strings.quote(",
        "indexOf('a')",
        "substring(1)",
        "replace('','b')",
        "charAt(0)",
        "format.uri()",
        "validate(",
        "\u{1f451}",
        "'\\u00e9'",
        "`a-b`",
        "//",
        "\n",
    ];
    prop::collection::vec(prop::sample::select(words), 0..14).prop_map(|w| w.concat())
}

fn survive(rule: &str, data: &Json) {
    let typed = DeclaredType::from_schema(&schema(), false).expect("a schema rules can see");
    for shape in [typed, DeclaredType::any()] {
        let env = Env::for_rule(&shape, OldSelf::Optional);
        let Ok(program) = compile(rule, &env) else { continue };
        let Ok(value) = Value::from_json(data, &shape) else { continue };
        let bindings = Bindings::new().bind("self", value).bind("oldSelf", Value::Optional(None));
        let mut budget = CostBudget::for_object();
        // The result does not matter; that there is one does.
        drop(program.eval(&bindings, &mut budget));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn r18_no_text_ends_the_process(text in ".{0,60}", data in any_json()) {
        survive(&text, &data);
    }

    #[test]
    fn r18_no_words_end_the_process(rule in soup(), data in any_json()) {
        survive(&rule, &data);
    }

    #[test]
    fn r18_no_data_ends_the_process(rule in truth(), data in any_json()) {
        survive(&rule, &data);
    }

    /// The same rule costs the same and says the same.
    #[test]
    fn r18_runs_are_repeatable(rule in truth(), data in data()) {
        let shape = DeclaredType::from_schema(&schema(), false).expect("a schema rules can see");
        let program = compile_rule(&rule, &Env::for_rule(&shape, OldSelf::Absent)).expect("a rule");
        let run = || {
            let mut budget = CostBudget::for_object();
            let value = Value::from_json(&data, &shape).expect("data that fits");
            let made = program.eval(&Bindings::new().bind("self", value), &mut budget);
            (made.map(|v| v.as_bool()), budget.remaining())
        };
        prop_assert_eq!(run(), run());
    }
}

/// R19: what is shipped contains no other implementation of the language; the oracle stays in tests.
#[test]
fn r19_the_oracle_is_a_development_dependency() {
    let manifest = include_str!("../../Cargo.toml");
    let (shipped, tests) = manifest.split_once("[dev-dependencies]").expect("two sections");
    for line in ["cel.workspace = true", "kube-cel.workspace = true"] {
        assert!(!shipped.lines().any(|l| l == line), "{line} is shipped");
        assert!(tests.lines().any(|l| l == line), "{line} is tested against");
    }
}
