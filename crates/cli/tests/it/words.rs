//! Help, versions, completions and mistakes in flags.

use crate::process::{run, tenure};

#[test]
fn help_teaches_by_example() {
    let help = run(&["--help"]);
    assert_eq!(help.code, Some(0));
    let expected = "\
A Kubernetes control plane in one process

Usage: tenure [OPTIONS] <COMMAND>

Commands:
  up           Start a control plane and serve until stopped
  status       Say whether a server runs, where, and whether it is ready
  logs         Print what a server in the background says
  down         End a server; what it keeps stays
  delete       End a server and remove everything that it keeps
  kubeconfig   Show a server's kubeconfig, or take its entries out of yours
  node         Join a node to a server and run pods on it until stopped
  envtest      Put programs into a folder that test tools start in place of kube-apiserver and etcd
  tree         Show what an object owns, or who owns it, in any cluster
  why          Explain why an object is still there, or will not stay
  plan         Show what a command would do, before anything is touched
  audit        Find everything that is wrong with the ownership of objects
  unused       Find ConfigMaps and Secrets that nothing mentions, and what holds the others
  retention    Look after the owners that revisions of workloads become
  snapshot     Copy all objects into one file, or back
  storage      Look after the stored objects
  keys         Look after the keys that sign service-account tokens
  access       See who may read what because something points at it
  migrate      Make objects of this API from those of another
  doctor       Say what of Tenure works on a cluster that is already there, and why
  attach       Do something for a cluster that is already there, until stopped
  install      Print what brings a feature to a cluster that is already there
  uninstall    Remove from a cluster what `install` printed
  policy       Print admission policies to apply to a cluster
  man          Write manual pages
  completions  Print completions for a shell
  version      Print the version

Options:
  -v, --verbose...  Say more on stderr: what is done (-v), how (-vv), everything (-vvv)
  -h, --help        Print help
  -V, --version     Print version

Examples:
  tenure up                                  serve on 127.0.0.1:6443, keep objects on disk
  tenure up --detach                         the same in the background
  tenure status                              is it there, and where
  tenure down                                end it; the objects stay
  tenure up --ephemeral --listen 127.0.0.1:0 serve from memory on any free port
  tenure tree deployment/web                 what it owns, in the cluster of your kubeconfig
  tenure why pod/web-1 -n shop               why it is still there, or will not stay
  tenure plan delete deployment/web          what would go, before anything is touched
  tenure audit                               everything wrong with ownership, for people and CI
  tenure unused -A                           ConfigMaps and Secrets that nothing mentions
  tenure access map                          who reaches what by reference
  tenure snapshot save before.snapshot       copy all objects into one file, also of a running server
  tenure completions bash > tenure.bash      write completions for a shell

Exit code, of every command:
  0  done; yes; nothing was found
  1  no; something is wrong, or what was asked for could not be done
  2  nothing can be said: wrong flags or settings, or the cluster, or a part of it, could not be read
  3  something is unused, would change or was left out; the server does not run

Environment:
  TENURE_LOG   what to log, for example `info` or `tenure_server=debug` (default: warn); wins over -v
  NO_COLOR     set to anything to have no colors
";
    assert_eq!(help.stdout, expected);
}

