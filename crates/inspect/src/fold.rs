//! Long trees made short: siblings that are alike become one row that counts them.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::facts::ObjectIdentity;
use crate::tree::{Folded, Tree, TreeRow};

/// How many siblings that are alike are all shown.
pub(crate) const SHOWN_MAX: usize = 4;
/// How many are shown where there are more.
pub(crate) const SHOWN: usize = 2;

impl Tree {
    /// The same tree with siblings that are alike counted: of the same kind, in the same state, with
    /// the same under them. Names and ages may differ. What stands at the top was perhaps asked for
    /// by name and is folded only if `tops` says so.
    #[must_use]
    pub fn folded(&self, tops: bool) -> Tree {
        let below = self.below();
        let shapes = self.shapes(&below);
        let mut objects: Vec<TreeRow> = Vec::new();
        let mut left: Vec<PendingRow> = Vec::new();
        match tops {
            true => left.extend(self.chosen(&below.roots, &shapes).into_iter().rev()),
            false => left.extend(
                below
                    .roots
                    .iter()
                    .rev()
                    .map(|at| PendingRow { row: FoldedRow::One(*at), last: true }),
            ),
        }
        while let Some(PendingRow { row, last }) = left.pop() {
            let (mut row, children) = match row {
                FoldedRow::One(at) => {
                    let Some(row) = self.objects.get(at) else { continue };
                    (row.clone(), below.children.get(at).map(Vec::as_slice).unwrap_or_default())
                }
                FoldedRow::More(row) => (*row, [].as_slice()),
            };
            row.last = last;
            objects.push(row);
            left.extend(self.chosen(children, &shapes).into_iter().rev());
        }
        Tree { objects, unread: self.unread.clone(), ..*self }
    }

    /// Which rows hang on which.
    fn below(&self) -> Below {
        let mut below = Below { roots: Vec::new(), children: vec![Vec::new(); self.objects.len()] };
        let mut open: Vec<usize> = Vec::new();
        for (at, row) in self.objects.iter().enumerate() {
            open.truncate(row.depth);
            match open.last().and_then(|above| below.children.get_mut(*above)) {
                Some(children) => children.push(at),
                None => below.roots.push(at),
            }
            open.push(at);
        }
        below
    }

    /// What a row and everything under it look like, as a number.
    fn shapes(&self, below: &Below) -> Vec<u64> {
        // Rows that are shown twice refer to one another by name.
        let twice: std::collections::HashSet<&str> = self
            .objects
            .iter()
            .filter(|row| row.repeated)
            .map(|row| row.object.uid.as_str())
            .collect();
        let mut shapes = vec![0; self.objects.len()];
        for (at, row) in self.objects.iter().enumerate().rev() {
            let mut hash = DefaultHasher::new();
            let TreeRow { object, state, status, health, reference, finalizers, .. } = row;
            (&object.kind, &object.namespace, &object.api_version).hash(&mut hash);
            (format!("{state:?} {health:?} {reference:?}"), status, finalizers).hash(&mut hash);
            if twice.contains(object.uid.as_str()) {
                object.uid.hash(&mut hash);
            }
            for child in below.children.get(at).into_iter().flatten() {
                shapes.get(*child).hash(&mut hash);
            }
            if let Some(shape) = shapes.get_mut(at) {
                *shape = hash.finish();
            }
        }
        shapes
    }

    /// The siblings that are shown, those that are alike beside one another.
    fn chosen(&self, siblings: &[usize], shapes: &[u64]) -> Vec<PendingRow> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut of_shape: HashMap<Option<u64>, usize> = HashMap::new();
        for sibling in siblings {
            let group = *of_shape.entry(shapes.get(*sibling).copied()).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            if let Some(group) = groups.get_mut(group) {
                group.push(*sibling);
            }
        }
        let mut shown: Vec<FoldedRow> = Vec::new();
        for group in groups {
            let number = if group.len() > SHOWN_MAX { SHOWN } else { group.len() };
            let (first, rest) = group.split_at(number);
            shown.extend(first.iter().map(|at| FoldedRow::One(*at)));
            shown.extend(self.more(rest).map(|row| FoldedRow::More(Box::new(row))));
        }
        let count = shown.len();
        let numbered = shown.into_iter().enumerate();
        numbered.map(|(at, row)| PendingRow { row, last: at + 1 == count }).collect()
    }

    /// One row for all of these.
    fn more(&self, rows: &[usize]) -> Option<TreeRow> {
        let rows: Vec<&TreeRow> = rows.iter().filter_map(|at| self.objects.get(*at)).collect();
        let first = *rows.first()?;
        let created = rows.iter().filter_map(|row| row.created);
        Some(TreeRow {
            object: ObjectIdentity {
                name: format!("{} more", rows.len()),
                uid: format!("{} and {} more", first.object.uid, rows.len() - 1),
                ..first.object.clone()
            },
            created: created.clone().max(),
            folded: Some(Folded { count: rows.len(), oldest: created.min() }),
            ..first.clone()
        })
    }
}

struct Below {
    roots: Vec<usize>,
    children: Vec<Vec<usize>>,
}

struct PendingRow {
    row: FoldedRow,
    last: bool,
}

enum FoldedRow {
    One(usize),
    More(Box<TreeRow>),
}
