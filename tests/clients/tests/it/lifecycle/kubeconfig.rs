//! A kubeconfig that is shared: what others wrote stays, what is ours comes and goes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::Home;

/// As kubectl writes it, for a cluster that is elsewhere.
const OTHERS: &str = "\
apiVersion: v1
clusters:
- cluster:
    server: https://192.0.2.1:6443
  name: work
contexts:
- context:
    cluster: work
    namespace: shop
    user: me
  name: work
current-context: work
kind: Config
preferences: {}
users:
- name: me
  user:
    token: \"0123\"
";

#[test]
fn r179a_a_namespace_that_is_chosen_survives_a_restart() {
    let home = Home::new();
    home.up(&["--data-dir", "data"]);
    let file = "--kubeconfig=data/kubeconfig";
    home.kubectl(&[file, "create", "namespace", "x"]);
    home.kubectl(&[file, "config", "set-context", "--current", "--namespace=x"]);
    home.kubectl(&[
        file,
        "config",
        "set-context",
        "mine",
        "--cluster=tenure",
        "--user=tenure-admin",
    ]);
    home.ok(&["down", "--data-dir", "data"]);
    // On another port, so that there is something to write.
    home.up(&["--data-dir", "data"]);
    let view = ["config", "view", "--minify", "--output=jsonpath={..namespace}"];
    assert_eq!(home.kubectl(&[&[file], &view[..]].concat()), "x");
    home.kubectl(&[file, "create", "configmap", "here"]);
    assert!(
        home.kubectl(&[file, "--context=mine", "get", "configmaps", "-n", "x"]).contains("here")
    );
}

#[test]
fn r179a_a_context_is_put_beside_those_of_others_and_taken_out_again() {
    let home = Home::new();
    fs::create_dir(home.path(".kube")).unwrap();
    fs::write(home.path(".kube/config"), OTHERS).unwrap();
    fs::set_permissions(home.path(".kube/config"), fs::Permissions::from_mode(0o640)).unwrap();
    home.up(&["--data-dir", "data", "--kubeconfig=~/.kube/config"]);
    let contexts = || home.kubectl(&["config", "get-contexts", "--output=name"]);
    assert_eq!(contexts(), "tenure\nwork\n");
    assert_eq!(home.kubectl(&["config", "current-context"]), "tenure\n");
    assert!(home.kubectl(&["get", "namespaces", "--output=name"]).contains("namespace/default"));
    // Back to work; the next start does not call away again.
    home.kubectl(&["config", "use-context", "work"]);
    home.ok(&["down", "--data-dir", "data"]);
    assert_eq!(contexts(), "work\n");
    home.up(&["--data-dir", "data", "--kubeconfig", ".kube/config"]);
    home.kubectl(&["config", "use-context", "work"]);
    home.tenure(&["up", "--print-config"]);
    assert_eq!(home.kubectl(&["--context=tenure", "config", "current-context"]), "work\n");
    let said = home.ok(&["kubeconfig", "remove"]);
    assert!(said.starts_with("took the context `tenure` out of `"), "{said}");
    assert_eq!(contexts(), "work\n");
    let kept =
        home.kubectl(&["config", "view", "--raw", "--output=jsonpath={.users[0].user.token}"]);
    assert_eq!(kept, "0123");
    let mode = fs::metadata(home.path(".kube/config")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    // The folder has one of its own, whatever becomes of the other.
    assert!(home.ok(&["kubeconfig", "print", "--data-dir", "data"]).contains("name: tenure"));
    let path = home.ok(&["kubeconfig", "path", "--data-dir", "data"]);
    assert!(path.trim_end().ends_with("/data/kubeconfig"), "{path}");
}

#[test]
fn r179a_an_entry_of_somebody_elses_is_not_overwritten() {
    let home = Home::new();
    let theirs = OTHERS.replace("name: work\ncontexts", "name: tenure\ncontexts");
    fs::write(home.path("config"), &theirs).unwrap();
    let words = ["up", "--data-dir", "data", "--nodes", "0", "--listen", "127.0.0.1:0"];
    let ended = home.tenure(&[&words[..], &["--kubeconfig", "config"]].concat());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.stderr.contains("/config` has a cluster `tenure` of somebody else's"),
        "{ended:?}"
    );
    assert!(ended.stderr.contains("--kubeconfig FILE"), "{ended:?}");
    assert_eq!(home.read("config"), theirs);
    let said = home.ok(&["kubeconfig", "remove", "--kubeconfig", "config"]);
    assert!(said.starts_with("no context `tenure` is in `"), "{said}");
    assert_eq!(home.read("config"), theirs);
}

