//! This program in the place of `etcd`: it listens where it is told, answers whoever asks for its health, and keeps
//! nothing, since the objects live in what stands in for the API server (api-server R171, R172, R178).
//!
//! No runtime and no TLS: there are as many of these as of servers, and each should cost next to nothing.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Read as _, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::go_flags::{FlagError, FlagTable, GivenFlag, last};
use super::parent::Parent;

/// What the program is called in this place.
pub(super) const NAME: &str = "etcd";

/// What etcd ends with when a flag is wrong.
const WRONG_FLAGS: u8 = 2;
/// So many requests are answered at a time.
const CONNECTIONS_MAX: usize = 64;
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
const REQUEST_BYTES_MAX: u64 = 16 * 1024;

/// The version that is told to whoever asks.
const VERSION: &str = "3.6.0";

const SWITCHES: &[&str] = &[
    "auto-tls",
    "client-cert-auth",
    "disable-log-sampling",
    "discovery-insecure-skip-tls-verify",
    "discovery-insecure-transport",
    "enable-distributed-tracing",
    "enable-grpc-gateway",
    "enable-log-rotation",
    "enable-pprof",
    "enable-v2",
    "experimental-compact-hash-check-enabled",
    "experimental-enable-distributed-tracing",
    "experimental-enable-lease-checkpoint",
    "experimental-enable-lease-checkpoint-persist",
    "experimental-initial-corrupt-check",
    "experimental-memory-mlock",
    "experimental-peer-skip-client-san-verification",
    "experimental-stop-grpc-service-on-defrag",
    "experimental-txn-mode-write-with-shared-buffer",
    "force-new-cluster",
    "help",
    "initial-election-tick-advance",
    "memory-mlock",
    "peer-auto-tls",
    "peer-client-cert-auth",
    "peer-skip-client-san-verification",
    "pre-vote",
    "socket-reuse-address",
    "socket-reuse-port",
    "strict-reconfig-check",
    "unsafe-no-fsync",
    "version",
];

const VALUES: &[&str] = &[
    "advertise-client-urls",
    "auth-token",
    "auth-token-ttl",
    "auto-compaction-mode",
    "auto-compaction-retention",
    "backend-batch-interval",
    "backend-batch-limit",
    "backend-bbolt-freelist-type",
    "bcrypt-cost",
    "bootstrap-defrag-threshold-megabytes",
    "cert-file",
    "cipher-suites",
    "client-cert-allowed-hostname",
    "client-cert-file",
    "client-crl-file",
    "client-key-file",
    "compact-hash-check-time",
    "compaction-batch-limit",
    "compaction-sleep-interval",
    "config-file",
    "corrupt-check-time",
    "cors",
    "data-dir",
    "discovery",
    "discovery-cacert",
    "discovery-cert",
    "discovery-dial-timeout",
    "discovery-endpoints",
    "discovery-fallback",
    "discovery-keepalive-time",
    "discovery-keepalive-timeout",
    "discovery-key",
    "discovery-password",
    "discovery-proxy",
    "discovery-request-timeout",
    "discovery-srv",
    "discovery-srv-name",
    "discovery-token",
    "discovery-user",
    "distributed-tracing-address",
    "distributed-tracing-instance-id",
    "distributed-tracing-sampling-rate",
    "distributed-tracing-service-name",
    "downgrade-check-time",
    "election-timeout",
    "experimental-bootstrap-defrag-threshold-megabytes",
    "experimental-compact-hash-check-time",
    "experimental-compaction-batch-limit",
    "experimental-compaction-sleep-interval",
    "experimental-corrupt-check-time",
    "experimental-distributed-tracing-address",
    "experimental-distributed-tracing-instance-id",
    "experimental-distributed-tracing-sampling-rate",
    "experimental-distributed-tracing-service-name",
    "experimental-downgrade-check-time",
    "experimental-max-learners",
    "experimental-snapshot-catchup-entries",
    "experimental-warning-apply-duration",
    "experimental-warning-unary-request-duration",
    "experimental-watch-progress-notify-interval",
    "feature-gates",
    "grpc-keepalive-interval",
    "grpc-keepalive-min-time",
    "grpc-keepalive-timeout",
    "heartbeat-interval",
    "host-whitelist",
    "initial-advertise-peer-urls",
    "initial-cluster",
    "initial-cluster-state",
    "initial-cluster-token",
    "key-file",
    "listen-client-http-urls",
    "listen-client-urls",
    "listen-metrics-urls",
    "listen-peer-urls",
    "local-address",
    "log-format",
    "log-level",
    "log-outputs",
    "log-rotation-config-json",
    "logger",
    "max-concurrent-streams",
    "max-learners",
    "max-request-bytes",
    "max-snapshots",
    "max-txn-ops",
    "max-wals",
    "metrics",
    "name",
    "peer-cert-allowed-cn",
    "peer-cert-allowed-hostname",
    "peer-cert-file",
    "peer-client-cert-file",
    "peer-client-key-file",
    "peer-crl-file",
    "peer-key-file",
    "peer-trusted-ca-file",
    "quota-backend-bytes",
    "raft-read-timeout",
    "raft-write-timeout",
    "self-signed-cert-validity",
    "snapshot-catchup-entries",
    "snapshot-count",
    "tls-max-version",
    "tls-min-version",
    "trusted-ca-file",
    "v2-deprecation",
    "wal-dir",
    "warning-apply-duration",
    "warning-unary-request-duration",
    "watch-progress-notify-interval",
];

