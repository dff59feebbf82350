//! `crates/kinds/members.txt`, read.

use std::collections::BTreeMap;
use std::path::Path;

const TEXT: &str = include_str!("../../../../kinds/members.txt");
const CRATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// What the table says of a member.
#[derive(Debug, PartialEq, Eq)]
pub enum Entry {
    /// This file acts on it.
    By(&'static str),
    /// Nobody needs to.
    Nothing(&'static str),
    /// It is stored, with a Warning.
    StoredOnly,
}

/// A type and a member of it.
pub type Key<'a> = (&'a str, &'a str);

pub struct Table(BTreeMap<Key<'static>, Entry>);

impl Table {
    pub fn read() -> Table {
        let (mut entries, mut of) = (BTreeMap::new(), "");
        for line in TEXT.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let Some(line) = line.strip_prefix(' ') else {
                of = line;
                continue;
            };
            let (member, said) = line.split_once(' ').unwrap_or((line, ""));
            let entry = match said.split_once(' ') {
                _ if said == "!" => Entry::StoredOnly,
                Some(("-", why)) => Entry::Nothing(why),
                None if !said.is_empty() => Entry::By(said),
                _ => panic!("{of} {member}: who acts on it?"),
            };
            assert!(entries.insert((of, member), entry).is_none(), "{of} {member} stands twice");
        }
        Table(entries)
    }

    /// What is said of a member; `*` stands for all of a type about which nothing is promised.
    pub fn get(&self, (api_type, member): Key<'static>) -> Option<&Entry> {
        let found = self.0.get(&(api_type, member));
        found.or_else(|| self.0.get(&(api_type, "*")).filter(|e| matches!(e, Entry::Nothing(_))))
    }

    pub fn entries(&self) -> impl Iterator<Item = (&Key<'static>, &Entry)> {
        self.0.iter()
    }

    /// The members that are named one by one.
    pub fn keys(&self) -> impl Iterator<Item = &Key<'static>> {
        self.0.keys().filter(|(_, member)| *member != "*")
    }
}

/// The text of a file, given as room and path below `src`.
pub fn source(place: &str) -> Option<String> {
    let (room, path) = place.split_once('/')?;
    let at = |crates: &str| Path::new(CRATES).join(crates).join(room).join("src").join(path);
    std::fs::read_to_string(at(".")).or_else(|_| std::fs::read_to_string(at("engines"))).ok()
}
