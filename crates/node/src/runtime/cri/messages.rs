//! The messages of CRI v1 that the agent sends and reads, by their field numbers. Fields the agent has
//! no use for are left out: a runtime takes what is absent as unset, and a reader passes over what it
//! does not know. What to put into them is decided in `convert`.

use std::collections::BTreeMap;

use prost::Message;

/// A network, process or memory namespace of the pod.
pub(super) const NAMESPACE_POD: i32 = 0;
/// A namespace of one container.
pub(super) const NAMESPACE_CONTAINER: i32 = 1;
/// A namespace of the node.
pub(super) const NAMESPACE_NODE: i32 = 2;
/// A sandbox that runs.
pub(super) const SANDBOX_READY: i32 = 0;
pub(super) const CONTAINER_CREATED: i32 = 0;
pub(super) const CONTAINER_RUNNING: i32 = 1;
pub(super) const CONTAINER_EXITED: i32 = 2;
/// The runtime's own filter for system calls.
pub(super) const PROFILE_DEFAULT: i32 = 0;
/// No filter.
pub(super) const PROFILE_UNCONFINED: i32 = 1;
/// A filter in a file of the node.
pub(super) const PROFILE_LOCALHOST: i32 = 2;

/// Labels, annotations and other pairs of words.
pub(super) type StringMap = BTreeMap<String, String>;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Nothing {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct VersionRequest {
    #[prost(string, tag = "1")]
    pub(super) version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct VersionResponse {
    #[prost(string, tag = "2")]
    pub(super) runtime_name: String,
    #[prost(string, tag = "3")]
    pub(super) runtime_version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<RuntimeStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RuntimeStatus {
    #[prost(message, repeated, tag = "1")]
    pub(super) conditions: Vec<RuntimeCondition>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RuntimeCondition {
    #[prost(string, tag = "1")]
    pub(super) kind: String,
    #[prost(bool, tag = "2")]
    pub(super) status: bool,
    #[prost(string, tag = "3")]
    pub(super) reason: String,
    #[prost(string, tag = "4")]
    pub(super) message: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DnsConfig {
    #[prost(string, repeated, tag = "1")]
    pub(super) servers: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(super) searches: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    pub(super) options: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PortMapping {
    #[prost(int32, tag = "1")]
    pub(super) protocol: i32,
    #[prost(int32, tag = "2")]
    pub(super) container_port: i32,
    #[prost(int32, tag = "3")]
    pub(super) host_port: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CriMount {
    #[prost(string, tag = "1")]
    pub(super) container_path: String,
    #[prost(string, tag = "2")]
    pub(super) host_path: String,
    #[prost(bool, tag = "3")]
    pub(super) readonly: bool,
    #[prost(bool, tag = "4")]
    pub(super) selinux_relabel: bool,
    #[prost(int32, tag = "5")]
    pub(super) propagation: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NamespaceOption {
    #[prost(int32, tag = "1")]
    pub(super) network: i32,
    #[prost(int32, tag = "2")]
    pub(super) pid: i32,
    #[prost(int32, tag = "3")]
    pub(super) ipc: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Int64Value {
    #[prost(int64, tag = "1")]
    pub(super) value: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SecurityProfile {
    #[prost(int32, tag = "1")]
    pub(super) kind: i32,
    #[prost(string, tag = "2")]
    pub(super) file: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SandboxSecurity {
    #[prost(message, optional, tag = "1")]
    pub(super) namespaces: Option<NamespaceOption>,
    #[prost(message, optional, tag = "3")]
    pub(super) user: Option<Int64Value>,
    #[prost(message, optional, tag = "8")]
    pub(super) group: Option<Int64Value>,
    #[prost(int64, repeated, tag = "5")]
    pub(super) groups: Vec<i64>,
    #[prost(bool, tag = "6")]
    pub(super) privileged: bool,
    #[prost(message, optional, tag = "9")]
    pub(super) seccomp: Option<SecurityProfile>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LinuxSandbox {
    #[prost(string, tag = "1")]
    pub(super) cgroup_parent: String,
    #[prost(message, optional, tag = "2")]
    pub(super) security: Option<SandboxSecurity>,
    #[prost(btree_map = "string, string", tag = "3")]
    pub(super) sysctls: StringMap,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SandboxMetadata {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) uid: String,
    #[prost(string, tag = "3")]
    pub(super) namespace: String,
    #[prost(uint32, tag = "4")]
    pub(super) attempt: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PodSandboxConfig {
    #[prost(message, optional, tag = "1")]
    pub(super) metadata: Option<SandboxMetadata>,
    #[prost(string, tag = "2")]
    pub(super) hostname: String,
    #[prost(string, tag = "3")]
    pub(super) log_directory: String,
    #[prost(message, optional, tag = "4")]
    pub(super) dns: Option<DnsConfig>,
    #[prost(message, repeated, tag = "5")]
    pub(super) ports: Vec<PortMapping>,
    #[prost(btree_map = "string, string", tag = "6")]
    pub(super) labels: StringMap,
    #[prost(btree_map = "string, string", tag = "7")]
    pub(super) annotations: StringMap,
    #[prost(message, optional, tag = "8")]
    pub(super) linux: Option<LinuxSandbox>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RunSandboxRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) config: Option<PodSandboxConfig>,
    #[prost(string, tag = "2")]
    pub(super) runtime_handler: String,
}

/// A request or an answer that holds one id: of a sandbox, a container, or where streams are served.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Id {
    #[prost(string, tag = "1")]
    pub(super) id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PodIp {
    #[prost(string, tag = "1")]
    pub(super) ip: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SandboxNetwork {
    #[prost(string, tag = "1")]
    pub(super) ip: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) more: Vec<PodIp>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SandboxStatus {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(message, optional, tag = "2")]
    pub(super) metadata: Option<SandboxMetadata>,
    #[prost(int32, tag = "3")]
    pub(super) state: i32,
    #[prost(message, optional, tag = "5")]
    pub(super) network: Option<SandboxNetwork>,
    #[prost(btree_map = "string, string", tag = "7")]
    pub(super) labels: StringMap,
    #[prost(btree_map = "string, string", tag = "8")]
    pub(super) annotations: StringMap,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SandboxStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<SandboxStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SandboxFilter {
    #[prost(btree_map = "string, string", tag = "3")]
    pub(super) labels: StringMap,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ListSandboxesRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) filter: Option<SandboxFilter>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ListedSandbox {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(message, optional, tag = "2")]
    pub(super) metadata: Option<SandboxMetadata>,
    #[prost(int32, tag = "3")]
    pub(super) state: i32,
    #[prost(btree_map = "string, string", tag = "5")]
    pub(super) labels: StringMap,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ListSandboxesResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) items: Vec<ListedSandbox>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ImageSpec {
    #[prost(string, tag = "1")]
    pub(super) image: String,
    #[prost(string, tag = "18")]
    pub(super) user_specified: String,
}

/// A variable; its value may be a Secret, so it is not shown.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) value: Vec<u8>,
}

impl std::fmt::Debug for KeyValue {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}=({} bytes)", self.key, self.value.len())
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Resources {
    #[prost(int64, tag = "1")]
    pub(super) cpu_period: i64,
    #[prost(int64, tag = "2")]
    pub(super) cpu_quota: i64,
    #[prost(int64, tag = "3")]
    pub(super) cpu_shares: i64,
    #[prost(int64, tag = "4")]
    pub(super) memory_limit: i64,
    #[prost(int64, tag = "5")]
    pub(super) oom_score: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Capability {
    #[prost(string, repeated, tag = "1")]
    pub(super) add: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(super) drop: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerSecurity {
    #[prost(message, optional, tag = "1")]
    pub(super) capabilities: Option<Capability>,
    #[prost(bool, tag = "2")]
    pub(super) privileged: bool,
    #[prost(message, optional, tag = "3")]
    pub(super) namespaces: Option<NamespaceOption>,
    #[prost(message, optional, tag = "5")]
    pub(super) user: Option<Int64Value>,
    #[prost(string, tag = "6")]
    pub(super) user_name: String,
    #[prost(message, optional, tag = "12")]
    pub(super) group: Option<Int64Value>,
    #[prost(bool, tag = "7")]
    pub(super) read_only_root: bool,
    #[prost(int64, repeated, tag = "8")]
    pub(super) groups: Vec<i64>,
    #[prost(bool, tag = "11")]
    pub(super) no_new_privileges: bool,
    #[prost(string, repeated, tag = "13")]
    pub(super) masked_paths: Vec<String>,
    #[prost(string, repeated, tag = "14")]
    pub(super) read_only_paths: Vec<String>,
    #[prost(message, optional, tag = "15")]
    pub(super) seccomp: Option<SecurityProfile>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LinuxContainer {
    #[prost(message, optional, tag = "1")]
    pub(super) resources: Option<Resources>,
    #[prost(message, optional, tag = "2")]
    pub(super) security: Option<ContainerSecurity>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerMetadata {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(uint32, tag = "2")]
    pub(super) attempt: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CriContainerConfig {
    #[prost(message, optional, tag = "1")]
    pub(super) metadata: Option<ContainerMetadata>,
    #[prost(message, optional, tag = "2")]
    pub(super) image: Option<ImageSpec>,
    #[prost(string, repeated, tag = "3")]
    pub(super) command: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    pub(super) args: Vec<String>,
    #[prost(string, tag = "5")]
    pub(super) working_dir: String,
    #[prost(message, repeated, tag = "6")]
    pub(super) envs: Vec<KeyValue>,
    #[prost(message, repeated, tag = "7")]
    pub(super) mounts: Vec<CriMount>,
    #[prost(btree_map = "string, string", tag = "9")]
    pub(super) labels: StringMap,
    #[prost(btree_map = "string, string", tag = "10")]
    pub(super) annotations: StringMap,
    #[prost(string, tag = "11")]
    pub(super) log_path: String,
    #[prost(bool, tag = "12")]
    pub(super) stdin: bool,
    #[prost(bool, tag = "13")]
    pub(super) stdin_once: bool,
    #[prost(bool, tag = "14")]
    pub(super) tty: bool,
    #[prost(message, optional, tag = "15")]
    pub(super) linux: Option<LinuxContainer>,
    #[prost(int32, tag = "18")]
    pub(super) stop_signal: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CreateContainerRequest {
    #[prost(string, tag = "1")]
    pub(super) sandbox: String,
    #[prost(message, optional, tag = "2")]
    pub(super) config: Option<CriContainerConfig>,
    #[prost(message, optional, tag = "3")]
    pub(super) sandbox_config: Option<PodSandboxConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StopContainerRequest {
    #[prost(string, tag = "1")]
    pub(super) container: String,
    #[prost(int64, tag = "2")]
    pub(super) timeout_seconds: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct UpdateContainerRequest {
    #[prost(string, tag = "1")]
    pub(super) container: String,
    #[prost(message, optional, tag = "2")]
    pub(super) linux: Option<Resources>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerFilter {
    #[prost(btree_map = "string, string", tag = "4")]
    pub(super) labels: StringMap,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ListContainersRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) filter: Option<ContainerFilter>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ListedContainer {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(string, tag = "2")]
    pub(super) sandbox: String,
    #[prost(int32, tag = "6")]
    pub(super) state: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ListContainersResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) items: Vec<ListedContainer>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerStatus {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(message, optional, tag = "2")]
    pub(super) metadata: Option<ContainerMetadata>,
    #[prost(int32, tag = "3")]
    pub(super) state: i32,
    #[prost(int64, tag = "5")]
    pub(super) started_at: i64,
    #[prost(int64, tag = "6")]
    pub(super) finished_at: i64,
    #[prost(int32, tag = "7")]
    pub(super) exit_code: i32,
    #[prost(message, optional, tag = "8")]
    pub(super) image: Option<ImageSpec>,
    #[prost(string, tag = "9")]
    pub(super) image_ref: String,
    #[prost(string, tag = "10")]
    pub(super) reason: String,
    #[prost(string, tag = "11")]
    pub(super) message: String,
    #[prost(btree_map = "string, string", tag = "12")]
    pub(super) labels: StringMap,
    #[prost(btree_map = "string, string", tag = "13")]
    pub(super) annotations: StringMap,
    #[prost(string, tag = "15")]
    pub(super) log_path: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<ContainerStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExecSyncRequest {
    #[prost(string, tag = "1")]
    pub(super) container: String,
    #[prost(string, repeated, tag = "2")]
    pub(super) command: Vec<String>,
    #[prost(int64, tag = "3")]
    pub(super) timeout_seconds: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExecSyncResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) stdout: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) stderr: Vec<u8>,
    #[prost(int32, tag = "3")]
    pub(super) exit_code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExecRequest {
    #[prost(string, tag = "1")]
    pub(super) container: String,
    #[prost(string, repeated, tag = "2")]
    pub(super) command: Vec<String>,
    #[prost(bool, tag = "3")]
    pub(super) tty: bool,
    #[prost(bool, tag = "4")]
    pub(super) stdin: bool,
    #[prost(bool, tag = "5")]
    pub(super) stdout: bool,
    #[prost(bool, tag = "6")]
    pub(super) stderr: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AttachRequest {
    #[prost(string, tag = "1")]
    pub(super) container: String,
    #[prost(bool, tag = "2")]
    pub(super) stdin: bool,
    #[prost(bool, tag = "3")]
    pub(super) tty: bool,
    #[prost(bool, tag = "4")]
    pub(super) stdout: bool,
    #[prost(bool, tag = "5")]
    pub(super) stderr: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PortForwardRequest {
    #[prost(string, tag = "1")]
    pub(super) sandbox: String,
    #[prost(int32, repeated, tag = "2")]
    pub(super) ports: Vec<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ImageRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) image: Option<ImageSpec>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CriImage {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(string, repeated, tag = "3")]
    pub(super) repo_digests: Vec<String>,
    #[prost(message, optional, tag = "5")]
    pub(super) uid: Option<Int64Value>,
    #[prost(string, tag = "6")]
    pub(super) user_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ImageStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) image: Option<CriImage>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerEvent {
    #[prost(string, tag = "1")]
    pub(super) container: String,
    #[prost(message, optional, tag = "4")]
    pub(super) sandbox: Option<SandboxStatus>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_may_be_a_secret_is_never_shown() {
        let pair = KeyValue { key: "PASSWORD".into(), value: b"swordfish".to_vec() };
        let config = CriContainerConfig { envs: vec![pair], ..CriContainerConfig::default() };
        let shown = format!("{config:?}");
        assert!(shown.contains("PASSWORD=(9 bytes)") && !shown.contains("swordfish"));
    }
}
