//! Text to tokens. What the tokens mean together is the parser's business.

use std::sync::Arc;

use crate::error::CompileError;

/// One token and its first character's place.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) at: usize,
    pub(crate) kind: TokenKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind {
    Ident(Arc<str>),
    /// A field name in back quotes.
    Quoted(Arc<str>),
    /// A whole number without its sign; `u64` so that the least integer can be written.
    Int(u64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    /// An operator or bracket.
    Mark(&'static str),
    End,
}

const MARKS: [&str; 26] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!",
    "?", ":", "+", "*", "/", "%", "=", ";",
];

/// Reads all tokens; the last is always [`TokenKind::End`].
pub(crate) fn tokens(text: &str) -> Result<Vec<Token>, CompileError> {
    let chars: Vec<char> = text.chars().collect();
    let mut lexer = Lexer { text, chars, at: 0 };
    let mut out = Vec::new();
    loop {
        let token = lexer.next()?;
        let end = token.kind == TokenKind::End;
        out.push(token);
        if end {
            return Ok(out);
        }
    }
}

struct Lexer<'t> {
    text: &'t str,
    chars: Vec<char>,
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at.saturating_add(ahead)).copied()
    }

    fn error(&self, at: usize, message: &str) -> CompileError {
        CompileError::at(self.text, at, message)
    }

    fn skip_blank(&mut self) {
        while let Some(c) = self.peek(0) {
            if matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}') {
                self.at += 1;
            } else if c == '/' && self.peek(1) == Some('/') {
                while self.peek(0).is_some_and(|c| c != '\n') {
                    self.at += 1;
                }
            } else {
                return;
            }
        }
    }

    fn next(&mut self) -> Result<Token, CompileError> {
        self.skip_blank();
        let at = self.at;
        let Some(c) = self.peek(0) else {
            return Ok(Token { at, kind: TokenKind::End });
        };
        let digit_follows = self.peek(1).is_some_and(|c| c.is_ascii_digit());
        let kind = if c.is_ascii_digit() || (c == '.' && digit_follows) {
            self.number()?
        } else if self.string_starts() {
            self.string()?
        } else if c.is_ascii_alphabetic() || c == '_' {
            TokenKind::Ident(self.word().into())
        } else if c == '`' {
            self.quoted()?
        } else {
            self.mark()?
        };
        Ok(Token { at, kind })
    }

    fn word(&mut self) -> String {
        let mut out = String::new();
        while let Some(c) = self.peek(0).filter(|c| c.is_ascii_alphanumeric() || *c == '_') {
            out.push(c);
            self.at += 1;
        }
        out
    }

    fn quoted(&mut self) -> Result<TokenKind, CompileError> {
        let start = self.at;
        self.at += 1;
        let mut out = String::new();
        while let Some(c) = self.peek(0) {
            self.at += 1;
            match c {
                '`' if !out.is_empty() => return Ok(TokenKind::Quoted(out.into())),
                'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '.' | '-' | '/' | ' ' => out.push(c),
                _ => break,
            }
        }
        Err(self.error(start, "Syntax error: a name in back quotes is not closed or not allowed"))
    }

    fn mark(&mut self) -> Result<TokenKind, CompileError> {
        for mark in MARKS {
            if mark.chars().enumerate().all(|(i, c)| self.peek(i) == Some(c)) {
                if mark == "=" || mark == ";" {
                    break;
                }
                self.at += mark.len();
                return Ok(TokenKind::Mark(mark));
            }
        }
        let shown = self.peek(0).map(String::from).unwrap_or_default();
        Err(self.error(self.at, &format!("Syntax error: token recognition error at: '{shown}'")))
    }

    fn digits(&mut self, out: &mut String, hex: bool) {
        let fits = |c: &char| if hex { c.is_ascii_hexdigit() } else { c.is_ascii_digit() };
        while let Some(c) = self.peek(0).filter(fits) {
            out.push(c);
            self.at += 1;
        }
    }

    fn number(&mut self) -> Result<TokenKind, CompileError> {
        let start = self.at;
        let mut digits = String::new();
        let hex = self.peek(0) == Some('0')
            && self.peek(1) == Some('x')
            && self.peek(2).is_some_and(|c| c.is_ascii_hexdigit());
        if hex {
            self.at += 2;
        }
        self.digits(&mut digits, hex);
        if !hex && self.fraction(&mut digits) {
            let value = digits.parse().ok().filter(|d: &f64| d.is_finite());
            return value
                .map(TokenKind::Double)
                .ok_or_else(|| self.error(start, "invalid double literal"));
        }
        let radix = if hex { 16 } else { 10 };
        let value = u64::from_str_radix(&digits, radix);
        if matches!(self.peek(0), Some('u' | 'U')) {
            self.at += 1;
            return value
                .map(TokenKind::Uint)
                .map_err(|_| self.error(start, "invalid uint literal"));
        }
        value.map(TokenKind::Int).map_err(|_| self.error(start, "invalid int literal"))
    }

    /// Reads `.5` and `e10` after whole digits; says whether either was there.
    fn fraction(&mut self, out: &mut String) -> bool {
        let mut found = false;
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(|c| c.is_ascii_digit()) {
            if out.is_empty() {
                out.push('0');
            }
            out.push('.');
            self.at += 1;
            self.digits(out, false);
            found = true;
        }
        if matches!(self.peek(0), Some('e' | 'E')) {
            let signed = matches!(self.peek(1), Some('+' | '-'));
            let first = if signed { 2 } else { 1 };
            if self.peek(first).is_some_and(|c| c.is_ascii_digit()) {
                out.push('e');
                if signed {
                    out.extend(self.peek(1));
                }
                self.at += first;
                self.digits(out, false);
                found = true;
            }
        }
        found
    }

    /// How many prefix letters stand before a quotation mark, if one follows.
    fn string_prefix(&self) -> Option<usize> {
        (0..=2).find(|&n| matches!(self.peek(n), Some('"' | '\''))).filter(|&n| {
            let letters: String = (0..n).filter_map(|i| self.peek(i)).collect();
            matches!(letters.to_ascii_lowercase().as_str(), "" | "r" | "b" | "br")
        })
    }

    fn string_starts(&self) -> bool {
        self.string_prefix().is_some()
    }

    fn string(&mut self) -> Result<TokenKind, CompileError> {
        let start = self.at;
        let prefix = self.string_prefix().unwrap_or(0);
        let letters: String =
            (0..prefix).filter_map(|i| self.peek(i)).collect::<String>().to_ascii_lowercase();
        let (raw, bytes) = (letters.contains('r'), letters.contains('b'));
        self.at += prefix;
        let quote = self.peek(0).unwrap_or('"');
        let triple = self.peek(1) == Some(quote) && self.peek(2) == Some(quote);
        self.at += if triple { 3 } else { 1 };
        let mut out = Collected::new(bytes);
        loop {
            let Some(c) = self.peek(0) else {
                return Err(self.error(start, "Syntax error: a string is not closed"));
            };
            let closes = c == quote
                && (!triple || (self.peek(1) == Some(quote) && self.peek(2) == Some(quote)));
            if closes {
                self.at += if triple { 3 } else { 1 };
                return Ok(out.finish());
            }
            if !triple && matches!(c, '\n' | '\r') {
                return Err(self.error(start, "Syntax error: a string is not closed on its line"));
            }
            self.at += 1;
            if c == '\\' && !raw {
                self.escape(&mut out)?;
            } else {
                out.push(c);
            }
        }
    }

    fn escape(&mut self, out: &mut Collected) -> Result<(), CompileError> {
        let start = self.at.saturating_sub(1);
        let bad = |l: &Self| l.error(start, "Syntax error: an escape in a string is not allowed");
        let Some(c) = self.peek(0) else { return Err(bad(self)) };
        self.at += 1;
        let plain = match c {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            '\\' | '\'' | '"' | '`' | '?' => c,
            'x' | 'X' => return self.code(out, 2, 16, true).ok_or_else(|| bad(self)),
            'u' if !out.bytes => return self.code(out, 4, 16, false).ok_or_else(|| bad(self)),
            'U' if !out.bytes => return self.code(out, 8, 16, false).ok_or_else(|| bad(self)),
            '0'..='3' => {
                self.at -= 1;
                return self.code(out, 3, 8, true).ok_or_else(|| bad(self));
            }
            _ => return Err(bad(self)),
        };
        out.push(plain);
        Ok(())
    }

    fn code(&mut self, out: &mut Collected, digits: usize, radix: u32, octet: bool) -> Option<()> {
        let mut value = 0u32;
        for _ in 0..digits {
            let digit = self.peek(0)?.to_digit(radix)?;
            value = value.checked_mul(radix)?.checked_add(digit)?;
            self.at += 1;
        }
        if octet && out.bytes {
            out.push_byte(u8::try_from(value).ok()?);
        } else {
            out.push(char::from_u32(value)?);
        }
        Some(())
    }
}

/// The contents of a string or bytes literal so far.
struct Collected {
    bytes: bool,
    text: String,
    octets: Vec<u8>,
}

impl Collected {
    fn new(bytes: bool) -> Collected {
        Collected { bytes, text: String::new(), octets: Vec::new() }
    }

    fn push(&mut self, c: char) {
        if self.bytes {
            let mut buffer = [0; 4];
            self.octets.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
        } else {
            self.text.push(c);
        }
    }

    fn push_byte(&mut self, byte: u8) {
        self.octets.push(byte);
    }

    fn finish(self) -> TokenKind {
        if self.bytes {
            TokenKind::Bytes(self.octets.into())
        } else {
            TokenKind::String(self.text.into())
        }
    }
}
