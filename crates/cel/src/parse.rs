//! Tokens to a syntax tree. Macros are unfolded here, types are not looked at.
//!
//! The grammar is small, so the parser is written by hand: it reads each token once, and it refuses a
//! tree that is too deep before it exists. A generated parser was tried; a sum of ten thousand
//! terms ended the process.

use std::sync::Arc;

use crate::ast::{DEPTH_MAX, Element, Expr, ExprKind, Literal, MapEntry, StructField};
use crate::error::CompileError;
use crate::lex::{Token, TokenKind, tokens};
use crate::macros;

/// How long an expression may be, in bytes.
pub(crate) const LENGTH_MAX: usize = 100_000;

/// Words that are not names.
pub(crate) const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Reads an expression.
pub(crate) fn parse(text: &str) -> Result<Expr, CompileError> {
    if text.len() > LENGTH_MAX {
        let message = format!("the expression is longer than {LENGTH_MAX} bytes");
        return Err(CompileError { message });
    }
    let mut parser = ExpressionParser { text, tokens: tokens(text)?, at: 0, nesting: 0 };
    let expr = parser.expression()?;
    match parser.kind() {
        TokenKind::End => Ok(expr),
        _ => Err(parser.unexpected("the end")),
    }
}

/// Whether a word is a token of its own and cannot follow a dot.
fn is_word_token(word: &str) -> bool {
    matches!(word, "true" | "false" | "null" | "in")
}

pub(crate) struct ExpressionParser<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    at: usize,
    /// How many expressions are open, so that deep nesting ends before the stack does.
    nesting: u16,
}

type Parsed = Result<Expr, CompileError>;

