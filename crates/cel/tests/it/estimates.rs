//! What rules are estimated to cost, to the unit where upstream's numbers are known.

use serde_json::{Value as Json, json};
use tenure_cel::{
    DeclaredType, EXPRESSION_ESTIMATE_MAX, Env, OldSelf, compile, compile_message, compile_rule,
};

use crate::support::{list, map, object, values};

fn estimate(schema: &Json, rule: &str) -> u64 {
    let shape = DeclaredType::from_schema(schema, false).expect("a schema rules can see");
    compile(rule, &Env::for_rule(&shape, OldSelf::Present)).expect(rule).estimate().max
}

fn with(mut schema: Json, name: &str, limit: u64) -> Json {
    schema[name] = json!(limit);
    schema
}

/// The estimate without a limit, and with one.
fn check(schema: Json, limit: &str, rule: &str, free: u64, set: (u64, u64)) {
    assert_eq!(estimate(&schema, rule), free, "{rule} on {schema}");
    let bounded = with(schema, limit, set.0);
    assert_eq!(estimate(&bounded, rule), set.1, "{rule} on {bounded}");
}

fn formatted(format: &str) -> Json {
    json!({"type": "string", "format": format})
}

#[test]
fn r125_estimates_of_lists() {
    let all = "self.all(x, true)";
    let number = json!({"type": "number"});
    let text = json!({"type": "string"});
    let mixed = json!({"x-kubernetes-int-or-string": true});
    let items = "maxItems";
    check(list(number.clone()), items, all, 4_718_591, (10, 32));
    check(list(text.clone()), items, all, 3_145_727, (20, 62));
    check(list(json!({"type": "boolean"})), items, all, 1_887_437, (5, 17));
    check(list(list(number.clone())), items, all, 3_145_727, (100, 302));
    check(list(mixed.clone()), items, all, 4_718_591, (10, 32));
    check(list(formatted("duration")), items, all, 2_359_295, (5, 17));
    check(list(formatted("date")), items, all, 725_936, (15, 47));
    check(list(formatted("date-time")), items, all, 428_963, (25, 77));
    check(list(number.clone()), items, "self[1] == 0.0", 2, (5000, 2));
    check(list(text), items, "self[1] == self[1]", 314_577, (8, 314_577));
    check(list(mixed), items, "self[0] == 5", 3, (10, 3));
    check(list(number.clone()), items, "self.all(x, x == 0.0)", 6_291_454, (6_291_456, 25_165_826));
    check(list(map(number.clone())), items, "self.all(x, x.y == 25.2)", 6_291_452, (12, 74));
    check(list(map(number.clone())), items, "self[0].x > 2.0", 4, (3000, 4));
    check(list(formatted("duration")), items, "self[0].getHours() == 2", 4, (525, 4));
    let bounded = with(list(number.clone()), items, 10);
    assert_eq!(estimate(&bounded, "self.all(x, self.all(y, true))"), 352);
    assert_eq!(estimate(&bounded, "self.all(x, self.all(y, self.all(z, true)))"), 3552);
    assert!(estimate(&list(number), "self.all(x, self.all(y, true))") > EXPRESSION_ESTIMATE_MAX);
}

#[test]
fn r125_estimates_of_maps() {
    let all = "self.all(x, true)";
    let number = json!({"type": "number"});
    let properties = "maxProperties";
    check(map(number.clone()), properties, all, 1_348_169, (10, 32));
    check(map(json!({"type": "string"})), properties, all, 1_179_647, (3, 11));
    check(map(json!({"type": "boolean"})), properties, all, 943_718, (100, 302));
    check(map(list(number.clone())), properties, all, 1_179_647, (25, 77));
    check(map(formatted("duration")), properties, all, 1_048_577, (5, 17));
    check(map(formatted("date")), properties, all, 524_288, (10, 32));
    check(map(formatted("date-time")), properties, all, 349_526, (25, 77));
    check(map(number.clone()), properties, "self['x'] == 0.0", 2, (0, 2));
    check(map(number), properties, "oldSelf.size() == self.size()", 5, (10, 5));
    check(map(formatted("date-time")), properties, "self['a'] == self['b']", 8, (7, 8));
    check(map(formatted("duration")), properties, "self['c'] == self['d']", 8, (42, 8));
    let short = |most: u64| {
        let text = with(json!({"type": "string"}), "maxLength", most);
        with(map(text), "maxProperties", most)
    };
    assert_eq!(estimate(&short(10), "self.all(x, x.contains(self[x]))"), 72);
    assert_eq!(
        estimate(&map(json!({"type": "string"})), "self.all(x, x.contains(self[x]))"),
        2_752_507
    );
}

#[test]
fn r125_estimates_of_text() {
    let text = json!({"type": "string"});
    let length = "maxLength";
    check(text.clone(), length, "self.contains('test')", 314_574, (10, 5));
    check(text.clone(), length, "self.startsWith('test')", 2, (15, 2));
    check(text.clone(), length, "size(self + 'hello') > size('hello')", 314_578, (4, 7));
    check(text.clone(), length, "self.matches('x')", 314_574, (50, 22));
    check(text.clone(), length, "''.matches('(((((((((())))))))))[0-9]')", 7, (10, 7));
    check(text.clone(), length, "self.matches('')", 1, (100, 1));
    check(text.clone(), length, "self == 'x'", 2, (0, 1));
    check(text.clone(), length, "self.find('[0-9]+') == ''", 629_147, (10, 11));
    check(text, length, "self.lowerAscii() == 'lower!'", 314_575, (10, 6));
    check(formatted("byte"), length, "self == b'x'", 2, (0, 1));
    check(
        json!({"type": "string", "enum": ["A", "B", "C", "LongValue"]}),
        length,
        "self.contains('A')",
        2,
        (1000, 401),
    );
    check(
        json!({"x-kubernetes-int-or-string": true}),
        length,
        "isQuantity(self)",
        314_574,
        (20, 9),
    );
}

