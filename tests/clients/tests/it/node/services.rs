//! Services on the default runtime, whose pods are in the network of the machine: what is published, what is
//! reached, and what is said of the rest. Rules of spec/workload-controllers.md.

use serde_json::{Value, json};

use super::house::{House, On};

/// Serves `hello` at a free port of the pod's own address, and says which.
const SERVE: &str = "import http.server, os
class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b'hello from ' + self.path.encode())
    def log_message(self, *rest): pass
server = http.server.HTTPServer((os.environ['IP'], 8080), Hello)
print('up', flush=True)
server.serve_forever()";

fn events(house: &House, reason: &str) -> Vec<Value> {
    let selector = format!("reason={reason}");
    let all = house.kubectl.ok(&["get", "events", "--field-selector", &selector, "-o", "json"]);
    serde_json::from_str::<Value>(&all).unwrap()["items"].as_array().unwrap().clone()
}

#[test]
fn es4a_ready_pods_of_the_default_runtime_are_published_and_reached_through_their_service() {
    let house = House::open(On::Process, &[]).unwrap();
    house.create(&json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }));
    let ip = json!([{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]);
    house.create(&json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [{
                    "name": "main", "image": "host", "command": ["/usr/bin/python3", "-c", SERVE],
                    "env": ip,
                    "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 1},
                }]},
            },
        },
    }));
    let jsonpath = |kind: &str, selector: &str, path: &str| {
        let output = format!("jsonpath={path}");
        let arguments = ["get", kind, "--selector", selector, "--output", &output];
        let mut all: Vec<String> =
            house.kubectl.ok(&arguments).split_whitespace().map(str::to_owned).collect();
        all.sort();
        all
    };
    // A slice may have nothing in it yet, which is `null`.
    let slices = || {
        let label = "kubernetes.io/service-name=web";
        let list = house.kubectl.ok(&["get", "endpointslices", "--selector", label, "-o", "json"]);
        let list = serde_json::from_str::<Value>(&list).unwrap();
        let slices = list["items"].as_array().unwrap().iter();
        let endpoints = slices.filter_map(|slice| slice["endpoints"].as_array()).flatten();
        let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true);
        let first = |endpoint: &Value| endpoint["addresses"][0].as_str().unwrap().to_owned();
        let mut all: Vec<String> = ready.map(first).collect();
        all.sort();
        all
    };
    let shown = house.until("both pods are in a slice", slices, |all| all.len() == 2);
    let pods = jsonpath("pods", "app=web", "{range .items[*]}{.status.podIP} {end}");
    assert_eq!(shown, pods);
    let endpoints = || house.kubectl.value("endpoints/web", ".subsets[*].addresses[*].ip");
    house.until("the older object too", endpoints, |all| all.split_whitespace().count() == 2);
    let path = "/api/v1/namespaces/shop/services/web:80/proxy/page";
    let said = house.kubectl.ok(&["get", "--raw", path]);
    assert!(said.starts_with("hello from /page"), "{said}");
    // Each of them answers for itself: ReplicaSet should serve a basic image on each replica.
    for name in jsonpath("pods", "app=web", "{range .items[*]}{.metadata.name} {end}") {
        let path = format!("/api/v1/namespaces/shop/pods/{name}:8080/proxy/{name}");
        let said = house.kubectl.ok(&["get", "--raw", &path]);
        assert!(said.starts_with(&format!("hello from /{name}")), "{said}");
    }

    // Nobody serves the address of the Service, and that is said once, with what to do.
    let address = house.kubectl.value("service/web", ".spec.clusterIP");
    let told = house.until("it is told", || events(&house, "NotServed"), |all| !all.is_empty());
    assert_eq!((told.len(), &told[0]["involvedObject"]["name"]), (1, &json!("web")));
    let words = told[0]["message"].as_str().unwrap();
    for part in [&format!("the address {address} is not served"), "port-forward", "services/proxy"]
    {
        assert!(words.contains(part), "{words}");
    }
    assert!(events(&house, "FailedToUpdateEndpointSlices").is_empty());
}
