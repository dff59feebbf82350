//! Patterns in the dialect that schemas are written in, run by the `regex` crate.
//!
//! The dialect is RE2. The crate's own differs in a few places: classes such as `\d` mean Unicode
//! there, brackets and doubled signs inside a class are operators, a lone brace is an error. Those
//! are rewritten; everything else is the same. No pattern can take more than linear time.

use std::fmt::Write as _;
use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

/// How long a pattern may be.
const BYTES_MAX: usize = 64 * 1024;
/// How large a compiled pattern may become.
const COMPILED_BYTES_MAX: usize = 10 * 1024 * 1024;
/// How often RE2 lets a part repeat.
const REPEAT_MAX: u32 = 1000;

/// A pattern that compiles when it is first used.
#[derive(Debug)]
pub(crate) struct SchemaPattern {
    text: String,
    compiled: OnceLock<Option<Regex>>,
}

impl SchemaPattern {
    pub(crate) fn new(text: &str) -> SchemaPattern {
        SchemaPattern { text: text.to_owned(), compiled: OnceLock::new() }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether the text matches somewhere; a pattern that does not compile matches nothing.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let compiled = self.compiled.get_or_init(|| compile(&self.text).ok());
        compiled.as_ref().is_some_and(|regex| regex.is_match(text))
    }
}

/// Compiles a pattern of the RE2 dialect.
pub(crate) fn compile(text: &str) -> Result<Regex, String> {
    if text.len() > BYTES_MAX {
        return Err(format!("it is longer than {BYTES_MAX} bytes"));
    }
    let translated = Translator::default().translate(text)?;
    RegexBuilder::new(&translated).size_limit(COMPILED_BYTES_MAX).build().map_err(|error| {
        match error {
            regex::Error::CompiledTooBig(_) => "it is too large when compiled".to_owned(),
            other => last_line(&other.to_string()),
        }
    })
}

/// Syntax errors of the crate draw the pattern first and end in the reason.
fn last_line(text: &str) -> String {
    let line = text.lines().last().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[derive(Default)]
struct Translator {
    out: String,
    /// Whether what was read last repeats what stands before it, and so cannot be repeated itself.
    repeated: bool,
}

impl Translator {
    fn translate(mut self, text: &str) -> Result<String, String> {
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let after = rest.get(first.len_utf8()..).unwrap_or_default();
            let repeated = std::mem::take(&mut self.repeated);
            rest = match first {
                '\\' => self.escape(after, false)?,
                '[' => self.class(after)?,
                '{' => self.brace(rest, after)?,
                '(' => self.group(after)?,
                '*' | '+' | '?' => {
                    self.out.push(first);
                    self.lazy(after)
                }
                other => {
                    self.out.push(other);
                    after
                }
            };
            if repeated && self.repeated {
                return Err("it repeats a repetition".to_owned());
            }
        }
        Ok(self.out)
    }

    /// After a repetition a question mark makes it take as little as it can.
    fn lazy<'a>(&mut self, after: &'a str) -> &'a str {
        self.repeated = true;
        match after.strip_prefix('?') {
            None => after,
            Some(rest) => {
                self.out.push('?');
                rest
            }
        }
    }

    /// Flags that only the crate knows are refused, and so are its own group forms.
    fn group<'a>(&mut self, after: &'a str) -> Result<&'a str, String> {
        self.out.push('(');
        if let Some(flags) = after.strip_prefix('?') {
            let end = flags.find([':', ')', '<']).unwrap_or(flags.len());
            let letters = flags.get(..end).unwrap_or_default();
            if letters.contains(['x', 'u', 'R']) && !letters.starts_with('P') {
                return Err(format!("it has the unknown flags {letters:?}"));
            }
        }
        Ok(after)
    }

    /// A brace repeats what stands before it if it holds numbers, else it is itself.
    fn brace<'a>(&mut self, rest: &'a str, after: &'a str) -> Result<&'a str, String> {
        let Some((low, high, end)) = repetition(after) else {
            self.out.push_str("\\{");
            return Ok(after);
        };
        if low > REPEAT_MAX || high.is_some_and(|high| high > REPEAT_MAX || high < low) {
            return Err("it repeats a part too often".to_owned());
        }
        self.out.push_str(rest.get(..=end + 1).unwrap_or_default());
        Ok(self.lazy(after.get(end + 1..).unwrap_or_default()))
    }

    fn class<'a>(&mut self, after: &'a str) -> Result<&'a str, String> {
        self.out.push('[');
        let mut rest = after;
        if let Some(inside) = rest.strip_prefix('^') {
            self.out.push('^');
            rest = inside;
        }
        // A bracket that closes in the first place is itself.
        if let Some(inside) = rest.strip_prefix(']') {
            self.out.push_str("\\]");
            rest = inside;
        }
        while let Some(first) = rest.chars().next() {
            let after = rest.get(first.len_utf8()..).unwrap_or_default();
            rest = match first {
                ']' => {
                    self.out.push(']');
                    return Ok(after);
                }
                '\\' => self.escape(after, true)?,
                '[' => match posix(rest) {
                    Some(length) => {
                        self.out.push_str(rest.get(..length).unwrap_or_default());
                        rest.get(length..).unwrap_or_default()
                    }
                    None => {
                        self.out.push_str("\\[");
                        after
                    }
                },
                sign @ ('&' | '~') => {
                    self.out.push('\\');
                    self.out.push(sign);
                    after
                }
                // Two dashes in a row would subtract one class from another.
                '-' if after.starts_with('-') => {
                    self.out.push_str("\\-");
                    after
                }
                other => {
                    self.out.push(other);
                    after
                }
            };
        }
        Err("it has a class that is not closed".to_owned())
    }

    fn escape<'a>(&mut self, after: &'a str, inside: bool) -> Result<&'a str, String> {
        let Some(first) = after.chars().next() else {
            return Err("it ends in a backslash".to_owned());
        };
        let rest = after.get(first.len_utf8()..).unwrap_or_default();
        let class = |text: &str| if inside { text.to_owned() } else { format!("[{text}]") };
        match first {
            'd' => self.out.push_str(&class("0-9")),
            'w' => self.out.push_str(&class("0-9A-Za-z_")),
            's' => self.out.push_str(&class("\\t\\n\\x0C\\r\\x20")),
            'D' => self.out.push_str("[^0-9]"),
            'W' => self.out.push_str("[^0-9A-Za-z_]"),
            'S' => self.out.push_str("[^\\t\\n\\x0C\\r\\x20]"),
            'b' | 'B' if !inside => {
                let _ = write!(self.out, "(?-u:\\{first})");
            }
            'Q' if !inside => {
                let (literal, rest) = rest.split_once("\\E").unwrap_or((rest, ""));
                self.out.push_str(&regex::escape(literal));
                return Ok(rest);
            }
            '0'..='7' => return self.octal(after),
            'A' | 'z' if !inside => {
                self.out.push('\\');
                self.out.push(first);
            }
            'a' | 'f' | 't' | 'n' | 'r' | 'v' => {
                self.out.push('\\');
                self.out.push(first);
            }
            'x' | 'p' | 'P' => {
                self.out.push('\\');
                self.out.push(first);
                // What stands in braces here is a name or a number, not a repetition.
                let end = match rest.strip_prefix('{').and_then(|_| rest.find('}')) {
                    Some(end) => end + 1,
                    None => 0,
                };
                self.out.push_str(rest.get(..end).unwrap_or_default());
                return Ok(rest.get(end..).unwrap_or_default());
            }
            sign if sign.is_ascii_punctuation() => self.out.push_str(&escaped(sign)),
            other => return Err(format!("it has the unknown escape \\{other}")),
        }
        Ok(rest)
    }

    /// Up to three octal digits; a single digit other than zero would be a back reference.
    fn octal<'a>(&mut self, digits: &'a str) -> Result<&'a str, String> {
        let length = digits.bytes().take(3).take_while(|b| (b'0'..=b'7').contains(b)).count();
        let text = digits.get(..length).unwrap_or_default();
        if length == 1 && text != "0" {
            return Err(format!("it refers back with \\{text}"));
        }
        let code = u32::from_str_radix(text, 8).map_err(|error| error.to_string())?;
        let _ = write!(self.out, "\\x{{{code:X}}}");
        Ok(digits.get(length..).unwrap_or_default())
    }
}

