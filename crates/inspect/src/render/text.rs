//! Answers as text: trees with branches, findings as errors read, plans as numbered steps.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::audit::AuditReport;
use crate::facts::{ObjectIdentity, UnreadableKind};
use crate::finding::{Finding, age, count};
use crate::fold::{SHOWN, SHOWN_MAX};
use crate::ownership_analysis::LifecycleState;
use crate::plan::{DeletionPlan, Happens, PlanStep, Stays};
use crate::render::Paint;
use crate::render::row_style::{aged, referred, said};
use crate::render::rules;
use crate::tree::{Tree, TreeRow};
use crate::why::ObjectDiagnosis;

/// A tree with its columns.
#[must_use]
pub fn tree(tree: &Tree, paint: Paint) -> String {
    let columns = ["NAMESPACE", "NAME", "STATUS", "AGE", "REFERENCE"];
    let mut lines: Vec<[(String, String); 5]> =
        vec![columns.map(|title| (title.to_owned(), paint.bold(title)))];
    // Whether a line goes on below at each depth.
    let mut open: Vec<bool> = Vec::new();
    for row in &tree.objects {
        let branch = branch(row.depth, row.last, &mut open);
        lines.push(cells(row, &branch, tree, paint));
    }
    let mut widths = [0; 5];
    for line in &lines {
        for (width, (plain, _)) in widths.iter_mut().zip(line) {
            *width = (*width).max(plain.chars().count());
        }
    }
    let mut text = String::new();
    for line in &lines {
        let mut out = String::new();
        let mut owed = 0;
        for ((plain, painted), width) in line.iter().zip(widths) {
            if width == 0 {
                continue;
            }
            if !plain.is_empty() {
                out.push_str(&" ".repeat(owed));
                out.push_str(painted);
                owed = 0;
            }
            owed += width - plain.chars().count() + 2;
        }
        text.push_str(out.trim_end());
        text.push('\n');
    }
    unread(&tree.unread, paint, &mut text);
    text
}

/// The branch in front of a row; `open` says whether a line goes on below at each depth.
pub(super) fn branch(depth: usize, last: bool, open: &mut Vec<bool>) -> String {
    open.truncate(depth.saturating_sub(1));
    let mut branch: String =
        open.iter().map(|goes_on| if *goes_on { "│ " } else { "  " }).collect();
    if depth > 0 {
        branch.push_str(if last { "└─" } else { "├─" });
        open.push(!last);
    }
    branch
}

fn cells(row: &TreeRow, branch: &str, tree: &Tree, paint: Paint) -> [(String, String); 5] {
    let name = match row.folded {
        Some(_) => row.object.name.clone(),
        None => format!("{}/{}", row.object.kind, row.object.name),
    };
    let again = if row.repeated { " (see above)" } else { "" };
    let painted = format!(
        "{}{}{}",
        paint.faint(branch),
        match row.folded {
            Some(_) => paint.faint(&name),
            None if row.depth == 0 => paint.bold(&name),
            None => name.clone(),
        },
        paint.faint(again)
    );
    let (status, age, reference) = (said(row, tree), aged(row, tree), referred(row));
    let worth = row.reference.map(|link| link.verdict);
    let reference_painted =
        worth.map_or_else(|| reference.clone(), |worth| paint.worth(worth, &reference));
    let status_painted = paint.fares(row.state, row.health, &status);
    [
        (row.object.namespace.clone(), row.object.namespace.clone()),
        (format!("{branch}{name}{again}"), painted),
        (status, status_painted),
        (age.clone(), age),
        (reference, reference_painted),
    ]
}

/// Why an object is as it is.
#[must_use]
pub fn why(why: &ObjectDiagnosis, program: &str, paint: Paint) -> String {
    let mut text = String::new();
    let created = why.created.map(|created| format!(", {} old", age(created, why.now)));
    let deleted = why.deleted.map(|deleted| format!(", deleted {} ago", age(deleted, why.now)));
    let word = match why.state {
        LifecycleState::Alive => "alive",
        LifecycleState::Terminating => "Terminating",
        LifecycleState::Waiting => "Terminating in the foreground",
        LifecycleState::Orphaning => "Terminating, leaving its dependents",
        LifecycleState::Absent => "absent",
        LifecycleState::Unread => "unread",
    };
    let _ = writeln!(
        text,
        "{} is {}{}{} (uid {})",
        paint.bold(&why.object.to_string()),
        paint.lifecycle_state(why.state, word),
        deleted.unwrap_or_default(),
        created.unwrap_or_default(),
        why.object.uid
    );
    for reason in &why.reasons {
        finding(reason, program, paint, &mut text);
    }
    unread(&why.unread, paint, &mut text);
    text
}

