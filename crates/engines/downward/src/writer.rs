//! How the files of a volume are replaced all at once, and how what a killed writer left is put in
//! order (R63 to R66). Plans only: a host carries the operations out, one after the other, and may be
//! cut off after any of them.
//!
//! ```text
//!   ..2026_11_15_02_30_00.1234567890/   one generation: real folders and files
//!   ..data   -> ..2026_…                the switch: one rename
//!   labels   -> ..data/labels           one link for each first element
//! ```

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::path::{FilePathError, clean_path};
use crate::payload::{Payload, PayloadFile};

/// The link everybody reads through.
pub const DATA: &str = "..data";

/// The same link before it takes its place.
pub const DATA_NEW: &str = "..data_tmp";

/// A link for people before it takes its place.
pub(crate) const LINK_NEW: &str = "..link_tmp";

/// How long a generation stays after another took its place, in milliseconds (R65).
pub const GRACE_MS: i64 = 2000;

/// What is in the folder of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirState {
    /// The folder's own entries.
    pub entries: BTreeMap<String, VolumeEntry>,
    /// The files of the generation that [`DATA`] names, by path; none if it names no folder here.
    pub current: Option<BTreeMap<String, Vec<u8>>>,
}

/// One entry of a volume's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeEntry {
    /// A link and what it says.
    Link(String),
    /// A folder, and since when it was not the current generation, as far as is known, in
    /// milliseconds.
    Folder {
        /// Since when.
        since: i64,
    },
    /// Anything else.
    Other,
}

/// One operation on the folder of a volume. Paths are relative to it; no operation follows a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FsOp {
    /// Makes a folder.
    MkDir {
        /// Where.
        path: String,
    },
    /// Makes a file that was not there and writes it.
    WriteFile {
        /// Where.
        path: String,
        /// What.
        bytes: RedactedBytes,
    },
    /// Sets permissions.
    Chmod {
        /// Of what; `.` is the volume.
        path: String,
        /// To what.
        mode: u32,
    },
    /// Sets the owner, the group, or both.
    Chown {
        /// Of what.
        path: String,
        /// To whom.
        owner: Option<u32>,
        /// To which group.
        group: Option<u32>,
    },
    /// Makes bytes survive the machine's sudden end.
    Sync {
        /// Which file or folder.
        path: String,
    },
    /// Makes a link.
    Symlink {
        /// Where.
        path: String,
        /// What it says.
        target: String,
    },
    /// Moves an entry over another at once.
    Rename {
        /// From here.
        from: String,
        /// To there.
        to: String,
    },
    /// Removes a file or link.
    Unlink {
        /// Which.
        path: String,
    },
    /// Removes a folder and all below it.
    RemoveTree {
        /// Which.
        path: String,
    },
}

impl FsOp {
    /// Whether the volume is as it should be although this could not be done (R66).
    #[must_use]
    pub fn may_fail(&self) -> bool {
        matches!(self, FsOp::Chown { .. } | FsOp::RemoveTree { .. } | FsOp::Sync { .. })
    }
}

/// Bytes that never show when they are printed (R214).
#[derive(Clone, PartialEq, Eq)]
pub struct RedactedBytes(pub Vec<u8>);

impl fmt::Debug for RedactedBytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "({} bytes)", self.0.len())
    }
}

/// How a volume is written.
#[derive(Clone, Debug, Default)]
pub struct Manner<'a> {
    /// The name of a generation made now; see [`generation_name`].
    pub generation: &'a str,
    /// `fsGroup`.
    pub group: Option<u32>,
    /// Whether bytes must survive the machine's sudden end: not in memory.
    pub durable: bool,
    /// First elements that are mount points of other volumes: folders, not links (R69).
    pub nested: &'a [&'a str],
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WritePlan {
    /// The operations, in order.
    pub ops: Vec<FsOp>,
    /// Whether the files change.
    pub changes: bool,
    /// How many of the operations come before anybody can see the new files. When one of these
    /// fails, [`WritePlan::undo`] leaves the volume as it was.
    pub unseen: usize,
    /// The generation that is no longer current after this; to be removed after its grace.
    pub retired: Option<String>,
    /// What takes back the unseen operations.
    pub undo: Vec<FsOp>,
}

/// Why a volume cannot be written; nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeWriteError {
    /// A path that no file may have.
    Path(FilePathError),
    /// A path that is a file and a folder at once.
    Clash {
        /// The file.
        file: String,
        /// The file below it.
        below: String,
    },
    /// Something that is not the writer's is where a link must be.
    InTheWay(String),
}

