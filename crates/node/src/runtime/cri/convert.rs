//! From what the agent asks to what CRI says, and back. Pure: nothing is sent here.

use std::net::IpAddr;

use jiff::Timestamp;

use super::messages as cri;
use crate::runtime::{
    Container, ContainerConfig, ContainerLimits, ContainerState, Dns, Image, ImageUser, Mount,
    PodKey, RuntimeError, SandboxConfig, Security,
};

/// Labels by which every kubelet finds its pods again.
pub(super) const POD_NAME: &str = "io.kubernetes.pod.name";
pub(super) const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
pub(super) const POD_UID: &str = "io.kubernetes.pod.uid";
pub(super) const CONTAINER_NAME: &str = "io.kubernetes.container.name";
/// Which agent a sandbox belongs to: several may share one runtime.
pub(super) const NODE: &str = "tenure.dev/node";
/// The whole [`SandboxConfig`]: a runtime wants it again with each container, also after the agent
/// began anew, and tells back only parts of it.
pub(super) const SANDBOX: &str = "tenure.dev/sandbox";
/// The image as the pod names it; runtimes tell a name of their own choice.
const IMAGE_NAME: &str = "tenure.dev/image";

const CPU_PERIOD: i64 = 100_000;
/// What a container that is not privileged must not see, as kubelets say it.
const MASKED: [&str; 10] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/firmware",
];
/// What it must not write.
const READ_ONLY: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];
/// Signals in the order of their numbers in CRI, which begin at 1.
const SIGNALS: [&str; 34] = [
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
];

/// The sandbox as CRI wants it (R151). `node_network` puts every pod into the node's network.
pub(super) fn sandbox(
    config: &SandboxConfig,
    node: &str,
    cgroup_parent: &str,
    node_network: bool,
) -> Result<cri::PodSandboxConfig, RuntimeError> {
    let whole = serde_json::to_string(config).map_err(|error| {
        RuntimeError::Failed(format!("the sandbox cannot be written down: {error}"))
    })?;
    let mut labels = config.labels.clone();
    labels.extend(pod_labels(&config.pod, node));
    let mut annotations = config.annotations.clone();
    annotations.insert(SANDBOX.to_owned(), whole);
    let on_node = config.host_network || node_network;
    let security = &config.security;
    Ok(cri::PodSandboxConfig {
        metadata: Some(cri::SandboxMetadata {
            name: config.pod.name.clone(),
            uid: config.pod.uid.clone(),
            namespace: config.pod.namespace.clone(),
            attempt: config.attempt,
        }),
        // The node's network comes with the node's name.
        hostname: if on_node { String::new() } else { config.hostname.clone() },
        log_directory: config.logs.to_string_lossy().into_owned(),
        dns: dns(&config.dns),
        ports: if on_node { Vec::new() } else { config.ports.iter().map(port).collect() },
        labels,
        annotations,
        linux: Some(cri::LinuxSandbox {
            cgroup_parent: cgroup_parent.to_owned(),
            security: Some(cri::SandboxSecurity {
                namespaces: Some(namespaces(config, node_network)),
                user: number(security.uid),
                // A group without a user is refused by runtimes.
                group: number(security.gid).filter(|_| security.uid.is_some()),
                groups: security.groups.iter().map(|group| i64::from(*group)).collect(),
                privileged: security.privileged,
                seccomp: Some(seccomp(security)),
            }),
            sysctls: config.sysctls.clone(),
        }),
    })
}

