//! Blocks of PEM: certificates found in a text and written one like the other. Whether a certificate
//! is good is asked where objects are checked.

use alloc::string::String;
use alloc::vec::Vec;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const LABEL: &str = "CERTIFICATE";
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";
/// How many characters of a block stand in one line.
const LINE: usize = 64;

/// The certificates of a text in their order; what stands between blocks, headers of blocks and what
/// cannot be read is left out.
pub(crate) fn certificates(text: &str) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(BEGIN) {
        let Some((block, next)) = after.split_once(END) else { break };
        let lines = block.lines().map(str::trim).filter(|line| !line.contains(':'));
        let text: String = lines.flat_map(str::chars).filter(|c| !c.is_whitespace()).collect();
        found.extend(STANDARD.decode(text).ok().filter(|bytes| !bytes.is_empty()));
        rest = next;
    }
    found
}

/// Certificates as one text.
pub(crate) fn write_certificates<'a>(all: impl IntoIterator<Item = &'a [u8]>) -> String {
    all.into_iter().map(|der| write_block(LABEL, der)).collect()
}

/// One block.
#[must_use]
pub fn write_block(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut out = alloc::format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, next) = rest.split_at_checked(LINE).unwrap_or((rest, ""));
        out.push_str(line);
        out.push('\n');
        rest = next;
    }
    out.push_str("-----END ");
    out.push_str(label);
    out.push_str("-----\n");
    out
}
