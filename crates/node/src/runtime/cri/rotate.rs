//! Puts full logs aside. A runtime writes logs and never looks at their size; it opens a new file when
//! it is told that the old one has another name. Reading logs is elsewhere.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::client::{CriClient, USUAL, failed};
use super::messages as cri;
use crate::clock;
use crate::runtime::RuntimeError;

/// When a log is put aside, and how much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLimits {
    /// How long a file may get.
    pub bytes_max: u64,
    /// How many files there are at most, the one that is written among them.
    pub files_max: usize,
    /// How often files are looked at.
    pub every: Duration,
}

impl Default for LogLimits {
    fn default() -> LogLimits {
        LogLimits { bytes_max: 10 << 20, files_max: 5, every: Duration::from_secs(10) }
    }
}

/// Looks after the logs of running containers, for as long as anybody lets it run.
pub(super) async fn rotate(client: CriClient, labels: cri::StringMap, limits: LogLimits) {
    let mut paths: HashMap<String, PathBuf> = HashMap::new();
    loop {
        tokio::time::sleep(limits.every).await;
        let Ok((_, containers)) = super::watch::list(&client, &labels).await else { continue };
        let running = containers.iter().filter(|listed| listed.state == cri::CONTAINER_RUNNING);
        let mut now = HashMap::new();
        for listed in running {
            let known = match paths.remove(&listed.id) {
                Some(path) => Ok(path),
                None => path(&client, &listed.id).await,
            };
            // A container that is gone has no log to look after.
            let Ok(path) = known else { continue };
            if let Err(error) = rotate_if_long(&client, &listed.id, &path, limits).await {
                tracing::warn!(
                    %error, log = %path.display(),
                    "a full log cannot be put aside"
                );
            }
            now.insert(listed.id.clone(), path);
        }
        paths = now;
    }
}

async fn path(client: &CriClient, container: &str) -> Result<PathBuf, RuntimeError> {
    let question = cri::Id { id: container.to_owned() };
    let path = "/runtime.v1.RuntimeService/ContainerStatus";
    let answer: cri::ContainerStatusResponse =
        client.call(path, question, USUAL).await.map_err(failed)?;
    Ok(answer.status.unwrap_or_default().log_path.into())
}

async fn rotate_if_long(
    client: &CriClient,
    container: &str,
    log: &Path,
    limits: LogLimits,
) -> io::Result<()> {
    let length = match tokio::fs::metadata(log).await {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if length <= limits.bytes_max {
        return Ok(());
    }
    let mut aside = log.as_os_str().to_owned();
    aside.push(clock::timestamp().strftime(".%Y%m%d-%H%M%S.%9f").to_string());
    tokio::fs::rename(log, &aside).await?;
    let question = cri::Id { id: container.to_owned() };
    let path = "/runtime.v1.RuntimeService/ReopenContainerLog";
    if let Err(status) = client.call::<_, cri::Nothing>(path, question, USUAL).await {
        // It still writes to the old file, which gets its name back.
        tokio::fs::rename(&aside, log).await?;
        return Err(io::Error::other(failed(status).to_string()));
    }
    let mut old = files(log).await?;
    let surplus = old.len().saturating_sub(limits.files_max.saturating_sub(1));
    for file in old.drain(..surplus) {
        tokio::fs::remove_file(file).await?;
    }
    Ok(())
}

/// Files put aside, oldest first.
async fn files(log: &Path) -> io::Result<Vec<PathBuf>> {
    let (Some(folder), Some(name)) = (log.parent(), log.file_name()) else {
        return Ok(Vec::new());
    };
    let mut prefix: OsString = name.to_owned();
    prefix.push(".");
    let mut found = Vec::new();
    let mut entries = tokio::fs::read_dir(folder).await?;
    while let Some(entry) = entries.next_entry().await? {
        let name = entry.file_name();
        if name.as_encoded_bytes().starts_with(prefix.as_encoded_bytes()) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}
