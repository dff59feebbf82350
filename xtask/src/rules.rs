//! `cargo xtask rules`: every numbered rule of spec/ beside the tests that bear its number.
//! A test of a rule that does not exist fails; a rule without a test is listed as open. Where a file
//! names tests, they must exist by those names.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{Context as _, Result, bail, ensure};

use crate::workspace;

const TABLE: &str = "docs/reference/rules.md";
/// What a test belongs to when its file names no other.
const SPEC_USUAL: &str = "api-server";
/// How the heading ends under which a file says which rules have no test, and why.
const EXCUSES: &str = "Rules without a numbered test";
/// How the heading ends under which a file names tests.
const PLANNED: &str = "Tests named by the seed's test plan";
/// The file whose decisions and rules of migration bind like its rules. Other files note their choices
/// under the same letters, for the reader only.
const SPEC_DECIDED: &str = "referential-authorization";

/// The id of a rule: `R12`, one put in later such as `R12a`, with the letters of a family such as `CR4` or
/// `A1`, or one of migration (`M1`) or a decision (`D1`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rule {
    family: String,
    number: u32,
    letter: Option<char>,
}

impl Rule {
    /// A decision, or a rule of migration.
    fn is_decided(&self) -> bool {
        matches!(self.family.as_str(), "D" | "M")
    }
}

impl std::fmt::Display for Rule {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}{}", self.family, self.number)?;
        self.letter.map_or(Ok(()), |letter| write!(out, "{letter}"))
    }
}

/// The rules of each spec file.
type Specs = BTreeMap<String, BTreeSet<Rule>>;
/// Rules that a spec file says no test proves, and why: the rows of a section of that name.
type Excused = BTreeMap<String, Vec<(BTreeSet<Rule>, String)>>;
/// Tests of each rule: name and file.
type Found = BTreeMap<(String, Rule), Vec<(String, String)>>;

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let root = workspace::root()?;
    let (mut specs, mut excused) = (Specs::new(), Excused::new());
    let mut planned = BTreeSet::new();
    let files = workspace::files()?;
    for file in files.iter().filter(|f| f.starts_with("spec/") && f.ends_with(".md")) {
        let name = file.trim_start_matches("spec/").trim_end_matches(".md");
        let text = std::fs::read_to_string(root.join(file))?;
        let mut rules = defined(&text);
        rules.retain(|rule| name == SPEC_DECIDED || !rule.is_decided());
        excused.insert(name.to_owned(), without_test(&text));
        planned.extend(named_tests(&text));
        specs.insert(name.to_owned(), rules);
    }
    let (mut found, mut wrong) = (Found::new(), Vec::new());
    for file in files.iter().filter(|f| f.ends_with(".rs") && !f.starts_with("fuzz/")) {
        let text = std::fs::read_to_string(root.join(file))?;
        planned.retain(|name| !has_test(&text, name));
        let folder = parent_document(&root, file);
        for (test, candidates) in tests(&text, folder.as_deref()) {
            for rule in rules_of(&test).unwrap_or_default() {
                match place(&specs, &candidates, &test, &rule) {
                    Some(spec) => {
                        found.entry((spec, rule)).or_default().push((test.clone(), file.clone()));
                    }
                    None => wrong
                        .push(format!("{file}: {test}: {} has no {rule}", specs_of(&candidates))),
                }
            }
        }
    }
    ensure!(wrong.is_empty(), "tests of rules that do not exist:\n  {}", wrong.join("\n  "));
    ensure!(planned.is_empty(), "tests that spec/ names and nobody has written: {planned:?}");
    let text = table(&specs, &excused, &found);
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

