//! Probes and hooks of containers (R110): when to ask, how often, and what counts as an answer.
//! What follows from an answer is decided elsewhere.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt as _};

use crate::events::{EventSubject, Events, Grade};
use crate::handler::{self, Dialer, HandlerOutcome, within};
use crate::runtime::ContainerRuntime;

/// What a probe is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    Startup,
    Liveness,
    Readiness,
}

impl Purpose {
    pub(crate) const ALL: [Purpose; 3] = [Purpose::Startup, Purpose::Liveness, Purpose::Readiness];

    pub(crate) const fn field(self) -> &'static str {
        match self {
            Purpose::Startup => "startupProbe",
            Purpose::Liveness => "livenessProbe",
            Purpose::Readiness => "readinessProbe",
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Purpose::Startup => "Startup",
            Purpose::Liveness => "Liveness",
            Purpose::Readiness => "Readiness",
        }
    }
}

/// The numbers of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Numbers {
    initial: Duration,
    timeout: Duration,
    period: Duration,
    success: i64,
    failure: i64,
}

impl Numbers {
    fn read(probe: &Object) -> Numbers {
        let number = |name: &str, usual: i64| {
            probe.int_at(&[name]).filter(|number| *number > 0).unwrap_or(usual)
        };
        let seconds =
            |name: &str, usual: i64| Duration::from_secs(number(name, usual).unsigned_abs());
        Numbers {
            initial: seconds("initialDelaySeconds", 0),
            timeout: seconds("timeoutSeconds", 1),
            period: seconds("periodSeconds", 10),
            success: number("successThreshold", 1),
            failure: number("failureThreshold", 3),
        }
    }
}

/// Who is asked.
#[derive(Clone)]
pub(crate) struct ProbeTarget {
    pub(crate) runtime: Arc<dyn ContainerRuntime>,
    pub(crate) events: Events,
    /// The container as events name it.
    pub(crate) subject: EventSubject,
    /// Its id in the runtime.
    pub(crate) id: String,
    /// The container of the pod.
    pub(crate) container: Arc<Object>,
    /// The address of the pod.
    pub(crate) address: Option<IpAddr>,
}

/// Asks for ever, and tells whenever enough answers agree; ends when `tell` says so.
pub(crate) async fn run(
    asked: ProbeTarget,
    purpose: Purpose,
    spread: Option<f64>,
    mut tell: impl FnMut(bool) -> bool + Send,
) {
    let Some(probe) = asked.container.map_at(&[purpose.field()]).cloned() else { return };
    let numbers = Numbers::read(&probe);
    // Only for containers that were there before the agent: they would all be asked at once.
    let delay = spread.map(|part| numbers.period.mul_f64(part)).unwrap_or_default();
    tokio::time::sleep(numbers.initial.max(delay)).await;
    let mut ticks = tokio::time::interval(numbers.period);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut well, mut badly) = (0, 0);
    loop {
        ticks.tick().await;
        let verdict = asked.once(&probe, numbers.timeout).await;
        let word = purpose.word();
        match &verdict {
            HandlerOutcome::Well => {}
            HandlerOutcome::Warning(why) => {
                let message = format!("{word} probe warning: {why}");
                asked.events.tell(&asked.subject, Grade::Warning, "ProbeWarning", message);
            }
            HandlerOutcome::Badly(why) => {
                let message = format!("{word} probe failed: {why}");
                asked.events.tell(&asked.subject, Grade::Warning, "Unhealthy", message);
            }
        }
        let success = !matches!(verdict, HandlerOutcome::Badly(_));
        (well, badly) = if success { (well + 1, 0) } else { (0, badly + 1) };
        let enough = if success { well >= numbers.success } else { badly >= numbers.failure };
        if enough && !tell(success) {
            return;
        }
    }
}

impl ProbeTarget {
    /// One question.
    async fn once(&self, probe: &Object, timeout: Duration) -> HandlerOutcome {
        if let Some(exec) = probe.map_at(&["exec"]) {
            return self.command(exec, timeout).await;
        }
        let Some(address) = self.address else {
            return HandlerOutcome::Badly("the pod has no address".to_owned());
        };
        let from = Dialer::of(&self.runtime);
        if let Some(action) = probe.map_at(&["httpGet"]) {
            return handler::get(&from, action, &self.container, address, timeout).await;
        }
        if let Some(action) = probe.map_at(&["tcpSocket"]) {
            let port = match handler::port(action.get("port"), &self.container) {
                Ok(port) => port,
                Err(why) => return HandlerOutcome::Badly(why),
            };
            let host = action.str_at(&["host"]).and_then(|host| host.parse().ok());
            let address = host.unwrap_or(address);
            let late = || handler::late_listening(address, port);
            let listens = handler::listens(&from, address, port);
            return within(timeout, listens, late).await;
        }
        if let Some(action) = probe.map_at(&["grpc"]) {
            let port = match handler::port(action.get("port"), &self.container) {
                Ok(port) => port,
                Err(why) => return HandlerOutcome::Badly(why),
            };
            let service = action.str_at(&["service"]).unwrap_or_default();
            let late = || handler::late_grpc(address, port, timeout);
            let asked = handler::grpc(&from, address, port, service);
            return within(timeout, asked, late).await;
        }
        HandlerOutcome::Badly("missing probe handler".to_owned())
    }

