//! `tenure access can`, `explain` and `who-can`: the words are made a question, the server is asked, and the
//! answer printed. Nothing is decided here.

use std::process::ExitCode;

use serde_json::{Value, json};
use tenure_inspect::access::{AccessRequest, ClusterAccess, Review, identity};
use tenure_inspect::render::{self, access};
use tenure_inspect::{ClusterReader, DiscoveredResource};
use tenure_references::live::ProposedObjects;
use tenure_references::{Identity, Obj, ObjectName, Resource};

use super::map::ended;
use crate::flags::{AccessArguments, Can, Explain, OutputFormat, WhoCan};
use crate::inspect::{block_on, called, connect, paint};
use crate::migrate;
use crate::report::CommandError;
use crate::say;

/// The answer is no.
const NO: u8 = 1;

pub(super) fn can(flags: &Can, program: &str) -> Result<ExitCode, CommandError> {
    block_on(async {
        let reader = connect(&flags.reply.cluster, flags.ask.namespace.clone()).await?;
        let who = somebody(&reader, flags.who.user.as_deref(), &flags.who.groups).await?;
        let question = question(&reader, &flags.ask, who, program).await?;
        let server = review(&reader, &question, flags.who.user.is_none()).await?;
        let code = if server.allowed { ExitCode::SUCCESS } else { ExitCode::from(NO) };
        if flags.quiet {
            return Ok(code);
        }
        let rights =
            ClusterAccess::read(&reader, &ProposedObjects::default(), tenure_host::expressions())
                .await?;
        let answer = rights.answer(&question, server);
        let text = match flags.reply.output {
            OutputFormat::Text => access::can(&answer, paint(flags.reply.cluster.color)),
            OutputFormat::Json => render::json(&answer),
        };
        say(text.as_bytes());
        Ok(code)
    })
}

pub(super) fn explain(flags: &Explain, program: &str) -> Result<ExitCode, CommandError> {
    block_on(async {
        let reader = connect(&flags.reply.cluster, flags.ask.namespace.clone()).await?;
        let who = somebody(&reader, flags.who.user.as_deref(), &flags.who.groups).await?;
        let question = question(&reader, &flags.ask, who, program).await?;
        let server = review(&reader, &question, flags.who.user.is_none()).await?;
        let rights =
            ClusterAccess::read(&reader, &ProposedObjects::default(), tenure_host::expressions())
                .await?;
        let answer = rights.answer(&question, server);
        let text = match flags.reply.output {
            OutputFormat::Text => access::explain(&answer, paint(flags.reply.cluster.color)),
            OutputFormat::Json => render::json(&answer.report()),
        };
        say(text.as_bytes());
        Ok(match (answer.reference.allowed, answer.is_reference_known()) {
            (true, _) => ExitCode::SUCCESS,
            (false, true) => ExitCode::from(NO),
            (false, false) => ExitCode::from(migrate::COULD_NOT_READ),
        })
    })
}

pub(super) fn who_can(flags: &WhoCan, program: &str) -> Result<ExitCode, CommandError> {
    block_on(async {
        let reader = connect(&flags.reply.cluster, flags.ask.namespace.clone()).await?;
        let nobody = identity("", &[]);
        let question = question(&reader, &flags.ask, nobody, program).await?;
        let rights =
            ClusterAccess::read(&reader, &ProposedObjects::default(), tenure_host::expressions())
                .await?;
        let readers = rights.who_can(&question);
        let text = match flags.reply.output {
            OutputFormat::Text => access::who_can(&readers, paint(flags.reply.cluster.color)),
            OutputFormat::Json => render::json(&readers),
        };
        say(text.as_bytes());
        Ok(ended(false, NO, &readers.unread))
    })
}

