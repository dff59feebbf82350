//! Bodies: broken, deep, huge, explosive, of the wrong kind.

use super::{MEGABYTE, OBJECTS, is_status, with_server};

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const PATCH: &str = "application/json-patch+json";

fn deep(open: &str, close: &str) -> Vec<u8> {
    let middle = format!("{}1{}", open.repeat(10_000), close.repeat(10_000));
    format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a"}},"x":{middle}}}"#)
        .into()
}

#[test]
fn broken_text_is_400() {
    let bodies: &[(&str, &[u8])] = &[
        (JSON, b""),
        (JSON, b"{"),
        (JSON, b"{\"apiVersion\":"),
        (JSON, b"[]"),
        (JSON, b"\"text\""),
        (JSON, b"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"\xff\xfe\"}}"),
        (JSON, b"\x00\x01\x02"),
        (JSON, b"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":[]}"),
        (JSON, b"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":1}}"),
        (JSON, b"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"},\"data\":{\"k\":1}}"),
        (JSON, b"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\"} trailing"),
        (JSON, b"{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"a\"}}"),
        (JSON, b"{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":{\"name\":\"a\"}}"),
        (YAML, b"a: [1"),
        (YAML, b"a: b: c"),
        (YAML, b"\xff\xfe"),
        (YAML, b"- one\n- two\n"),
        (YAML, b"&a [*a]"),
    ];
    with_server(|access| async move {
        for (kind, body) in bodies {
            let mut connection = access.connect().await.unwrap();
            let answer = connection.send_as("POST", OBJECTS, kind, Some(body)).await.unwrap();
            is_status(&answer, 400, &String::from_utf8_lossy(body));
        }
    });
}

#[test]
fn other_content_types_are_415() {
    with_server(|access| async move {
        for kind in ["text/plain", "application/x-www-form-urlencoded", "nonsense", "a/b;c=d"] {
            let mut connection = access.connect().await.unwrap();
            let answer = connection.send_as("POST", OBJECTS, kind, Some(b"{}")).await.unwrap();
            is_status(&answer, 415, kind);
        }
    });
}

#[test]
fn duplicate_keys_are_refused_when_strict() {
    let body = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","name":"b"},"data":{"k":"1","k":"2"}}"#;
    with_server(|access| async move {
        let strict = format!("{OBJECTS}?fieldValidation=Strict");
        let answer = access.once("POST", &strict, Some(body)).await.unwrap();
        is_status(&answer, 400, "duplicates");
        let warned = access.once("POST", OBJECTS, Some(body)).await.unwrap();
        assert_eq!(warned.code, 201);
        assert!(warned.header("warning").unwrap().contains("duplicate field"), "{}", warned.head);
        // The last value counts, as everywhere in this API.
        assert_eq!(warned.json().unwrap()["metadata"]["name"], "b");
    });
}

#[test]
fn deep_nesting_is_refused_without_a_fall() {
    with_server(|access| async move {
        for body in [deep("[", "]"), deep("{\"a\":", "}")] {
            for kind in [JSON, YAML] {
                let mut connection = access.connect().await.unwrap();
                let answer = connection.send_as("POST", OBJECTS, kind, Some(&body)).await.unwrap();
                is_status(&answer, 400, kind);
            }
            let seed = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#;
            access.once("POST", OBJECTS, Some(seed)).await.unwrap();
            let one = format!("{OBJECTS}/a");
            for kind in [MERGE, STRATEGIC, PATCH] {
                let mut connection = access.connect().await.unwrap();
                let answer = connection.send_as("PATCH", &one, kind, Some(&body)).await.unwrap();
                is_status(&answer, 400, kind);
            }
        }
    });
}

#[test]
fn alias_bombs_stay_small() {
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for level in 1..12 {
        let inner = vec![format!("*a{}", level - 1); 10].join(",");
        bomb.push_str(&format!("a{level}: &a{level} [{inner}]\n"));
    }
    let server = with_server(|access| async move {
        let mut connection = access.connect().await.unwrap();
        let answer =
            connection.send_as("POST", OBJECTS, YAML, Some(bomb.as_bytes())).await.unwrap();
        is_status(&answer, 400, "bomb");
    });
    let peak = server.peak_bytes().unwrap();
    assert!(peak < 300 * MEGABYTE, "{peak} bytes");
}

