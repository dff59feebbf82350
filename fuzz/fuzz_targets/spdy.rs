//! Frames of SPDY/3.1: any bytes, however they are cut, become frames or an error; never a panic, and
//! never more in memory than was sent.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenure_streams::channel::COMMAND;
use tenure_streams::spdy::{CONTROL_BYTES_MAX, Decoder, Encoder};

fuzz_target!(|bytes: &[u8]| {
    let mut decoder = Decoder::default();
    let mut frames = Vec::new();
    for part in bytes.chunks(61) {
        decoder.push(part);
        while let Ok(Some(frame)) = decoder.next_frame() {
            frames.push(frame);
        }
        assert!(decoder.pending() <= CONTROL_BYTES_MAX + 8);
    }
    // What was read can be written and read again.
    let (mut encoder, mut written) = (Encoder::default(), Vec::new());
    for frame in &frames {
        encoder.encode(frame, &mut written);
    }
    let mut again = Decoder::default();
    again.push(&written);
    for frame in &frames {
        assert_eq!(again.next_frame().as_ref(), Ok(&Some(frame.clone())));
    }
    for protocol in COMMAND {
        let _ = protocol.decode(bytes.to_vec().into());
    }
});