/// Who is meant: the user named, or whoever asks.
async fn somebody(
    reader: &ClusterReader,
    user: Option<&str>,
    groups: &[String],
) -> Result<Identity, CommandError> {
    match user {
        Some("") => Err(CommandError::new("`--as` names nobody").hint("write a user name")),
        Some(user) => Ok(identity(user, groups)),
        None => {
            let me = json!({
                "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview",
            });
            let said =
                post(reader, "/apis/authentication.k8s.io/v1/selfsubjectreviews", &me).await?;
            let info = said.pointer("/status/userInfo").cloned().unwrap_or_default();
            let user = info.get("username").and_then(Value::as_str).unwrap_or_default();
            let groups = info.get("groups").and_then(Value::as_array);
            let groups = groups.into_iter().flatten().filter_map(Value::as_str);
            Ok(Identity { user: user.to_owned(), groups: groups.map(str::to_owned).collect() })
        }
    }
}

/// The question that the words make.
async fn question(
    reader: &ClusterReader,
    ask: &AccessArguments,
    who: Identity,
    program: &str,
) -> Result<AccessRequest, CommandError> {
    let (kind, name) = match ask.object.as_slice() {
        [one] => one.split_once('/').unwrap_or((one, "")),
        [kind, name] => (kind.as_str(), name.as_str()),
        _ => ("", ""),
    };
    let wants_name = ask.object.len() == 2 || ask.object.iter().any(|word| word.contains('/'));
    if kind.is_empty() || name.contains('/') || (wants_name && name.is_empty()) {
        return Err(CommandError::new(format!("`{}` names no object", ask.object.join(" ")))
            .hint(format!("write a kind and a name: `{program} access can get secret/web-tls`")));
    }
    let lower = |letter: char| letter.is_ascii_lowercase() || letter == '*' || letter == '-';
    if ask.verb.is_empty() || !ask.verb.chars().all(lower) {
        return Err(CommandError::new(format!("`{}` is no verb", ask.verb))
            .hint("write one in lower case, such as `get`, `list` or `watch`"));
    }
    let kinds = reader.kinds().await?;
    let served: &DiscoveredResource = called(&kinds, kind)?;
    let namespace = match (served.namespaced, ask.all_namespaces) {
        (true, false) => reader.namespace(),
        _ => "",
    };
    let resource = Resource::new(&served.group, &served.plural);
    Ok(AccessRequest {
        who,
        verb: ask.verb.clone(),
        object: ObjectName::new(&resource, namespace, name),
        subresource: ask.subresource.clone(),
    })
}

/// What the server says. About oneself everybody may ask, about others only who may.
async fn review(
    reader: &ClusterReader,
    question: &AccessRequest,
    about_me: bool,
) -> Result<Review, CommandError> {
    let Obj { group, resource, namespace, name } = question.object.as_obj();
    let attributes = json!({
        "verb": question.verb, "group": group, "resource": resource,
        "subresource": question.subresource, "namespace": namespace, "name": name,
    });
    let Identity { user, groups } = &question.who;
    let (kind, spec) = match about_me {
        true => ("SelfSubjectAccessReview", json!({ "resourceAttributes": attributes })),
        false => (
            "SubjectAccessReview",
            json!({ "user": user, "groups": groups, "resourceAttributes": attributes }),
        ),
    };
    let asked = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec });
    let path = format!("/apis/authorization.k8s.io/v1/{}s", kind.to_lowercase());
    let said = post(reader, &path, &asked).await?;
    let status = said.get("status").cloned().unwrap_or_default();
    Ok(Review {
        allowed: status.get("allowed").and_then(Value::as_bool).unwrap_or_default(),
        reason: status.get("reason").and_then(Value::as_str).unwrap_or_default().to_owned(),
    })
}

async fn post(reader: &ClusterReader, path: &str, body: &Value) -> Result<Value, CommandError> {
    let request = http::Request::post(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body.to_string().into_bytes())
        .map_err(kube::Error::HttpError);
    let said = match request {
        Ok(request) => reader.client().request::<Value>(request).await,
        Err(error) => Err(error),
    };
    Ok(said.map_err(|error| reader.failed(error))?)
}
