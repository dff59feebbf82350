//! This program in the place of `kube-apiserver`: its flags become the settings of a control plane in memory, which
//! serves until it is ended, or until whoever started it is gone (api-server R173–R178, R181).
//!
//! ```text
//!   words ──► flags ──► Config ──► ControlPlane::start ──► SIGTERM | parent gone ──► end
//! ```

use std::ffi::OsString;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use tenure_host::{
    AdmissionPlugin, AdmissionPlugins, AuditLevel, AuditLog, AuthenticationOptions,
    AuthorizationSource, CertificateFiles, ClientAuthorities, Config, ControlPlane, FEATURES,
    Features, FixedTokens, OwnerChecks, ServerLimits, ServiceRange,
};

use super::api_server_flags::{ACTED, REFUSED, TABLE, help};
use super::authorization;
use super::go_flags::{FlagError, GivenFlag, is_on, last, list};
use super::parent::Parent;
use crate::flags::{LogFormat, time};
use crate::report::{CommandError, NO};
use crate::up::{Signals, run_to_end};
use crate::{descriptors, environment, logging};

/// What the program is called in this place.
pub(super) const NAME: &str = "kube-apiserver";

/// Which controllers run, since flags belong to whoever starts a kube-apiserver.
const CONTROLLERS: &str = "TENURE_CONTROLLERS";
/// How long requests may run on at the end. Nothing is kept that they could still change.
const END_MAX: Duration = Duration::from_secs(1);
const SEATS_MAX: u32 = 100_000;

/// Runs as kube-apiserver does.
pub(super) fn run(words: &[OsString]) -> ExitCode {
    let parent = Parent::now();
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let given = match TABLE.read(&words) {
        Ok(given) => given,
        Err(error) => return wrong_flags(&error),
    };
    if last(&given, "help").is_some() {
        crate::say(help().as_bytes());
        return ExitCode::SUCCESS;
    }
    if last(&given, "version").is_some() {
        crate::say(format!("Kubernetes {}\n", tenure_host::kubernetes_version()).as_bytes());
        return ExitCode::SUCCESS;
    }
    match serve(&given, parent) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            let _ = write!(std::io::stderr().lock(), "{problem}");
            ExitCode::from(NO)
        }
    }
}

/// As upstream says it, and ends.
fn wrong_flags(error: &FlagError) -> ExitCode {
    let _ = writeln!(std::io::stderr().lock(), "Error: {error}");
    ExitCode::from(NO)
}

fn serve(given: &[GivenFlag], parent: Parent) -> Result<(), CommandError> {
    logging::start(log_format(given), verbosity(given))?;
    let config = config(given)?;
    run_to_end(Box::pin(until_ended(config, parent)))?
}

async fn until_ended(config: Config, parent: Parent) -> Result<(), CommandError> {
    // Before the start, so that a signal during it is not lost.
    let mut signals = Signals::new()?;
    let plane = tokio::select! {
        started = Box::pin(ControlPlane::start(config)) => started?,
        () = signals.next() => return Ok(()),
        () = parent.gone() => return Ok(()),
    };
    let failure = tokio::select! {
        () = signals.next() => None,
        () = parent.gone() => None,
        what = plane.failed() => Some(what),
    };
    let hurry = plane.hurry();
    let mut ending = Box::pin(plane.stop());
    tokio::select! {
        () = &mut ending => {}
        () = signals.next() => { hurry.now(); ending.await; }
        () = tokio::time::sleep(END_MAX) => { hurry.now(); ending.await; }
    }
    failure.map_or(Ok(()), |what| Err(CommandError::new("ended by itself").cause(&what)))
}

fn log_format(given: &[GivenFlag]) -> LogFormat {
    match last(given, "logging-format") {
        Some("json") => LogFormat::Json,
        _ => LogFormat::Text,
    }
}

/// klog's numbers go to 10; from 4 on they tell how things are done.
fn verbosity(given: &[GivenFlag]) -> u8 {
    match last(given, "v").and_then(|v| v.parse::<u8>().ok()).unwrap_or(0) {
        0 => 0,
        1..=3 => 1,
        4..=5 => 2,
        _ => 3,
    }
}

