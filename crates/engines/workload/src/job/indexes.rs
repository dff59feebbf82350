//! Sets of piece numbers as ranges: `1,3-5` (JB5).

use alloc::vec::Vec;
use core::fmt;

/// Numbers as ranges, in order, neither touching nor overlapping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes(Vec<(i64, i64)>);

impl Indexes {
    /// Reads ranges below a limit; what makes no sense is passed over.
    pub(super) fn parse(text: &str, limit: i64) -> Indexes {
        let ranges = text.split(',').filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (i64, i64) = (first.parse().ok()?, last.parse().ok()?);
            let last = last.min(limit - 1);
            (0 <= first && first <= last).then_some((first, last))
        });
        let mut all = Indexes(ranges.collect());
        all.tidy();
        all
    }

    /// Adds numbers.
    pub(super) fn extend(&mut self, numbers: impl IntoIterator<Item = i64>) {
        self.0.extend(numbers.into_iter().map(|number| (number, number)));
        self.tidy();
    }

    /// Adds all numbers of another set.
    pub(super) fn merge(&mut self, other: &Indexes) {
        self.0.extend_from_slice(&other.0);
        self.tidy();
    }

    fn tidy(&mut self) {
        self.0.sort_unstable();
        let mut tidy: Vec<(i64, i64)> = Vec::with_capacity(self.0.len());
        for (first, last) in self.0.drain(..) {
            match tidy.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => {
                    before.1 = before.1.max(last);
                }
                _ => tidy.push((first, last)),
            }
        }
        self.0 = tidy;
    }

    /// How many numbers there are.
    pub(super) fn total(&self) -> i64 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn has(&self, number: i64) -> bool {
        let place = self.0.partition_point(|(_, last)| *last < number);
        self.0.get(place).is_some_and(|(first, _)| *first <= number)
    }

    /// How many numbers two sets share.
    pub(super) fn shared(&self, other: &Indexes) -> i64 {
        let (mut ours, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut shared = 0;
        while let (Some(a), Some(b)) = (ours.peek(), theirs.peek()) {
            shared += (a.1.min(b.1) - a.0.max(b.0) + 1).max(0);
            if a.1 <= b.1 {
                ours.next();
            } else {
                theirs.next();
            }
        }
        shared
    }

    /// The lowest numbers below a limit that are not in the set.
    pub(super) fn missing(&self, count: usize, limit: i64) -> Vec<i64> {
        let mut missing = Vec::new();
        let mut next = 0;
        for (first, last) in self.0.iter().copied().chain([(limit, limit)]) {
            let room = count - missing.len();
            missing.extend((next..first.min(limit)).take(room));
            next = last + 1;
        }
        missing
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (first, last)) in self.0.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/workload-controllers.md.
    use super::Indexes;
    use alloc::string::ToString;

    #[test]
    fn jb5_ranges_are_written_as_short_as_others_write_them() {
        let mut all = Indexes::parse("1,3-4", 10);
        assert_eq!(all.to_string(), "1,3,4");
        all.extend([5, 7, 3]);
        assert_eq!(all.to_string(), "1,3-5,7");
        all.extend([2, 6, 0]);
        assert_eq!(all.to_string(), "0-7");
        assert_eq!(all.total(), 8);
        assert_eq!(Indexes::default().to_string(), "");
    }

    #[test]
    fn jb5_ranges_end_at_the_number_of_pieces() {
        assert_eq!(Indexes::parse("0-2,5-9,12", 7).to_string(), "0-2,5,6");
        assert_eq!(Indexes::parse("x,1-y,3-2,-4,2", 7).to_string(), "2");
        assert!(Indexes::parse("0-99999999999999999999", 7).is_empty());
        assert!(Indexes::parse("0-3", 0).is_empty());
    }

    #[test]
    fn jb5_the_lowest_missing_come_first() {
        let all = Indexes::parse("0,2-4", 8);
        assert_eq!(all.missing(3, 8), [1, 5, 6]);
        assert_eq!(all.missing(10, 6), [1, 5]);
        assert_eq!(all.missing(10, 4), [1]);
        assert!(all.missing(0, 8).is_empty());
        assert!(all.has(3) && !all.has(1) && !all.has(5));
        assert_eq!(all.shared(&Indexes::parse("1-3,7", 8)), 2);
    }
}
