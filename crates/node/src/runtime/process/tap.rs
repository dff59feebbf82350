//! A copy of a stream for somebody who reads along. A reader that is slow is waited for up to a
//! limit and then left: it must never hold up the container.

use std::io;
use std::os::fd::OwnedFd;

/// Bytes kept for a reader that does not keep up.
const OWED_MAX: usize = 4 << 20;

/// The writing end for one reader.
#[derive(Debug)]
pub(super) struct Tap {
    pipe: OwnedFd,
    owed: Vec<u8>,
}

impl Tap {
    pub(super) fn new(pipe: OwnedFd) -> io::Result<Tap> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Tap { pipe, owed: Vec::new() })
    }

    pub(super) fn descriptor(&self) -> &OwnedFd {
        &self.pipe
    }

    /// Whether bytes wait for the reader.
    pub(super) fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Writes what waits and then these; `false` when the reader is gone or hopelessly behind.
    pub(super) fn write(&mut self, bytes: &[u8]) -> bool {
        self.owed.extend_from_slice(bytes);
        while !self.owed.is_empty() {
            match rustix::io::retry_on_intr(|| rustix::io::write(&self.pipe, &self.owed)) {
                Ok(written) => {
                    self.owed.drain(..written.min(self.owed.len()));
                }
                Err(rustix::io::Errno::AGAIN) => return self.owed.len() <= OWED_MAX,
                Err(_) => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn a_slow_reader_gets_all_up_to_a_limit_and_then_nothing() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let mut tap = Tap::new(writer).unwrap();
        let megabyte = vec![7; 1 << 20];
        assert!(tap.write(&megabyte));
        assert!(tap.owes());
        let mut seen = vec![0; 1 << 20];
        let reading = std::thread::spawn(move || {
            std::fs::File::from(reader).read_exact(&mut seen).unwrap();
            seen
        });
        while tap.owes() {
            assert!(tap.write(&[]));
            std::thread::yield_now();
        }
        assert_eq!(reading.join().unwrap(), megabyte);
        let (_reader, writer) = rustix::pipe::pipe().unwrap();
        let mut tap = Tap::new(writer).unwrap();
        assert!((0..8).any(|_| !tap.write(&megabyte)));
    }
}
