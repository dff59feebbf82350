//! What comes of calls.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use tenure_https::{HttpsServer, HttpsSettings};
use tenure_outbound::{CallError, Direct, HttpsClient, SettingsError, TlsSettings, full};

const LIMIT: Duration = Duration::from_secs(20);
const BYTES_MAX: usize = 4096;

/// A server that answers by the path.
async fn serving(name: &str, protocols: &[&str]) -> HttpsServer {
    serving_as(HttpsSettings {
        names: vec![name.to_owned()],
        protocols: protocols.iter().map(|&name| name.to_owned()).collect(),
        ..HttpsSettings::default()
    })
    .await
}

async fn serving_as(settings: HttpsSettings) -> HttpsServer {
    HttpsServer::start(settings, |request| async move {
        let response = Response::builder();
        let answered = match request.uri().path() {
            "/version" => response.body(format!("{:?}", request.version()).into()),
            "/long" => response.body(vec![b'a'; 5000].into()),
            "/elsewhere" => {
                response.status(302).header("location", "/version").body(Bytes::default())
            }
            "/slow" => {
                tokio::time::sleep(Duration::from_secs(60)).await;
                response.body(Bytes::default())
            }
            _ => response.body(request.into_body()),
        };
        answered.unwrap()
    })
    .await
}

fn trusting(server: &HttpsServer) -> TlsSettings {
    TlsSettings { authorities: server.authority.clone().into_bytes(), ..TlsSettings::default() }
}

fn client(settings: TlsSettings) -> HttpsClient {
    HttpsClient::new(settings, Arc::new(Direct)).unwrap()
}

async fn call(
    client: &HttpsClient,
    server: &HttpsServer,
    path: &str,
    limit: Duration,
) -> Result<(StatusCode, Bytes), CallError> {
    let request = Request::post(server.url(path)).body(full("{}")).unwrap();
    client.call(request, limit, BYTES_MAX).await
}

#[tokio::test]
async fn a_body_goes_there_and_back_over_what_the_server_speaks() {
    for (offered, spoken) in [(&["h2", "http/1.1"][..], "HTTP/2.0"), (&[][..], "HTTP/1.1")] {
        let server = serving("127.0.0.1", offered).await;
        let client = client(trusting(&server));
        let (status, body) = call(&client, &server, "/version", LIMIT).await.unwrap();
        assert_eq!((status, &body[..]), (StatusCode::OK, spoken.as_bytes()));
        let (_, body) = call(&client, &server, "/echo", LIMIT).await.unwrap();
        assert_eq!(&body[..], b"{}");
        assert_eq!(server.connections(), 1, "connections are used again");
    }
}

#[tokio::test]
async fn a_server_proves_the_name_that_it_is_called_by_or_the_one_that_is_said() {
    let server = serving("hooks.ns.svc", &[]).await;
    let refused = call(&client(trusting(&server)), &server, "/", LIMIT).await.unwrap_err();
    assert!(refused.to_string().contains("certificate"), "{refused}");
    let named = TlsSettings { server_name: Some("hooks.ns.svc".into()), ..trusting(&server) };
    assert!(call(&client(named), &server, "/", LIMIT).await.is_ok());
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_refused_unless_any_will_do() {
    let server = serving("127.0.0.1", &[]).await;
    let other = serving("127.0.0.1", &[]).await;
    let refused = call(&client(trusting(&other)), &server, "/", LIMIT).await.unwrap_err();
    assert!(refused.to_string().contains("certificate"), "{refused}");
    let any = TlsSettings { unverified: true, ..TlsSettings::default() };
    assert!(call(&client(any), &server, "/", LIMIT).await.is_ok());
}

#[tokio::test]
async fn a_server_that_shows_the_very_certificate_that_is_given_is_trusted_by_its_name() {
    let by_name = |name: &str| HttpsSettings {
        names: vec![name.to_owned()],
        self_signed: true,
        ..HttpsSettings::default()
    };
    let server = serving_as(by_name("127.0.0.1")).await;
    assert!(call(&client(trusting(&server)), &server, "/", LIMIT).await.is_ok());
    let elsewhere = serving_as(by_name("hooks.ns.svc")).await;
    let refused = call(&client(trusting(&elsewhere)), &elsewhere, "/", LIMIT).await.unwrap_err();
    assert!(refused.to_string().contains("not valid for name"), "{refused}");
    // Another one that also signs for itself is none of those that are given.
    let refused = call(&client(trusting(&elsewhere)), &server, "/", LIMIT).await.unwrap_err();
    assert!(refused.to_string().contains("certificate"), "{refused}");
}

#[tokio::test]
async fn r163_a_certificate_that_is_listed_itself_is_believed_for_its_own_names() {
    // envtest writes the certificate of its webhooks into `caBundle`, not that of their authority.
    let server = serving("127.0.0.1", &["h2"]).await;
    let other = serving("127.0.0.1", &[]).await;
    let elsewhere = serving("hooks.ns.svc", &[]).await;
    let listing = |server: &HttpsServer| TlsSettings {
        authorities: server.certificate.clone().into_bytes(),
        ..TlsSettings::default()
    };
    assert!(call(&client(listing(&server)), &server, "/", LIMIT).await.is_ok());
    for (trusted, called) in [(&server, &other), (&other, &server), (&elsewhere, &elsewhere)] {
        let refused = call(&client(listing(trusted)), called, "/", LIMIT).await.unwrap_err();
        assert!(refused.to_string().contains("certificate"), "{refused}");
    }
}

#[tokio::test]
async fn calls_end_with_their_time_and_their_size_and_are_sent_nowhere_else() {
    let server = serving("127.0.0.1", &["h2"]).await;
    let client = client(trusting(&server));
    let short = Duration::from_millis(50);
    let late = call(&client, &server, "/slow", short).await.unwrap_err();
    assert!(matches!(late, CallError::Timeout { seconds: 1 }), "{late}");
    let long = call(&client, &server, "/long", LIMIT).await.unwrap_err();
    assert!(matches!(long, CallError::TooLarge { bytes_max: BYTES_MAX }), "{long}");
    let (status, _) = call(&client, &server, "/elsewhere", LIMIT).await.unwrap();
    assert_eq!(status, StatusCode::FOUND);
}

#[tokio::test]
async fn who_is_not_there_is_named() {
    let server = serving("127.0.0.1", &[]).await;
    let client = client(trusting(&server));
    let request = Request::post("https://127.0.0.1:1/").body(full("")).unwrap();
    let away = client.call(request, LIMIT, BYTES_MAX).await.unwrap_err().to_string();
    assert!(away.contains("127.0.0.1:1") && away.contains("refused"), "{away}");
}

#[test]
fn settings_that_cannot_be_used_are_refused() {
    let new = |settings| HttpsClient::new(settings, Arc::new(Direct)).map(|_| ()).unwrap_err();
    let wrong = TlsSettings { authorities: b"not PEM".to_vec(), ..TlsSettings::default() };
    assert!(matches!(new(wrong), SettingsError::Authorities(_)));
    let name =
        TlsSettings { server_name: Some("a b".into()), unverified: true, ..TlsSettings::default() };
    assert!(matches!(new(name), SettingsError::ServerName(_)));
}