#[test]
fn help_of_up_names_every_flag_and_default() {
    let help = run(&["up", "-h"]).stdout;
    for part in [
        "--data-dir <DIR>",
        "[default: $XDG_DATA_HOME/tenure, else ~/.local/share/tenure]",
        "--listen <ADDRESS:PORT>",
        "[default: 127.0.0.1:6443]",
        "--kubeconfig <FILE>",
        "--ephemeral",
        "--store <STORE>",
        "[possible values: file, memory]",
        "--durability <DURABILITY>",
        "[default: strict] [possible values: strict, relaxed]",
        "--owner-permissions <SWITCH>",
        "[default: on] [possible values: on, off]",
        "--warn-dangling-owners",
        "--feature-gates <NAME=BOOL>",
        "ControllersAsOwners=true (default)",
        "--retention-allow-namespaces <NAMES>",
        "--warn-mutable-retention",
        "--ref-allow-unchecked-consumers",
        "--nodes <N>",
        "--runtime <RUNTIME>",
        "--node-capacity <NAME=QUANTITY>",
        "--restart-backoff <FIRST..MAX>",
        "--image-map <IMAGE>",
        "--image-dir <FOLDER>",
        "--allow-privileged-process",
        "--isolation <KIND>",
        "[default: full]",
        "--cri-host-network",
        "--eviction",
        "--audit-log <FILE>",
        "--audit-level <LEVEL>",
        "[possible values: none, metadata, request, request-response]",
        "--event-ttl <TIME>",
        "[default: 1h]",
        "--service-account-key-file <FILE>",
        "--log-format <FORMAT>",
        "[default: text] [possible values: text, json]",
        "export KUBECONFIG=",
    ] {
        assert!(help.contains(part), "no {part} in\n{help}");
    }
}

#[test]
fn help_of_the_tools_teaches_by_example() {
    for (command, part) in [
        ("tree", "tenure tree --up pod/web-1 -n shop"),
        ("tree", "[possible values: text, json, dot, mermaid, svg]"),
        ("tree", "Usage: tenure tree [OPTIONS] <KIND/NAME>"),
        ("why", "which finalizer waits for whom"),
        ("audit", "  2  the cluster, or part of it, could not be read"),
        ("audit", "--stuck-after <TIME>"),
        ("unused", "[default: table] [possible values: table, json]"),
        ("unused", "  3  something is unused"),
    ] {
        let help = run(&[command, "-h"]).stdout;
        assert!(help.contains(part), "no {part} in\n{help}");
    }
    let help = run(&["retention", "drain", "-h"]).stdout;
    assert!(help.contains("what has no owner is never collected"), "{help}");
    let help = run(&["plan", "delete", "-h"]).stdout;
    assert!(help.contains("[possible values: background, foreground, orphan]"), "{help}");
}

#[test]
fn who_cannot_look_says_why_and_ends_with_two() {
    let ended = run(&["audit", "--kubeconfig", "/nonexistent"]);
    assert_eq!(ended.code, Some(2));
    let first = "error: no cluster can be reached with this kubeconfig\n  cause: ";
    assert!(ended.stderr.starts_with(first), "{}", ended.stderr);
    let ended = run(&["unused", "--kubeconfig", "/nonexistent"]);
    assert_eq!(ended.code, Some(2));
    let ended = run(&["why", "pod/a", "--kubeconfig", "/nonexistent"]);
    assert_eq!(ended.code, Some(2));
}

#[test]
fn features_that_do_not_exist_are_told() {
    for (words, said) in [
        (
            "Sidecars=true",
            "error: there is no feature `Sidecars`\n  hint: there are: ControllersAsOwners, DownwardAPIOwnerReferences, \
             DownwardAPIVolumeParity, AtomicWriteVolumeUserFields, ReferenceFilteredLists, \
             GrantNamespaceSelector, ConsumerClassSelector\n",
        ),
        (
            "ControllersAsOwners=maybe",
            "error: the feature `ControllersAsOwners` is `true` or `false`, not `maybe`\n  hint: write \
             `ControllersAsOwners=true` or `ControllersAsOwners=false`\n",
        ),
        (
            "ControllersAsOwners",
            "error: `ControllersAsOwners` switches no feature\n  hint: write `Name=true` or \
             `Name=false`\n",
        ),
    ] {
        let ended = run(&["up", "--ephemeral", "--feature-gates", words]);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(2), said));
        assert_eq!(ended.stdout, "");
    }
}

#[test]
fn no_command_shows_help_and_fails() {
    let ended = run(&[]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("Usage: tenure [OPTIONS] <COMMAND>"), "{}", ended.stderr);
}