/// What was found, and how much was looked at.
#[must_use]
pub fn audit(audit: &AuditReport, program: &str, paint: Paint) -> String {
    let mut text = String::new();
    for found in &audit.findings {
        finding(found, program, paint, &mut text);
    }
    let place = match &audit.namespace {
        Some(namespace) => format!(" in namespace `{namespace}`"),
        None => String::new(),
    };
    let found = match audit.findings.len() {
        0 if !audit.saw_anything() => paint.yellow("nothing could be read"),
        0 if !audit.is_whole() => paint.yellow("nothing found in what could be read"),
        0 => paint.green("nothing found"),
        number => paint.yellow(&count(number, "finding")),
    };
    let objects = count(audit.objects, "object");
    let kinds = count(audit.kinds, "kind");
    let _ = writeln!(text, "{found}: looked at {objects} of {kinds}{place}");
    unread(&audit.unread, paint, &mut text);
    text
}

/// What would happen, in order; then what goes and what stays. Steps in a row that are alike are counted
/// unless `all` are wanted.
#[must_use]
pub fn plan(plan: &DeletionPlan, all: bool, program: &str, paint: Paint) -> String {
    let mut text = String::new();
    let how = match plan.cascade {
        "orphan" => "and leaving its dependents behind".to_owned(),
        cascade => format!("in the {cascade}"),
    };
    let _ = writeln!(text, "deleting {} {how} would", paint.bold(&plan.object.to_string()));
    steps(&plan.steps, all, paint, &mut text);
    let _ = writeln!(text, "{}", goes(&plan.gone));
    if !plan.stays.is_empty() {
        let _ = writeln!(text, "{} there afterwards:", stays(plan.stays.len()));
        let alike = |a: &Stays, b: &Stays| {
            (&a.object.kind, a.terminating, &a.why) == (&b.object.kind, b.terminating, &b.why)
        };
        for (stays, more) in counted(&plan.stays, all, alike) {
            let state = if stays.terminating { ", Terminating" } else { "" };
            let what = match more {
                0 => stays.object.to_string(),
                more => format!("{more} more of kind {}", stays.object.kind),
            };
            let _ = writeln!(text, "  {what}{state}: {}", stays.why);
        }
    }
    for note in &plan.notes {
        finding(note, program, paint, &mut text);
    }
    if plan.steps.iter().any(|step| step.rule.is_some()) {
        let _ = writeln!(text, "{}", paint.faint("numbers are rules of spec/ownership.md"));
    }
    unread(&plan.unread, paint, &mut text);
    text
}

/// The steps of a plan, each with its number.
fn steps(steps: &[PlanStep], all: bool, paint: Paint, text: &mut String) {
    let number_width = steps.len().to_string().len();
    let verb_width = steps.iter().map(|step| verb(&step.happens).0.len()).max().unwrap_or(0);
    let alike = |a: &PlanStep, b: &PlanStep| {
        let of = |step: &PlanStep| (verb(&step.happens), step.rule.clone(), step.why);
        let what = |step: &PlanStep| (step.object.kind.clone(), step.object.namespace.clone());
        of(a) == of(b) && what(a) == what(b)
    };
    let rows = counted(steps, all, alike);
    let name = |(step, more): &(&PlanStep, usize)| match more {
        0 => format!("{} {}", step.object.kind, step.object.place()),
        more => format!("{} {more} more", step.object.kind),
    };
    let width = rows.iter().map(|row| name(row).chars().count()).max().unwrap_or(0);
    let mut number = 0;
    for row in &rows {
        let (step, more) = row;
        number += (*more).max(1);
        let (verb, detail) = verb(&step.happens);
        let verb = format!("{verb:verb_width$}");
        let verb = match step.happens {
            Happens::Removed => paint.red(&verb),
            Happens::Terminating { .. } => paint.yellow(&verb),
            _ => paint.cyan(&verb),
        };
        let rule = step.rule.as_ref().map(|rule| format!(" ({rule})")).unwrap_or_default();
        let why = paint.faint(&format!("{}{rule}", step.why));
        let name = name(row);
        let _ = writeln!(text, "  {number:number_width$}  {verb}  {name:width$}  {detail}{why}");
    }
}

