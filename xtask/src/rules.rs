//! `cargo xtask rules`: every numbered rule of spec/ beside the tests that bear its number.
//! A test of a rule that does not exist fails; a rule without a test is listed as open.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{Context as _, Result, bail, ensure};

use crate::workspace;

const TABLE: &str = "docs/reference/rules.md";
/// What a test belongs to when its file names no other.
const SPEC_USUAL: &str = "api-server";

/// Rule numbers of each spec file.
type Specs = BTreeMap<String, BTreeSet<u32>>;
/// Tests of each rule: name and file.
type Found = BTreeMap<(String, u32), Vec<(String, String)>>;

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let root = workspace::root()?;
    let mut specs = Specs::new();
    let files = workspace::files()?;
    for file in files.iter().filter(|f| f.starts_with("spec/") && f.ends_with(".md")) {
        let name = file.trim_start_matches("spec/").trim_end_matches(".md");
        specs.insert(name.to_owned(), defined(&std::fs::read_to_string(root.join(file))?));
    }
    let (mut found, mut wrong) = (Found::new(), Vec::new());
    for file in files.iter().filter(|f| f.ends_with(".rs") && !f.starts_with("fuzz/")) {
        let text = std::fs::read_to_string(root.join(file))?;
        let folder = parent_document(&root, file);
        for (test, candidates) in tests(&text, folder.as_deref()) {
            for number in numbers(&test).unwrap_or_default() {
                match place(&specs, &candidates, &test, number) {
                    Some(spec) => {
                        found.entry((spec, number)).or_default().push((test.clone(), file.clone()));
                    }
                    None => wrong.push(format!(
                        "{file}: {test}: {} has no R{number}",
                        specs_of(&candidates)
                    )),
                }
            }
        }
    }
    ensure!(wrong.is_empty(), "tests of rules that do not exist:\n  {}", wrong.join("\n  "));
    let text = table(&specs, &found);
    let path = root.join(TABLE);
    match arguments {
        [] => {
            std::fs::create_dir_all(path.parent().context("a folder")?)?;
            std::fs::write(path, text)?;
        }
        [flag] if flag == "--check" => {
            let kept = std::fs::read_to_string(path).unwrap_or_default();
            ensure!(kept == text, "{TABLE} is stale: run `cargo xtask rules`");
        }
        _ => bail!("usage: cargo xtask rules [--check]"),
    }
    let count: usize = found.values().map(Vec::len).sum();
    println!("      {} rules, {} of them under {count} tests", all(&specs), found.len());
    Ok(())
}

fn specs_of(candidates: &[Named]) -> String {
    candidates.iter().map(|named| named.spec.as_str()).collect::<Vec<_>>().join(", ")
}

fn all(specs: &Specs) -> usize {
    specs.values().map(BTreeSet::len).sum()
}

/// The numbers a spec file defines: `**R1** …`, `| R1 | …`, `| **R1** …`, `R1. …`, `R1 …` at a line's
/// start. A file that has such rules may define more in passing: `… (R1) …`.
fn defined(text: &str) -> BTreeSet<u32> {
    let opening = |line: &str| {
        let line = line.strip_prefix("| ").unwrap_or(line);
        let line = line.strip_prefix("**").unwrap_or(line);
        let (number, rest) = leading(line)?;
        ["**", " |", ".", " "].iter().any(|end| rest.starts_with(end)).then_some(number)
    };
    let mut rules: BTreeSet<u32> = text.lines().filter_map(opening).collect();
    if !rules.is_empty() {
        let passing = text.split('(').skip(1).filter_map(leading);
        rules.extend(passing.filter(|(_, rest)| rest.starts_with(')')).map(|(number, _)| number));
    }
    rules
}

/// A rule number at the start of a text, and what follows it.
fn leading(text: &str) -> Option<(u32, &str)> {
    let text = text.strip_prefix('R')?;
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at_checked(end)?;
    Some((number.parse().ok()?, rest))
}

