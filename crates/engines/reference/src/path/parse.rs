//! Reads a path. One pass over the bytes, no look back; the depth is bounded, so is the stack.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Number;

use super::{
    BYTES_MAX, Comparable, FILTER_DEPTH_MAX, FilterQuery, JsonPath, JsonPathError, Operator,
    PathStep, SEGMENTS_MAX, Selector, Start, TERMS_MAX, Test, Warning,
};

/// How deep parentheses may stand in one another.
const PARENTHESES_MAX: usize = 16;
/// Larger numbers cannot be told apart in JSON.
const INDEX_MAX: i64 = (1 << 53) - 1;

pub(super) fn parse(text: &str, beside: bool) -> Result<JsonPath, JsonPathError> {
    if text.len() > BYTES_MAX {
        return Err(JsonPathError { offset: BYTES_MAX, expected: "at most 1024 bytes" });
    }
    let mut parser = JsonPathParser {
        text,
        at: 0,
        dropped: Vec::new(),
        repaired: false,
        segments: 0,
        terms: 0,
        filters: 0,
        parentheses: 0,
        unequal: Vec::new(),
        tested: Vec::new(),
        loose: Vec::new(),
    };
    let (start, segments) = parser.whole(beside)?;
    let text = parser.read_as();
    let mut warnings = Vec::new();
    if parser.repaired {
        warnings.push(Warning::ExtraBracket { read_as: text.clone() });
    }
    let loose = parser.loose.into_iter();
    warnings.extend(loose.map(|member| Warning::MissingMatches { member }));
    Ok(JsonPath { text, start, segments, warnings })
}

struct JsonPathParser<'t> {
    text: &'t str,
    at: usize,
    /// Bytes that are no part of the path as it is read: braces, extra brackets.
    dropped: Vec<usize>,
    repaired: bool,
    segments: usize,
    terms: usize,
    /// How many filters are open.
    filters: usize,
    /// How many parentheses are open, over all filters.
    parentheses: usize,
    /// What the filter that is open compares with `!=`, and the members whose existence it tests.
    unequal: Vec<&'t str>,
    tested: Vec<&'t str>,
    /// What is compared with `!=` and nowhere tested (R41).
    loose: Vec<String>,
}

type Parsed<T> = Result<T, JsonPathError>;

impl<'t> JsonPathParser<'t> {
    fn whole(&mut self, beside: bool) -> Parsed<(Start, Vec<PathStep>)> {
        let braced = self.take("{");
        if braced {
            self.dropped.push(0);
        }
        let start = match beside {
            true if self.take("@") => Start::Current,
            true if !self.take("$") => return Err(self.expected("`@` or `$`")),
            true => Start::Root,
            false => {
                let rooted = self.take("$");
                if !rooted && !matches!(self.peek(), Some(b'.' | b'[')) {
                    return Err(self.expected("`$`, `.` or `[`"));
                }
                Start::Root
            }
        };
        let segments = self.segments()?;
        if braced {
            self.dropped.push(self.at);
            if !self.take("}") {
                return Err(self.expected("`.`, `[` or `}`"));
            }
        }
        if self.at < self.text.len() {
            return Err(self.expected("`.`, `[` or the end"));
        }
        Ok((start, segments))
    }

    /// The path without what was dropped.
    fn read_as(&self) -> String {
        let kept = self.text.char_indices().filter(|(at, _)| !self.dropped.contains(at));
        kept.map(|(_, letter)| letter).collect()
    }

    fn segments(&mut self) -> Parsed<Vec<PathStep>> {
        let mut segments = Vec::new();
        loop {
            let before = self.at;
            self.blanks();
            let next = self.peek();
            if !matches!(next, Some(b'.' | b'[')) {
                self.at = before;
                return Ok(segments);
            }
            self.segments += 1;
            if self.segments > SEGMENTS_MAX {
                return Err(self.expected("at most 32 segments"));
            }
            let segment = if next == Some(b'.') { self.dotted()? } else { self.bracket()? };
            segments.push(segment);
        }
    }