#[test]
fn version_is_said_both_ways() {
    let expected = format!("tenure {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(run(&["version"]).stdout, expected);
    assert_eq!(run(&["--version"]).stdout, expected);
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let ended = run(&["completions", shell]);
        assert_eq!(ended.code, Some(0));
        assert!(ended.stdout.contains("snapshot"), "{shell}: {}", ended.stdout);
    }
}

#[test]
fn wrong_flags_are_usage_errors() {
    for (arguments, said) in [
        (&["up", "--nonsense"][..], "unexpected argument '--nonsense'"),
        (&["up", "--listen", "6443"], "invalid value '6443' for '--listen <ADDRESS:PORT>'"),
        (&["up", "--store", "tape"], "[possible values: file, memory]"),
        (&["up", "--ephemeral", "--data-dir", "x"], "cannot be used with"),
        (&["up", "--ephemeral", "--detach"], "cannot be used with"),
        (&["halt"], "unrecognized subcommand 'halt'"),
    ] {
        let ended = run(arguments);
        assert_eq!(ended.code, Some(2), "{arguments:?}");
        assert!(ended.stderr.starts_with("error: "), "{}", ended.stderr);
        assert!(ended.stderr.contains(said), "no {said} in {}", ended.stderr);
        assert_eq!(ended.stdout, "");
    }
}

#[test]
fn the_policy_about_owner_references_is_printed() {
    let usual = run(&["policy", "owner-references"]);
    assert_eq!((usual.code, usual.stderr.as_str()), (Some(0), ""));
    assert!(usual.stdout.contains("kind: ValidatingAdmissionPolicy\n"));
    assert!(usual.stdout.contains("kind: ValidatingAdmissionPolicyBinding\n"));
    assert!(!usual.stdout.contains("'metadata.annotations']"));
    let strict = run(&["policy", "owner-references", "--strict"]);
    assert!(strict.stdout.contains("'metadata.annotations']"));
}

#[test]
fn every_command_has_a_manual_page() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("man1");
    let written = run(&["man", folder.to_str().unwrap()]);
    assert_eq!(written.code, Some(0), "{}", written.stderr);
    let names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|it| it.unwrap()).collect();
    assert!(names.len() > 40, "{}", names.len());
    for page in names {
        let text = std::fs::read_to_string(page.path()).unwrap();
        for part in [".TH \"TENURE", ".SH NAME", ".SH SYNOPSIS"] {
            assert!(text.contains(part), "{}: no {part}", page.path().display());
        }
    }
    let up = std::fs::read_to_string(folder.join("tenure-up.1")).unwrap();
    assert!(up.contains("data\\-dir") || up.contains("data-dir"), "{up}");
    assert!(run(&["man"]).stdout.starts_with(".TH \"TENURE\" \"1\""));
}

#[test]
fn a_node_that_waits_for_its_server_ends_when_it_is_told_to() {
    use rustix::process::{Pid, Signal, kill_process};
    let dir = tempfile::tempdir().unwrap();
    // It takes connections and never says anything.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let file = dir.path().join("kubeconfig");
    let text = format!(
        "clusters: [{{name: a, cluster: {{server: \"http://{}\"}}}}]\n\
         users: [{{name: a, user: {{token: x}}}}]\n\
         contexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n",
        silent.local_addr().unwrap()
    );
    std::fs::write(&file, text).unwrap();
    let words = ["node", "--kubeconfig", file.to_str().unwrap(), "--node-name", "n"];
    let none = run(&words);
    assert_eq!(none.code, Some(2), "{}", none.stderr);
    assert!(none.stderr.contains("its context names no server"), "{}", none.stderr);
    let mut child = tenure(&[&words[..], &["--context", "a"]].concat()).spawn().unwrap();
    let held = silent.accept().unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let begin = std::time::Instant::now();
    assert!(child.wait().unwrap().success());
    assert!(begin.elapsed() < std::time::Duration::from_secs(20), "{:?}", begin.elapsed());
    drop(held);
}
