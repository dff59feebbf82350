//! `tenure install` and `tenure uninstall` with kubectl, on a server with Tenure's own features off. Rules of
//! spec/attach.md.

use std::process::{Command, Stdio};

use tenure_client_tests::server::binary;

use super::Kubectl;

/// A server that knows nothing of what is installed.
const PLAIN: [&str; 4] = [
    "--ephemeral",
    "--reference-kinds=off",
    "--feature-gates",
    "DownwardAPIOwnerReferences=false,ControllersAsOwners=false",
];

impl Kubectl {
    /// What `tenure` says to stdout and stderr, and how it ends.
    fn tenure(&self, words: &str) -> (String, String, Option<i32>) {
        let output = Command::new(binary().unwrap())
            .args(words.split(' '))
            .env("KUBECONFIG", self.kubeconfig())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr), output.status.code())
    }

    fn tenure_ok(&self, words: &str) -> String {
        let (said, wrong, code) = self.tenure(words);
        assert_eq!((wrong.as_str(), code), ("", Some(0)), "tenure {words}");
        said
    }
}

/// Nine kinds whose pods read their owner references by this path, each once.
fn nine(path: &str) -> Vec<(&'static str, String)> {
    let spec = |indent: usize, restart: &str| {
        let text = format!(
            "{restart}initContainers:
- name: first
  image: x
  env: [{{name: O, valueFrom: {{fieldRef: {{fieldPath: \"{path}\"}}}}}}]
containers:
- name: main
  image: x
  env: [{{name: A, value: \"1\"}}, {{name: O, valueFrom: {{fieldRef: {{fieldPath: \"{path}\"}}}}}}]
volumes:
- name: files
  downwardAPI: {{items: [{{path: owners, fieldRef: {{fieldPath: \"{path}\"}}}}]}}
- name: mixed
  projected: {{sources: [{{downwardAPI: {{items: [{{path: owners, fieldRef: {{fieldPath: \"{path}\"}}}}]}}}}]}}
"
        );
        let pad = " ".repeat(indent);
        text.lines().map(|line| format!("{pad}{line}\n")).collect::<String>()
    };
    let head = |version: &str, kind: &str| {
        format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\n")
    };
    let template = |restart: &str| {
        format!(
            "  template:\n    metadata: {{labels: {{app: a}}}}\n    spec:\n{}",
            spec(6, restart)
        )
    };
    let selected = |kind: &str| {
        let head = head("apps/v1", kind);
        format!("{head}spec:\n  selector: {{matchLabels: {{app: a}}}}\n{}", template(""))
    };
    let never = "restartPolicy: Never\n";
    vec![
        ("pod", format!("{}spec:\n{}", head("v1", "Pod"), spec(2, ""))),
        ("deployment.apps", selected("Deployment")),
        ("replicaset.apps", selected("ReplicaSet")),
        ("statefulset.apps", format!("{}  serviceName: a\n", selected("StatefulSet"))),
        ("daemonset.apps", selected("DaemonSet")),
        (
            "replicationcontroller",
            format!("{}spec:\n{}", head("v1", "ReplicationController"), template("")),
        ),
        ("job.batch", format!("{}spec:\n{}", head("batch/v1", "Job"), template(never))),
        (
            "cronjob.batch",
            format!(
                "{}spec:\n  schedule: 0 0 1 1 *\n  jobTemplate:\n    spec:\n      template:\n        spec:\n{}",
                head("batch/v1", "CronJob"),
                spec(10, never)
            ),
        ),
        (
            "podtemplate",
            format!(
                "{}template:\n  metadata: {{labels: {{app: a}}}}\n  spec:\n{}",
                head("v1", "PodTemplate"),
                spec(4, "")
            ),
        ),
    ]
}

const NATIVE: &str = "metadata.ownerReferences";

#[test]
fn a50_kubectl_applies_compares_and_applies_again() {
    let kubectl = Kubectl::start_with(&PLAIN);
    let printed = kubectl.tenure_ok("install downward");
    assert_eq!(printed, kubectl.tenure_ok("install downward --server-version 1.36"));
    let said = kubectl.feed(&["apply", "--filename", "-"], &printed);
    assert_eq!(said.lines().filter(|line| line.ends_with(" created")).count(), 8, "{said}");
    // Whatever kubectl says of what the server has filled in, nothing is written.
    let said = kubectl.feed(&["apply", "--filename", "-"], &printed);
    assert_eq!(said.lines().filter(|line| !line.ends_with(" created")).count(), 8, "{said}");
    let selected = [
        "get",
        "mutatingadmissionpolicies,validatingadmissionpolicies",
        "--selector",
        "tenure.dev/feature=downward",
    ];
    let generations =
        kubectl
            .ok(&[&selected[..], &["--output", "jsonpath={.items[*].metadata.generation}"]]
                .concat());
    assert_eq!(generations, "1 1 1 1");
    for (kind, text) in nine(NATIVE) {
        let apply = ["apply", "--filename", "-"];
        let dry = ["apply", "--dry-run=server", "--validate=strict", "--filename", "-"];
        assert_eq!(kubectl.feed(&dry, &text), format!("{kind}/a created (server dry run)\n"));
        assert_eq!(kubectl.feed(&apply, &text), format!("{kind}/a created\n"));
        let object = format!("{kind}/a");
        // Controllers write statuses meanwhile; what users write shows in the generation.
        let written = || match kind {
            "pod" | "podtemplate" => kubectl.settled(&object),
            _ => kubectl.value(&object, ".metadata.generation"),
        };
        let before = written();
        // What was sent last and what is stored differ in the spelling, so kubectl sends a patch; nothing is
        // written (R191).
        assert_eq!(kubectl.feed(&apply, &text), format!("{kind}/a configured\n"));
        assert_eq!(written(), before, "{kind}");
        let (differs, _) = kubectl.feed_until(&["diff", "--filename", "-"], &text, 0);
        assert_eq!(differs, "", "{kind}");
        let by_server = ["apply", "--server-side", "--force-conflicts", "--filename", "-"];
        kubectl.feed(&by_server, &text);
        let before = written();
        assert_eq!(kubectl.feed(&by_server, &text), format!("{kind}/a serverside-applied\n"));
        assert_eq!(written(), before, "{kind}");
        kubectl.ok(&["delete", &object, "--cascade=foreground", "--grace-period=0", "--force"]);
    }
}

#[test]
fn a50_a_second_manager_conflicts_as_on_any_field() {
    let kubectl = Kubectl::start_with(&PLAIN);
    kubectl.feed(&["apply", "--filename", "-"], &kubectl.tenure_ok("install downward"));
    let (_, text) = nine(NATIVE).swap_remove(8);
    kubectl.feed(&["apply", "--server-side", "--filename", "-"], &text);
    let other = text.replace("value: \"1\"", "value: \"2\"");
    let words = ["apply", "--server-side", "--field-manager", "other", "--filename", "-"];
    let (_, said) = kubectl.feed_until(&words, &other, 1);
    assert!(said.contains("conflict"), "{said}");
}

#[test]
fn a87_uninstall_stops_at_templates_that_read() {
    let kubectl = Kubectl::start_with(&PLAIN);
    kubectl.feed(&["apply", "--filename", "-"], &kubectl.tenure_ok("install downward"));
    let (_, text) = nine(NATIVE).swap_remove(1);
    kubectl.feed(&["apply", "--filename", "-"], &text);
    let (said, wrong, code) = kubectl.tenure("uninstall downward");
    assert_eq!(said, "Deployment shop/a reads its owner references\n");
    assert_eq!(
        wrong,
        "error: 1 template still reads its owner references: new pods would get an empty value\n  \
         hint: take the owner references out of them first, or go on with `--force`\n"
    );
    assert_eq!(code, Some(1));
    let said = kubectl.tenure_ok("uninstall downward --dry-run");
    assert_eq!(said.lines().filter(|line| line.starts_with("would remove ")).count(), 8, "{said}");
    let said = kubectl.tenure_ok("uninstall downward --force");
    assert_eq!(said.lines().filter(|line| line.starts_with("removed ")).count(), 8, "{said}");
    kubectl.ok(&["delete", "deployment/a"]);
    assert_eq!(kubectl.tenure_ok("uninstall downward"), "nothing of `downward` is installed\n");
    let (_, refused) = kubectl.feed_until(&["apply", "--filename", "-"], &text, 1);
    assert!(refused.contains("metadata.ownerReferences"), "{refused}");
}

const CONSUMER: &str = "
apiVersion: reference.authorization.k8s.io/v1alpha1
kind: ClusterReferenceConsumer
metadata: {name: edge}
subject: {kind: ServiceAccount, namespace: shop, name: edge}
classNames: [edge]
references:
- origin: {group: networking.k8s.io, resource: ingresses}
  target: {group: \"\", resource: secrets}
  purpose: tls-serving
";

const INGRESS: &str = "
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec:
  ingressClassName: edge
  tls: [{secretName: tls}]
  defaultBackend: {service: {name: web, port: {number: 80}}}
";

impl Kubectl {
    /// A kubeconfig of a service account, with a token and nothing else.
    fn kubeconfig_of(&self, namespace: &str, account: &str) -> String {
        let token = self.ok(&["create", "token", account, "--namespace", namespace]);
        let view = |path: &str| {
            self.ok(&["config", "view", "--raw", "--output", &format!("jsonpath={{{path}}}")])
        };
        let (server, authority) = (
            view(".clusters[0].cluster.server"),
            view(".clusters[0].cluster.certificate-authority-data"),
        );
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
             clusters: [{{name: a, cluster: {{server: '{server}', certificate-authority-data: {authority}}}}}]\n\
             users: [{{name: a, user: {{token: {}}}}}]\n\
             contexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n",
            token.trim()
        );
        self.file(&format!("{account}.kubeconfig"), &text)
    }

    /// Waits until the consumer may read the Secret, or may not.
    fn edge_may(&self, wanted: &str) {
        let words = ["auth", "can-i", "get", "secret/tls", "--as=system:serviceaccount:shop:edge"];
        for _ in 0..200 {
            let output = self.command(&words).spawn().unwrap().wait_with_output().unwrap();
            if String::from_utf8(output.stdout).unwrap().trim() == wanted {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("never {wanted}");
    }
}

#[test]
fn a20_a80_the_command_writes_roles_until_it_is_stopped() {
    use rustix::process::{Pid, Signal, kill_process};
    let kubectl = Kubectl::start_with(&PLAIN);
    let printed = kubectl.tenure_ok("install access --consumer edge --for ingress");
    let apply = ["apply", "--server-side", "--filename", "-"];
    kubectl.feed(&["apply", "--server-side", "--namespace=", "--filename", "-"], &printed);
    let crds = "crd/clusterreferenceconsumers.reference.authorization.k8s.io";
    kubectl.ok(&["wait", crds, "--for=condition=Established", "--timeout=30s"]);
    let said = kubectl.tenure_ok("access strategies install --for ingress");
    assert!(said.contains("installed"), "{said}");
    kubectl.feed(&["apply", "--namespace=", "--filename", "-"], CONSUMER);
    kubectl.ok(&["create", "serviceaccount", "edge"]);
    kubectl.feed(&apply, INGRESS);
    kubectl.edge_may("no");
    let kubeconfig = kubectl.kubeconfig_of("tenure-system", "tenure-access");
    let mut child = Command::new(binary().unwrap())
        .args(["attach", "--features", "access", "--kubeconfig", &kubeconfig])
        .args(["--identity", "one", "--listen", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    kubectl.edge_may("yes");
    kubectl.ok(&["delete", "ingress/web"]);
    kubectl.edge_may("no");
    let holder = || {
        kubectl.ok(&[
            "get",
            "lease/tenure-access",
            "--namespace",
            "tenure-system",
            "--output",
            "jsonpath={.spec.holderIdentity}",
        ])
    };
    assert_eq!(holder(), "one");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(holder(), "", "another need not wait");
    let said = kubectl.tenure_ok("uninstall access --kinds");
    assert!(said.ends_with("removed namespaces tenure-system\n"), "{said}");
}

#[test]
fn a82_doctor_says_what_works() {
    let kubectl = Kubectl::start_with(&PLAIN);
    let (said, wrong, code) = kubectl.tenure("doctor");
    assert_eq!((wrong.as_str(), code), ("", Some(0)), "{said}");
    assert!(said.contains("\ndownward: works\n") && said.contains("\naccess: works\n"), "{said}");
    let said = kubectl.tenure_ok("doctor --try downward");
    assert_eq!(said.lines().filter(|line| line.ends_with(": works")).count(), 9, "{said}");
}

#[test]
fn a10_what_is_asked_for_wrongly_is_said() {
    let kubectl = Kubectl::start_with(&PLAIN);
    for (words, part) in [
        ("install downward --server-version 1.35", "hint: name it with `--ca-file FILE`"),
        ("install downward --server-version x", "`x` is no version of Kubernetes"),
        ("install access --authorization-config --user a", "no webhook is asked for"),
        ("install access --mode webhook --authorization-config", "required"),
        ("install access --consumer A", "`A` is not the name of a consumer"),
        ("install access --for nothing", "there is no bundle `nothing`"),
        ("attach --features access,downward", "one process does one thing"),
        ("attach --features downward", "name --tls-cert-file and --tls-private-key-file"),
        ("attach --features access --mode webhook", "name --client-ca-file"),
    ] {
        let (said, wrong, code) = kubectl.tenure(words);
        assert_eq!(said, "", "{words}");
        assert!(wrong.contains(part), "{words}: {wrong}");
        assert_ne!(code, Some(0), "{words}");
    }
    let printed = kubectl.tenure_ok(
        "install access --mode webhook --authorization-config --user a --server-version 1.33",
    );
    assert!(printed.ends_with("    - expression: \"request.user in ['a']\"\n"), "{printed}");
}

const BROKEN: &str = "
apiVersion: reference.authorization.k8s.io/v1alpha1
kind: ReferenceStrategy
metadata: {name: broken}
origin: {group: \"\", resource: services}
versions:
- version: v1
  references: [{path: \".spec[\", purpose: p, target: {group: \"\", resource: secrets}}]
";

#[test]
fn a43_what_definitions_cannot_say_is_found_by_the_doctor_of_access() {
    let kubectl = Kubectl::start_with(&PLAIN);
    let printed = kubectl.tenure_ok("install access --consumer edge --for ingress");
    kubectl.feed(&["apply", "--server-side", "--namespace=", "--filename", "-"], &printed);
    let crds = "crd/clusterreferenceconsumers.reference.authorization.k8s.io";
    kubectl.ok(&["wait", crds, "--for=condition=Established", "--timeout=30s"]);
    kubectl.tenure_ok("access strategies install --for ingress");
    kubectl.feed(&["apply", "--namespace=", "--filename", "-"], CONSUMER);
    kubectl.feed(&["apply", "--filename", "-"], INGRESS);
    let said = kubectl.tenure_ok("access map");
    assert!(said.contains("edge") && said.contains("tls"), "{said}");
    kubectl.feed(&["apply", "--namespace=", "--filename", "-"], BROKEN);
    let (said, wrong, _) = kubectl.tenure("access doctor");
    assert!(said.contains("broken"), "{said}{wrong}");
}
