//! What `/metrics` of a running server and of its node says: every line is OpenMetrics, the names are those that
//! operators know (api-server R46), and the page that lists them is true.
//!
//! The page is made anew by `TENURE_WRITE_PAGE=1 cargo test -p tenure-client-tests --test it metrics`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tenure_client_tests::Server;
use tenure_client_tests::server::root;

const PAGE: &str = "docs/reference/metrics.md";
/// How long a node may take to be reached on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
const NODE: &str = "/api/v1/nodes/node-1/proxy/metrics";

/// A family as it was scraped.
#[derive(Debug, Default)]
struct Family {
    help: String,
    kind: String,
    labels: BTreeSet<String>,
    samples: BTreeSet<String>,
}

fn kubectl(server: &Server, words: &[&str]) -> (bool, String) {
    let output = Command::new(std::env::var_os("KUBECTL").unwrap_or("kubectl".into()))
        .args(words)
        .env("KUBECONFIG", server.kubeconfig())
        .env("HOME", server.folder())
        .output()
        .unwrap();
    let said = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.success(), String::from_utf8(said).unwrap())
}

/// Reads what was scraped; every line must be as OpenMetrics wants it.
fn families(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    let text = text.strip_suffix("# EOF\n").unwrap_or_else(|| panic!("no end in\n{text}"));
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let (word, rest) = rest.split_once(' ').unwrap();
            let (name, said) = rest.split_once(' ').unwrap();
            if word == "HELP" {
                assert!(!families.contains_key(name), "{name} comes twice");
                assert!(said.ends_with('.') && !said.ends_with(".."), "no sentence: {line}");
                current = name.to_owned();
                families
                    .insert(current.clone(), Family { help: said.to_owned(), ..Family::default() });
            }
            assert_eq!(name, current, "{line}");
            let family = families.get_mut(name).unwrap();
            match word {
                "HELP" => {}
                "TYPE" => {
                    assert!(["counter", "gauge", "histogram"].contains(&said), "{line}");
                    family.kind = said.to_owned();
                }
                "UNIT" => assert!(name.ends_with(&format!("_{said}")), "{line}"),
                _ => panic!("what is {line}"),
            }
            continue;
        }
        let family = families.get_mut(&current).unwrap_or_else(|| panic!("no family for {line}"));
        sample(line, &current, family);
    }
    families
}

/// Reads one value.
fn sample(line: &str, name: &str, family: &mut Family) {
    let at = line.find(['{', ' ']).unwrap();
    let suffix = line[..at].strip_prefix(name).unwrap_or_else(|| panic!("{line} within {name}"));
    let suffixes: &[&str] = match family.kind.as_str() {
        "counter" => &["_total"],
        "gauge" => &[""],
        "histogram" => &["_bucket", "_sum", "_count"],
        _ => panic!("{name} has no type"),
    };
    assert!(suffixes.contains(&suffix), "{line}");
    let mut rest = &line[at..];
    let mut labels = Vec::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            let (label, quoted) = rest.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
            let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            assert!(!label.is_empty() && label.chars().all(plain), "{label} in {line}");
            let end = closing_quote(quoted).unwrap_or_else(|| panic!("{line}"));
            assert!(!labels.contains(&label), "{label} twice in {line}");
            labels.push(label);
            rest = &quoted[end + 1..];
            match rest.strip_prefix(',') {
                Some(next) => rest = next,
                None => break,
            }
        }
        rest = rest.strip_prefix('}').unwrap_or_else(|| panic!("{line}"));
    }
    assert_eq!(suffix == "_bucket", labels.contains(&"le"), "{line}");
    let value: f64 = rest.trim_start().parse().unwrap_or_else(|_| panic!("no number in {line}"));
    assert!(family.kind == "gauge" || value >= 0.0, "{line}");
    let labels = labels.into_iter().filter(|label| *label != "le");
    family.labels.extend(labels.map(str::to_owned));
    let key = line.rsplit_once(' ').unwrap().0;
    assert!(family.samples.insert(key.to_owned()), "{key} comes twice");
}

/// Where a text in quotes ends.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, letter)| {
        let ends = letter == '"' && !escaped;
        escaped = letter == '\\' && !escaped;
        ends.then_some(at)
    })
}

