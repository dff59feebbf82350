//! One port of a pod as a plain connection, for the API server that speaks HTTP on it (`pods/proxy`).

use std::sync::Arc;

use http::header::UPGRADE;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;

use super::{Answered, NodeErrorResponse, Service, upgrade};

/// What the connection becomes: bytes, without frames.
const PROTOCOL: &str = "tcp";

/// Answers `/portProxy/{namespace}/{pod}/{port}`; the port is there before the connection is.
pub(super) async fn answer(
    service: Arc<Service>,
    mut request: Request<Incoming>,
    namespace: &str,
    pod: &str,
    port: &str,
) -> Answered {
    let pod = service.pod(namespace, pod)?;
    let port: u16 = port
        .parse()
        .map_err(|_| NodeErrorResponse::bad(format!("unable to parse {port:?} as a port")))?;
    if request.headers().get(UPGRADE).is_none_or(|asked| asked != PROTOCOL) {
        return Err(NodeErrorResponse::bad("Upgrade request required"));
    }
    let away = |why: String| NodeErrorResponse(StatusCode::BAD_GATEWAY, why);
    let sandbox = pod.sandbox.as_ref().ok_or_else(|| away("the pod does not run".to_owned()))?;
    let connected = service.runtime.connect(sandbox, port).await;
    let mut theirs = connected.map_err(|error| away(error.to_string()))?;
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let Ok(connection) = upgraded.await else { return };
        let mut ours = TokioIo::new(connection);
        if let Err(error) = tokio::io::copy_bidirectional(&mut ours, &mut theirs).await {
            tracing::debug!(%error, "a connection to a port ended early");
        }
    });
    Ok(upgrade::switching(PROTOCOL))
}
