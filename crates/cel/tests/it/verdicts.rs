//! What rules say of data, after spec/api-server.md R125.

use serde_json::json;
use tenure_cel::{Bindings, CostBudget, DeclaredType, Env, OldSelf, Value, compile_rule};

use crate::support::{Case, list, map, object, plain, values};

#[test]
fn r125_numbers() {
    let (int, number) = (json!({"type": "integer"}), json!({"type": "number"}));
    let case = values(&[
        (int.clone(), json!(i64::MAX)),
        (int.clone(), json!(5)),
        (int, json!(10)),
        (number.clone(), json!(10.0)),
        (number, json!(10)),
    ]);
    case.valid(&[
        "self.val1 == 9223372036854775807",
        "self.val1 > self.val2 && self.val2 != self.val3",
        "type(self.val1) == int",
        "type(self.val4) == double && type(self.val5) == double",
        "self.val5 == 10.0",
        "self.val2 * 2 == int(self.val4)",
        "self.val2 < self.val4",
        "self.val3 <= self.val4 && self.val3 >= self.val5",
        "double(self.val3) == self.val4",
        "5 < 10.0 && 15u > 10.0 && 1 < 2u",
        "-7 / 2 == -3 && -7 % 2 == -1",
        "7u / 2u == 3u && 7u % 2u == 1u",
        "1.0 / 0.0 > 1e308",
        "0x1F == 31 && 0xffu == 255u && 1e3 == 1000.0 && .5 == 0.5",
        "-9223372036854775808 < 0",
        "- - 5 == 5 && !!true",
        "1 - 1 == 0 && 1 -1 == 0",
        "2 + 3 * 4 == 14 && (2 + 3) * 4 == 20",
        "dyn(1) == dyn(1.0) && dyn(1) == dyn(1u)",
        "math.greatest(1, 2) == 2 && math.least([3, 1, 2]) == 1",
        "math.abs(-3) == 3 && math.ceil(1.2) == 2.0 && math.isNaN(0.0 / 0.0)",
        "uint(3) == 3u && int('-12') == -12 && double('1.5') == 1.5",
        "int(10.9) == 10 && int(-10.9) == -10",
        "string(10) == '10' && string(10.0) == '10' && string(10.49) == '10.49'",
        "string(1e21) == '1e+21' && string(0.00001) == '1e-05'",
        "bool('true') && !bool('false') && bool('1')",
    ]);
    case.fails(&[
        ("self.val1 + 1 == 0", "integer overflow"),
        ("self.val1 * 2 == 0", "integer overflow"),
        ("-9223372036854775808 / -1 == 0", "integer overflow"),
        ("-9223372036854775808 % -1 == 0", "integer overflow"),
        ("1 / 0 == 1 / 0", "division by zero"),
        ("1 % 0 == 1", "modulus by zero"),
        ("0u - 1u == 0u", "unsigned integer overflow"),
        ("int('x') == 1", "type conversion error"),
        ("int(1e300) == 1", "integer overflow"),
        ("uint(-1) == 1u", "unsigned integer overflow"),
        ("self.val2 == self.val4", "no matching overload for '_==_' applied to '(int, double)'"),
        (
            "self.val2 + self.val4 > 1.0",
            "no matching overload for '_+_' applied to '(int, double)'",
        ),
    ]);
}

