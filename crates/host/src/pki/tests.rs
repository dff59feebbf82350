//! Certificates over the life of a folder.

use std::os::unix::fs::PermissionsExt;

use super::*;

pub(super) fn names() -> BTreeSet<String> {
    serving_names([127, 0, 0, 1].into(), [10, 0, 0, 1].into(), Some("Box-1.example"))
}

pub(super) fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

#[test]
fn names_cover_every_way_to_the_server() {
    let all: Vec<String> = names().into_iter().collect();
    let expected = [
        "10.0.0.1",
        "127.0.0.1",
        "::1",
        "box-1.example",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "localhost",
    ];
    assert_eq!(all, expected);
    let odd = serving_names([0, 0, 0, 0].into(), [10, 0, 0, 1].into(), Some("a b"));
    assert!(!odd.contains("0.0.0.0") && !odd.contains("a b"));
}

#[test]
fn a_certificate_bears_its_names_and_dates() {
    let pki = Pki::in_memory(&names(), now()).unwrap();
    let der = pki.serving.certificate().unwrap();
    let (_, serving) = X509Certificate::from_der(&der).unwrap();
    assert_eq!(names_of(&serving), names());
    assert_eq!(serving.validity().not_before.timestamp(), 1_800_000_000 - 3_600);
    assert_eq!(serving.validity().not_after.timestamp(), 1_800_000_000 + 365 * 86_400);
    let der = pki.admin.certificate().unwrap();
    let (_, admin) = X509Certificate::from_der(&der).unwrap();
    assert_eq!(common_name(admin.subject()), Some("kubernetes-admin"));
    let group = admin.subject().iter_organization().next().unwrap().as_str().unwrap();
    assert_eq!(group, "system:masters");
    assert_eq!(common_name(admin.issuer()), Some("tenure"));
}

#[test]
fn r131d_the_front_proxy_has_an_authority_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    for pki in [
        Pki::in_memory(&names(), now()).unwrap(),
        Pki::in_folder(dir.path(), &names(), now()).unwrap(),
    ] {
        let der = pki.front_proxy.certificate().unwrap();
        let (_, shown) = X509Certificate::from_der(&der).unwrap();
        assert_eq!(common_name(shown.subject()), Some("front-proxy-client"));
        assert_eq!(common_name(shown.issuer()), Some("front-proxy-ca"));
        let signed_by = |authority: &CertificateKeyPair| {
            let der = authority.certificate().unwrap();
            let (_, authority) = X509Certificate::from_der(&der).unwrap();
            shown.verify_signature(Some(authority.public_key())).is_ok()
        };
        assert!(signed_by(&pki.front_proxy_authority));
        // Otherwise whoever has a certificate of the cluster could speak for anybody, and the other way round.
        assert!(!signed_by(&pki.authority));
        assert!(!shown.is_ca());
    }
    let path = |file: &str| dir.path().join(file);
    let before = fs::read(path("front-proxy-client.crt")).unwrap();
    Pki::in_folder(dir.path(), &names(), now() + 350 * DAY).unwrap();
    assert_ne!(fs::read(path("front-proxy-client.crt")).unwrap(), before, "it would have expired");
    fs::write(path("front-proxy-ca.key"), "damaged").unwrap();
    assert!(matches!(Pki::in_folder(dir.path(), &names(), now()), Err(PkiError::Damaged { .. })));
}

#[test]
fn a_second_start_uses_the_same_certificates() {
    let dir = tempfile::tempdir().unwrap();
    let first = Pki::in_folder(dir.path(), &names(), now()).unwrap();
    let second = Pki::in_folder(dir.path(), &names(), now() + DAY).unwrap();
    assert_eq!(first.authority.certificate_pem, second.authority.certificate_pem);
    assert_eq!(first.serving.certificate_pem, second.serving.certificate_pem);
    assert_eq!(first.admin.certificate_pem, second.admin.certificate_pem);
    assert_eq!(first.service_account.0, second.service_account.0);
    let shown = |pki: &Pki| pki.front_proxy.certificate_pem.clone();
    assert_eq!(shown(&first), shown(&second));
    assert_eq!(
        first.front_proxy_authority.certificate_pem,
        second.front_proxy_authority.certificate_pem
    );
    for file in fs::read_dir(dir.path()).unwrap() {
        let mode = file.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn a_new_name_renews_the_serving_certificate_only() {
    let dir = tempfile::tempdir().unwrap();
    let first = Pki::in_folder(dir.path(), &names(), now()).unwrap();
    let mut more = names();
    more.insert("192.0.2.7".to_owned());
    let second = Pki::in_folder(dir.path(), &more, now()).unwrap();
    assert_ne!(first.serving.certificate_pem, second.serving.certificate_pem);
    assert_eq!(first.admin.certificate_pem, second.admin.certificate_pem);
    assert_eq!(first.authority.certificate_pem, second.authority.certificate_pem);
}

#[test]
fn certificates_are_renewed_before_they_expire() {
    let dir = tempfile::tempdir().unwrap();
    let first = Pki::in_folder(dir.path(), &names(), now()).unwrap();
    let later = Pki::in_folder(dir.path(), &names(), now() + 340 * DAY).unwrap();
    assert_ne!(first.serving.certificate_pem, later.serving.certificate_pem);
    assert_ne!(first.admin.certificate_pem, later.admin.certificate_pem);
    assert_eq!(first.authority.certificate_pem, later.authority.certificate_pem);
    let old = Pki::in_folder(dir.path(), &names(), now() + 3_640 * DAY).unwrap();
    assert_ne!(first.authority.certificate_pem, old.authority.certificate_pem);
}

#[test]
fn leaves_of_another_authority_are_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let first = Pki::in_folder(dir.path(), &names(), now()).unwrap();
    let other = new_authority(AUTHORITY_NAME, now()).unwrap();
    PkiFolder { path: dir.path() }.write_pair("ca", other).unwrap();
    let second = Pki::in_folder(dir.path(), &names(), now()).unwrap();
    assert_ne!(first.serving.certificate_pem, second.serving.certificate_pem);
    assert_ne!(first.admin.certificate_pem, second.admin.certificate_pem);
}

#[test]
fn damage_is_told_for_the_authority_and_mended_for_leaves() {
    let dir = tempfile::tempdir().unwrap();
    let first = Pki::in_folder(dir.path(), &names(), now()).unwrap();
    fs::write(dir.path().join("server.key"), "x").unwrap();
    fs::write(dir.path().join("admin.crt"), "").unwrap();
    let second = Pki::in_folder(dir.path(), &names(), now()).unwrap();
    assert_ne!(first.serving.certificate_pem, second.serving.certificate_pem);
    assert_ne!(first.admin.certificate_pem, second.admin.certificate_pem);
    fs::write(dir.path().join("ca.key"), "x").unwrap();
    let error = Pki::in_folder(dir.path(), &names(), now()).unwrap_err();
    assert!(matches!(error, PkiError::Damaged { .. }), "{error:?}");
}

#[test]
fn keys_are_not_printed() {
    let pki = Pki::in_memory(&names(), now()).unwrap();
    assert!(!format!("{pki:?}").contains("PRIVATE"));
}