/// The rules a spec file defines: `**R1** …`, `- **R1** …`, `| R1 | …`, `| **R1** …`, `R1. …`, `R1 …` at
/// a line's start. A file that has such rules may define more in passing: `… (R1) …`. Those of a family of
/// two letters are always written bold: `| **CR4** …`.
fn defined(text: &str) -> BTreeSet<Rule> {
    let opening = |line: &str| {
        let point = line.strip_prefix("- ").filter(|point| point.starts_with("**"));
        let line = line.strip_prefix("| ").or(point).unwrap_or(line);
        let bold = line.strip_prefix("**");
        let (rule, rest) = leading(bold.unwrap_or(line))?;
        let ends = ["**", " |", ".", " "].iter().any(|end| rest.starts_with(end));
        (ends && (bold.is_some() || rule.family.len() == 1)).then_some(rule)
    };
    let mut rules: BTreeSet<Rule> = text.lines().filter_map(opening).collect();
    if rules.iter().any(|rule| rule.family == "R") {
        let passing = text.split('(').skip(1).filter_map(leading);
        let passing = passing.filter(|(rule, rest)| rule.family == "R" && rest.starts_with(')'));
        rules.extend(passing.map(|(rule, _)| rule));
    }
    rules
}

/// The lines under a heading that ends in these words.
fn section<'a>(text: &'a str, title: &str) -> impl Iterator<Item = &'a str> {
    let heading = move |line: &&str| line.starts_with("## ") && line.ends_with(title);
    let lines = text.lines().skip_while(move |line| !heading(line)).skip(1);
    lines.take_while(|line| !line.starts_with("## "))
}

/// Names of tests: words in backquotes with an underscore, of which one may end in a star.
fn named_tests(text: &str) -> BTreeSet<String> {
    let is_name = |word: &&str| {
        let plain = |letter: char| letter.is_ascii_lowercase() || "_*".contains(letter);
        word.contains('_') && word.chars().all(plain)
    };
    let lines = section(text, PLANNED).flat_map(|line| line.split('`').skip(1).step_by(2));
    lines.filter(is_name).map(str::to_owned).collect()
}

/// Whether a file has a test of this name; a star at its end stands for anything.
fn has_test(text: &str, name: &str) -> bool {
    match name.strip_suffix('*') {
        Some(start) => text.contains(&format!("fn {start}")),
        None => text.contains(&format!("fn {name}(")),
    }
}

/// The rows `| R1, R3–R5 | why |` of the section on rules without a numbered test.
fn without_test(text: &str) -> Vec<(BTreeSet<Rule>, String)> {
    let row = |line: &str| {
        let (names, why) = line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ")?;
        let rules: BTreeSet<Rule> = names.split(", ").flat_map(run_of).collect();
        (!rules.is_empty()).then(|| (rules, why.to_owned()))
    };
    section(text, EXCUSES).filter_map(row).collect()
}

/// `R3–R5` as three rules, `R1` as one.
fn run_of(text: &str) -> Vec<Rule> {
    let Some((first, rest)) = leading(text) else { return Vec::new() };
    match rest.strip_prefix('–').and_then(leading) {
        Some((last, "")) => {
            (first.number..=last.number).map(|number| Rule { number, ..first.clone() }).collect()
        }
        None if rest.is_empty() => vec![first],
        _ => Vec::new(),
    }
}

/// The id of a rule at the start of a text, and what follows it.
fn leading(text: &str) -> Option<(Rule, &str)> {
    let letters = text.find(|letter: char| !letter.is_ascii_uppercase())?;
    let (family, rest) = text.split_at_checked(letters)?;
    if !matches!(family, "R" | "M" | "D" | "A") && family.len() != 2 {
        return None;
    }
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    let (number, rest) = rest.split_at_checked(end)?;
    let mut letters = rest.chars();
    let letter = letters.next().filter(|letter| letter.is_ascii_lowercase());
    let letter = letter.filter(|_| !letters.as_str().starts_with(char::is_alphanumeric));
    let rest = if letter.is_some() { letters.as_str() } else { rest };
    Some((Rule { family: family.to_owned(), number: number.parse().ok()?, letter }, rest))
}

