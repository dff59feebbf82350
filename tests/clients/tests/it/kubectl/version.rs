//! What differs between the versions of kubectl that the suite knows. What every version does
//! the same is asserted in the other files.
//!
//! A flag that the old version lacks is not left out: it is tried, the refusal is asserted, and
//! the same request reaches the server by the way that this version has.

use std::sync::OnceLock;

use serde_json::Value;

use super::Kubectl;

/// A version of kubectl whose output the suite asserts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// 1.20, the package of Debian 12.
    Debian12,
    /// 1.32 and newer.
    Current,
}

/// A documented place: its kind, and the group and version the kind lives in.
pub(crate) struct Documented<'a> {
    pub(crate) kind: &'a str,
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
}

/// A resource whose status is written: how it is asked for and told, and where it lies.
pub(crate) struct Writable<'a> {
    pub(crate) resource: &'a str,
    pub(crate) shown: &'a str,
    pub(crate) path: &'a str,
}

impl Kubectl {
    /// Which version runs; kubectl is asked once.
    fn version(&self) -> Version {
        static VERSION: OnceLock<Version> = OnceLock::new();
        *VERSION.get_or_init(|| {
            let text = self.ok(&["version", "--client", "--output", "json"]);
            let value: Value = serde_json::from_str(&text).unwrap();
            let minor = value["clientVersion"]["minor"].as_str().unwrap();
            match minor.trim_end_matches(|letter: char| !letter.is_ascii_digit()).parse::<u32>() {
                Ok(20) => Version::Debian12,
                Ok(32..) => Version::Current,
                _ => panic!("kubectl 1.{minor}: the suite knows 1.20 and 1.32 and newer"),
            }
        })
    }

    /// Sets a label to the value it has.
    pub(crate) fn label_again(&self, object: &str, shown: &str, key: &str, value: &str) {
        let pair = format!("{key}={value}");
        if self.version() == Version::Debian12 {
            let said = self.fails(&["label", object, &pair]);
            let held = format!("'{key}' already has a value ({value}), and --overwrite is false");
            assert_eq!(said, format!("error: {held}\n"));
        } else {
            assert_eq!(self.ok(&["label", object, &pair]), format!("{shown} not labeled\n"));
        }
        let over = self.ok(&["label", object, &pair, "--overwrite"]);
        assert_eq!(over, format!("{shown} not labeled\n"));
    }

    /// Takes a label away.
    pub(crate) fn unlabel(&self, object: &str, shown: &str, key: &str) {
        let told = match self.version() {
            Version::Current => "unlabeled",
            Version::Debian12 => "labeled",
        };
        let said = self.ok(&["label", object, &format!("{key}-")]);
        assert_eq!(said, format!("{shown} {told}\n"));
    }

    /// Sends spec and status to the status of an object.
    pub(crate) fn write_status(&self, to: &Writable<'_>, name: &str, spec: &Value, status: &Value) {
        let patch = serde_json::json!({ "spec": spec, "status": status }).to_string();
        let arguments = ["patch", to.resource, name, "--subresource=status", "--type=merge"];
        let arguments = [&arguments[..], &["--patch", &patch]].concat();
        if self.version() == Version::Current {
            assert_eq!(self.ok(&arguments), format!("{}/{name} patched\n", to.shown));
            return;
        }
        assert!(self.fails(&arguments).contains("unknown flag: --subresource"));
        let text = self.ok(&["get", to.resource, name, "--output", "json"]);
        let mut object: Value = serde_json::from_str(&text).unwrap();
        for (part, values) in [("spec", spec), ("status", status)] {
            for (key, value) in values.as_object().unwrap() {
                object[part][key] = value.clone();
            }
        }
        let path = format!("{}/{name}/status", to.path);
        let arguments = ["replace", "--raw", &path, "--filename", "-"];
        let answer: Value =
            serde_json::from_str(&self.feed(&arguments, &object.to_string())).unwrap();
        assert_eq!(answer["metadata"]["name"], name);
    }

