//! The rows of the table, and the objects that their volumes show.

use serde_json::{Value, json};

use super::{Row, Shows, Then};

/// How many ConfigMaps one pod mounts at once.
const MANY: usize = 50;
pub(super) const TOKENS: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// What volumes are made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    ConfigMap,
    Secret,
    ProjectedConfigMap,
    ProjectedSecret,
}

use Source::{ConfigMap, ProjectedConfigMap, ProjectedSecret, Secret};

const SOURCES: [Source; 4] = [ConfigMap, Secret, ProjectedConfigMap, ProjectedSecret];

impl Source {
    /// How upstream's names of it begin.
    fn name(self) -> &'static str {
        match self {
            ConfigMap => "[sig-storage] ConfigMap",
            Secret => "[sig-storage] Secrets",
            ProjectedConfigMap => "[sig-storage] Projected configMap",
            ProjectedSecret => "[sig-storage] Projected secret",
        }
    }

    fn is_secret(self) -> bool {
        matches!(self, Secret | ProjectedSecret)
    }

    /// The kind of object that it shows, as kubectl calls it.
    fn kind(self) -> &'static str {
        if self.is_secret() { "secret" } else { "configmap" }
    }

    /// What a volume of it holds: an object, of which `items` may be chosen, and more of the volume.
    fn volume(self, object: &str, items: &Value, optional: bool, more: &Value) -> Value {
        let mut source = json!({ "optional": optional });
        if !items.is_null() {
            source["items"] = items.clone();
        }
        source[if self == Secret { "secretName" } else { "name" }] = json!(object);
        let (kind, mut volume) = match self {
            ConfigMap => ("configMap", source),
            Secret => ("secret", source),
            ProjectedConfigMap => ("projected", json!({ "sources": [{ "configMap": source }] })),
            ProjectedSecret => ("projected", json!({ "sources": [{ "secret": source }] })),
        };
        for (member, value) in more.as_object().into_iter().flatten() {
            volume[member] = value.clone();
        }
        json!({ kind: volume })
    }

    /// A volume of the object that is always there.
    fn plain(self) -> Value {
        self.volume("data", &Value::Null, false, &Value::Null)
    }
}

fn object(kind: &str, name: &str, data: &Value) -> Value {
    let member = if kind == "Secret" { "stringData" } else { "data" };
    json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name }, member: data })
}

/// The objects that are there before any pod, and their namespaces.
pub(super) fn objects() -> Vec<(&'static str, Value)> {
    let data = json!({ "data-1": "value-1", "data-2": "value-2" });
    let elsewhere = object("Secret", "data", &json!({ "data-1": "of another namespace" }));
    let mut all = vec![object("ConfigMap", "data", &data), object("Secret", "data", &data)];
    for number in 0..MANY {
        let data = json!({ "data-1": number.to_string() });
        all.push(object("ConfigMap", &format!("many-{number}"), &data));
    }
    for source in SOURCES {
        let kind = if source.is_secret() { "Secret" } else { "ConfigMap" };
        for role in ["changed", "goes"] {
            all.push(object(kind, &role_of(source, role), &json!({ "data-1": "value-1" })));
        }
    }
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": all });
    vec![("default", elsewhere), ("shop", list)]
}

/// The object of a source that has this part in the rows about changes.
fn role_of(source: Source, role: &str) -> String {
    let number = SOURCES.iter().position(|one| *one == source).unwrap();
    format!("{role}-{number}")
}

/// A pod with one container that runs a script, with these volumes below `/volumes`.
fn pod(script: &str, volumes: &[(&str, Value)]) -> Value {
    let mounts = volumes
        .iter()
        .map(|(name, _)| json!({ "name": name, "mountPath": format!("/volumes/{name}") }));
    let volumes = volumes.iter().map(|(name, source)| {
        let mut volume = source.clone();
        volume["name"] = json!(name);
        volume
    });
    json!({ "spec": {
        "containers": [{
            "name": "c", "command": ["sh", "-c", script], "volumeMounts": mounts.collect::<Vec<_>>(),
        }],
        "volumes": volumes.collect::<Vec<_>>(),
    }})
}

fn row(name: String, pod: Value, shows: &[&str]) -> Row {
    let shows = shows.iter().map(|line| Shows::Line((*line).to_owned())).collect();
    Row { name, pod, shows, then: Vec::new() }
}

