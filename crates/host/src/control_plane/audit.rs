//! The audit log of a control plane: where it goes, and what its policy file says.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenure_server::AuditSink;
use tenure_server::audit::AuditPolicy;

use crate::config::AuditLog;
use crate::error::HostStartError;

/// Opens the audit log; what a file holds already stays.
pub(super) fn audit_log(log: &AuditLog) -> Result<Arc<AuditSink>, HostStartError> {
    let path = log.file.clone().unwrap_or_else(|| PathBuf::from("-"));
    let out: io::Result<Box<dyn io::Write + Send>> = match &log.file {
        None => Ok(Box::new(io::stdout())),
        Some(path) => {
            tenure_files::append(path).map(|file| Box::new(file) as Box<dyn io::Write + Send>)
        }
    };
    let policy = match &log.policy {
        Some(path) => audit_policy(path)?,
        None => AuditPolicy::of_level(log.level),
    };
    out.and_then(|out| AuditSink::by_policy(policy, out))
        .map_err(|source| HostStartError::Audit { path, source })
}

/// What a file says of the audit log.
fn audit_policy(path: &Path) -> Result<AuditPolicy, HostStartError> {
    let wrong = |why: String| HostStartError::AuditPolicy { path: path.to_owned(), why };
    let text = fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let document = tenure_yaml::to_json(&text, tenure_yaml::YamlLimits::default())
        .map_err(|error| wrong(error.to_string()))?;
    AuditPolicy::read(&document).map_err(|errors| {
        let causes = errors.into_causes().into_iter();
        let faults: Vec<String> =
            causes.map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        wrong(faults.join("; "))
    })
}
