//! What upstream's end-to-end tests ask of the downward API, by their names (spec/downward-api.md,
//! section 23), as one table for every runtime. Each row is a pod, and what its log has to show.

use serde_json::{Value, json};

use super::house::{House, On};

/// How many pods run at once: together they ask for less than one processor.
const AT_ONCE: usize = 3;
/// Files of another user are behind a gate.
const FLAGS: [&str; 2] = ["--feature-gates", "AtomicWriteVolumeUserFields=true"];

/// One row.
struct Behaviour {
    /// Upstream's name of it.
    name: String,
    /// The pod, without name and image.
    pod: Value,
    /// What the log has to show.
    shows: Vec<Shows>,
    /// Changed once the log shows that, as kubectl's arguments; then it has to show the second text.
    then: Option<Then>,
}

/// A change to a running pod.
struct Then {
    after: &'static str,
    change: [&'static str; 3],
    shows: &'static str,
}

enum Shows {
    /// A line.
    Line(&'static str),
    /// The name of the pod, alone or after this.
    Name(&'static str),
    /// A line that begins so, and whose rest is good.
    Rest(&'static str, fn(&str) -> bool),
    /// A line that begins so and ends with a value of the node.
    Allocatable(&'static str, &'static str),
}

#[test]
fn upstreams_behaviours_on_the_runtime_process() {
    run(On::Process);
}

#[test]
fn upstreams_behaviours_on_the_runtime_cri() {
    run(On::Cri);
}

/// Runs the table and tells of every row how it went.
fn run(on: On) {
    let Some(house) = House::open(on, &FLAGS) else { return };
    let rows: Vec<Behaviour> = env().into_iter().chain(volume(false)).chain(volume(true)).collect();
    let mut failed = Vec::new();
    for (batch, rows) in rows.chunks(AT_ONCE).enumerate() {
        let name = |row: usize| format!("behaviour-{}", batch * AT_ONCE + row);
        for (row, behaviour) in rows.iter().enumerate() {
            house.create(&whole(&house, &name(row), behaviour));
        }
        for (row, behaviour) in rows.iter().enumerate() {
            let went = try_one(&house, &name(row), behaviour);
            println!("{} {}", if went.is_ok() { "ok" } else { "FAILED" }, behaviour.name);
            failed.extend(went.err().map(|why| format!("{}: {why}", behaviour.name)));
        }
    }
    println!("{on:?}: {} passed, {} failed", rows.len() - failed.len(), failed.len());
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

fn try_one(house: &House, pod: &str, behaviour: &Behaviour) -> Result<(), String> {
    if let Some(then) = &behaviour.then {
        house.log_with(pod, then.after);
        let [verb, key, value] = then.change;
        house.kubectl.ok(&[verb, "pod", pod, &format!("{key}={value}"), "--overwrite"]);
        house.log_with(pod, then.shows);
        house.delete_pod(pod);
        return Ok(());
    }
    let object = format!("pod/{pod}");
    let ended = |phase: &String| phase == "Succeeded" || phase == "Failed";
    let look = || house.kubectl.value(&object, ".status.phase");
    let phase = house.until(&format!("{pod} ends"), look, ended);
    let log = house.log(pod);
    if phase != "Succeeded" {
        let status = house.kubectl.value(&object, ".status");
        return Err(format!("{phase}: {log} {status}"));
    }
    for shows in &behaviour.shows {
        let good = log.lines().any(|line| good(house, pod, line, shows));
        if !good {
            return Err(format!("not in the log: {}\n{log}", said(shows)));
        }
    }
    Ok(())
}

fn good(house: &House, pod: &str, line: &str, shows: &Shows) -> bool {
    match shows {
        Shows::Line(text) => line == *text,
        Shows::Name(before) => line.strip_prefix(before) == Some(pod),
        Shows::Rest(before, good) => line.strip_prefix(before).is_some_and(good),
        Shows::Allocatable(before, resource) => {
            let node = house.kubectl.value(&format!("pod/{pod}"), ".spec.nodeName");
            let value = house.get(&format!("node/{node}"));
            let value = value["status"]["allocatable"][resource].as_str().map(bytes);
            line.strip_prefix(before).map(|rest| rest.parse().ok()) == Some(value)
        }
    }
}

fn said(shows: &Shows) -> String {
    match shows {
        Shows::Line(text) => format!("`{text}`"),
        Shows::Name(before) => format!("`{before}` and the name"),
        Shows::Rest(before, _) => format!("`{before}` and something good"),
        Shows::Allocatable(before, resource) => format!("`{before}` and {resource} of the node"),
    }
}

/// The bytes of a quantity as nodes write them.
fn bytes(quantity: &str) -> u64 {
    let digits = quantity.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let unit = match quantity.strip_prefix(digits).unwrap() {
        "" => 1,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        other => panic!("{other}"),
    };
    digits.parse::<u64>().unwrap() * unit
}

/// The pod with what all of them have.
fn whole(house: &House, name: &str, behaviour: &Behaviour) -> Value {
    let mut pod = behaviour.pod.clone();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!(name);
    pod["spec"]["restartPolicy"] = json!("Never");
    pod["spec"]["containers"][0]["image"] = json!(house.image());
    pod
}

fn field(path: &str) -> Value {
    json!({"fieldRef": {"apiVersion": "v1", "fieldPath": path}})
}

fn resource(resource: &str) -> Value {
    json!({"resourceFieldRef": {"resource": resource}})
}

fn is_address(text: &str) -> bool {
    text.parse::<std::net::IpAddr>().is_ok()
}

fn are_addresses(text: &str) -> bool {
    !text.is_empty() && text.split(',').all(is_address)
}

fn is_uid(text: &str) -> bool {
    let parts: Vec<usize> = text.split('-').map(str::len).collect();
    parts == [8, 4, 4, 4, 12] && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

fn is_number(text: &str) -> bool {
    text == "0" || is_more_than_zero(text)
}

fn is_more_than_zero(text: &str) -> bool {
    text.starts_with(|c: char| ('1'..='9').contains(&c)) && text.chars().all(|c| c.is_ascii_digit())
}

/// `[sig-node] Downward API`.
fn env() -> Vec<Behaviour> {
    let usual = json!({
        "requests": {"cpu": "250m", "memory": "32Mi"},
        "limits": {"cpu": "1250m", "memory": "64Mi"},
    });
    let row = |name: &str, resources: &Value, vars: &[(&str, Value)], shows: Vec<Shows>| {
        let vars = vars.iter().map(|(name, from)| json!({"name": name, "valueFrom": from}));
        let container = json!({
            "name": "dapi-container",
            "command": ["sh", "-c", "env"],
            "resources": resources,
            "env": vars.collect::<Vec<_>>(),
        });
        let name = format!("[sig-node] Downward API {name}");
        let pod = json!({"spec": {"containers": [container]}});
        Behaviour { name, pod, shows, then: None }
    };
    let none = json!({});
    let limits =
        [("CPU_LIMIT", resource("limits.cpu")), ("MEMORY_LIMIT", resource("limits.memory"))];
    let mut on_node = row(
        "should provide host IP and pod IP as an env var if pod uses host network [LinuxOnly]",
        &none,
        &[("HOST_IP", field("status.hostIP")), ("POD_IP", field("status.podIP"))],
        vec![Shows::Line("OK")],
    );
    on_node.pod["spec"]["hostNetwork"] = json!(true);
    let compare = "[ -n \"$HOST_IP\" ] && [ \"$HOST_IP\" = \"$POD_IP\" ] && echo OK";
    on_node.pod["spec"]["containers"][0]["command"] = json!(["sh", "-c", compare]);
    let mut of_pod = row(
        "should provide default limits.cpu/memory from pod level resources",
        &none,
        &limits,
        vec![Shows::Line("CPU_LIMIT=2"), Shows::Line("MEMORY_LIMIT=67108864")],
    );
    of_pod.pod["spec"]["resources"] = usual.clone();
    let mut of_both = row(
        "should provide default limits.cpu/memory from pod level resources or node allocatable",
        &none,
        &limits,
        vec![Shows::Line("CPU_LIMIT=2"), Shows::Allocatable("MEMORY_LIMIT=", "memory")],
    );
    of_both.pod["spec"]["resources"] = json!({
        "requests": {"cpu": "250m", "memory": "32Mi"},
        "limits": {"cpu": "1250m"},
    });
    let storage = "ephemeral-storage";
    vec![
        row(
            "should provide pod name, namespace and IP address as env vars",
            &usual,
            &[
                ("POD_NAME", field("metadata.name")),
                ("POD_NAMESPACE", field("metadata.namespace")),
                ("POD_IP", field("status.podIP")),
            ],
            vec![
                Shows::Name("POD_NAME="),
                Shows::Line("POD_NAMESPACE=shop"),
                Shows::Rest("POD_IP=", is_address),
            ],
        ),
        row(
            "should provide host IP as an env var",
            &usual,
            &[("HOST_IP", field("status.hostIP"))],
            vec![Shows::Rest("HOST_IP=", is_address)],
        ),
        row(
            "should provide hostIPs as an env var",
            &usual,
            &[("HOST_IPS", field("status.hostIPs"))],
            vec![Shows::Rest("HOST_IPS=", are_addresses)],
        ),
        on_node,
        row(
            "should provide container's limits.cpu/memory and requests.cpu/memory as env vars",
            &usual,
            &[
                limits[0].clone(),
                limits[1].clone(),
                ("CPU_REQUEST", resource("requests.cpu")),
                ("MEMORY_REQUEST", resource("requests.memory")),
            ],
            vec![
                Shows::Line("CPU_LIMIT=2"),
                Shows::Line("MEMORY_LIMIT=67108864"),
                Shows::Line("CPU_REQUEST=1"),
                Shows::Line("MEMORY_REQUEST=33554432"),
            ],
        ),
        row(
            "should provide default limits.cpu/memory from node allocatable",
            &none,
            &limits,
            vec![
                Shows::Rest("CPU_LIMIT=", is_more_than_zero),
                Shows::Allocatable("MEMORY_LIMIT=", "memory"),
            ],
        ),
        row(
            "should provide pod UID as env vars",
            &usual,
            &[("POD_UID", field("metadata.uid"))],
            vec![Shows::Rest("POD_UID=", is_uid)],
        ),
        row(
            "should provide container's limits.hugepages-<pagesize> and requests.hugepages-<pagesize> as env vars",
            &json!({
                "requests": {"cpu": "10m", "hugepages-2Mi": "0Mi"},
                "limits": {"hugepages-2Mi": "0Mi"},
            }),
            &[
                ("HUGEPAGES_LIMIT", resource("limits.hugepages-2Mi")),
                ("HUGEPAGES_REQUEST", resource("requests.hugepages-2Mi")),
            ],
            vec![Shows::Line("HUGEPAGES_LIMIT=0"), Shows::Line("HUGEPAGES_REQUEST=0")],
        ),
        row(
            "should provide default limits.hugepages-<pagesize> from node allocatable",
            &none,
            &[("HUGEPAGES_LIMIT", resource("limits.hugepages-2Mi"))],
            vec![Shows::Rest("HUGEPAGES_LIMIT=", is_number)],
        ),
        of_pod,
        of_both,
        row(
            "should provide container's limits.ephemeral-storage and requests.ephemeral-storage as env vars",
            &json!({"requests": {storage: "32Mi"}, "limits": {storage: "64Mi"}}),
            &[
                ("STORAGE_LIMIT", resource("limits.ephemeral-storage")),
                ("STORAGE_REQUEST", resource("requests.ephemeral-storage")),
            ],
            vec![Shows::Line("STORAGE_LIMIT=67108864"), Shows::Line("STORAGE_REQUEST=33554432")],
        ),
        row(
            "should provide default limits.ephemeral-storage from node allocatable",
            &none,
            &[("STORAGE_LIMIT", resource("limits.ephemeral-storage"))],
            vec![Shows::Rest("STORAGE_LIMIT=", is_more_than_zero)],
        ),
    ]
}

/// `[sig-storage] Downward API volume`, and the same list for projected volumes.
fn volume(projected: bool) -> Vec<Behaviour> {
    let group = if projected { "Projected downwardAPI" } else { "Downward API volume" };
    let plain = Volume { projected, ..Volume::default() };
    let row = |name: &str, volume: &Volume, script: &str, shows: Shows| Behaviour {
        name: format!("[sig-storage] {group} {name}"),
        pod: volume.pod(script),
        shows: vec![shows],
        then: None,
    };
    let update = |name: &str, metadata: Value, file: &str, then: Then| {
        let script = format!("while :; do cat /etc/podinfo/{file}; echo; sleep 0.2; done");
        let mut pod = Volume { map: file.to_owned(), ..plain.clone() }.pod(&script);
        pod["metadata"] = metadata;
        let name = format!("[sig-storage] {group} {name}");
        Behaviour { name, pod, shows: Vec::new(), then: Some(then) }
    };
    let cat = |file: &str| format!("cat /etc/podinfo/{file}; echo");
    let mode = "ls -lL /etc/podinfo/podname | cut -c 1-10";
    let owner = "ls -lnL /etc/podinfo/podname | awk '{print $3}'";
    let other = |security: Value| Volume { security, ..plain.clone() };
    let group_only = other(json!({"fsGroup": 1234, "runAsUser": 1000}));
    let limited = Volume { limited: true, ..plain.clone() };
    vec![
        row("should provide podname only", &plain, &cat("podname"), Shows::Name("")),
        row(
            "should set DefaultMode on files [LinuxOnly]",
            &Volume { default: json!({"defaultMode": 0o400}), ..plain.clone() },
            mode,
            Shows::Line("-r--------"),
        ),
        row(
            "should set DefaultUser on files [LinuxOnly]",
            &Volume { default: json!({"defaultUser": 1000}), ..other(json!({"runAsUser": 1000})) },
            owner,
            Shows::Line("1000"),
        ),
        row(
            "should set mode on item file [LinuxOnly]",
            &Volume { item: json!({"mode": 0o400}), ..plain.clone() },
            mode,
            Shows::Line("-r--------"),
        ),
        row(
            "should set user on item file [LinuxOnly]",
            &Volume { item: json!({"user": 1000}), ..other(json!({"runAsUser": 1000})) },
            owner,
            Shows::Line("1000"),
        ),
        row(
            "should provide podname as non-root with fsgroup [LinuxOnly]",
            &group_only,
            &cat("podname"),
            Shows::Name(""),
        ),
        row(
            "should provide podname as non-root with fsgroup and defaultMode [LinuxOnly]",
            &Volume { item: json!({"mode": 0o440}), ..group_only.clone() },
            mode,
            Shows::Line("-r--r-----"),
        ),
        update(
            "should update labels on modification",
            json!({"labels": {"key1": "value1", "key2": "value2"}}),
            "labels",
            Then {
                after: "key1=\"value1\"\n",
                change: ["label", "key3", "value3"],
                shows: "key3=\"value3\"\n",
            },
        ),
        update(
            "should update annotations on modification",
            json!({"annotations": {"builder": "bar"}}),
            "annotations",
            Then {
                after: "builder=\"bar\"\n",
                change: ["annotate", "builder", "foo"],
                shows: "builder=\"foo\"\n",
            },
        ),
        row("should provide container's cpu limit", &limited, &cat("cpu_limit"), Shows::Line("2")),
        row(
            "should provide container's memory limit",
            &limited,
            &cat("memory_limit"),
            Shows::Line("134217728"),
        ),
        row(
            "should provide container's cpu request",
            &limited,
            &cat("cpu_request"),
            Shows::Line("1"),
        ),
        row(
            "should provide container's memory request",
            &limited,
            &cat("memory_request"),
            Shows::Line("33554432"),
        ),
        row(
            "should provide node allocatable (cpu) as default cpu limit if the limit is not set",
            &plain,
            &cat("cpu_limit"),
            Shows::Rest("", is_more_than_zero),
        ),
        row(
            "should provide node allocatable (memory) as default memory limit if the limit is not set",
            &plain,
            &cat("memory_limit"),
            Shows::Allocatable("", "memory"),
        ),
    ]
}

/// A volume with the files that all these tests have.
#[derive(Clone, Default)]
struct Volume {
    projected: bool,
    /// More of the volume itself.
    default: Value,
    /// More of the file `podname`.
    item: Value,
    /// More of the pod's security context.
    security: Value,
    /// Whether the container has limits.
    limited: bool,
    /// A file of this name with the whole map.
    map: String,
}

impl Volume {
    fn pod(&self, script: &str) -> Value {
        let file = |path: &str, source: &str| {
            let container = "client-container";
            json!({"path": path, "resourceFieldRef": {"containerName": container, "resource": source}})
        };
        let mut name = field("metadata.name");
        merge(&mut name, &self.item);
        name["path"] = json!("podname");
        let mut items = vec![
            name,
            file("cpu_limit", "limits.cpu"),
            file("cpu_request", "requests.cpu"),
            file("memory_limit", "limits.memory"),
            file("memory_request", "requests.memory"),
        ];
        if !self.map.is_empty() {
            let mut map = field(&format!("metadata.{}", self.map));
            map["path"] = json!(self.map);
            items.push(map);
        }
        let items = json!({"items": items});
        let (kind, mut source) = match self.projected {
            true => ("projected", json!({"sources": [{"downwardAPI": items}]})),
            false => ("downwardAPI", items),
        };
        merge(&mut source, &self.default);
        let resources = match self.limited {
            true => json!({
                "requests": {"cpu": "250m", "memory": "32Mi"},
                "limits": {"cpu": "1250m", "memory": "128Mi"},
            }),
            false => json!({}),
        };
        json!({"spec": {
            "securityContext": if self.security.is_null() { json!({}) } else { self.security.clone() },
            "containers": [{
                "name": "client-container",
                "command": ["sh", "-c", script],
                "resources": resources,
                "volumeMounts": [{"name": "podinfo", "mountPath": "/etc/podinfo"}],
            }],
            "volumes": [{"name": "podinfo", kind: source}],
        }})
    }
}

/// Adds the members of one object to another.
fn merge(to: &mut Value, from: &Value) {
    for (key, value) in from.as_object().into_iter().flatten() {
        to[key] = value.clone();
    }
}