impl fmt::Display for VolumeWriteError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VolumeWriteError::Path(error) => error.fmt(out),
            VolumeWriteError::Clash { file, below } => {
                write!(out, "path \"{file}\" is a file and the folder of \"{below}\"")
            }
            VolumeWriteError::InTheWay(name) => {
                write!(out, "\"{name}\" is in the way and was not made by the writer")
            }
        }
    }
}

impl core::error::Error for VolumeWriteError {}

/// The name of a generation: `..YYYY_MM_DD_HH_MM_SS.` and a number that makes it unique (R87).
#[must_use]
pub fn generation_name(date: [u16; 6], random: u32) -> String {
    let [year, month, day, hour, minute, second] = date;
    format!("..{year:04}_{month:02}_{day:02}_{hour:02}_{minute:02}_{second:02}.{random:010}")
}

/// Whether an entry is a generation of some writer.
pub(crate) fn is_generation(name: &str) -> bool {
    let digits = name.strip_prefix("..").and_then(|rest| rest.split('_').next());
    digits.is_some_and(|year| year.len() == 4 && year.bytes().all(|byte| byte.is_ascii_digit()))
}

/// What a writer that was cut off left, put in order (R64). Files people see stay as they are.
#[must_use]
pub fn plan_recovery(state: &DirState, now: i64, grace: i64) -> Vec<FsOp> {
    let mut ops = Vec::new();
    for name in [DATA_NEW, LINK_NEW] {
        if let Some(entry) = state.entries.get(name) {
            ops.push(remove(name, entry));
        }
    }
    let current = match state.entries.get(DATA) {
        Some(VolumeEntry::Link(target)) if state.current.is_some() => Some(target.as_str()),
        Some(VolumeEntry::Link(_)) | None => None,
        // No writer made this; nothing can be renamed over a folder.
        Some(entry) => {
            ops.push(remove(DATA, entry));
            None
        }
    };
    for (name, entry) in &state.entries {
        let stale = match entry {
            // A time that is yet to come is no time at all: the clock was set back (R87).
            VolumeEntry::Folder { since } => !(now - grace < *since && *since <= now + grace),
            _ => true,
        };
        if is_generation(name) && stale && current != Some(name) {
            ops.push(remove(name, entry));
        }
    }
    ops
}

fn remove(name: &str, entry: &VolumeEntry) -> FsOp {
    let path = name.to_owned();
    match entry {
        VolumeEntry::Folder { .. } => FsOp::RemoveTree { path },
        _ => FsOp::Unlink { path },
    }
}

/// What makes the volume hold this payload and nothing else (R63), after [`plan_recovery`].
///
/// # Errors
/// A path that cannot be: then nothing may change.
pub fn plan_write(
    state: &DirState,
    payload: &Payload,
    manner: &Manner<'_>,
) -> Result<WritePlan, VolumeWriteError> {
    let files = checked(payload)?;
    let wanted: BTreeSet<&str> =
        files.keys().map(|path| path.split('/').next().unwrap_or_default()).collect();
    let mut plan = WritePlan::default();
    let links = missing_links(state, &wanted, manner)?;
    plan.changes = state.current.as_ref().is_none_or(|current| !same(current, &files));
    if plan.changes {
        write_generation(&files, manner, &mut plan.ops);
        if state.current.is_none() && manner.group.is_some() {
            let root = FsOp::Chown { path: ".".to_owned(), owner: None, group: manner.group };
            plan.ops.push(root);
            plan.ops.push(FsOp::Chmod { path: ".".to_owned(), mode: 0o2777 });
        }
        let generation = manner.generation.to_owned();
        plan.ops.push(FsOp::Symlink { path: DATA_NEW.to_owned(), target: generation.clone() });
        give_group(&mut plan.ops, DATA_NEW, manner);
        plan.unseen = plan.ops.len();
        plan.undo =
            [FsOp::Unlink { path: DATA_NEW.to_owned() }, FsOp::RemoveTree { path: generation }]
                .into();
        plan.ops.push(FsOp::Rename { from: DATA_NEW.to_owned(), to: DATA.to_owned() });
        plan.retired = match (state.entries.get(DATA), &state.current) {
            (Some(VolumeEntry::Link(old)), Some(_)) => Some(old.clone()),
            _ => None,
        };
    }
    for (name, replaces) in links {
        let target = format!("{DATA}/{name}");
        let path = if replaces { LINK_NEW } else { name };
        plan.ops.push(FsOp::Symlink { path: path.to_owned(), target });
        give_owner(&mut plan.ops, path, name, &files, manner);
        if replaces {
            plan.ops.push(FsOp::Rename { from: LINK_NEW.to_owned(), to: name.to_owned() });
        }
    }
    for (name, entry) in &state.entries {
        let ours = matches!(entry, VolumeEntry::Link(target) if target.strip_prefix("..data/") == Some(name));
        if ours && !wanted.contains(name.as_str()) {
            plan.ops.push(FsOp::Unlink { path: name.clone() });
        }
    }
    Ok(plan)
}

