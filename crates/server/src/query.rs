//! The options that query parameters make, with the answers for bad ones.

use tenure_core::Revision;
use tenure_core::selector::{FieldSelector, LabelSelector};
use tenure_machinery::{Errors, Failure, Object, Path};

pub use tenure_machinery::query::{Query, parse_duration};

/// `resourceVersionMatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceVersionMatch {
    /// The caller did not say.
    Unset,
    /// At least that new.
    NotOlderThan,
    /// Just that state.
    Exact,
}

/// The options of list, watch and deletecollection.
#[derive(Clone, Debug)]
pub struct ListOptions {
    /// Which labels.
    pub labels: LabelSelector,
    /// Which fields.
    pub fields: FieldSelector,
    /// Zero means all.
    pub limit: usize,
    /// Where the page before ended.
    pub token: Option<String>,
    /// `None` when unset; zero is any state.
    pub revision: Option<Revision>,
    /// How `revision` is meant.
    pub matching: ResourceVersionMatch,
    /// How long a watch lives, as the client has it.
    pub timeout_seconds: Option<i64>,
    /// Whether a watch gets bookmarks.
    pub bookmarks: bool,
    /// Whether a watch begins with the state.
    pub initial_events: Option<bool>,
}

impl ListOptions {
    /// Reads and checks the options of a list (`watch` false) or a watch (R10–R16, R110).
    pub fn read(query: &Query, watch: bool) -> Result<ListOptions, Failure> {
        let labels = LabelSelector::parse(query.text("labelSelector"))
            .map_err(|e| Failure::bad_request(format!("unable to parse requirement: {e}")))?;
        let fields = FieldSelector::parse(query.text("fieldSelector"))
            .map_err(|e| Failure::bad_request(format!("unable to parse field selector: {e}")))?;
        let limit = usize::try_from(query.number("limit")?.unwrap_or(0).max(0)).unwrap_or(0);
        let timeout = query.number("timeoutSeconds")?;
        let text = query.text("resourceVersion");
        let matching = check_matching(query, text, watch)?;
        let token = query.get("continue").filter(|t| !t.is_empty()).map(str::to_owned);
        let revision = match text {
            "" => None,
            text => Some(Revision::parse(text).ok_or_else(|| {
                Failure::bad_request(format!("resourceVersion: `{text}` is not a whole number"))
            })?),
        };
        if !watch && token.is_some() && revision.is_some_and(|r| r != Revision::ZERO) {
            return Err(Failure::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        Ok(ListOptions {
            labels,
            fields,
            limit,
            token,
            revision,
            matching,
            timeout_seconds: timeout,
            bookmarks: query.flag("allowWatchBookmarks"),
            initial_events: query.optional_flag("sendInitialEvents"),
        })
    }
}

fn check_matching(
    query: &Query,
    version: &str,
    watch: bool,
) -> Result<ResourceVersionMatch, Failure> {
    let field = Path::Root.field("resourceVersionMatch");
    let initial = query.optional_flag("sendInitialEvents");
    let text = query.text("resourceVersionMatch");
    let mut errors = Errors::new();
    if watch {
        match (initial, text) {
            (Some(_), "NotOlderThan") | (None, "") => {}
            (Some(_), "") => errors.forbidden(
                &field,
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ),
            (Some(_), other) => {
                errors.forbidden(
                    &field,
                    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                );
                errors.not_supported(&field, other, &["NotOlderThan"]);
            }
            (None, _) => errors.forbidden(
                &field,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ),
        }
        if !text.is_empty() && query.get("continue").is_some_and(|t| !t.is_empty()) {
            errors.forbidden(&field, "resourceVersionMatch is forbidden when continue is provided");
        }
    } else {
        if !text.is_empty() {
            if version.is_empty() {
                errors.forbidden(
                    &field,
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                );
            }
            if query.get("continue").is_some_and(|t| !t.is_empty()) {
                errors.forbidden(
                    &field,
                    "resourceVersionMatch is forbidden when continue is provided",
                );
            }
            if !matches!(text, "Exact" | "NotOlderThan") {
                errors.not_supported(&field, text, &["Exact", "NotOlderThan"]);
            }
            if text == "Exact" && version == "0" {
                errors.forbidden(
                    &field,
                    "resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"",
                );
            }
        }
        if initial.is_some() {
            errors.forbidden(
                &Path::Root.field("sendInitialEvents"),
                "sendInitialEvents is forbidden for list",
            );
        }
    }
    if !errors.is_empty() {
        return Err(Failure::invalid("meta.k8s.io", "ListOptions", "", errors));
    }
    Ok(match text {
        "NotOlderThan" => ResourceVersionMatch::NotOlderThan,
        "Exact" => ResourceVersionMatch::Exact,
        _ => ResourceVersionMatch::Unset,
    })
}

/// How strictly unknown and duplicate members are taken (R32).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// Say nothing.
    Ignore,
    /// Tell with a Warning header.
    Warn,
    /// Refuse.
    Strict,
}

/// The options of create, update and patch.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// Answer as if it happened, store nothing.
    pub dry_run: bool,
    /// Who writes, if said.
    pub manager: Option<String>,
    /// What to do with unknown members.
    pub validation: FieldValidation,
    /// Take fields over from other managers (apply only).
    pub force: bool,
}

