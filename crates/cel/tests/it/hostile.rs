//! Rules written to do harm, after spec/dependencies.md R18: each is refused or stopped, soon.

use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tenure_cel::{
    Bindings, CALL_COST_MAX, CostBudget, DeclaredType, EXPRESSION_ESTIMATE_MAX, Env, EvalErrorKind,
    OBJECT_COST_MAX, OldSelf, Value, compile, compile_rule,
};

use crate::support::{list, map, object};

fn data() -> (Json, Json) {
    let schema = object(json!({
        "n": list(json!({"type": "integer"})),
        "s": {"type": "string"},
        "b": {"type": "string", "format": "byte"},
        "m": map(json!({"type": "string"})),
        "deep": list(list(list(json!({"type": "string"})))),
        "words": list(json!({"type": "string"})),
    }));
    let words: Vec<String> = (0..1000).map(|n| format!("word{n}")).collect();
    let entries: serde_json::Map<_, _> =
        (0..20_000).map(|n| (format!("key{n}"), json!("value"))).collect();
    let object = json!({
        "n": (0..1000).collect::<Vec<_>>(),
        "s": "a".repeat(1_000_000),
        "b": "QUJD".repeat(250_000),
        "m": entries,
        "deep": vec![vec![vec!["x"; 50]; 50]; 50],
        "words": words,
    });
    (schema, object)
}

/// How long this thread has run. Wall time on a shared machine measures the neighbours.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let nanos = text.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    Duration::from_nanos(nanos)
}

/// Runs the rule and says how it ended; the time is the best of a few.
fn run(rule: &str) -> (Result<Option<bool>, EvalErrorKind>, Duration, u64) {
    static DATA: LazyLock<(Json, Json)> = LazyLock::new(data);
    let (schema, object) = &*DATA;
    let shape = DeclaredType::from_schema(schema, false).expect("a schema rules can see");
    let program = compile_rule(rule, &Env::for_rule(&shape, OldSelf::Absent)).expect(rule);
    // One at a time: these measure.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock();
    let mut best = Duration::MAX;
    let mut end = None;
    for _ in 0..5 {
        let value = Value::from_json(object, &shape).expect("data that fits");
        let bindings = Bindings::new().bind("self", value);
        let mut budget = CostBudget::for_object();
        let start = cpu_time();
        let made = program.eval(&bindings, &mut budget);
        best = best.min(cpu_time() - start);
        let made = made.map(|v| v.as_bool()).map_err(|e| e.kind);
        end = Some((made, OBJECT_COST_MAX - budget.remaining()));
        if best < STEPS_TIME_MAX {
            break;
        }
    }
    let (made, spent) = end.expect("at least one run");
    (made, best, spent)
}

/// How long a run of plain steps may take.
const STEPS_TIME_MAX: Duration = Duration::from_millis(50);
/// How long any run may take here, where regular expressions and base64 are built for debugging.
const TIME_MAX: Duration = Duration::from_millis(250);

/// The rule is stopped by its cost, in less than fifty milliseconds.
fn stopped(rule: &str) {
    let (made, time, spent) = run(rule);
    assert_eq!(made, Err(EvalErrorKind::Overspent), "{rule}");
    let shown: String = rule.chars().take(80).collect();
    assert!(time < STEPS_TIME_MAX, "{shown} took {time:?}");
    assert_eq!(spent, CALL_COST_MAX, "{rule}");
}

/// However the rule ends, it ends soon.
fn soon(rule: &str) {
    let (_, time, _) = run(rule);
    assert!(time < TIME_MAX, "{rule} took {time:?}");
}

#[test]
fn r18_a_billion_steps_are_stopped() {
    stopped("self.n.all(a, self.n.all(b, self.n.all(c, true)))");
    stopped("self.n.exists(a, self.n.exists(b, self.n.exists(c, a + b + c < 0)))");
    stopped("self.n.map(a, self.n.map(b, self.n.map(c, a * b * c))).size() > 0");
    stopped("self.n.all(i, a, self.n.all(j, b, self.n.all(k, c, i + j + k >= 0)))");
    stopped("lists.range(900000).all(a, lists.range(900000).all(b, true))");
    stopped("lists.range(1000000000000).size() > 0");
    stopped(
        "self.n.transformMap(i, a, self.n.transformMap(j, b, self.n.transformMap(k, c, k))).size() > 0",
    );
    stopped("self.m.all(a, self.m.all(b, self.m.all(c, true)))");
    stopped("self.n.all(a, self.n.exists_one(b, self.n.filter(c, true).size() == 1000))");
}