/// Signs that the crate would give a meaning when escaped are written plainly.
fn escaped(sign: char) -> String {
    if matches!(sign, '<' | '>') { sign.to_string() } else { format!("\\{sign}") }
}

/// What stands after a brace, if it counts: least, most, and where the closing brace is.
fn repetition(after: &str) -> Option<(u32, Option<u32>, usize)> {
    let end = after.find('}')?;
    let inside = after.get(..end)?;
    let number = |text: &str| {
        let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| text.parse().unwrap_or(u32::MAX))
    };
    match inside.split_once(',') {
        None => number(inside).map(|n| (n, Some(n), end)),
        Some((low, "")) => number(low).map(|low| (low, None, end)),
        Some((low, high)) => Some((number(low)?, Some(number(high)?), end)),
    }
}

/// The length of a named class such as `[:alpha:]`.
fn posix(rest: &str) -> Option<usize> {
    let inside = rest.strip_prefix("[:")?;
    let name = inside.split_once(":]")?.0;
    let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b == b'^');
    (plain && !name.is_empty()).then(|| name.len() + 4)
}

#[cfg(test)]
mod tests {
    //! Rules of `spec/api-server.md`.

    use super::*;

    #[test]
    fn r119_patterns_are_read_in_the_re2_dialect() {
        let table = [
            (r"^\d+$", "12", true),
            (r"^\d+$", "१२", false),
            (r"^\w+$", "é", false),
            (r"^[\w.-]+$", "a.b-c_9", true),
            (r"^[^\s]+$", "a b", false),
            (r"^[[]$", "[", true),
            (r"^[a[b]$", "[", true),
            (r"^[]a]$", "]", true),
            (r"^[a&&b]+$", "&", true),
            (r"^[+--]$", "-", true),
            (r"^{$", "{", true),
            (r"^a{2}$", "aa", true),
            (r"^a{,2}$", "a{,2}", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"^\<$", "<", true),
            (r"^\101$", "A", true),
            (r"^[[:alpha:]]+$", "ab", true),
            (r"\bfoo\b", "a foo b", true),
            (r"^(?i)abc$", "ABC", true),
            (r"^\p{L}+$", "é", true),
            (r"^\_\-\/$", "_-/", true),
        ];
        for (pattern, text, want) in table {
            let compiled = compile(pattern).unwrap_or_else(|e| panic!("{pattern}: {e}"));
            assert_eq!(compiled.is_match(text), want, "{pattern} on {text}");
        }
    }

    #[test]
    fn r119_what_re2_refuses_is_refused() {
        for pattern in ["(", "[a", "a**", r"\1", "(?=a)", "(?<!a)", "a{1001}", r"\y", "\\", "(?x)a"]
        {
            assert!(compile(pattern).is_err(), "{pattern}");
        }
    }
}
