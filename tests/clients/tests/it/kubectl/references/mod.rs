//! Rules of spec/referential-authorization.md: referential authorization told with kubectl, step by step. After
//! every step a service account is asked about and asks with its own token, in every way one object can be read.

use std::io::{BufRead as _, BufReader};

use super::Kubectl;

const DEFINITIONS: &str = include_str!("definitions.yaml");
const DOCUMENTS: &str = include_str!("story.yaml");
const GATEWAY_API: &str =
    include_str!("../../../../../../crates/references/strategies/gateway-api.yaml");
const VOLUMES: &str = include_str!("../../../../../../crates/references/strategies/volumes.yaml");

/// Who reads what, of everything there is.
struct Story {
    kubectl: Kubectl,
    /// The service account in `shop`, and its token.
    account: &'static str,
    token: String,
    resource: &'static str,
    /// Every object that could be read, as `namespace/name`.
    all: &'static [&'static str],
}

/// What is done, and what may be read after it.
type Step = (&'static str, &'static [&'static str]);

impl Story {
    fn begin(
        account: &'static str,
        resource: &'static str,
        all: &'static [&'static str],
        namespaces: &[&str],
    ) -> Story {
        let kubectl = Kubectl::start();
        for namespace in namespaces {
            kubectl.ok(&["create", "namespace", namespace]);
        }
        kubectl.feed(&["apply", "--namespace=", "--filename", "-"], DEFINITIONS);
        kubectl.ok(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"]);
        kubectl.ok(&["create", "serviceaccount", account]);
        let token = kubectl.token(account);
        Story { kubectl, account, token, resource, all }
    }

    /// Applies the document of this title.
    fn apply(&self, title: &str) {
        let heading = format!("# {title}\n");
        let mut documents = DOCUMENTS.split("---\n");
        let document = documents.find(|text| text.starts_with(&heading)).expect(title);
        self.kubectl.feed(&["apply", "--namespace=", "--filename", "-"], document);
    }

    /// Applies one of the strategies that come with Tenure.
    fn strategy(&self, name: &str) {
        let line = format!("\n  name: {name}\n");
        let mut documents = GATEWAY_API.split("---\n").chain(VOLUMES.split("---\n"));
        let document = documents.find(|text| text.contains(&line)).expect(name);
        self.kubectl.feed(&["apply", "--filename", "-"], document);
    }

    /// Does what a step says: `apply TITLE`, `strategy NAME`, or anything kubectl does.
    fn act(&self, words: &str) {
        match words.split_once(' ') {
            Some(("apply", title)) => self.apply(title),
            Some(("strategy", name)) => self.strategy(name),
            _ => drop(self.kubectl.ok(&words.split(' ').collect::<Vec<_>>())),
        }
    }

    /// Does step by step and looks around after each; whatever a step has changed is looked at closely.
    fn tell(&self, steps: &[Step]) {
        let mut before: &[&str] = &[];
        for (words, readable) in steps {
            self.act(words);
            for object in self.all {
                let may = readable.contains(object);
                assert_eq!(self.can("get", object), may, "after `{words}`: get {object}");
                if may != before.contains(object) {
                    self.look_closely(object, may, words);
                }
            }
            before = readable;
        }
    }

    /// Every way to read one object, asked about and done.
    fn look_closely(&self, object: &str, may: bool, words: &str) {
        assert_eq!(self.can("list", object), may, "after `{words}`: list {object}");
        assert_eq!(self.can("watch", object), may, "after `{words}`: watch {object}");
        assert_eq!(self.gets(object), may, "after `{words}`: {object} by name");
        assert_eq!(self.lists(object), may, "after `{words}`: {object} by a list of one");
        assert_eq!(self.watches(object), may, "after `{words}`: {object} by a watch of one");
        assert!(!self.can("delete", object), "after `{words}`: delete {object}");
    }

    /// What `kubectl auth can-i` says about the account.
    fn can(&self, verb: &str, object: &str) -> bool {
        let (namespace, name) = object.split_once('/').unwrap();
        let what = format!("{}/{name}", self.resource);
        let who = format!("--as=system:serviceaccount:shop:{}", self.account);
        let arguments = ["auth", "can-i", verb, &what, &who, "--namespace", namespace];
        let output = self.kubectl.command(&arguments).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        match (said.lines().last().unwrap_or_default(), output.status.code()) {
            ("yes", Some(0)) => true,
            (no, Some(1)) if no.starts_with("no") => false,
            other => panic!("{arguments:?}: {other:?}"),
        }
    }

    /// Whether a command of the account succeeds and prints the object. It fails only with 403.
    fn reads(&self, arguments: &[&str]) -> bool {
        let output = self.kubectl.bearer_command(&self.token, arguments).output().unwrap();
        let (said, told) = (text(&output.stdout), text(&output.stderr));
        match output.status.code() {
            Some(0) => assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}"),
            _ => assert!(told.contains("(Forbidden)"), "{arguments:?}: {told}"),
        }
        output.status.success()
    }

    fn gets(&self, object: &str) -> bool {
        let (namespace, name) = object.split_once('/').unwrap();
        self.reads(&["get", self.resource, name, "--namespace", namespace, "--output", "name"])
    }

    fn lists(&self, object: &str) -> bool {
        let (namespace, name) = object.split_once('/').unwrap();
        let selector = format!("--field-selector=metadata.name={name}");
        let output = ["--namespace", namespace, "--output", "name"];
        self.reads(&[&["get", self.resource, &selector], &output[..]].concat())
    }

    /// Starts a watch of one object with the token of the account.
    fn watch(&self, object: &str, output: &str) -> std::process::Child {
        let (namespace, name) = object.split_once('/').unwrap();
        let selector = format!("--field-selector=metadata.name={name}");
        let more = ["--watch", "--namespace", namespace, "--output", output];
        let arguments = [&["get", self.resource, &selector], &more[..]].concat();
        self.kubectl.bearer_command(&self.token, &arguments).spawn().unwrap()
    }

    fn watches(&self, object: &str) -> bool {
        let mut child = self.watch(object, "name");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        // One that is refused has ended by itself.
        let _ = child.kill();
        let told = text(&child.wait_with_output().unwrap().stderr);
        assert!(!line.is_empty() || told.contains("(Forbidden)"), "{object}: {told}");
        !line.is_empty()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Gateways and the Secrets with their certificates.
fn certificates() -> Story {
    let all =
        &["prod/local", "prod/envoy-tls", "prod/unused", "prod-tls/acme-tls", "prod-tls/other"];
    let story = Story::begin("contour", "secrets", all, &["prod", "prod-tls", "stage"]);
    for object in all {
        let (namespace, name) = object.split_once('/').unwrap();
        let create = ["create", "secret", "generic", name, "--from-literal=k=v"];
        story.kubectl.ok(&[&create[..], &["--namespace", namespace]].concat());
    }
    story
}

const GATEWAY_STRATEGY: &str = "strategy gateways.gateway.networking.k8s.io";

#[test]
fn r50_r51_r55_r93_r96_r120_gateways_and_their_certificates() {
    let nothing: &[&str] = &[];
    let (local, both) = (&["prod/local"], &["prod/local", "prod-tls/acme-tls"]);
    let story = certificates();
    story.tell(&[
        // The handshake, half by half.
        ("apply gateway web", nothing),
        (GATEWAY_STRATEGY, nothing),
        ("apply contour", local),
        ("apply gateway of another class", local),
        ("apply grant to another namespace", local),
        ("apply grant", both),
        // Each part goes and comes back.
        ("apply grant of another name", local),
        ("apply grant", both),
        ("delete rg gateways --namespace=prod-tls", local),
        ("apply grant", both),
        ("apply gateway web with one listener", local),
        ("apply gateway web", both),
        ("patch gtw web --namespace=prod --type=merge --patch={\"spec\":{\"gatewayClassName\":\"envoy\"}}", nothing),
        ("apply gateway web", both),
        ("apply contour for two classes", &["prod/local", "prod/envoy-tls", "prod-tls/acme-tls"]),
        ("apply contour", both),
        ("delete refstrat gateways.gateway.networking.k8s.io", nothing),
        (GATEWAY_STRATEGY, both),
        ("delete crc contour", nothing),
        ("apply contour", both),
        ("delete gtw web --namespace=prod", nothing),
    ]);
}

#[test]
fn r91_r92_r123_whole_collections_stay_closed_and_an_open_watch_ends() {
    let story = certificates();
    story.tell(&[
        (GATEWAY_STRATEGY, &[]),
        ("apply contour", &[]),
        ("apply grant", &[]),
        ("apply gateway web", &["prod/local", "prod-tls/acme-tls"]),
    ]);
    for arguments in [
        &["get", "secrets", "--namespace=prod"][..],
        &["get", "secrets", "--all-namespaces"],
        &["get", "secrets", "--all-namespaces", "--field-selector=metadata.name=local"],
        &["get", "secrets", "--namespace=prod", "--selector=a=b"],
        &["get", "secrets", "--namespace=prod", "--watch"],
        &["delete", "secret", "local", "--namespace=prod"],
        &["annotate", "secret", "local", "a=b", "--namespace=prod"],
    ] {
        assert!(!story.reads(arguments), "{arguments:?}");
    }
    // What comes, by kind and name; or the code of an error.
    let output = r#"jsonpath={.kind} {.metadata.name}{.code}{"\n"}"#;
    let mut watch = story.watch("prod-tls/acme-tls", output);
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "Secret acme-tls");
    story.act("delete rg gateways --namespace=prod-tls");
    story.act("label secret acme-tls --namespace=prod-tls after=revocation");
    // It ends by itself, and the label never comes.
    assert_eq!(lines.collect::<Vec<_>>(), ["Status 403"]);
    watch.wait().unwrap();
}

#[test]
fn r50_r51_r96_routes_and_their_services() {
    let all = &["prod/shop", "prod/idle", "money/pay"];
    let story = Story::begin("router", "services", all, &["prod", "money"]);
    let (local, both) = (&["prod/shop"], &["prod/shop", "money/pay"]);
    story.tell(&[
        ("apply services", &[]),
        ("strategy httproutes.gateway.networking.k8s.io", &[]),
        ("apply router", &[]),
        ("apply route", local),
        ("apply grant of pay", both),
        ("delete rg routes --namespace=money", local),
        ("apply grant of pay", both),
        ("delete httproute shop --namespace=prod", &[]),
    ]);
}

#[test]
fn r50_r51_r74_r96_claims_and_the_snapshots_they_are_made_from() {
    let all = &["prod/monday", "prod/tuesday", "images/golden"];
    let resource = "volumesnapshots.snapshot.storage.k8s.io";
    let story = Story::begin("provisioner", resource, all, &["prod", "images"]);
    let (local, both) = (&["prod/monday"], &["prod/monday", "images/golden"]);
    story.tell(&[
        ("apply snapshots", &[]),
        ("strategy persistentvolumeclaims", &[]),
        ("apply provisioner", &[]),
        ("apply claim", local),
        ("apply claim of another class", local),
        ("apply claim from elsewhere", local),
        ("apply grant of golden", both),
        ("delete rg claims --namespace=images", local),
        ("apply grant of golden", both),
        ("delete pvc copied --namespace=prod", local),
        ("delete pvc restored --namespace=prod", &[]),
    ]);
}
