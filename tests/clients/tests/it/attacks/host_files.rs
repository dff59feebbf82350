//! A pod reads nothing of its host: keys, kubeconfig, store, home, other users' files.

use std::os::unix::fs::symlink;

use serde_json::json;
use tenure_client_tests::server::Operator;

use super::running_pods::RunningPods;

/// A data folder below the operator's home: a relative path with a space in it.
const DATA: &str = "the data";
/// Where it is if nobody says where.
const DATA_USUAL: &str = ".local/share/tenure";

#[test]
fn a_pod_cannot_read_what_the_operator_has() {
    for &operator in Operator::all() {
        read_all(operator, DATA_USUAL, &[]);
        read_all(operator, DATA, &["--data-dir", DATA]);
    }
}

/// Tries to read everything, by its name and by looking everywhere.
fn read_all(operator: Operator, data: &str, flags: &[&str]) {
    let pods = RunningPods::start(operator, &[], flags);
    let home = std::fs::canonicalize(pods.home()).unwrap();
    std::fs::write(home.join("id_secret"), "a secret").unwrap();
    let data = home.join(data);
    let wanted = [
        home.join("kubeconfig"),
        data.join("pki/ca.key"),
        data.join("pki/service-account.key"),
        data.join("lock"),
        data.join("store"),
        home.join("id_secret"),
        "/etc/shadow".into(),
        "/etc/machine-id".into(),
    ];
    let mut script = String::new();
    for path in &wanted {
        assert!(path.exists() || path.starts_with("/etc"), "{}", path.display());
        for root in ["", "/proc/1/root", "/proc/self/root", "/proc/self/cwd/../../../.."] {
            let path = format!("{root}{}", path.display());
            script += &format!("cat '{path}' >/dev/null 2>&1 && echo 'READ {path}'\n");
            script += &format!("[ -e '{path}' ] && echo 'SEEN {path}'\n");
        }
    }
    script += "find / \\( -path /proc -o -path /sys -o -path /usr \\) -prune -o \\( -name ca.key \
               -o -name kubeconfig -o -name id_secret -o -name shadow -o -name sudoers \
               -o -name log.redb \\) -print 2>/dev/null | sed 's/^/FOUND /'\n";
    script += "ls -A /home /root /srv /mnt /opt /var/lib 2>/dev/null | grep -v : | grep . \
               | sed 's/^/LISTED /'\n";
    script +=
        "cut -d: -f1 /etc/passwd | grep -vE '^(root|daemon|bin|nobody)$' | sed 's/^/USER /'\n";
    script += "echo done";
    let said = pods.said("reader", &script, json!({}));
    assert_eq!(said, "done\n", "as {operator:?}");
    pods.end();
}

#[test]
fn a_volume_of_the_hosts_files_never_shows_the_servers_own() {
    for &operator in Operator::all() {
        let flags = ["--data-dir", DATA, "--allow-privileged-process"];
        let pods = RunningPods::start(operator, &[], &flags);
        let home = std::fs::canonicalize(pods.home()).unwrap();
        symlink(home.join(DATA), home.join("innocent")).unwrap();
        let data = home.join(DATA);
        let paths = [
            (data.clone(), ""),
            (data.join("pki"), "Directory"),
            (data.join("new"), "DirectoryOrCreate"),
            (home.join("innocent"), ""),
            (home.join("innocent/pki/ca.key"), "File"),
            (home.clone(), ""),
            ("/".into(), ""),
            (home.join("kubeconfig"), "File"),
        ];
        for (number, (path, kind)) in paths.iter().enumerate() {
            let name = format!("host-path-{number}");
            let command = json!(["sh", "-c", "cat /host/pki/ca.key /host; echo ran"]);
            let mounts = json!([{"name": "host", "mountPath": "/host"}]);
            let volume = json!({"name": "host", "hostPath": {"path": path, "type": kind}});
            pods.create(
                &name,
                json!({"command": command, "volumeMounts": mounts}),
                json!({"volumes": [volume]}),
            );
            pods.never_runs(
                &name,
                &format!("hostPath {}", path.display()).replace("innocent", DATA),
            );
            assert!(!data.join("new").exists());
        }
        pods.end();
    }
}
