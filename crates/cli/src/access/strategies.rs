//! `tenure access strategies`: the bundled strategies named, printed, applied.

use std::collections::BTreeSet;
use std::process::ExitCode;

use serde_json::Value;
use tenure_references::live::served;
use tenure_references::strategies::{BUNDLES, Bundle, UNPARTITIONED, bundle};
use tenure_references::{GROUP, Resource, ServedType, Strategy};

use crate::flags::{Strategies, StrategiesInstall};
use crate::inspect::{block_on, connect};
use crate::report::CommandError;
use crate::say;

pub(super) fn run(command: &Strategies) -> Result<ExitCode, CommandError> {
    match command {
        Strategies::List => say(list()?.as_bytes()),
        Strategies::Print(flags) => {
            let texts: Vec<&str> = chosen(&flags.bundles)?.iter().map(|one| one.text).collect();
            say(texts.join("---\n").as_bytes());
        }
        Strategies::Install(flags) => return install(flags),
    }
    Ok(ExitCode::SUCCESS)
}

/// The bundles of these names; all without any.
fn chosen(names: &[String]) -> Result<Vec<&'static Bundle>, CommandError> {
    if names.is_empty() {
        return Ok(BUNDLES.iter().collect());
    }
    let find = |name: &String| {
        bundle(name).ok_or_else(|| {
            let known: Vec<&str> = BUNDLES.iter().map(|bundle| bundle.name).collect();
            CommandError::new(format!("there is no bundle `{name}`"))
                .hint(format!("there are: {}", known.join(", ")))
        })
    };
    names.iter().map(find).collect()
}

/// A bundled strategy as an object, and as the engine reads it.
fn read(document: &str) -> Result<(Value, Strategy), CommandError> {
    let value = tenure_yaml::to_json(document.as_bytes(), tenure_yaml::YamlLimits::default());
    let value =
        value.map_err(|error| CommandError::new("a bundled strategy is broken").cause(&error))?;
    let strategy = match value.as_object() {
        Some(object) => Strategy::from_object(object),
        None => return Err(CommandError::new("a bundled strategy is broken")),
    };
    let strategy = strategy
        .map_err(|error| CommandError::new("a bundled strategy is broken").cause(&error))?;
    Ok((value, strategy))
}

/// Every bundled strategy, as the engine reads it.
pub(crate) fn bundled() -> Result<Vec<Strategy>, CommandError> {
    Ok(bundled_objects()?.into_iter().map(|(strategy, _)| strategy).collect())
}

/// The types of objects that the strategies of these bundles look into, by group and plural; of all without any.
pub(crate) fn bundled_origins(
    bundles: &[String],
) -> Result<BTreeSet<(String, String)>, CommandError> {
    let documents = chosen(bundles)?.into_iter().flat_map(Bundle::documents);
    let origin = |document| {
        let Resource { group, resource } = read(document)?.1.origin;
        Ok((group, resource))
    };
    documents.map(origin).collect()
}

/// Every bundled strategy, as the engine reads it and as an object.
pub(crate) fn bundled_objects() -> Result<Vec<(Strategy, Value)>, CommandError> {
    let documents = BUNDLES.iter().flat_map(Bundle::documents);
    documents.map(|document| read(document).map(|(object, strategy)| (strategy, object))).collect()
}

fn list() -> Result<String, CommandError> {
    let mut text = String::new();
    for bundle in BUNDLES {
        text += &format!("{}: {}\n", bundle.name, bundle.about);
        for document in bundle.documents() {
            let (value, strategy) = read(document)?;
            let mut targets: Vec<String> = strategy
                .versions
                .iter()
                .flat_map(|version| &version.references)
                .map(|path| format!("{} for {}", path.target, path.purpose))
                .collect();
            targets.sort();
            targets.dedup();
            let marked =
                if is_unpartitioned(&value) { " (with --allow-unpartitioned)" } else { "" };
            text += &format!("  {}{marked}: {}\n", strategy.origin, targets.join(", "));
        }
    }
    Ok(text)
}

fn is_unpartitioned(strategy: &Value) -> bool {
    let annotations = strategy.pointer("/metadata/annotations");
    annotations.and_then(|all| all.get(UNPARTITIONED)).and_then(Value::as_str) == Some("true")
}

fn install(flags: &StrategiesInstall) -> Result<ExitCode, CommandError> {
    let bundles = chosen(&flags.bundles)?;
    block_on(async {
        let reader = connect(&flags.cluster, None).await?;
        let client = reader.client();
        let types = served(client).await.map_err(|error| reader.failed(error))?;
        if !serves(&types, &Resource::new(GROUP, "referencestrategies"), &[]) {
            return Err(CommandError::new(format!("the cluster does not serve {GROUP}"))
                .hint("a server of `tenure up` does"));
        }
        let mut installed = 0;
        for document in bundles.into_iter().flat_map(Bundle::documents) {
            let (object, strategy) = read(document)?;
            let versions: Vec<&str> =
                strategy.versions.iter().map(|version| version.version.as_str()).collect();
            let said = if !serves(&types, &strategy.origin, &versions) {
                "left out, its API is not served".to_owned()
            } else if is_unpartitioned(&object) && !flags.allow_unpartitioned {
                "left out, its consumers would read Secrets of every class; see --allow-unpartitioned"
                    .to_owned()
            } else {
                apply(client, &object, &strategy.name).await?;
                installed += 1;
                "installed".to_owned()
            };
            say(format!("{}: {said}\n", strategy.name).as_bytes());
        }
        if installed == 0 {
            say(b"nothing was installed\n");
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Whether a type is served, in one of the versions if any are named.
fn serves(types: &[ServedType], resource: &Resource, versions: &[&str]) -> bool {
    let row = types.iter().find(|row| row.resource == *resource);
    row.is_some_and(|row| {
        versions.is_empty() || row.versions.iter().any(|found| versions.contains(&found.as_str()))
    })
}

async fn apply(client: &kube::Client, object: &Value, name: &str) -> Result<(), CommandError> {
    let path = format!(
        "/apis/{GROUP}/v1alpha1/referencestrategies/{name}?fieldManager=tenure-strategies&force=true"
    );
    let failed = |error: &dyn std::fmt::Display| {
        CommandError::new(format!("the strategy `{name}` could not be applied")).cause(error)
    };
    let request = http::Request::patch(path)
        .header(http::header::CONTENT_TYPE, "application/apply-patch+yaml")
        .body(object.to_string().into_bytes())
        .map_err(|error| failed(&error))?;
    match client.request_text(request).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err(failed(&status.message)),
        Err(error) => Err(failed(&error)),
    }
}
