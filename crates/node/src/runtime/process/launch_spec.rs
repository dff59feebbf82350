//! Turns what the agent wants of a container into what a shim does: image, command, environment,
//! user and walls become one order. Nothing is started here.

use std::path::PathBuf;
use std::sync::Arc;

use rustix::thread::CapabilitySet;

use super::image::ResolvedImage;
use super::state::{ContainerRecord, SandboxRecord};
use super::users;
use super::wire::{LaunchSpec, NetworkOf, Root, Users, Walls};
use super::{IMAGES, ProcessRuntime, accounts, refused};
use crate::runtime::{ContainerConfig, Mount, Pulling, RedactedValue, RuntimeError, Security};

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What containers may do by default everywhere, but for making device files.
const USUAL: [CapabilitySet; 13] = [
    CapabilitySet::CHOWN,
    CapabilitySet::DAC_OVERRIDE,
    CapabilitySet::FSETID,
    CapabilitySet::FOWNER,
    CapabilitySet::NET_RAW,
    CapabilitySet::SETGID,
    CapabilitySet::SETUID,
    CapabilitySet::SETFCAP,
    CapabilitySet::SETPCAP,
    CapabilitySet::NET_BIND_SERVICE,
    CapabilitySet::SYS_CHROOT,
    CapabilitySet::KILL,
    CapabilitySet::AUDIT_WRITE,
];

impl ProcessRuntime {
    /// The order for a container of a pod.
    pub(super) fn order(
        &self,
        sandbox: &SandboxRecord,
        id: &str,
        config: &ContainerConfig,
        found: ResolvedImage,
    ) -> Result<(ContainerRecord, LaunchSpec), RuntimeError> {
        if sandbox.stopped {
            return Err(RuntimeError::Failed("the sandbox is stopped".to_owned()));
        }
        let security = &config.security;
        if security.privileged && !self.settings.allow_privileged {
            return Err(refused("privileged"));
        }
        let filter_calls = self.filters_calls(security)?;
        let command = command(config, &found);
        if command.is_empty() {
            return Err(RuntimeError::Failed(format!(
                "no command specified: image \"{}\" has none on this node and the pod names none",
                config.image_name
            )));
        }
        let mut order = self.base_order(sandbox, self.keep.place(&sandbox.id, id));
        order.command = command;
        order.env = environment(sandbox, config, &found);
        order.directory = first(&[&config.directory, &found.directory]);
        order.mounts = mounts(config)?;
        order.capabilities = self.capabilities(security)?;
        self.set_user(&mut order, security, &found)?;
        order.walls.read_only = security.read_only_root;
        order.walls.privileged = security.privileged;
        let walled = !self.settings.plain && !security.privileged;
        order.filter_calls = walled && filter_calls;
        order.own_abstract_sockets = walled && self.abilities.landlock.is_ok();
        order.processes_max = walled.then_some(self.settings.processes_max);
        if security.privileged && !self.abilities.single {
            // Who may do everything on this machine is somebody of this machine.
            order.walls.users = Users::Node;
        }
        check_users(&order)?;
        order.root = match found.root {
            Root::Folder { path, .. } => Root::Folder { path, read_only: security.read_only_root },
            Root::Host => Root::Host,
        };
        if self.settings.plain {
            let root = order.folder.join("root").into_os_string().into_encoded_bytes();
            order.env.push(("TENURE_ROOT".to_owned(), RedactedValue(root)));
        }
        if let Ok(groups) = &self.abilities.groups {
            order.groups_of_control = groups.of(id, &config.limits, self.settings.processes_max);
        }
        order.oom_score = config.limits.oom_score;
        order.log = Some(sandbox.logs.join(&config.log));
        order.log_size = self.settings.log_size;
        order.log_files = self.settings.log_files;
        (order.stdin, order.stdin_once, order.tty) = (config.stdin, config.stdin_once, config.tty);
        let image_id = match &order.root {
            Root::Host => "host".to_owned(),
            Root::Folder { path, .. } => path.display().to_string(),
        };
        let record = ContainerRecord {
            id: id.to_owned(),
            sandbox: sandbox.id.clone(),
            name: config.name.clone(),
            attempt: config.attempt,
            image: config.image_name.clone(),
            image_id,
            stop_signal: config.stop_signal.clone(),
            tty: config.tty,
            stdin: config.stdin,
            pause: false,
            own_users: order.walls.first_id().is_some(),
        };
        Ok((record, order))
    }

