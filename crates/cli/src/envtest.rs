//! This program in the place of `kube-apiserver`, `etcd` and `kubectl`, as test tools start them (api-server
//! section 9): which of them it is called as, and `tenure envtest DIR`, which puts it there.
//!
//! ```text
//!   DIR/kube-apiserver ──link── this program ──called as `kube-apiserver`──► api_server ──► host
//!   DIR/etcd           ──link──┘             ──called as `etcd`───────────► etcd: answers, keeps nothing
//!   DIR/kubectl        ──► the user's own; without one this program, which says so
//! ```
//!
//! The links are hard ones, and copies where the file system allows none. So DIR works when this program has moved or
//! is gone, as a link to its path would not; a copy of DIR is whole; and nothing is ever written there.

mod api_server;
mod api_server_flags;
mod authorization;
mod etcd;
mod go_flags;
mod install;
mod kubectl;
mod parent;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

pub(crate) use install::install;

/// Runs what the program is called as, if that is not `tenure`.
pub(crate) fn take_over(words: &[OsString]) -> Option<ExitCode> {
    let (called, words) = words.split_first()?;
    let name = Path::new(called).file_name()?.to_str()?;
    let run: fn(&[OsString]) -> ExitCode = match name {
        api_server::NAME => api_server::run,
        etcd::NAME => etcd::run,
        kubectl::NAME => kubectl::run,
        _ => return None,
    };
    Some(run(words))
}
