//! Questions about rights: `authorizer.group('').resource('pods').namespace('n').check('get').allowed()`.
//!
//! Who answers them is handed in; what the answer is never lives here.

use std::fmt;
use std::sync::Arc;

use tenure_machinery::name::{dns_label, dns_subdomain};

use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::Value;

type Made<'a> = Result<Value<'a>, EvalError>;

/// Says whether somebody may do something.
pub trait Authorize: Send + Sync {
    /// Decides about a verb.
    fn decide(&self, check: &AccessCheck, verb: &str) -> AccessDecision;
}

/// What a check is about: a path, or a resource.
#[derive(Clone, Debug, Default)]
pub struct AccessCheck {
    /// The account that is asked about, by namespace and name; `None` is whoever makes the request.
    pub account: Option<(String, String)>,
    /// A path outside the API; empty when it is about a resource.
    pub path: String,
    /// API group.
    pub group: String,
    /// Plural resource.
    pub resource: String,
    /// Such as `status`; may be empty.
    pub subresource: String,
    /// Empty for the whole cluster.
    pub namespace: String,
    /// Empty for all names.
    pub name: String,
    /// Which of them, by fields; roles do not look at it.
    pub field_selector: String,
    /// Which of them, by labels; roles do not look at it.
    pub label_selector: String,
}

/// What came of a check.
#[derive(Clone, Debug)]
pub struct AccessDecision {
    /// Whether it is allowed.
    pub allowed: bool,
    /// Why, in a few words; may be empty.
    pub reason: String,
    /// Why nobody could say; empty where somebody did.
    pub error: String,
}

/// How far a check is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthorizerStage {
    /// Who is asked.
    Authorizer,
    /// A path.
    Path,
    /// A group, of which the resource is missing.
    Group,
    /// A resource.
    Resource,
}

/// A check in the making, and who answers it.
#[derive(Clone)]
pub struct AccessCheckBuilder<'a> {
    authorizer: &'a dyn Authorize,
    check: Arc<AccessCheck>,
    pub(crate) stage: AuthorizerStage,
}

impl fmt::Debug for AccessCheckBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Access({:?}, {:?})", self.stage, self.check)
    }
}

impl<'a> AccessCheckBuilder<'a> {
    /// Nothing is asked yet.
    #[must_use]
    pub fn new(authorizer: &'a dyn Authorize) -> AccessCheckBuilder<'a> {
        AccessCheckBuilder { authorizer, check: Arc::default(), stage: AuthorizerStage::Authorizer }
    }

    /// A check of a resource, of which only the verb is missing.
    #[must_use]
    pub fn of(authorizer: &'a dyn Authorize, check: &Arc<AccessCheck>) -> AccessCheckBuilder<'a> {
        AccessCheckBuilder {
            authorizer,
            check: Arc::clone(check),
            stage: AuthorizerStage::Resource,
        }
    }

    /// The name of its type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self.stage {
            AuthorizerStage::Authorizer => "kubernetes.authorization.Authorizer",
            AuthorizerStage::Path => "kubernetes.authorization.PathCheck",
            AuthorizerStage::Group => "kubernetes.authorization.GroupCheck",
            AuthorizerStage::Resource => "kubernetes.authorization.ResourceCheck",
        }
    }

    /// The same, with more said.
    fn with(&self, stage: AuthorizerStage, say: impl FnOnce(&mut AccessCheck)) -> Value<'a> {
        let mut check = AccessCheck::clone(&self.check);
        say(&mut check);
        Value::Access(AccessCheckBuilder {
            check: Arc::new(check),
            stage,
            authorizer: self.authorizer,
        })
    }
}

/// A check at some stage, and the text that is said about it.
fn said<'a, 'v>(
    meter: &mut Meter,
    args: &'v [Value<'a>],
    wanted: AuthorizerStage,
) -> Result<(&'v AccessCheckBuilder<'a>, &'v str), EvalError> {
    match args {
        [Value::Access(access), Value::String(text)] if access.stage == wanted => {
            meter.work_len(text.len())?;
            Ok((access, text))
        }
        _ => Err(EvalError::no_such_overload()),
    }
}

