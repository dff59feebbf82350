//! `tenure attach`, `install` and `uninstall`: brings a feature to a cluster that is already there, and takes it
//! away. What is printed, written and removed is decided elsewhere.

use std::net::SocketAddr;
use std::process::ExitCode;

use tenure_attach::install::{
    self, AccessInstall, AccessMode, AuthorizationFile, DownwardWebhook, InstallError,
    ReportInstall,
};
use tenure_attach::uninstall::{
    InstalledObject, UninstallError, installed, templates_in_use, uninstall as remove_all,
};
use tenure_attach::{
    AccessAttachment, AccessSettings, ApiError, AttachFeature, AuthorizerAttachment,
    DownwardAttachment, ReportAttachment, ReportSettings, ServerVersion, WebhookFiles,
    WebhookSettings, server_version,
};

use crate::access::bundled_origins;
use crate::flags::{
    AccessModeFlag, AttachFeatureFlag, AttachFlags, InstallAccess, InstallCommand, InstallDownward,
    UninstallAccess, UninstallCommand, UninstallFlags, UninstallReport, Where,
};
use crate::inspect::{block_on, connect};
use crate::node::machine_name;
use crate::report::CommandError;
use crate::up::{Signals, run_to_end};
use crate::{environment, logging, say};

pub(crate) fn run(flags: AttachFlags, verbose: u8) -> Result<(), CommandError> {
    logging::start(flags.log_format, verbose)?;
    run_to_end(Box::pin(attach(flags)))?
}

async fn attach(flags: AttachFlags) -> Result<(), CommandError> {
    let mut signals = Signals::new()?;
    let (first, others) = flags
        .features
        .split_first()
        .map_or((None, &[][..]), |(first, others)| (Some(*first), others));
    if others.iter().any(|other| Some(*other) != first) {
        return Err(CommandError::new(
            "one process does one thing, so that each has rights of its own",
        )
        .usage()
        .hint("start another for the other feature"));
    }
    if first == Some(AttachFeatureFlag::Downward) {
        return rewrite(&flags, &mut signals).await;
    }
    let reader = connect(&flags.cluster, None).await?;
    let client = reader.client().clone();
    if first == Some(AttachFeatureFlag::OwnershipReport) {
        return report(client, flags, &mut signals).await;
    }
    match flags.mode {
        AccessModeFlag::Synthesis => synthesize(client, flags, &mut signals).await,
        AccessModeFlag::Webhook => authorize(client, &flags, &mut signals).await,
    }
}

/// Writes Roles until it is stopped.
async fn synthesize(
    client: kube::Client,
    flags: AttachFlags,
    signals: &mut Signals,
) -> Result<(), CommandError> {
    let identity = identity(flags.identity)?;
    let listen = flags.listen;
    let settings = AccessSettings { identity, listen };
    let started = AccessAttachment::start(client, &settings).await;
    let mut running = started.map_err(|error| not_served(listen, &error))?;
    say_attached(running.address());
    tokio::select! {
        () = signals.next() => running.leave().await,
        () = running.ended() => {
            return Err(CommandError::new("a part of it ended; Roles stay as they are"));
        }
    }
    Ok(())
}

/// Reports about owners until it is stopped.
async fn report(
    client: kube::Client,
    flags: AttachFlags,
    signals: &mut Signals,
) -> Result<(), CommandError> {
    let identity = identity(flags.identity)?;
    let settings = ReportSettings { identity, listen: flags.listen, every: None };
    let started = ReportAttachment::start(client, &settings).await;
    let mut running = started.map_err(|error| not_served(flags.listen, &error))?;
    say_attached(running.address());
    tokio::select! {
        () = signals.next() => running.leave().await,
        () = running.ended() => return Err(CommandError::new("a part of it ended")),
    }
    Ok(())
}

/// Answers API servers about access until it is stopped.
async fn authorize(
    client: kube::Client,
    flags: &AttachFlags,
    signals: &mut Signals,
) -> Result<(), CommandError> {
    if flags.client_ca_file.is_none() {
        return Err(CommandError::new("an authorizer has to know whom it answers")
            .usage()
            .hint("name --client-ca-file"));
    }
    let settings = webhook_settings(flags)?;
    let started = AuthorizerAttachment::start(client, &settings).await;
    let mut running = started.map_err(|error| with_causes(&error))?;
    say(format!("attached at https://{}/authorize\n", running.address()).as_bytes());
    tokio::select! {
        () = signals.next() => Ok(()),
        () = running.ended() => Err(CommandError::new("a part of it ended")),
    }
}

