//! Rules of spec/downward-api.md: SPDY/3.1, read and written.

use bytes::Bytes;
use flate2::{Compress, Compression, FlushCompress};
use proptest::prelude::*;
use tenure_streams::spdy::{
    CONTROL_BYTES_MAX, Decoder, Encoder, FrameError, HEADER_BYTES_MAX, Headers, SpdyFrame,
};

/// Two streams as zlib itself packs them: the second refers to the first and to the dictionary.
const PACKED_BY_ZLIB: &str = concat!(
    "800300010000003d0000000100000000000078f9e3c6a7c202253a703a2b294a4dcc851625aca9a0",
    "808614cb45e01c6061606100a4398b20d198094ade8c0600000000ffff8003000100000018000000",
    "03000000000000c2aa19540e2512d60b000000ffff"
);

fn unhex(text: &str) -> Vec<u8> {
    text.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn all(decoder: &mut Decoder) -> Result<Vec<SpdyFrame>, FrameError> {
    let mut frames = Vec::new();
    while let Some(frame) = decoder.next_frame()? {
        frames.push(frame);
    }
    Ok(frames)
}

fn read(bytes: &[u8]) -> Result<Vec<SpdyFrame>, FrameError> {
    let mut decoder = Decoder::default();
    decoder.push(bytes);
    all(&mut decoder)
}

fn write(frames: &[SpdyFrame]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::default();
    for frame in frames {
        encoder.encode(frame, &mut bytes);
    }
    bytes
}

fn control(kind: u16, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x80, 3];
    bytes.extend(kind.to_be_bytes());
    bytes.extend((u32::from(flags) << 24 | u32::try_from(payload.len()).unwrap()).to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A SYN_STREAM whose header block is packed by a compressor without a dictionary.
fn opened_with(block: &[u8]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(block.len() + 1024);
    let mut compress = Compress::new(Compression::best(), true);
    compress.compress_vec(block, &mut packed, FlushCompress::Sync).unwrap();
    let mut payload = vec![0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    payload.extend(packed);
    control(1, 0, &payload)
}

#[test]
fn r129_headers_packed_by_zlib_with_the_dictionary_are_read() {
    let frames = read(&unhex(PACKED_BY_ZLIB)).unwrap();
    let open = |stream, kind| SpdyFrame::Open {
        stream,
        headers: Headers::new(&[("streamType", kind), ("port", "8080"), ("requestID", "0")]),
        fin: false,
        unidirectional: false,
    };
    assert_eq!(frames, [open(1, "error"), open(3, "data")]);
    let SpdyFrame::Open { headers, .. } = &frames[1] else { panic!() };
    assert_eq!(headers.get("streamType"), "data");
    assert_eq!(headers.get("nothing"), "");
}

#[test]
fn r129_frames_look_as_spdy_says() {
    for (frame, bytes) in [
        (SpdyFrame::Ping { id: 2 }, &b"\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x02"[..]),
        (
            SpdyFrame::Reset { stream: 3, status: 5 },
            b"\x80\x03\x00\x03\x00\x00\x00\x08\x00\x00\x00\x03\x00\x00\x00\x05",
        ),
        (
            SpdyFrame::GoAway { last: 7, status: 0 },
            b"\x80\x03\x00\x07\x00\x00\x00\x08\x00\x00\x00\x07\x00\x00\x00\x00",
        ),
        (
            SpdyFrame::Window { stream: 1, delta: 9 },
            b"\x80\x03\x00\x09\x00\x00\x00\x08\x00\x00\x00\x01\x00\x00\x00\x09",
        ),
        (
            SpdyFrame::Data { stream: 1, bytes: Bytes::from_static(b"hi"), fin: true },
            b"\x00\x00\x00\x01\x01\x00\x00\x02hi",
        ),
        (SpdyFrame::Settings, b"\x80\x03\x00\x04\x00\x00\x00\x04\x00\x00\x00\x00"),
        (
            SpdyFrame::Reply { stream: 1, headers: Headers::default(), fin: false },
            b"\x80\x03\x00\x02\x00\x00\x00\x18\x00\x00\x00\x01\
              \x78\xbb\xe3\xc6\xa7\xc2\x00\x04\x00\xfb\xff\x00\x00\x00\x00\
              \x00\x00\x00\xff\xff",
        ),
    ] {
        assert_eq!(write(std::slice::from_ref(&frame)), bytes, "{frame:?}");
        assert_eq!(read(bytes).unwrap(), [frame]);
    }
}

#[test]
fn r129_data_is_handed_out_as_it_arrives() {
    let mut decoder = Decoder::default();
    decoder.push(b"\x00\x00\x00\x05\x01\xff\xff\xff");
    assert_eq!(decoder.next_frame(), Ok(None));
    for _ in 0..3 {
        decoder.push(&[b'x'; 1000]);
        let part = SpdyFrame::Data { stream: 5, bytes: vec![b'x'; 1000].into(), fin: false };
        assert_eq!(all(&mut decoder).unwrap(), [part]);
        assert_eq!(decoder.pending(), 0);
    }
}

#[test]
fn r129_kinds_nobody_knows_are_passed_over() {
    let mut bytes = control(77, 0, &[1; 100_000]);
    bytes.extend(write(&[SpdyFrame::Ping { id: 1 }]));
    let mut decoder = Decoder::default();
    let mut frames = Vec::new();
    for part in bytes.chunks(999) {
        decoder.push(part);
        frames.extend(all(&mut decoder).unwrap());
        assert!(decoder.pending() < 999);
    }
    assert_eq!(frames, [SpdyFrame::Ping { id: 1 }]);
}

#[test]
fn what_is_no_frame_is_refused_for_good() {
    let header = |count: u32, rest: &[u8]| {
        let mut block = count.to_be_bytes().to_vec();
        block.extend(rest);
        opened_with(&block)
    };
    let twice = b"\x00\x00\x00\x01a\x00\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x00\x00";
    let bomb = vec![0; HEADER_BYTES_MAX + 1];
    let wrong_dictionary = [&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x78, 0xbb][..], &[9; 30]].concat();
    for (bytes, why) in [
        (b"\x80\x02\x00\x06\x00\x00\x00\x04\x00\x00\x00\x01".to_vec(), FrameError::Version(2)),
        (b"\x80\x03\x00\x01\x00\xff\xff\xff".to_vec(), FrameError::TooLong(0xff_ffff)),
        (b"\x00\x00\x00\x00\x00\x00\x00\x01x".to_vec(), FrameError::StreamZero),
        (control(3, 0, &[0; 8]), FrameError::StreamZero),
        (control(3, 0, &[1; 7]), FrameError::Malformed(3)),
        (control(6, 0, &[1; 5]), FrameError::Malformed(6)),
        (control(1, 0, &[1; 9]), FrameError::Malformed(1)),
        (control(1, 0, &[1; 10]), FrameError::Inflate),
        (control(1, 0, &wrong_dictionary), FrameError::Inflate),
        (opened_with(&bomb), FrameError::TooManyHeaders),
        (header(101, &[]), FrameError::TooManyHeaders),
        (header(1, &[]), FrameError::Headers),
        (header(1, &[0xff; 8]), FrameError::Headers),
        (header(0, &[1]), FrameError::Headers),
        (header(2, twice), FrameError::Headers),
        (header(1, b"\x00\x00\x00\x01\xff\x00\x00\x00\x00"), FrameError::Headers),
        (header(1, b"\x00\x00\x00\x00\x00\x00\x00\x00"), FrameError::Headers),
    ] {
        let mut decoder = Decoder::default();
        decoder.push(&bytes);
        assert_eq!(decoder.next_frame(), Err(why.clone()), "{bytes:?}");
        decoder.push(&write(&[SpdyFrame::Ping { id: 1 }]));
        assert_eq!(decoder.next_frame(), Err(why));
        assert_eq!(decoder.pending(), 0);
    }
}

#[test]
fn several_values_of_a_name_are_cut_to_the_first() {
    let block = b"\x00\x00\x00\x01\x00\x00\x00\x01a\x00\x00\x00\x03x\x00y";
    let frames = read(&opened_with(block)).unwrap();
    let SpdyFrame::Open { headers, .. } = &frames[0] else { panic!() };
    assert_eq!(headers.get("a"), "x");
}

fn headers() -> impl Strategy<Value = Headers> {
    proptest::collection::btree_map("[a-z]{1,9}", "[ -~]{0,40}", 0..6).prop_map(|pairs| {
        let pairs: Vec<(&str, &str)> =
            pairs.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        Headers::new(&pairs)
    })
}

fn frame() -> impl Strategy<Value = SpdyFrame> {
    let stream = 1..=0x7fff_ffff_u32;
    prop_oneof![
        (stream.clone(), headers(), any::<bool>(), any::<bool>()).prop_map(
            |(stream, headers, fin, unidirectional)| SpdyFrame::Open {
                stream,
                headers,
                fin,
                unidirectional
            }
        ),
        (stream.clone(), headers(), any::<bool>())
            .prop_map(|(stream, headers, fin)| SpdyFrame::Reply { stream, headers, fin }),
        (stream.clone(), headers(), any::<bool>())
            .prop_map(|(stream, headers, fin)| SpdyFrame::Headers { stream, headers, fin }),
        (stream.clone(), any::<u32>())
            .prop_map(|(stream, status)| SpdyFrame::Reset { stream, status }),
        any::<u32>().prop_map(|id| SpdyFrame::Ping { id }),
        (stream.clone(), any::<u32>())
            .prop_map(|(last, status)| SpdyFrame::GoAway { last, status }),
        (stream.clone(), any::<u32>())
            .prop_map(|(stream, delta)| SpdyFrame::Window { stream, delta }),
        Just(SpdyFrame::Settings),
        (stream, any::<Vec<u8>>(), any::<bool>())
            .prop_map(|(stream, bytes, fin)| SpdyFrame::Data { stream, bytes: bytes.into(), fin }),
    ]
}

/// Joins data frames of one stream that follow each other, as cuts may fall anywhere.
fn joined(frames: Vec<SpdyFrame>) -> Vec<SpdyFrame> {
    let mut out: Vec<SpdyFrame> = Vec::new();
    for frame in frames {
        let SpdyFrame::Data { stream, bytes, fin } = &frame else {
            out.push(frame);
            continue;
        };
        if let Some(SpdyFrame::Data { stream: last, bytes: before, fin: ended }) = out.last_mut()
            && last == stream
            && !*ended
        {
            *before = [before.as_ref(), bytes.as_ref()].concat().into();
            *ended = *fin;
        } else if !bytes.is_empty() || *fin {
            out.push(frame);
        }
    }
    out
}

proptest! {
    #[test]
    fn what_is_written_is_read(frames in proptest::collection::vec(frame(), 0..12), cut in 1_usize..50) {
        let bytes = write(&frames);
        let mut decoder = Decoder::default();
        let mut seen = Vec::new();
        for part in bytes.chunks(cut) {
            decoder.push(part);
            seen.extend(all(&mut decoder).unwrap());
        }
        prop_assert_eq!(joined(seen), joined(frames));
    }

    #[test]
    fn hostile_bytes_end_in_an_error_at_worst(parts: Vec<Vec<u8>>) {
        let mut decoder = Decoder::default();
        let mut pushed = 0;
        for part in &parts {
            decoder.push(part);
            pushed += part.len();
            let _ = all(&mut decoder);
            prop_assert!(decoder.pending() <= CONTROL_BYTES_MAX + 8 && decoder.pending() <= pushed);
        }
    }

    #[test]
    fn changed_bytes_end_in_an_error_at_worst(
        frames in proptest::collection::vec(frame(), 1..6), at: usize, to: u8,
    ) {
        let mut bytes = write(&frames);
        let length = bytes.len();
        bytes[at % length] = to;
        let _ = read(&bytes);
    }
}