impl WriteOptions {
    /// Reads and checks the options; `kind` is `CreateOptions`, `UpdateOptions` or `PatchOptions`.
    pub fn read(query: &Query, kind: &str, apply: bool) -> Result<WriteOptions, Failure> {
        let mut errors = Errors::new();
        let force = query.optional_flag("force");
        if kind == "PatchOptions" {
            if apply && query.text("fieldManager").is_empty() {
                errors.required(&Path::Root.field("fieldManager"), "is required for apply patch");
            }
            if !apply && force.is_some() {
                errors.forbidden(
                    &Path::Root.field("force"),
                    "may not be specified for non-apply patch",
                );
            }
        }
        check_manager(query.text("fieldManager"), &mut errors);
        let dry_run = check_dry_run(query.all("dryRun"), &mut errors);
        let validation = match query.text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                errors.not_supported(
                    &Path::Root.field("fieldValidation"),
                    other,
                    &["Ignore", "Strict", "Warn"],
                );
                FieldValidation::Warn
            }
        };
        query.timeout()?;
        if !errors.is_empty() {
            return Err(Failure::invalid("meta.k8s.io", kind, "", errors));
        }
        Ok(WriteOptions {
            dry_run,
            manager: query.get("fieldManager").filter(|m| !m.is_empty()).map(str::to_owned),
            validation,
            force: force.unwrap_or(false),
        })
    }
}

/// The options of a write as policies and webhooks see them: what its client said of them.
pub(crate) fn write_options(query: &Query, kind: &str, dry_run: bool) -> Object {
    let mut object = Object::new();
    object.insert("kind".into(), kind.into());
    object.insert("apiVersion".into(), "meta.k8s.io/v1".into());
    for member in ["fieldManager", "fieldValidation"] {
        if let Some(said) = query.get(member).filter(|said| !said.is_empty()) {
            object.insert(member.into(), said.into());
        }
    }
    if dry_run {
        object.insert("dryRun".into(), serde_json::json!(["All"]));
    }
    object
}

fn check_manager(manager: &str, errors: &mut Errors) {
    let field = Path::Root.field("fieldManager");
    if manager.len() > 128 {
        errors.too_long(&field, 128);
    }
    for (at, c) in manager.char_indices() {
        if !is_printable(c) {
            errors.invalid(
                &field,
                format!("{manager:?}"),
                &format!("should only contain printable characters (at position {at})"),
            );
        }
    }
}

/// Whether a character can be seen, or is the plain space: letters, marks, numbers, punctuation, symbols.
fn is_printable(c: char) -> bool {
    // The standard library escapes just the others, of marks those that stand alone, and the quotes.
    let after_letter: String = ['a', c].iter().collect();
    matches!(c, '\\' | '\'' | '"') || after_letter.escape_debug().eq(['a', c])
}

/// `dryRun` may be given only as `All`.
pub fn check_dry_run<'a>(values: impl Iterator<Item = &'a str>, errors: &mut Errors) -> bool {
    let mut all = true;
    let mut any = false;
    for value in values {
        any = true;
        all &= value == "All";
        if value != "All" {
            errors.not_supported(&Path::Root.field("dryRun"), value, &["All"]);
        }
    }
    any && all
}
