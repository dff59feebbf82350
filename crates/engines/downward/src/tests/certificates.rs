//! Rules of spec/downward-api.md, section 12.1: trust bundles and certificates of pods.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use jiff::Timestamp;
use serde_json::{Value, json};
use tenure_machinery::Object;

use super::object;
use crate::certificate::{CertificateNews, ProjectedCertificate, certificates_wanted};
use crate::pem::write_block;
use crate::trust_bundle::trust_anchors;

fn block(text: &str) -> String {
    write_block("CERTIFICATE", text.as_bytes())
}

fn bundle(name: &str, signer: &str, labels: Value, certificates: &[&str]) -> Object {
    let text: String =
        certificates.iter().map(|text| format!("a word before\n{}", block(text))).collect();
    object(json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"signerName": signer, "trustBundle": text},
    }))
}

fn bundles() -> Vec<Object> {
    Vec::from([
        bundle("plain", "", json!({}), &["p"]),
        bundle("a.b:s:1", "a.b/s", json!({"alive": "true"}), &["one", "two"]),
        bundle("a.b:s:2", "a.b/s", json!({"alive": "false"}), &["two", "three"]),
        bundle("a.b:t:1", "a.b/t", json!({"alive": "true"}), &["four"]),
    ])
}

/// The certificates of a source, sorted.
fn anchors(source: Value, seed: u64) -> Result<Vec<String>, String> {
    let bytes = trust_anchors(&object(source), &bundles(), seed)?;
    let text = String::from_utf8(bytes).unwrap();
    let found = crate::pem::certificates(&text);
    let mut found: Vec<String> =
        found.into_iter().map(|der| String::from_utf8(der).unwrap()).collect();
    let whole: usize = found.iter().map(|text| block(text).len()).sum();
    assert_eq!(text.len(), whole, "nothing but blocks: {text}");
    found.sort();
    Ok(found)
}

#[test]
fn r89_a_bundle_by_name_or_those_of_a_signer_each_certificate_once() {
    let live = json!({"matchLabels": {"alive": "true"}});
    for (source, want) in [
        (json!({"name": "plain"}), &["p"][..]),
        (json!({"name": "a.b:s:2"}), &["three", "two"]),
        (json!({"signerName": "a.b/s", "labelSelector": {}}), &["one", "three", "two"]),
        (json!({"signerName": "a.b/s", "labelSelector": live}), &["one", "two"]),
        (json!({"name": "none", "optional": true}), &[]),
        (json!({"signerName": "a.b/s", "optional": true}), &[]),
        (json!({"signerName": "a.b/u", "labelSelector": {}, "optional": true}), &[]),
    ] {
        assert_eq!(anchors(source.clone(), 1).unwrap(), want, "{source}");
    }
    let zero = "combination of signerName and labelSelector matched zero ClusterTrustBundles";
    for (source, want) in [
        (json!({"name": "none"}), "clustertrustbundle \"none\" not found"),
        (json!({"signerName": "a.b/s"}), zero),
        (json!({"signerName": "a.b/s", "labelSelector": {"matchLabels": {"x": "y"}}}), zero),
        (json!({}), "a clusterTrustBundle source needs a name or a signerName"),
        (
            json!({"signerName": "a.b/s", "labelSelector":
                {"matchExpressions": [{"key": "a", "operator": "Near"}]}}),
            "the labelSelector cannot be understood",
        ),
    ] {
        assert_eq!(anchors(source.clone(), 1).unwrap_err(), want, "{source}");
    }
}

