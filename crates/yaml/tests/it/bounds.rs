//! Hostile bodies end in an error, quickly and without much memory.

use std::time::{Duration, Instant};

use tenure_yaml::{YamlError, YamlLimits, to_json, to_json_lenient};

fn refused(text: &str) -> YamlError {
    let start = Instant::now();
    let limits = YamlLimits { expanded_bytes_max: 4 * 1024 * 1024, ..YamlLimits::default() };
    let error = to_json(text.as_bytes(), limits).unwrap_err();
    assert_eq!(to_json_lenient(text.as_bytes(), limits).unwrap_err(), error);
    assert!(start.elapsed() < Duration::from_secs(30), "took {:?}", start.elapsed());
    error
}

#[test]
fn r27_alias_bomb_is_refused() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        let below = format!("*a{}", level - 1);
        text += &format!("a{level}: &a{level} [{}]\n", vec![below; 10].join(", "));
    }
    let error = refused(&text);
    assert!(matches!(error, YamlError::TooComplex { .. }), "{error}");
}

#[test]
fn r27_alias_bomb_of_one_long_text_is_refused() {
    let long = "x".repeat(1024 * 1024);
    let text = format!("a: &a '{long}'\nb: [{}]\n", vec!["*a"; 1000].join(", "));
    let error = refused(&text);
    assert!(matches!(error, YamlError::TooComplex { .. }), "{error}");
}

#[test]
fn r27_alias_bomb_through_merge_keys_is_refused() {
    let mut text = "a0: &a0 {k0: x}\n".to_owned();
    for level in 1..40 {
        let below = level - 1;
        text +=
            &format!("a{level}: &a{level} {{k{level}: [*a{below}, *a{below}], <<: *a{below}}}\n");
    }
    let error = refused(&text);
    assert!(matches!(error, YamlError::TooComplex { .. }), "{error}");
}

#[test]
fn r27_depth_is_bounded() {
    for (open, close) in [("[", "]"), ("{a: ", "}"), ("- ", "")] {
        for depth in [1_000, 100_000] {
            let text = format!("{}x{}", open.repeat(depth), close.repeat(depth));
            let error = refused(&text);
            assert!(
                matches!(error, YamlError::TooComplex { .. } | YamlError::Syntax { .. }),
                "{open} {depth}: {error}"
            );
        }
        let text = format!("{}x{}", open.repeat(100), close.repeat(100));
        to_json(text.as_bytes(), YamlLimits::default()).unwrap();
    }
}

#[test]
fn r27_size_is_bounded() {
    let limits = YamlLimits { bytes_max: 10, ..YamlLimits::default() };
    assert!(to_json(b"a: 1", limits).is_ok());
    assert_eq!(
        to_json(b"a: 12345678", limits),
        Err(YamlError::TooLarge { bytes: 11, bytes_max: 10 })
    );
}

#[test]
fn r27_ordinary_anchors_are_fine() {
    let text = format!("a: &a {{x: 1}}\nb: [{}]\n", vec!["*a"; 2000].join(", "));
    let value = to_json(text.as_bytes(), YamlLimits::default()).unwrap();
    assert_eq!(value["b"].as_array().unwrap().len(), 2000);
    assert!(matches!(refused("a: &a [*a]\n"), YamlError::Syntax { .. }));
}

#[test]
fn r27_large_bodies_are_read() {
    let text = "- {name: abc, value: 5}\n".repeat(100_000);
    let value = to_json(text.as_bytes(), YamlLimits::default()).unwrap();
    assert_eq!(value.as_array().unwrap().len(), 100_000);
}
