//! Who decides who may do what, as the flags of kube-apiserver say it (api-server R154, R154a, R174). What modes and
//! files mean is the server's matter.

use std::path::PathBuf;
use std::time::Duration;

use tenure_host::{AuthorizationModes, AuthorizationSource};

use super::api_server::wrong;
use super::go_flags::{GivenFlag, last, list};
use crate::flags::time;
use crate::report::CommandError;

const CONFIG: &str = "authorization-config";
const MODE: &str = "authorization-mode";
const WEBHOOK: &str = "authorization-webhook-config-file";
const VERSION: &str = "authorization-webhook-version";
const AUTHORIZED_TTL: &str = "authorization-webhook-cache-authorized-ttl";
const UNAUTHORIZED_TTL: &str = "authorization-webhook-cache-unauthorized-ttl";
/// What upstream takes where nobody says anything.
const EVERYTHING: &str = "AlwaysAllow";

/// Who decides. Without a word everybody may do everything, as upstream.
pub(super) fn source(given: &[GivenFlag]) -> Result<AuthorizationSource, CommandError> {
    if let Some(file) = last(given, CONFIG).filter(|file| !file.is_empty()) {
        let others = [MODE, WEBHOOK, VERSION, AUTHORIZED_TTL, UNAUTHORIZED_TTL];
        if let Some(other) = others.iter().find(|name| last(given, name).is_some()) {
            return Err(wrong(CONFIG, &format!("it cannot stand beside `--{other}`")));
        }
        return Ok(AuthorizationSource::File(PathBuf::from(file)));
    }
    let mut modes: Vec<String> = list(given, MODE).map(str::to_owned).collect();
    if modes.is_empty() {
        modes.push(EVERYTHING.to_owned());
    }
    for (at, mode) in modes.iter().enumerate() {
        check(mode)?;
        if modes.iter().take(at).any(|before| before == mode) {
            return Err(wrong(MODE, &format!("{mode:?} stands there more than once")));
        }
    }
    let webhook = last(given, WEBHOOK).filter(|file| !file.is_empty()).map(PathBuf::from);
    match (webhook.is_some(), modes.iter().any(|mode| mode == "Webhook")) {
        (false, true) => return Err(wrong(MODE, &format!("Webhook needs `--{WEBHOOK}`"))),
        (true, false) => return Err(wrong(WEBHOOK, &format!("it needs `--{MODE}=Webhook`"))),
        _ => {}
    }
    Ok(AuthorizationSource::Modes(AuthorizationModes {
        modes,
        webhook,
        version: last(given, VERSION).unwrap_or("v1beta1").to_owned(),
        authorized_ttl: ttl(given, AUTHORIZED_TTL, Duration::from_secs(5 * 60))?,
        unauthorized_ttl: ttl(given, UNAUTHORIZED_TTL, Duration::from_secs(30))?,
    }))
}

fn check(mode: &str) -> Result<(), CommandError> {
    match mode {
        "AlwaysAllow" | "AlwaysDeny" | "Node" | "RBAC" | "Webhook" => Ok(()),
        "ABAC" => {
            let why = "the authorization mode \"ABAC\" is not there";
            Err(wrong(MODE, &why).hint("use `RBAC`"))
        }
        _ => Err(wrong(MODE, &format!("authorization-mode {mode:?} is not a valid mode"))),
    }
}

fn ttl(given: &[GivenFlag], name: &str, usual: Duration) -> Result<Duration, CommandError> {
    match last(given, name) {
        None => Ok(usual),
        Some(text) => time(text).map_err(|why| wrong(name, &why)),
    }
}

/// Whether flags let everybody do everything; then nobody may come without a credential, as upstream.
pub(super) fn allows_all(source: &AuthorizationSource) -> bool {
    match source {
        AuthorizationSource::Modes(modes) => modes.modes.iter().any(|mode| mode == EVERYTHING),
        AuthorizationSource::Usual | AuthorizationSource::File(_) => false,
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.

    use super::super::api_server_flags::TABLE;
    use super::*;

    fn read(words: &[&str]) -> Result<AuthorizationSource, String> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let given = TABLE.read(&words).map_err(|error| error.to_string())?;
        source(&given).map_err(|problem| problem.to_string())
    }

    #[test]
    fn r174_modes_are_asked_in_their_order_and_a_file_says_more() {
        let modes = |words: &[&str]| match read(words).unwrap() {
            AuthorizationSource::Modes(modes) => modes,
            other => panic!("{other:?}"),
        };
        assert_eq!(modes(&[]).modes, ["AlwaysAllow"]);
        let some = modes(&[
            "--authorization-mode=Node,RBAC,Webhook",
            "--authorization-webhook-config-file=/hook",
            "--authorization-webhook-version=v1",
            "--authorization-webhook-cache-authorized-ttl=0s",
        ]);
        assert_eq!(some.modes, ["Node", "RBAC", "Webhook"]);
        assert_eq!((some.webhook, &*some.version), (Some("/hook".into()), "v1"));
        assert_eq!(some.authorized_ttl, Duration::ZERO);
        assert_eq!(some.unauthorized_ttl, Duration::from_secs(30));
        let file = read(&["--authorization-config=/file"]).unwrap();
        assert_eq!(file, AuthorizationSource::File("/file".into()));
        assert!(allows_all(&read(&[]).unwrap()) && !allows_all(&file));
        assert!(!allows_all(&read(&["--authorization-mode=RBAC"]).unwrap()));
    }

    #[test]
    fn r174_modes_that_cannot_be_are_refused_with_a_reason() {
        for (words, why) in [
            (&["--authorization-mode=ABAC"][..], "\"ABAC\" is not there"),
            (&["--authorization-mode=rbac"], "\"rbac\" is not a valid mode"),
            (&["--authorization-mode=RBAC,RBAC"], "\"RBAC\" stands there more than once"),
            (&["--authorization-mode=Webhook"], "Webhook needs"),
            (&["--authorization-mode=RBAC", "--authorization-webhook-config-file=/x"], "it needs"),
            (&["--authorization-config=/x", "--authorization-mode=RBAC"], "cannot stand beside"),
            (
                &["--authorization-webhook-cache-authorized-ttl=soon"],
                "`--authorization-webhook-cache-authorized-ttl` cannot be acted on",
            ),
        ] {
            let told = read(words).unwrap_err();
            assert!(told.contains(why), "{words:?}: {told}");
        }
    }
}