    async fn command(&self, exec: &Object, timeout: Duration) -> HandlerOutcome {
        let command: Vec<String> = exec
            .list_at(&["command"])
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        match self.runtime.run(&self.id, &command, timeout).await {
            Ok(ran) if ran.timed_out => {
                let words = command.join(" ");
                HandlerOutcome::Badly(format!(
                    "command timed out: {words:?} timed out after {}s",
                    timeout.as_secs()
                ))
            }
            Ok(ran) if ran.code == 0 => HandlerOutcome::Well,
            Ok(ran) => HandlerOutcome::Badly(String::from_utf8_lossy(&ran.output).into_owned()),
            Err(error) => HandlerOutcome::Badly(error.to_string()),
        }
    }

    /// Runs a hook to its end; an error says why it failed.
    pub(crate) async fn hook(&self, hook: &Object, limit: Duration) -> Result<(), String> {
        if let Some(sleep) = hook.map_at(&["sleep"]) {
            let seconds = sleep.int_at(&["seconds"]).unwrap_or_default().max(0).unsigned_abs();
            tokio::time::sleep(Duration::from_secs(seconds).min(limit)).await;
            return Ok(());
        }
        let verdict = if let Some(exec) = hook.map_at(&["exec"]) {
            self.command(exec, limit).await
        } else {
            self.once(hook, limit).await
        };
        match verdict {
            HandlerOutcome::Badly(why) => Err(why),
            HandlerOutcome::Well | HandlerOutcome::Warning(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.

    use serde_json::json;

    use super::*;

    #[test]
    fn r110_numbers_have_their_defaults() {
        let numbers = Numbers::read(&Object::new());
        assert_eq!(
            (numbers.initial.as_secs(), numbers.timeout.as_secs(), numbers.period.as_secs()),
            (0, 1, 10)
        );
        assert_eq!((numbers.success, numbers.failure), (1, 3));
        let own = json!({"periodSeconds": 2, "failureThreshold": 1, "initialDelaySeconds": 5});
        let own = Numbers::read(own.as_object().unwrap());
        assert_eq!((own.period.as_secs(), own.failure, own.initial.as_secs()), (2, 1, 5));
    }

    async fn get(action: &Value, container: &Object) -> HandlerOutcome {
        let limit = Duration::from_secs(1);
        let action = action.as_object().unwrap();
        handler::get(&Dialer::default(), action, container, [127, 0, 0, 1].into(), limit).await
    }

    #[tokio::test]
    async fn r110_what_went_wrong_is_told_with_what_was_asked_for() {
        // Bound and never accepted from, so that it is silent; another that is closed.
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let silent = (silent.local_addr().unwrap().port(), silent);
        let closed = {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            listener.local_addr().unwrap().port()
        };
        for (port, path, host, why) in [
            (
                closed,
                "/healthz",
                "",
                format!("dial tcp 127.0.0.1:{closed}: connect: connection refused"),
            ),
            (
                silent.0,
                "ready?a=b",
                "",
                "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
                    .to_owned(),
            ),
            (closed, "", "::1", format!("dial tcp [::1]:{closed}: connect: connection refused")),
        ] {
            let action = json!({"path": path, "port": port, "host": host});
            let verdict = get(&action, &Object::new()).await;
            let host = if host.is_empty() { "127.0.0.1" } else { "[::1]" };
            let path = path.trim_start_matches('/');
            let told = format!("Get \"http://{host}:{port}/{path}\": {why}");
            assert_eq!(verdict, HandlerOutcome::Badly(told));
        }
    }

    #[tokio::test]
    async fn r110_http_counts_by_its_status() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serve = async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let answer = hyper::service::service_fn(|request: http::Request<_>| async move {
                    let _: &hyper::body::Incoming = request.body();
                    let (code, to) = match request.uri().path() {
                        "/well" => (204, ""),
                        "/again" => (302, "/well"),
                        "/away" => (302, "http://192.0.2.1/x"),
                        _ => (500, ""),
                    };
                    http::Response::builder()
                        .status(code)
                        .header("location", to)
                        .body(http_body_util::Empty::<bytes::Bytes>::new())
                });
                let io = hyper_util::rt::TokioIo::new(stream);
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new().serve_connection(io, answer),
                );
            }
        };
        tokio::spawn(serve);
        let container = json!({"ports": [{"name": "web", "containerPort": port}]});
        let container = container.as_object().unwrap();
        for (path, well) in [("/well", true), ("/again", true), ("/bad", false)] {
            let action = json!({"path": path, "port": "web"});
            let verdict = get(&action, container).await;
            assert_eq!(verdict == HandlerOutcome::Well, well, "{path}: {verdict:?}");
        }
        let action = json!({"path": "/away", "port": port});
        let verdict = get(&action, container).await;
        assert!(matches!(verdict, HandlerOutcome::Warning(_)), "{verdict:?}");
        let from = Dialer::default();
        let here = [127, 0, 0, 1].into();
        assert_eq!(handler::listens(&from, here, port).await, HandlerOutcome::Well);
        assert!(matches!(handler::listens(&from, here, 1).await, HandlerOutcome::Badly(_)));
    }
}