/// The rule numbers at the start of a test's name: `r1_r2_what` has two.
pub(crate) fn numbers(name: &str) -> Option<Vec<u32>> {
    let parts = name.split('_').map_while(|part| part.strip_prefix('r')?.parse().ok());
    let numbers: Vec<u32> = parts.collect();
    (!numbers.is_empty()).then_some(numbers)
}

/// The doc comment of the module above a file of an integration test.
fn parent_document(root: &std::path::Path, file: &str) -> Option<String> {
    let (folder, name) = file.rsplit_once('/')?;
    let above = match name {
        "main.rs" | "lib.rs" => return None,
        _ => ["main.rs", "mod.rs", "lib.rs"],
    };
    above.iter().find_map(|name| std::fs::read_to_string(root.join(folder).join(name)).ok())
}

/// A spec file that a comment names, with the rules it names along with it (perhaps none).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    spec: String,
    spans: Vec<(u32, u32)>,
}

/// Tests that bear a number, each with the spec files its nearest doc comment names.
fn tests(text: &str, above: Option<&str>) -> Vec<(String, Vec<Named>)> {
    let usual = || vec![Named { spec: SPEC_USUAL.to_owned(), spans: Vec::new() }];
    let above = above.map(opening).filter(|names| !names.is_empty());
    let mut candidates = above.unwrap_or_else(usual);
    let (mut found, mut block) = (Vec::new(), String::new());
    for line in text.lines().map(str::trim) {
        if let Some(words) = line.strip_prefix("//!") {
            block.push_str(words);
            continue;
        }
        let names = named(&std::mem::take(&mut block));
        if !names.is_empty() {
            candidates = names;
        }
        let signature = line.strip_prefix("async ").unwrap_or(line);
        let name = signature.strip_prefix("fn ").and_then(|rest| rest.split(['(', '<']).next());
        if let Some(name) = name.filter(|name| numbers(name).is_some()) {
            found.push((name.to_owned(), candidates.clone()));
        }
    }
    found
}

/// Spec files named in the doc comment that opens a file.
fn opening(text: &str) -> Vec<Named> {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    named(&lines.collect::<String>())
}

/// Spec files named in a comment, as `spec/NAME.md` or `the NAME specification`.
fn named(comment: &str) -> Vec<Named> {
    let (mut names, mut clause) = (Vec::new(), Vec::new());
    let words: Vec<&str> = comment.split_whitespace().collect();
    for (at, word) in words.iter().enumerate() {
        clause.push(*word);
        let file = word.split_once("spec/").and_then(|(_, rest)| rest.split_once(".md"));
        let spec = match file {
            Some((name, _)) => name.to_owned(),
            None if word.starts_with("specification") => {
                match words.get(at.saturating_sub(2)..at).unwrap_or_default() {
                    ["API", "server"] => SPEC_USUAL.to_owned(),
                    [.., name] => (*name).to_owned(),
                    [] => continue,
                }
            }
            None => continue,
        };
        names.push(Named { spec, spans: spans(&std::mem::take(&mut clause)) });
    }
    names
}

/// `R1 to R3 and R7` as spans.
fn spans(words: &[&str]) -> Vec<(u32, u32)> {
    let mut spans: Vec<(u32, u32)> = Vec::new();
    let mut open = false;
    for word in words {
        match leading(word) {
            Some((number, _)) => match spans.last_mut() {
                Some((_, last)) if open => *last = number,
                _ => spans.push((number, number)),
            },
            None => {
                open = *word == "to";
                continue;
            }
        }
        open = false;
    }
    spans
}

/// The spec file a test belongs to, if that has the rule. Where a comment names several: the one
/// whose rules it lists, else the API server for a name with `api` in it, else the first.
fn place(specs: &Specs, candidates: &[Named], test: &str, number: u32) -> Option<String> {
    let has = |of: &&Named| specs.get(&of.spec).is_some_and(|rules| rules.contains(&number));
    let within =
        |of: &&Named| of.spans.iter().any(|(first, last)| (*first..=*last).contains(&number));
    let api = |of: &&Named| test.contains("_api") && of.spec == SPEC_USUAL;
    let having: Vec<&Named> = candidates.iter().filter(has).collect();
    let listed = having.iter().find(|of| candidates.len() > 1 && within(of));
    let chosen = listed.or_else(|| having.iter().find(|of| api(of))).or_else(|| having.first());
    chosen.map(|of| of.spec.clone())
}