    /// What an image name means here. A folder with keys or data of the cluster in it is no image.
    pub(super) async fn find_image(
        &self,
        name: &str,
        pulling: Pulling,
    ) -> Result<ResolvedImage, RuntimeError> {
        let (settings, wanted) = (Arc::clone(&self.settings), name.to_owned());
        // To unpack one may take long, and so may waiting for somebody who does.
        let finding = tokio::task::spawn_blocking(move || {
            settings.images.find(&wanted, &settings.state.join(IMAGES), &pulling)
        });
        let mut found =
            finding.await.map_err(|error| RuntimeError::Failed(error.to_string()))??;
        if let Root::Folder { path, .. } = &mut found.root {
            let refused = |message: String| RuntimeError::Image { reason: "ErrImagePull", message };
            *path = std::fs::canonicalize(&*path)
                .map_err(|error| refused(format!("image folder {}: {error}", path.display())))?;
            if let Some(private) = self.private.held_by(path) {
                return Err(refused(format!(
                    "image folder {} holds {}, which no pod may see",
                    path.display(),
                    private.display()
                )));
            }
        }
        Ok(found)
    }

    /// The order for the process that holds a pod's process namespace.
    pub(super) fn pause_order(&self, sandbox: &SandboxRecord, folder: PathBuf) -> LaunchSpec {
        let mut order = self.base_order(sandbox, folder);
        order.capabilities = Some(0);
        order
    }

    /// The order for a container that only shows which walls there are.
    pub(super) fn trial_order(&self, folder: PathBuf, networked: bool) -> LaunchSpec {
        let single = self.abilities.single;
        let first = users::first_of(0);
        let walls = Walls {
            mount: true,
            pid: true,
            uts: true,
            ipc: true,
            users: if single { Users::One } else { Users::Range { first, of: None } },
            network: if networked {
                NetworkOf::Holder { users: single }
            } else {
                NetworkOf::Machine
            },
            single,
            ..Walls::default()
        };
        LaunchSpec { folder, walls, ..LaunchSpec::default() }
    }

    fn base_order(&self, sandbox: &SandboxRecord, folder: PathBuf) -> LaunchSpec {
        let plain = self.settings.plain;
        let single = self.abilities.single;
        let users = match (plain, single) {
            (true, _) => Users::Node,
            (false, true) => Users::One,
            (false, false) => Users::Range {
                first: self.keep.first_id(&sandbox.pod.uid),
                of: self.keep.holder_of_users(&sandbox.id),
            },
        };
        let held = sandbox.holder.is_some();
        let walls = Walls {
            mount: !plain,
            pid: !plain && !sandbox.host_pid,
            pid_of: self.keep.pause_of(&sandbox.id),
            uts: !plain && !sandbox.host_network,
            ipc: !plain && !sandbox.host_ipc,
            // What a container of one user makes is no other's, unless it makes it before it has that user.
            ipc_of: if plain || (single && !held) || sandbox.host_ipc {
                None
            } else {
                self.keep.first_process_of(&sandbox.id)
            },
            users,
            network: if held { NetworkOf::Holder { users: single } } else { NetworkOf::Machine },
            single: !plain && single,
            ..Walls::default()
        };
        let hosts = format!(
            "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n{}\t{}\n",
            sandbox.address, sandbox.hostname
        );
        LaunchSpec {
            folder,
            hostname: sandbox.hostname.clone(),
            hosts: if sandbox.host_network { String::new() } else { hosts },
            resolver: sandbox.resolver.clone(),
            walls,
            ends_with_agent: self.settings.ends_with_agent,
            shm_rmid_forced: sandbox.shm_rmid_forced.clone(),
            ..LaunchSpec::default()
        }
    }

    fn set_user(
        &self,
        order: &mut LaunchSpec,
        security: &Security,
        found: &ResolvedImage,
    ) -> Result<(), RuntimeError> {
        let (image_uid, image_gid) = match (&found.root, security.uid) {
            (Root::Folder { path, .. }, None) => accounts::resolve(path, &found.user)
                .map_err(|error| RuntimeError::Failed(error.to_string()))?,
            _ => (0, None),
        };
        order.uid = security.uid.unwrap_or(image_uid);
        order.gid = security.gid.or(image_gid);
        order.groups.clone_from(&security.groups);
        // A plain process of the operator's may become whom the operator may, unless the pod says no.
        order.no_new_privileges = security.no_new_privileges
            || !(self.settings.plain || security.allow_escalation || security.privileged);
        if self.settings.plain && self.abilities.single {
            // Without a namespace an ordinary user can be nobody else.
            order.uid = rustix::process::geteuid().as_raw();
            order.gid = Some(rustix::process::getegid().as_raw());
            order.walls.single = true;
        }
        Ok(())
    }

    /// Whether calls to the kernel are filtered: `RuntimeDefault`, also where nothing is said.
    fn filters_calls(&self, security: &Security) -> Result<bool, RuntimeError> {
        match security.seccomp.as_ref().map(|(kind, _)| kind.as_str()) {
            None | Some("RuntimeDefault") => Ok(true),
            Some("Unconfined") if self.settings.allow_privileged || self.settings.plain => {
                Ok(false)
            }
            Some("Unconfined") => Err(refused("seccompProfile.type Unconfined")),
            Some(other) => Err(RuntimeError::Refused(format!(
                "seccompProfile.type {other} is not there on this node: its containers have the \
                 filter of RuntimeDefault"
            ))),
        }
    }

