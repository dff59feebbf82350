//! Rules of spec/downward-api.md, section 10: a folder in memory that is cut off after every
//! operation.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;

use crate::payload::{Payload, PayloadFile};
use crate::writer::*;

/// A folder in memory; enough of a file system for the writer.
#[derive(Clone, Debug, Default)]
struct Disk {
    nodes: BTreeMap<String, Node>,
    clock: i64,
    retired: BTreeMap<String, i64>,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Folder { mode: u32, made: i64 },
    File { bytes: Vec<u8>, mode: u32, owner: Option<u32>, group: Option<u32> },
    Link(String),
}

impl Disk {
    fn apply(&mut self, op: &FsOp) {
        self.clock += 1;
        let parent = |path: &str| path.rsplit_once('/').map(|(parent, _)| parent.to_owned());
        match op {
            FsOp::MkDir { path } => {
                assert!(!self.nodes.contains_key(path), "{path} is there");
                if let Some(parent) = parent(path) {
                    assert!(matches!(self.nodes[&parent], Node::Folder { .. }));
                }
                self.nodes.insert(path.clone(), Node::Folder { mode: 0o700, made: self.clock });
            }
            FsOp::WriteFile { path, bytes } => {
                assert!(!self.nodes.contains_key(path), "{path} is there");
                assert!(matches!(self.nodes[&parent(path).unwrap()], Node::Folder { .. }));
                let (bytes, mode) = (bytes.0.clone(), 0o600);
                self.nodes
                    .insert(path.clone(), Node::File { bytes, mode, owner: None, group: None });
            }
            FsOp::Chmod { path, mode: to } => match self.nodes.get_mut(path) {
                Some(Node::Folder { mode, .. } | Node::File { mode, .. }) => *mode = *to,
                None => assert_eq!(path, "."),
                Some(Node::Link(_)) => panic!("permissions of a link: {path}"),
            },
            FsOp::Chown { path, owner: user, group: to } => {
                if let Some(Node::File { owner, group, .. }) = self.nodes.get_mut(path) {
                    (*owner, *group) = (*user, *to);
                }
            }
            FsOp::Sync { path } => assert!(self.nodes.contains_key(path)),
            FsOp::Symlink { path, target } => {
                assert!(!self.nodes.contains_key(path), "{path} is there");
                self.nodes.insert(path.clone(), Node::Link(target.clone()));
            }
            FsOp::Rename { from, to } => {
                if to == DATA
                    && let Some(Node::Link(old)) = self.nodes.get(to)
                {
                    self.retired.insert(old.clone(), self.clock);
                }
                let node = self.nodes.remove(from).unwrap();
                assert!(!matches!(self.nodes.get(to), Some(Node::Folder { .. })));
                self.nodes.insert(to.clone(), node);
            }
            FsOp::Unlink { path } => {
                let node = self.nodes.remove(path);
                assert!(matches!(node, Some(Node::Link(_) | Node::File { .. })), "{path}");
            }
            FsOp::RemoveTree { path } => {
                let below = format!("{path}/");
                self.nodes.retain(|name, _| name != path && !name.starts_with(&below));
            }
        }
    }

    fn state(&self) -> DirState {
        let mut state = DirState::default();
        for (path, node) in self.nodes.iter().filter(|(path, _)| !path.contains('/')) {
            let entry = match node {
                Node::Link(target) => VolumeEntry::Link(target.clone()),
                Node::Folder { made, .. } => {
                    VolumeEntry::Folder { since: *self.retired.get(path).unwrap_or(made) }
                }
                Node::File { .. } => VolumeEntry::Other,
            };
            state.entries.insert(path.clone(), entry);
        }
        if let Some(Node::Link(generation)) = self.nodes.get(DATA)
            && let Some(Node::Folder { .. }) = self.nodes.get(generation)
        {
            let prefix = format!("{generation}/");
            state.current = Some(
                self.nodes
                    .iter()
                    .filter_map(|(path, node)| match node {
                        Node::File { bytes, .. } => {
                            Some((path.strip_prefix(&prefix)?.to_owned(), bytes.clone()))
                        }
                        _ => None,
                    })
                    .collect(),
            );
        }
        state
    }