fn table(specs: &Specs, found: &Found) -> String {
    let mut text = String::from(
        "# Rules and their tests\n\nMade by `cargo xtask rules` from spec/ and the tests that bear a rule's number.\n",
    );
    for (spec, rules) in specs {
        let tested =
            rules.iter().filter(|rule| found.contains_key(&(spec.clone(), **rule))).count();
        let _ = writeln!(text, "\n## {spec}\n\n{} rules, {tested} with tests.", rules.len());
        if tested > 0 {
            text.push_str("\n| spec | rule | tests | file |\n|---|---|---|---|\n");
        }
        for ((_, rule), tests) in found.iter().filter(|((of, _), _)| of == spec) {
            let mut by_file: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
            for (test, file) in tests {
                by_file.entry(file).or_default().push(test);
            }
            for (file, tests) in by_file {
                let tests: Vec<String> = tests.iter().map(|test| format!("`{test}`")).collect();
                let _ = writeln!(text, "| {spec} | R{rule} | {} | {file} |", tests.join(", "));
            }
        }
        let open = rules.iter().copied().filter(|rule| !found.contains_key(&(spec.clone(), *rule)));
        let open = ranges(open);
        if !open.is_empty() {
            let _ = writeln!(text, "\nOpen: {open}.");
        }
    }
    text
}

/// `R1, R3–R5`.
fn ranges(numbers: impl Iterator<Item = u32>) -> String {
    let mut spans: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match spans.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => spans.push((number, number)),
        }
    }
    let span = |(first, last): &(u32, u32)| match last - first {
        0 => format!("R{first}"),
        _ => format!("R{first}–R{last}"),
    };
    spans.iter().map(span).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(spec: &str) -> Vec<Named> {
        vec![Named { spec: spec.into(), spans: Vec::new() }]
    }

    #[test]
    fn rules_are_found_in_every_form() {
        let text = "**R1** a\n| R2 | b |\n| **R3** [seed] | c |\nR4. d\nR5 `e`\nsee R6\n\
                    | Reason | x |\nR7, R8\ncontained (R9): so";
        assert_eq!(defined(text), BTreeSet::from([1, 2, 3, 4, 5, 9]));
        assert!(defined("as told (R9)").is_empty());
    }

    #[test]
    fn tests_belong_to_the_nearest_comment() {
        let text = "//! Rules of spec/ownership.md.\nfn r1_a() {}\nmod tests {\n    \
                    //! Rules of spec/api-server.md.\n    async fn r2_r3_b() {}\n    fn plain() {}\n}";
        let found = tests(text, None);
        assert_eq!(found[0], ("r1_a".into(), only("ownership")));
        assert_eq!(found[1], ("r2_r3_b".into(), only("api-server")));
        assert_eq!(found.len(), 2);
        assert_eq!(numbers("r2_r3_b"), Some(vec![2, 3]));
        assert_eq!(numbers("rows"), None);
        let above = "//! Those of the dependencies specification.\n";
        assert_eq!(tests("fn r1_a() {}", Some(above))[0].1, only("dependencies"));
    }

    #[test]
    fn a_comment_may_share_out_the_numbers() {
        let both =
            named("R5 to R9 are of the API server specification, R1 to R3 and R7 of spec/x.md.");
        let specs = Specs::from([
            ("api-server".to_owned(), (1..20).collect()),
            ("x".to_owned(), (1..10).collect()),
        ]);
        let place = |test, number| place(&specs, &both, test, number).unwrap();
        assert_eq!(place("r2_a", 2), "x");
        assert_eq!(place("r6_a", 6), "api-server");
        assert_eq!(place("r12_a", 12), "api-server");
    }

    #[test]
    fn runs_of_numbers_are_written_short() {
        assert_eq!(ranges([1, 2, 3, 7, 9, 10].into_iter()), "R1–R3, R7, R9–R10");
    }
}
