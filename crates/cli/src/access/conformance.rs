//! `tenure access conformance`: the vectors of the library, asked of a cluster.

use std::collections::BTreeSet;
use std::process::ExitCode;

use tenure_references::conformance::cluster::{ConformanceCluster, ConformanceTiming};
use tenure_references::conformance::{Base, GATED_VECTORS, VECTORS, Vector};

use crate::flags::Conformance;
use crate::inspect::{block_on, connect};
use crate::report::CommandError;
use crate::say;

pub(super) fn run(flags: &Conformance) -> Result<ExitCode, CommandError> {
    let vectors = chosen(flags)?;
    block_on(async {
        let reader = connect(&flags.cluster, None).await?;
        let refused = |error| CommandError::from(reader.failed(error));
        let base = Base::read().map_err(broken)?;
        let (namespace, name) = &flags.consumer;
        let client = reader.client().clone();
        let cluster = ConformanceCluster::prepare(
            client,
            base,
            (namespace, name),
            ConformanceTiming::default(),
        )
        .await;
        let cluster = cluster.map_err(refused)?;
        let (mut passed, mut failed) = (0, 0);
        for vector in &vectors {
            let name = &vector.name;
            let outcome = match cluster.run(vector).await {
                Ok(outcome) => outcome,
                // A cluster that refuses an object of a case fails the case, not the run.
                Err(kube::Error::Api(status)) => vec![status.message.clone()],
                Err(error) => return Err(refused(error)),
            };
            if outcome.is_empty() {
                passed += 1;
                say(format!("pass {name}\n").as_bytes());
            } else {
                failed += 1;
                say(format!("FAIL {name}: {}\n", vector.about).as_bytes());
                outcome.iter().for_each(|why| say(format!("  {why}\n").as_bytes()));
            }
        }
        cluster.clean().await.map_err(refused)?;
        say(format!("{passed} passed, {failed} failed\n").as_bytes());
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// The cases that were asked for, by name or by gate.
fn chosen(flags: &Conformance) -> Result<Vec<Vector>, CommandError> {
    let read = |(_, text): &(&str, &str)| Vector::read(text).map_err(broken);
    let all: Vec<Vector> =
        VECTORS.iter().chain(GATED_VECTORS).map(read).collect::<Result<_, _>>()?;
    let gates: BTreeSet<&str> =
        all.iter().flat_map(|vector| &vector.gates).map(String::as_str).collect();
    for gate in &flags.gates {
        if !gates.contains(gate.as_str()) {
            let gates: Vec<&str> = gates.into_iter().collect();
            return Err(CommandError::new(format!("no case needs a gate `{gate}`"))
                .hint(format!("cases need: {}", gates.join(", "))));
        }
    }
    for name in &flags.only {
        let Some(vector) = all.iter().find(|vector| vector.name == *name) else {
            let names: Vec<&str> = all.iter().map(|vector| vector.name.as_str()).collect();
            return Err(CommandError::new(format!("there is no case `{name}`"))
                .hint(format!("there are: {}", names.join(", "))));
        };
        if let Some(gate) = vector.gates.iter().find(|gate| !flags.gates.contains(gate)) {
            return Err(CommandError::new(format!("`{name}` needs the gate {gate}"))
                .hint(format!("if the cluster has it: --gates {}", vector.gates.join(","))));
        }
    }
    let is_asked_for = |vector: &Vector| flags.only.is_empty() || flags.only.contains(&vector.name);
    let is_on = |vector: &Vector| vector.gates.iter().all(|gate| flags.gates.contains(gate));
    Ok(all.into_iter().filter(|vector| is_asked_for(vector) && is_on(vector)).collect())
}

fn broken(error: serde_json::Error) -> CommandError {
    CommandError::new("a case is broken").cause(&error)
}