#[test]
fn r89_the_order_of_certificates_stays_for_one_seed_only() {
    let many: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let all = [bundle("many", "", json!({}), &many)];
    let source = object(json!({"name": "many"}));
    let written = |seed| trust_anchors(&source, &all, seed).unwrap();
    assert_eq!(written(1), written(1));
    assert_ne!(written(1), written(2));
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn answered(kind: &str) -> Object {
    let mut request = object(json!({
        "metadata": {"namespace": "n", "name": "req-1"},
        "status": {"conditions": [{"type": kind, "reason": "Why", "message": "because"}]},
    }));
    if kind == "Issued" {
        let chain = format!("words\n{}words\n{}", block("leaf"), block("root"));
        let status = json!({
            "conditions": [{"type": "Issued"}], "certificateChain": chain,
            "beginRefreshAt": at(1000).to_string(), "notAfter": at(5000).to_string(),
        });
        request.insert("status".into(), status);
    }
    request
}

fn issued() -> ProjectedCertificate {
    let mut kept = ProjectedCertificate::default();
    kept.requested(Vec::from(*b"key 1"), "req-1", at(0), 0.0);
    assert_eq!(kept.hear(Some(&answered("Issued")), at(1), 0.0), None);
    kept
}

#[test]
fn r89c_files_show_a_certificate_once_it_is_issued() {
    let mut kept = ProjectedCertificate::default();
    assert!(kept.wants_request(at(0)));
    kept.requested(Vec::from(*b"key 1"), "req-1", at(0), 0.0);
    assert!(!kept.wants_request(at(1)));
    assert_eq!(kept.pending(), Some("req-1"));
    let waiting = object(json!({"metadata": {"name": "req-1"}, "status": {}}));
    assert_eq!(kept.hear(Some(&waiting), at(1), 0.0), None);
    let why = kept.bundle().map(|_| ()).unwrap_err();
    assert_eq!(why, "credential bundle is not issued yet");
    assert_eq!(kept.hear(Some(&answered("Issued")), at(2), 0.0), None);
    let shown = kept.bundle().ok().unwrap();
    assert_eq!(shown.key, b"key 1");
    assert_eq!(shown.chain, format!("{}{}", block("leaf"), block("root")).into_bytes());
    assert_eq!(kept.pending(), None);
}

#[test]
fn r89c_a_signer_that_says_no_has_said_it_for_good() {
    for (kind, deed) in [("Denied", "denied"), ("Failed", "failed")] {
        let mut kept = issued();
        kept.requested(Vec::from(*b"key 2"), "req-1", at(1000), 0.0);
        let told =
            format!("PodCertificateRequest n/req-1 was {deed}, reason=\"Why\" message=\"because\"");
        let told = match kind {
            "Denied" => CertificateNews::Denied(told),
            _ => CertificateNews::Failed(told),
        };
        assert_eq!(kept.hear(Some(&answered(kind)), at(1001), 0.0), Some(told));
        let why = kept.bundle().map(|_| ()).unwrap_err();
        assert!(why.starts_with(&format!("PodCertificateRequest was permanently {deed}")), "{why}");
        assert!(!kept.wants_request(at(100_000)));
        assert_eq!(kept.due(), None);
    }
}

#[test]
fn r89d_a_certificate_is_renewed_with_a_new_key_and_shown_till_then() {
    let mut kept = issued();
    assert_eq!(kept.due(), Some(at(1000)));
    assert!(!kept.wants_request(at(999)));
    assert!(kept.wants_request(at(1000)));
    kept.requested(Vec::from(*b"key 2"), "req-2", at(1000), 0.0);
    assert_eq!(kept.due(), None);
    assert_eq!(kept.bundle().ok().unwrap().key, b"key 1");
    assert_eq!(kept.hear(None, at(1001), 0.0), None);
    assert_eq!(kept.hear(Some(&answered("Issued")), at(1002), 0.5), None);
    assert_eq!(kept.bundle().ok().unwrap().key, b"key 2");
    // Half of five minutes later than the signer says.
    assert_eq!(kept.due(), Some(at(1150)));
}

#[test]
fn r89d_a_request_that_nobody_sees_is_made_again_and_lateness_is_told_once() {
    let mut kept = ProjectedCertificate::default();
    kept.requested(Vec::new(), "req-1", at(0), 0.0);
    assert_eq!(kept.hear(None, at(599), 0.0), None);
    assert!(!kept.wants_request(at(599)));
    assert_eq!(kept.hear(None, at(600), 0.0), None);
    assert!(kept.wants_request(at(600)));
    let mut kept = issued();
    let mut told = Vec::new();
    for seconds in (0..6000).step_by(100) {
        told.extend(kept.late(at(seconds)).map(|news| (seconds, news)));
    }
    assert_eq!(told, [(1700, CertificateNews::Overdue), (5100, CertificateNews::Expired)]);
}

#[test]
fn r89b_sources_are_counted_among_all_sources() {
    let volume = object(json!({"projected": {"sources": [
        {"secret": {"name": "s"}}, {"podCertificate": {"keyType": "a"}},
        {"podCertificate": {"keyType": "b"}},
    ]}}));
    let found: Vec<(usize, String)> = certificates_wanted(&volume)
        .map(|(at, source)| (at, source["keyType"].as_str().unwrap().to_string()))
        .collect();
    assert_eq!(found, [(1, "a".to_string()), (2, "b".to_string())]);
}
