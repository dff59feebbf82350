//! Digests of what an image is made of: `sha256:…` and `sha512:…`. What they are of is known elsewhere.

use std::fmt::Write as _;
use std::io::{self, Read};

use ring::digest::{Algorithm, Context, SHA256, SHA512};

/// Whether bytes have this digest.
pub(super) fn check(digest: &str, bytes: &[u8]) -> io::Result<()> {
    let found = ring::digest::digest(algorithm(digest)?, bytes);
    compare(digest, found.as_ref())
}

/// Bytes whose digest is looked at when they were read to the end.
pub(super) struct DigestReader<R> {
    bytes: R,
    digest: String,
    context: Context,
}

impl<R: Read> DigestReader<R> {
    pub(super) fn new(digest: &str, bytes: R) -> io::Result<DigestReader<R>> {
        let context = Context::new(algorithm(digest)?);
        Ok(DigestReader { bytes, digest: digest.to_owned(), context })
    }

    /// Reads what is left; an error if all of it together is something else.
    pub(super) fn finish(mut self) -> io::Result<()> {
        io::copy(&mut self, &mut io::sink())?;
        compare(&self.digest, self.context.finish().as_ref())
    }
}

impl<R: Read> Read for DigestReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.bytes.read(buffer)?;
        self.context.update(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}

fn algorithm(digest: &str) -> io::Result<&'static Algorithm> {
    match digest.split_once(':') {
        Some(("sha256", _)) => Ok(&SHA256),
        Some(("sha512", _)) => Ok(&SHA512),
        _ => Err(io::Error::other(format!("{digest:?} is no digest that can be checked"))),
    }
}

fn compare(digest: &str, found: &[u8]) -> io::Result<()> {
    if digest.split_once(':').is_some_and(|(_, wanted)| wanted == hex(found)) {
        return Ok(());
    }
    Err(io::Error::other(format!("the content of {digest} has another digest")))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
pub(super) fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(ring::digest::digest(&SHA256, bytes).as_ref()))
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use super::*;

    #[test]
    fn r140a_a_digest_is_of_all_bytes_also_of_those_nobody_read() {
        let digest = sha256(b"some bytes");
        assert!(check(&digest, b"some bytes").is_ok() && check(&digest, b"some byte").is_err());
        let mut checked = DigestReader::new(&digest, b"some bytes".as_slice()).unwrap();
        checked.read_exact(&mut [0; 4]).unwrap();
        assert!(checked.finish().is_ok());
        assert!(DigestReader::new(&digest, b"some bytes!".as_slice()).unwrap().finish().is_err());
        assert!(DigestReader::new("md5:00", b"".as_slice()).is_err());
        assert!(check("sha256", b"").is_err());
    }
}
