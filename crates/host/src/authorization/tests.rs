//! Rules of spec/api-server.md.

use std::fs;

use tenure_server::reference::ReferenceOptions;

use super::*;

const KUBECONFIG: &str = "\
apiVersion: v1
kind: Config
clusters:
- name: c
  cluster: {server: 'https://127.0.0.1:1/authorize'}
contexts:
- name: x
  context: {cluster: c, user: u}
users:
- name: u
  user: {token: secret}
current-context: x
";

const HEAD: &str =
    "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n";

/// A folder with a configuration and a kubeconfig.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        folder.write("kubeconfig", KUBECONFIG);
        folder.write("authz.yaml", &folder.webhook("NoOpinion"));
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn webhook(&self, policy: &str) -> String {
        format!(
            "{HEAD}- {{type: RBAC, name: rbac}}\n- type: Webhook\n  name: hook\n  webhook:\n    timeout: 1s\n    \
             subjectAccessReviewVersion: v1\n    failurePolicy: {policy}\n    connectionInfo:\n      \
             type: KubeConfigFile\n      kubeConfigFile: {}\n",
            self.path("kubeconfig").display()
        )
    }

    fn start(&self) -> Result<AuthorizationFollower, AuthorizationError> {
        let access = Arc::new(AuthorizerChain::new(ReferenceOptions::default()));
        let source = AuthorizationSource::File(self.path("authz.yaml"));
        configure(&source, &access).map(Option::unwrap)
    }

    /// Why a kubeconfig leads nowhere.
    fn refused(&self, kubeconfig: &str) -> String {
        self.write("kubeconfig", kubeconfig);
        self.start().err().expect(kubeconfig).to_string()
    }
}

/// How often a change was taken over.
fn denies(follower: &AuthorizationFollower) -> bool {
    follower.in_force.0.webhooks().next().unwrap().1.denies_on_failure
}

#[test]
fn r154a_a_changed_file_is_read_again_and_a_wrong_one_changes_nothing() {
    let folder = Folder::new();
    let mut follower = folder.start().unwrap();
    follower.look();
    assert!(!denies(&follower));
    folder.write("authz.yaml", &folder.webhook("Deny"));
    follower.look();
    assert!(denies(&follower));
    for wrong in [
        folder.webhook("Perhaps"),
        "{".to_owned(),
        String::new(),
        format!("{HEAD}- {{type: RBAC, name: rbac}}\n- {{type: Node, name: node}}\n"),
        format!("{HEAD}- {{type: AlwaysDeny, name: alwaysdeny}}\n"),
        folder.webhook("NoOpinion").replace("kubeConfigFile: /", "kubeConfigFile: /nowhere/"),
    ] {
        folder.write("authz.yaml", &wrong);
        follower.look();
        assert!(denies(&follower), "{wrong}");
    }
    fs::remove_file(folder.path("authz.yaml")).unwrap();
    follower.look();
    assert!(denies(&follower), "a file that is gone changes nothing");
    folder.write("authz.yaml", &folder.webhook("NoOpinion"));
    follower.look();
    assert!(!denies(&follower));
}

#[test]
fn r154a_what_a_webhook_needs_is_followed_as_well() {
    let folder = Folder::new();
    let mut follower = folder.start().unwrap();
    let authorization =
        |follower: &AuthorizationFollower| follower.in_force.1[0].authorization.clone();
    assert_eq!(authorization(&follower).unwrap(), "Bearer secret");
    folder.write("kubeconfig", &KUBECONFIG.replace("token: secret", "tokenFile: token"));
    follower.look();
    assert_eq!(authorization(&follower).unwrap(), "Bearer secret", "the file is not there yet");
    folder.write("token", "other\n");
    follower.look();
    assert_eq!(authorization(&follower).unwrap(), "Bearer other");
    folder.write("token", "third");
    follower.look();
    assert_eq!(authorization(&follower).unwrap(), "Bearer third");
}

