//! A container of a pod in the words of a runtime: who it runs as, what it may use, what it sees.
//! Nothing is started here.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tenure_machinery::quantity::Quantity;
use tenure_machinery::{Object, ObjectExt as _};

use crate::runtime::{ContainerLimits, Dns, ImageUser, PodKey, SandboxConfig, Security};

/// The longest name a machine may have.
const HOSTNAME_MAX: usize = 63;
/// The domain of the cluster's names.
const CLUSTER_DOMAIN: &str = "cluster.local";

/// The folder of a pod's logs.
pub(crate) fn log_folder(logs: &Path, pod: &PodKey) -> PathBuf {
    logs.join(format!("{}_{}_{}", pod.namespace, pod.name, pod.uid))
}

/// The log file of an instance, below the folder of the pod.
pub(crate) fn log_file(container: &str, attempt: u32) -> PathBuf {
    Path::new(container).join(format!("{attempt}.log"))
}

/// Namespace, name and uid of a pod.
pub(crate) fn key(pod: &Object) -> PodKey {
    PodKey {
        namespace: pod.namespace().to_owned(),
        name: pod.name().to_owned(),
        uid: pod.str_at(&["metadata", "uid"]).unwrap_or_default().to_owned(),
    }
}

/// How the sandbox of a pod is made.
pub(crate) fn sandbox(
    pod: &Object,
    attempt: u32,
    logs: PathBuf,
    names: Option<&NameServers>,
) -> SandboxConfig {
    let flag = |name: &str| pod.bool_at(&["spec", name]).unwrap_or_default();
    let containers = pod.list_at(&["spec", "containers"]).iter().filter_map(Value::as_object);
    let ports = containers
        .flat_map(|container| container.list_at(&["ports"]))
        .filter_map(Value::as_object)
        .map(|port| {
            let number = |name: &str| {
                u16::try_from(port.int_at(&[name]).unwrap_or_default()).unwrap_or_default()
            };
            let protocol = port.str_at(&["protocol"]).unwrap_or("TCP").to_owned();
            (number("containerPort"), number("hostPort"), protocol)
        })
        .collect();
    let sysctls = pod.list_at(&["spec", "securityContext", "sysctls"]).iter();
    let sysctls = sysctls.filter_map(Value::as_object).map(|one| {
        let text = |name: &str| one.str_at(&[name]).unwrap_or_default().to_owned();
        (text("name"), text("value"))
    });
    SandboxConfig {
        pod: key(pod),
        attempt,
        hostname: hostname(pod),
        handler: String::new(),
        logs,
        host_network: flag("hostNetwork"),
        host_pid: flag("hostPID"),
        host_ipc: flag("hostIPC"),
        host_users: pod.bool_at(&["spec", "hostUsers"]).unwrap_or(true),
        share_processes: flag("shareProcessNamespace"),
        labels: texts(pod, "labels"),
        annotations: texts(pod, "annotations"),
        sysctls: sysctls.collect(),
        dns: dns(pod, &std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default(), names),
        ports,
        security: security(pod, &Object::new()),
    }
}

/// `hostname`, or the pod's name, as the name of a machine.
fn short_name(pod: &Object) -> &str {
    let said = pod.str_at(&["spec", "hostname"]).filter(|name| !name.is_empty());
    let name = said.unwrap_or_else(|| pod.name());
    name.get(..HOSTNAME_MAX).unwrap_or(name).trim_end_matches(['-', '.'])
}

/// The name with its domain, where the pod has a subdomain.
fn full_name(pod: &Object) -> Option<String> {
    let subdomain = pod.str_at(&["spec", "subdomain"]).filter(|name| !name.is_empty())?;
    Some(format!("{}.{subdomain}.{}.svc.{CLUSTER_DOMAIN}", short_name(pod), pod.namespace()))
}