/// The items, each with 0; where many in a row are alike, the first ones and then one with how many more.
fn counted<T>(items: &[T], all: bool, alike: impl Fn(&T, &T) -> bool) -> Vec<(&T, usize)> {
    let mut rows = Vec::new();
    for run in items.chunk_by(alike) {
        let shown = if all || run.len() <= SHOWN_MAX { run.len() } else { SHOWN };
        rows.extend(run.iter().take(shown).map(|item| (item, 0)));
        rows.extend(run.get(shown).map(|item| (item, run.len() - shown)));
    }
    rows
}

fn verb(happens: &Happens) -> (&'static str, String) {
    match happens {
        Happens::Removed => ("remove", String::new()),
        Happens::Terminating { cascade: "orphan" } => ("delete", "leaving dependents: ".to_owned()),
        Happens::Terminating { cascade } => ("delete", format!("in the {cascade}: ")),
        Happens::LosesReferences { owners } => ("release", format!("from {}: ", owners.join(", "))),
        Happens::Unblocked { owners } => ("unblock", format!("{}: ", owners.join(", "))),
        Happens::LosesFinalizer { finalizer } => ("edit", format!("without `{finalizer}`: ")),
    }
}

fn goes(gone: &[ObjectIdentity]) -> String {
    match gone.len() {
        0 => "no object goes".to_owned(),
        1 => format!("1 object goes: {}", kinds(gone)),
        number => format!("{number} objects go: {}", kinds(gone)),
    }
}

fn stays(number: usize) -> String {
    if number == 1 { "1 object is still".to_owned() } else { format!("{number} objects are still") }
}

fn kinds(gone: &[ObjectIdentity]) -> String {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for named in gone {
        *kinds.entry(&named.kind).or_default() += 1;
    }
    let list: Vec<String> =
        kinds.iter().map(|(kind, number)| format!("{kind} ({number})")).collect();
    list.join(", ")
}

fn finding(finding: &Finding, program: &str, paint: Paint, text: &mut String) {
    let finding = finding.clone().called_by(program);
    let _ = writeln!(text, "{}: {}", paint.level(finding.level), finding.what);
    for cause in &finding.causes {
        let _ = writeln!(text, "  cause: {cause}");
    }
    if let Some(hint) = &finding.hint {
        let _ = writeln!(text, "  hint: {hint}");
    }
    if let Some(rule) = finding.rule {
        let _ = writeln!(text, "  rule: {}", paint.faint(&rules::describe(rule)));
    }
}

/// How many kinds are named one by one; more are told together, by why they could not be read.
const ONE_BY_ONE_MAX: usize = 5;

/// What could not be read, or not everywhere.
pub(super) fn unread(unread: &[UnreadableKind], paint: Paint, text: &mut String) {
    let (parts, none): (Vec<&UnreadableKind>, Vec<&UnreadableKind>) =
        unread.iter().partition(|unread| unread.within.is_some());
    if !none.is_empty() {
        let number = count(none.len(), "kind");
        let _ = writeln!(text, "{}: {number} could not be read", paint.yellow("warning"));
        let mut causes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for unread in &none {
            causes.entry(&unread.why).or_default().push(&unread.kind);
        }
        for (why, kinds) in causes {
            if kinds.len() <= ONE_BY_ONE_MAX {
                for kind in kinds {
                    let _ = writeln!(text, "  cause: `{kind}`: {why}");
                }
            } else {
                let _ = writeln!(text, "  cause: {why}: `{}`", kinds.join("`, `"));
            }
        }
    }
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for place in parts.iter().filter_map(|unread| unread.within.as_deref()) {
        *places.entry(place).or_default() += 1;
    }
    for (place, number) in places {
        let were =
            if number == 1 { "1 kind was".to_owned() } else { format!("{number} kinds were") };
        let _ = writeln!(
            text,
            "{}: {were} read in namespace `{place}` only; more may not be listed",
            paint.cyan("note")
        );
    }
}