/// The same pod, run by this user.
fn as_user(mut pod: Value, security: Value) -> Value {
    pod["spec"]["securityContext"] = security;
    pod
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = SOURCES.into_iter().flat_map(of_source).collect();
    rows.extend(SOURCES.into_iter().map(optional_updates));
    rows.extend([ConfigMap, ProjectedConfigMap].map(updates));
    rows.extend(["default", "tmpfs"].into_iter().flat_map(empty));
    rows.extend([shared(), combined(), other_namespace(), side_by_side()]);
    rows.extend((0..5).map(|_| many()));
    rows.extend(sub_paths());
    rows.extend([api_token(), projected_token()]);
    rows
}

/// What is asked of all four alike.
fn of_source(source: Source) -> Vec<Row> {
    let read = |file: &str| {
        format!(
            "cat /volumes/v/{file}; echo; stat -L -c 'mode %a' /volumes/v/{file}; echo user $(id -u)"
        )
    };
    let items = json!([{ "key": "data-2", "path": "path/to/data-2" }]);
    let moded = json!([{ "key": "data-2", "path": "path/to/data-2", "mode": 0o400 }]);
    let make = |name: &str, file: &str, items: &Value, more: &Value, shows: &[&str]| {
        let volume = source.volume("data", items, false, more);
        row(format!("{} {name}", source.name()), pod(&read(file), &[("v", volume)]), shows)
    };
    let person = json!({ "runAsUser": 1000 });
    let (none, mapped) = (&Value::Null, "path/to/data-2");
    let mut rows = vec![
        make(
            "should be consumable from pods in volume",
            "data-1",
            none,
            none,
            &["value-1", "mode 644"],
        ),
        make(
            "should be consumable from pods in volume with defaultMode set [LinuxOnly]",
            "data-1",
            none,
            &json!({ "defaultMode": 0o400 }),
            &["value-1", "mode 400"],
        ),
        make(
            "should be consumable from pods in volume with mappings",
            mapped,
            &items,
            none,
            &["value-2", "mode 644"],
        ),
        make(
            match source.is_secret() {
                true => {
                    "should be consumable from pods in volume with mappings and Item Mode set [LinuxOnly]"
                }
                false => {
                    "should be consumable from pods in volume with mappings and Item mode set [LinuxOnly]"
                }
            },
            mapped,
            &moded,
            none,
            &["value-2", "mode 400"],
        ),
    ];
    if source.is_secret() {
        let volume = source.volume("data", none, false, &json!({ "defaultMode": 0o440 }));
        let group = json!({ "runAsUser": 1000, "fsGroup": 1001 });
        rows.push(row(
            format!(
                "{} should be consumable from pods in volume as non-root with defaultMode and fsGroup set [LinuxOnly]",
                source.name()
            ),
            as_user(pod(&read("data-1"), &[("v", volume)]), group),
            &["value-1", "mode 440", "user 1000"],
        ));
    } else {
        for (name, file, items, shows) in [
            ("as non-root", "data-1", none, "value-1"),
            ("with mappings as non-root", mapped, &items, "value-2"),
        ] {
            let mut made = make(
                &format!("should be consumable from pods in volume {name}"),
                file,
                items,
                none,
                &[shows, "user 1000"],
            );
            made.pod = as_user(made.pod, person.clone());
            rows.push(made);
        }
    }
    let twice = if source.is_secret() { "a pod" } else { "the same pod" };
    rows.push(row(
        format!("{} should be consumable in multiple volumes in {twice}", source.name()),
        pod(
            "echo $(cat /volumes/a/data-1) $(cat /volumes/b/data-1)",
            &[("a", source.plain()), ("b", source.plain())],
        ),
        &["value-1 value-1"],
    ));
    rows
}

/// Says again and again what is in a file of each of these volumes.
fn repeats(volumes: &[&str]) -> String {
    let each = volumes.iter().map(|name| {
        format!("if [ -e /volumes/{name}/data-1 ]; then echo {name} $(cat /volumes/{name}/data-1); else echo {name} none; fi;")
    });
    format!("while :; do {} sleep 0.2; done", each.collect::<String>())
}

fn replaced(source: Source, object: &str) -> Then {
    let member = if source.is_secret() { "stringData" } else { "data" };
    let patch = json!({ member: { "data-1": "value-3" } }).to_string();
    let change = ["patch", source.kind(), object, "--type=merge", "--patch", &patch];
    Then { change: change.map(str::to_owned).to_vec(), shows: "changed value-3".to_owned() }
}