/// What a pod sees as its own name: `hostnameOverride` before all, the name with its domain with
/// `setHostnameAsFQDN`.
fn hostname(pod: &Object) -> String {
    let own = pod.str_at(&["spec", "hostnameOverride"]).filter(|name| !name.is_empty());
    let own = own.filter(|_| pod.bool_at(&["spec", "hostNetwork"]) != Some(true));
    let whole = pod.bool_at(&["spec", "setHostnameAsFQDN"]) == Some(true);
    match own {
        Some(own) => own.to_owned(),
        None => full_name(pod).filter(|_| whole).unwrap_or_else(|| short_name(pod).to_owned()),
    }
}

fn texts(pod: &Object, name: &str) -> BTreeMap<String, String> {
    let map = pod.map_at(&["metadata", name]).into_iter().flatten();
    map.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// Who is asked for names in the network of pods, where there is one.
pub(crate) struct NameServers {
    /// For names of the cluster, and all others.
    pub(crate) cluster: IpAddr,
    /// For names that the machine knows.
    pub(crate) machine: IpAddr,
    /// The domain of the cluster.
    pub(crate) domain: &'static str,
}

/// The resolver of a pod. Without a server of names for the cluster `ClusterFirst` is the machine's. In a network
/// of their own pods do not reach the machine's servers, which are asked for them (N23).
fn dns(pod: &Object, node: &str, names: Option<&NameServers>) -> Dns {
    let mut dns = Dns::default();
    let policy = pod.str_at(&["spec", "dnsPolicy"]).unwrap_or("ClusterFirst");
    let on_node = pod.bool_at(&["spec", "hostNetwork"]) == Some(true);
    let of_cluster = policy == "ClusterFirstWithHostNet" || (policy == "ClusterFirst" && !on_node);
    if policy != "None" {
        for line in node.lines() {
            let mut words = line.split_whitespace().map(str::to_owned);
            match words.next().as_deref() {
                Some("nameserver") => dns.servers.extend(words.next()),
                Some("search") => dns.searches = words.collect(),
                Some("options") => dns.options.extend(words),
                _ => {}
            }
        }
        if let Some(names) = names {
            let server = if of_cluster { names.cluster } else { names.machine };
            dns.servers = vec![server.to_string()];
            if of_cluster {
                let NameServers { domain, .. } = names;
                let own = [
                    format!("{}.svc.{domain}", pod.namespace()),
                    format!("svc.{domain}"),
                    (*domain).to_owned(),
                ];
                dns.searches.splice(0..0, own);
                dns.options = vec!["ndots:5".to_owned()];
            }
        }
    }
    let own = |name: &str| {
        let list = pod.list_at(&["spec", "dnsConfig", name]).iter();
        list.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<String>>()
    };
    dns.servers.extend(own("nameservers"));
    dns.searches.extend(own("searches"));
    let options = pod.list_at(&["spec", "dnsConfig", "options"]).iter();
    dns.options.extend(options.filter_map(Value::as_object).map(|option| {
        let name = option.str_at(&["name"]).unwrap_or_default();
        option.str_at(&["value"]).map_or_else(|| name.to_owned(), |value| format!("{name}:{value}"))
    }));
    dns
}

/// User, groups and privileges: the container's word counts before the pod's.
pub(crate) fn security(pod: &Object, container: &Object) -> Security {
    let number = |name: &str| {
        let own = container.int_at(&["securityContext", name]);
        let value = own.or_else(|| pod.int_at(&["spec", "securityContext", name]))?;
        u32::try_from(value).ok()
    };
    let groups = pod.list_at(&["spec", "securityContext", "supplementalGroups"]).iter();
    let shared = pod.int_at(&["spec", "securityContext", "fsGroup"]);
    let mut groups: Vec<u32> = groups
        .filter_map(Value::as_i64)
        .chain(shared)
        .filter_map(|group| u32::try_from(group).ok())
        .collect();
    groups.dedup();
    let flag = |name: &str| container.bool_at(&["securityContext", name]);
    let capabilities = |name: &str| {
        let list = container.list_at(&["securityContext", "capabilities", name]).iter();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let profile = |of: &Object, path: &[&str]| {
        let text = |name: &str| of.str_at(&[path, &["seccompProfile", name]].concat());
        Some((text("type")?.to_owned(), text("localhostProfile").unwrap_or_default().to_owned()))
    };
    let seccomp = profile(container, &["securityContext"])
        .or_else(|| profile(pod, &["spec", "securityContext"]));
    Security {
        seccomp,
        uid: number("runAsUser"),
        gid: number("runAsGroup"),
        groups,
        privileged: flag("privileged").unwrap_or_default(),
        read_only_root: flag("readOnlyRootFilesystem").unwrap_or_default(),
        no_new_privileges: flag("allowPrivilegeEscalation") == Some(false),
        allow_escalation: flag("allowPrivilegeEscalation") == Some(true),
        add: capabilities("add"),
        drop: capabilities("drop"),
    }
}

/// Whether the container must not run as root: the container's word counts before the pod's.
pub(crate) fn refuses_root(pod: &Object, container: &Object) -> bool {
    let own = container.bool_at(&["securityContext", "runAsNonRoot"]);
    own.or_else(|| pod.bool_at(&["spec", "securityContext", "runAsNonRoot"])).unwrap_or_default()
}

/// Why a container that must not run as root could do so, in upstream's words.
pub(crate) fn may_be_root(asked: Option<u32>, image: Option<&ImageUser>) -> Option<String> {
    match (asked, image) {
        (Some(0), _) => Some("container's runAsUser breaks non-root policy".to_owned()),
        (Some(_), _) | (None, Some(ImageUser::Number(1..))) => None,
        (None, None | Some(ImageUser::Number(0))) => {
            Some("container has runAsNonRoot and image will run as root".to_owned())
        }
        // Only the image knows whose name it is, and an image may say that it is root's.
        (None, Some(ImageUser::Name(name))) => Some(format!(
            "container has runAsNonRoot and image has non-numeric user ({name}), cannot verify user \
             is non-root"
        )),
    }
}

/// The `fsGroup` of a pod.
pub(crate) fn fs_group(pod: &Object) -> Option<u32> {
    u32::try_from(pod.int_at(&["spec", "securityContext", "fsGroup"])?).ok()
}

/// Limits of a container; `memory` is what the node has.
pub(crate) fn limits(pod: &Object, container: &Object, memory: u64) -> ContainerLimits {
    let of = |list: &str, name: &str| {
        container.at(&["resources", list, name]).and_then(Quantity::from_value)
    };
    let request = of("requests", "cpu").or_else(|| of("limits", "cpu")).map_or(0, Quantity::milli);
    let memory_request = of("requests", "memory").map_or(0, Quantity::value);
    let score = match pod.str_at(&["status", "qosClass"]) {
        Some("Guaranteed") => -997,
        Some("Burstable") if memory > 0 => {
            let memory = i64::try_from(memory).unwrap_or(i64::MAX);
            let share = memory_request.saturating_mul(1000).checked_div(memory).unwrap_or_default();
            (1000 - share).clamp(3, 999)
        }
        _ => 1000,
    };
    ContainerLimits {
        cpu_shares: Some(u64::try_from(request * 1024 / 1000).unwrap_or_default().max(2)),
        cpu_quota: of("limits", "cpu").map(|limit| (limit.milli() * 100).max(1000)),
        memory: of("limits", "memory").map(Quantity::value),
        oom_score: Some(score),
    }
}

/// The text of a pod's own `/etc/hosts`.
pub(crate) fn hosts(pod: &Object, address: &str) -> String {
    let mut text = String::from(
        "# Kubernetes-managed hosts file.\n\
         127.0.0.1\tlocalhost\n\
         ::1\tlocalhost ip6-localhost ip6-loopback\n\
         fe00::0\tip6-localnet\n\
         fe00::0\tip6-mcastprefix\n\
         fe00::1\tip6-allnodes\n\
         fe00::2\tip6-allrouters\n",
    );
    let own = pod.str_at(&["spec", "hostnameOverride"]).filter(|name| !name.is_empty());
    match full_name(pod).filter(|_| own.is_none()) {
        Some(full) => text.push_str(&format!("{address}\t{full}\t{}\n", short_name(pod))),
        None => text.push_str(&format!("{address}\t{}\n", own.unwrap_or_else(|| short_name(pod)))),
    }
    text.push_str(&aliases(pod));
    text
}

/// The text of `/etc/hosts` in a pod that is on its node's network: what the node has, and the pod's aliases.
pub(crate) fn hosts_of_node(pod: &Object, node: &str) -> String {
    format!("# Kubernetes-managed hosts file (host network).\n{node}{}", aliases(pod))
}

fn aliases(pod: &Object) -> String {
    let mut text = String::new();
    let aliases = pod.list_at(&["spec", "hostAliases"]);
    if !aliases.is_empty() {
        text.push_str("\n# Entries added by HostAliases.\n");
    }
    for alias in aliases.iter().filter_map(Value::as_object) {
        let names: Vec<&str> =
            alias.list_at(&["hostnames"]).iter().filter_map(Value::as_str).collect();
        let ip = alias.str_at(&["ip"]).unwrap_or_default();
        text.push_str(&format!("{ip}\t{}\n", names.join("\t")));
    }
    text
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use serde_json::json;

    use super::*;

    #[test]
    fn r143_a_pod_on_the_network_of_its_node_has_the_hosts_of_the_node() {
        let pod = json!({"spec": {"hostNetwork": true,
            "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a.local", "b.local"]}]}});
        let text = hosts_of_node(pod.as_object().unwrap(), "127.0.0.1\tlocalhost\n");
        let expected = "# Kubernetes-managed hosts file (host network).\n127.0.0.1\tlocalhost\n\
            \n# Entries added by HostAliases.\n1.2.3.4\ta.local\tb.local\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn r143c_a_pod_has_the_name_it_asks_for() {
        let of = |spec: serde_json::Value| {
            let pod = json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec});
            let pod = pod.as_object().unwrap();
            let hosts = hosts(pod, "1.2.3.4");
            (
                sandbox(pod, 0, PathBuf::new(), None).hostname,
                hosts.lines().last().unwrap().to_owned(),
            )
        };
        let plain = |name: &str| (name.to_owned(), format!("1.2.3.4\t{name}"));
        assert_eq!(of(json!({})), plain("web"));
        assert_eq!(of(json!({"hostname": "own"})), plain("own"));
        assert_eq!(of(json!({"hostname": "own", "hostnameOverride": "a.b"})), plain("a.b"));
        assert_eq!(of(json!({"setHostnameAsFQDN": true})), plain("web"));
        let full = "own.sub.shop.svc.cluster.local";
        let lines = format!("1.2.3.4\t{full}\town");
        let within = json!({"hostname": "own", "subdomain": "sub"});
        assert_eq!(of(within), ("own".to_owned(), lines.clone()));
        let whole = json!({"hostname": "own", "subdomain": "sub", "setHostnameAsFQDN": true});
        assert_eq!(of(whole), (full.to_owned(), lines));
    }

    #[test]
    fn n23_resolvers_say_whom_pods_reach() {
        let machine = "nameserver 127.0.0.53\nsearch lan\noptions edns0\n";
        let names = NameServers {
            cluster: [10, 96, 0, 10].into(),
            machine: [10, 244, 0, 1].into(),
            domain: "cluster.local",
        };
        let of = |spec: Value, names: Option<&NameServers>| {
            let pod = json!({"metadata": {"namespace": "shop"}, "spec": spec});
            let Dns { servers, searches, options } = dns(pod.as_object().unwrap(), machine, names);
            format!("{} | {} | {}", servers.join(" "), searches.join(" "), options.join(" "))
        };
        let cluster =
            "10.96.0.10 | shop.svc.cluster.local svc.cluster.local cluster.local lan | ndots:5";
        let of_machine = "10.244.0.1 | lan | edns0";
        for (spec, expected) in [
            (json!({}), cluster),
            (json!({"dnsPolicy": "ClusterFirst"}), cluster),
            (json!({"dnsPolicy": "ClusterFirst", "hostNetwork": true}), of_machine),
            (json!({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": true}), cluster),
            (json!({"dnsPolicy": "Default"}), of_machine),
            (
                json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.1"],
                    "searches": ["x"], "options": [{"name": "ndots", "value": "2"}]}}),
                "192.0.2.1 | x | ndots:2",
            ),
        ] {
            assert_eq!(of(spec.clone(), Some(&names)), expected, "{spec}");
        }
        assert_eq!(of(json!({}), None), "127.0.0.53 | lan | edns0");
    }

    #[test]
    fn the_container_counts_before_the_pod() {
        let pod = json!({"spec": {"securityContext": {
            "runAsUser": 1, "runAsGroup": 2, "fsGroup": 9, "supplementalGroups": [7],
            "runAsNonRoot": true,
        }}});
        let pod = pod.as_object().unwrap();
        let container = json!({"securityContext": {
            "runAsUser": 5, "allowPrivilegeEscalation": false, "runAsNonRoot": false,
            "capabilities": {"drop": ["ALL"]},
        }});
        let container = container.as_object().unwrap();
        let found = security(pod, container);
        assert_eq!((found.uid, found.gid, found.groups), (Some(5), Some(2), vec![7, 9]));
        assert!(found.no_new_privileges && !found.privileged);
        assert_eq!(found.drop, ["ALL"]);
        assert!(!refuses_root(pod, container) && refuses_root(pod, &Object::new()));
    }

    #[test]
    fn r143b_who_must_not_be_root_has_a_number_that_is_not_roots() {
        let of = |asked, image: &str| may_be_root(asked, ImageUser::read(image).as_ref());
        assert_eq!(of(Some(5), "root"), None);
        assert_eq!(of(None, "7:app"), None);
        assert_eq!(of(Some(0), "7").unwrap(), "container's runAsUser breaks non-root policy");
        for root in ["", "0", "0:7", ":7"] {
            let why = of(None, root).unwrap();
            assert_eq!(why, "container has runAsNonRoot and image will run as root", "{root}");
        }
        for name in ["app", "-1", "4294967296"] {
            assert_eq!(
                of(None, &format!("{name}:7")).unwrap(),
                format!(
                    "container has runAsNonRoot and image has non-numeric user ({name}), cannot \
                     verify user is non-root"
                )
            );
        }
    }

    #[test]
    fn limits_are_what_the_kernel_counts_in() {
        let pod = json!({"status": {"qosClass": "Burstable"}});
        let container = json!({"resources": {
            "requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"cpu": "1500m", "memory": "1Gi"},
        }});
        let found = limits(pod.as_object().unwrap(), container.as_object().unwrap(), 1 << 30);
        assert_eq!(found.cpu_shares, Some(256));
        assert_eq!(found.cpu_quota, Some(150_000));
        assert_eq!(found.memory, Some(1 << 30));
        assert_eq!(found.oom_score, Some(500));
    }

    #[test]
    fn names_are_resolved_as_on_the_node_unless_told_otherwise() {
        let node = "nameserver 192.0.2.53\nsearch a b\noptions ndots:1\n";
        let pod = json!({"spec": {"dnsConfig": {"searches": ["c"], "options": [
            {"name": "ndots", "value": "2"}, {"name": "edns0"},
        ]}}});
        let found = dns(pod.as_object().unwrap(), node, None);
        assert_eq!(found.servers, ["192.0.2.53"]);
        assert_eq!(found.searches, ["a", "b", "c"]);
        assert_eq!(found.options, ["ndots:1", "ndots:2", "edns0"]);
        let alone = json!({"spec": {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["x"]}}});
        assert_eq!(dns(alone.as_object().unwrap(), node, None).servers, ["x"]);
    }
}
