//! The built-in controllers as a person would use them, on nodes that run nothing: rollouts and
//! their history, scaling, runs of a CronJob, waiting, pods that are left behind and found again.
//! Rules of spec/workload-controllers.md.

use std::time::Duration;

use super::Kubectl;
use super::runner::rows;

/// Three nodes whose pods become Ready at once.
const NODES: [&str; 5] = ["--ephemeral", "--nodes", "3", "--runtime", "none"];

/// A kind with pods: how it is asked for, how kubectl names it, and what its manifest begins with.
struct Kind {
    object: &'static str,
    shown: &'static str,
    kind: &'static str,
    manifest: &'static str,
}

const DEPLOYMENT: Kind = Kind {
    object: "deployment/web",
    shown: "deployment.apps/web",
    kind: "Deployment",
    manifest: "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
",
};
const STATEFUL_SET: Kind = Kind {
    object: "statefulset/db",
    shown: "statefulset.apps/db",
    kind: "StatefulSet",
    manifest: "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 3
  selector: {matchLabels: {app: db}}
",
};
const DAEMON_SET: Kind = Kind {
    object: "daemonset/agent",
    shown: "daemonset.apps/agent",
    kind: "DaemonSet",
    manifest: "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
",
};
const REPLICA_SET: Kind = Kind {
    object: "replicaset/set",
    shown: "replicaset.apps/set",
    kind: "ReplicaSet",
    manifest: "
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: set}
spec:
  replicas: 3
  selector: {matchLabels: {app: set}}
",
};
const REPLICATION_CONTROLLER: Kind = Kind {
    object: "replicationcontroller/old",
    shown: "replicationcontroller/old",
    kind: "ReplicationController",
    manifest: "
apiVersion: v1
kind: ReplicationController
metadata: {name: old}
spec:
  replicas: 3
",
};
const JOB: Kind = Kind {
    object: "job/work",
    shown: "job.batch/work",
    kind: "Job",
    manifest: "
apiVersion: batch/v1
kind: Job
metadata: {name: work}
spec:
  parallelism: 3
  completions: 3
  manualSelector: true
  selector: {matchLabels: {app: work}}
",
};

const CRON_JOB: &str = "
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: '0 3 31 12 *'
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: main, image: 'example.test/app:1'}]
";

impl Kind {
    fn name(&self) -> &'static str {
        self.object.split_once('/').unwrap().1
    }

    /// The whole manifest; the pods of a Job run until they are deleted.
    fn manifest(&self) -> String {
        let (name, manifest) = (self.name(), self.manifest);
        let (restart, outcome) = match self.kind {
            "Job" => ("Never", "run"),
            _ => ("Always", "run"),
        };
        format!(
            "{manifest}  template:
    metadata: {{labels: {{app: {name}}}, annotations: {{tenure.dev/outcome: {outcome}}}}}
    spec: {{restartPolicy: {restart}, containers: [{{name: main, image: 'example.test/app:1'}}]}}
"
        )
    }
}

impl Kubectl {
    fn made(&self, kind: &Kind) {
        let said = self.feed(&["create", "--filename", "-"], &kind.manifest());
        assert_eq!(said, format!("{} created\n", kind.shown));
    }

    /// Waits until a rollout has ended and gives the last line.
    fn rolled_out(&self, object: &str) -> String {
        let said = self.ok(&["rollout", "status", object, "--timeout", "30s"]);
        said.lines().last().unwrap_or_default().to_owned()
    }

    /// The numbers of a rollout's history.
    fn history(&self, object: &str) -> Vec<String> {
        let said = self.ok(&["rollout", "history", object]);
        let numbers =
            rows(&said).into_iter().skip(2).filter_map(|row| Some(row.first()?.to_string()));
        numbers.collect()
    }

    /// The images of the pods with a label, each once.
    fn images(&self, app: &str) -> Vec<String> {
        let path = "jsonpath={range .items[*]}{.spec.containers[0].image}{'\\n'}{end}";
        let selector = format!("app={app}");
        let said = self.ok(&["get", "pods", "--selector", &selector, "--output", path]);
        let mut images: Vec<String> = said.lines().map(str::to_owned).collect();
        images.sort();
        images.dedup();
        images
    }