    /// Opens a path as a program would: links are followed.
    fn open(&self, path: &str) -> Option<&[u8]> {
        let mut path = path.to_owned();
        for _ in 0..8 {
            let first = path.split('/').next()?.to_owned();
            match (self.nodes.get(&path), self.nodes.get(&first)) {
                (_, Some(Node::Link(target))) => {
                    path = format!("{target}{}", path.strip_prefix(first.as_str())?);
                }
                (Some(Node::File { bytes, .. }), _) => return Some(bytes),
                _ => return None,
            }
        }
        None
    }

    fn generations(&self) -> usize {
        self.nodes.keys().filter(|name| !name.contains('/') && is_generation(name)).count()
    }

    fn run(&mut self, ops: &[FsOp]) {
        for op in ops {
            self.apply(op);
        }
    }

    /// What a host does: recovery, then the write.
    fn write(&mut self, payload: &Payload, name: &str, grace: i64) -> WritePlan {
        self.run(&plan_recovery(&self.state(), self.clock, grace));
        let plan = plan_write(&self.state(), payload, &manner(name)).unwrap();
        self.run(&plan.ops);
        plan
    }
}

fn manner(generation: &str) -> Manner<'_> {
    Manner { generation, ..Manner::default() }
}

fn payload(files: &[(&str, &str)]) -> Payload {
    files
        .iter()
        .map(|(path, text)| {
            let file = PayloadFile { bytes: text.as_bytes().to_vec(), mode: 0o644, owner: None };
            ((*path).to_owned(), file)
        })
        .collect()
}

fn name(number: u32) -> String {
    generation_name([2026, 11, 15, 2, 30, 0], number)
}

/// Whether every file reads as one of the two sets, and all of them as the same one through
/// [`DATA`].
fn reads_whole(disk: &Disk, old: &Payload, new: &Payload) {
    let through = |set: &Payload| {
        set.iter()
            .all(|(path, file)| disk.open(&format!("{DATA}/{path}")) == Some(file.bytes.as_slice()))
            && disk.state().current.is_some_and(|current| current.len() == set.len())
    };
    assert!(through(old) || through(new), "a mixture: {disk:?}");
    for (path, file) in old.iter().filter(|(path, _)| new.contains_key(*path)) {
        let read = disk.open(path).unwrap_or_else(|| panic!("{path} is not there: {disk:?}"));
        assert!(read == file.bytes || read == new[path].bytes, "{path} is torn");
    }
}

fn reads_as(disk: &Disk, set: &Payload) {
    for (path, file) in set {
        assert_eq!(disk.open(path), Some(file.bytes.as_slice()), "{path}");
    }
    let names: Vec<&String> =
        disk.nodes.keys().filter(|name| !name.contains('/') && !name.starts_with("..")).collect();
    let wanted: BTreeSet<&str> = set.keys().filter_map(|path| path.split('/').next()).collect();
    assert_eq!(names, wanted.into_iter().collect::<Vec<_>>());
    assert!(!disk.nodes.contains_key(DATA_NEW) && !disk.nodes.contains_key(LINK_NEW));
}

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn payload(&mut self) -> Payload {
        let paths = ["a", "b", "c/d", "c/e", "c/f/g", "h/i", "labels", ".hidden"];
        let mut files = Payload::new();
        for path in paths {
            if self.below(3) > 0 {
                let bytes = format!("{path}{}", self.below(4)).into_bytes();
                files.insert(path.to_owned(), PayloadFile { bytes, mode: 0o644, owner: None });
            }
        }
        files
    }
}

#[test]
fn r220_a_write_cut_after_any_operation_shows_the_old_or_the_new_set() {
    let mut dice = Dice(7);
    for round in 0..40 {
        let (old, new) = (dice.payload(), dice.payload());
        let mut before = Disk::default();
        before.write(&old, &name(1), 10);
        before.clock += i64::try_from(dice.below(30)).unwrap();
        let recovery = plan_recovery(&before.state(), before.clock, 10);
        let mut at = before.clone();
        at.run(&recovery);
        let mut ops = recovery;
        ops.extend(plan_write(&at.state(), &new, &manner(&name(2))).unwrap().ops);
        for cut in 0..=ops.len() {
            let mut disk = before.clone();
            for op in &ops[..cut] {
                disk.apply(op);
                reads_whole(&disk, &old, &new);
            }
            // The agent comes back, at once or much later, and is cut off again on its way.
            disk.clock += if round % 2 == 0 { 0 } else { 100 };
            again(&disk, &old, &new, cut);
        }
    }
}

