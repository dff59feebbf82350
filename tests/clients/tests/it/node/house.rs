//! A server with one node that runs pods for real, on the runtime a test is asked for, with kubectl in
//! front. What pods do is said by tests.

use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use tenure_containerd::{BUSYBOX, Containerd};

use crate::kubectl::runner::Kubectl;

/// How long a pod may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(100);

/// Which runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum On {
    /// Processes of this machine.
    Process,
    /// A containerd of its own.
    Cri,
}

/// A server and its node. The server ends before the runtime.
pub(super) struct House {
    pub(super) kubectl: Kubectl,
    pub(super) on: On,
    image: &'static str,
    containerd: Option<Containerd>,
    /// Where busybox lies for the runtime `process`; gone with the house.
    layout: Option<TempDir>,
}

impl House {
    /// A house whose image is busybox on every runtime: commands and shell are the same.
    pub(super) fn with_busybox(on: On) -> Option<House> {
        House::busybox_and(on, &[])
    }

    /// The same with more flags for the runtime `process`.
    pub(super) fn busybox_and(on: On, flags: &[&str]) -> Option<House> {
        if on == On::Cri {
            return House::open(on, &[]);
        }
        let archives = tenure_containerd::images().unwrap()?;
        let layout = TempDir::new().unwrap();
        let mut tar = std::process::Command::new("tar");
        tar.arg("-xf").arg(archives.join("busybox.tar")).arg("-C").arg(layout.path());
        assert!(tar.status().unwrap().success());
        let folder = format!("busybox={}", layout.path().display());
        let mut house = House::open(on, &[&["--image-dir", &folder], flags].concat())?;
        (house.image, house.layout) = ("busybox", Some(layout));
        Some(house)
    }

    /// A house that keeps nothing. None on a machine that cannot run this runtime, unless it must.
    pub(super) fn open(on: On, flags: &[&str]) -> Option<House> {
        House::keeping(on, &[&["--ephemeral"], flags].concat())
    }

    /// The same, which keeps what these flags say.
    pub(super) fn keeping(on: On, flags: &[&str]) -> Option<House> {
        let containerd = match on {
            On::Process => None,
            On::Cri => Some(Containerd::start().unwrap()?),
        };
        let runtime = containerd.as_ref().map(|it| format!("cri={}", it.socket().display()));
        let mut all = Vec::new();
        if !flags.contains(&"--nodes") {
            all.extend(["--nodes", "1"]);
        }
        if let Some(runtime) = &runtime {
            all.extend(["--runtime", runtime, "--cri-host-network"]);
        }
        all.extend(flags);
        let kubectl = Kubectl::start_with(&all);
        let image = if on == On::Cri { BUSYBOX } else { "host" };
        Some(House { kubectl, on, image, containerd, layout: None })
    }

    /// The runtime of a node on `cri`, to be killed and brought back.
    pub(super) fn containerd(&mut self) -> &mut Containerd {
        self.containerd.as_mut().unwrap()
    }

    /// The image in which commands of these tests are found.
    pub(super) fn image(&self) -> &'static str {
        self.image
    }

    /// Makes objects.
    pub(super) fn create(&self, object: &Value) {
        self.kubectl.feed(&["create", "--filename", "-"], &object.to_string());
    }

    /// Deletes a pod at once.
    pub(super) fn delete_pod(&self, name: &str) {
        self.kubectl.ok(&["delete", "pod", name, "--grace-period", "1"]);
    }

    /// Waits until something holds, and says what was there last when it never does.
    pub(super) fn until<T>(&self, what: &str, look: impl Fn() -> T, holds: impl Fn(&T) -> bool) -> T
    where
        T: std::fmt::Debug,
    {
        let begin = Instant::now();
        loop {
            let seen = look();
            if holds(&seen) {
                return seen;
            }
            assert!(begin.elapsed() < LIMIT, "{what}, never: {seen:?}\n{}", self.told());
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits for the phase of a pod.
    pub(super) fn phase(&self, pod: &str, phase: &str) {
        let object = format!("pod/{pod}");
        let look = || self.kubectl.value(&object, ".status.phase");
        self.until(&format!("pod {pod} is {phase}"), look, |seen| seen == phase);
    }

    /// The log of a pod, once it contains something.
    pub(super) fn log_with(&self, pod: &str, text: &str) -> String {
        let look = || self.log(pod);
        self.until(&format!("the log of {pod} has `{text}`"), look, |log| log.contains(text))
    }

    /// The log of a pod so far; empty while it has none.
    pub(super) fn log(&self, pod: &str) -> String {
        let mut command = self.kubectl.command(&["logs", pod]);
        let output = command.output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a command in a pod and gives what it prints.
    pub(super) fn exec(&self, pod: &str, command: &[&str]) -> String {
        self.kubectl.ok(&[&["exec", pod, "--"], command].concat())
    }

    /// One object as kubectl gives it.
    pub(super) fn get(&self, object: &str) -> Value {
        serde_json::from_str(&self.kubectl.ok(&["get", object, "--output", "json"])).unwrap()
    }

    /// Pods, events and logs, for whoever has to find out why.
    fn told(&self) -> String {
        let told = |arguments: &[&str]| {
            let output = self.kubectl.command(arguments).output().unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let mut all = told(&["get", "pods", "--output", "wide"]) + &told(&["get", "events"]);
        for pod in told(&["get", "pods", "--output", "name"]).lines() {
            all += &format!("{pod}:\n{}", told(&["logs", pod, "--tail", "20"]));
        }
        all
    }
}

impl Drop for House {
    /// Processes outlive an agent that is killed, so pods go first.
    fn drop(&mut self) {
        let kinds = "deployments,daemonsets,pods";
        let arguments = ["delete", kinds, "--all", "--grace-period", "1", "--timeout", "20s"];
        let _ = self.kubectl.command(&arguments).output();
    }
}
