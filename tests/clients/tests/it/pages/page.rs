//! What a page tells its reader to type, and what it says is printed.
//!
//! ```text
//!   ```console
//!   $ command            a line to type; what follows `<<END` belongs to it
//!   printed              what it prints, until the next `$`
//! ```
//!
//! Fences of other languages show what belongs into files or other machines and are not typed.

use regex::Regex;

/// One line after a prompt, and what the page says it prints.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) command: String,
    pub(super) printed: Vec<String>,
}

/// Everything that is typed on a page, in order.
pub(super) fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for console in text.split("```console\n").skip(1) {
        let mut lines = console.split("```").next().unwrap().lines();
        while let Some(line) = lines.next() {
            let Some(first) = line.strip_prefix("$ ") else {
                steps.last_mut().unwrap().printed.push(line.to_owned());
                continue;
            };
            let mut command = first.to_owned();
            if let Some((_, end)) = first.split_once("<<") {
                let end = end.trim_matches('\'');
                for line in lines.by_ref() {
                    command += &format!("\n{line}");
                    if line == end {
                        break;
                    }
                }
            }
            steps.push(Step { command, printed: Vec::new() });
        }
    }
    steps
}

/// What differs between two runs, so that the rest can be compared.
pub(super) struct Differences(Vec<(Regex, &'static str)>);

impl Differences {
    pub(super) fn new() -> Differences {
        let differences = [
            (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
            (r"-[bcdf-hj-np-tv-z2-9]{8,10}-[bcdf-hj-np-tv-z2-9]{5}\b", "-HASH-END"),
            (r"-[bcdf-hj-np-tv-z2-9]{8,10}\b", "-HASH"),
            (r"\b[0-9]+(\.[0-9]+)? ?(ms|s|m|h)\b", "AGE"),
            // Siblings made one after the other, which a slow machine makes in two seconds.
            ("AGE–AGE", "AGE"),
            (r"\s+", " "),
        ];
        Differences(differences.map(|(text, then)| (Regex::new(text).unwrap(), then)).into())
    }

    fn without(&self, line: &str) -> String {
        let line = line.trim().to_owned();
        self.0.iter().fold(line, |line, (pattern, then)| pattern.replace_all(&line, *then).into())
    }

    /// Whether a line that the page shows is this one; `…` stands for anything.
    fn same(&self, shown: &str, said: &str) -> bool {
        let (shown, said) = (self.without(shown), self.without(said));
        let mut parts = shown.split('…');
        let Some(mut rest) = said.strip_prefix(parts.next().unwrap_or_default()) else {
            return false;
        };
        let mut last = None;
        for part in parts {
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
            last = Some(part);
        }
        // A page may leave out how a line ends only by saying so.
        rest.is_empty() || last == Some("")
    }

    /// Whether this is what the page shows: the same lines in the same order, where a line `…` stands for
    /// any number of them.
    pub(super) fn agree(&self, shown: &[String], said: &str) -> bool {
        let said: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
        let shown: Vec<&str> =
            shown.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect();
        self.agree_from(&shown, &said) || self.agree_in_any_order(&shown, &said)
    }

    /// Steps that have numbers may come in another order where none of them waits for another.
    fn agree_in_any_order(&self, shown: &[&str], said: &[&str]) -> bool {
        let unnumbered = |line: &str| {
            let rest = line.trim().trim_start_matches(|letter: char| letter.is_ascii_digit());
            rest.starts_with("  ").then(|| self.without(rest))
        };
        let sorted = |lines: &[&str]| {
            let mut lines: Vec<String> =
                lines.iter().map(|line| unnumbered(line).unwrap_or(self.without(line))).collect();
            lines.sort();
            lines
        };
        let has_numbers = shown.iter().any(|line| unnumbered(line).is_some());
        has_numbers && sorted(shown) == sorted(said)
    }

    fn agree_from(&self, shown: &[&str], said: &[&str]) -> bool {
        match (shown.split_first(), said.split_first()) {
            (None, None) => true,
            (Some((&"…", shown)), _) => {
                (0..=said.len()).any(|skipped| self.agree_from(shown, &said[skipped..]))
            }
            (Some((first, shown)), Some((line, said))) => {
                self.same(first, line) && self.agree_from(shown, said)
            }
            _ => false,
        }
    }
}

#[test]
fn what_a_page_shows_is_compared_but_for_what_differs_between_runs() {
    let differences = Differences::new();
    let agree = |shown: &str, said: &str| {
        let shown: Vec<String> = shown.lines().map(str::to_owned).collect();
        differences.agree(&shown, said)
    };
    assert!(agree("Pod/web-dd79646fc-lhxlc  2s", "Pod/web-7f9c8b7d64-x2v4z  13s\n"));
    assert!(agree("298 more  4m  solid", "298 more  29s–30s  solid\n"));
    assert!(agree("a\n…\nz", "a\nb\nc\nz\n"));
    assert!(agree("looked at … objects", "looked at 12 objects\n"));
    assert!(!agree("0/2 ready", "1/2 ready\n"));
    assert!(!agree("a", "a\nb\n"), "a line more");
    assert!(!agree("a\nb", "a\n"), "a line less");
    assert!(!agree("no", "nobody\n"));
    assert!(agree("1  delete a\n2  delete b", "1  delete b\n2  delete a\n"));
    assert!(!agree("1  delete a\n2  delete b", "1  delete b\n2  delete c\n"));
}

#[test]
fn a_document_belongs_to_the_command_before_it() {
    let text = "```console\n$ cat <<'END'\na\nEND\na\n$ true\n```\n```sh\n$ no\n```\n";
    let steps = steps(text);
    assert_eq!(steps.len(), 2);
    assert_eq!(steps[0].command, "cat <<'END'\na\nEND");
    assert_eq!(steps[0].printed, ["a"]);
    assert_eq!(steps[1].command, "true");
}
