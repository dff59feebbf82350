//! Admission policies: what one of ten expressions adds to a write.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tenure_client_tests::Server;
use tenure_client_tests::wire::{Connection, request};

use super::measure::{Measure, OBJECTS, middle};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const EXPRESSIONS: usize = 10;
const WRITES: usize = 2_000;

/// Creates that store nothing, one after the other on one connection, with a policy and without.
pub(super) async fn added() -> Result<Vec<Measure>> {
    let names = [
        "a policy of 10 expressions that refuses, added to a create",
        "a policy of 10 patches that change, added to a create",
    ];
    let server = Server::ephemeral()?;
    let mut connection = server.access()?.connect().await?;
    let plain = create(&mut connection).await?;
    let mut measures = Vec::new();
    for (name, (plural, member)) in
        names.into_iter().zip([("validating", "validations"), ("mutating", "mutations")])
    {
        let expressions: Vec<Value> = (0..EXPRESSIONS).map(|at| expression(plural, at)).collect();
        bind(&mut connection, plural, member, expressions).await?;
        let bound = create(&mut connection).await?;
        unbind(&mut connection, plural).await?;
        let added = bound.saturating_sub(plain);
        measures.push(Measure::at_most(name, 50.0, added.as_secs_f64() * 1e6, "µs"));
    }
    Ok(measures)
}

fn expression(plural: &str, at: usize) -> Value {
    match plural {
        "validating" => json!({ "expression": format!("object.data['key-{at}'] != 'forbidden'") }),
        _ => {
            let made = format!(
                "Object{{metadata: Object.metadata{{labels: {{'l{at}': object.data['key-{at}']}}}}}}"
            );
            json!({ "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": made } })
        }
    }
}

async fn bind(
    connection: &mut Connection,
    plural: &str,
    member: &str,
    expressions: Vec<Value>,
) -> Result<()> {
    let rule = json!({ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["configmaps"] });
    let constraints = json!({ "resourceRules": [rule] });
    let (spec, binding) = match plural {
        "validating" => (
            json!({ "matchConstraints": constraints, member: expressions }),
            json!({ "policyName": "p", "validationActions": ["Deny"] }),
        ),
        _ => (
            json!({ "matchConstraints": constraints, member: expressions, "reinvocationPolicy": "Never" }),
            json!({ "policyName": "p" }),
        ),
    };
    for (kind, spec) in [("policies", spec), ("policybindings", binding)] {
        let path = format!("{GROUP}/{plural}admission{kind}");
        let body = json!({ "metadata": { "name": "p" }, "spec": spec }).to_string();
        let answer = connection.send("POST", &path, Some(body.as_bytes())).await?;
        ensure!(answer.code == 201, "{}", String::from_utf8_lossy(&answer.body));
    }
    Ok(())
}

async fn unbind(connection: &mut Connection, plural: &str) -> Result<()> {
    let path = format!("{GROUP}/{plural}admissionpolicybindings/p");
    let answer = connection.send("DELETE", &path, None).await?;
    ensure!(answer.code == 200, "{}", String::from_utf8_lossy(&answer.body));
    Ok(())
}

/// What a create takes, in the middle of many.
async fn create(connection: &mut Connection) -> Result<Duration> {
    let data: serde_json::Map<String, Value> =
        (0..EXPRESSIONS).map(|at| (format!("key-{at}"), format!("value-{at}").into())).collect();
    let body = json!({ "metadata": { "name": "m" }, "data": data }).to_string();
    let path = format!("{OBJECTS}?dryRun=All");
    let message = request("POST", &path, "application/json", Some(body.as_bytes()));
    let mut times = Vec::with_capacity(WRITES);
    for _ in 0..WRITES {
        let begin = Instant::now();
        connection.write(&message).await?;
        let answer = connection.answer().await?;
        times.push(begin.elapsed());
        ensure!(answer.code == 201, "{}", String::from_utf8_lossy(&answer.body));
    }
    Ok(middle(&mut times))
}
