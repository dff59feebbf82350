//! A containerd, an agent's view of it, and folders.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure_containerd::{BUSYBOX, Containerd};
use tenure_node::runtime::cri::{Cri, CriSettings, LogLimits};
use tenure_node::runtime::{
    ContainerConfig, ContainerRuntime as _, ContainerState, ImageWanted, PodKey, Sandbox,
    SandboxConfig,
};

/// Where pods in the node's network are said to be.
pub(super) const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

pub(super) struct House {
    pub(super) cri: Cri,
    pub(super) containerd: Containerd,
}

impl House {
    /// None on a machine that cannot run containers, unless it must.
    pub(super) async fn open() -> Option<House> {
        let containerd = Containerd::start().unwrap()?;
        Some(House { cri: agent(&containerd, "node-1"), containerd })
    }

    pub(super) fn folder(&self) -> &Path {
        self.containerd.folder()
    }

    pub(super) fn logs(&self, pod: &str) -> PathBuf {
        self.folder().join("logs").join(format!("default_{pod}_uid-{pod}"))
    }

    pub(super) fn config(&self, pod: &str) -> SandboxConfig {
        SandboxConfig {
            pod: PodKey {
                namespace: "default".into(),
                name: pod.into(),
                uid: format!("uid-{pod}"),
            },
            hostname: pod.into(),
            logs: self.logs(pod),
            host_users: true,
            ..SandboxConfig::default()
        }
    }

    pub(super) async fn sandbox(&self, pod: &str) -> Sandbox {
        self.cri.run_sandbox(&self.config(pod)).await.unwrap()
    }

    /// Makes a container from the image it names, and runs it.
    pub(super) async fn start(&self, sandbox: &str, config: &ContainerConfig) -> String {
        let wanted = ImageWanted::new(&config.image_name, "Never");
        let image = self.cri.image(&wanted).await.unwrap().reference;
        let config = ContainerConfig { image, ..config.clone() };
        let id = self.cri.create(sandbox, &config).await.unwrap();
        self.cri.start(&id).await.unwrap();
        id
    }

    /// What a container wrote to its standard output.
    pub(super) fn log(&self, pod: &str, container: &str) -> String {
        let path = self.logs(pod).join(container).join("0.log");
        // It comes with the first line.
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.split_once(" stdout F "));
        lines.map(|(_, line)| format!("{line}\n")).collect()
    }
}

/// The view of one agent; pods use the network of the node, for there is no other.
pub(super) fn agent(containerd: &Containerd, node: &str) -> Cri {
    agent_with(containerd, node, LogLimits::default())
}

pub(super) fn agent_with(containerd: &Containerd, node: &str, logs: LogLimits) -> Cri {
    let settings = CriSettings {
        socket: containerd.socket(),
        node: node.into(),
        node_network: true,
        node_address: Some(ADDRESS),
        logs,
        ..CriSettings::default()
    };
    Cri::new(settings).unwrap()
}

/// A container that runs a script.
pub(super) fn shell(name: &str, script: &str) -> ContainerConfig {
    ContainerConfig {
        name: name.into(),
        image: BUSYBOX.into(),
        image_name: BUSYBOX.into(),
        command: words(&["sh", "-c", script]),
        log: format!("{name}/0.log").into(),
        ..ContainerConfig::default()
    }
}

pub(super) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// Waits until a container has ended and says how.
pub(super) async fn ended(cri: &Cri, id: &str) -> (i32, String) {
    for _ in 0..300 {
        if let ContainerState::Exited { code, reason, .. } = cri.status(id).await.unwrap().state {
            return (code, reason);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("container {id} does not end");
}
