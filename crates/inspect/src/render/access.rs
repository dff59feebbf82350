//! Answers about who may read what, as text. The map of it all has a file of its own.

mod map;

use std::fmt::Write as _;

use crate::access::{
    AccessChange, AccessExplanation, AccessFinding, ConditionState, Doctor, Narrow, NarrowOutcome,
    NarrowVerdict, ROLES, Readers, SubjectAccess, UnusedGrants, Via,
};
use crate::facts::UnreadableKind;
use crate::finding::count;
use crate::render::Paint;
use crate::render::rules;
use crate::render::text::unread;

pub use map::{map, map_dot, map_svg};

const NOT_READ: &str = "what would say so could not be read";

/// `yes` or `no`, then what roles and what references say.
#[must_use]
pub fn can(answer: &AccessExplanation, paint: Paint) -> String {
    let mut text = said(answer, paint);
    let reference = &answer.reference;
    match (reference.allowed, answer.allowed) {
        (true, false) => {
            let _ = writeln!(text, "  reference: yes, but the server does not follow references");
        }
        (true, true) => {
            let _ = writeln!(text, "  reference: yes, {}", short(&reference.message));
        }
        (false, _) if !answer.is_reference_known() => {
            let _ = writeln!(text, "  reference: not known, {NOT_READ}");
        }
        (false, _) => {
            let _ = writeln!(text, "  reference: no, {}", reference.message);
        }
    }
    unread(&answer.unread, paint, &mut text);
    text
}

/// The answer and what roles say to it.
fn said(answer: &AccessExplanation, paint: Paint) -> String {
    let word = if answer.allowed { paint.green("yes") } else { paint.red("no") };
    let reason = answer.server.reason.strip_prefix("RBAC: ").unwrap_or(&answer.server.reason);
    let roles = match (answer.by, reason) {
        (Some("roles"), "") => "yes".to_owned(),
        (Some("roles"), reason) => format!("yes, {reason}"),
        _ => "no".to_owned(),
    };
    format!("{word}\n  roles: {roles}\n")
}

/// A reason without the word it begins with.
fn short(reason: &str) -> &str {
    reason.strip_prefix("reference: ").unwrap_or(reason)
}