    /// Waits until a value at a path is this.
    pub(crate) fn wait_for_value(&self, object: &str, path: &str, value: &str) {
        let condition = format!("jsonpath={{{path}}}={value}");
        let arguments = ["wait", object, "--for", &condition, "--timeout", "10s"];
        if self.version() == Version::Current {
            assert_eq!(self.ok(&arguments), format!("{object} condition met\n"));
        } else {
            let said = self.fails(&arguments);
            assert_eq!(said, format!("error: unrecognized condition: \"{condition}\"\n"));
            assert_eq!(self.value(object, path), value);
        }
    }

    /// Tries to create a manifest that has an unknown field below `parent`, a path that begins
    /// with the kind. The old version checks against the server's OpenAPI document itself.
    pub(crate) fn refuses_unknown(&self, manifest: &str, parent: &str, field: &str) {
        let strict = ["create", "--validate=strict", "--filename", "-"];
        let (_, said) = self.feed_until(&strict, manifest, 1);
        if self.version() == Version::Current {
            let path = match parent.split_once('.') {
                Some((_, path)) => format!("{path}.{field}"),
                None => field.to_owned(),
            };
            assert!(said.contains(&format!("unknown field \"{path}\"")), "{said}");
            return;
        }
        assert!(said.contains("invalid argument \"strict\" for \"--validate\""), "{said}");
        for arguments in
            [&["create", "--validate=true", "--filename=-"][..], &["create", "--filename=-"][..]]
        {
            let (_, said) = self.feed_until(arguments, manifest, 1);
            let told = format!("ValidationError({parent}): unknown field \"{field}\" in ");
            assert!(said.contains(&told), "{said}");
        }
    }

    /// Creates a manifest whose unknown fields the server is to warn of; stdout and stderr.
    pub(crate) fn create_and_warn(&self, manifest: &str) -> (String, String) {
        // Without a check of its own, the old version names no mode, and the server warns.
        let flag = match self.version() {
            Version::Current => "--validate=warn",
            Version::Debian12 => "--validate=false",
        };
        self.feed_until(&["create", flag, "--filename", "-"], manifest, 0)
    }

    /// Creates a manifest whose unknown fields the server is to drop in silence, if this version
    /// can ask for that; whether it can.
    pub(crate) fn create_and_ignore(&self, manifest: &str) -> bool {
        let arguments = ["create", "--validate=ignore", "--filename", "-"];
        if self.version() == Version::Current {
            assert_eq!(self.feed_until(&arguments, manifest, 0).1, "");
            return true;
        }
        let (_, said) = self.feed_until(&arguments, manifest, 1);
        assert!(said.contains("invalid argument \"ignore\" for \"--validate\""), "{said}");
        false
    }

    /// Explains a path, checks the head and gives the rest.
    pub(crate) fn explained(&self, path: &str, place: &Documented<'_>) -> String {
        let text = self.ok(&["explain", path]);
        let Documented { kind, group, version } = place;
        let head = match (self.version(), *group) {
            (Version::Current, "") => format!("KIND:       {kind}\nVERSION:    {version}\n"),
            (Version::Current, _) => {
                format!("GROUP:      {group}\nKIND:       {kind}\nVERSION:    {version}\n")
            }
            (Version::Debian12, "") => format!("KIND:     {kind}\nVERSION:  {version}\n"),
            (Version::Debian12, _) => format!("KIND:     {kind}\nVERSION:  {group}/{version}\n"),
        };
        let rest = text.strip_prefix(&head);
        rest.unwrap_or_else(|| panic!("explain {path} does not begin with\n{head}\n{text}")).into()
    }