/// A second writer after the cut, cut off at one point itself, and a third that finishes.
fn again(disk: &Disk, old: &Payload, new: &Payload, cut: usize) {
    let mut second = disk.clone();
    let mut ops = plan_recovery(&second.state(), second.clock, 10);
    let mut at = second.clone();
    at.run(&ops);
    ops.extend(plan_write(&at.state(), new, &manner(&name(3))).unwrap().ops);
    for op in ops.iter().take(cut) {
        second.apply(op);
        reads_whole(&second, old, new);
    }
    second.write(new, &name(4), 10);
    reads_as(&second, new);
    reads_whole(&second, new, new);
    second.clock += 1000;
    second.run(&plan_recovery(&second.state(), second.clock, 10));
    reads_as(&second, new);
    assert_eq!(second.generations(), 1, "{second:?}");
}

#[test]
fn r63_an_unchanged_set_is_not_written_again() {
    let mut disk = Disk::default();
    let set = payload(&[("a", "1"), ("n/x", "2")]);
    assert!(disk.write(&set, &name(1), 0).changes);
    let plan = disk.write(&set, &name(2), 0);
    assert_eq!(plan, WritePlan::default());
    let mut other = set.clone();
    other.get_mut("a").unwrap().mode = 0o400;
    assert!(!disk.write(&other, &name(3), 0).changes, "permissions alone do not count");
}

#[test]
fn r63_missing_links_are_made_again_without_a_new_generation() {
    let mut disk = Disk::default();
    let set = payload(&[("a", "1"), ("n/x", "2")]);
    disk.write(&set, &name(1), 0);
    disk.apply(&FsOp::Unlink { path: "n".to_owned() });
    let plan = disk.write(&set, &name(2), 0);
    let link = FsOp::Symlink { path: "n".to_owned(), target: "..data/n".to_owned() };
    assert_eq!(plan.ops, [link]);
    reads_as(&disk, &set);
}

#[test]
fn r63_the_order_is_generation_switch_new_links_old_links() {
    let mut disk = Disk::default();
    disk.write(&payload(&[("gone", "1"), ("stays", "1")]), &name(1), 0);
    let plan = disk.write(&payload(&[("new/deep", "2"), ("stays", "1")]), &name(2), 0);
    let words: Vec<String> = plan
        .ops
        .iter()
        .map(|op| match op {
            FsOp::MkDir { path } => format!("mkdir {path}"),
            FsOp::WriteFile { path, .. } => format!("write {path}"),
            FsOp::Chmod { path, mode } => format!("chmod {mode:o} {path}"),
            FsOp::Symlink { path, target } => format!("link {path} {target}"),
            FsOp::Rename { from, to } => format!("rename {from} {to}"),
            FsOp::Unlink { path } => format!("unlink {path}"),
            other => format!("{other:?}"),
        })
        .collect();
    let g = name(2);
    assert_eq!(
        words,
        [
            format!("mkdir {g}"),
            format!("chmod 755 {g}"),
            format!("mkdir {g}/new"),
            format!("chmod 755 {g}/new"),
            format!("write {g}/new/deep"),
            format!("chmod 644 {g}/new/deep"),
            format!("write {g}/stays"),
            format!("chmod 644 {g}/stays"),
            format!("link ..data_tmp {g}"),
            "rename ..data_tmp ..data".to_owned(),
            "link new ..data/new".to_owned(),
            "unlink gone".to_owned(),
        ]
    );
    assert_eq!(plan.retired, Some(name(1)));
    assert_eq!(g, "..2026_11_15_02_30_00.0000000002");
}