#[test]
fn r18_what_grows_is_stopped() {
    let doubling = |operation: &str| {
        let mut rule = "true".to_owned();
        for at in (1..40).rev() {
            let before = at - 1;
            let step = operation.replace('$', &format!("x{before}"));
            rule = format!("cel.bind(x{at}, {step}, {rule} && x{at}.size() > 0)");
        }
        rule
    };
    stopped(&format!("cel.bind(x0, 'abcdefgh', {})", doubling("$ + $")));
    stopped(&format!("cel.bind(x0, [1, 2, 3], {})", doubling("$ + $")));
    stopped(&format!("cel.bind(x0, b'abcdefgh', {})", doubling("$ + $")));
    stopped(&format!("cel.bind(x0, 'abc', {})", doubling("$.replace('', $)")));
    stopped(&format!("cel.bind(x0, 'abc', {})", doubling("[$, $].join($)")));
    stopped(&format!("cel.bind(x0, 'abc', {})", doubling("'%s%s'.format([$, $])")));
    stopped(&format!("cel.bind(x0, [1, 2], {})", doubling("[$, $].flatten()")));
    stopped(&format!("cel.bind(x0, 'abc', {})", doubling("strings.quote($ + $)")));
    soon("self.s.split('').map(a, self.s.split('')).size() > 0");
    soon("self.n.all(a, self.s.replace('a', self.s).size() > 0)");
    soon("self.n.map(a, self.words.join(self.s)).size() > 0");
}

#[test]
fn r18_work_on_large_data_is_paid_for() {
    for rule in [
        "self.n.all(a, self.n.all(b, self.s.size() == 1000000))",
        "self.n.all(a, self.n.all(b, self.s == self.s))",
        "self.n.all(a, self.n.all(b, self.b == self.b))",
        "self.n.all(a, self.n.all(b, size(self.b) > 0))",
        "self.n.all(a, self.n.all(b, self == self))",
        "self.n.all(a, self.n.all(b, self.m == self.m))",
        "self.n.all(a, self.n.all(b, self.deep == self.deep))",
        "self.n.all(a, self.n.all(b, self.s.contains('b') == false))",
        "self.n.all(a, self.n.all(b, self.s.charAt(999999) == 'a'))",
        "self.n.all(a, self.n.all(b, self.s.indexOf('b') == -1))",
        "self.n.all(a, self.n.all(b, self.m.exists(k, true)))",
        "self.n.all(a, self.n.all(b, self.m.exists(k, v, true)))",
        "self.n.all(a, self.n.all(b, self.words.isSorted() || true))",
        "self.n.all(a, self.n.all(b, self.words.sort().size() > 0))",
        "self.n.all(a, self.n.all(b, self.words.distinct().size() > 0))",
        "self.n.all(a, self.n.all(b, sets.contains(self.words, self.words)))",
        "self.n.all(a, self.n.all(b, self.deep.flatten().flatten().size() > 0))",
        "self.n.all(a, self.n.all(b, '%s'.format([self.deep]).size() > 0))",
        "self.n.all(a, self.n.all(b, !isIP(self.s) && !isURL(self.s) && !isQuantity(self.s)))",
        "self.n.all(a, self.n.all(b, self.words.includes('nope') == false))",
        "self.n.all(a, self.n.all(b, self.n.includes(-1) == false))",
        "self.n.all(a, self.n.all(b, !(-1 in self.n)))",
        "self.n.all(a, self.n.all(b, [self.s, self.s] == [self.s, self.s]))",
        "self.n.all(a, self.n.all(b, self.s.startsWith(self.s)))",
        "self.n.all(a, self.n.all(b, self.s < self.s + 'a'))",
        "self.n.all(a, self.n.all(b, self.words[0] + string(a) in ['a', 'b', 'c']))",
        "self.n.all(a, self.n.all(b, format.dns1123Label().validate(self.s).hasValue()))",
    ] {
        soon(rule);
    }
}

#[test]
fn r18_regular_expressions_do_not_explode() {
    for rule in [
        "self.s.matches('(a*)*b') == false",
        "self.s.matches('(a|a)*b') == false",
        "self.s.matches('(.*)(.*)(.*)(.*)(.*)[^a]') == false",
        "self.n.all(a, self.words.all(w, w.matches('^(a+)+$' + string(a)) == false))",
        "self.n.all(a, self.words[0].matches('([a-z]{50}|[0-9]{50}){10}' + string(a)) == false)",
        "self.n.all(a, self.words[0].matches('(\\\\pL{20}){5}' + string(a)) == false)",
        "self.s.findAll('').size() > 0",
        "self.s.findAll('a').size() > 0",
        "self.n.all(a, self.s.find('b') == '')",
    ] {
        soon(rule);
    }
    let shape = DeclaredType::any();
    let env = Env::new().with_shape("self", &shape);
    for rule in
        ["'a'.matches('((a{100}){100}){100}')", "'a'.matches('(((\\\\pL{100}){100}){100})')"]
    {
        let start = Instant::now();
        compile_rule(rule, &env).expect_err(rule);
        assert!(start.elapsed() < Duration::from_secs(1), "{rule}");
    }
}

#[test]
fn r18_budgets_are_shared() {
    let program = compile_rule("[1, 2, 3].map(x, x).all(y, y > 0)", &Env::new()).expect("a rule");
    let mut budget = CostBudget::new(100);
    let first = program.eval(&Bindings::new(), &mut budget);
    assert_eq!(first.map(|v| v.as_bool()), Ok(Some(true)));
    let left = budget.remaining();
    assert!(left < 100 && left > 0, "{left} left");
    let second = program.eval(&Bindings::new(), &mut budget).map(|v| v.as_bool());
    assert_eq!(second.map_err(|e| e.kind), Err(EvalErrorKind::Overspent));
    assert_eq!(budget.remaining(), 0);
    let third = program.eval(&Bindings::new(), &mut budget).map(|v| v.as_bool());
    assert_eq!(third.map_err(|e| e.kind), Err(EvalErrorKind::Overspent));
}