impl ExpressionParser<'_> {
    fn kind(&self) -> TokenKind {
        self.tokens.get(self.at).map_or(TokenKind::End, |t| t.kind.clone())
    }

    fn place(&self) -> usize {
        self.tokens.get(self.at).map_or(0, |t| t.at)
    }

    fn is(&self, mark: &str) -> bool {
        self.is_ahead(0, mark)
    }

    fn is_ahead(&self, ahead: usize, mark: &str) -> bool {
        let token = self.tokens.get(self.at.saturating_add(ahead));
        matches!(token, Some(Token { kind: TokenKind::Mark(m), .. }) if *m == mark)
    }

    fn take(&mut self, mark: &str) -> bool {
        let found = self.is(mark);
        if found {
            self.at += 1;
        }
        found
    }

    fn expect(&mut self, mark: &str) -> Result<(), CompileError> {
        if self.take(mark) { Ok(()) } else { Err(self.unexpected(&format!("'{mark}'"))) }
    }

    pub(crate) fn error(&self, at: usize, message: &str) -> CompileError {
        CompileError::at(self.text, at, message)
    }

    fn unexpected(&self, wanted: &str) -> CompileError {
        let shown = match self.kind() {
            TokenKind::End => "<EOF>".to_owned(),
            TokenKind::Mark(mark) => mark.to_owned(),
            TokenKind::Ident(name) | TokenKind::Quoted(name) => name.to_string(),
            _ => "a literal".to_owned(),
        };
        let message = format!("Syntax error: mismatched input '{shown}' expecting {wanted}");
        self.error(self.place(), &message)
    }

    /// A node, unless the tree becomes too deep.
    pub(crate) fn node(&self, at: usize, kind: ExprKind) -> Parsed {
        Expr::new(at, kind).ok_or_else(|| self.too_deep(at))
    }

    fn too_deep(&self, at: usize) -> CompileError {
        self.error(at, &format!("expression recursion limit exceeded: {DEPTH_MAX}"))
    }

    pub(crate) fn call(&self, at: usize, name: &str, args: Vec<Expr>) -> Parsed {
        self.node(at, ExprKind::Call { name: name.into(), target: None, args })
    }

    fn expression(&mut self) -> Parsed {
        self.nesting += 1;
        if self.nesting > DEPTH_MAX {
            return Err(self.too_deep(self.place()));
        }
        let condition = self.logical("||")?;
        let at = self.place();
        let parsed = if self.take("?") {
            let yes = self.logical("||")?;
            self.expect(":")?;
            let no = self.expression()?;
            self.call(at, "_?_:_", vec![condition, yes, no])?
        } else {
            condition
        };
        self.nesting -= 1;
        Ok(parsed)
    }

    /// A chain of `&&` or `||`, built as a balanced tree: long chains are common and not deep.
    fn logical(&mut self, mark: &'static str) -> Parsed {
        let mut terms = vec![];
        let mut places = vec![];
        loop {
            terms.push(if mark == "||" { self.logical("&&")? } else { self.relation()? });
            places.push(self.place());
            if !self.take(mark) {
                break;
            }
        }
        let name = if mark == "||" { "_||_" } else { "_&&_" };
        self.balanced(name, terms, &places)
    }

    fn balanced(&self, name: &str, mut terms: Vec<Expr>, places: &[usize]) -> Parsed {
        let mut right = terms.split_off(terms.len().div_ceil(2));
        if right.is_empty() {
            return terms.pop().ok_or_else(|| self.unexpected("an expression"));
        }
        let (left_places, right_places) = places.split_at(terms.len().min(places.len()));
        let at = left_places.last().copied().unwrap_or_default();
        let left = self.balanced(name, terms, left_places)?;
        let right = self.balanced(name, std::mem::take(&mut right), right_places)?;
        self.call(at, name, vec![left, right])
    }

    fn relation(&mut self) -> Parsed {
        let mut left = self.sum()?;
        loop {
            let at = self.place();
            let name = match self.kind() {
                TokenKind::Mark("==") => "_==_",
                TokenKind::Mark("!=") => "_!=_",
                TokenKind::Mark("<") => "_<_",
                TokenKind::Mark("<=") => "_<=_",
                TokenKind::Mark(">") => "_>_",
                TokenKind::Mark(">=") => "_>=_",
                TokenKind::Ident(word) if &*word == "in" => "@in",
                _ => return Ok(left),
            };
            self.at += 1;
            let right = self.sum()?;
            left = self.call(at, name, vec![left, right])?;
        }
    }

    fn sum(&mut self) -> Parsed {
        let mut left = self.product()?;
        loop {
            let at = self.place();
            let name = match self.kind() {
                TokenKind::Mark("+") => "_+_",
                TokenKind::Mark("-") => "_-_",
                _ => return Ok(left),
            };
            self.at += 1;
            let right = self.product()?;
            left = self.call(at, name, vec![left, right])?;
        }
    }

    fn product(&mut self) -> Parsed {
        let mut left = self.unary()?;
        loop {
            let at = self.place();
            let name = match self.kind() {
                TokenKind::Mark("*") => "_*_",
                TokenKind::Mark("/") => "_/_",
                TokenKind::Mark("%") => "_%_",
                _ => return Ok(left),
            };
            self.at += 1;
            let right = self.unary()?;
            left = self.call(at, name, vec![left, right])?;
        }
    }

    fn unary(&mut self) -> Parsed {
        for (mark, name) in [("!", "!_"), ("-", "-_")] {
            let at = self.place();
            let mut count = 0usize;
            // A minus just before a number belongs to the number, as the least integer needs.
            while self.is(mark) && !(mark == "-" && self.number_ahead()) {
                self.at += 1;
                count += 1;
            }
            if count > 0 {
                let operand = self.member()?;
                let odd = count % 2 == 1;
                return if odd { self.call(at, name, vec![operand]) } else { Ok(operand) };
            }
        }
        self.member()
    }

    fn number_ahead(&self) -> bool {
        let next = self.tokens.get(self.at + 1).map(|t| &t.kind);
        matches!(next, Some(TokenKind::Int(_) | TokenKind::Double(_)))
    }

    fn member(&mut self) -> Parsed {
        let mut operand = self.primary()?;
        loop {
            let at = self.place();
            if self.take(".") {
                operand = self.dot(at, operand)?;
            } else if self.take("[") {
                let name = if self.take("?") { "_[?_]" } else { "_[_]" };
                let index = self.expression()?;
                self.expect("]")?;
                operand = self.call(at, name, vec![operand, index])?;
            } else if self.is("{") && operand.dotted().is_some() {
                let name = operand.dotted().unwrap_or_default();
                self.at += 1;
                let fields = self.fields()?;
                operand = self.node(at, ExprKind::Struct { name: name.into(), fields })?;
            } else {
                return Ok(operand);
            }
        }
    }

    fn dot(&mut self, at: usize, operand: Expr) -> Parsed {
        let optional = self.take("?");
        let (name, plain): (Arc<str>, bool) = match self.kind() {
            TokenKind::Ident(name) if !is_word_token(&name) => (name, true),
            TokenKind::Quoted(name) => (name, false),
            _ => return Err(self.unexpected("a name")),
        };
        self.at += 1;
        if optional {
            let operand = Box::new(operand);
            return self.node(at, ExprKind::OptionalSelect { operand, field: name });
        }
        if plain && self.is("(") {
            let at = self.place();
            self.at += 1;
            let args = self.arguments(")")?;
            return macros::member(self, at, operand, name, args);
        }
        self.node(at, ExprKind::Select { operand: Box::new(operand), field: name, test: false })
    }

    fn primary(&mut self) -> Parsed {
        let at = self.place();
        let kind = self.kind();
        self.at += 1;
        match kind {
            TokenKind::Mark("(") => {
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            TokenKind::Mark("[") => self.list(at),
            TokenKind::Mark("{") => self.map(at),
            TokenKind::Mark(".") => match self.kind() {
                TokenKind::Ident(name) if !is_word_token(&name) => {
                    self.at += 1;
                    self.ident(at, name)
                }
                _ => Err(self.unexpected("a name")),
            },
            TokenKind::Ident(name) => self.ident(at, name),
            _ => {
                self.at -= 1;
                let literal = self.literal()?;
                self.node(at, ExprKind::Literal(literal))
            }
        }
    }

    fn ident(&mut self, at: usize, name: Arc<str>) -> Parsed {
        let constant = match &*name {
            "true" => Some(Literal::Bool(true)),
            "false" => Some(Literal::Bool(false)),
            "null" => Some(Literal::Null),
            _ => None,
        };
        if let Some(literal) = constant {
            return self.node(at, ExprKind::Literal(literal));
        }
        if RESERVED.contains(&&*name) {
            return Err(self.error(at, &format!("Syntax error: reserved identifier: {name}")));
        }
        if self.is("(") {
            let place = self.place();
            self.at += 1;
            let args = self.arguments(")")?;
            return macros::global(self, place, name, args);
        }
        self.node(at, ExprKind::Ident(name))
    }

    fn arguments(&mut self, close: &str) -> Result<Vec<Expr>, CompileError> {
        let mut args = vec![];
        if self.take(close) {
            return Ok(args);
        }
        loop {
            args.push(self.expression()?);
            if !self.take(",") {
                self.expect(close)?;
                return Ok(args);
            }
        }
    }

    fn list(&mut self, at: usize) -> Parsed {
        let mut elements = vec![];
        let bare_comma = self.is(",") && self.is_ahead(1, "]");
        while !bare_comma && !self.is("]") {
            let optional = self.take("?");
            elements.push(Element { optional, value: self.expression()? });
            if !self.take(",") {
                break;
            }
        }
        self.take(",");
        self.expect("]")?;
        self.node(at, ExprKind::List(elements))
    }

    fn map(&mut self, at: usize) -> Parsed {
        let mut entries = vec![];
        let bare_comma = self.is(",") && self.is_ahead(1, "}");
        while !bare_comma && !self.is("}") {
            let optional = self.take("?");
            let key = self.expression()?;
            self.expect(":")?;
            let value = self.expression()?;
            entries.push(MapEntry { optional, key, value });
            if !self.take(",") {
                break;
            }
        }
        self.take(",");
        self.expect("}")?;
        self.node(at, ExprKind::Map(entries))
    }

    /// The fields of `Name{…}`.
    fn fields(&mut self) -> Result<Vec<StructField>, CompileError> {
        let mut fields = vec![];
        while !self.take("}") {
            let optional = self.take("?");
            let name = match self.kind() {
                TokenKind::Ident(name) if !is_word_token(&name) => name,
                TokenKind::Quoted(name) => name,
                _ => return Err(self.unexpected("a name")),
            };
            self.at += 1;
            self.expect(":")?;
            fields.push(StructField { optional, name, value: self.expression()? });
            if !self.take(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(fields)
    }

    fn literal(&mut self) -> Result<Literal, CompileError> {
        let at = self.place();
        let negative = self.take("-");
        let range = |p: &Self| p.error(at, "invalid int literal");
        let literal = match self.kind() {
            TokenKind::Int(value) if negative => {
                Literal::Int(0i64.checked_sub_unsigned(value).ok_or_else(|| range(self))?)
            }
            TokenKind::Int(value) => Literal::Int(i64::try_from(value).map_err(|_| range(self))?),
            TokenKind::Double(value) => Literal::Double(if negative { -value } else { value }),
            TokenKind::Uint(value) if !negative => Literal::Uint(value),
            TokenKind::String(text) if !negative => Literal::String(text),
            TokenKind::Bytes(octets) if !negative => Literal::Bytes(octets),
            _ => return Err(self.unexpected("an expression")),
        };
        self.at += 1;
        Ok(literal)
    }
}

#[cfg(test)]
mod tests {
    //! Against the parser of the `cel` crate, on texts it survives. Rules of spec/dependencies.md.

    use proptest::prelude::*;

    use super::parse;

    /// Whether the other parser takes the text.
    fn other(text: &str) -> bool {
        let parser = cel::Env::stdlib().with_optional_support(true).parser();
        parser.enable_ident_escape_syntax(true).parse(text).is_ok()
    }

    fn words() -> impl Strategy<Value = String> {
        let words = vec![
            "a",
            "b",
            ".",
            ".",
            ".?",
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
            ">=",
            "&&",
            "||",
            "!",
            "?",
            " in ",
            "1",
            "1u",
            "0x1f",
            "2.5",
            "1e3",
            ".5",
            "'a'",
            "\"b\"",
            "b'c'",
            "r'\\d'",
            "'''e'''",
            "true",
            "false",
            "null",
            "has(a.b)",
            "all(x,",
            "map(x,",
            "exists(x,",
            "f(",
            " ",
            "\n",
            "'\\n'",
            "'\\x41'",
            "'\\101'",
            "'\\u00e9'",
            "`a-b`",
            "[,]",
            "[?a]",
            "{?1:a}",
            "// c\n",
        ];
        prop::collection::vec(prop::sample::select(words), 1..9).prop_map(|w| w.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

        #[test]
        fn r18_the_grammar_is_the_common_one(text in words()) {
            prop_assert_eq!(parse(&text).is_ok(), other(&text), "{}", text);
        }
    }

    #[test]
    fn long_chains_of_logic_stay_shallow() {
        let text = format!("a{}", "&&a".repeat(5000));
        let parsed = parse(&text).expect("a long chain");
        assert!(parsed.depth < 20, "{}", parsed.depth);
    }
}