#[test]
fn r154a_a_wrong_file_ends_the_start_and_names_its_field() {
    let folder = Folder::new();
    for (text, said) in [
        (
            format!("{HEAD}- {{type: RBAC, name: roles}}\n"),
            "authorizers[0].name: Invalid value: \"roles\"",
        ),
        (
            format!("{HEAD}- {{type: RBAC, name: rbac}}\n- {{type: RBAC, name: rbac}}\n"),
            "authorizers[1].type: Duplicate value",
        ),
        (
            folder.webhook("NoOpinion").replace("timeout: 1s", "timeout: 1"),
            "authorizers[1].webhook.timeout: Invalid value: 1",
        ),
        ("[".to_owned(), "cannot be read as YAML"),
        (format!("{HEAD}- {{type: RBAC, type: Node, name: rbac}}\n"), "cannot be read as YAML"),
        (String::new(), "is wrong"),
    ] {
        folder.write("authz.yaml", &text);
        let error = folder.start().err().expect(&text).to_string();
        assert!(error.contains(said) && error.contains("authz.yaml"), "{error}");
    }
    fs::remove_file(folder.path("authz.yaml")).unwrap();
    assert!(folder.start().is_err());
    fs::create_dir(folder.path("authz.yaml")).unwrap();
    assert!(folder.start().is_err(), "a folder is no file");
}

#[test]
fn r154a_a_kubeconfig_that_leads_nowhere_is_told() {
    let folder = Folder::new();
    for (from, to, said) in [
        ("current-context: x", "", "current-context: Required value"),
        ("current-context: x", "current-context: other", "contexts: there is no \"other\""),
        ("current-context: x", "current-context: [x]", "current-context: must be a string"),
        ("cluster: c, user", "cluster: d, user", "clusters: there is no \"d\""),
        ("user: u}", "user: v}", "users: there is no \"v\""),
        ("https://", "http://", "must begin with https://"),
        ("{token: secret}", "{exec: {command: rm}}", "users: exec: is not supported here"),
        ("{token: secret}", "{token: a, username: b}", "a token and a username exclude each other"),
        ("{token: secret}", "{client-certificate-data: eA==}", "need each other"),
        ("{token: secret}", "{client-key-data: '%'}", "client-key-data: is no base64"),
        ("authorize'}", "authorize', proxy-url: 'http://p'}", "proxies are not used"),
        ("authorize'}", "authorize', insecure-skip-tls-verify: 'yes'}", "must be true or false"),
        ("authorize'}", "authorize', certificate-authority: nowhere.pem}", "cannot be read"),
        ("authorize'}", "authorize', certificate-authority-data: eA==}", "cannot be called"),
    ] {
        let text = KUBECONFIG.replacen(from, to, 1);
        assert_ne!(text, KUBECONFIG, "{from}");
        let error = folder.refused(&text);
        assert!(error.contains(said), "{error} instead of {said}");
        assert!(!error.contains("secret"), "{error}");
    }
    for rubbish in ["", "[]", "{", "a: b: c", "x"] {
        folder.refused(rubbish);
    }
}

#[test]
fn r154a_flags_say_what_a_file_could_say() {
    let folder = Folder::new();
    let of = |modes: &[&str], webhook: Option<PathBuf>| {
        let modes = AuthorizationModes {
            modes: modes.iter().map(|mode| (*mode).to_owned()).collect(),
            webhook,
            version: "v1beta1".to_owned(),
            authorized_ttl: Duration::from_secs(5),
            unauthorized_ttl: Duration::ZERO,
        };
        of_modes(&modes, &mut FileReader::default())
    };
    let both = of(&["RBAC", "Webhook"], Some(folder.path("kubeconfig"))).ok().unwrap();
    let (place, webhook) = both.configuration.webhooks().next().unwrap();
    assert_eq!((place, webhook.version, webhook.denies_on_failure), (1, "v1beta1", false));
    assert_eq!(webhook.authorized_ttl, Some(Duration::from_secs(5)));
    assert_eq!(webhook.unauthorized_ttl, None);
    for (modes, said) in [
        (vec!["ABAC"], "authorizers[0].type: Unsupported value: \"ABAC\""),
        (vec!["RBAC", "RBAC"], "Duplicate value"),
        (vec!["Webhook"], "kubeConfigFile: Required value"),
    ] {
        let error = of(&modes, None).err().unwrap().to_string();
        assert!(error.contains(said), "{error}");
    }
}
