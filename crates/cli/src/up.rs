//! `tenure up`: starts a control plane, says where it is, waits for the signal to end.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tenure_host::server_record::{self, ServerRecord};
use tenure_host::{
    AdmissionPlugin, AdmissionPlugins, AuditLevel, AuditLog, AuthorizationModes,
    AuthorizationSource, AuthorizerMode, Config, ControlPlane, Durability, Features, LoadProgress,
    NodeRuntime, OwnerChecks, POD_GRACE_MAX, ReferenceOptions, RetentionOptions, ServerLimits,
    StorageMedium,
};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::flags::{
    AuditFlag, AuthorizationFlags, AuthorizerFlag, DurabilityFlag, ReviewVersionFlag, StoreFlag,
    Switch, UpFlags,
};
use crate::progress::{ProgressLine, Unit};
use crate::report::CommandError;
use crate::{clock, environment};
use crate::{descriptors, detach, logging, memory, node, notify, say, servers};

/// How long the end may take once nobody wants to wait for it: a container that was killed may take some
/// seconds to be gone.
const FORCED_END_MAX: Duration = Duration::from_secs(15);

/// How long a thread that blocks is waited for once everything else has ended.
const BLOCKED_MAX: Duration = Duration::from_secs(1);

/// Handlers never block, so few threads are enough; more would only cost memory.
const WORKER_THREADS: usize = 2;
/// How many pieces of work a thread does before it looks for new requests again. With the usual 61, a
/// request waited for 61 parts of somebody else's long answers.
const POLLS_BETWEEN_SOCKETS: u32 = 5;

pub(crate) fn run(flags: UpFlags, verbose: u8, begin: Instant) -> Result<ExitCode, CommandError> {
    if flags.detach {
        return detach::start(&data_dir(flags.data_dir)?);
    }
    logging::start(flags.log_format, verbose)?;
    let log = flags.background.clone();
    if let Some(log) = &log {
        detach::leave_terminal(log);
    }
    let config = Config { reading: Some(reading()), ..config(flags)? };
    run_to_end(Box::pin(serve(config, log, begin)))??;
    Ok(ExitCode::SUCCESS)
}

/// Runs something on threads of its own. What still blocks one of them afterwards is left behind: it is the
/// reading of something that nobody wants any more.
pub(crate) fn run_to_end<T>(work: impl Future<Output = T>) -> Result<T, CommandError> {
    let workers = workers()?;
    let done = workers.block_on(work);
    workers.shutdown_timeout(BLOCKED_MAX);
    Ok(done)
}

/// The threads that everything runs on.
pub(crate) fn workers() -> Result<tokio::runtime::Runtime, CommandError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKER_THREADS)
        .event_interval(POLLS_BETWEEN_SOCKETS)
        .enable_all()
        .build()
        .map_err(|error| CommandError::new("no threads could be started").cause(&error))
}

async fn serve(config: Config, log: Option<PathBuf>, begin: Instant) -> Result<(), CommandError> {
    // What programs read on stdout is the audit log, if it is there.
    let audits = config.audit.as_ref().is_some_and(|audit| audit.file.is_none());
    // Before the start, so that a signal during it is not lost.
    let mut signals = Signals::new()?;
    let plane = tokio::select! {
        started = Box::pin(ControlPlane::start(config)) => started?,
        () = signals.next() => {
            let _ = std::io::stderr().lock().write_all(b"stopped before it was ready\n");
            return Ok(());
        }
    };
    let line = format!("ready {} in {} ms", plane.url(), begin.elapsed().as_millis());
    let foreground = log.is_none();
    // Before anybody is told, so that whoever is told finds it.
    let known = ServerRecordGuard::tell(&plane, log);
    // On stderr, so that a script which reads stdout sees the one line it waits for.
    let mut words = usage(plane.kubeconfig());
    match audits {
        true => words.insert_str(0, &format!("{line}\n")),
        false => say(format!("{line}\n").as_bytes()),
    }
    if foreground || audits {
        let _ = std::io::stderr().lock().write_all(words.as_bytes());
    }
    notify::ready(&line);
    let failure = tokio::select! {
        () = signals.next() => None,
        what = plane.failed() => Some(what),
    };
    if let Some(what) = &failure {
        tracing::error!(what, "the control plane cannot go on and ends");
    }
    notify::stopping();
    drop(known);
    let _ = std::io::stderr().lock().write_all(stopping(plane.running_pods()).as_bytes());
    let hurry = plane.hurry();
    let mut ending = Box::pin(plane.stop());
    tokio::select! {
        () = &mut ending => {
            return failure.map_or(Ok(()), |what| Err(CommandError::new("ended by itself").cause(&what)));
        }
        () = signals.next() => {}
    }
    hurry.now();
    // Waited for, so that no container is left behind.
    Err(match tokio::time::timeout(FORCED_END_MAX, ending).await {
        Ok(()) => CommandError::new(
            "stopped by a second signal; containers were killed and requests were cut",
        ),
        Err(_) => CommandError::new("stopped by a second signal; something did not end in time"),
    })
}