/// Answers API servers about pods until it is stopped.
async fn rewrite(flags: &AttachFlags, signals: &mut Signals) -> Result<(), CommandError> {
    let started = DownwardAttachment::start(&webhook_settings(flags)?).await;
    let mut running = started.map_err(|error| with_causes(&error))?;
    say(format!("attached at https://{}/downward\n", running.address()).as_bytes());
    tokio::select! {
        () = signals.next() => Ok(()),
        () = running.ended() => Err(CommandError::new("a part of it ended")),
    }
}

fn webhook_settings(flags: &AttachFlags) -> Result<WebhookSettings, CommandError> {
    let (Some(certificate), Some(key)) =
        (flags.tls_cert_file.clone(), flags.tls_private_key_file.clone())
    else {
        return Err(CommandError::new("a webhook needs a certificate")
            .usage()
            .hint("name --tls-cert-file and --tls-private-key-file"));
    };
    let files = WebhookFiles { certificate, key, clients: flags.client_ca_file.clone() };
    Ok(WebhookSettings { serve: flags.webhook_listen, files, listen: flags.listen })
}

fn with_causes(error: &dyn std::error::Error) -> CommandError {
    let mut problem = CommandError::new(error.to_string());
    let mut next = error.source();
    while let Some(cause) = next {
        problem = problem.cause(&cause.to_string());
        next = cause.source();
    }
    problem
}

/// What distinguishes this replica: what was said, else the pod, else the machine and the process.
fn identity(said: Option<String>) -> Result<String, CommandError> {
    if let Some(said) = said {
        return Ok(said);
    }
    let pod = environment::variable("POD_NAME").and_then(|name| name.into_string().ok());
    match pod.filter(|name| !name.is_empty()) {
        Some(pod) => Ok(pod),
        None => {
            let machine = machine_name("name this replica with `--identity NAME`")?;
            Ok(format!("{machine}-{}", std::process::id()))
        }
    }
}

fn not_served(place: Option<SocketAddr>, error: &dyn std::fmt::Display) -> CommandError {
    let place = place.map(|address| address.to_string()).unwrap_or_default();
    CommandError::new(format!("nothing can be served at `{place}`")).cause(error)
}

fn say_attached(address: Option<SocketAddr>) {
    let address = address.map(|address| format!(" at {address}")).unwrap_or_default();
    say(format!("attached{address}\n").as_bytes());
}

pub(crate) fn install(command: &InstallCommand) -> Result<(), CommandError> {
    let version = |wanted: Option<ServerVersion>, cluster| match wanted {
        Some(version) => Ok(version),
        None => version_of(cluster),
    };
    let printed = match command {
        InstallCommand::Downward(flags) => {
            let webhook = downward_webhook(flags)?;
            install::downward(version(flags.server_version, &flags.cluster)?, webhook.as_ref())
        }
        InstallCommand::Access(flags) if flags.authorization_config => {
            if flags.mode != AccessModeFlag::Webhook {
                return Err(CommandError::new("no webhook is asked for")
                    .usage()
                    .hint("say `--mode webhook` with `--authorization-config`"));
            }
            let file = AuthorizationFile {
                users: flags.users.iter().cloned().collect(),
                groups: flags.groups.iter().cloned().collect(),
                targets: flags.targets.iter().cloned().collect(),
                kubeconfig: flags.authorizer_kubeconfig.display().to_string(),
            };
            install::authorization_config(version(flags.server_version, &flags.cluster)?, &file)
        }
        InstallCommand::Access(flags) => {
            let wanted = access_install(flags)?;
            install::access(version(flags.server_version, &flags.cluster)?, &wanted)
        }
        InstallCommand::OwnershipReport(flags) => {
            let types = flags.types.iter().cloned().collect();
            let wanted = ReportInstall { types, image: flags.image.clone() };
            install::ownership_report(version(flags.server_version, &flags.cluster)?, &wanted)
        }
    };
    let printed = printed.map_err(|error| {
        let problem = CommandError::new(error.to_string()).usage();
        match error {
            InstallError::NoAuthority { .. } => problem.hint("name it with `--ca-file FILE`"),
            _ => problem,
        }
    })?;
    say(printed.as_bytes());
    Ok(())
}

fn downward_webhook(flags: &InstallDownward) -> Result<Option<DownwardWebhook>, CommandError> {
    let Some(file) = &flags.ca_file else { return Ok(None) };
    let authority = std::fs::read_to_string(file).map_err(|error| {
        CommandError::new(format!("`{}` cannot be read", file.display())).usage().cause(&error)
    })?;
    Ok(Some(DownwardWebhook { authority, image: flags.image.clone() }))
}