    fn dotted(&mut self) -> Parsed<PathStep> {
        self.at += 1;
        let selector = match self.peek() {
            Some(b'.') => return Err(self.expected("a member; `..` is not supported")),
            Some(b'*') => {
                self.at += 1;
                Selector::Wildcard
            }
            _ => Selector::Member(self.member()?),
        };
        Ok(PathStep { selectors: Vec::from([selector]) })
    }

    /// A member after a dot; a backslash makes the next letter a part of it.
    fn member(&mut self) -> Parsed<Box<str>> {
        let mut name = String::new();
        while let Some(letter) = self.rest().chars().next() {
            let plain = letter.is_ascii_alphanumeric()
                || matches!(letter, '_' | '-' | '/')
                || !letter.is_ascii();
            if letter == '\\' {
                self.at += 1;
                let Some(escaped) = self.rest().chars().next() else {
                    return Err(self.expected("a letter after the backslash"));
                };
                self.at += escaped.len_utf8();
                name.push(escaped);
            } else if plain {
                self.at += letter.len_utf8();
                name.push(letter);
            } else {
                break;
            }
        }
        if name.is_empty() {
            return Err(self.expected("a member or `*`"));
        }
        Ok(name.into_boxed_str())
    }

    fn bracket(&mut self) -> Parsed<PathStep> {
        let doubled = self.rest().starts_with("[[?(");
        if doubled {
            self.drop_byte();
        }
        self.at += 1;
        let mut selectors = Vec::new();
        loop {
            self.blanks();
            selectors.push(self.selector()?);
            self.blanks();
            if !self.take(",") {
                break;
            }
        }
        if !self.take("]") {
            return Err(self.expected("`,` or `]`"));
        }
        // Where no filter is open, or one in parentheses, the second bracket cannot end anything else.
        let unclaimed = self.filters == 0 || self.parentheses > 0;
        if doubled && unclaimed && self.peek() == Some(b']') {
            self.drop_byte();
        }
        Ok(PathStep { selectors })
    }

    /// Leaves an extra bracket out of the path (R71).
    fn drop_byte(&mut self) {
        self.dropped.push(self.at);
        self.repaired = true;
        self.at += 1;
    }

    fn selector(&mut self) -> Parsed<Selector> {
        match self.peek() {
            Some(b'\'' | b'"') => Ok(Selector::Member(self.string()?)),
            Some(b'*') => {
                self.at += 1;
                Ok(Selector::Wildcard)
            }
            Some(b'?') => {
                self.at += 1;
                self.filter()
            }
            Some(b':' | b'-' | b'0'..=b'9') => self.index_or_slice(),
            _ => Err(self.expected("a quoted member, `*`, a number or `?`")),
        }
    }

    fn index_or_slice(&mut self) -> Parsed<Selector> {
        let from = self.maybe_integer()?;
        self.blanks();
        if !self.take(":") {
            return from.map(Selector::Index).ok_or_else(|| self.expected("a number"));
        }
        self.blanks();
        let to = self.maybe_integer()?;
        self.blanks();
        let mut step = 1;
        if self.take(":") {
            self.blanks();
            step = self.maybe_integer()?.unwrap_or(1);
        }
        Ok(Selector::Slice { from, to, step })
    }

    fn maybe_integer(&mut self) -> Parsed<Option<i64>> {
        let start = self.at;
        let negative = self.take("-");
        let digits = self.digits();
        if digits.is_empty() && !negative {
            return Ok(None);
        }
        let leading = digits.starts_with('0') && (digits.len() > 1 || negative);
        let number = digits.parse::<i64>().ok().filter(|number| *number <= INDEX_MAX && !leading);
        let Some(number) = number else {
            self.at = start;
            return Err(self.expected("a whole number"));
        };
        Ok(Some(if negative { -number } else { number }))
    }