/// Of three objects that may be absent, one goes, one changes and one comes.
fn optional_updates(source: Source) -> Row {
    let [goes, changed, comes] = ["goes", "changed", "comes"].map(|role| role_of(source, role));
    let volume = |object: &str| source.volume(object, &Value::Null, true, &Value::Null);
    let volumes =
        [("goes", volume(&goes)), ("changed", volume(&changed)), ("comes", volume(&comes))];
    let create: &[&str] = if source.is_secret() {
        &["create", "secret", "generic"]
    } else {
        &["create", "configmap"]
    };
    let create = [create, &[&comes, "--from-literal=data-1=value-1"]].concat();
    Row {
        name: format!("{} optional updates should be reflected in volume", source.name()),
        pod: pod(&repeats(&["goes", "changed", "comes"]), &volumes),
        shows: ["goes value-1", "changed value-1", "comes none"]
            .map(|line| Shows::Line(line.into()))
            .into(),
        then: vec![
            Then {
                change: ["delete", source.kind(), &goes].map(str::to_owned).to_vec(),
                shows: "goes none".to_owned(),
            },
            replaced(source, &changed),
            Then {
                change: create.into_iter().map(str::to_owned).collect(),
                shows: "comes value-1".to_owned(),
            },
        ],
    }
}

fn updates(source: Source) -> Row {
    // What `optional_updates` of the other one does not touch.
    let object = if source == ConfigMap { "many-0" } else { "many-1" };
    let volume = source.volume(object, &Value::Null, false, &Value::Null);
    let number = object.trim_start_matches("many-");
    Row {
        name: format!("{} updates should be reflected in volume", source.name()),
        pod: pod(&repeats(&["changed"]), &[("changed", volume)]),
        shows: vec![Shows::Line(format!("changed {number}"))],
        then: vec![replaced(source, object)],
    }
}

/// `[sig-storage] EmptyDir volumes`, on one medium: a file of each mode, by root and by somebody else.
fn empty(medium: &'static str) -> Vec<Row> {
    let volume = match medium {
        "tmpfs" => json!({ "emptyDir": { "medium": "Memory" } }),
        _ => json!({ "emptyDir": {} }),
    };
    let mut rows = Vec::new();
    for (who, uid) in [("root", 0), ("non-root", 1001)] {
        for mode in ["0644", "0666", "0777"] {
            let script = format!(
                "umask 0; f=/volumes/v/file; echo content > $f && chmod {mode} $f && cat $f; \
                 stat -c 'mode %a of %u' $f; stat -c 'folder %a' /volumes/v; \
                 echo on $(stat -f -c %T /volumes/v)"
            );
            let own = format!("mode {} of {uid}", mode.trim_start_matches('0'));
            let mut shows = vec!["content", &own, "folder 777"];
            if medium == "tmpfs" {
                shows.push("on tmpfs");
            }
            let name = format!(
                "[sig-storage] EmptyDir volumes should support ({who},{mode},{medium}) [LinuxOnly]"
            );
            let made = as_user(pod(&script, &[("v", volume.clone())]), json!({ "runAsUser": uid }));
            rows.push(row(name, made, &shows));
        }
    }
    rows
}

/// One container writes what the other one reads.
fn shared() -> Row {
    let name =
        "[sig-storage] EmptyDir volumes pod should support shared volumes between containers";
    let script = "until [ -s /volumes/v/said ]; do sleep 0.1; done; cat /volumes/v/said";
    let mut made = pod(script, &[("v", json!({ "emptyDir": {} }))]);
    let other = json!({
        "name": "other", "command": ["sh", "-c", "echo hello > /data/new && mv /data/new /data/said"],
        "volumeMounts": [{ "name": "v", "mountPath": "/data" }],
    });
    made["spec"]["containers"].as_array_mut().unwrap().push(other);
    row(name.to_owned(), made, &["hello"])
}

/// All kinds of sources in one volume.
fn combined() -> Row {
    let name = "[sig-storage] Projected combined should project all components that make up the projection API [Projection]";
    let item = |to: &str| json!([{ "key": "data-1", "path": to }]);
    let sources = json!([
        { "secret": { "name": "data", "items": item("of-secret") } },
        { "configMap": { "name": "data", "items": item("of-config") } },
        { "downwardAPI": { "items": [{ "path": "name", "fieldRef": { "fieldPath": "metadata.name" } }] } },
    ]);
    let script = "cd /volumes/v; echo $(cat of-secret of-config); cat name";
    let volume = json!({ "projected": { "sources": sources } });
    let mut made = row(name.to_owned(), pod(script, &[("v", volume)]), &["value-1value-1"]);
    made.shows.push(Shows::Name);
    made
}