/// The rules at the start of a test's name: `r1_r2a_what` has two, `cr4_what` and `d9_what` have one.
pub(crate) fn rules_of(name: &str) -> Option<Vec<Rule>> {
    let rule = |part: &str| {
        if part.chars().any(|letter| letter.is_ascii_uppercase()) {
            return None;
        }
        let digits = part.find(|letter: char| letter.is_ascii_digit())?;
        let (family, number) = part.split_at_checked(digits)?;
        let part = format!("{}{number}", family.to_ascii_uppercase());
        leading(&part).filter(|(_, rest)| rest.is_empty()).map(|(rule, _)| rule)
    };
    let rules: Vec<Rule> = name.split('_').map_while(rule).collect();
    (!rules.is_empty()).then_some(rules)
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
        if let Some(name) = name.filter(|name| rules_of(name).is_some()) {
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
        match leading(word).filter(|(rule, _)| rule.family == "R") {
            Some((Rule { number, .. }, _)) => match spans.last_mut() {
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
/// whose rules it lists, else the API server for a name with `api` in it, else the first. A family
/// belongs to one file, so its rules need no comment.
fn place(specs: &Specs, candidates: &[Named], test: &str, rule: &Rule) -> Option<String> {
    if rule.family != "R" {
        let owner = specs.iter().find(|(_, rules)| rules.contains(rule));
        return owner.map(|(spec, _)| spec.clone());
    }
    let has = |of: &&Named| specs.get(&of.spec).is_some_and(|rules| rules.contains(rule));
    let within =
        |of: &&Named| of.spans.iter().any(|(first, last)| (*first..=*last).contains(&rule.number));
    let api = |of: &&Named| test.contains("_api") && of.spec == SPEC_USUAL;
    let having: Vec<&Named> = candidates.iter().filter(has).collect();
    let listed = having.iter().find(|of| candidates.len() > 1 && within(of));
    let chosen = listed.or_else(|| having.iter().find(|of| api(of))).or_else(|| having.first());
    chosen.map(|of| of.spec.clone())
}

fn table(specs: &Specs, excused: &Excused, found: &Found) -> String {
    let mut text = String::from(
        "# Rules and their tests\n\nMade by `cargo xtask rules` from spec/ and the tests that bear a rule's number.\n",
    );
    for (spec, rules) in specs {
        let tested = rules
            .iter()
            .filter(|rule| found.contains_key(&(spec.clone(), (*rule).clone())))
            .count();
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
                let _ = writeln!(text, "| {spec} | {rule} | {} | {file} |", tests.join(", "));
            }
        }
        let untested = |rule: &&Rule| !found.contains_key(&(spec.clone(), (*rule).clone()));
        let excuses = excused.get(spec).map(Vec::as_slice).unwrap_or_default();
        let open = rules.iter().filter(untested);
        let open = ranges(open.filter(|rule| !excuses.iter().any(|(of, _)| of.contains(rule))));
        if !open.is_empty() {
            let _ = writeln!(text, "\nOpen: {open}.");
        }
        for (of, why) in excuses {
            let of = ranges(of.iter().filter(untested));
            if !of.is_empty() {
                let _ = writeln!(text, "\nWithout a test: {of}: {why}.");
            }
        }
    }
    text
}

/// `R1, R3–R5`.
fn ranges<'a>(rules: impl Iterator<Item = &'a Rule>) -> String {
    let mut spans: Vec<(&Rule, u32)> = Vec::new();
    for rule in rules {
        match spans.last_mut() {
            Some((first, last))
                if first.family == rule.family
                    && *last + 1 == rule.number
                    && first.letter.is_none()
                    && rule.letter.is_none() =>
            {
                *last = rule.number;
            }
            _ => spans.push((rule, rule.number)),
        }
    }
    let span = |(first, last): &(&Rule, u32)| {
        if first.number == *last {
            first.to_string()
        } else {
            format!("{first}–{}{last}", first.family)
        }
    };
    spans.iter().map(span).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(family: &str, number: u32) -> Rule {
        Rule { family: family.into(), number, letter: None }
    }

    fn lettered(number: u32, letter: char) -> Rule {
        Rule { letter: Some(letter), ..rule("R", number) }
    }

    fn plain(numbers: impl IntoIterator<Item = u32>) -> BTreeSet<Rule> {
        numbers.into_iter().map(|number| rule("R", number)).collect()
    }

    fn only(spec: &str) -> Vec<Named> {
        vec![Named { spec: spec.into(), spans: Vec::new() }]
    }

    #[test]
    fn rules_are_found_in_every_form() {
        let text = "**R1** a\n| R2 | b |\n| **R3** [seed] | c |\nR4. d\nR5 `e`\nsee R6\n\
                    | Reason | x |\nR7, R8\ncontained (R9): so";
        assert_eq!(defined(text), plain([1, 2, 3, 4, 5, 9]));
        assert!(defined("as told (R9)").is_empty());
    }

    #[test]
    fn rules_put_in_later_have_a_letter() {
        let text = "| R5 | a |\n| R5a | b |\n**R6b** c\nR7c. d\nR8ab e\nR9 f (R9z).";
        let want = [rule("R", 5), lettered(5, 'a'), lettered(6, 'b'), lettered(7, 'c')];
        let want = want.into_iter().chain([rule("R", 9), lettered(9, 'z')]).collect();
        assert_eq!(defined(text), want);
        assert_eq!(rules_of("r5a_r6_what"), Some(vec![lettered(5, 'a'), rule("R", 6)]));
        assert_eq!(rules_of("r5ab_what"), None);
        let all = [rule("R", 5), lettered(5, 'a'), rule("R", 6), rule("R", 7)];
        assert_eq!(ranges(all.iter()), "R5, R5a, R6–R7");
        assert_eq!(lettered(61, 'k').to_string(), "R61k");
    }

    #[test]
    fn tests_belong_to_the_nearest_comment() {
        let text = "//! Rules of spec/ownership.md.\nfn r1_a() {}\nmod tests {\n    \
                    //! Rules of spec/api-server.md.\n    async fn r2_r3_b() {}\n    fn plain() {}\n}";
        let found = tests(text, None);
        assert_eq!(found[0], ("r1_a".into(), only("ownership")));
        assert_eq!(found[1], ("r2_r3_b".into(), only("api-server")));
        assert_eq!(found.len(), 2);
        assert_eq!(rules_of("r2_r3_b"), Some(vec![rule("R", 2), rule("R", 3)]));
        assert_eq!(rules_of("rows"), None);
        let above = "//! Those of the dependencies specification.\n";
        assert_eq!(tests("fn r1_a() {}", Some(above))[0].1, only("dependencies"));
    }

    #[test]
    fn a_comment_may_share_out_the_numbers() {
        let both =
            named("R5 to R9 are of the API server specification, R1 to R3 and R7 of spec/x.md.");
        let specs =
            Specs::from([("api-server".to_owned(), plain(1..20)), ("x".to_owned(), plain(1..10))]);
        let place = |test, number| place(&specs, &both, test, &rule("R", number)).unwrap();
        assert_eq!(place("r2_a", 2), "x");
        assert_eq!(place("r6_a", 6), "api-server");
        assert_eq!(place("r12_a", 12), "api-server");
    }

    #[test]
    fn tests_that_a_file_names_are_looked_for() {
        let text = "`not_here`\n## 9. Tests named by the seed's test plan\n| `a_b` | `names` |\n\
                    more: `c_d`; `e_*`; R1 `X_y`\n## 10. Else\n`nor_here`\n";
        let names = named_tests(text);
        assert_eq!(names.iter().map(String::as_str).collect::<Vec<_>>(), ["a_b", "c_d", "e_*"]);
        let file = "fn a_b() {}\nasync fn c_d_more() {}\nfn e_f() {}";
        let missing = names.iter().filter(|name| !has_test(file, name));
        assert_eq!(missing.collect::<Vec<_>>(), ["c_d"]);
    }

    #[test]
    fn a_file_says_which_rules_have_no_test_and_why() {
        let text = "**R1** a\n**R2** b\n**R3** c\n**R4** d\n**R5** e\n| R1 | not here |\n\n\
                    ## 9. Rules without a numbered test\n\n| Rules | Why |\n|---|---|\n\
                    | R2–R3, R5 | they are figures |\n\n## 10. Else\n| R4 | not here |\n";
        let excused = without_test(text);
        let [(rules, why)] = &excused[..] else { panic!("{excused:?}") };
        assert_eq!((rules, why.as_str()), (&plain([2, 3, 5]), "they are figures"));
        let found = |number| {
            (("x".to_owned(), rule("R", number)), vec![("r_a".to_owned(), "a.rs".to_owned())])
        };
        let specs = Specs::from([("x".to_owned(), defined(text))]);
        let excused = Excused::from([("x".to_owned(), excused)]);
        let table = table(&specs, &excused, &Found::from([found(1), found(2)]));
        assert!(table.contains("\nOpen: R4.\n\nWithout a test: R3, R5: they are figures.\n"));
    }

    #[test]
    fn runs_of_numbers_are_written_short() {
        let all = [("CR", 10), ("R", 1), ("R", 2), ("R", 3), ("R", 7), ("R", 9), ("R", 10)];
        let all = all.map(|(family, number)| rule(family, number));
        assert_eq!(ranges(all.iter()), "CR10, R1–R3, R7, R9–R10");
    }

    #[test]
    fn a_family_of_rules_belongs_to_the_file_that_defines_it() {
        let text =
            "| **CR4** | E | a |\n| **HI1** content | b |\nas told (CR9)\nCR5 c\n| DP3 | d |";
        let rules = defined(text);
        assert_eq!(rules, BTreeSet::from([rule("CR", 4), rule("HI", 1)]));
        let specs = Specs::from([("x".to_owned(), rules)]);
        assert_eq!(rules_of("cr4_hi1_what"), Some(vec![rule("CR", 4), rule("HI", 1)]));
        assert_eq!(place(&specs, &only("api-server"), "cr4_a", &rule("CR", 4)), Some("x".into()));
        assert_eq!(place(&specs, &only("x"), "cr5_a", &rule("CR", 5)), None);
        for other in ["v1_a", "abc1_a", "b1", "CR4_a", "cr_4"] {
            assert_eq!(rules_of(other), None, "{other}");
        }
    }

    #[test]
    fn rules_of_attach_are_points_of_a_list() {
        let rules = defined("- **A1** a\n- **A2** b\n- as told in **A3**\n");
        assert_eq!(rules, BTreeSet::from([rule("A", 1), rule("A", 2)]));
        assert_eq!(rules_of("a1_what"), Some(vec![rule("A", 1)]));
        let specs = Specs::from([("attach".to_owned(), rules)]);
        assert_eq!(
            place(&specs, &only("api-server"), "a2_b", &rule("A", 2)),
            Some("attach".into())
        );
    }

    #[test]
    fn decisions_and_migration_are_counted_like_rules() {
        let text = "**M1** a\n| D1 | b | c |\nR1. d\nas told (D9)\n| D2, D3 | e |\nMAY f";
        let rules = defined(text);
        assert_eq!(rules, BTreeSet::from([rule("D", 1), rule("M", 1), rule("R", 1)]));
        assert!(rule("D", 1).is_decided() && rule("M", 1).is_decided());
        assert!(!rule("R", 1).is_decided() && !rule("DM", 1).is_decided());
        let specs = Specs::from([(SPEC_DECIDED.to_owned(), rules)]);
        assert_eq!(rules_of("d1_r1_what"), Some(vec![rule("D", 1), rule("R", 1)]));
        let place = |number| place(&specs, &only("api-server"), "d_a", &rule("D", number));
        assert_eq!(place(1), Some(SPEC_DECIDED.into()));
        assert_eq!(place(2), None);
        let all = [rule("D", 1), rule("D", 2), rule("M", 3)];
        assert_eq!(ranges(all.iter()), "D1–D2, M3");
    }
}