    fn digits(&mut self) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    fn filter(&mut self) -> Parsed<Selector> {
        if self.filters >= FILTER_DEPTH_MAX {
            return Err(self.expected("no filter here: two may stand in one another"));
        }
        self.filters += 1;
        let outer = core::mem::take(&mut self.parentheses);
        let unequal = core::mem::take(&mut self.unequal);
        let tested = core::mem::take(&mut self.tested);
        let test = self.any()?;
        self.tell_loose();
        (self.unequal, self.tested, self.parentheses) = (unequal, tested, outer);
        self.filters -= 1;
        Ok(Selector::Filter(Box::new(test)))
    }

    /// Keeps what the filter compares with `!=` and never tests (R41).
    fn tell_loose(&mut self) {
        for member in &self.unequal {
            if !self.tested.contains(member) && !self.loose.iter().any(|known| known == member) {
                self.loose.push((*member).into());
            }
        }
    }

    fn any(&mut self) -> Parsed<Test> {
        let mut tests = Vec::from([self.all()?]);
        while self.follows("||") {
            tests.push(self.all()?);
        }
        Ok(one_or(tests, Test::Any))
    }

    fn all(&mut self) -> Parsed<Test> {
        let mut tests = Vec::from([self.basic()?]);
        while self.follows("&&") {
            tests.push(self.basic()?);
        }
        Ok(one_or(tests, Test::All))
    }

    fn follows(&mut self, operator: &str) -> bool {
        self.blanks();
        self.take(operator)
    }

    /// A test, a comparison, or either in parentheses.
    fn basic(&mut self) -> Parsed<Test> {
        self.blanks();
        if self.take("!") {
            self.blanks();
            let inner = match self.peek() {
                Some(b'(') => self.parenthesised()?,
                _ => Test::Exists(self.test_query()?),
            };
            return Ok(Test::Not(Box::new(inner)));
        }
        if self.peek() == Some(b'(') {
            return self.parenthesised();
        }
        self.term()
    }

    fn parenthesised(&mut self) -> Parsed<Test> {
        if self.parentheses >= PARENTHESES_MAX {
            return Err(self.expected("fewer parentheses in one another"));
        }
        self.at += 1;
        self.parentheses += 1;
        let test = self.any()?;
        self.blanks();
        if !self.take(")") {
            return Err(self.expected("`&&`, `||` or `)`"));
        }
        self.parentheses -= 1;
        Ok(test)
    }

    fn term(&mut self) -> Parsed<Test> {
        self.count_term()?;
        let (left, left_text) = self.comparable()?;
        self.blanks();
        let Some(operator) = self.operator() else {
            return match left {
                Comparable::Query(query) => {
                    self.tested.push(left_text);
                    Ok(Test::Exists(query))
                }
                _ => Err(self.expected("a comparison")),
            };
        };
        self.blanks();
        let (right, right_text) = self.comparable()?;
        for (side, text) in [(&left, left_text), (&right, right_text)] {
            let Comparable::Query(query) = side else { continue };
            if !query.is_singular() {
                return Err(self.expected("a comparison of single values"));
            }
            if operator == Operator::Unequal && query.start == Start::Current {
                self.unequal.push(text);
            }
        }
        Ok(Test::Compare(left, operator, right))
    }

    fn test_query(&mut self) -> Parsed<FilterQuery> {
        self.count_term()?;
        let from = self.at;
        let query = self.query()?;
        // `!@.a` tells the missing from the rest just as well.
        self.tested.push(self.text.get(from..self.at).unwrap_or_default());
        Ok(query)
    }

    fn count_term(&mut self) -> Parsed<()> {
        self.terms += 1;
        if self.terms > TERMS_MAX {
            return Err(self.expected("at most 16 terms in filters"));
        }
        Ok(())
    }