    fn capabilities(&self, security: &Security) -> Result<Option<u64>, RuntimeError> {
        if security.privileged {
            return Ok(None);
        }
        let usual = USUAL.into_iter().fold(CapabilitySet::empty(), |all, one| all | one);
        let listed = |names: &[String]| names.iter().any(|name| name.eq_ignore_ascii_case("ALL"));
        let mut set = if listed(&security.drop) { CapabilitySet::empty() } else { usual };
        for name in &security.drop {
            set &= !capability(name).unwrap_or(CapabilitySet::empty());
        }
        let added =
            if listed(&security.add) { vec!["ALL".to_owned()] } else { security.add.clone() };
        for name in added {
            let one = capability(&name);
            let known = one.is_some_and(|one| usual.contains(one));
            if !known && !self.settings.allow_privileged {
                return Err(refused(&format!("capability {name}")));
            }
            set |= one.unwrap_or(CapabilitySet::all());
        }
        Ok(Some(set.bits()))
    }
}

/// A pod with a range of users has no others.
fn check_users(order: &LaunchSpec) -> Result<(), RuntimeError> {
    let all = order.groups.iter().chain(&order.gid).chain([&order.uid]);
    match all.max().filter(|id| order.walls.first_id().is_some() && **id >= users::USERS) {
        Some(id) => Err(RuntimeError::Refused(format!(
            "user or group {id} is not one of the {} that a pod has on this node",
            users::USERS
        ))),
        None => Ok(()),
    }
}

fn capability(name: &str) -> Option<CapabilitySet> {
    let upper = name.to_ascii_uppercase();
    let short = upper.strip_prefix("CAP_").unwrap_or(&upper);
    CapabilitySet::from_name(short)
}

/// The pod's command before the image's; the pod's arguments before the image's.
fn command(config: &ContainerConfig, found: &ResolvedImage) -> Vec<String> {
    let (start, rest) = match (config.command.is_empty(), config.args.is_empty()) {
        (false, _) => (&config.command, &config.args),
        (true, false) => (&found.entrypoint, &config.args),
        (true, true) => (&found.entrypoint, &found.command),
    };
    start.iter().chain(rest).cloned().collect()
}

fn environment(
    sandbox: &SandboxRecord,
    config: &ContainerConfig,
    found: &ResolvedImage,
) -> Vec<(String, RedactedValue)> {
    let hidden = |text: &str| RedactedValue(text.as_bytes().to_vec());
    let mut all = vec![("PATH".to_owned(), hidden(PATH))];
    if !sandbox.hostname.is_empty() {
        all.push(("HOSTNAME".to_owned(), hidden(&sandbox.hostname)));
    }
    if config.tty {
        all.push(("TERM".to_owned(), hidden("xterm")));
    }
    for entry in &found.env {
        if let Some((name, value)) = entry.split_once('=') {
            all.push((name.to_owned(), hidden(value)));
        }
    }
    all.extend(config.env.iter().cloned());
    all
}

fn mounts(config: &ContainerConfig) -> Result<Vec<Mount>, RuntimeError> {
    let mut all = config.mounts.clone();
    if let Some((at, from)) = &config.termination {
        let made = std::fs::OpenOptions::new().create(true).append(true).open(from);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        made.and_then(|file| file.set_permissions(mode))
            .map_err(|error| RuntimeError::Failed(format!("termination message: {error}")))?;
        let from = from.clone();
        all.push(Mount { at: at.clone(), from, read_only: false, propagation: None });
    }
    Ok(all)
}

fn first(candidates: &[&str]) -> String {
    candidates.iter().find(|one| !one.is_empty()).copied().unwrap_or("/").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pods_words_come_before_the_images() {
        let found = ResolvedImage {
            entrypoint: vec!["/entry".to_owned()],
            command: vec!["default".to_owned()],
            ..ResolvedImage::default()
        };
        let config = |command: &[&str], args: &[&str]| ContainerConfig {
            command: command.iter().map(|&part| part.to_owned()).collect(),
            args: args.iter().map(|&part| part.to_owned()).collect(),
            ..ContainerConfig::default()
        };
        assert_eq!(command(&config(&[], &[]), &found), ["/entry", "default"]);
        assert_eq!(command(&config(&[], &["x"]), &found), ["/entry", "x"]);
        assert_eq!(command(&config(&["c"], &[]), &found), ["c"]);
        assert_eq!(command(&config(&["c"], &["x"]), &found), ["c", "x"]);
    }

    #[test]
    fn capabilities_have_two_spellings() {
        assert_eq!(capability("CAP_CHOWN"), Some(CapabilitySet::CHOWN));
        assert_eq!(capability("net_raw"), Some(CapabilitySet::NET_RAW));
        assert_eq!(capability("NO_SUCH"), None);
    }
}
