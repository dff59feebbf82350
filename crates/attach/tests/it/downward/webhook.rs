//! The webhook of older servers: the same outcomes as by policies (A57).

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_attach::{DownwardAttachment, WebhookFiles, WebhookSettings};

use super::*;
use crate::town::path_of;

/// A cluster that is treated as one without such policies, and what runs for it.
struct Older {
    town: Town,
    running: DownwardAttachment,
    _folder: TempDir,
}

async fn older() -> Older {
    let folder = TempDir::new().unwrap();
    let (authority_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&authority_key).unwrap().pem();
    let issuer = Issuer::new(params, authority_key);
    let own = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let certificate = file("tls.crt", &own.signed_by(&key, &issuer).unwrap().pem());
    let key = file("tls.key", &key.serialize_pem());
    let settings = WebhookSettings {
        serve: "127.0.0.1:0".parse().unwrap(),
        files: WebhookFiles { certificate, key, clients: None },
        listen: None,
    };
    let running = DownwardAttachment::start(&settings).await.unwrap();
    let town = Town::start().await;
    let webhook = DownwardWebhook { authority: authority.clone(), image: "tenure:test".into() };
    let printed = install::downward("1.35".parse().unwrap(), Some(&webhook)).unwrap();
    for mut object in documents(&printed) {
        if object["kind"] == "MutatingWebhookConfiguration" {
            assert_eq!(
                object["webhooks"][0]["clientConfig"]["caBundle"],
                STANDARD.encode(&authority)
            );
            // No Service leads anywhere here.
            object["webhooks"][0]["clientConfig"] = json!({
                "url": format!("https://{}/downward", running.address()),
                "caBundle": STANDARD.encode(&authority),
            });
        }
        let (code, said) = town.apply(&path_of(&object), &object).await;
        assert!(code < 300, "{said}");
    }
    Older { town, running, _folder: folder }
}

#[tokio::test(flavor = "multi_thread")]
async fn a57_nine_kinds_come_out_the_same() {
    let older = older().await;
    kinds::are_tried_and_created(&older.town).await;
    kinds::applied_again_writes_nothing(&older.town).await;
    drop(older.running);
}

#[tokio::test(flavor = "multi_thread")]
async fn a57_a_job_is_sent_again_and_pods_follow_their_owners() {
    let older = older().await;
    kinds::a_job_is_sent_again(&older.town).await;
    keeping::what_is_written_by_hand_shows(&older.town).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a57_adoption_orphaning_and_ephemeral_containers() {
    let older = self::older().await;
    keeping::adoption_and_orphaning_carry_it(&older.town).await;
    let another = self::older().await;
    keeping::an_ephemeral_container_is_rewritten(&another.town).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a57_nothing_can_be_forged() {
    let one = older().await;
    forging::a_status_write_says_what_is_stored(&one.town).await;
    let other = older().await;
    forging::a_binding_with_it_is_refused(&other.town).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a57_an_outage_is_felt_by_those_that_name_the_path_alone() {
    let Older { town, running, .. } = older().await;
    drop(running);
    let plain = json!({ "containers": [{ "name": "a", "image": "x" }] });
    town.made(PODS, &pod("plain", &plain)).await;
    for path in [NATIVE, CARRIER] {
        let (code, said): (u16, Value) = town.create(PODS, &pod("reads", &reading(path))).await;
        assert_eq!(code, 500, "{said}");
    }
}
