//! Rules of spec/dependencies.md: certificates that prove nothing, over real TLS, and what the audit log
//! says of them.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair,
};
use serde_json::{Value, json};
use tenure_host::{AuditLevel, AuditLog, Config, ControlPlane};

use crate::client::{Client, Shown, client, pair, signed};

const PODS: &str = "/api/v1/namespaces/default/pods";
const MASTERS: &str = "system:masters";

/// The description of an authority of that name.
fn authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

/// What is shown, the code that must come of it, and the user in the audit line.
fn attacks(pki: &Path) -> Vec<(&'static str, Option<Shown>, u16, Value)> {
    let read = |name: &str| fs::read_to_string(pki.join(name)).unwrap();
    // The server's own name and key: the attacker has stolen nothing less than the authority.
    let ours = Issuer::new(authority("tenure"), KeyPair::from_pem(&read("ca.key")).unwrap());
    let namesake = Issuer::new(authority("tenure"), KeyPair::generate().unwrap());
    let stranger = Issuer::new(authority("stranger"), KeyPair::generate().unwrap());
    let admin = client("kubernetes-admin", MASTERS);
    let mut expired = admin.clone();
    expired.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let mut early = admin.clone();
    early.not_before = rcgen::date_time_ymd(2999, 1, 1);
    early.not_after = rcgen::date_time_ymd(2999, 2, 1);
    let mut serving = admin.clone();
    serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let mut mail = admin.clone();
    mail.extended_key_usages = vec![ExtendedKeyUsagePurpose::EmailProtection];
    let alone = KeyPair::generate().unwrap();
    let alone = (
        vec![admin.self_signed(&alone).unwrap().der().clone()],
        alone.serialize_der().try_into().unwrap(),
    );
    // A user's own key signs for another user, and both certificates are shown.
    let user_key = KeyPair::generate().unwrap();
    let user = client("u", "devs");
    let user_certificate = user.signed_by(&user_key, &ours).unwrap().der().clone();
    let mut chained = signed(&admin, &Issuer::new(user, user_key));
    chained.0.push(user_certificate);
    let nobody = Value::Null;
    let anonymous = json!("system:anonymous");
    vec![
        ("honest", Some(signed(&admin, &ours)), 200, json!("kubernetes-admin")),
        ("without rights", Some(signed(&client("u", "devs"), &ours)), 403, json!("u")),
        ("no certificate", None, 403, anonymous.clone()),
        ("another authority", Some(signed(&admin, &stranger)), 401, nobody.clone()),
        ("an authority of the same name", Some(signed(&admin, &namesake)), 401, nobody.clone()),
        ("signed by itself", Some(alone), 401, nobody.clone()),
        ("expired", Some(signed(&expired, &ours)), 401, nobody.clone()),
        ("not yet valid", Some(signed(&early, &ours)), 401, nobody.clone()),
        ("for servers only", Some(signed(&serving, &ours)), 401, nobody.clone()),
        ("for mail only", Some(signed(&mail, &ours)), 401, nobody.clone()),
        (
            "the server's own",
            Some(pair(&read("server.crt"), &read("server.key"))),
            401,
            nobody.clone(),
        ),
        ("the authority's own", Some(pair(&read("ca.crt"), &read("ca.key"))), 401, nobody.clone()),
        ("signed by a user", Some(chained), 401, nobody),
        // As upstream: it is trusted and names nobody, so its groups count for nothing either.
        ("without a name", Some(signed(&client("", MASTERS), &ours)), 403, anonymous),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r24_certificates_that_prove_nothing_are_refused_and_written_down() {
    let dir = tempfile::tempdir().unwrap();
    let (data, log) = (dir.path().join("data"), dir.path().join("audit.log"));
    let audit =
        Some(AuditLog { file: Some(log.clone()), level: AuditLevel::Metadata, policy: None });
    let listen = ([127, 0, 0, 1], 0).into();
    let config = Config { listen, audit, ..Config::new(data.clone()) };
    let plane = ControlPlane::start(config).await.unwrap();
    let to = Client {
        address: plane.address(),
        authority_pem: fs::read_to_string(data.join("pki/ca.crt")).unwrap(),
    };
    let attacks = attacks(&data.join("pki"));
    let mut wanted = HashMap::new();
    for (what, shown, code, user) in attacks {
        let answer = to.send(shown, "GET", PODS, &[("audit-id", what)], "").await;
        assert_eq!(answer.code, code, "{what}: {}", answer.json);
        if code != 200 {
            let reason = if code == 401 { "Unauthorized" } else { "Forbidden" };
            assert_eq!(answer.json["reason"], reason, "{what}");
        }
        wanted.insert(what, (code, user));
    }
    plane.stop().await;
    let text = fs::read_to_string(&log).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), wanted.len(), "{text}");
    for line in &lines {
        let what = line["auditID"].as_str().unwrap();
        let (code, user) = wanted.remove(what).unwrap();
        assert_eq!(line["responseStatus"]["code"], code, "{what}");
        assert_eq!(line["user"]["username"], user, "{what}");
        assert_eq!(line["sourceIPs"], json!(["127.0.0.1"]), "{what}");
        if code == 401 {
            let why = "Unauthorized: the client certificate is not trusted";
            assert_eq!(line["responseStatus"]["message"], why, "{what}");
        }
    }
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
}