/// The container as CRI wants it (R152).
pub(super) fn container(
    config: &ContainerConfig,
    sandbox: &SandboxConfig,
    node: &str,
    node_network: bool,
) -> cri::CriContainerConfig {
    let mut labels = pod_labels(&sandbox.pod, node);
    labels.insert(CONTAINER_NAME.to_owned(), config.name.clone());
    let annotations = [
        (IMAGE_NAME, config.image_name.clone()),
        ("io.kubernetes.container.restartCount", config.attempt.to_string()),
    ];
    let mut mounts: Vec<cri::CriMount> = config.mounts.iter().map(mount).collect();
    if let Some((at, from)) = &config.termination {
        let from = Mount { at: at.clone(), from: from.clone(), ..Mount::default() };
        mounts.push(mount(&from));
    }
    let image = config.image.clone();
    cri::CriContainerConfig {
        metadata: Some(cri::ContainerMetadata {
            name: config.name.clone(),
            attempt: config.attempt,
        }),
        image: Some(cri::ImageSpec { image, user_specified: config.image_name.clone() }),
        command: config.command.clone(),
        args: config.args.clone(),
        working_dir: config.directory.clone(),
        envs: config
            .env
            .iter()
            .map(|(key, value)| cri::KeyValue { key: key.clone(), value: value.0.clone() })
            .collect(),
        mounts,
        labels,
        annotations: annotations.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        log_path: config.log.to_string_lossy().into_owned(),
        stdin: config.stdin,
        stdin_once: config.stdin_once,
        tty: config.tty,
        linux: Some(cri::LinuxContainer {
            resources: Some(resources(&config.limits)),
            security: Some(security(&config.security, namespaces(sandbox, node_network))),
        }),
        stop_signal: config.stop_signal.as_deref().map_or(0, signal),
    }
}

/// A container as the runtime shows it.
pub(super) fn shown(status: &cri::ContainerStatus, sandbox: &str) -> Container {
    let (name, attempt) = match &status.metadata {
        Some(metadata) => (metadata.name.clone(), metadata.attempt),
        None => Default::default(),
    };
    let image = match (status.annotations.get(IMAGE_NAME), &status.image) {
        (Some(name), _) => name.clone(),
        (None, Some(image)) => image.image.clone(),
        (None, None) => String::new(),
    };
    Container {
        id: status.id.clone(),
        sandbox: sandbox.to_owned(),
        name,
        attempt,
        image,
        image_id: status.image_ref.clone(),
        state: state(status),
    }
}

fn state(status: &cri::ContainerStatus) -> ContainerState {
    match status.state {
        cri::CONTAINER_CREATED => ContainerState::Created,
        cri::CONTAINER_RUNNING => ContainerState::Running { started: time(status.started_at) },
        cri::CONTAINER_EXITED => {
            let reason = match (status.reason.as_str(), status.exit_code) {
                ("", 0) => "Completed",
                ("", _) => "Error",
                (reason, _) => reason,
            };
            ContainerState::Exited {
                started: time(status.started_at),
                finished: time(status.finished_at),
                code: status.exit_code,
                reason: reason.to_owned(),
                message: status.message.clone(),
            }
        }
        _ => ContainerState::Unknown,
    }
}

/// Whose sandbox it is, by its labels; nobody's if they are missing.
pub(super) fn pod(labels: &cri::StringMap) -> Option<PodKey> {
    let label = |key: &str| labels.get(key).cloned();
    Some(PodKey { namespace: label(POD_NAMESPACE)?, name: label(POD_NAME)?, uid: label(POD_UID)? })
}

/// Addresses of a sandbox, the main one first.
pub(super) fn addresses(network: &cri::SandboxNetwork) -> Vec<IpAddr> {
    let all = std::iter::once(&network.ip).chain(network.more.iter().map(|more| &more.ip));
    all.filter_map(|text| text.parse().ok()).collect()
}