fn other_namespace() -> Row {
    let name = "[sig-storage] Secrets should be able to mount in a volume regardless of a different secret existing with same name in different namespace";
    row(name.to_owned(), pod("cat /volumes/v/data-1; echo", &[("v", Secret.plain())]), &["value-1"])
}

fn side_by_side() -> Row {
    let name = "[sig-storage] EmptyDir wrapper volumes should not conflict";
    let volumes =
        [("a", Secret.plain()), ("b", ConfigMap.plain()), ("c", json!({ "emptyDir": {} }))];
    let script = "echo $(cat /volumes/a/data-1) $(cat /volumes/b/data-2) $(ls /volumes/c | wc -l)";
    row(name.to_owned(), pod(script, &volumes), &["value-1 value-2 0"])
}

/// One of several pods that mount many ConfigMaps at once.
fn many() -> Row {
    let name = "[sig-storage] EmptyDir wrapper volumes should not cause race condition when used for configmaps";
    let names: Vec<String> = (2..MANY).map(|number| format!("many-{number}")).collect();
    let of = |name: &str| ConfigMap.volume(name, &Value::Null, false, &Value::Null);
    let volumes: Vec<(&str, Value)> = names.iter().map(|name| (name.as_str(), of(name))).collect();
    let script =
        "for n in /volumes/many-*; do [ $(cat $n/data-1) = ${n##*-} ] && echo; done | wc -l";
    row(name.to_owned(), pod(script, &volumes), &[&names.len().to_string()])
}

fn sub_paths() -> Vec<Row> {
    let item = |to: &str| json!([{ "key": "data-1", "path": to }]);
    let downward = json!({ "downwardAPI": { "items": [
        { "path": "downward/podname", "fieldRef": { "fieldPath": "metadata.name" } },
    ]}});
    let projected = ProjectedConfigMap.volume("data", &item("projected/data"), false, &Value::Null);
    let script = |file: &str| {
        format!(
            "for n in 1 2 3 4 5 6; do cat {file}; echo; sleep 0.1; done | sort -u; [ -f {file} ] && echo a file"
        )
    };
    let existing = "configmap pod with mountPath of existing file";
    let table = [
        ("configmap pod", ConfigMap.plain(), "data-1", "/volumes/v"),
        (existing, ConfigMap.plain(), "data-1", "/etc/resolv.conf"),
        ("downward pod", downward, "downward/podname", "/volumes/v"),
        ("projected pod", projected, "projected/data", "/volumes/v"),
        ("secret pod", Secret.plain(), "data-1", "/volumes/v"),
    ];
    let make = |(name, volume, sub, path): (&str, Value, &str, &str)| {
        let mut made = pod(&script(path), &[("v", volume)]);
        let mount = &mut made["spec"]["containers"][0]["volumeMounts"][0];
        mount["subPath"] = json!(sub);
        mount["mountPath"] = json!(path);
        let name = format!(
            "[sig-storage] Subpath Atomic writer volumes should support subpaths with {name}"
        );
        let mut made = row(name, made, &["a file"]);
        made.shows.push(if sub.starts_with("downward") {
            Shows::Name
        } else {
            Shows::Line("value-1".into())
        });
        made
    };
    table.map(make).into()
}

fn is_token(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    parts.len() == 3 && parts.iter().all(|part| part.len() > 20)
}

fn api_token() -> Row {
    let name = "[sig-auth] ServiceAccounts should mount an API token into pods";
    let script = format!(
        "cd {TOKENS}; echo token $(cat token); echo namespace $(cat namespace); head -n 1 ca.crt"
    );
    let mut made =
        row(name.to_owned(), pod(&script, &[]), &["namespace shop", "-----BEGIN CERTIFICATE-----"]);
    made.shows.push(Shows::Rest("token ", is_token));
    made
}

fn projected_token() -> Row {
    let name = "[sig-auth] ServiceAccounts should mount projected service account token";
    let sources =
        json!([{ "serviceAccountToken": { "path": "token", "expirationSeconds": 3600 } }]);
    let volume = json!({ "projected": { "sources": sources } });
    let script = "echo token $(cat /volumes/v/token); stat -L -c 'mode %a of %u' /volumes/v/token";
    let mut made = row(name.to_owned(), pod(script, &[("v", volume)]), &["mode 600 of 1000"]);
    made.pod = as_user(made.pod, json!({ "runAsUser": 1000 }));
    made.shows.push(Shows::Rest("token ", is_token));
    made
}