fn access_install(flags: &InstallAccess) -> Result<AccessInstall, CommandError> {
    let mut origins = bundled_origins(&flags.bundles)?;
    origins.extend(flags.origins.iter().cloned());
    let (consumers, image) = (flags.consumers.clone(), flags.image.clone());
    let mode = match flags.mode {
        AccessModeFlag::Synthesis => AccessMode::Synthesis,
        AccessModeFlag::Webhook => AccessMode::Webhook,
    };
    Ok(AccessInstall { mode, consumers, origins, image })
}

/// The version of the server that a kubeconfig leads to.
fn version_of(cluster: &Where) -> Result<ServerVersion, CommandError> {
    block_on(async {
        let reader = connect(cluster, None).await?;
        let found = server_version(reader.client()).await;
        let found = found.map_err(|error| failed("the server does not say its version", &error))?;
        found.ok_or_else(|| {
            CommandError::new("the server does not say its version")
                .hint("name it with `--server-version 1.36`")
                .usage()
        })
    })
}

pub(crate) fn uninstall(command: &UninstallCommand) -> Result<ExitCode, CommandError> {
    block_on(async {
        match command {
            UninstallCommand::Downward(flags) => {
                let reader = connect(&flags.cluster, None).await?;
                downward_unused(reader.client(), flags).await?;
                leave(reader.client(), AttachFeature::Downward, false, flags.dry_run).await?;
            }
            UninstallCommand::Access(UninstallAccess { dry_run, kinds, cluster }) => {
                let reader = connect(cluster, None).await?;
                leave(reader.client(), AttachFeature::Access, *kinds, *dry_run).await?;
            }
            UninstallCommand::OwnershipReport(UninstallReport { dry_run, cluster }) => {
                let reader = connect(cluster, None).await?;
                leave(reader.client(), AttachFeature::OwnershipReport, false, *dry_run).await?;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Names the templates that still read owner references; they are in the way, unless that is said not to matter.
async fn downward_unused(
    client: &kube::Client,
    flags: &UninstallFlags,
) -> Result<(), CommandError> {
    let hint = "take the owner references out of them first, or go on with `--force`";
    let used = match templates_in_use(client).await {
        Ok(used) => used,
        Err(_) if flags.force => return Ok(()),
        Err(error) => {
            let what = "whether templates still read owner references cannot be seen";
            return Err(failed(what, &error).hint(hint));
        }
    };
    for template in &used {
        say(format!("{template} reads its owner references\n").as_bytes());
    }
    if used.is_empty() || flags.force || flags.dry_run {
        return Ok(());
    }
    let what = match used.len() {
        1 => {
            "1 template still reads its owner references: new pods would get an empty value".into()
        }
        many => format!(
            "{many} templates still read their owner references: new pods would get an empty value"
        ),
    };
    Err(CommandError::new(what).hint(hint))
}

/// Removes everything of a feature, and says so for each object.
async fn leave(
    client: &kube::Client,
    feature: AttachFeature,
    kinds: bool,
    dry_run: bool,
) -> Result<(), CommandError> {
    let found = installed(client, feature, kinds).await;
    let found = found.map_err(|error| failed("what is installed cannot be seen", &error))?;
    if found.is_empty() {
        say(format!("nothing of `{}` is installed\n", feature.name()).as_bytes());
    }
    if dry_run {
        for object in &found {
            say(format!("would remove {object}\n").as_bytes());
        }
        return Ok(());
    }
    let mut removed = |object: &InstalledObject| say(format!("removed {object}\n").as_bytes());
    let done = remove_all(client, feature, kinds, &mut removed).await;
    done.map_err(|error| {
        let hint = match &error {
            UninstallError::Unseen(_) | UninstallError::Kept { .. } => {
                "what went before is gone; do it again once you may"
            }
            UninstallError::Running(_) => "do it again when they have ended",
            UninstallError::Returning(_) => "end it, then do it again",
        };
        let problem = match error.request() {
            Some(request) => failed(&error.to_string(), request),
            None => CommandError::new(error.to_string()),
        };
        problem.hint(hint)
    })
}

fn failed(what: &str, error: &ApiError) -> CommandError {
    let problem = CommandError::new(what).cause(error).cause(&error.reason());
    if error.code().is_none() { problem.unanswered() } else { problem }
}