#[test]
fn r125_text() {
    let text = json!({"type": "string"});
    let case = values(&[(text.clone(), json!("Rook takes 👑")), (text, json!("l1\nl2"))]);
    case.valid(&[
        "self.val1 == 'Rook takes 👑' && self.val1 != self.val2",
        "self.val1.startsWith('Rook') && !self.val1.startsWith('knight')",
        "self.val1.endsWith('👑') && self.val1.contains('takes')",
        "self.val1.matches('^[^0-9]*$') && !self.val1.matches('^[0-9]*$')",
        "matches(self.val1, 'takes')",
        "size(self.val1) == 12 && self.val1.size() == 12",
        "self.val1.charAt(3) == 'k' && self.val1.charAt(11) == '👑' && self.val1.charAt(12) == ''",
        "self.val1.indexOf('o') == 1 && self.val1.indexOf('o', 2) == 2",
        "self.val1.lastIndexOf('o') == 2 && self.val1.lastIndexOf('o', 1) == 1",
        "self.val1.indexOf('👑') == 11 && self.val1.indexOf('z') == -1",
        "self.val1.replace(' ', 'x') == 'Rookxtakesx👑'",
        "self.val1.replace(' ', 'x', 1) == 'Rookxtakes 👑'",
        "'ab'.replace('', '-') == '-a-b-'",
        "self.val1.split(' ') == ['Rook', 'takes', '👑']",
        "self.val1.split(' ', 2) == ['Rook', 'takes 👑']",
        "'abc'.split('') == ['a', 'b', 'c'] && 'abc'.split('', 2) == ['a', 'bc']",
        "'abc'.split('', 0) == [] && 'abc'.split('b', 1) == ['abc']",
        "self.val1.substring(5) == 'takes 👑' && self.val1.substring(0, 4) == 'Rook'",
        "self.val1.substring(4, 10).trim() == 'takes'",
        "self.val1.upperAscii() == 'ROOK TAKES 👑' && self.val1.lowerAscii() == 'rook takes 👑'",
        "self.val2 == 'l1\\nl2' && self.val2 == '''l1\nl2''' && self.val2 == \"l1\\x0al2\"",
        "r'a\\d' == 'a\\\\d' && '\\u00e9' == 'é' && '\\101' == 'A'",
        "b'abc' == bytes('abc') && b'\\xff' != b'\\xfe' && string(b'abc') == 'abc'",
        "'a' < 'b' && 'a' + 'b' == 'ab' && 'ab' >= 'aa'",
        "strings.quote('a\"b\\n') == '\"a\\\\\"b\\\\n\"'",
        "['a', 'b', 'c'].join() == 'abc' && ['a', 'b'].join('-') == 'a-b' && [].join('x') == ''",
        "'%d %s %f'.format([1, 'abc', 1.0]) == '1 abc 1.000000'",
        "'%s %s'.format([duration('1m'), timestamp('2000-01-01T00:00:00.000Z')]) == '60s 2000-01-01T00:00:00Z'",
        "'%e'.format([3.14]) == '3.140000×10⁰⁰'",
        "'%o %b %x %X'.format([8, 9, 30, 30]) == '10 1001 1e 1E'",
        "'%s'.format([['a', 'b']]) == '[\"a\", \"b\"]' && '100%%'.format([]) == '100%'",
        "'%.2f'.format([1.005]) == '1.00' || '%.2f'.format([1.005]) == '1.01'",
        "'a' in ['a', 'b'] && !('x' in ['a', 'b'])",
    ]);
    case.fails(&[
        ("self.val1.matches(')')", "invalid matches argument"),
        ("self.val1.matches('x++')", "invalid matches argument"),
        ("self.val1.find(')') == ''", "invalid find argument"),
        ("self.val1.charAt(99) == ''", "index out of range: 99"),
        ("self.val1.substring(-1) == ''", "index out of range: -1"),
        ("self.val1.substring(5, 2) == ''", "invalid substring range"),
        ("'%d'.format(['x']) == ''", "error during formatting"),
        ("'%d %d'.format([1]) == ''", "out of range"),
        ("self.val1 + 1 == ''", "no matching overload for '_+_' applied to '(string, int)'"),
    ]);
}

#[test]
fn r125_regular_expressions() {
    let case = values(&[(json!({"type": "string"}), json!("this is a 123 string 456"))]);
    case.valid(&[
        "self.val1.find('[0-9]+') == '123' && self.val1.find('xyz') == ''",
        "self.val1.findAll('[0-9]+') == ['123', '456']",
        "self.val1.findAll('[0-9]+', 0) == [] && self.val1.findAll('[0-9]+', 1) == ['123']",
        "self.val1.findAll('[0-9]+', -1) == ['123', '456'] && self.val1.findAll('xyz') == []",
        "self.val1.matches('is a' + ' 123')",
    ]);
    case.fails(&[("self.val1.matches('(' + self.val1)", "malformed")]);
}

#[test]
fn r125_times() {
    let format = |name: &str| json!({"type": "string", "format": name});
    let case = values(&[
        (format("duration"), json!("1h2m3s4ms")),
        (format("date"), json!("1997-07-16")),
        (format("date-time"), json!("2011-08-18T19:03:37.010000000+01:00")),
        (format("byte"), json!("QUI=")),
        (json!({"type": "string"}), json!("2011-08-18T19:03:37.01+01:00")),
    ]);
    case.valid(&[
        "self.val1 == duration('1h2m') + duration('3s4ms')",
        "self.val1.getHours() == 1 && self.val1.getMinutes() == 62",
        "self.val1.getSeconds() == 3723 && self.val1.getMilliseconds() == 3723004",
        "type(self.val1) == google.protobuf.Duration",
        "string(self.val1) == '3723.004s' && duration('3723.004s') == self.val1",
        "self.val2 == timestamp('1997-07-16T00:00:00.000Z')",
        "self.val2.getDate() == 16 && self.val2.getMonth() == 06 && self.val2.getFullYear() == 1997",
        "self.val2.getDayOfMonth() == 15 && self.val2.getDayOfWeek() == 3 && self.val2.getDayOfYear() == 196",
        "type(self.val2) == google.protobuf.Timestamp",
        "self.val3 == timestamp('2011-08-18T00:00:00.000+01:00') + duration('19h3m37s10ms')",
        "self.val3.getHours('01:00') == 19 && self.val3.getHours('UTC') == 18 && self.val3.getHours() == 18",
        "self.val3.getHours('-02:00') == 16 && self.val3.getMinutes('+00:30') == 33",
        "self.val3.getSeconds() == 37 && self.val3.getMilliseconds() == 10",
        "timestamp(self.val5) == self.val3 && string(self.val3) == self.val5",
        "self.val3 > self.val2 && self.val3 - self.val2 > duration('1h')",
        "self.val2 - duration('24h') == timestamp('1997-07-15T00:00:00Z')",
        "int(timestamp('1970-01-01T00:01:00Z')) == 60 && timestamp(60) == timestamp('1970-01-01T00:01:00Z')",
        "self.val4 == b'AB' && size(self.val4) == 2 && type(self.val4) == bytes",
    ]);
    case.fails(&[
        ("duration('1') == self.val1", "invalid duration argument"),
        ("duration('1d') == self.val1", "invalid duration argument"),
        ("timestamp('1000-00-00T00:00:00Z') == self.val2", "invalid timestamp"),
        ("timestamp(-62135596801) == self.val2", "invalid timestamp"),
        ("self.val3.getHours('Europe/Paris') == 1", "unknown time zone"),
        ("timestamp('9999-12-31T23:59:59Z') + duration('1h') > self.val2", "timestamp overflow"),
    ]);
}