const TABLE: FlagTable =
    FlagTable { switches: SWITCHES, values: VALUES, short: &[("h", "help")], single_hyphens: true };

/// Serves until it is ended, or its parent is gone. SIGTERM ends it as it ends etcd: by itself.
pub(super) fn run(words: &[OsString]) -> ExitCode {
    let parent = Parent::now();
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let given = match TABLE.read(&words) {
        Ok(given) => given,
        Err(error) => return failed(&in_words_of_go(&error), WRONG_FLAGS),
    };
    if last(&given, "help").is_some() {
        crate::say(help().as_bytes());
        return ExitCode::SUCCESS;
    }
    if last(&given, "version").is_some() {
        crate::say(
            format!("etcd Version: {VERSION}\ntenure {}\n", env!("CARGO_PKG_VERSION")).as_bytes(),
        );
        return ExitCode::SUCCESS;
    }
    match listeners(&given) {
        Err(why) => failed(&why, crate::report::NO),
        Ok(listeners) => {
            let open = Arc::new(AtomicUsize::new(0));
            for listener in listeners {
                let open = Arc::clone(&open);
                std::thread::spawn(move || serve(&listener, &open));
            }
            parent.wait_until_gone();
            ExitCode::SUCCESS
        }
    }
}

fn failed(why: &str, code: u8) -> ExitCode {
    let _ = io::stderr().lock().write_all(format!("{why}\n").as_bytes());
    ExitCode::from(code)
}

/// In the words of Go's own flags.
fn in_words_of_go(error: &FlagError) -> String {
    match error {
        FlagError::Unknown(word) => {
            format!("flag provided but not defined: -{}", word.trim_start_matches('-'))
        }
        FlagError::NoValue(name) => format!("flag needs an argument: -{name}"),
        FlagError::Word(word) => format!("'{word}' is not a valid flag"),
    }
}

fn help() -> String {
    let mut text = "This program stands in for etcd in tests of Tenure's: it answers whoever asks for its health, \
                    and keeps nothing.\nAll flags of etcd are taken; those that say where to listen are acted on.\n\n"
        .to_owned();
    let mut names: Vec<&str> = SWITCHES.iter().chain(VALUES).copied().collect();
    names.sort_unstable();
    for name in names {
        text += &format!("  --{name}\n");
    }
    text
}

/// Everything it is told to listen on.
fn listeners(given: &[GivenFlag]) -> Result<Vec<TcpListener>, String> {
    let named = ["listen-client-urls", "listen-client-http-urls", "listen-metrics-urls"];
    let mut urls: Vec<&str> = named
        .iter()
        .filter_map(|name| last(given, name))
        .flat_map(|urls| urls.split(','))
        .filter(|url| !url.is_empty())
        .collect();
    if last(given, "listen-client-urls").is_none() {
        urls.push("http://localhost:2379");
    }
    urls.sort_unstable();
    urls.dedup();
    let listen = |url: &&str| {
        let place = place(url)?;
        TcpListener::bind(place).map_err(|error| format!("cannot listen on {place}: {error}"))
    };
    urls.iter().map(listen).collect()
}