#[test]
fn hundred_megabytes_are_413_and_never_held() {
    let server = with_server(|access| async move {
        // With a length: refused before the body is read.
        let mut connection = access.connect().await.unwrap();
        let head = format!(
            "POST {OBJECTS} HTTP/1.1\r\nhost: t\r\ncontent-type: {JSON}\r\ncontent-length: {}\r\n\r\n",
            100 * MEGABYTE
        );
        connection.write(head.as_bytes()).await.unwrap();
        let block = vec![b' '; 64 * 1024];
        for _ in 0..1600 {
            // The server may close before all of it is sent.
            if connection.write(&block).await.is_err() {
                break;
            }
        }
        if let Ok(answer) = connection.answer().await {
            is_status(&answer, 413, "length");
        }
        // Without a length: refused when the limit is passed.
        let mut connection = access.connect().await.unwrap();
        let head = format!(
            "POST {OBJECTS} HTTP/1.1\r\nhost: t\r\ncontent-type: {JSON}\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        connection.write(head.as_bytes()).await.unwrap();
        let mut chunk = format!("{:x}\r\n", block.len()).into_bytes();
        chunk.extend_from_slice(&block);
        chunk.extend_from_slice(b"\r\n");
        for _ in 0..1600 {
            if connection.write(&chunk).await.is_err() {
                break;
            }
        }
        if let Ok(answer) = connection.answer().await {
            is_status(&answer, 413, "chunks");
        }
        // Just over the limit, sent honestly: the answer must arrive.
        let body = vec![b' '; 3 * 1024 * 1024 + 1];
        let answer = access.once("POST", OBJECTS, Some(&body)).await.unwrap();
        is_status(&answer, 413, "just over");
    });
    let peak = server.peak_bytes().unwrap();
    assert!(peak < 150 * MEGABYTE, "{peak} bytes");
}

#[test]
fn wrong_patches_are_told_apart() {
    let cases: &[(&str, &str, u16)] = &[
        (MERGE, "[]", 400),
        (MERGE, "{", 400),
        (STRATEGIC, "1", 400),
        (STRATEGIC, r#"{"data":{"$patch":"explode"}}"#, 400),
        (PATCH, "{}", 400),
        (PATCH, r#"[{"op":"explode","path":"/data"}]"#, 422),
        (PATCH, r#"[{"op":"remove","path":"/data/missing"}]"#, 422),
        (PATCH, r#"[{"op":"test","path":"/kind","value":"Pod"}]"#, 422),
        (PATCH, r#"[{"op":"replace","path":"/metadata/name","value":"b"}]"#, 400),
        (MERGE, r#"{"kind":"Secret"}"#, 422),
        (MERGE, r#"{"data":{"k":1}}"#, 422),
        (MERGE, r#"{"data":{"no/slash":"x"}}"#, 422),
        ("application/json", "{}", 415),
    ];
    with_server(|access| async move {
        let seed =
            br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}"#;
        assert_eq!(access.once("POST", OBJECTS, Some(seed)).await.unwrap().code, 201);
        let one = format!("{OBJECTS}/a");
        for (kind, body, code) in cases {
            let mut connection = access.connect().await.unwrap();
            let answer =
                connection.send_as("PATCH", &one, kind, Some(body.as_bytes())).await.unwrap();
            is_status(&answer, *code, body);
        }
        // Ten thousand operations that each copy the whole: the copies must not add up.
        let copy = r#"{"op":"copy","from":"/data","path":"/data/x"}"#;
        let many = format!("[{}]", vec![copy; 10_001].join(","));
        let mut connection = access.connect().await.unwrap();
        let answer = connection.send_as("PATCH", &one, PATCH, Some(many.as_bytes())).await.unwrap();
        is_status(&answer, 413, "many operations");
        let got = access.once("GET", &one, None).await.unwrap().json().unwrap();
        assert_eq!(got["data"], serde_json::json!({"k": "v"}));
    });
}
