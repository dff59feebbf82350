//! `tenure access conformance`: the vectors of the library, asked of a cluster.

use std::process::ExitCode;

use tenure_references::conformance::cluster::{Cluster, Pace};
use tenure_references::conformance::{Base, VECTORS, Vector};

use crate::flags::Conformance;
use crate::inspect::{block_on, connect};
use crate::report::Problem;
use crate::say;

pub(super) fn run(flags: &Conformance) -> Result<ExitCode, Problem> {
    let known = |name: &String| VECTORS.iter().any(|(vector, _)| vector == name);
    if let Some(unknown) = flags.only.iter().find(|name| !known(name)) {
        let names: Vec<&str> = VECTORS.iter().map(|(name, _)| *name).collect();
        return Err(Problem::new(format!("there is no case `{unknown}`"))
            .hint(format!("there are: {}", names.join(", "))));
    }
    block_on(async {
        let reader = connect(&flags.cluster, None).await?;
        let refused = |error| Problem::from(reader.failed(error));
        let base = Base::read().map_err(broken)?;
        let (namespace, name) = &flags.consumer;
        let client = reader.client().clone();
        let cluster = Cluster::prepare(client, base, (namespace, name), Pace::default()).await;
        let cluster = cluster.map_err(refused)?;
        let (mut passed, mut failed) = (0, 0);
        for (name, text) in VECTORS {
            if !flags.only.is_empty() && !flags.only.iter().any(|only| only == name) {
                continue;
            }
            let vector = Vector::read(text).map_err(broken)?;
            let outcome = match cluster.run(&vector).await {
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

fn broken(error: serde_json::Error) -> Problem {
    Problem::new("a case is broken").cause(&error)
}
