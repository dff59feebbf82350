//! How far the unpacking of an image is, as lines of the log: one when it begins, one every few seconds, one
//! when it has ended. What is unpacked, and where to, is known elsewhere.

use std::cell::Cell;
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::clock;

/// How often somebody who watches is told.
const TOLD_EVERY: Duration = Duration::from_secs(3);

/// One unpacking.
pub(super) struct UnpackProgress<'f> {
    folder: &'f Path,
    packed_bytes: u64,
    read_bytes: Cell<u64>,
    unpacked_bytes: Cell<u64>,
    begun: Instant,
    told: Cell<Instant>,
    told_every: Duration,
}

impl UnpackProgress<'_> {
    /// Begins: so many bytes have to be read.
    pub(super) fn begin(folder: &Path, layers: usize, packed_bytes: u64) -> UnpackProgress<'_> {
        tracing::info!(folder = %folder.display(), layers, packed_bytes, "unpacking an image");
        let begun = clock::instant();
        UnpackProgress {
            folder,
            packed_bytes,
            read_bytes: Cell::new(0),
            unpacked_bytes: Cell::new(0),
            begun,
            told: Cell::new(begun),
            told_every: TOLD_EVERY,
        }
    }

    /// So many more bytes of the layers were read.
    pub(super) fn read(&self, count: usize) {
        add(&self.read_bytes, count);
        if self.is_due() {
            tracing::info!(
                folder = %self.folder.display(),
                percent = self.percent(),
                packed_bytes = self.packed_bytes,
                unpacked_bytes = self.unpacked_bytes.get(),
                seconds = self.begun.elapsed().as_secs(),
                "still unpacking an image"
            );
        }
    }

    /// So many more bytes came out of them.
    pub(super) fn unpacked(&self, count: usize) {
        add(&self.unpacked_bytes, count);
    }

    /// Everything is unpacked.
    pub(super) fn end(&self) {
        tracing::info!(
            folder = %self.folder.display(),
            packed_bytes = self.packed_bytes,
            unpacked_bytes = self.unpacked_bytes.get(),
            milliseconds = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            "unpacked an image"
        );
    }

    /// Whether it is time for a line; the next one is due later.
    fn is_due(&self) -> bool {
        let is_due = self.told.get().elapsed() >= self.told_every;
        if is_due {
            self.told.set(clock::instant());
        }
        is_due
    }

    fn percent(&self) -> u64 {
        let read = self.read_bytes.get().min(self.packed_bytes).saturating_mul(100);
        read.checked_div(self.packed_bytes).unwrap_or(100)
    }
}

fn add(sum: &Cell<u64>, count: usize) {
    sum.set(sum.get().saturating_add(u64::try_from(count).unwrap_or(u64::MAX)));
}

/// Bytes that are counted as they are read.
pub(super) struct CountingReader<R, C> {
    bytes: R,
    counted: C,
}

impl<R: Read, C: Fn(usize)> CountingReader<R, C> {
    pub(super) fn new(bytes: R, counted: C) -> CountingReader<R, C> {
        CountingReader { bytes, counted }
    }
}

impl<R: Read, C: Fn(usize)> Read for CountingReader<R, C> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.bytes.read(buffer)?;
        (self.counted)(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use super::*;

    #[test]
    fn r140a_an_unpacking_says_how_far_it_is_and_not_all_the_time() {
        let mut progress = UnpackProgress::begin(Path::new("/image"), 1, 8);
        progress.read(1);
        progress.unpacked(5);
        assert_eq!((progress.percent(), progress.unpacked_bytes.get()), (12, 5));
        assert!(!progress.is_due());
        progress.told_every = Duration::ZERO;
        assert!(progress.is_due());
        // A blob that is longer than it was is not more than all of it.
        progress.read(100);
        assert_eq!(progress.percent(), 100);
        assert_eq!(UnpackProgress::begin(Path::new("/image"), 0, 0).percent(), 100);
    }

    #[test]
    fn r140a_what_is_read_is_counted() {
        let sum = Cell::new(0);
        let mut reader = CountingReader::new(b"some bytes".as_slice(), |count| add(&sum, count));
        assert_eq!(io::copy(&mut reader, &mut io::sink()).unwrap(), 10);
        assert_eq!(sum.get(), 10);
    }
}