/// What is said when the end begins.
fn stopping(pods: usize) -> String {
    let seconds = POD_GRACE_MAX.as_secs();
    match pods {
        0 => "stopping\n".to_owned(),
        1 => format!("stopping: 1 pod has up to {seconds} s to end; ctrl-c again kills it\n"),
        _ => format!(
            "stopping: {pods} pods have up to {seconds} s to end; ctrl-c again kills them\n"
        ),
    }
}

/// Says how far the reading of many stored objects is.
fn reading() -> LoadProgress {
    let progress = Mutex::new(ProgressLine::new("reading stored objects", Unit::Objects));
    LoadProgress(Arc::new(move |done, all| {
        if progress.lock().unwrap_or_else(PoisonError::into_inner).tell(done, all) {
            notify::starting(&format!("reading stored objects: {done} of {all}"));
        }
    }))
}

fn usage(kubeconfig: &Path) -> String {
    format!("{}stop with ctrl-c\n", exports(kubeconfig))
}

/// How clients are led to a server.
pub(crate) fn exports(kubeconfig: &Path) -> String {
    let path = quoted(&kubeconfig.display().to_string());
    format!("\n  export KUBECONFIG={path}\n  kubectl get namespaces\n\n")
}

/// What other commands know of this server while it runs.
struct ServerRecordGuard(Option<(PathBuf, ServerRecord)>);

impl ServerRecordGuard {
    /// Writes it down. A server that nobody finds by it still serves.
    fn tell(plane: &ControlPlane, log: Option<PathBuf>) -> ServerRecordGuard {
        let Some(folder) = plane.folder() else { return ServerRecordGuard(None) };
        let record = ServerRecord {
            process: std::process::id(),
            since: clock::system_time(),
            url: plane.url().to_owned(),
            kubeconfig: plane.kubeconfig().to_owned(),
            folder: folder.to_owned(),
            log,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let unknown = |error: &std::io::Error| {
            tracing::warn!(%error, "`tenure status` will not find this server");
        };
        record.write().inspect_err(unknown).unwrap_or_default();
        // One that keeps nothing is found by its temporary folder, and leaves nothing behind elsewhere.
        let all = servers::register().filter(|_| plane.keeps());
        if let Some(all) = &all {
            server_record::remember(all, &record).inspect_err(unknown).unwrap_or_default();
        }
        ServerRecordGuard(all.map(|all| (all, record)))
    }
}

impl Drop for ServerRecordGuard {
    fn drop(&mut self) {
        if let Some((all, record)) = &self.0 {
            server_record::forget(all, record);
        }
    }
}

/// A path as a shell reads it.
pub(crate) fn quoted(path: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:@".contains(letter);
    if path.chars().all(plain) {
        return path.to_owned();
    }
    format!("'{}'", path.replace('\'', r"'\''"))
}

/// Ctrl-c, SIGTERM and the end of the terminal, which mean the same here.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// None where whoever started this wants it to outlive its terminal, as `nohup` does.
    hangup: Option<Signal>,
}