    /// The line in which `explain` names a field. The old version calls every structure `Object`.
    pub(crate) fn field_line(&self, field: &str, type_name: &str) -> String {
        let element = type_name.trim_start_matches("[]");
        let structure = element.starts_with(|letter: char| letter.is_ascii_uppercase());
        match (self.version(), structure) {
            (Version::Current, _) => format!("FIELD: {field} <{type_name}>"),
            (Version::Debian12, false) => format!("FIELD:    {field} <{type_name}>"),
            (Version::Debian12, true) => {
                format!("RESOURCE: {field} <{}>", type_name.replace(element, "Object"))
            }
        }
    }

    /// Checks what `api-resources --output wide` says after the kind: verbs, and categories.
    pub(crate) fn ends_with_verbs(&self, row: &str, verbs: &[&str], categories: &str) {
        let end = match self.version() {
            Version::Current => format!(" {} {categories}", verbs.join(",")),
            // There is no column of categories yet.
            Version::Debian12 => format!(" [{}]", verbs.join(" ")),
        };
        let row = row.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(row.ends_with(end.trim_end()), "`{row}` does not end with `{end}`");
    }

    /// Applies a status on the server. The old version has no way to send such a request, so that
    /// what it asserts is its own refusal, and the status is written as a whole.
    pub(crate) fn apply_status(
        &self,
        to: &Writable<'_>,
        name: &str,
        manifest: &str,
        status: &Value,
    ) {
        let arguments = ["apply", "--server-side", "--subresource=status", "--filename", "-"];
        if self.version() == Version::Current {
            let said = self.feed(&arguments, manifest);
            assert_eq!(said, format!("{}/{name} serverside-applied\n", to.shown));
        } else {
            assert!(self.fails(&arguments).contains("unknown flag: --subresource"));
            self.write_status(to, name, &serde_json::json!({}), status);
        }
    }

    /// Whether there is `kubectl events`; the old version says that it has none.
    pub(crate) fn tells_events(&self) -> bool {
        if self.version() == Version::Debian12 {
            assert!(self.fails(&["events"]).contains("unknown command"));
        }
        self.version() == Version::Current
    }

    /// Starts a Job of a CronJob by hand, if this version knows the CronJobs that are served; whether
    /// it does.
    pub(crate) fn starts_cron_job(&self, cron_job: &str, job: &str) -> bool {
        let from = format!("--from=cronjob/{cron_job}");
        let arguments = ["create", "job", job, &from];
        if self.version() == Version::Current {
            assert_eq!(self.ok(&arguments), format!("job.batch/{job} created\n"));
            return true;
        }
        self.fails(&arguments);
        false
    }

    /// A token of a service account.
    pub(crate) fn token(&self, account: &str) -> String {
        let arguments = ["create", "token", account];
        if self.version() == Version::Current {
            return self.ok(&arguments).trim_end().to_owned();
        }
        assert!(self.fails(&arguments).contains("unknown command"));
        let path = format!("/api/v1/namespaces/shop/serviceaccounts/{account}/token");
        let request = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest"}"#;
        let answer = self.feed(&["create", "--raw", &path, "--filename", "-"], request);
        let answer: Value = serde_json::from_str(&answer).unwrap();
        answer["status"]["token"].as_str().unwrap().to_owned()
    }

    /// Who the holder of a token is to the server, or the administrator.
    pub(crate) fn who_is(&self, token: Option<&str>) -> Value {
        let run = |arguments: &[&str]| match token {
            Some(token) => self.bearer_command(token, arguments),
            None => self.command(arguments),
        };
        let whoami = ["auth", "whoami", "--output", "json"];
        let child = run(&whoami).spawn().unwrap();
        let text = if self.version() == Version::Current {
            self.finish(child, &whoami, Some(0)).0
        } else {
            assert!(self.finish(child, &whoami, Some(1)).1.contains("unknown"));
            let file = self.file(
                "review.json",
                r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#,
            );
            let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
            let create = ["create", "--raw", path, "--filename", &file];
            self.finish(run(&create).spawn().unwrap(), &create, Some(0)).0
        };
        let answer: Value = serde_json::from_str(&text).unwrap();
        answer["status"]["userInfo"].clone()
    }
}