    /// The pods with a label: uid and the kind of the owner, once there are so many of that owner.
    fn pods(&self, app: &str, owner: &str, count: usize) -> Vec<String> {
        let each = "{.metadata.uid} {.metadata.ownerReferences[*].kind}{'\\n'}";
        let path = format!("jsonpath={{range .items[*]}}{each}{{end}}");
        let selector = format!("app={app}");
        let get = ["get", "pods", "--selector", &selector, "--output", &path];
        for _ in 0..300 {
            let said = self.ok(&get);
            let pods: Vec<(&str, &str)> =
                said.lines().map(|line| line.split_once(' ').unwrap_or((line, ""))).collect();
            if pods.len() == count && pods.iter().all(|(_, kind)| *kind == owner) {
                let mut uids: Vec<String> = pods.iter().map(|(uid, _)| (*uid).to_owned()).collect();
                uids.sort();
                return uids;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("never {count} pods of {owner:?}:\n{}", self.ok(&get));
    }
}

#[test]
fn rollouts_of_a_deployment() {
    let kubectl = Kubectl::start_with(&NODES);
    let web = DEPLOYMENT.object;
    kubectl.made(&DEPLOYMENT);
    let done = "deployment \"web\" successfully rolled out";
    assert_eq!(kubectl.rolled_out(web), done);
    assert_eq!(kubectl.history(web), ["1"]);
    let available = ["wait", "--for=condition=Available", web, "--timeout=10s"];
    assert_eq!(kubectl.ok(&available), "deployment.apps/web condition met\n");

    assert_eq!(
        kubectl.ok(&["set", "image", web, "main=example.test/app:2"]),
        "deployment.apps/web image updated\n"
    );
    assert_eq!(kubectl.rolled_out(web), done);
    assert_eq!((kubectl.history(web), kubectl.images("web")), (numbers(&[1, 2]), image(2)));
    let shown = kubectl.ok(&["rollout", "history", web, "--revision=1"]);
    assert!(shown.contains("with revision #1") && shown.contains("example.test/app:1"), "{shown}");

    // Back to the one before, then to a number; the old number is gone each time (DP6).
    assert_eq!(kubectl.ok(&["rollout", "undo", web]), "deployment.apps/web rolled back\n");
    assert_eq!(kubectl.rolled_out(web), done);
    assert_eq!((kubectl.history(web), kubectl.images("web")), (numbers(&[2, 3]), image(1)));
    kubectl.ok(&["rollout", "undo", web, "--to-revision=2"]);
    assert_eq!(kubectl.rolled_out(web), done);
    assert_eq!((kubectl.history(web), kubectl.images("web")), (numbers(&[3, 4]), image(2)));
    let said = kubectl.fails(&["rollout", "undo", web, "--to-revision=99"]);
    assert_eq!(said, "error: unable to find specified revision 99 in history\n");

    assert_eq!(kubectl.ok(&["rollout", "pause", web]), "deployment.apps/web paused\n");
    let said = kubectl.fails(&["rollout", "pause", web]);
    assert_eq!(said, "error: deployments.apps \"web\" is already paused\n");
    let said = kubectl.fails(&["rollout", "undo", web]);
    assert!(said.contains("you cannot rollback a paused deployment"), "{said}");
    kubectl.ok(&["set", "image", web, "main=example.test/app:3"]);
    assert_eq!(kubectl.ok(&["scale", web, "--replicas=5"]), "deployment.apps/web scaled\n");
    kubectl.pods("web", "ReplicaSet", 5);
    assert_eq!((kubectl.history(web), kubectl.images("web")), (numbers(&[3, 4]), image(2)));
    assert_eq!(kubectl.ok(&["rollout", "resume", web]), "deployment.apps/web resumed\n");
    assert_eq!(kubectl.rolled_out(web), done);
    assert_eq!((kubectl.history(web), kubectl.images("web")), (numbers(&[3, 4, 5]), image(3)));

    let before = kubectl.pods("web", "ReplicaSet", 5);
    assert_eq!(kubectl.ok(&["rollout", "restart", web]), "deployment.apps/web restarted\n");
    assert_eq!(kubectl.rolled_out(web), done);
    let after = kubectl.pods("web", "ReplicaSet", 5);
    assert!(after.iter().all(|pod| !before.contains(pod)), "a pod outlived the restart");
    kubectl.ok(&["scale", web, "--replicas=0"]);
    kubectl.pods("web", "", 0);
    let table = kubectl.ok(&["get", web, "--no-headers"]);
    assert_eq!(rows(&table)[0][..4], ["web", "0/0", "0", "0"], "{table}");
}

fn numbers(list: &[u32]) -> Vec<String> {
    list.iter().map(u32::to_string).collect()
}

fn image(number: u32) -> Vec<String> {
    vec![format!("example.test/app:{number}")]
}

#[test]
fn rollouts_of_sets_with_revisions() {
    let kubectl = Kubectl::start_with(&NODES);
    for (kind, done, plural) in [
        (&STATEFUL_SET, "partitioned roll out complete: 3 new pods", "statefulsets"),
        (&DAEMON_SET, "daemon set \"agent\" successfully rolled out", "daemonsets"),
    ] {
        let (object, name) = (kind.object, kind.name());
        kubectl.made(kind);
        let ends = |said: String| assert!(said.starts_with(done), "{said}");
        ends(kubectl.rolled_out(object));
        kubectl.pods(name, kind.kind, 3);
        assert_eq!(kubectl.history(object), ["1"]);
        kubectl.ok(&["set", "image", object, "main=example.test/app:2"]);
        ends(kubectl.rolled_out(object));
        assert_eq!((kubectl.history(object), kubectl.images(name)), (numbers(&[1, 2]), image(2)));
        let said = kubectl.ok(&["rollout", "undo", object]);
        assert_eq!(said, format!("{} rolled back\n", kind.shown));
        ends(kubectl.rolled_out(object));
        // The revision that it went back to has the newest number (HI6).
        assert_eq!((kubectl.history(object), kubectl.images(name)), (numbers(&[2, 3]), image(1)));
        let before = kubectl.pods(name, kind.kind, 3);
        let said = kubectl.ok(&["rollout", "restart", object]);
        assert_eq!(said, format!("{} restarted\n", kind.shown));
        ends(kubectl.rolled_out(object));
        let after = kubectl.pods(name, kind.kind, 3);
        assert!(after.iter().all(|pod| !before.contains(pod)), "a pod outlived the restart");
        for (verb, told) in [("pause", "pausing"), ("resume", "resuming")] {
            let said = kubectl.fails(&["rollout", verb, object]);
            assert_eq!(said, format!("error: {plural}.apps \"{name}\" {told} is not supported\n"));
        }
    }
    let said = kubectl.ok(&["scale", "statefulset/db", "--replicas=5"]);
    assert_eq!(said, "statefulset.apps/db scaled\n");
    kubectl.pods("db", "StatefulSet", 5);
    kubectl.ok(&["scale", "statefulset/db", "--replicas=1"]);
    kubectl.pods("db", "StatefulSet", 1);
    let left = kubectl.ok(&["get", "pods", "--selector=app=db", "--output=name"]);
    assert_eq!(left, "pod/db-0\n", "the highest go first");
    let said = kubectl.fails(&["scale", "daemonset/agent", "--replicas=5"]);
    assert!(said.contains("the server could not find the requested resource"), "{said}");
}

#[test]
fn sets_without_rollouts_are_scaled() {
    let kubectl = Kubectl::start_with(&NODES);
    for kind in [&REPLICA_SET, &REPLICATION_CONTROLLER] {
        kubectl.made(kind);
        for replicas in ["5", "2"] {
            let said = kubectl.ok(&["scale", kind.object, "--replicas", replicas]);
            assert_eq!(said, format!("{} scaled\n", kind.shown));
            kubectl.pods(kind.name(), kind.kind, replicas.parse().unwrap());
        }
        let wrong = ["scale", kind.object, "--current-replicas=3", "--replicas=9"];
        assert!(kubectl.fails(&wrong).contains("Expected replicas to be 3, was 2"));
        for verb in ["status", "history", "undo", "restart", "pause", "resume"] {
            kubectl.fails(&["rollout", verb, kind.object]);
        }
        kubectl.pods(kind.name(), kind.kind, 2);
    }
    let ready = ["wait", "--for=condition=Ready", "pod", "--selector=app=set", "--timeout=10s"];
    assert_eq!(kubectl.ok(&ready).lines().count(), 2);
}

#[test]
fn pods_that_were_left_behind_are_found_again() {
    let kubectl = Kubectl::start_with(&NODES);
    for kind in [&STATEFUL_SET, &DAEMON_SET, &REPLICA_SET, &REPLICATION_CONTROLLER, &JOB] {
        kubectl.made(kind);
        let ready = ["wait", "--for=condition=Ready", "pod", "--timeout=10s", "--selector"];
        let selector = format!("app={}", kind.name());
        let before = kubectl.pods(kind.name(), kind.kind, 3);
        kubectl.ok(&[&ready[..], &[&selector]].concat());
        kubectl.ok(&["delete", kind.object, "--cascade=orphan"]);
        assert_eq!(kubectl.pods(kind.name(), "", 3), before, "{}: left alone", kind.object);
        kubectl.made(kind);
        let after = kubectl.pods(kind.name(), kind.kind, 3);
        assert_eq!(after, before, "{}: the same pods", kind.object);
    }
    // A Deployment leaves its ReplicaSet, and that keeps its pods.
    kubectl.made(&DEPLOYMENT);
    let before = kubectl.pods("web", "ReplicaSet", 3);
    let owner = "jsonpath={.items[*].metadata.ownerReferences[*].kind}";
    let sets = ["get", "replicasets", "--selector=app=web", "--output", owner];
    kubectl.ok(&["delete", "deployment/web", "--cascade=orphan"]);
    assert_eq!(kubectl.ok(&sets), "");
    kubectl.made(&DEPLOYMENT);
    kubectl.rolled_out("deployment/web");
    assert_eq!(kubectl.ok(&sets), "Deployment");
    assert_eq!(kubectl.pods("web", "ReplicaSet", 3), before);
    assert_eq!(kubectl.history("deployment/web"), ["1"]);
}

#[test]
fn jobs_are_waited_for_and_started_by_hand() {
    let kubectl = Kubectl::start_with(&NODES);
    kubectl.ok(&["create", "job", "once", "--image=example.test/app:1"]);
    let complete = ["wait", "--for=condition=complete", "job/once", "--timeout=20s"];
    assert_eq!(kubectl.ok(&complete), "job.batch/once condition met\n");
    assert_eq!(kubectl.value("job/once", ".status.succeeded"), "1");
    assert_eq!(
        kubectl.value("job/once", ".status.conditions[*].type"),
        "SuccessCriteriaMet Complete"
    );

    let broken = JOB.manifest().replace("outcome: run", "outcome: fail");
    let broken = broken.replace("parallelism: 3", "backoffLimit: 0").replace("completions: 3", "");
    kubectl.feed(&["create", "--filename", "-"], &broken);
    let failed = ["wait", "--for=condition=failed", "job/work", "--timeout=20s"];
    assert_eq!(kubectl.ok(&failed), "job.batch/work condition met\n");
    let reason = ".status.conditions[?(@.type=='Failed')].reason";
    assert_eq!(kubectl.value("job/work", reason), "BackoffLimitExceeded");

    let said = kubectl.feed(&["create", "--filename", "-"], CRON_JOB);
    assert_eq!(said, "cronjob.batch/nightly created\n");
    if kubectl.starts_cron_job("nightly", "now") {
        let complete = ["wait", "--for=condition=complete", "job/now", "--timeout=20s"];
        assert_eq!(kubectl.ok(&complete), "job.batch/now condition met\n");
        assert_eq!(kubectl.value("job/now", ".metadata.ownerReferences[*].kind"), "CronJob");
        let hand = ".metadata.annotations.cronjob\\.kubernetes\\.io/instantiate";
        assert_eq!(kubectl.value("job/now", hand), "manual");
        // A CronJob takes nobody in (CJ7): a Job that was left behind stays on its own.
        kubectl.ok(&["delete", "cronjob/nightly", "--cascade=orphan"]);
        assert_eq!(kubectl.value("job/now", ".metadata.ownerReferences"), "");
        kubectl.feed(&["create", "--filename", "-"], CRON_JOB);
        kubectl.settled("cronjob/nightly");
        assert_eq!(kubectl.value("job/now", ".metadata.ownerReferences"), "");
    }
    for verb in ["status", "undo", "restart"] {
        kubectl.fails(&["rollout", verb, "cronjob/nightly"]);
    }
    kubectl.ok(&["patch", "cronjob/nightly", "--patch", r#"{"spec":{"suspend":true}}"#]);
    let table = kubectl.ok(&["get", "cronjob/nightly", "--no-headers"]);
    assert!(table.contains("True"), "{table}");
}