fn table(families: &BTreeMap<String, Family>) -> String {
    let mut table = "| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n".to_owned();
    for (name, Family { help, kind, labels, .. }) in families {
        let end = if kind == "counter" { "_total" } else { "" };
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let labels = labels.join(", ");
        table += &format!("| `{name}{end}` | {kind} | {labels} | {help} |\n");
    }
    table
}

/// Does what makes metrics appear that are there only once something happened.
fn use_everything(server: &Server) {
    for file in ["controller", "shop", "consumer", "grant"] {
        let file = root().unwrap().join(format!("docs/examples/secret-access/{file}.yaml"));
        let (done, said) = kubectl(server, &["apply", "--filename", file.to_str().unwrap()]);
        assert!(done, "{said}");
    }
    // Somebody whom roles do not allow it: references are asked.
    let edge = "--as=system:serviceaccount:edge-system:edge";
    kubectl(server, &["get", "configmap", "nobodys", "--namespace=shop", edge]);
    let watch = "/api/v1/namespaces/shop/secrets?watch=1&timeoutSeconds=1";
    let (done, said) = kubectl(server, &["get", "--raw", watch]);
    assert!(done && said.contains("ADDED"), "{said}");
}

#[test]
fn r46_metrics_can_be_read_and_the_page_lists_each() {
    let folder = TempDir::new().unwrap();
    let audit = folder.path().join("audit.log");
    let flags = ["--ephemeral", "--nodes", "1", "--audit-log", audit.to_str().unwrap()];
    let server = Server::start(&flags).unwrap();
    use_everything(&server);
    let (done, text) = kubectl(&server, &["get", "--raw", "/metrics"]);
    assert!(done, "{text}");
    let of_server = families(&text);
    let begin = Instant::now();
    let text = loop {
        let (done, text) = kubectl(&server, &["get", "--raw", NODE]);
        if done {
            break text;
        }
        assert!(begin.elapsed() < LIMIT, "{text}");
        std::thread::sleep(Duration::from_millis(100));
    };
    let of_node = families(&text);
    for (families, names) in [
        (
            &of_server,
            &[
                "apiserver_longrunning_requests",
                "kubernetes_build_info",
                "kubernetes_feature_enabled",
                "process_cpu_seconds",
                "process_max_fds",
                "process_open_fds",
                "process_resident_memory_bytes",
                "process_start_time_seconds",
                "tenure_store_commit_duration_seconds",
                "workqueue_adds",
                "workqueue_queue_duration_seconds",
                "workqueue_retries",
                "workqueue_work_duration_seconds",
            ][..],
        ),
        (&of_node, &["kubelet_running_containers", "kubelet_running_pods", "process_open_fds"]),
    ] {
        for name in names {
            let family = families.get(*name).unwrap_or_else(|| panic!("no {name}"));
            assert!(!family.samples.is_empty(), "{name} has no value");
        }
    }
    let deployments = "workqueue_adds_total{name=\"deployment\"}";
    assert!(of_server["workqueue_adds"].samples.contains(deployments));
    check_page(&of_server, &of_node);
}

/// Compares the page with what was scraped.
fn check_page(of_server: &BTreeMap<String, Family>, of_node: &BTreeMap<String, Family>) {
    let path = root().unwrap().join(PAGE);
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once("| Metric |").unwrap();
    let (_, between) = rest.split_once("\n\n").unwrap();
    let (between, _) = between.split_once("| Metric |").unwrap();
    let expected = format!("{before}{}\n{between}{}", table(of_server), table(of_node));
    if std::env::var_os("TENURE_WRITE_PAGE").is_some() {
        return fs::write(&path, expected).unwrap();
    }
    let (listed, scraped): (BTreeSet<&str>, BTreeSet<&str>) =
        (page.lines().collect(), expected.lines().collect());
    let untold: Vec<_> = scraped.difference(&listed).collect();
    let untrue: Vec<_> = listed.difference(&scraped).collect();
    assert!(
        untold.is_empty() && untrue.is_empty(),
        "not on {PAGE}: {untold:#?}\nnot so: {untrue:#?}"
    );
    assert_eq!(page, expected);
}