#[test]
fn r125_lists() {
    let case = values(&[
        (list(json!({"type": "integer"})), json!([1, 2, 2, 3])),
        (list(json!({"type": "string"})), json!(["b", "a"])),
        (list(json!({"type": "string", "format": "duration"})), json!(["1s", "1m"])),
        (list(json!({"type": "number"})), json!([])),
        (list(json!({"type": "string", "format": "duration"})), json!([])),
    ]);
    case.valid(&[
        "self.val1 == [1, 2, 2, 3] && self.val1[0] == 1 && self.val1[3] == 3",
        "1 in self.val1 && !(0 in self.val1)",
        "self.val1 + [4] == [1, 2, 2, 3, 4]",
        "self.val1.sum() == 8 && self.val1.min() == 1 && self.val1.max() == 3",
        "self.val1.isSorted() && !self.val2.isSorted() && self.val4.isSorted()",
        "self.val1.indexOf(2) == 1 && self.val1.lastIndexOf(2) == 2 && self.val1.indexOf(9) == -1",
        "self.val2.indexOf('a') == 1 && self.val2.join(',') == 'b,a'",
        "self.val3.sum() == duration('61s') && self.val4.sum() == 0.0",
        "self.val5.sum() == duration('0s') && [].sum() == 0",
        "self.val5.filter(d, true).sum() == duration('0s')",
        "self.val1.all(e, e > 0) && self.val1.exists(e, e == 3) && self.val1.exists_one(e, e == 3)",
        "!self.val1.exists_one(e, e == 2) && self.val1.existsOne(e, e == 1)",
        "self.val1.filter(e, e % 2 == 0) == [2, 2] && self.val1.map(e, e * 2) == [2, 4, 4, 6]",
        "self.val1.map(e, e > 1, e * 10) == [20, 20, 30]",
        "self.val1.all(i, e, e >= i) && self.val1.exists(i, e, i == 3 && e == 3)",
        "self.val1.transformList(i, e, e + i) == [1, 3, 4, 6]",
        "self.val1.transformList(i, e, i > 1, e) == [2, 3]",
        "self.val1.transformMap(i, e, e * 2) == {0: 2, 1: 4, 2: 4, 3: 6}",
        "lists.range(4) == [0, 1, 2, 3] && lists.range(0) == []",
        "[5, 1, 2].reverse() == [2, 1, 5] && [1, 2, 3, 4].slice(1, 3) == [2, 3]",
        "[[1], [2], [3, 4]].flatten() == [1, 2, 3, 4] && dyn([[1], [2]]).flatten() == [1, 2]",
        "[4, 3, 1].sort() == [1, 3, 4] && ['b', 'a'].sort() == ['a', 'b'] && [].sort() == []",
        "[-3, 1, -5, -2, 4].sortBy(e, -(e * e)) == [-5, 4, -3, -2, 1]",
        "[{'name': 'foo'}, {'name': 'bar'}].sortBy(e, e.name)[0].name == 'bar'",
        "[-2, 5, -2, 1].distinct() == [-2, 5, 1] && [[1], [1]].distinct() == [[1]]",
        "sets.contains([1, 2], [2]) && sets.equivalent([1, 2], [2, 1, 1]) && !sets.intersects([1], [2])",
        "self.val1.includes(3) && !self.val1.includes(9) && self.val1[0].includes(1)",
        "self.val2.first() == optional.of('b') && self.val4.last() == optional.none()",
        "cel.bind(big, self.val1.filter(e, e > 1), big.size() == 3 && big[0] == 2)",
        "[[1, 2], [3]].all(l, l.all(x, x > 0)) && [[1], []].exists(l, l.size() == 0)",
        "dyn([1, 2]).sum() == 3 && [1, 2, 3,] == [1, 2, 3] && [,] == []",
    ]);
    case.fails(&[
        ("self.val1[100] == 0", "index out of bounds: 100"),
        ("self.val1[-1] == 0", "index out of bounds: -1"),
        ("self.val4.min() == 1.0", "min called on empty list"),
        ("[1, 2].slice(3, 0) == []", "start index must be less than or equal to end index"),
        ("[1, 2].slice(0, 10) == []", "list is length 2"),
        ("[1, 2].slice(-5, 1) == []", "negative indexes not supported"),
        ("[[1]].flatten(-1) == [1]", "level must be non-negative"),
        ("lists.range(-1) == []", "must be non-negative"),
        ("['a', 'b'].sum() == 'c'", "no matching overload for 'sum' applied to 'list(string).()'"),
        (
            "[[1], [2]].min() == [1]",
            "no matching overload for 'min' applied to 'list(list(int)).()'",
        ),
        ("[1, 'a'].size() == 2", "expected type 'int' but found 'string'"),
        ("['d', 3].sort() == ['a']", "expected type 'string' but found 'int'"),
        ("[1, 2].transformMapEntry(i, e, {'k': e}).size() == 2", "already exists"),
        ("self.val1.map(1, 2) == []", "argument must be a simple name"),
        ("self.val1.all(a, a, true)", "duplicate variable name"),
    ]);
}