#[test]
fn r125_estimates_of_library_calls() {
    let text = |most: Option<u64>| match most {
        Some(most) => with(json!({"type": "string"}), "maxLength", most),
        None => json!({"type": "string"}),
    };
    let texts = |most: Option<u64>| match most {
        Some(most) => with(list(text(Some(most))), "maxItems", most),
        None => list(text(None)),
    };
    assert_eq!(estimate(&texts(None), "self.join(' ') == 'aa bb'"), 329_853_068_905);
    assert_eq!(estimate(&texts(Some(10)), "self.join(' ') == 'aa bb'"), 43);
    assert_eq!(estimate(&texts(None), "self.isSorted() == true"), 329_854_432_052);
    assert_eq!(estimate(&texts(Some(10)), "self.isSorted() == true"), 52);
    let replace = |most: Option<u64>| {
        object(json!({"str": text(most), "before": text(Some(2)), "after": text(Some(4))}))
    };
    let rule = "self.str.replace(self.before, self.after) == 'does not matter'";
    assert_eq!(estimate(&replace(None), rule), 629_154);
    assert_eq!(estimate(&replace(Some(4)), rule), 12);
    let split = |most: Option<u64>| object(json!({"str": text(most), "separator": text(most)}));
    let rule = "self.str.split(self.separator) == []";
    assert_eq!(estimate(&split(None), rule), 629_160);
    assert_eq!(estimate(&split(Some(10)), rule), 22);
}

#[test]
fn r125_names_are_short() {
    let shape =
        DeclaredType::from_schema(&object(json!({})), true).expect("a schema rules can see");
    let env = Env::for_rule(&shape, OldSelf::Absent);
    for rule in ["self.metadata.name.contains('x')", "self.metadata.generateName.contains('x')"] {
        let cost = compile_rule(rule, &env).expect(rule).estimate().max;
        assert!((1..10_000).contains(&cost), "{rule} costs {cost}");
    }
}

/// Both definitions of the recorded case `crd/cel/cost` exceed their limits.
#[test]
fn r125_recorded_rules_without_bounds_exceed_the_limit() {
    let nested = object(json!({"l": list(list(json!({"type": "string"})))}));
    let rule = "self.l.all(x, x.all(y, self.l.exists(z, z.exists(q, q == y))))";
    assert!(estimate(&nested, rule) > EXPRESSION_ESTIMATE_MAX);
    let item = object(json!({"n": {"type": "integer"}}));
    let shape = DeclaredType::from_schema(&item, false).expect("a schema rules can see");
    let env = Env::for_rule(&shape, OldSelf::Absent);
    let message = compile_message("'bad ' + string(self.n)", &env).expect("a message");
    assert!(message.estimate().max > EXPRESSION_ESTIMATE_MAX);
    let rule = compile_rule("self.n > 0", &env).expect("a rule");
    assert!(rule.estimate().max < 10);
    let message = compile_message("self.n == 0 ? 'zero' : 'negative'", &env).expect("a message");
    assert!(message.estimate().max < 10);
}

/// Large data costs a little more here than upstream, never less.
#[test]
fn r125_runs_cost_what_they_cost_upstream() {
    let integer = json!({"type": "integer"});
    let case =
        values(&[(integer.clone(), json!(5)), (json!({"type": "string"}), json!("Rook takes"))]);
    for (rule, cost) in [
        ("self.val1 == self.val1", 5),
        ("type(self.val1) == int", 4),
        ("double(self.val1) < 10.0", 4),
        ("double(5) < 10.0", 1),
        ("self.val2.startsWith('Rook')", 3),
        ("size(self.val2) == 10", 4),
        ("self.val2.charAt(3) == 'k'", 4),
        ("self.val2.indexOf('o') == 1", 4),
        ("self.val2 in ['a', 'b']", 2),
        ("has(self.val1)", 1),
        ("has(self.val1) && has(self.val2)", 2),
        ("size(['aa', 'bb', 'cc', 'd', 'e', 'f', 'g', 'h', 'i', 'j'].join(' ')) > 0", 7),
    ] {
        assert_eq!(case.cost(rule), cost, "{rule}");
    }
    assert!((7..=12).contains(&case.cost("self.val2.matches('^[^0-9]*$')")));
    let case = values(&[(list(integer), json!([1, 2, 3]))]);
    for (rule, cost) in [
        ("size('abc 123 def 123'.split(' ')) > 0", 5),
        ("[1,2,3,4].isSorted()", 4),
        ("1 in self.val1", 5),
        ("self.val1 + [4, 5] == [1, 2, 3, 4, 5]", 4),
        ("sets.contains(self.val1, [1])", 6),
        ("sets.equivalent(self.val1, [1, 2, 3])", 21),
        ("self.val1.all(e, e > 0)", 18),
        ("self.val1.exists_one(e, e == 3)", 14),
    ] {
        let found = case.cost(rule);
        assert!((cost..=cost * 2).contains(&found), "{rule} costs {found}, upstream {cost}");
    }
}
