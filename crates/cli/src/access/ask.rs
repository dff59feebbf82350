//! `tenure access can`, `explain` and `who-can`: the words are made a question, the server is asked, and the
//! answer printed. Nothing is decided here.

use std::process::ExitCode;

use serde_json::{Value, json};
use tenure_inspect::access::{Object, Question, Review, Rights, identity};
use tenure_inspect::render::{self, access};
use tenure_inspect::{Reader, Served};
use tenure_references::{Identity, Resource};

use crate::flags::{Ask, Can, Explain, Form, WhoCan};
use crate::inspect::{block_on, called, connect, paint};
use crate::report::Problem;
use crate::say;

/// The answer is no.
const NO: u8 = 1;

pub(super) fn can(flags: &Can, program: &str) -> Result<ExitCode, Problem> {
    block_on(async {
        let reader = connect(&flags.ask.cluster, flags.ask.namespace.clone()).await?;
        let who = somebody(&reader, flags.who.user.as_deref(), &flags.who.groups).await?;
        let question = question(&reader, &flags.ask, who, program).await?;
        let server = review(&reader, &question).await?;
        let code = if server.allowed { ExitCode::SUCCESS } else { ExitCode::from(NO) };
        if flags.quiet {
            return Ok(code);
        }
        let rights = Rights::read(&reader, &[], tenure_host::expressions()).await?;
        let answer = rights.answer(&question, server);
        let text = match flags.output {
            Form::Text => access::can(&answer, paint(flags.ask.cluster.color)),
            Form::Json => render::json(&answer),
        };
        say(text.as_bytes());
        Ok(code)
    })
}

pub(super) fn explain(flags: &Explain, program: &str) -> Result<ExitCode, Problem> {
    block_on(async {
        let reader = connect(&flags.ask.cluster, flags.ask.namespace.clone()).await?;
        let who = somebody(&reader, flags.who.user.as_deref(), &flags.who.groups).await?;
        let question = question(&reader, &flags.ask, who, program).await?;
        let server = review(&reader, &question).await?;
        let rights = Rights::read(&reader, &[], tenure_host::expressions()).await?;
        let answer = rights.answer(&question, server);
        let text = match flags.output {
            Form::Text => access::explain(&answer, paint(flags.ask.cluster.color)),
            Form::Json => render::json(&answer.told()),
        };
        say(text.as_bytes());
        Ok(if answer.reference.allowed { ExitCode::SUCCESS } else { ExitCode::from(NO) })
    })
}

pub(super) fn who_can(flags: &WhoCan, program: &str) -> Result<ExitCode, Problem> {
    block_on(async {
        let reader = connect(&flags.ask.cluster, flags.ask.namespace.clone()).await?;
        let nobody = identity("", &[]);
        let question = question(&reader, &flags.ask, nobody, program).await?;
        let rights = Rights::read(&reader, &[], tenure_host::expressions()).await?;
        let readers = rights.who_can(&question);
        let text = match flags.output {
            Form::Text => access::who_can(&readers, paint(flags.ask.cluster.color)),
            Form::Json => render::json(&readers),
        };
        say(text.as_bytes());
        Ok(ExitCode::SUCCESS)
    })
}

/// Who is meant: the user named, or whoever asks.
async fn somebody(
    reader: &Reader,
    user: Option<&str>,
    groups: &[String],
) -> Result<Identity, Problem> {
    match user {
        Some("") => Err(Problem::new("`--as` names nobody").hint("write a user name")),
        Some(user) => Ok(identity(user, groups)),
        None => {
            let me = json!({
                "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview",
            });
            let said = post(reader, "/apis/authentication.k8s.io/v1/selfsubjectreviews", &me)
                .await
                .map_err(|problem| problem.hint("say who with --as"))?;
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
    reader: &Reader,
    ask: &Ask,
    who: Identity,
    program: &str,
) -> Result<Question, Problem> {
    let (kind, name) = match ask.object.as_slice() {
        [one] => one.split_once('/').unwrap_or((one, "")),
        [kind, name] => (kind.as_str(), name.as_str()),
        _ => ("", ""),
    };
    let wants_name = ask.object.len() == 2 || ask.object.iter().any(|word| word.contains('/'));
    if kind.is_empty() || name.contains('/') || (wants_name && name.is_empty()) {
        return Err(Problem::new(format!("`{}` names no object", ask.object.join(" ")))
            .hint(format!("write a kind and a name: `{program} access can get secret/web-tls`")));
    }
    let lower = |letter: char| letter.is_ascii_lowercase() || letter == '*' || letter == '-';
    if ask.verb.is_empty() || !ask.verb.chars().all(lower) {
        return Err(Problem::new(format!("`{}` is no verb", ask.verb))
            .hint("write one in lower case, such as `get`, `list` or `watch`"));
    }
    let kinds = reader.kinds().await?;
    let served: &Served = called(&kinds, kind)?;
    let namespace = match (served.namespaced, ask.all_namespaces) {
        (true, false) => reader.namespace(),
        _ => "",
    };
    let resource = Resource::new(&served.group, &served.plural);
    Ok(Question {
        who,
        verb: ask.verb.clone(),
        object: Object::new(&resource, namespace, name),
        subresource: ask.subresource.clone(),
    })
}

/// What the server says.
async fn review(reader: &Reader, question: &Question) -> Result<Review, Problem> {
    let Object { group, resource, namespace, name } = &question.object;
    let asked = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": question.who.user,
            "groups": question.who.groups,
            "resourceAttributes": {
                "verb": question.verb, "group": group, "resource": resource,
                "subresource": question.subresource, "namespace": namespace, "name": name,
            },
        },
    });
    let said = post(reader, "/apis/authorization.k8s.io/v1/subjectaccessreviews", &asked).await?;
    let status = said.get("status").cloned().unwrap_or_default();
    Ok(Review {
        allowed: status.get("allowed").and_then(Value::as_bool).unwrap_or_default(),
        reason: status.get("reason").and_then(Value::as_str).unwrap_or_default().to_owned(),
    })
}

async fn post(reader: &Reader, path: &str, body: &Value) -> Result<Value, Problem> {
    let failed = |error: &dyn std::fmt::Display| {
        Problem::new("the cluster does not answer the question").cause(error)
    };
    let request = http::Request::post(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body.to_string().into_bytes())
        .map_err(|error| failed(&error))?;
    match reader.client().request::<Value>(request).await {
        Ok(said) => Ok(said),
        Err(kube::Error::Api(status)) => Err(failed(&status.message)),
        Err(error) => Err(failed(&error)),
    }
}