#[test]
fn r125_sets_and_keyed_lists() {
    let set =
        json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"});
    let case = values(&[(set.clone(), json!(["a", "b", "c"])), (set, json!(["a", "c", "b"]))]);
    case.valid(&[
        "self.val1 == ['c', 'b', 'a'] && self.val1 == self.val2",
        "self.val1 + self.val2 == ['a', 'b', 'c']",
        "self.val1 + ['c', 'd'] == ['a', 'b', 'c', 'd']",
    ]);
    let keyed = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k!", "k."],
        "items": object(json!({"k!": {"type": "string"}, "k.": {"type": "string"}, "v": {"type": "string"}}))
    });
    let case = Case {
        schema: object(json!({"objs": list(keyed)})),
        object: json!({"objs": [
            [{"k!": "a", "k.": "1", "v": "1"}, {"k!": "b", "k.": "2", "v": "2"}],
            [{"k!": "b", "k.": "2", "v": "2"}, {"k!": "a", "k.": "1", "v": "1"}],
            [{"k!": "b", "k.": "2", "v": "3"}, {"k!": "a", "k.": "1", "v": "1"}],
            [{"k!": "c", "k.": "2", "v": "2"}, {"k!": "a", "k.": "1", "v": "1"}],
        ]}),
    };
    case.valid(&[
        "self.objs[0] == self.objs[1] && self.objs[0] != self.objs[2]",
        "self.objs[0] != self.objs[3]",
        "self.objs[0] + self.objs[2] == self.objs[2] && self.objs[2] + self.objs[0] == self.objs[0]",
        "self.objs[0] == [self.objs[0][1], self.objs[0][0]]",
        "size(self.objs[0] + [self.objs[3][0]]) == 3",
        "self.objs[0][0].k__dot__ == '1'",
    ]);
    case.fails(&[
        ("self.objs[0][0].k! == '1'", "Syntax error: mismatched input '!' expecting"),
        ("self.objs[0] == {'v': '1'}", "no matching overload for '_==_'"),
    ]);
}