fn pod_labels(pod: &PodKey, node: &str) -> cri::StringMap {
    let pairs = [
        (POD_NAME, &*pod.name),
        (POD_NAMESPACE, &*pod.namespace),
        (POD_UID, &*pod.uid),
        (NODE, node),
    ];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn namespaces(config: &SandboxConfig, node_network: bool) -> cri::NamespaceOption {
    let of_node = |is: bool| if is { cri::NAMESPACE_NODE } else { cri::NAMESPACE_POD };
    cri::NamespaceOption {
        network: of_node(config.host_network || node_network),
        pid: match (config.host_pid, config.share_processes) {
            (true, _) => cri::NAMESPACE_NODE,
            (false, true) => cri::NAMESPACE_POD,
            (false, false) => cri::NAMESPACE_CONTAINER,
        },
        ipc: of_node(config.host_ipc),
    }
}

/// None asks for the node's own resolver.
fn dns(dns: &Dns) -> Option<cri::DnsConfig> {
    let all = cri::DnsConfig {
        servers: dns.servers.clone(),
        searches: dns.searches.clone(),
        options: dns.options.clone(),
    };
    (all != cri::DnsConfig::default()).then_some(all)
}

fn port((port, host_port, protocol): &(u16, u16, String)) -> cri::PortMapping {
    cri::PortMapping {
        protocol: match protocol.as_str() {
            "UDP" => 1,
            "SCTP" => 2,
            _ => 0,
        },
        container_port: i32::from(*port),
        host_port: i32::from(*host_port),
    }
}

fn mount(mount: &Mount) -> cri::CriMount {
    cri::CriMount {
        container_path: mount.at.clone(),
        host_path: mount.from.to_string_lossy().into_owned(),
        readonly: mount.read_only,
        selinux_relabel: false,
        propagation: match mount.propagation.as_deref() {
            Some("HostToContainer") => 1,
            Some("Bidirectional") => 2,
            _ => 0,
        },
    }
}

/// What a container may use.
pub(super) fn resources(limits: &ContainerLimits) -> cri::Resources {
    cri::Resources {
        cpu_period: limits.cpu_quota.map_or(0, |_| CPU_PERIOD),
        cpu_quota: limits.cpu_quota.unwrap_or_default(),
        cpu_shares: limits.cpu_shares.and_then(|n| i64::try_from(n).ok()).unwrap_or_default(),
        memory_limit: limits.memory.unwrap_or_default(),
        oom_score: limits.oom_score.unwrap_or_default(),
    }
}

fn security(security: &Security, namespaces: cri::NamespaceOption) -> cri::ContainerSecurity {
    let unless_privileged = |paths: &[&str]| match security.privileged {
        true => Vec::new(),
        false => paths.iter().map(|path| (*path).to_owned()).collect(),
    };
    cri::ContainerSecurity {
        capabilities: Some(cri::Capability {
            add: security.add.clone(),
            drop: security.drop.clone(),
        }),
        privileged: security.privileged,
        namespaces: Some(namespaces),
        user: number(security.uid),
        user_name: String::new(),
        group: number(security.gid),
        read_only_root: security.read_only_root,
        groups: security.groups.iter().map(|group| i64::from(*group)).collect(),
        no_new_privileges: security.no_new_privileges,
        masked_paths: unless_privileged(&MASKED),
        read_only_paths: unless_privileged(&READ_ONLY),
        seccomp: Some(seccomp(security)),
    }
}

/// Names the user that the image asks for; without one it is root.
pub(super) fn set_user(container: &mut cri::CriContainerConfig, user: Option<ImageUser>) {
    let security = container.linux.as_mut().and_then(|linux| linux.security.as_mut());
    let Some(security) = security else { return };
    match user {
        Some(ImageUser::Number(uid)) => security.user = number(Some(uid)),
        Some(ImageUser::Name(name)) => security.user_name = name,
        None => security.user = number(Some(0)),
    }
}

/// An image of the runtime.
pub(super) fn image(image: cri::CriImage, pulled: bool) -> Image {
    Image {
        id: image.repo_digests.first().unwrap_or(&image.id).clone(),
        uid: match image.uid {
            Some(uid) => u32::try_from(uid.value).ok().map(ImageUser::Number),
            None => ImageUser::read(&image.user_name),
        },
        reference: image.id,
        pulled,
    }
}

fn seccomp(security: &Security) -> cri::SecurityProfile {
    let (kind, file) = match &security.seccomp {
        Some((kind, _)) if kind == "RuntimeDefault" => (cri::PROFILE_DEFAULT, String::new()),
        Some((kind, file)) if kind == "Localhost" => (cri::PROFILE_LOCALHOST, file.clone()),
        _ => (cri::PROFILE_UNCONFINED, String::new()),
    };
    cri::SecurityProfile { kind, file }
}

fn number(number: Option<u32>) -> Option<cri::Int64Value> {
    number.map(|value| cri::Int64Value { value: i64::from(value) })
}

/// The number of a signal; 0, the runtime's own choice, for a name nobody knows.
fn signal(name: &str) -> i32 {
    let place = SIGNALS.iter().position(|known| *known == name);
    place.and_then(|place| i32::try_from(place + 1).ok()).unwrap_or_default()
}

fn time(nanoseconds: i64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(nanoseconds)).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use super::*;
    use crate::runtime::RedactedValue;

    fn of_pod() -> SandboxConfig {
        SandboxConfig {
            pod: PodKey { namespace: "n".into(), name: "p".into(), uid: "u".into() },
            attempt: 2,
            hostname: "p".into(),
            logs: "/logs/n_p_u".into(),
            labels: [("app".to_owned(), "a".to_owned())].into(),
            ports: vec![(80, 8080, "UDP".into())],
            ..SandboxConfig::default()
        }
    }

    #[test]
    fn r151_a_sandbox_says_whose_it_is_and_what_it_shares() {
        let made = sandbox(&of_pod(), "node-1", "", false).unwrap();
        let metadata = made.metadata.unwrap();
        assert_eq!((&*metadata.name, &*metadata.namespace, &*metadata.uid), ("p", "n", "u"));
        assert_eq!(metadata.attempt, 2);
        assert_eq!(made.log_directory, "/logs/n_p_u");
        assert_eq!(made.hostname, "p");
        assert_eq!(made.labels["app"], "a");
        assert_eq!(pod(&made.labels), Some(of_pod().pod));
        assert_eq!((made.ports[0].protocol, made.ports[0].host_port), (1, 8080));
        let security = made.linux.unwrap().security.unwrap();
        let expected = cri::NamespaceOption { network: 0, pid: 1, ipc: 0 };
        assert_eq!(security.namespaces, Some(expected));
        // No settings: the resolver of the node.
        assert_eq!(made.dns, None);
    }

    #[test]
    fn r151_the_network_of_the_node_has_its_name_and_its_ports() {
        let asked =
            SandboxConfig { host_network: true, host_pid: true, host_ipc: true, ..of_pod() };
        for (config, forced) in [(asked, false), (of_pod(), true)] {
            let made = sandbox(&config, "node-1", "", forced).unwrap();
            assert!(made.hostname.is_empty() && made.ports.is_empty());
            let namespaces = made.linux.unwrap().security.unwrap().namespaces.unwrap();
            assert_eq!(namespaces.network, cri::NAMESPACE_NODE);
            assert_eq!(namespaces.pid == cri::NAMESPACE_NODE, config.host_pid);
            assert_eq!(namespaces.ipc == cri::NAMESPACE_NODE, config.host_ipc);
        }
    }

    #[test]
    fn r152_a_container_carries_all_that_the_agent_decided() {
        let config = ContainerConfig {
            name: "c".into(),
            attempt: 3,
            image: "sha256:1".into(),
            image_name: "busybox".into(),
            command: vec!["sh".into()],
            args: vec!["-c".into(), "true".into()],
            env: vec![("KEY".into(), RedactedValue(vec![0xff]))],
            mounts: vec![Mount {
                at: "/etc/podinfo".into(),
                from: "/volumes/podinfo".into(),
                read_only: true,
                propagation: Some("HostToContainer".into()),
            }],
            log: "c/3.log".into(),
            termination: Some(("/dev/termination-log".into(), "/messages/c".into())),
            stop_signal: Some("SIGUSR1".into()),
            limits: ContainerLimits {
                cpu_quota: Some(50_000),
                memory: Some(1 << 20),
                ..ContainerLimits::default()
            },
            security: Security {
                uid: Some(7),
                add: vec!["NET_ADMIN".into()],
                ..Security::default()
            },
            ..ContainerConfig::default()
        };
        let made = container(&config, &of_pod(), "node-1", false);
        assert_eq!(made.metadata.unwrap().attempt, 3);
        assert_eq!(made.labels[CONTAINER_NAME], "c");
        assert_eq!(made.labels[POD_UID], "u");
        assert_eq!(made.log_path, "c/3.log");
        assert_eq!(made.envs[0].value, [0xff]);
        assert_eq!(made.mounts.len(), 2);
        assert!(made.mounts[0].readonly && made.mounts[0].propagation == 1);
        assert_eq!(made.mounts[1].container_path, "/dev/termination-log");
        assert_eq!(made.stop_signal, 29);
        let linux = made.linux.unwrap();
        let resources = linux.resources.unwrap();
        assert_eq!((resources.cpu_period, resources.cpu_quota), (CPU_PERIOD, 50_000));
        let security = linux.security.unwrap();
        assert_eq!(security.user.unwrap().value, 7);
        assert_eq!(security.masked_paths.len(), MASKED.len());
        let privileged = Security { privileged: true, ..Security::default() };
        let bare = super::security(&privileged, cri::NamespaceOption::default());
        assert!(bare.masked_paths.is_empty() && bare.read_only_paths.is_empty());
    }

    #[test]
    fn r154_a_sandbox_is_read_back_whole_from_what_the_runtime_keeps() {
        let made = sandbox(&of_pod(), "node-1", "", false).unwrap();
        let read: SandboxConfig = serde_json::from_str(&made.annotations[SANDBOX]).unwrap();
        assert_eq!(sandbox(&read, "node-1", "", false).unwrap(), made);
    }

    #[test]
    fn an_end_without_a_reason_gets_the_usual_one() {
        let ended = |exit_code, reason: &str| {
            let reason = reason.to_owned();
            let state = cri::CONTAINER_EXITED;
            let status = cri::ContainerStatus { state, exit_code, reason, ..Default::default() };
            match shown(&status, "s").state {
                ContainerState::Exited { reason, .. } => reason,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(ended(0, ""), "Completed");
        assert_eq!(ended(1, ""), "Error");
        assert_eq!(ended(137, "OOMKilled"), "OOMKilled");
    }

    #[test]
    fn a_filter_for_system_calls_is_passed_on_and_none_is_made_up() {
        let kind = |kind: Option<&str>| {
            let seccomp = kind.map(|kind| (kind.to_owned(), "profiles/a.json".to_owned()));
            let made = super::seccomp(&Security { seccomp, ..Security::default() });
            (made.kind, made.file)
        };
        assert_eq!(kind(None), (cri::PROFILE_UNCONFINED, String::new()));
        assert_eq!(kind(Some("RuntimeDefault")), (cri::PROFILE_DEFAULT, String::new()));
        assert_eq!(kind(Some("Localhost")), (cri::PROFILE_LOCALHOST, "profiles/a.json".into()));
    }

    #[test]
    fn signals_have_the_numbers_of_cri() {
        let numbers = ["SIGABRT", "SIGINT", "SIGTERM", "SIGXFSZ", "SIGNONE"].map(signal);
        assert_eq!(numbers, [1, 10, 23, 34, 0]);
    }

    #[test]
    fn r143b_a_user_that_an_image_names_is_not_taken_for_root() {
        let of = |uid: Option<i64>, name: &str| {
            let uid = uid.map(|value| cri::Int64Value { value });
            image(
                cri::CriImage { uid, user_name: name.to_owned(), ..cri::CriImage::default() },
                false,
            )
            .uid
        };
        assert_eq!(of(Some(7), ""), Some(ImageUser::Number(7)));
        assert_eq!(of(None, "app"), Some(ImageUser::Name("app".to_owned())));
        assert_eq!((of(None, ""), of(Some(-1), "")), (None, None));
        let made = |user| {
            let security = Some(cri::ContainerSecurity::default());
            let linux = Some(cri::LinuxContainer { security, ..cri::LinuxContainer::default() });
            let mut made = cri::CriContainerConfig { linux, ..cri::CriContainerConfig::default() };
            set_user(&mut made, user);
            let security = made.linux.unwrap().security.unwrap();
            (security.user.map(|user| user.value), security.user_name)
        };
        assert_eq!(made(of(None, "app")), (None, "app".to_owned()));
        assert_eq!(made(of(Some(7), "")), (Some(7), String::new()));
        assert_eq!(made(None), (Some(0), String::new()));
    }
}