#[test]
fn r179a_our_own_kubeconfig_is_read_by_our_context_and_stays_whole() {
    let home = Home::new();
    home.up(&["--data-dir", "data"]);
    let file = "--kubeconfig=data/kubeconfig";
    home.kubectl(&[file, "config", "set-cluster", "a", "--server=https://127.0.0.1:1"]);
    home.kubectl(&[file, "config", "set-context", "a", "--cluster=a", "--user=tenure-admin"]);
    home.kubectl(&[file, "config", "use-context", "a"]);
    assert!(home.ok(&["status", "--data-dir", "data"]).contains("ready       yes\n"));
    home.ok(&["snapshot", "save", "snapshot", "--data-dir", "data"]);
    assert!(home.ok(&["tree", "namespace/default"]).contains("default"));
    let removed = home.tenure(&["kubeconfig", "remove", "--kubeconfig", "data/kubeconfig"]);
    assert_eq!(removed.code, Some(1), "{removed:?}");
    assert!(removed.stderr.contains("is the kubeconfig of the data folder itself"), "{removed:?}");
    assert!(home.ok(&["status", "--data-dir", "data"]).contains("ready       yes\n"));
}

#[test]
fn r179a_what_is_no_kubeconfig_is_said_so() {
    let home = Home::new();
    fs::write(home.path("notes"), "milk, bread\n").unwrap();
    let words = ["up", "--data-dir", "data", "--listen", "127.0.0.1:0", "--kubeconfig", "notes"];
    let ended = home.tenure(&words);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.stderr.contains("/notes` is no kubeconfig, so nothing was written there\n  cause: ")
    );
    assert_eq!(home.read("notes"), "milk, bread\n");
}

#[test]
fn r179a_tools_find_the_server_that_runs_here() {
    let home = Home::new();
    let told = home.tenure(&["tree", "namespace/default"]);
    assert_eq!(told.code, Some(2), "{told:?}");
    home.up(&[]);
    assert!(home.ok(&["tree", "namespace/default"]).contains("default"));
    home.ok(&["down"]);
    // In a folder of its own, as the README has it.
    home.up(&["--data-dir", "./data"]);
    assert!(home.ok(&["audit"]).contains("nothing found"));
    // A kubeconfig of the user's comes first, wherever it leads.
    fs::create_dir(home.path(".kube")).unwrap();
    fs::write(home.path(".kube/config"), OTHERS.replace("192.0.2.1:6443", "127.0.0.1:1")).unwrap();
    let told = home.tenure(&["tree", "namespace/default"]);
    assert_eq!(told.code, Some(2), "{told:?}");
    assert!(told.stderr.contains("127.0.0.1:1"), "{told:?}");
}

#[test]
fn r179a_tools_find_a_server_that_keeps_nothing() {
    let home = Home::new();
    let words = ["up", "--ephemeral", "--nodes", "0", "--listen", "127.0.0.1:0"];
    let mut child = home.command(&home.program, &words).spawn().unwrap();
    let mut line = String::new();
    let stdout = child.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
    let tree = home.tenure(&["tree", "namespace/default"]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(tree.code, Some(0), "{tree:?}");
}

#[test]
fn r179a_a_server_that_keeps_nothing_is_found_wherever_its_kubeconfig_is() {
    let home = Home::new();
    // As kubectl leaves it when the last entry is gone.
    fs::create_dir(home.path(".kube")).unwrap();
    let empty =
        "apiVersion: v1\nclusters: null\ncontexts: null\ncurrent-context: \"\"\nkind: Config\n";
    fs::write(home.path(".kube/config"), empty).unwrap();
    let words = ["up", "--ephemeral", "--nodes", "0", "--listen", "127.0.0.1:0"];
    let words = [&words[..], &["--kubeconfig", "./kubeconfig"]].concat();
    let mut child = home.command(&home.program, &words).spawn().unwrap();
    let mut line = String::new();
    let stdout = child.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
    assert!(home.ok(&["tree", "namespace/default"]).contains("default"));
    let status = home.tenure(&["status"]);
    assert_eq!(status.code, Some(3), "{status:?}");
    let folder = status.stdout.split("tenure status --data-dir ").nth(1).unwrap().trim_end();
    assert!(home.ok(&["status", "--data-dir", folder]).contains("ready       yes\n"));
    let said = home.ok(&["down", "--data-dir", folder]);
    assert!(said.starts_with("stopped process ") && !said.contains("data stay"), "{said}");
    assert!(child.wait().unwrap().success());
    assert!(!home.path("kubeconfig").exists());
}