#[test]
fn r125_maps_and_objects() {
    let int = json!({"type": "integer"});
    let case = Case {
        schema: object(json!({
            "m": map(int.clone()),
            "a": object(json!({"b": int, "c": int, "d": {"type": "integer", "nullable": true}})),
            "a1": object(json!({"d2": object(json!({"e2": {"type": "integer"}}))})),
            "l": list(object(json!({"k": {"type": "string"}, "v": {"type": "string"}}))),
            "nm": map(json!({"type": "string", "nullable": true})),
        })),
        object: json!({
            "m": {"b": 1, "d": 2, "./-": 3},
            "a": {"b": 1, "d": null},
            "a1": {},
            "l": [{"k": "a1"}, {"k": "a2", "v": "z"}],
            "nm": {"a": null, "b": "x"},
        }),
    };
    case.valid(&[
        "'b' in self.m && !('c' in self.m) && has(self.m.b) && !has(self.m.c)",
        "self.m['./-'] == 3 && self.m.b == 1 && size(self.m) == 3",
        "self.m == {'b': 1, 'd': 2, './-': 3} && self.m != {'b': 1}",
        "self.m.all(k, self.m[k] > 0) && self.m.exists(k, v, k == 'd' && v == 2)",
        "self.m.existsOne(k, v, v == 2) && self.m.filter(k, self.m[k] > 1).size() == 2",
        "self.m.transformMap(k, v, v > 1, v + 1) == {'d': 3, './-': 4}",
        "self.m.transformMapEntry(k, v, {k + '2': v}).size() == 3",
        "self.m.transformList(k, v, v).sort() == [1, 2, 3]",
        "has(self.a.b) && !has(self.a.c) && !has(self.a.d)",
        "!(has(self.a1.d2) && has(self.a1.d2.e2))",
        "self.l.exists(m, has(m.v) && m.v == 'z') && self.l.exists(m, m.v == 'z')",
        "!self.l.all(m, m.v != 'z') && self.l[0] != self.l[1] && self.l[0] == self.l[0]",
        "'a' in self.nm && type(self.nm['a']) == null_type && type(self.nm['b']) == string",
        "type(self) == type(self) && type(self.l[0]) == type(self.l[1])",
        "{1: 'a', 2: 'b'}[2] == 'b' && {true: 1}[true] == 1 && {'a': {'b': 1}}.a.b == 1",
        "dyn({1: 'a'})[1u] == 'a' && dyn({1: 'a'})[1.0] == 'a'",
        "{'a': 1, 'b': 2}.map(k, k) == ['a', 'b']",
        "self.a == self.a && self.a != oldSelf.a == false",
    ]);
    case.fails(&[
        ("self.m['zz'] == 1", "no such key: zz"),
        ("self.a.c == 1", "no such key: c"),
        ("has(self.a.z)", "undefined field 'z'"),
        ("self.a['b'] == 1", "no matching overload for '_[_]'"),
        ("has(self.a1.d2.e2)", "no such key: d2"),
        ("self.l.all(m, m.v == 'z')", "no such key: v"),
        ("self.l.exists_one(m, m.v == 'z')", "no such key: v"),
        ("self.l.filter(m, m.v == 'z').size() == 1", "no such key: v"),
        ("self.l.map(m, m.v).size() == 1", "no such key: v"),
        ("self.l[0] == {'k': 'a1'}", "found no matching overload for '_==_'"),
        ("self.a.b == null", "no matching overload for '_==_' applied to '(int, null)'"),
        ("{'k1': 'a', 'k2': 1}.size() == 2", "expected type 'string' but found 'int'"),
        ("size(self.a) == 1", "no matching overload for 'size'"),
    ]);
}

#[test]
fn r125_optional_values() {
    let text = json!({"type": "string"});
    let case = Case {
        schema: object(json!({
            "there": object(json!({"text": text})),
            "absent": object(json!({"text": text})),
            "m": map(text.clone()),
            "l": list(text),
            "foo": {"type": "integer"},
        })),
        object: json!({"there": {"text": "value"}, "m": {"k": "v"}, "l": ["a"]}),
    };
    case.valid(&[
        "self.?foo.orValue(1) == 1",
        "self.?there.?text == optional.of('value') && self.there.?text.orValue('') == 'value'",
        "self.there.?text.or(optional.of('x')) == optional.of('value')",
        "self.there.?text.hasValue() && self.there.?text.optMap(v, v + '!').value() == 'value!'",
        "self.?absent.?text == optional.none() && self.?absent.?text.orValue('x') == 'x'",
        "self.?absent.text.orValue('x') == 'x'",
        "!self.?absent.?text.optMap(v, v == 'value').hasValue()",
        "self.there.?text.optFlatMap(v, optional.of(v)).value() == 'value'",
        "self.m[?'k'].orValue('') == 'v' && self.m[?'x'] == optional.none()",
        "self.l[?0] == optional.of('a') && !self.l[?1].hasValue() && self.?m['k'] == optional.of('v')",
        "optional.ofNonZeroValue(1).hasValue() && !optional.ofNonZeroValue('').hasValue()",
        "!optional.ofNonZeroValue(timestamp('0001-01-01T00:00:00.000+00:00')).hasValue()",
        "{?'k': optional.none(), 'k2': 'v2'} == {'k2': 'v2'}",
        "['a', ?optional.none(), 'c'] == ['a', 'c'] && ['a', ?optional.of('v')] == ['a', 'v']",
        "optional.unwrap([optional.of(1), optional.none()]) == [1]",
        "self.there.?text.orValue(self.absent.text) == 'value'",
    ]);
    case.fails(&[
        ("self.absent.?text == optional.none()", "no such key: absent"),
        ("self.?foo.value() == 1", "optional.none() dereference"),
        (
            "self.?foo == 1",
            "no matching overload for '_==_' applied to '(optional_type(int), int)'",
        ),
        ("self.?nope == optional.none()", "undefined field 'nope'"),
    ]);
}

