//! Which servers `tenure up` started on this machine, for commands that are told of none.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tenure_host::kubeconfig::CONTEXT;
use tenure_host::server_record::{self, ServerRecord};

use crate::environment;
use crate::report::CommandError;
use crate::up::data_dir;

/// How long a server of this machine may take to take a connection.
const CONNECT_LIMIT: Duration = Duration::from_millis(500);

/// The folder that says which servers run; none where there is no home folder to put it in.
pub(crate) fn register() -> Option<PathBuf> {
    let variable =
        |name| environment::variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = variable("XDG_STATE_HOME");
    let home = variable("HOME").filter(|home| home.is_dir()).map(|home| home.join(".local/state"));
    Some(state.or(home)?.join("tenure/running"))
}

/// The kubeconfig of a server that runs here, where clients would otherwise find none.
pub(crate) fn kubeconfig() -> Result<Option<PathBuf>, CommandError> {
    let is_set = |name| environment::variable(name).is_some_and(|value| !value.is_empty());
    if is_set("KUBECONFIG") || is_set("KUBERNETES_SERVICE_HOST") || usual_kubeconfig().is_some() {
        return Ok(None);
    }
    let usual = data_dir(None).ok().map(|dir| dir.join("kubeconfig")).filter(|file| file.exists());
    if let Some(usual) = usual.iter().find(|file| answers(file)) {
        return Ok(Some(usual.clone()));
    }
    let found = running().into_iter().map(|record| record.folder.join("kubeconfig"));
    let found: Vec<PathBuf> = found.filter(|file| answers(file)).collect();
    match found.as_slice() {
        // One that does not answer is still what is meant: the error then names its address.
        [] => Ok(usual),
        [one] => Ok(Some(one.clone())),
        several => {
            let names: Vec<String> =
                several.iter().map(|file| format!("`{}`", file.display())).collect();
            Err(CommandError::new("several servers run here").hint(format!(
                "name the kubeconfig of one with `--kubeconfig FILE`: {}",
                names.join(", ")
            )))
        }
    }
}

/// `~/.kube/config`, if there is something in it.
pub(crate) fn usual_kubeconfig() -> Option<PathBuf> {
    let path = PathBuf::from(environment::variable("HOME")?).join(".kube/config");
    let text = fs::read(&path).ok()?;
    says_something(&text).then_some(path)
}

/// Whether a kubeconfig leads anywhere; kubectl leaves one with empty lists. What cannot be read says something:
/// whoever uses it says what is wrong.
fn says_something(text: &[u8]) -> bool {
    let Ok(config) = tenure_yaml::to_json(text, tenure_yaml::YamlLimits::default()) else {
        return !text.iter().all(u8::is_ascii_whitespace);
    };
    let is_empty = |list: &str| match config.get(list) {
        None | Some(Value::Null) => true,
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    };
    !(is_empty("clusters") && is_empty("contexts") && (config.is_object() || config.is_null()))
}

/// The servers of this user that run on this machine.
pub(crate) fn running() -> Vec<ServerRecord> {
    let kept = register().map(|all| server_record::living(&all)).unwrap_or_default();
    let mut all: Vec<ServerRecord> = kept.into_iter().chain(ephemeral()).collect();
    all.sort_by(|one, other| one.folder.cmp(&other.folder));
    all.dedup_by(|one, other| one.folder == other.folder);
    all
}

/// Those that keep nothing: each has a folder of this user's that only they may read.
fn ephemeral() -> Vec<ServerRecord> {
    let me = rustix::process::geteuid().as_raw();
    let entries = fs::read_dir(environment::temporary_folder()).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| {
        let named = entry.file_name().to_string_lossy().starts_with("tenure.");
        named && entry.metadata().is_ok_and(|is| is.uid() == me && is.mode() & 0o077 == 0)
    });
    ours.filter_map(|entry| ServerRecord::read(&entry.path()))
        .filter(server_record::lives)
        .collect()
}

/// Whether somebody takes connections where a kubeconfig leads.
fn answers(kubeconfig: &Path) -> bool {
    let address = || -> Option<SocketAddr> {
        let text = fs::read(kubeconfig).ok()?;
        let config = tenure_yaml::to_json(&text, tenure_yaml::YamlLimits::default()).ok()?;
        let clusters = config.get("clusters").and_then(Value::as_array)?;
        let ours = |cluster: &&Value| cluster.get("name").and_then(Value::as_str) == Some(CONTEXT);
        let server = clusters.iter().find(ours)?.pointer("/cluster/server")?.as_str()?;
        server.strip_prefix("https://")?.trim_end_matches('/').parse().ok()
    };
    address().is_some_and(|address| TcpStream::connect_timeout(&address, CONNECT_LIMIT).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r179a_a_kubeconfig_with_empty_lists_leads_nowhere() {
        let empty = "apiVersion: v1\nclusters: null\ncontexts: []\nkind: Config\nusers: null\n";
        for text in ["", "\n", "# mine\n", empty] {
            assert!(!says_something(text.as_bytes()), "{text}");
        }
        for text in ["clusters: [{name: a}]\n", "contexts: [{name: a}]\n", "- a\n", "a: [\n"] {
            assert!(says_something(text.as_bytes()), "{text}");
        }
    }
}