/// Cleans every path and refuses what cannot be: R63 step 1, R62h.
fn checked(payload: &Payload) -> Result<BTreeMap<String, &PayloadFile>, VolumeWriteError> {
    let mut files = BTreeMap::new();
    for (path, file) in payload {
        files.insert(clean_path(path).map_err(VolumeWriteError::Path)?, file);
    }
    for path in files.keys() {
        let mut folder = path.as_str();
        while let Some((parent, _)) = folder.rsplit_once('/') {
            if files.contains_key(parent) {
                return Err(VolumeWriteError::Clash {
                    file: parent.to_owned(),
                    below: path.clone(),
                });
            }
            folder = parent;
        }
    }
    Ok(files)
}

fn same(current: &BTreeMap<String, Vec<u8>>, files: &BTreeMap<String, &PayloadFile>) -> bool {
    current.len() == files.len()
        && current
            .iter()
            .zip(files)
            .all(|((old, bytes), (new, file))| old == new && *bytes == file.bytes)
}

/// Links that are not there, and whether something of a link's kind must make way.
fn missing_links<'a>(
    state: &DirState,
    wanted: &BTreeSet<&'a str>,
    manner: &Manner<'_>,
) -> Result<Vec<(&'a str, bool)>, VolumeWriteError> {
    let mut links = Vec::new();
    for name in wanted {
        match state.entries.get(*name) {
            None if manner.nested.contains(name) => {}
            None => links.push((*name, false)),
            Some(VolumeEntry::Link(target)) if target.strip_prefix("..data/") == Some(*name) => {}
            Some(VolumeEntry::Link(_)) => links.push((*name, true)),
            Some(VolumeEntry::Folder { .. }) if manner.nested.contains(name) => {}
            Some(_) => return Err(VolumeWriteError::InTheWay((*name).to_owned())),
        }
    }
    Ok(links)
}

/// Steps 5 to 8: a whole generation that nobody sees yet.
fn write_generation(
    files: &BTreeMap<String, &PayloadFile>,
    manner: &Manner<'_>,
    ops: &mut Vec<FsOp>,
) {
    let generation = manner.generation;
    make_folder(generation.to_owned(), manner, ops);
    let mut folders = BTreeSet::new();
    for (path, file) in files {
        for (at, _) in path.match_indices('/') {
            let folder = path.get(..at).unwrap_or_default();
            if folders.insert(folder.to_owned()) {
                make_folder(format!("{generation}/{folder}"), manner, ops);
            }
        }
        let path = format!("{generation}/{path}");
        let bytes = RedactedBytes(file.bytes.clone());
        ops.push(FsOp::WriteFile { path: path.clone(), bytes });
        if file.owner.is_some() || manner.group.is_some() {
            let (owner, group) = (file.owner, manner.group);
            ops.push(FsOp::Chown { path: path.clone(), owner, group });
        }
        // A change of owner takes privileges away, so permissions come after it.
        let mode = if manner.group.is_some() { file.mode | 0o440 } else { file.mode };
        ops.push(FsOp::Chmod { path: path.clone(), mode: mode & 0o777 });
        if manner.durable {
            ops.push(FsOp::Sync { path });
        }
    }
    if manner.durable {
        ops.push(FsOp::Sync { path: generation.to_owned() });
    }
}

fn make_folder(path: String, manner: &Manner<'_>, ops: &mut Vec<FsOp>) {
    ops.push(FsOp::MkDir { path: path.clone() });
    give_group(ops, &path, manner);
    let mode = if manner.group.is_some() { 0o2755 | 0o550 } else { 0o755 };
    ops.push(FsOp::Chmod { path, mode });
}

fn give_group(ops: &mut Vec<FsOp>, path: &str, manner: &Manner<'_>) {
    if manner.group.is_some() {
        ops.push(FsOp::Chown { path: path.to_owned(), owner: None, group: manner.group });
    }
}

/// A link to a file that belongs to somebody belongs to them too (R62j).
fn give_owner(
    ops: &mut Vec<FsOp>,
    path: &str,
    name: &str,
    files: &BTreeMap<String, &PayloadFile>,
    manner: &Manner<'_>,
) {
    let owner = files.get(name).and_then(|file| file.owner);
    if owner.is_some() || manner.group.is_some() {
        ops.push(FsOp::Chown { path: path.to_owned(), owner, group: manner.group });
    }
}
