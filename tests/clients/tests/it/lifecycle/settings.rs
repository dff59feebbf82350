//! Settings from a file, and the same exit code for the same cause.

use std::fs;

use super::Home;

#[test]
fn r179d_a_file_says_what_flags_say_and_flags_win() {
    let home = Home::new();
    fs::create_dir(home.path("x")).unwrap();
    let file = "# mine\ndata-dir: data\nnodes: 2\nruntime: none\nlisten: 127.0.0.1:0\n";
    fs::write(home.path("x/up.yaml"), file).unwrap();
    home.ok(&["up", "--detach", "--config", "x/up.yaml", "--nodes", "1"]);
    let nodes = ["--kubeconfig=x/data/kubeconfig", "get", "nodes", "--output=name"];
    super::until("there is one node", || home.kubectl(&nodes).lines().count() == 1);
    home.ok(&["down", "--data-dir", "x/data"]);
    // What is printed is a file that does the same.
    let printed = home.ok(&["up", "--config", "x/up.yaml", "--print-config"]);
    assert!(printed.contains("\nnodes: 2\n"), "{printed}");
    assert!(printed.contains("\ndata-dir: ") && printed.contains("/x/data\n"), "{printed}");
    fs::write(home.path("all.yaml"), &printed).unwrap();
    assert_eq!(home.ok(&["up", "--config", "all.yaml", "--print-config"]), printed);
}

#[test]
fn r179d_a_wrong_field_is_named() {
    let home = Home::new();
    for (file, said) in [
        ("nodes: many\n", "error: `nodes` in `"),
        ("node: 1\n", "hint: perhaps `nodes`"),
        ("nodes: [\n", "error: the configuration `"),
    ] {
        fs::write(home.path("up.yaml"), file).unwrap();
        let ended = home.tenure(&["up", "--config", "up.yaml"]);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.stderr.contains(said), "no {said} in {ended:?}");
    }
}

#[test]
fn r179e_one_cause_has_one_code() {
    let home = Home::new();
    // Nobody can be asked.
    for words in [
        &["tree", "pod/a"][..],
        &["why", "pod/a"],
        &["plan", "delete", "pod/a"],
        &["audit"],
        &["unused"],
        &["access", "map"],
        &["access", "can", "get", "pods"],
        &["retention", "drain"],
        &["migrate", "reference-grants", "--cluster"],
    ] {
        let ended = home.tenure(&[words, &["--kubeconfig", "nowhere"]].concat());
        assert_eq!(ended.code, Some(2), "{words:?}: {ended:?}");
    }
    // What was asked for makes no sense.
    for words in [
        &["up", "--nonsense"][..],
        &["up", "--ephemeral", "--controllers", "nope"],
        &["up", "--ephemeral", "--feature-gates", "Nope=true"],
        &["up", "--ephemeral", "--store", "file"],
        &["node"],
        &["tree", "pod/a/b", "--kubeconfig", "nowhere"],
    ] {
        let ended = home.tenure(words);
        assert_eq!(ended.code, Some(2), "{words:?}: {ended:?}");
    }
    home.up(&["--data-dir", "data"]);
    // It was looked for, and is not there.
    for words in [&["tree", "pod/a"][..], &["why", "pod/a"], &["plan", "delete", "pod/a"]] {
        let ended = home.tenure(words);
        assert_eq!(ended.code, Some(1), "{words:?}: {ended:?}");
    }
}

#[test]
fn r179e_controllers_are_named() {
    let home = Home::new();
    let ended = home.tenure(&["up", "--ephemeral", "--controllers", "*,-jobs"]);
    assert!(
        ended.stderr.starts_with(
            "error: there is no controller `jobs`\n  hint: perhaps `job`; there are: "
        ),
        "{ended:?}"
    );
    for name in ["cronjob", "deployment", "garbagecollector", "statefulset"] {
        assert!(ended.stderr.contains(name), "no {name} in {ended:?}");
    }
}
