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

    /// Sends spec and status to the status of a Deployment.
    pub(crate) fn write_status(&self, name: &str, spec: &Value, status: &Value) {
        let patch = serde_json::json!({ "spec": spec, "status": status }).to_string();
        let arguments =
            ["patch", "deploy", name, "--subresource=status", "--type=merge", "--patch", &patch];
        if self.version() == Version::Current {
            assert_eq!(self.ok(&arguments), format!("deployment.apps/{name} patched\n"));
            return;
        }
        assert!(self.fails(&arguments).contains("unknown flag: --subresource"));
        let text = self.ok(&["get", "deploy", name, "--output", "json"]);
        let mut object: Value = serde_json::from_str(&text).unwrap();
        for (part, values) in [("spec", spec), ("status", status)] {
            for (key, value) in values.as_object().unwrap() {
                object[part][key] = value.clone();
            }
        }
        let path = format!("/apis/apps/v1/namespaces/shop/deployments/{name}/status");
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
            let told = format!("ValidationError({parent}): unknown field \"{field}\" in io.k8s.");
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
}