#[test]
fn r125_old_values() {
    let shape = DeclaredType::from_schema(&object(json!({"v": {"type": "integer"}})), false)
        .expect("shape");
    let (new, old) = (json!({"v": 2}), json!({"v": 1}));
    let run = |rule: &str, mode: OldSelf, old: Option<Value<'_>>| {
        let program = compile_rule(rule, &Env::for_rule(&shape, mode)).map_err(|e| e.message)?;
        assert!(program.uses("oldSelf"), "{rule}");
        let value = Value::from_json(&new, &shape).map_err(|e| e.message)?;
        let bindings = Bindings::new().bind("self", value);
        let bindings = match old {
            Some(old) => bindings.bind("oldSelf", old),
            None => bindings,
        };
        let made = program.eval(&bindings, &mut CostBudget::for_object());
        made.map(|v| v.as_bool()).map_err(|e| e.message)
    };
    let old = || Value::from_json(&old, &shape).expect("data that fits");
    let some = || Some(Value::Optional(Some(std::sync::Arc::new(old()))));
    let none = || Some(Value::Optional(None));
    let present = run("self.v > oldSelf.v", OldSelf::Present, Some(old()));
    assert_eq!(present, Ok(Some(true)));
    let rule = "self.v > oldSelf.v.orValue(5)";
    assert_eq!(run(rule, OldSelf::Optional, some()), Ok(Some(true)));
    assert_eq!(run(rule, OldSelf::Optional, none()), Ok(Some(false)));
    let rule = "!oldSelf.hasValue() || oldSelf.value().v < self.v";
    assert_eq!(run(rule, OldSelf::Optional, none()), Ok(Some(true)));
    assert!(run("oldSelf.v == 1", OldSelf::Absent, None).unwrap_err().contains("undeclared"));
    let program =
        compile_rule("self.v > 1", &Env::for_rule(&shape, OldSelf::Present)).expect("a rule");
    assert!(!program.uses("oldSelf"));
}

#[test]
fn r125_resources_show_their_names() {
    let schema = object(json!({
        "spec": object(json!({"field1": {"type": "string"}})),
        "embedded": {"type": "object", "x-kubernetes-embedded-resource": true},
    }));
    let data = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "foo", "namespace": "xyz"},
        "spec": {"field1": "a"},
        "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "in"}, "spec": {}},
    });
    let shape = DeclaredType::from_schema(&schema, true).expect("a schema rules can see");
    let env = Env::for_rule(&shape, OldSelf::Absent);
    for rule in [
        "self.kind == 'Pod' && self.apiVersion == 'v1' && self.metadata.name == 'foo'",
        "!has(self.metadata.generateName) && self.spec.field1 == 'a'",
        "self.embedded.metadata.name == 'in' && self.embedded.kind == 'Pod'",
    ] {
        let program = compile_rule(rule, &env).expect(rule);
        let bindings = Bindings::new().bind("self", Value::from_json(&data, &shape).expect("data"));
        let made = program.eval(&bindings, &mut CostBudget::for_object()).expect(rule);
        assert_eq!(made.as_bool(), Some(true), "{rule}");
    }
    for rule in [
        "has(self.metadata.namespace)",
        "has(self.embedded.spec)",
        "has(self.metadata.labels)",
        "has(self.status)",
    ] {
        let error = compile_rule(rule, &env).expect_err(rule);
        assert!(error.message.contains("undefined field"), "{rule}: {error}");
    }
}

#[test]
fn r125_names_that_need_escapes() {
    let names = [
        "true",
        "in",
        "for",
        "namespace",
        "int",
        "type",
        "self",
        "all",
        "_true",
        "dot.dot",
        "dash-dash",
        "slash/slash",
        "a_b",
        "a__b",
        "if",
    ];
    let properties: serde_json::Map<_, _> =
        names.iter().map(|n| ((*n).to_owned(), json!({"type": "integer"}))).collect();
    let data: serde_json::Map<_, _> =
        names.iter().zip(1..).map(|(n, i)| ((*n).to_owned(), json!(i))).collect();
    let case = Case { schema: object(json!(properties)), object: json!(data) };
    case.valid(&[
        "self.__true__ == 1 && self.__in__ == 2 && self.__for__ == 3 && self.__namespace__ == 4",
        "self.int == 5 && self.type == 6 && self.self == 7 && self.all == 8 && self._true == 9",
        "self.dot__dot__dot == 10 && self.dash__dash__dash == 11 && self.slash__slash__slash == 12",
        "self.a_b == 13 && self.a__underscores__b == 14",
        "self.namespace == 4 && self.if == 15 && has(self.for)",
    ]);
    case.fails(&[
        ("self.true == 1", "Syntax error"),
        ("for == 1", "reserved identifier"),
        ("self.a__b == 1", "undefined field"),
    ]);
}

#[test]
fn r125_data_without_a_type() {
    let any = json!({"x-kubernetes-preserve-unknown-fields": true});
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"known": {"type": "integer"}}});
    let case = Case {
        schema: object(json!({
            "ios": {"x-kubernetes-int-or-string": true}, "percent": {"x-kubernetes-int-or-string": true},
            "open": list(open), "any": any, "anys": list(any),
        })),
        object: json!({
            "ios": 1, "percent": "25%", "any": 1, "anys": ["a", 2],
            "open": [{"known": 1, "u": "a"}, {"known": 1, "u": "b"}, {"known": 1, "u": "b"}, {"known": 1}],
        }),
    };
    case.valid(&[
        "self.ios == 1 && self.ios != 'x' && self.percent == '25%' && self.percent != 1",
        "self.percent != ['anything']",
        "type(self.ios) == int ? self.ios == 1 : self.ios == '25%'",
        "type(self.percent) == string && self.percent.matches(r'^\\d+%$')",
        "double(self.percent.replace('%', '')) / 100.0 == 0.25",
        "self.open[0] != self.open[1] && self.open[1] == self.open[2] && self.open[0] != self.open[3]",
        "self.open[0].known == 1",
    ]);
    case.fails(&[
        ("self.ios.startsWith('a')", "no such overload"),
        ("has(self.any)", "undefined field 'any'"),
        ("has(self.anys)", "undefined field 'anys'"),
        ("has(self.open[0].u)", "undefined field 'u'"),
    ]);
}