pub(super) fn wrong(name: &str, cause: &dyn std::fmt::Display) -> CommandError {
    CommandError::new(format!("`--{name}` cannot be acted on")).cause(cause)
}

/// The settings that the flags come to.
fn config(given: &[GivenFlag]) -> Result<Config, CommandError> {
    for (name, hint) in REFUSED {
        if last(given, name).is_some_and(|value| !value.is_empty()) {
            return Err(wrong(name, &"there is no such thing here").hint(*hint));
        }
    }
    if last(given, "etcd-servers").is_none_or(str::is_empty) {
        return Err(wrong("etcd-servers", &"--etcd-servers must be specified"));
    }
    if last(given, "insecure-port").is_some_and(|port| port != "0") {
        return Err(wrong("insecure-port", &"nothing is served without TLS"));
    }
    say_what_is_ignored(given);
    let plugins = plugins(given)?;
    let authorization = authorization::source(given)?;
    let base = Config::ephemeral();
    let limits = ServerLimits {
        reads: seats(given, "max-requests-inflight", base.limits.reads)?,
        writes: seats(given, "max-mutating-requests-inflight", base.limits.writes)?,
        connections: descriptors::connections(),
    };
    let event_life = match last(given, "event-ttl") {
        Some(text) => time(text).map_err(|why| wrong("event-ttl", &why))?,
        None => base.event_life,
    };
    let keys = given.iter().filter(|flag| flag.name == "service-account-key-file");
    Ok(Config {
        listen: listen(given)?,
        has_kubeconfig: false,
        store_quota: Some(crate::memory::store_quota()),
        limits,
        audit: audit(given),
        event_life,
        service_account_keys: keys.map(|flag| PathBuf::from(&flag.value)).collect(),
        certificates: certificates(given),
        authentication: authentication(given, &authorization)?,
        authorization,
        service_range: service_range(given)?,
        admission_plugins: plugins,
        owners: OwnerChecks { enforced: enforces_owners(given), ..OwnerChecks::default() },
        controllers: controllers(given)?,
        features: features(given)?,
        ..base
    })
}

/// One line for all flags that change nothing here.
fn say_what_is_ignored(given: &[GivenFlag]) {
    let harmless = |flag: &&GivenFlag| flag.name != "allow-privileged" || flag.value != "true";
    let ignored = given.iter().filter(|flag| !ACTED.contains(&flag.name)).filter(harmless);
    let mut names: Vec<String> = ignored.map(|flag| format!("--{}", flag.name)).collect();
    names.extend(issuers(given).skip(1).map(|issuer| format!("the issuer {issuer}")));
    names.extend(list(given, "runtime-config").map(|api| format!("--runtime-config={api}")));
    names.extend(service_ranges(given).skip(1).map(|range| format!("the range {range}")));
    names.dedup();
    if !names.is_empty() {
        let names = names.join(", ");
        tracing::warn!(ignored = names, "flags of kube-apiserver that change nothing here");
    }
}

fn listen(given: &[GivenFlag]) -> Result<SocketAddr, CommandError> {
    let address = match last(given, "bind-address") {
        None | Some("") => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        Some(text) => text.parse().map_err(|error| wrong("bind-address", &error))?,
    };
    let port: u16 = match last(given, "secure-port") {
        None => 6443,
        Some(text) => text.parse().map_err(|error| wrong("secure-port", &error))?,
    };
    if port == 0 {
        return Err(wrong("secure-port", &"a port from 1 to 65535 is needed"));
    }
    Ok(SocketAddr::new(address, port))
}