impl Signals {
    pub(crate) fn new() -> Result<Signals, CommandError> {
        let failed = |error| CommandError::new("signals cannot be received").cause(&error);
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
            hangup: match hangup_is_ignored() {
                true => None,
                false => Some(signal(SignalKind::hangup()).map_err(failed)?),
            },
        })
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = hung_up(self.hangup.as_mut()) => {}
        }
    }
}

async fn hung_up(hangup: Option<&mut Signal>) {
    match hangup {
        Some(hangup) => {
            hangup.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Whether this process was started with SIGHUP ignored: a handler of ours would undo that.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let set = ignored.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    // Signals are counted from 1, and this is the first.
    set.is_some_and(|set| set & 1 == 1)
}

fn config(flags: UpFlags) -> Result<Config, CommandError> {
    let admission_plugins = plugins(&flags)?;
    let base = if flags.ephemeral {
        if flags.store == Some(StoreFlag::File) {
            return Err(CommandError::new(
                "`--ephemeral` keeps nothing, so `--store file` cannot be kept",
            )
            .usage()
            .hint("leave out one of the two"));
        }
        Config::ephemeral()
    } else {
        Config::new(data_dir(flags.data_dir)?)
    };
    let store = match flags.store {
        Some(StoreFlag::File) => StorageMedium::File,
        Some(StoreFlag::Memory) => StorageMedium::Memory,
        None => base.store,
    };
    let durability = match flags.durability {
        DurabilityFlag::Strict => Durability::Strict,
        DurabilityFlag::Relaxed => Durability::Relaxed,
    };
    let owners = OwnerChecks {
        enforced: flags.owner_permissions == Switch::On,
        warns_of_absent: flags.warn_dangling_owners,
    };
    let features = Features::read(flags.feature_gates.iter().map(String::as_str))
        .map_err(|error| CommandError::new(error.to_string()).usage().hint(error.hint()))?;
    let retention = RetentionOptions {
        namespaces: flags.retention_allow_namespaces,
        hints: flags.warn_mutable_retention,
        ..RetentionOptions::default()
    };
    let node = node::options(&flags.node)?;
    let runtime = match node::choice(&flags.runtime, &flags.node) {
        Some(choice) => NodeRuntime::Real(Box::new(choice)),
        None => NodeRuntime::None,
    };
    let (listen, kubeconfig) = (flags.listen, flags.kubeconfig);
    let audit = audit(flags.audit_log, flags.audit_level, flags.audit_policy_file);
    let event_life = flags.event_ttl;
    let service_account_keys = flags.service_account_key_file;
    Ok(Config {
        listen,
        kubeconfig,
        store,
        durability,
        store_quota: quota(flags.store_quota),
        limits: ServerLimits {
            reads: flags.max_requests_inflight,
            writes: flags.max_mutating_requests_inflight,
            connections: descriptors::connections(),
        },
        owners,
        admission_plugins,
        audit,
        event_life,
        service_account_keys,
        controllers: flags.controllers,
        nodes: flags.nodes,
        runtime,
        node,
        features,
        retention,
        references: ReferenceOptions {
            unchecked_consumers: flags.ref_allow_unchecked_consumers,
            authorizer: match flags.ref_authorizer {
                AuthorizerFlag::On => AuthorizerMode::On,
                AuthorizerFlag::Observe => AuthorizerMode::Observe,
                AuthorizerFlag::Off => AuthorizerMode::Off,
            },
            record_access: flags.record_access,
            ..base.references
        },
        reference_kinds: flags.authorization.reference_kinds == Switch::On,
        authorization: authorization(flags.authorization)?,
        ..base
    })
}

/// Which admission plugins are on.
fn plugins(flags: &UpFlags) -> Result<AdmissionPlugins, CommandError> {
    let on = flags.enable_admission_plugins.iter().map(String::as_str);
    let off = flags.disable_admission_plugins.iter().map(String::as_str);
    let owners = format!("{:?}", AdmissionPlugin::OwnerReferencesPermissionEnforcement);
    if flags.owner_permissions == Switch::Off && on.clone().any(|name| name == owners) {
        let what = format!("the admission plugin `{owners}` is switched on and off");
        return Err(CommandError::new(what).usage().hint("leave out `--owner-permissions off`"));
    }
    AdmissionPlugins::read(on, off)
        .map_err(|error| CommandError::new(error.to_string()).usage().hint(error.hint()))
}

/// What was asked for, or what the memory of this machine allows; none if that is zero.
fn quota(asked: Option<u64>) -> Option<u64> {
    Some(asked.unwrap_or_else(memory::store_quota)).filter(|bytes| *bytes > 0)
}

/// Who decides, as the flags say it.
fn authorization(flags: AuthorizationFlags) -> Result<AuthorizationSource, CommandError> {
    if let Some(file) = flags.authorization_config {
        return Ok(AuthorizationSource::File(file));
    }
    let modes = flags.authorization_mode;
    let webhook = flags.authorization_webhook_config_file;
    if modes.is_empty() {
        return Ok(AuthorizationSource::Usual);
    }
    if webhook.is_some() != modes.iter().any(|mode| mode == "Webhook") {
        return Err(CommandError::new(
            "`--authorization-webhook-config-file` and the mode Webhook need each other",
        )
        .usage()
        .hint(
            "write `--authorization-mode RBAC,Webhook --authorization-webhook-config-file FILE`",
        ));
    }
    Ok(AuthorizationSource::Modes(AuthorizationModes {
        modes,
        webhook,
        version: match flags.authorization_webhook_version {
            Some(ReviewVersionFlag::V1) => "v1",
            Some(ReviewVersionFlag::V1beta1) | None => "v1beta1",
        }
        .to_owned(),
        authorized_ttl: flags
            .authorization_webhook_cache_authorized_ttl
            .unwrap_or(Duration::from_secs(5 * 60)),
        unauthorized_ttl: flags
            .authorization_webhook_cache_unauthorized_ttl
            .unwrap_or(Duration::from_secs(30)),
    }))
}

fn audit(
    file: Option<PathBuf>,
    level: Option<AuditFlag>,
    policy: Option<PathBuf>,
) -> Option<AuditLog> {
    let level = match level {
        None | Some(AuditFlag::Metadata) => AuditLevel::Metadata,
        Some(AuditFlag::Request) => AuditLevel::Request,
        Some(AuditFlag::RequestResponse) => AuditLevel::RequestResponse,
        Some(AuditFlag::None) => return None,
    };
    let kept = |file: &PathBuf| file != Path::new("-");
    file.map(|file| AuditLog { file: Some(file).filter(kept), level, policy })
}

/// The folder that was asked for, or the usual one.
pub(crate) fn data_dir(asked: Option<PathBuf>) -> Result<PathBuf, CommandError> {
    let variable = |name| environment::variable(name).filter(|value| !value.is_empty());
    // A relative XDG_DATA_HOME is to be ignored, says the specification of these variables.
    let shared = variable("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || variable("HOME").map(|home| PathBuf::from(home).join(".local/share"));
    let usual = || shared.or_else(home).map(|path| path.join("tenure"));
    asked.or_else(usual).ok_or_else(|| {
        CommandError::new("there is no home folder to keep data in")
            .cause(&"neither XDG_DATA_HOME nor HOME is set")
            .hint("name a folder with `--data-dir DIR`, or keep nothing with `--ephemeral`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_end_waits_for_is_said_in_one_line() {
        assert_eq!(stopping(0), "stopping\n");
        for (pods, words) in [(1, "1 pod has up to 30 s"), (7, "7 pods have up to 30 s")] {
            let line = stopping(pods);
            assert!(line.contains(words) && line.contains("ctrl-c again"), "{line}");
            assert_eq!(line.matches('\n').count(), 1);
        }
    }

    #[test]
    fn an_end_does_not_wait_for_what_is_still_read() {
        let begin = Instant::now();
        let work = async {
            tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_secs(600)));
            tokio::task::yield_now().await;
        };
        run_to_end(work).unwrap();
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    }

    #[test]
    fn paths_can_be_pasted_into_a_shell() {
        assert_eq!(quoted("/home/a/x-1.yaml"), "/home/a/x-1.yaml");
        assert_eq!(quoted("/home/a b/$x"), "'/home/a b/$x'");
        assert_eq!(quoted("/it's"), r"'/it'\''s'");
    }
}