#[test]
fn r125_urls() {
    plain().valid(&[
        "url('/path').getScheme() == '' && url('https://example.com/').getScheme() == 'https'",
        "url('https://example.com:80/').getHost() == 'example.com:80'",
        "url('https://[::1]:80/').getHost() == '[::1]:80' && url('https://[::1]/').getHostname() == '::1'",
        "url('https://example.com:80/').getHostname() == 'example.com' && url('/path').getHostname() == ''",
        "url('https://example.com:80/').getPort() == '80' && url('https://example.com/').getPort() == ''",
        "url('https://example.com/with space/').getEscapedPath() == '/with%20space/'",
        "url('https://example.com').getEscapedPath() == ''",
        "url('https://e.com/path?k1=a&k2=b&k2=c').getQuery() == {'k1': ['a'], 'k2': ['b', 'c']}",
        "url('https://e.com/p?a b=c+d').getQuery() == {'a b': ['c d']}",
        "url('https://e.com/path?').getQuery() == {}",
        "url('https://u:p@k8s.io:80/docs?k=a#anchor').getEscapedPath() == '/docs'",
        "url('https://u:p@k8s.io:80/docs?k=a#anchor').getHost() == 'k8s.io:80'",
        "isURL('https://user:pass@example.com:80/path?query=val#fragment') && isURL('/path')",
        "!isURL('https://a:b:c/') && !isURL('../relative-path') && !isURL('') && !isURL('a b')",
        "url('https:://kubernetes.io/').getHostname() != 'test'",
        "url('https://a/') == url('https://a/') && url('https://a/') != url('https://b/')",
    ]);
    plain().fails(&[("url('../x').getHost() == ''", "URL parse error")]);
}

#[test]
fn r125_addresses() {
    plain().valid(&[
        "isIP('192.168.0.1') && isIP('::1') && !isIP('192.168.0') && !isIP('::ffff:1.2.3.4')",
        "!isIP('fe80::1%eth0') && !isIP('192.168.0.01')",
        "ip('192.168.0.1').family() == 4 && ip('::1').family() == 6",
        "ip.isCanonical('127.0.0.1') && ip.isCanonical('2001:db8::abcd') && !ip.isCanonical('2001:DB8::ABCD')",
        "!ip.isCanonical('2001:db8:0:0:0:0:0:abcd')",
        "ip('0.0.0.0').isUnspecified() && ip('127.0.0.1').isLoopback() && ip('::1').isLoopback()",
        "ip('224.0.0.1').isLinkLocalMulticast() && !ip('224.0.1.1').isLinkLocalMulticast()",
        "ip('ff02::1').isLinkLocalMulticast() && ip('169.254.169.254').isLinkLocalUnicast()",
        "ip('fe80::1').isLinkLocalUnicast() && ip('192.168.0.1').isGlobalUnicast()",
        "!ip('255.255.255.255').isGlobalUnicast() && !ip('ff00::1').isGlobalUnicast()",
        "type(ip('192.168.0.1')) == net.IP && string(ip('::0:1')) == '::1'",
        "ip('127.0.0.1') == ip('127.0.0.1') && ip('127.0.0.1') != ip('10.0.0.1')",
        "cidr('192.168.0.0/24').containsIP(ip('192.168.0.1')) && cidr('192.168.0.0/24').containsIP('192.168.0.1')",
        "!cidr('192.168.0.0/24').containsIP('192.168.1.1') && !cidr('0.0.0.0/0').containsIP('::1')",
        "cidr('192.168.0.0/24').containsCIDR('192.168.0.0/25') && !cidr('192.168.0.0/24').containsCIDR('192.168.0.0/23')",
        "cidr('2001:db8::/32').containsCIDR(cidr('2001:db8::/33'))",
        "cidr('192.168.1.1/16').masked() == cidr('192.168.0.0/16') && cidr('192.168.0.0/16').prefixLength() == 16",
        "cidr('::1/128').ip().family() == 6 && string(cidr('10.0.0.0/8')) == '10.0.0.0/8'",
        "isCIDR('10.0.0.0/8') && !isCIDR('10.0.0.0') && !isCIDR('10.0.0.0/33') && !isCIDR('10.0.0.0/08')",
    ]);
    plain().fails(&[
        ("ip('nope').family() == 4", "parse error during conversion from string"),
        ("cidr('nope').prefixLength() == 4", "parse error during conversion from string"),
        ("cidr('10.0.0.0/8').containsIP('nope')", "parse error during conversion from string"),
    ]);
}

