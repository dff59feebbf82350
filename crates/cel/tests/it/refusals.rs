//! What is refused when a rule is registered, after spec/api-server.md R125 and
//! spec/dependencies.md R20.

use serde_json::json;
use tenure_cel::{DeclaredType, Env, OldSelf, compile, compile_message, compile_rule};

use crate::support::{list, object};

fn env() -> Env {
    let schema = object(json!({
        "a": {"type": "string"},
        "n": {"type": "integer"},
        "l": list(json!({"type": "string"})),
        "o": object(json!({"x": {"type": "integer"}})),
    }));
    let shape = DeclaredType::from_schema(&schema, false).expect("a schema rules can see");
    Env::for_rule(&shape, OldSelf::Present)
}

fn refused(rule: &str, wanted: &str) {
    let error = compile_rule(rule, &env()).expect_err(rule);
    assert!(error.message.contains(wanted), "{rule}\n    wants {wanted}, gives {error}");
}

#[test]
fn r125_unknown_names_are_refused_by_name() {
    refused("self.nope == 1", "ERROR: <input>:1:5: undefined field 'nope'");
    refused("self.o.y == 1", "undefined field 'y'");
    refused("nope == 1", "ERROR: <input>:1:1: undeclared reference to 'nope' (in container '')");
    refused("self.l.all(x, y == 'a')", "undeclared reference to 'y'");
    refused("self.l.all(x, true) && x == 'a'", "undeclared reference to 'x'");
    refused(
        "authorizer.path('/healthz').check('get').allowed()",
        "undeclared reference to 'authorizer'",
    );
    refused("true &&\n  self.nope == 1", "ERROR: <input>:2:7: undefined field 'nope'");
}

#[test]
fn r125_types_that_do_not_fit_are_refused() {
    refused("self.n", "must evaluate to a bool, not to `int`");
    refused("42", "must evaluate to a bool");
    refused("dyn(true)", "must evaluate to a bool, not to `dyn`");
    refused("self.a == 1", "no matching overload for '_==_' applied to '(string, int)'");
    refused("self.n + self.a == ''", "no matching overload for '_+_' applied to '(int, string)'");
    refused("self.n && true", "expected type 'bool' but found 'int'");
    refused("!self.n", "no matching overload for '!_' applied to '(int)'");
    refused(
        "self.n.startsWith('a')",
        "no matching overload for 'startsWith' applied to 'int.(string)'",
    );
    refused("self.a.x == 1", "type 'string' does not support field selection");
    refused("self.l[0].x == 1", "type 'string' does not support field selection");
    refused("self.n.all(x, true)", "cannot be range of a comprehension");
    refused("self.l.all(x, x)", "expected type 'bool' but found 'string'");
    refused("self.l.all(x, x > 1)", "no matching overload for '_>_' applied to '(string, int)'");
    refused("true ? self.n : self.a", "no matching overload for '_?_:_'");
    refused("1 in self.l", "no matching overload for '@in' applied to '(int, list(string))'");
    refused(
        "self.l['a'] == 'a'",
        "no matching overload for '_[_]' applied to '(list(string), string)'",
    );
    refused("size(self.n) == 1", "no matching overload for 'size' applied to '(int)'");
    refused("self.l.exists(x, x == 1)", "applied to '(string, int)'");
    refused("self.l.map(x, x).exists(y, y == 1)", "applied to '(string, int)'");
    refused("has(self.a) == 1", "applied to '(bool, int)'");
    refused("has(self)", "invalid argument to has() macro");
    let error = compile_message("self.n", &env()).expect_err("a number is no message");
    assert!(error.message.contains("must evaluate to a string, not to `int`"));
    compile_message("'n is ' + string(self.n)", &env()).expect("a message");
}

#[test]
fn r125_types_follow_through_calls() {
    for rule in [
        "self.l.map(x, size(x)).sum() > 1",
        "self.l.filter(x, x != '').map(x, {'k': x}).all(m, m.k.startsWith('a'))",
        "[self.n].map(x, [x, x])[0][1] == 1",
        "(self.n > 0 ? self.l : []).size() > 0",
        "[] + self.l == self.l + []",
        "{}.size() == 0 && [].all(x, x > 1)",
        "cel.bind(x, self.o, x.x == 1)",
        "self.l.transformMap(i, v, size(v)).all(k, v, v + k > 0)",
        "self.?o.?x.optMap(v, v + 1).orValue(0) > 0",
    ] {
        compile_rule(rule, &env()).expect(rule);
    }
    for (expression, wanted) in [
        ("self.l.map(x, size(x))", "list(int)"),
        ("{'a': [1u]}", "map(string, list(uint))"),
        ("self.?n", "optional_type(int)"),
        ("type(1)", "type"),
        ("quantity('1')", "kubernetes.Quantity"),
        ("timestamp(1) - timestamp(0)", "duration"),
        ("[]", "list(dyn)"),
    ] {
        let program = compile(expression, &env()).expect(expression);
        assert_eq!(program.result_type().to_string(), wanted, "{expression}");
    }
}

#[test]
fn r125_text_that_is_no_expression_is_refused() {
    for rule in [
        "self.a ==",
        "",
        " \t",
        "(",
        ")",
        "self..a",
        "self.",
        "[1",
        "{1}",
        "{1:}",
        "a ? b",
        "'a",
        "\"a\nb\"",
        "1 +",
        "+ 1",
        "a b",
        "1..2",
        "0x",
        "99999999999999999999",
        "1e999",
        "'\\q'",
        "'\\u12'",
        "'\\ud800'",
        "b'\\u0041'",
        "self.true",
        "in",
        "#",
        "a = b",
        "a; b",
        "``",
        "self.``",
        "[1,,2]",
        "f(1,)",
        "é",
        "'\\x'",
        "'''a''",
        "9223372036854775808",
        "-9223372036854775809",
        "18446744073709551616u",
        "@in",
    ] {
        let error = compile_rule(rule, &env()).expect_err(rule);
        assert!(error.message.contains("ERROR: <input>:"), "{rule}: {error}");
    }
}

#[test]
fn r20_what_is_not_supported_is_refused_by_name() {
    refused("fakeFunction('abc') == 'ABC'", "undeclared reference to 'fakeFunction'");
    refused("self.a.fakeMethod() == 'ABC'", "undeclared reference to 'fakeMethod'");
    refused("math.sqrt(2.0) > 1.0", "undeclared reference to 'sqrt'");
    refused("base64.encode(b'a') == ''", "undeclared reference to 'encode'");
    refused("self.l.reduce(x, true)", "undeclared reference to 'reduce'");
    refused("jsonpatch.escapeKey('a') == ''", "undeclared reference to 'escapeKey'");
    refused(
        "google.protobuf.Duration{seconds: 1} == duration('1s')",
        "undeclared reference to 'google.protobuf.Duration'",
    );
    refused("proto.hasExt(self, a.b)", "undeclared reference to");
}
