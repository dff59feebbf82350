//! Rules of spec/downward-api.md: channels over WebSocket messages.

use bytes::Bytes;
use proptest::prelude::*;
use tenure_streams::channel::{
    COMMAND, ChannelMessage, FORWARD, Protocol, Sizes, TUNNEL, encode_one_way, negotiate,
    negotiate_one_way, terminal_size,
};

#[test]
fn r126_the_first_name_that_is_offered_is_taken() {
    for (asked, chosen) in [
        ("v5.channel.k8s.io", Some((Protocol::V5, Some("v5.channel.k8s.io")))),
        ("v4.channel.k8s.io", Some((Protocol::V4, Some("v4.channel.k8s.io")))),
        ("nope, v4.channel.k8s.io", Some((Protocol::V4, Some("v4.channel.k8s.io")))),
        ("channel.k8s.io,v5.channel.k8s.io", Some((Protocol::V1, Some("channel.k8s.io")))),
        ("base64.channel.k8s.io", Some((Protocol::V1Text, Some("base64.channel.k8s.io")))),
        ("v4.base64.channel.k8s.io", Some((Protocol::V4Text, Some("v4.base64.channel.k8s.io")))),
        ("", Some((Protocol::V1, None))),
        ("v2.channel.k8s.io", None),
        ("v3.channel.k8s.io,v6.channel.k8s.io", None),
    ] {
        assert_eq!(negotiate(asked, &COMMAND), chosen, "{asked}");
    }
}

#[test]
fn r130_forwarding_knows_version_4_only() {
    assert_eq!(negotiate("", &FORWARD), Some((Protocol::V4, None)));
    assert_eq!(negotiate("v5.channel.k8s.io", &FORWARD), None);
    assert_eq!(negotiate(TUNNEL, &FORWARD), None);
}

#[test]
fn r127_the_first_byte_is_the_channel() {
    let bytes = Bytes::from_static;
    for (protocol, message, meaning) in [
        (Protocol::V5, bytes(b"\x00hi"), ChannelMessage::Data(0, bytes(b"hi"))),
        (Protocol::V4, bytes(b"\x04{}"), ChannelMessage::Data(4, bytes(b"{}"))),
        (Protocol::V5, bytes(b"\x00"), ChannelMessage::Data(0, bytes(b""))),
        (Protocol::V5, bytes(b""), ChannelMessage::Nothing),
        (Protocol::V5, bytes(b"\xff\x00"), ChannelMessage::Close(0)),
        (Protocol::V5, bytes(b"\xff"), ChannelMessage::Broken),
        (Protocol::V5, bytes(b"\xff\x00\x00"), ChannelMessage::Broken),
        (Protocol::V4, bytes(b"\xff\x00"), ChannelMessage::Data(255, bytes(b"\x00"))),
        (Protocol::V4Text, bytes(b"0Zm9vCgo="), ChannelMessage::Data(0, bytes(b"foo\n\n"))),
        (Protocol::V1Text, bytes(b"1Cg=="), ChannelMessage::Data(1, bytes(b"\n"))),
        (Protocol::V1Text, bytes(b"0not base64!"), ChannelMessage::Nothing),
        (Protocol::V1Text, bytes(b"\x00Cg=="), ChannelMessage::Nothing),
    ] {
        assert_eq!(protocol.decode(message.clone()), meaning, "{protocol:?} {message:?}");
    }
}

#[test]
fn r127_only_version_5_closes_channels() {
    assert_eq!(Protocol::V5.close(0).unwrap().as_ref(), [255, 0]);
    assert!(Protocol::V4.close(0).is_none());
}

#[test]
fn r127_sizes_are_read_in_any_case() {
    assert_eq!(terminal_size(br#"{"Width":80,"Height":24}"#), Some((80, 24)));
    assert_eq!(terminal_size(br#"{"width":80,"HEIGHT":24,"x":1}"#), Some((80, 24)));
    for broken in
        [&b"{}"[..], b"", b"{", br#"{"Width":-1,"Height":2}"#, br#"{"Width":70000,"Height":2}"#]
    {
        assert_eq!(terminal_size(broken), None);
    }
}

#[test]
fn r123a_streams_of_one_side_are_bytes_or_base64() {
    assert_eq!(negotiate_one_way(""), Some((false, None)));
    assert_eq!(negotiate_one_way("binary.k8s.io"), Some((false, Some("binary.k8s.io"))));
    let text = negotiate_one_way("v9.binary.k8s.io, base64.binary.k8s.io,binary.k8s.io");
    assert_eq!(text, Some((true, Some("base64.binary.k8s.io"))), "the client's order counts");
    assert_eq!(negotiate_one_way("v4.channel.k8s.io"), None);
    assert_eq!(encode_one_way(false, "a\n".into()), "a\n");
    assert_eq!(encode_one_way(true, "a\n".into()), "YQo=");
}

#[test]
fn r131_sizes_come_one_after_the_other() {
    let mut sizes = Sizes::default();
    assert_eq!(sizes.push(br#"{"Width":1,"Height":2}{"Width":3,"#), [(1, 2)]);
    assert_eq!(sizes.push(b"\"Height\":4}\n"), [(3, 4)]);
    assert!(sizes.push(b"nonsense").is_empty());
    assert_eq!(sizes.push(br#"{"Width":5,"Height":6}"#), [(5, 6)]);
    // An object without an end is forgotten, and what follows is read.
    assert!(sizes.push(&[b'[', b' '].repeat(4000)).is_empty());
    assert!(sizes.push(b"]").is_empty());
    assert_eq!(sizes.push(br#"{"Width":7,"Height":8}"#), [(7, 8)]);
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(channel in 0_u8..10, bytes: Vec<u8>) {
        for protocol in COMMAND {
            let message = protocol.encode(channel, &bytes);
            let meant = ChannelMessage::Data(channel, bytes.clone().into());
            prop_assert_eq!(protocol.decode(message.clone()), meant);
            prop_assert!(!protocol.text() || std::str::from_utf8(&message).is_ok());
        }
    }

    #[test]
    fn no_message_is_too_strange(bytes: Vec<u8>) {
        for protocol in COMMAND {
            let _ = protocol.decode(bytes.clone().into());
        }
        let _ = terminal_size(&bytes);
        let _ = Sizes::default().push(&bytes);
    }
}