    fn operator(&mut self) -> Option<Operator> {
        let operators = [
            ("==", Operator::Equal),
            ("!=", Operator::Unequal),
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        operators.into_iter().find(|(text, _)| self.take(text)).map(|(_, operator)| operator)
    }

    fn comparable(&mut self) -> Parsed<(Comparable, &'t str)> {
        let from = self.at;
        let value = match self.peek() {
            Some(b'\'' | b'"') => Comparable::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => Comparable::Number(self.number()?),
            Some(b'@' | b'$') => Comparable::Query(self.query()?),
            _ => self.word()?,
        };
        Ok((value, self.text.get(from..self.at).unwrap_or_default()))
    }

    fn word(&mut self) -> Parsed<Comparable> {
        let rest = self.rest();
        let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let word = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        let value = match word {
            "true" => Comparable::Bool(true),
            "false" => Comparable::Bool(false),
            "null" => Comparable::Null,
            "" => return Err(self.expected("`@`, `$`, a literal, `!` or `(`")),
            _ => return Err(self.expected("`@`, `$` or a literal; functions are not supported")),
        };
        self.at += word.len();
        Ok(value)
    }

    fn query(&mut self) -> Parsed<FilterQuery> {
        let start = match self.peek() {
            Some(b'@') => Start::Current,
            Some(b'$') => Start::Root,
            _ => return Err(self.expected("`@` or `$`")),
        };
        self.at += 1;
        Ok(FilterQuery { start, segments: self.segments()? })
    }

    fn number(&mut self) -> Parsed<Number> {
        let start = self.at;
        let rest = self.rest();
        let part =
            |letter: char| letter.is_ascii_digit() || matches!(letter, '-' | '+' | '.' | 'e' | 'E');
        let end = rest.find(|letter| !part(letter)).unwrap_or(rest.len());
        let text = rest.get(..end).unwrap_or_default();
        self.at += end;
        serde_json::from_str::<Number>(text).map_err(|_| {
            self.at = start;
            self.expected("a number")
        })
    }

    /// A quoted text, with the escapes of JSON and of its own quote.
    fn string(&mut self) -> Parsed<Box<str>> {
        let Some(quote) = self.rest().chars().next() else {
            return Err(self.expected("a quote"));
        };
        self.at += 1;
        let mut text = String::new();
        loop {
            let Some(letter) = self.rest().chars().next() else {
                return Err(self.expected("the closing quote"));
            };
            if letter < ' ' {
                return Err(self.expected("no control characters in a quoted text"));
            }
            self.at += letter.len_utf8();
            match letter {
                _ if letter == quote => return Ok(text.into_boxed_str()),
                '\\' => text.push(self.escape(quote)?),
                _ => text.push(letter),
            }
        }
    }

    fn escape(&mut self, quote: char) -> Parsed<char> {
        let letter = self.rest().chars().next();
        let plain = match letter {
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some(letter @ ('/' | '\\')) => letter,
            Some(letter) if letter == quote => letter,
            Some('u') => return self.unicode(),
            _ => return Err(self.expected("an escape of JSON")),
        };
        self.at += 1;
        Ok(plain)
    }

    /// `uXXXX`, or two of them for letters that need a pair.
    fn unicode(&mut self) -> Parsed<char> {
        let start = self.at;
        let high = self.four_digits();
        let code = match high {
            Some(high @ 0xd800..=0xdbff) if self.take("\\") => {
                let low = self.four_digits().filter(|low| (0xdc00..=0xdfff).contains(low));
                low.map(|low| 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00))
            }
            other => other,
        };
        code.and_then(char::from_u32).ok_or_else(|| {
            self.at = start;
            self.expected("four hexadecimal digits of a letter")
        })
    }

    fn four_digits(&mut self) -> Option<u32> {
        let digits = self.rest().strip_prefix('u')?.get(..4)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        self.at += 5;
        u32::from_str_radix(digits, 16).ok()
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, text: &str) -> bool {
        let taken = self.rest().starts_with(text);
        if taken {
            self.at += text.len();
        }
        taken
    }

    fn blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    fn expected(&self, expected: &'static str) -> JsonPathError {
        JsonPathError { offset: self.at, expected }
    }
}

fn one_or(mut tests: Vec<Test>, many: fn(Vec<Test>) -> Test) -> Test {
    match (tests.len(), tests.pop()) {
        (1, Some(only)) => only,
        (_, last) => {
            tests.extend(last);
            many(tests)
        }
    }
}