#[test]
fn r125_quantities() {
    plain().valid(&[
        "isQuantity('20Mi') && isQuantity('1.3') && !isQuantity('20Mb') && !isQuantity('')",
        "quantity('200M') == quantity('0.2G') && quantity('2000k') == quantity('2M')",
        "quantity('20').isLessThan(quantity('100M')) && quantity('1Gi').isGreaterThan(quantity('1G'))",
        "quantity('200M').compareTo(quantity('0.2G')) == 0 && quantity('1').compareTo(quantity('2')) == -1",
        "quantity('50k').add(quantity('20')) == quantity('50.02k') && quantity('50k').sub(20) == quantity('49980')",
        "quantity('50k').add(20) == quantity('50020') && sign(quantity('-1')) == -1 && sign(quantity('0')) == 0",
        "quantity('50k').isInteger() && quantity('50k').asInteger() == 50000",
        "!quantity('1.5').isInteger() && quantity('1.5').asApproximateFloat() == 1.5",
        "quantity('500m').asApproximateFloat() == 0.5 && quantity('50.703k').asApproximateFloat() == 50703.0",
    ]);
    plain().fails(&[
        ("quantity('20Mb').isInteger()", "quantities must match"),
        ("quantity('1.5').asInteger() == 1", "cannot convert value to integer"),
    ]);
}

#[test]
fn r125_versions() {
    plain().valid(&[
        "isSemver('1.2.3') && isSemver('1.2.3-beta.1+build.1') && !isSemver('1.2') && !isSemver('v1.0.0')",
        "!isSemver('01.2.3') && !isSemver('200K') && !isSemver('1.2.3-01') && !isSemver('')",
        "isSemver('v1.0', true) && isSemver('01.01.01', true) && !isSemver('1.1-alpha', true)",
        "semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && semver('1.2.3').patch() == 3",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && semver('1.0.0').isGreaterThan(semver('1.0.0-rc'))",
        "semver('1.0.0-alpha.2').isLessThan(semver('1.0.0-alpha.10'))",
        "semver('1.0.0-1').isLessThan(semver('1.0.0-a')) && semver('1.0.0+a') == semver('1.0.0+b')",
        "semver('v1', true) == semver('1.0.0') && semver('1.2.3').compareTo(semver('1.2.3')) == 0",
    ]);
    plain().fails(&[("semver('v0.1.0').major() == 0", "no semantic version")]);
}

#[test]
fn r125_named_formats() {
    plain().valid(&[
        "format.dns1123Label().validate('my-label-name') == optional.none()",
        "format.dns1123Label().validate('contains a space').hasValue()",
        "format.dns1123Label().validate('Upper').value()[0].contains('RFC 1123')",
        "format.dns1123Subdomain().validate('apiextensions.k8s.io') == optional.none()",
        "format.dns1035Label().validate('1a').hasValue()",
        "format.qualifiedName().validate('apiextensions.k8s.io/v1beta1') == optional.none()",
        "format.dns1123LabelPrefix().validate('my-label-prefix-') == optional.none()",
        "format.dns1123SubdomainPrefix().validate('mysubdomain.prefix.-') == optional.none()",
        "format.dns1035LabelPrefix().validate('my-label-prefix-') == optional.none()",
        "format.labelValue().validate('my-cool-label-Value') == optional.none()",
        "format.labelValue().validate('!!').hasValue()",
        "format.uri().validate('http://example.com') == optional.none() && format.uri().validate('x').hasValue()",
        "format.uuid().validate('123e4567-e89b-12d3-a456-426614174000') == optional.none()",
        "format.uuid().validate('123e4567').hasValue()",
        "format.byte().validate('aGVsbG8=') == optional.none() && format.byte().validate('aGVsbG8').hasValue()",
        "format.date().validate('2021-01-01') == optional.none() && format.date().validate('2020-01-32').hasValue()",
        "format.datetime().validate('2021-01-01T00:00:00Z') == optional.none()",
        "format.named('dns1123Label').value() == format.dns1123Label()",
        "!format.named('unknown').hasValue() && format.uri() != format.uuid()",
    ]);
}

#[test]
fn r125_either_side_of_a_logical_operator_decides() {
    plain().valid(&[
        "true || 1 / 0 == 1",
        "1 / 0 == 1 || true",
        "!(false && 1 / 0 == 1) && !(1 / 0 == 1 && false)",
        "[1, 0].exists(x, 1 / x == 1) && [0, 1].exists(x, 1 / x == 1)",
        "![0, 1].all(x, 1 / x == 2)",
        "true ? true : 1 / 0 == 1",
        "false ? 1 / 0 == 1 : true",
        "(true ? 1 : 2) == 1 && (false ? 1 : true ? 2 : 3) == 2",
    ]);
    plain().fails(&[
        ("1 / 0 == 1 || false", "division by zero"),
        ("true && 1 / 0 == 1", "division by zero"),
        ("[0, 1].all(x, 1 / x == 1)", "division by zero"),
    ]);
}
