//! Checks of what belongs into which room: no engine with std, no write past the write path, no clock,
//! randomness or environment read outside of the places that hand them in.

use std::path::Path;

use anyhow::Result;

use super::{Complaints, shipped};

/// Words that write to the world without the write path, and the files that are it, or have a reason.
const WRITES: Rule = Rule {
    words: &[
        "Proposal {",
        "Proposal::create(",
        "Proposal::default(",
        "Proposal::delete(",
        "Proposal::put(",
        "propose(",
    ],
    instead: "write through `InternalWriter`, so that it is admitted, audited and has managed fields",
    rooms: &["crates/server/src/", "crates/driver/src/", "crates/host/src/", "crates/cluster/src/"],
    allowed: &[
        ("crates/driver/src/mirror.rs", "the world of a mirror is its own"),
        ("crates/server/src/internal_writer", "the write path of this process's followers"),
        ("crates/server/src/pods.rs", "the write path of bindings and evictions"),
        ("crates/server/src/write/", "the write path"),
    ],
};

/// Words that hand a proposal to the sequencer, however it was made.
const SUBMITS: Rule = Rule {
    words: &[".submit("],
    instead: WRITES.instead,
    rooms: WRITES.rooms,
    allowed: &[
        ("crates/driver/src/collect.rs", "what the write path has prepared"),
        ("crates/driver/src/collect/submit.rs", "what the write path has prepared"),
        ("crates/driver/src/retention.rs", "what the write path has prepared"),
        ("crates/server/src/internal_writer", "the write path of this process's followers"),
        ("crates/server/src/write/", "the write path"),
    ],
};

/// Words that read the time, the environment or randomness where rules are.
const CLOCKS: Rule = Rule {
    words: &[
        "Instant::now",
        "SystemTime::now",
        "Timestamp::now",
        "Zoned::now",
        "env::var",
        "getrandom::",
        "RandomState",
        "SystemRandom",
    ],
    instead: "have it handed in: time by clock.rs, randomness and environment by the host",
    rooms: &[
        "crates/kinds/",
        "crates/machinery/",
        "crates/patch/",
        "crates/structural/",
        "crates/schema/",
        "crates/table/",
        "crates/openapi/",
        "crates/cel/",
        "crates/core/",
        "crates/engines/",
        "crates/token/",
        "crates/driver/src/",
    ],
    allowed: &[
        ("crates/driver/src/clock.rs", "the driver's clock"),
        (
            "crates/kinds/src/private_key.rs",
            "ring asks for it to read a key; no answer depends on it",
        ),
        ("crates/token/src/random.rs", "keys and their signatures"),
    ],
};

/// What rooms may not say, but for some files.
struct Rule {
    words: &'static [&'static str],
    instead: &'static str,
    rooms: &'static [&'static str],
    allowed: &'static [(&'static str, &'static str)],
}

pub(super) fn check(root: &Path, files: &[String], complaints: &mut Complaints) -> Result<()> {
    for file in files.iter().filter(|file| is_shipped(file)) {
        let text = std::fs::read_to_string(root.join(file))?;
        for rule in [&WRITES, &SUBMITS, &CLOCKS] {
            complaints.extend(rule.broken(file, &text));
        }
        if is_engine(file) && !text.contains("#![no_std]") {
            complaints.push(format!("{file}: an engine is `#![no_std]`, so that it cannot wait"));
        }
    }
    Ok(())
}

impl Rule {
    fn broken(&self, file: &str, text: &str) -> Vec<String> {
        if !self.rooms.iter().any(|room| file.starts_with(room))
            || self.allowed.iter().any(|(allowed, _)| file.starts_with(allowed))
        {
            return Vec::new();
        }
        let lines =
            shipped(text).lines().enumerate().filter(|(_, line)| !line.trim().starts_with("//"));
        lines
            .filter_map(|(number, line)| {
                let word = self.words.iter().find(|word| line.contains(**word))?;
                Some(format!("{file}:{}: `{word}`: {}", number + 1, self.instead))
            })
            .collect()
    }
}

/// The root of an engine or of the words that engines speak.
fn is_engine(file: &str) -> bool {
    file.ends_with("/src/lib.rs")
        && (file.starts_with("crates/engines/") || file.starts_with("crates/core/"))
}

fn is_shipped(file: &str) -> bool {
    let is_test = file.ends_with("/tests.rs") || file.contains("/tests/");
    file.starts_with("crates/") && file.ends_with(".rs") && file.contains("/src/") && !is_test
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_past_the_write_path_is_found() {
        let text = "//! A.\n// Proposal { }\nlet one = Proposal { guards, writes };\n";
        let found = WRITES.broken("crates/server/src/protect.rs", text);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/server/src/protect.rs:3: `Proposal {`"), "{found:?}");
        assert!(WRITES.broken("crates/server/src/write/commit.rs", text).is_empty());
        assert!(WRITES.broken("crates/world/src/proposal.rs", text).is_empty());
    }

    #[test]
    fn an_empty_proposal_and_its_submission_are_found() {
        let text = "//! A.\nlet mut one = Proposal::default();\nself.world.submit(one)?;\n";
        let file = "crates/server/src/protect.rs";
        assert_eq!(WRITES.broken(file, text).len(), 1);
        let found = SUBMITS.broken(file, text);
        assert!(found[0].starts_with("crates/server/src/protect.rs:3: `.submit(`"), "{found:?}");
        assert!(SUBMITS.broken("crates/server/src/write/commit.rs", text).is_empty());
        // Who hands over what was prepared may still not make it.
        let collector = "crates/driver/src/collect/submit.rs";
        assert!(SUBMITS.broken(collector, text).is_empty());
        assert_eq!(WRITES.broken(collector, text).len(), 1);
    }

    #[test]
    fn other_clocks_and_randomness_where_rules_are_are_found() {
        for line in [
            "let now = jiff::Zoned::now();",
            "let now = given.unwrap_or_else(Timestamp::now);",
            "let random = SystemRandom::new();",
            "use std::hash::RandomState;",
        ] {
            let text = format!("//! A.\n{line}\n");
            assert_eq!(CLOCKS.broken("crates/token/src/claims.rs", &text).len(), 1, "{line}");
            assert!(CLOCKS.broken("crates/token/src/random.rs", &text).is_empty(), "{line}");
        }
    }

    #[test]
    fn a_clock_where_rules_are_is_found() {
        let text = "//! A.\nlet now = Timestamp::now();\n";
        assert_eq!(CLOCKS.broken("crates/kinds/src/event.rs", text).len(), 1);
        assert_eq!(CLOCKS.broken("crates/engines/rbac/src/lib.rs", text).len(), 1);
        assert!(CLOCKS.broken("crates/driver/src/clock.rs", text).is_empty());
        assert!(CLOCKS.broken("crates/host/src/lib.rs", text).is_empty());
        let tests = "//! A.\n\n#[cfg(test)]\nmod tests {\n    let now = Instant::now();\n}\n";
        assert!(CLOCKS.broken("crates/driver/src/queue.rs", tests).is_empty());
    }

    #[test]
    fn engines_are_known_by_their_place() {
        assert!(is_engine("crates/engines/rbac/src/lib.rs"));
        assert!(!is_engine("crates/engines/rbac/src/role.rs"));
        assert!(!is_engine("crates/host/src/lib.rs"));
    }
}