/// Every condition, every witness, the nearest miss and what would help.
#[must_use]
pub fn explain(answer: &AccessExplanation, paint: Paint) -> String {
    let mut text =
        format!("{} {} as {}: ", answer.verb, paint.bold(&answer.object.to_string()), answer.user);
    text += &said(answer, paint);
    let reference = &answer.reference;
    if !answer.is_reference_known() {
        let _ = writeln!(text, "  reference: {}, {NOT_READ}", paint.yellow("not known"));
        unread(&answer.unread, paint, &mut text);
        return text;
    }
    let word = if reference.allowed { paint.green("yes") } else { paint.red("no") };
    let _ = writeln!(text, "  reference: {word}, {}", short(&reference.message));
    for condition in &reference.conditions {
        let state = match condition.state {
            ConditionState::Met => paint.green("met    "),
            ConditionState::Missing => paint.red("missing"),
            ConditionState::Unknown => paint.faint("-      "),
        };
        let _ = writeln!(
            text,
            "    {}  {:9}  {state}  {}",
            condition.number, condition.code, condition.what
        );
    }
    if reference.allowed {
        let _ = writeln!(text, "by way of");
        for via in &reference.witnesses {
            let _ = writeln!(text, "  {via}");
        }
    }
    // Where nothing but the grant is missing, the sentence above says it already.
    if let Some(near) = reference.nearest.as_ref().filter(|_| reference.fix.is_none()) {
        let slash = if near.namespace.is_empty() { "" } else { "/" };
        let _ = writeln!(
            text,
            "nearest is {} `{}{slash}{}`: its `{}` is `{}` and would have to be, or contain, `{}`",
            near.kind, near.namespace, near.name, near.field, near.found, near.wanted
        );
    }
    if let Some(fix) = &reference.fix {
        let _ = writeln!(text, "this would allow it:");
        for line in fix.lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    unread(&answer.unread, paint, &mut text);
    text
}

/// Everybody who may, by references with witnesses and by roles with bindings.
#[must_use]
pub fn who_can(readers: &Readers, paint: Paint) -> String {
    let title = format!("{} {}", readers.verb, readers.object);
    let mut text = format!("{}\n", paint.bold(&title));
    let (roles, others): (Vec<&UnreadableKind>, Vec<&UnreadableKind>) =
        readers.unread.iter().partition(|unread| unread.kind.ends_with(ROLES));
    text += &by("reference", readers.by_reference.is_empty(), &others);
    for reader in &readers.by_reference {
        let _ = writeln!(text, "  {}", paint.cyan(&reader.subject.to_string()));
        for via in &reader.witnesses {
            let _ = writeln!(text, "    {via}");
        }
    }
    text += &by("roles", readers.by_roles.is_empty(), &roles);
    let names: Vec<String> = readers.by_roles.iter().map(|it| it.subject.to_string()).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    for (name, holder) in names.iter().zip(&readers.by_roles) {
        let _ = writeln!(text, "  {name:width$}  {}, {}", holder.binding, holder.role);
    }
    unread(&readers.unread, paint, &mut text);
    text
}

/// A heading; that nobody stands below it is said only where everything was read.
fn by(what: &str, empty: bool, unread: &[&UnreadableKind]) -> String {
    match (empty, unread.is_empty()) {
        (true, true) => format!("by {what}: nobody\n"),
        (true, false) => format!("by {what}: not known, {NOT_READ}\n"),
        (false, true) => format!("by {what}:\n"),
        (false, false) => format!("by {what}, as far as it could be read:\n"),
    }
}

/// What a change gives and takes.
#[must_use]
pub fn change(change: &AccessChange, paint: Paint) -> String {
    let mut text = String::new();
    let mut reported = |sign: String, all: &[SubjectAccess]| {
        for SubjectAccess { subject, target, via } in all {
            let _ = writeln!(text, "{sign} {subject} reads {target}: {via}");
        }
    };
    reported(paint.green("+"), &change.gained);
    reported(paint.red("-"), &change.lost);
    for ignored in &change.ignored {
        let _ = writeln!(text, "not looked at: {ignored} holds no reference that a strategy finds");
    }
    let _ = match change.is_nothing() {
        true if !change.unread.is_empty() => {
            writeln!(text, "what changes cannot be said: what would say so could not be read")
        }
        true => writeln!(text, "nobody gains or loses access by reference"),
        false => {
            let (gained, lost) = (change.gained.len(), change.lost.len());
            writeln!(text, "{gained} gained, {lost} lost")
        }
    };
    unread(&change.unread, paint, &mut text);
    text
}

/// Grants that cover no reference.
#[must_use]
pub fn unused_grants(unused: &UnusedGrants, paint: Paint) -> String {
    let mut text = String::new();
    for grant in &unused.grants {
        let _ = writeln!(text, "{grant}");
    }
    let _ = match unused.grants.len() {
        0 if !unused.unread.is_empty() => {
            writeln!(text, "no unused grant was found in what could be read")
        }
        0 if unused.looked_at == 0 => writeln!(text, "there are no grants"),
        0 => writeln!(text, "{}", paint.green("every grant covers a reference")),
        number => writeln!(text, "{} no reference", paint.yellow(&covers(number))),
    };
    unread(&unused.unread, paint, &mut text);
    text
}

fn covers(number: usize) -> String {
    if number == 1 { "1 grant covers".to_owned() } else { format!("{number} grants cover") }
}

/// What is worth knowing.
#[must_use]
pub fn doctor(doctor: &Doctor, program: &str, paint: Paint) -> String {
    let mut text = String::new();
    for advice in &doctor.advice {
        let AccessFinding { level, what, causes, hint, rule, .. } =
            advice.clone().called_by(program);
        let _ = writeln!(text, "{}: {what}", paint.level(level));
        for cause in &causes {
            let _ = writeln!(text, "  cause: {cause}");
        }
        if let Some(hint) = &hint {
            let _ = writeln!(text, "  hint: {hint}");
        }
        let rule = rules::describe(&format!("referential-authorization {rule}"));
        let _ = writeln!(text, "  rule: {}", paint.faint(&rule));
    }
    let found = match doctor.warns() {
        true => paint.yellow("somebody should look"),
        false if !doctor.unread.is_empty() => {
            paint.yellow("nothing wrong was found in what could be read")
        }
        false => paint.green("nothing is wrong"),
    };
    let strategies = match doctor.strategies {
        1 => "1 strategy".to_owned(),
        number => format!("{number} strategies"),
    };
    let consumers = count(doctor.consumers, "consumer");
    let grants = count(doctor.grants, "grant");
    let _ = writeln!(text, "{found}: looked at {strategies}, {consumers} and {grants}");
    unread(&doctor.unread, paint, &mut text);
    text
}

/// What would break, and the verdict; objects are written by the caller, who has a writer of YAML.
#[must_use]
pub fn narrow(narrow: &Narrow, paint: Paint) -> String {
    let mut text = String::new();
    bindings(narrow, paint, &mut text);
    if !narrow.references.is_empty() {
        let _ = writeln!(text, "its origins point at");
    }
    let places: Vec<String> = narrow.references.iter().map(|it| it.via.target.place()).collect();
    let width = places.iter().map(|place| place.chars().count()).max().unwrap_or(0);
    for (place, reach) in places.iter().zip(&narrow.references) {
        let Via { origin, purpose, .. } = &reach.via;
        let word = outcome(reach.outcome, paint);
        let _ = writeln!(text, "  {word}  {place:width$}  {origin} for {purpose}");
    }
    reads(narrow, paint, &mut text);
    for note in &narrow.notes {
        let _ = writeln!(text, "{}: {note}", paint.cyan("note"));
    }
    let _ = writeln!(text, "verdict: {}", verdict(narrow.verdict, paint));
    if !narrow.objects.is_empty() {
        let with = verdict(narrow.verdict_with_objects, paint);
        let _ = writeln!(text, "verdict with the objects below: {with}");
    }
    unread(&narrow.unread, paint, &mut text);
    text
}

fn bindings(narrow: &Narrow, paint: Paint, text: &mut String) {
    let user = paint.bold(&narrow.user);
    if narrow.bindings.is_empty() {
        let _ = writeln!(text, "{user} reads {} one by one, if at all", narrow.resource);
        return;
    }
    let _ = writeln!(text, "{user} reads all {} through", narrow.resource);
    for broad in &narrow.bindings {
        let place = match broad.binding.namespace.as_str() {
            "" => "everywhere".to_owned(),
            namespace => format!("in namespace {namespace}"),
        };
        let _ = writeln!(
            text,
            "  {} ({}): {} {place}",
            broad.binding,
            broad.role,
            broad.verbs.join(", ")
        );
        if broad.gives_more {
            let _ = writeln!(
                text,
                "    the role gives more than that: take the rule out of it, not the binding away"
            );
        }
        if !broad.others.is_empty() {
            let others: Vec<String> = broad.others.iter().map(ToString::to_string).collect();
            let _ = writeln!(text, "    and so does {}", others.join(", "));
        }
        if narrow.bindings.len() > 1 && !broad.loses.is_empty() {
            let _ = writeln!(text, "    without it alone: lost are {}", broad.loses.join(", "));
        }
    }
}

fn reads(narrow: &Narrow, paint: Paint, text: &mut String) {
    let Some(window) = &narrow.window else { return };
    let time = match (window.from, window.to) {
        (Some(from), Some(to)) => format!(", {from:.0} to {to:.0}"),
        _ => String::new(),
    };
    let requests = count(window.requests, "request");
    let _ = writeln!(text, "{} has {requests} of it{time}", window.source);
    for read in &narrow.reads {
        let times = count(read.times, "time");
        let agents = match read.user_agents.is_empty() {
            true => String::new(),
            false => format!(" by {}", read.user_agents.join(", ")),
        };
        let place = read.object.place();
        let word = outcome(read.outcome, paint);
        let less = if read.filtered { ", shows less" } else { "" };
        let _ = writeln!(text, "  {word}  {} {place}{less}, {times}{agents}", read.verb);
        let _ = writeln!(text, "                     {}", paint.faint(short(&read.why)));
    }
}

fn outcome(outcome: NarrowOutcome, paint: Paint) -> String {
    match outcome {
        NarrowOutcome::Kept => paint.green("kept             "),
        NarrowOutcome::KeptWithObjects => paint.cyan("kept with objects"),
        NarrowOutcome::Lost => paint.red("lost             "),
        NarrowOutcome::Breaks => paint.red("breaks           "),
    }
}

fn verdict(verdict: NarrowVerdict, paint: Paint) -> String {
    match verdict {
        NarrowVerdict::Safe => paint.green("safe"),
        NarrowVerdict::WouldBreak => paint.red("would break"),
        NarrowVerdict::NotShown => paint.yellow("not shown to be safe"),
    }
}