/// The files that are named, and those that lie where kube-apiserver looks for them.
fn certificates(given: &[GivenFlag]) -> CertificateFiles {
    let file = |name| last(given, name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = file("cert-dir").unwrap_or_else(|| PathBuf::from("/var/run/kubernetes"));
    let usual = (folder.join("apiserver.crt"), folder.join("apiserver.key"));
    let named = file("tls-cert-file").zip(file("tls-private-key-file"));
    CertificateFiles {
        serving: named.or_else(|| Some(usual).filter(|(pem, key)| pem.is_file() && key.is_file())),
        client_authorities: match file("client-ca-file") {
            Some(path) => ClientAuthorities::File(path),
            None => ClientAuthorities::Nobody,
        },
        token_key: file("service-account-signing-key-file"),
    }
}

fn authentication(
    given: &[GivenFlag],
    authorization: &AuthorizationSource,
) -> Result<AuthenticationOptions, CommandError> {
    let fixed_tokens = match last(given, "token-auth-file").filter(|path| !path.is_empty()) {
        None => FixedTokens::default(),
        Some(path) => {
            let text = read("token-auth-file", path)?;
            FixedTokens::read(&text).map_err(|error| wrong("token-auth-file", &error))?
        }
    };
    let allows_all = authorization::allows_all(authorization);
    let anonymous = switch(given, "anonymous-auth", true)?;
    if anonymous && allows_all {
        tracing::warn!("anonymous requests are refused, because the mode AlwaysAllow is on");
    }
    let issuer = issuers(given).next().map(str::to_owned);
    Ok(AuthenticationOptions { issuer, fixed_tokens, anonymous: anonymous && !allows_all })
}

fn read(name: &str, path: &str) -> Result<String, CommandError> {
    std::fs::read_to_string(path)
        .map_err(|error| wrong(name, &format!("`{path}` cannot be read: {error}")))
}

fn switch(given: &[GivenFlag], name: &str, usual: bool) -> Result<bool, CommandError> {
    let Some(value) = last(given, name) else { return Ok(usual) };
    is_on(value).ok_or_else(|| wrong(name, &format!("{value:?} is neither true nor false")))
}

fn seats(given: &[GivenFlag], name: &str, usual: u32) -> Result<u32, CommandError> {
    match last(given, name) {
        None => Ok(usual),
        // Upstream has no limit then.
        Some("0") => Ok(SEATS_MAX),
        Some(text) => {
            let number: u32 = text.parse().map_err(|error| wrong(name, &error))?;
            Ok(number.min(SEATS_MAX))
        }
    }
}

fn service_range(given: &[GivenFlag]) -> Result<ServiceRange, CommandError> {
    // Upstream's own, where nobody says more.
    let text = service_ranges(given).next().unwrap_or("10.0.0.0/24");
    ServiceRange::read(text).map_err(|error| wrong("service-cluster-ip-range", &error))
}

/// The ranges of Services: one for each family of addresses.
fn service_ranges(given: &[GivenFlag]) -> impl Iterator<Item = &str> {
    let text = last(given, "service-cluster-ip-range").unwrap_or_default();
    text.split(',').map(str::trim).filter(|range| !range.is_empty())
}

/// Who issues tokens, the first of them those of this server. A name may have commas.
fn issuers(given: &[GivenFlag]) -> impl Iterator<Item = &str> {
    let named = given.iter().filter(|flag| flag.name == "service-account-issuer");
    named.map(|flag| flag.value.as_str()).filter(|issuer| !issuer.is_empty())
}

fn plugins(given: &[GivenFlag]) -> Result<AdmissionPlugins, CommandError> {
    let (on, off) =
        (list(given, "enable-admission-plugins"), list(given, "disable-admission-plugins"));
    AdmissionPlugins::read(on, off)
        .map_err(|error| CommandError::new(error.to_string()).hint(error.hint()))
}

/// Off unless it is asked for, as upstream: suites that set owners may not hold the rights for it.
fn enforces_owners(given: &[GivenFlag]) -> bool {
    let name = format!("{:?}", AdmissionPlugin::OwnerReferencesPermissionEnforcement);
    list(given, "enable-admission-plugins").any(|plugin| plugin == name)
}

/// What the variable says, in the words of `--controllers`.
fn controllers(given: &[GivenFlag]) -> Result<Vec<String>, CommandError> {
    let said = environment::variable(CONTROLLERS).unwrap_or_default();
    let mut words = controller_words(&said.to_string_lossy());
    if !switch(given, "enable-garbage-collector", true)? {
        words.insert(0, "-garbagecollector".to_owned());
    }
    Ok(words)
}

/// `all`, `none`, names that run alone, or words as `--controllers` takes them.
fn controller_words(said: &str) -> Vec<String> {
    let named: Vec<&str> = said.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    let every = || "*".to_owned();
    match named.as_slice() {
        [] | ["all"] => return vec![every()],
        _ => {}
    }
    let word = |word: &&str| match *word {
        "all" => every(),
        "gc" => "garbagecollector".to_owned(),
        "-gc" => "-garbagecollector".to_owned(),
        word => word.to_owned(),
    };
    let mut words: Vec<String> = named.iter().filter(|word| **word != "none").map(word).collect();
    let all_but = words.iter().any(|word| word == "*" || word.starts_with('-'));
    if all_but {
        if !words.contains(&every()) {
            words.push(every());
        }
    } else {
        // What the API does by itself runs unless it is left out by name.
        words.extend(tenure_host::controller_names().iter().map(|name| format!("-{name}")));
    }
    words
}

/// Those that are features here; upstream's others are named in the log.
fn features(given: &[GivenFlag]) -> Result<Features, CommandError> {
    const NAME: &str = "feature-gates";
    let mut others = Vec::new();
    let mut own = Vec::new();
    for gate in list(given, NAME) {
        let Some((name, value)) = gate.split_once('=') else {
            return Err(wrong(NAME, &format!("missing bool value for {gate}")));
        };
        if is_on(value).is_none() {
            return Err(wrong(NAME, &format!("invalid value of {name}: {value:?} is no bool")));
        }
        match FEATURES.iter().any(|feature| feature.name == name) {
            true => own.push(gate),
            false => others.push(name),
        }
    }
    if !others.is_empty() {
        let gates = others.join(", ");
        tracing::warn!(gates, "feature gates that change nothing here");
    }
    Features::read(own).map_err(|error| wrong(NAME, &error))
}

/// Where requests are written down, and the policy that says how much of them.
fn audit(given: &[GivenFlag]) -> Option<AuditLog> {
    let named = |name| last(given, name).filter(|value| !value.is_empty());
    let file = named("audit-log-path")?;
    let Some(policy) = named("audit-policy-file") else {
        tracing::warn!("without `--audit-policy-file` nothing is audited");
        return None;
    };
    let file = Some(PathBuf::from(file)).filter(|file| file != Path::new("-"));
    // The policy takes the place of the level.
    Some(AuditLog { file, level: AuditLevel::Metadata, policy: Some(policy.into()) })
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.

    use super::*;

    /// What envtest passes.
    const USUAL: [&str; 12] = [
        "--allow-privileged=true",
        "--authorization-mode=RBAC",
        "--bind-address=127.0.0.1",
        "--cert-dir=/none",
        "--client-ca-file=/none/client-cert-auth-ca.crt",
        "--disable-admission-plugins=ServiceAccount",
        "--etcd-servers=http://127.0.0.1:1",
        "--secure-port=2",
        "--service-account-issuer=https://127.0.0.1:2/",
        "--service-account-key-file=/none/sa-signer.crt",
        "--service-account-signing-key-file=/none/sa-signer.key",
        "--service-cluster-ip-range=10.0.0.0/24",
    ];

    fn read(more: &[&str]) -> Result<Config, String> {
        let words: Vec<String> = USUAL.iter().chain(more).map(|&word| word.to_owned()).collect();
        let given = TABLE.read(&words).map_err(|error| error.to_string())?;
        config(&given).map_err(|problem| problem.to_string())
    }

    #[test]
    fn r173_what_envtest_passes_comes_to_a_server_that_keeps_nothing() {
        let config = read(&["", "--insecure-port=0", "--advertise-address=127.0.0.1"]).unwrap();
        assert_eq!(config.listen, ([127, 0, 0, 1], 2).into());
        assert!(config.data_dir.is_none() && !config.has_kubeconfig && config.nodes == 0);
        assert!(!config.admission_plugins.on(AdmissionPlugin::ServiceAccount));
        assert!(config.admission_plugins.on(AdmissionPlugin::LimitRanger));
        assert_eq!(config.service_range.to_string(), "10.0.0.0/24");
        assert_eq!(config.authentication.issuer.as_deref(), Some("https://127.0.0.1:2/"));
        let authorities = ClientAuthorities::File("/none/client-cert-auth-ca.crt".into());
        assert_eq!(config.certificates.client_authorities, authorities);
        assert_eq!(config.certificates.token_key, Some("/none/sa-signer.key".into()));
        assert_eq!(config.service_account_keys, [PathBuf::from("/none/sa-signer.crt")]);
        assert!(config.authentication.anonymous && !config.owners.enforced);
        let AuthorizationSource::Modes(modes) = config.authorization else { panic!("no modes") };
        assert_eq!(modes.modes, ["RBAC"]);
        assert!(config.certificates.serving.is_none(), "the files are not there");
    }

    #[test]
    fn r174_flags_that_must_work_do() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let words = [
            format!("--token-auth-file={}", file("tokens", "t,alice,1")),
            "--audit-policy-file=/policy".to_owned(),
            "--audit-log-path=/audit".to_owned(),
            "--authorization-mode=AlwaysAllow".to_owned(),
            "--feature-gates=ControllersAsOwners=false,WatchList=true".to_owned(),
            "--enable-admission-plugins=AlwaysPullImages,OwnerReferencesPermissionEnforcement"
                .to_owned(),
            "--max-requests-inflight=0".to_owned(),
            "--max-mutating-requests-inflight=7".to_owned(),
            "--event-ttl=2h0m0s".to_owned(),
            "--anonymous-auth=false".to_owned(),
            "--tls-cert-file=/c".to_owned(),
            "--tls-private-key-file=/k".to_owned(),
            "--runtime-config=api/all=true".to_owned(),
            "--goaway-chance=0".to_owned(),
        ];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let config = read(&words).unwrap();
        assert!(!config.authentication.anonymous && config.owners.enforced);
        assert!(format!("{:?}", config.authentication.fixed_tokens).contains("alice"));
        let audit = config.audit.unwrap();
        assert_eq!(audit.file, Some("/audit".into()));
        assert_eq!(audit.policy, Some("/policy".into()));
        assert!(!config.features.controllers_as_owners);
        assert!(config.admission_plugins.on(AdmissionPlugin::AlwaysPullImages));
        assert_eq!((config.limits.reads, config.limits.writes), (SEATS_MAX, 7));
        assert_eq!(config.event_life, Duration::from_secs(7200));
        assert_eq!(config.certificates.serving, Some(("/c".into(), "/k".into())));
    }

    #[test]
    fn r174_what_cannot_be_done_is_refused_with_a_reason() {
        for (word, why) in [
            ("--authentication-config=/x", "`--authentication-config` cannot be acted on"),
            ("--disable-admission-plugins=Nobody", "there is no admission plugin `Nobody`"),
            ("--insecure-port=8080", "nothing is served without TLS"),
            ("--secure-port=0", "a port from 1 to 65535 is needed"),
            ("--secure-port=many", "invalid digit"),
            ("--bind-address=here", "`--bind-address` cannot be acted on"),
            ("--service-cluster-ip-range=fd00::/108", "no range of IPv4 addresses"),
            ("--token-auth-file=/none", "`/none` cannot be read"),
            ("--feature-gates=WatchList", "missing bool value for WatchList"),
            ("--anonymous-auth=maybe", "\"maybe\" is neither true nor false"),
            ("--etcd-servers=", "--etcd-servers must be specified"),
            ("--event-ttl=soon", "`--event-ttl` cannot be acted on"),
            ("--target-ram-mb=1", "unknown flag: --target-ram-mb"),
        ] {
            let told = read(&[word]).unwrap_err();
            assert!(told.contains(why), "{word}: {told}");
        }
    }

    #[test]
    fn r181_a_variable_says_which_controllers_run() {
        assert_eq!(controller_words(""), ["*"]);
        assert_eq!(controller_words("all"), ["*"]);
        assert_eq!(controller_words("*,-job"), ["*", "-job"]);
        assert_eq!(controller_words("-gc"), ["-garbagecollector", "*"]);
        let none = controller_words("none");
        assert!(none.iter().all(|word| word.starts_with('-')), "{none:?}");
        assert!(none.contains(&"-garbagecollector".to_owned()) && none.len() > 20);
        let two = controller_words("gc, namespace");
        assert_eq!(two[..2], ["garbagecollector", "namespace"]);
        assert_eq!(two[2..], none[..]);
    }
}