#[test]
fn r63_a_path_that_leads_out_changes_nothing() {
    let state = DirState::default();
    for bad in ["", "/etc/passwd", "../x", "a/../../x", "..data", "..x/y", "a\0b", "."] {
        let mut set = payload(&[("fine", "1")]);
        set.insert(bad.to_owned(), PayloadFile::default());
        let refused = plan_write(&state, &set, &manner("g"));
        assert!(matches!(refused, Err(VolumeWriteError::Path(_))), "{bad:?}");
    }
    let long = "x".repeat(256);
    assert!(plan_write(&state, &payload(&[(&long, "")]), &manner("g")).is_err());
    let long = vec!["y"; 2100].join("/");
    assert!(plan_write(&state, &payload(&[(&long, "")]), &manner("g")).is_err());
}

#[test]
fn r62h_a_file_that_is_also_a_folder_is_refused_with_both_names() {
    let clash =
        plan_write(&DirState::default(), &payload(&[("a/b", ""), ("a/b/c/d", "")]), &manner("g"));
    assert_eq!(
        clash.unwrap_err().to_string(),
        "path \"a/b\" is a file and the folder of \"a/b/c/d\""
    );
}

#[test]
fn r64_what_a_killed_writer_left_is_removed() {
    let mut disk = Disk::default();
    let set = payload(&[("a", "1")]);
    disk.write(&set, &name(1), 0);
    disk.run(&[
        FsOp::MkDir { path: name(2) },
        FsOp::Symlink { path: DATA_NEW.to_owned(), target: name(2) },
        FsOp::Symlink { path: LINK_NEW.to_owned(), target: "x".to_owned() },
    ]);
    disk.run(&plan_recovery(&disk.state(), disk.clock + 5000, GRACE_MS));
    assert_eq!(disk.generations(), 1);
    reads_as(&disk, &set);
}

#[test]
fn r64_a_switch_that_leads_nowhere_is_written_from_scratch() {
    let set = payload(&[("a", "1")]);
    for broken in [Node::Link("..2026_gone".to_owned()), Node::Folder { mode: 0, made: 0 }] {
        let mut disk = Disk::default();
        disk.nodes.insert(DATA.to_owned(), broken);
        disk.nodes.insert("a".to_owned(), Node::Link("..data/a".to_owned()));
        let plan = disk.write(&set, &name(1), 0);
        assert!(plan.changes && plan.retired.is_none());
        reads_as(&disk, &set);
    }
}

#[test]
fn r65_the_previous_generation_stays_for_its_grace() {
    let mut disk = Disk::default();
    disk.write(&payload(&[("a", "1")]), &name(1), GRACE_MS);
    disk.clock += 1_000_000;
    disk.write(&payload(&[("a", "2")]), &name(2), GRACE_MS);
    let held = format!("{}/a", name(1));
    assert_eq!(disk.open(&held), Some(&b"1"[..]));
    disk.run(&plan_recovery(&disk.state(), disk.clock + GRACE_MS - 100, GRACE_MS));
    assert!(disk.open(&held).is_some(), "a reader that came before may still open it");
    disk.run(&plan_recovery(&disk.state(), disk.clock + GRACE_MS + 100, GRACE_MS));
    assert_eq!(disk.open(&held), None);
}

#[test]
fn r87_a_clock_that_was_set_back_keeps_nothing_for_ever() {
    let mut disk = Disk { clock: 1_000_000, ..Disk::default() };
    disk.write(&payload(&[("a", "1")]), &name(1), GRACE_MS);
    disk.write(&payload(&[("a", "2")]), &name(2), GRACE_MS);
    disk.run(&plan_recovery(&disk.state(), 5, GRACE_MS));
    assert_eq!(disk.generations(), 1);
    assert_eq!(disk.open("a"), Some(&b"2"[..]));
}

#[test]
fn r66_a_group_may_read_whatever_the_mode() {
    let mut disk = Disk::default();
    let mut set = payload(&[("d/f", "1")]);
    set.get_mut("d/f").unwrap().mode = 0o400;
    let generation = name(1);
    let manner = Manner { group: Some(1234), ..manner(&generation) };
    let plan = plan_write(&disk.state(), &set, &manner).unwrap();
    disk.run(&plan.ops);
    let file = &disk.nodes[&format!("{}/d/f", name(1))];
    assert!(matches!(file, Node::File { mode: 0o440, group: Some(1234), .. }), "{file:?}");
    let folder = &disk.nodes[&format!("{}/d", name(1))];
    assert!(matches!(folder, Node::Folder { mode: 0o2755, .. }), "{folder:?}");
    let group = |path: &str| FsOp::Chown { path: path.to_owned(), owner: None, group: Some(1234) };
    assert!(plan.ops.contains(&group("d")) && plan.ops.contains(&group(DATA_NEW)));
}

