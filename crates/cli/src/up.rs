//! `tenure up`: starts a control plane, says where it is, waits for the signal to end.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tenure_host::{
    AuditLevel, AuditLog, Authorizer, Config, ControlPlane, Durability, Features, Limits,
    OwnerChecks, References, Retention, Runtime, Store,
};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::flags::{AuditFlag, AuthorizerFlag, DurabilityFlag, StoreFlag, Switch, Up};
use crate::report::Problem;
use crate::{descriptors, logging, memory, node, say};

/// Handlers never block, so few threads are enough; more would only cost memory.
const WORKER_THREADS: usize = 2;
/// How many pieces of work a thread does before it looks for new requests again. With the usual 61, a
/// request waited for 61 parts of somebody else's long answers.
const POLLS_BETWEEN_SOCKETS: u32 = 5;

pub(crate) fn run(flags: Up, begin: Instant) -> Result<(), Problem> {
    logging::start(flags.log_format)?;
    let config = config(flags)?;
    workers()?.block_on(Box::pin(serve(config, begin)))
}

/// The threads that everything runs on.
pub(crate) fn workers() -> Result<tokio::runtime::Runtime, Problem> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKER_THREADS)
        .event_interval(POLLS_BETWEEN_SOCKETS)
        .enable_all()
        .build()
        .map_err(|error| Problem::new("no threads could be started").cause(&error))
}

async fn serve(config: Config, begin: Instant) -> Result<(), Problem> {
    // Before the start, so that a signal during it is not lost.
    let mut signals = Signals::new()?;
    let plane = tokio::select! {
        started = Box::pin(ControlPlane::start(config)) => started?,
        () = signals.next() => return Ok(()),
    };
    say(format!("ready {} in {} ms\n", plane.url(), begin.elapsed().as_millis()).as_bytes());
    // On stderr, so that a script which reads stdout sees the one line it waits for.
    let _ = std::io::stderr().lock().write_all(usage(plane.kubeconfig()).as_bytes());
    signals.next().await;
    tokio::select! {
        () = plane.stop() => Ok(()),
        () = signals.next() => Err(Problem::new("stopped by a second signal; requests were cut")),
    }
}

fn usage(kubeconfig: &Path) -> String {
    let path = quoted(&kubeconfig.display().to_string());
    format!("\n  export KUBECONFIG={path}\n  kubectl get namespaces\n\nstop with ctrl-c\n")
}

/// A path as a shell reads it.
fn quoted(path: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:@".contains(letter);
    if path.chars().all(plain) {
        return path.to_owned();
    }
    format!("'{}'", path.replace('\'', r"'\''"))
}

/// Ctrl-c and SIGTERM, which mean the same here.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn new() -> Result<Signals, Problem> {
        let failed = |error| Problem::new("signals cannot be received").cause(&error);
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
        })
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

fn config(flags: Up) -> Result<Config, Problem> {
    let base = if flags.ephemeral {
        if flags.store == Some(StoreFlag::File) {
            return Err(Problem::new(
                "`--ephemeral` keeps nothing, so `--store file` cannot be kept",
            )
            .hint("leave out one of the two"));
        }
        Config::ephemeral()
    } else {
        Config::new(data_dir(flags.data_dir)?)
    };
    let store = match flags.store {
        Some(StoreFlag::File) => Store::File,
        Some(StoreFlag::Memory) => Store::Memory,
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
        .map_err(|error| Problem::new(error.to_string()).hint(error.hint()))?;
    let retention = Retention {
        namespaces: flags.retention_allow_namespaces,
        hints: flags.warn_mutable_retention,
        ..Retention::default()
    };
    let node = node::options(&flags.node)?;
    let runtime = match node::choice(&flags.runtime, &flags.node) {
        Some(choice) => Runtime::Real(Box::new(choice)),
        None => Runtime::None,
    };
    let (listen, kubeconfig) = (flags.listen, flags.kubeconfig);
    let (audit, event_life) = (audit(flags.audit_log, flags.audit_level), flags.event_ttl);
    let service_account_keys = flags.service_account_key_file;
    Ok(Config {
        listen,
        kubeconfig,
        store,
        durability,
        store_quota: quota(flags.store_quota),
        limits: Limits {
            reads: flags.max_requests_inflight,
            writes: flags.max_mutating_requests_inflight,
            connections: descriptors::connections(),
        },
        owners,
        audit,
        event_life,
        service_account_keys,
        controllers: flags.controllers,
        nodes: flags.nodes,
        runtime,
        node,
        features,
        retention,
        references: References {
            unchecked_consumers: flags.ref_allow_unchecked_consumers,
            authorizer: match flags.ref_authorizer {
                AuthorizerFlag::On => Authorizer::On,
                AuthorizerFlag::Observe => Authorizer::Observe,
                AuthorizerFlag::Off => Authorizer::Off,
            },
            record_access: flags.record_access,
            ..base.references
        },
        ..base
    })
}

/// What was asked for, or what the memory of this machine allows; none if that is zero.
fn quota(asked: Option<u64>) -> Option<u64> {
    Some(asked.unwrap_or_else(memory::store_quota)).filter(|bytes| *bytes > 0)
}

fn audit(file: Option<PathBuf>, level: Option<AuditFlag>) -> Option<AuditLog> {
    let level = match level {
        None | Some(AuditFlag::Metadata) => AuditLevel::Metadata,
        Some(AuditFlag::Request) => AuditLevel::Request,
        Some(AuditFlag::RequestResponse) => AuditLevel::RequestResponse,
        Some(AuditFlag::None) => return None,
    };
    file.map(|file| AuditLog { file: Some(file).filter(|file| file != Path::new("-")), level })
}

/// The folder that was asked for, or the usual one.
pub(crate) fn data_dir(asked: Option<PathBuf>) -> Result<PathBuf, Problem> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    // A relative XDG_DATA_HOME is to be ignored, says the specification of these variables.
    let shared = variable("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || variable("HOME").map(|home| PathBuf::from(home).join(".local/share"));
    let usual = || shared.or_else(home).map(|path| path.join("tenure"));
    asked.or_else(usual).ok_or_else(|| {
        Problem::new("there is no home folder to keep data in")
            .cause(&"neither XDG_DATA_HOME nor HOME is set")
            .hint("name a folder with `--data-dir DIR`, or keep nothing with `--ephemeral`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_can_be_pasted_into_a_shell() {
        assert_eq!(quoted("/home/a/x-1.yaml"), "/home/a/x-1.yaml");
        assert_eq!(quoted("/home/a b/$x"), "'/home/a b/$x'");
        assert_eq!(quoted("/it's"), r"'/it'\''s'");
    }
}
