//! Client certificates: any bytes name one user in known groups, or nobody.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenure_server::fuzzing::user_of_certificate;

fuzz_target!(|der: &[u8]| {
    let Some(user) = user_of_certificate(der) else { return };
    assert!(!user.name.is_empty());
    assert_eq!(user.groups.last().map(String::as_str), Some("system:authenticated"));
    assert!(user.uid.is_empty() && user.extra.is_empty());
    // What it says is in the bytes; nothing is made up.
    let within = |text: &str| {
        der.windows(text.len().max(1)).any(|bytes| bytes == text.as_bytes()) || text.is_empty()
    };
    let groups = user.groups.split_last().map(|(_, groups)| groups).unwrap_or_default();
    assert!(within(&user.name) && groups.iter().all(|group| within(group)));
    assert_eq!(user_of_certificate(der), Some(user));
});