#[test]
fn r62j_a_file_and_its_link_belong_to_their_owner() {
    let mut set = payload(&[("mine", "1")]);
    set.get_mut("mine").unwrap().owner = Some(1000);
    let plan = plan_write(&DirState::default(), &set, &manner("g")).unwrap();
    let owner = |path: &str| FsOp::Chown { path: path.to_owned(), owner: Some(1000), group: None };
    assert!(plan.ops.contains(&owner("g/mine")) && plan.ops.contains(&owner("mine")));
}

#[test]
fn r69_mount_points_of_other_volumes_are_folders_and_stay() {
    let mut disk = Disk::default();
    disk.nodes.insert("extra".to_owned(), Node::Folder { mode: 0o755, made: 0 });
    let set = payload(&[("a", "1"), ("extra/x", "2")]);
    let nested = Manner { nested: &["extra"], ..manner("..2026_x") };
    let plan = plan_write(&disk.state(), &set, &nested).unwrap();
    disk.run(&plan.ops);
    assert!(matches!(disk.nodes["extra"], Node::Folder { .. }));
    assert_eq!(disk.open("a"), Some(&b"1"[..]));
    let refused = plan_write(&disk.state(), &payload(&[("extra", "1")]), &manner("g"));
    assert_eq!(refused, Err(VolumeWriteError::InTheWay("extra".to_owned())));
}

#[test]
fn r69b_a_link_that_was_replaced_is_put_back_at_once() {
    let mut disk = Disk::default();
    let set = payload(&[("n/x", "1")]);
    disk.write(&set, &name(1), 0);
    disk.nodes.insert("n".to_owned(), Node::Link("/".to_owned()));
    let plan = disk.write(&set, &name(2), 0);
    let rename = FsOp::Rename { from: LINK_NEW.to_owned(), to: "n".to_owned() };
    assert_eq!(plan.ops.last(), Some(&rename));
    reads_as(&disk, &set);
}

#[test]
fn r80_what_was_not_seen_yet_can_be_taken_back() {
    let mut disk = Disk::default();
    let old = payload(&[("a", "1")]);
    disk.write(&old, &name(1), 0);
    let before = disk.nodes.clone();
    let plan =
        plan_write(&disk.state(), &payload(&[("a", "2"), ("b", "3")]), &manner(&name(2))).unwrap();
    for failed in 0..plan.unseen {
        let mut disk = disk.clone();
        disk.run(&plan.ops[..failed]);
        for op in &plan.undo {
            if !matches!(op, FsOp::Unlink { path } if !disk.nodes.contains_key(path)) {
                disk.apply(op);
            }
        }
        assert_eq!(disk.nodes, before, "after {failed} operations");
    }
    assert!(matches!(&plan.ops[plan.unseen], FsOp::Rename { to, .. } if to == DATA));
}

#[test]
fn r214_bytes_do_not_show() {
    let plan =
        plan_write(&DirState::default(), &payload(&[("a", "secret")]), &manner("g")).unwrap();
    assert!(!format!("{plan:?}").contains("secret"));
}

#[test]
fn r220_a_first_write_cut_after_any_operation_shows_nothing_or_all() {
    let set = payload(&[("a", "1"), ("c/d", "2"), ("c/e", "3")]);
    let ops = plan_write(&DirState::default(), &set, &manner(&name(1))).unwrap().ops;
    for cut in 0..=ops.len() {
        let mut disk = Disk::default();
        disk.run(&ops[..cut]);
        let seen = set.keys().filter(|path| disk.open(&format!("{DATA}/{path}")).is_some()).count();
        assert!(seen == 0 || seen == set.len(), "{seen} of {}", set.len());
        disk.clock += 5000;
        disk.write(&set, &name(2), GRACE_MS);
        reads_as(&disk, &set);
        disk.clock += 5000;
        disk.run(&plan_recovery(&disk.state(), disk.clock, GRACE_MS));
        assert_eq!(disk.generations(), 1);
    }
}
