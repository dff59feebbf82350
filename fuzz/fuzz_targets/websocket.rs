//! WebSocket frames of clients: any bytes become messages or the end of the connection, and what arrives is no more
//! than what was sent.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenure_node::serve::fuzzing::messages;
use tenure_streams::channel::{COMMAND, ChannelMessage, FORWARD};

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, frames)) = bytes.split_first() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime without threads");
    let arrived = runtime.block_on(messages(frames, first & 1 == 1));
    let total: usize = arrived.iter().map(bytes::Bytes::len).sum();
    assert!(total <= frames.len(), "{total} bytes out of {}", frames.len());
    for message in arrived {
        for protocol in COMMAND.into_iter().chain(FORWARD) {
            if let ChannelMessage::Data(channel, data) = protocol.decode(message.clone()) {
                assert!(data.len() < message.len());
                let again = protocol.decode(protocol.encode(channel, &data));
                // Text protocols have digits for channels, and no more of them than fit into a letter.
                if !protocol.text() || channel < 10 {
                    assert_eq!(again, ChannelMessage::Data(channel, data));
                }
            }
        }
    }
});
