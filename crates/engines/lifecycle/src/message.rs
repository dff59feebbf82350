//! The last words of a container, as long as they may be (R99).

use alloc::string::String;
use alloc::vec::Vec;

/// The longest message of one container, in bytes.
pub const TERMINATION_MESSAGE_MAX: usize = 4096;
/// The longest messages of all containers of a pod together, in bytes.
const POD_MESSAGES_MAX: usize = 12 * 1024;
/// What is taken from a log instead of a message.
const FALLBACK_BYTES: usize = 2048;
const FALLBACK_LINES: usize = 80;

/// A message from its first bytes, cut where a letter ends.
#[must_use]
pub fn clip_message(bytes: &[u8], max: usize) -> String {
    let kept = bytes.get(..max.min(bytes.len())).unwrap_or_default();
    let whole = match core::str::from_utf8(kept) {
        Err(error) if error.error_len().is_none() => kept.get(..error.valid_up_to()),
        _ => Some(kept),
    };
    String::from_utf8_lossy(whole.unwrap_or_default()).into_owned()
}

/// The end of a log: at most 80 lines and 2048 bytes.
#[must_use]
pub fn fallback_message(log: &str) -> String {
    let lines: Vec<&str> = log.split_inclusive('\n').collect();
    let from = lines.len().saturating_sub(FALLBACK_LINES);
    let text: String = lines.get(from..).unwrap_or_default().concat();
    let mut cut = text.len().saturating_sub(FALLBACK_BYTES);
    while !text.is_char_boundary(cut) {
        cut += 1;
    }
    String::from(text.get(cut..).unwrap_or_default())
}

/// Cuts the messages of a pod so that all fit: each gets an equal share when they are too long.
pub fn clip_messages(messages: &mut [&mut String]) {
    let total: usize = messages.iter().map(|message| message.len()).sum();
    if total <= POD_MESSAGES_MAX {
        return;
    }
    let share = POD_MESSAGES_MAX / messages.len().max(1);
    for message in messages {
        let clipped = clip_message(message.as_bytes(), share);
        **message = clipped;
    }
}