/// Host and port of a URL.
fn place(url: &str) -> Result<&str, String> {
    let wrong = || format!("cannot listen on {url}: only http://HOST:PORT is served");
    let place = url.strip_prefix("http://").ok_or_else(wrong)?.trim_end_matches('/');
    let port = place.rsplit_once(':').map(|(_, port)| port).unwrap_or_default();
    if port.parse::<u16>().is_err() { Err(wrong()) } else { Ok(place) }
}

fn serve(listener: &TcpListener, open: &Arc<AtomicUsize>) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // No file descriptors are left, or the like.
            crate::clock::block_for(Duration::from_millis(50));
            continue;
        };
        if open.fetch_add(1, Ordering::SeqCst) >= CONNECTIONS_MAX {
            open.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        let open = Arc::clone(open);
        std::thread::spawn(move || {
            // Whoever goes away while being answered is not waited for.
            let _ = answer(stream);
            open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

/// Answers one request.
fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(REQUEST_LIMIT))?;
    stream.set_write_timeout(Some(REQUEST_LIMIT))?;
    let mut lines = BufReader::new(stream.try_clone()?.take(REQUEST_BYTES_MAX)).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    // The rest of the head is read, or closing would cut the answer short.
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    stream.write_all(response(&first).as_bytes())
}

fn response(first: &str) -> String {
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let (status, kind, body) = match (method, path) {
        ("GET" | "HEAD", "/health") => ("200 OK", "application/json", health()),
        ("GET" | "HEAD", "/readyz" | "/livez") => ("200 OK", "text/plain", "ok\n".to_owned()),
        ("GET" | "HEAD", "/version") => ("200 OK", "application/json", version()),
        ("GET" | "HEAD", "/tenure/engine") => ("200 OK", "application/json", engine()),
        _ => ("404 Not Found", "text/plain", "404 page not found\n".to_owned()),
    };
    let shown = if method == "HEAD" { "" } else { body.as_str() };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{shown}",
        body.len()
    )
}

fn health() -> String {
    r#"{"health":"true","reason":""}"#.to_owned()
}

fn version() -> String {
    format!(r#"{{"etcdserver":"{VERSION}","etcdcluster":"{VERSION}"}}"#)
}

/// Whoever wants to know finds out what this is.
fn engine() -> String {
    format!(r#"{{"engine":"tenure","version":"{}","keeps":"nothing"}}"#, env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.

    use super::*;

    #[test]
    fn r171_help_has_the_flag_that_envtest_looks_for() {
        let help = help();
        assert!(help.lines().any(|line| line.trim_start() == "--unsafe-no-fsync"), "{help}");
    }

    #[test]
    fn r172_it_answers_who_asks_for_its_health_and_nothing_else() {
        let said = response("GET /health HTTP/1.1");
        assert!(
            said.starts_with("HTTP/1.1 200 OK\r\n") && said.ends_with(r#""reason":""}"#),
            "{said}"
        );
        assert!(response("HEAD /health HTTP/1.1").ends_with("\r\n\r\n"));
        assert!(response("GET /tenure/engine?x HTTP/1.1").contains(r#""engine":"tenure""#));
        for other in ["POST /health HTTP/1.1", "GET /v3/kv HTTP/1.1", "PRI * HTTP/2.0", ""] {
            assert!(response(other).starts_with("HTTP/1.1 404 "), "{other}");
        }
    }

    #[test]
    fn r172_only_plain_addresses_are_listened_on() {
        assert_eq!(place("http://127.0.0.1:2379"), Ok("127.0.0.1:2379"));
        assert_eq!(place("http://[::1]:1/"), Ok("[::1]:1"));
        for wrong in ["https://127.0.0.1:1", "http://127.0.0.1", "unix:///x", "127.0.0.1:1", ""] {
            assert!(place(wrong).is_err(), "{wrong}");
        }
        for (error, words) in [
            (FlagError::Unknown("--x".into()), "flag provided but not defined: -x"),
            (FlagError::NoValue("name"), "flag needs an argument: -name"),
        ] {
            assert_eq!(in_words_of_go(&error), words);
        }
    }
}
