//! Command lines as Go programs read them: `--name=value`, `--name value`, `--name` for what is on or off. What a flag
//! means is decided elsewhere.

use std::fmt;

/// The flags a program knows.
pub(super) struct FlagTable {
    /// Those that are on or off, and need no value.
    pub(super) switches: &'static [&'static str],
    /// Those that need a value.
    pub(super) values: &'static [&'static str],
    /// What stands for a whole name behind one hyphen.
    pub(super) short: &'static [(&'static str, &'static str)],
    /// Whether one hyphen is as good as two.
    pub(super) single_hyphens: bool,
}

/// A flag as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GivenFlag {
    pub(super) name: &'static str,
    pub(super) value: String,
}

/// Why words are no flags of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FlagError {
    /// Nobody knows it.
    Unknown(String),
    /// Its value is missing.
    NoValue(&'static str),
    /// A word that is no flag.
    Word(String),
}

impl fmt::Display for FlagError {
    /// In the words of the programs.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlagError::Unknown(word) => write!(out, "unknown flag: {word}"),
            FlagError::NoValue(name) => write!(out, "flag needs an argument: --{name}"),
            FlagError::Word(word) => write!(out, "no arguments are taken, got {word:?}"),
        }
    }
}

impl FlagTable {
    /// Every flag that is given, in order. Empty words count for nothing: templates of old suites leave them.
    pub(super) fn read(&self, words: &[String]) -> Result<Vec<GivenFlag>, FlagError> {
        let mut given = Vec::new();
        let mut words = words.iter().filter(|word| !word.is_empty());
        while let Some(word) = words.next() {
            let (name, value) = self.split(word)?;
            let value = match value {
                Some(value) => value.to_owned(),
                None if self.switches.contains(&name) => "true".to_owned(),
                None => words.next().cloned().ok_or(FlagError::NoValue(name))?,
            };
            given.push(GivenFlag { name, value });
        }
        Ok(given)
    }

    /// The name of a flag, and its value if that stands in the same word.
    fn split<'w>(&self, word: &'w str) -> Result<(&'static str, Option<&'w str>), FlagError> {
        let (long, rest) = match (word.strip_prefix("--"), word.strip_prefix('-')) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (self.single_hyphens, rest),
            (None, None) => return Err(FlagError::Word(word.to_owned())),
        };
        let (name, value) = match rest.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (rest, None),
        };
        let known = if long {
            // Names may be written with underscores.
            let plain = name.replace('_', "-");
            self.switches.iter().chain(self.values).copied().find(|known| *known == plain)
        } else {
            None
        };
        if let Some(known) = known {
            return Ok((known, value));
        }
        let short = self.short.iter().find(|(short, _)| name.starts_with(short));
        let short = short.filter(|_| !word.starts_with("--"));
        let unknown = || {
            let hyphens = if word.starts_with("--") { "--" } else { "-" };
            FlagError::Unknown(format!("{hyphens}{name}"))
        };
        let (short, known) = short.ok_or_else(unknown)?;
        // `-v2` says as much as `-v=2`.
        match (name.strip_prefix(short), value) {
            (Some(""), value) => Ok((known, value)),
            (Some(rest), None) => Ok((known, Some(rest))),
            _ => Err(unknown()),
        }
    }
}

/// The last value of a flag, as Go has it.
pub(super) fn last<'g>(given: &'g [GivenFlag], name: &str) -> Option<&'g str> {
    given.iter().rev().find(|flag| flag.name == name).map(|flag| flag.value.as_str())
}

/// The values of a flag that may be repeated, and has lists.
pub(super) fn list<'g>(
    given: &'g [GivenFlag],
    name: &'static str,
) -> impl Iterator<Item = &'g str> {
    let named = given.iter().filter(move |flag| flag.name == name);
    let values = named.flat_map(|flag| flag.value.split(','));
    values.map(str::trim).filter(|value| !value.is_empty())
}

/// Whether a switch is on; `None` for a word that Go does not take for an answer.
pub(super) fn is_on(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: FlagTable = FlagTable {
        switches: &["allow-privileged", "help"],
        values: &["secure-port", "v"],
        short: &[("v", "v"), ("h", "help")],
        single_hyphens: false,
    };

    fn read(words: &[&str]) -> Result<Vec<(&'static str, String)>, String> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let given = TABLE.read(&words).map_err(|error| error.to_string())?;
        Ok(given.into_iter().map(|flag| (flag.name, flag.value)).collect())
    }

    #[test]
    fn r173_flags_are_read_as_go_reads_them() {
        let words =
            ["--secure-port=1", "", "--allow_privileged", "--secure-port", "2", "-v2", "-h"];
        let wanted = [
            ("secure-port", "1"),
            ("allow-privileged", "true"),
            ("secure-port", "2"),
            ("v", "2"),
            ("help", "true"),
        ];
        assert_eq!(read(&words).unwrap(), wanted.map(|(name, value)| (name, value.to_owned())));
        assert_eq!(read(&["-v", "4"]).unwrap(), [("v", "4".to_owned())]);
        assert_eq!(read(&["--secure-port="]).unwrap(), [("secure-port", String::new())]);
    }

    #[test]
    fn r174_a_flag_that_nobody_knows_is_told_as_upstream_tells_it() {
        assert_eq!(read(&["--x=1"]).unwrap_err(), "unknown flag: --x");
        assert_eq!(read(&["-secure-port=1"]).unwrap_err(), "unknown flag: -secure-port");
        assert_eq!(read(&["--secure-port"]).unwrap_err(), "flag needs an argument: --secure-port");
        assert_eq!(read(&["word"]).unwrap_err(), "no arguments are taken, got \"word\"");
    }

    #[test]
    fn one_hyphen_is_enough_for_some_programs() {
        let table = FlagTable { single_hyphens: true, ..TABLE };
        let words = ["-secure-port".to_owned(), "1".to_owned(), "--v=2".to_owned()];
        let given = table.read(&words).unwrap();
        assert_eq!(last(&given, "secure-port"), Some("1"));
        assert_eq!(last(&given, "v"), Some("2"));
    }

    #[test]
    fn lists_may_be_repeated() {
        let flag = |value: &str| GivenFlag { name: "x", value: value.to_owned() };
        let given = [flag("a, b"), flag(""), flag("c")];
        assert_eq!(list(&given, "x").collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(is_on("T"), Some(true));
        assert_eq!(is_on("no"), None);
    }
}
