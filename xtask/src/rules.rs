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
                        candidates.join(", ")
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

fn all(specs: &Specs) -> usize {
    specs.values().map(BTreeSet::len).sum()
}

/// The numbers a spec file defines: `**R1** …`, `| R1 | …`, `| **R1** …`, `R1. …`, `R1 …` at a line's start.
fn defined(text: &str) -> BTreeSet<u32> {
    let number = |line: &str| {
        let line = line.strip_prefix("| ").unwrap_or(line);
        let line = line.strip_prefix("**").unwrap_or(line);
        let line = line.strip_prefix('R')?;
        let digits = line.find(|letter: char| !letter.is_ascii_digit())?;
        let (number, rest) = line.split_at_checked(digits)?;
        let ends = ["**", " |", ".", " "].iter().any(|end| rest.starts_with(end));
        ends.then(|| number.parse().ok()).flatten()
    };
    text.lines().filter_map(number).collect()
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

/// Tests that bear a number, each with the spec files its nearest doc comment names.
fn tests(text: &str, above: Option<&str>) -> Vec<(String, Vec<String>)> {
    let usual = || vec![SPEC_USUAL.to_owned()];
    let above = above.map(opening).filter(|names| !names.is_empty());
    let mut candidates = above.unwrap_or_else(usual);
    let (mut found, mut block) = (Vec::new(), Vec::new());
    for line in text.lines().map(str::trim) {
        if line.starts_with("//!") {
            block.extend(named(line));
            continue;
        }
        if !block.is_empty() {
            candidates = std::mem::take(&mut block);
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
fn opening(text: &str) -> Vec<String> {
    text.lines().take_while(|line| line.starts_with("//!")).flat_map(named).collect()
}

/// Spec files named in a line: `spec/NAME.md`.
fn named(line: &str) -> Vec<String> {
    let names = line.split("spec/").skip(1).filter_map(|rest| rest.split_once(".md"));
    names.map(|(name, _)| name.to_owned()).collect()
}

/// The spec file a test belongs to, if that has the rule. Where a comment names several, a name
/// with `api` in it means the API server and any other the first that has the rule.
fn place(specs: &Specs, candidates: &[String], test: &str, number: u32) -> Option<String> {
    let has = |spec: &&String| specs.get(*spec).is_some_and(|rules| rules.contains(&number));
    let api = test.contains("_api").then(|| candidates.iter().find(|spec| *spec == SPEC_USUAL));
    let first = api.flatten().filter(has);
    first.or_else(|| candidates.iter().find(has)).cloned()
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

    #[test]
    fn rules_are_found_in_every_form() {
        let text = "**R1** a\n| R2 | b |\n| **R3** [seed] | c |\nR4. d\nR5 `e`\nsee R6\n| Reason | x |\nR7, R8";
        assert_eq!(defined(text), BTreeSet::from([1, 2, 3, 4, 5]));
    }

    #[test]
    fn tests_belong_to_the_nearest_comment() {
        let text = "//! Rules of spec/ownership.md.\nfn r1_a() {}\nmod tests {\n    //! Rules of spec/api-server.md.\n    async fn r2_r3_b() {}\n    fn plain() {}\n}";
        let found = tests(text, None);
        assert_eq!(found[0], ("r1_a".into(), vec!["ownership".into()]));
        assert_eq!(found[1], ("r2_r3_b".into(), vec!["api-server".into()]));
        assert_eq!(found.len(), 2);
        assert_eq!(numbers("r2_r3_b"), Some(vec![2, 3]));
        assert_eq!(numbers("rows"), None);
        assert_eq!(tests("fn r1_a() {}", Some("//! spec/dependencies.md"))[0].1, ["dependencies"]);
    }

    #[test]
    fn runs_of_numbers_are_written_short() {
        assert_eq!(ranges([1, 2, 3, 7, 9, 10].into_iter()), "R1–R3, R7, R9–R10");
    }
}