/// An overspent run is not a failure that `||` may overlook.
#[test]
fn r18_nothing_overlooks_a_spent_budget() {
    stopped("self.n.all(a, self.n.all(b, self.n.all(c, true))) || true");
    stopped("!(self.n.all(a, self.n.all(b, self.n.all(c, true))) && false)");
    stopped("self.n.exists(x, self.n.all(a, self.n.all(b, self.n.all(c, true))))");
}

#[test]
fn r18_unbounded_rules_are_estimated_beyond_the_limit() {
    let (schema, _) = data();
    let shape = DeclaredType::from_schema(&schema, false).expect("a schema rules can see");
    let env = Env::for_rule(&shape, OldSelf::Absent);
    for rule in [
        "self.n.all(a, self.n.all(b, true))",
        "self.s.split('').all(a, self.s.split('').all(b, a == b))",
        "self.words.distinct().size() > 0",
        "self.words.map(w, w + self.s).size() > 0",
        "lists.range(self.n[0]).size() > 0",
        "sets.contains(self.words, self.words)",
    ] {
        let cost = compile(rule, &env).expect(rule).estimate().max;
        assert!(cost > EXPRESSION_ESTIMATE_MAX, "{rule} is estimated at {cost}");
    }
}

/// Compiles on a small stack, as workers have, and says how it ended.
fn compiles(text: String) -> bool {
    let worker = std::thread::Builder::new().stack_size(1 << 20).spawn(move || {
        let start = Instant::now();
        let env = Env::new().with_shape("a", &DeclaredType::any());
        let made = compile(&text, &env).map(|program| {
            let value = json!({"b": 1});
            let shape = DeclaredType::any();
            let bound = Value::from_json(&value, &shape).expect("any data");
            // Whatever the run says, it returns.
            drop(program.eval(&Bindings::new().bind("a", bound), &mut CostBudget::for_object()));
        });
        let time = start.elapsed();
        let shown: String = text.chars().take(40).collect();
        assert!(time < Duration::from_secs(2), "{shown} took {time:?}");
        made.is_ok()
    });
    worker.expect("a thread").join().expect("no panic and no overflow")
}

#[test]
fn r18_deep_text_is_refused_and_not_followed() {
    for count in [300, 1000, 20_000] {
        let around =
            |open: &str, close: &str| format!("{}1{}", open.repeat(count), close.repeat(count));
        for text in [
            around("(", ")"),
            around("[", "]"),
            around("{1:", "}"),
            around("f(", ")"),
            around("[1].map(x,", ")"),
            around("cel.bind(x,1,", ")"),
            around("a.optMap(x,", ")"),
            around("a[", "]"),
            format!("1{}", "+1".repeat(count)),
            format!("1{}", "<1".repeat(count)),
            format!("a{}", ".b".repeat(count)),
            format!("a{}", "[0]".repeat(count)),
            format!("a{}", ".?b".repeat(count)),
            format!("a{}", ".f()".repeat(count)),
            format!("{}1", "true?1:".repeat(count)),
            format!("{}1", "a?".repeat(count)),
            "(".repeat(count),
            "[".repeat(count),
            "a.map(x,".repeat(count),
        ] {
            let shown: String = text.chars().take(40).collect();
            assert!(!compiles(text), "{shown} at {count}");
        }
    }
    // What is long and not deep is taken.
    for text in [
        format!("true{}", "&&true".repeat(10_000)),
        format!("true{}", "||true".repeat(10_000)),
        format!("{}true", "!".repeat(20_000)),
        format!("[1{}].size()", ",1".repeat(20_000)),
        format!("a == 1{}", "&&a!=1".repeat(10_000)),
        format!("1{}", "+1".repeat(200)),
        format!("'{}'", "x".repeat(90_000)),
        format!("{}1{}", "[".repeat(200), "]".repeat(200)),
    ] {
        let shown: String = text.chars().take(40).collect();
        assert!(compiles(text), "{shown}");
    }
    assert!(!compiles(" ".repeat(100_001)));
}

/// A type whose parts double with every name costs no more than the text.
#[test]
fn r18_types_do_not_explode() {
    let doubled = |step: &str, count: usize| {
        let mut text = "true".to_owned();
        for at in (1..count).rev() {
            let value = step.replace('$', &format!("x{}", at - 1));
            text = format!("cel.bind(x{at},{value},{text})");
        }
        format!("cel.bind(x0,{{1:1}},{text})")
    };
    compiles(doubled("{$:$}", 60));
    compiles(doubled("{1:$}", 60));
    compiles(doubled("[$]", 60));
    compiles(doubled("[].map(y,{y:y})+[{$:$}]", 60));
}