fn not_blank(text: &str, what: &str) -> Result<(), EvalError> {
    if text.trim().is_empty() {
        return Err(EvalError::failed(format!("{what} must not be empty")));
    }
    Ok(())
}

pub(crate) fn path<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let (access, text) = said(meter, args, AuthorizerStage::Authorizer)?;
    not_blank(text, "path")?;
    Ok(access.with(AuthorizerStage::Path, |check| text.clone_into(&mut check.path)))
}

pub(crate) fn group<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let (access, text) = said(meter, args, AuthorizerStage::Authorizer)?;
    Ok(access.with(AuthorizerStage::Group, |check| text.clone_into(&mut check.group)))
}

pub(crate) fn service_account<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let [Value::Access(access), Value::String(namespace), Value::String(name)] = args else {
        return Err(EvalError::no_such_overload());
    };
    if access.stage != AuthorizerStage::Authorizer {
        return Err(EvalError::no_such_overload());
    }
    if dns_subdomain(name).is_some() {
        return Err(EvalError::failed("Invalid service account name"));
    }
    if dns_label(namespace).is_some() {
        return Err(EvalError::failed("Invalid service account namespace"));
    }
    let account = Some((namespace.to_string(), name.to_string()));
    Ok(access.with(AuthorizerStage::Authorizer, |check| check.account = account))
}

pub(crate) fn resource<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let (access, text) = said(meter, args, AuthorizerStage::Group)?;
    not_blank(text, "resource")?;
    Ok(access.with(AuthorizerStage::Resource, |check| text.clone_into(&mut check.resource)))
}

pub(crate) fn subresource<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let (access, text) = said(meter, args, AuthorizerStage::Resource)?;
    Ok(access.with(AuthorizerStage::Resource, |check| text.clone_into(&mut check.subresource)))
}

pub(crate) fn namespace<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let (access, text) = said(meter, args, AuthorizerStage::Resource)?;
    Ok(access.with(AuthorizerStage::Resource, |check| text.clone_into(&mut check.namespace)))
}

pub(crate) fn name<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let (access, text) = said(meter, args, AuthorizerStage::Resource)?;
    Ok(access.with(AuthorizerStage::Resource, |check| text.clone_into(&mut check.name)))
}

pub(crate) fn field_selector<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let (access, text) = said(meter, args, AuthorizerStage::Resource)?;
    Ok(access.with(AuthorizerStage::Resource, |check| text.clone_into(&mut check.field_selector)))
}

pub(crate) fn label_selector<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let (access, text) = said(meter, args, AuthorizerStage::Resource)?;
    Ok(access.with(AuthorizerStage::Resource, |check| text.clone_into(&mut check.label_selector)))
}

pub(crate) fn check<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let [Value::Access(access), Value::String(verb)] = args else {
        return Err(EvalError::no_such_overload());
    };
    if !matches!(access.stage, AuthorizerStage::Path | AuthorizerStage::Resource) {
        return Err(EvalError::no_such_overload());
    }
    meter.check_access()?;
    Ok(Value::Decision(Arc::new(access.authorizer.decide(&access.check, verb))))
}

fn decision<'v>(args: &'v [Value<'_>]) -> Result<&'v AccessDecision, EvalError> {
    match args {
        [Value::Decision(decision)] => Ok(decision),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn allowed<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    Ok(Value::Bool(decision(args)?.allowed))
}

pub(crate) fn reason<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    Ok(Value::text(decision(args)?.reason.as_str()))
}

/// Whether somebody who should decide could not.
pub(crate) fn errored<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    Ok(Value::Bool(!decision(args)?.error.is_empty()))
}

pub(crate) fn error<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    Ok(Value::text(decision(args)?.error.as_str()))
}
