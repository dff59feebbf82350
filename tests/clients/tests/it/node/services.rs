//! Services on the default runtime. Rules of spec/laptop.md where pods have a network of their own, and of
//! spec/workload-controllers.md where they are in the machine's: what is published, what is reached, and what is
//! said of the rest.

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
fn es4a_ready_pods_in_the_machines_network_are_published_and_reached_through_their_service() {
    let house = House::open(On::Process, &["--pod-network", "host"]).unwrap();
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

/// Says its name over HTTP on port 80, as another pod does too.
const WHO: &str = "import http.server, os
class Who(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(os.environ['HOSTNAME'].encode() + b'\\n')
    def log_message(self, *rest): pass
http.server.ThreadingHTTPServer(('0.0.0.0', 80), Who).serve_forever()";

/// A client inside: what it reaches, by which name.
const CLIENT: &str = r#"
import os, socket, ssl, urllib.request
def get(url, **rest):
    try:
        return urllib.request.urlopen(url, timeout=5, **rest).read().decode().strip()
    except OSError as error:
        return 'not: ' + str(error)
print('names', len({get('http://web/') for _ in range(40)}))
print('long', get('http://web.shop.svc.cluster.local/').split('-')[0])
print('each', len(socket.getaddrinfo('each', 80, socket.AF_INET, socket.SOCK_STREAM)))
print('none', get('http://nobody.shop/'))
base = '/var/run/secrets/kubernetes.io/serviceaccount/'
context = ssl.create_default_context(cafile=base + 'ca.crt')
for host in [os.environ['KUBERNETES_SERVICE_HOST'], 'kubernetes.default.svc']:
    request = urllib.request.Request('https://' + host + '/version', headers={
        'Authorization': 'Bearer ' + open(base + 'token').read()})
    print('server', 'gitVersion' in get(request, context=context))
print('closed', get('http://' + os.environ['WEB_SERVICE_HOST'] + ':81/'))
for port in os.environ['MACHINE'].split():
    for host in ['127.0.0.1', os.environ['NODE'], '169.254.169.254']:
        print('machine', get('http://' + host + ':' + port + '/').startswith('not: '))
print('done', flush=True)
"#;

#[test]
fn n3_n12_n18_n20_n22_n25_a_web_server_a_service_and_a_client_inside() {
    let house = House::open(On::Process, &[]).unwrap();
    let labels = json!({"app": "web"});
    house.create(&json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [{
                    "name": "main", "image": "host", "command": ["/usr/bin/python3", "-c", WHO],
                    "readinessProbe": {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 1},
                }]},
            },
        },
    }));
    for (name, more) in
        [("web", json!({"type": "NodePort"})), ("each", json!({"clusterIP": "None"}))]
    {
        let mut spec = json!({"selector": labels, "ports": [{"port": 80}]});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        house.create(&json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec,
        }));
    }
    let ready = || house.kubectl.value("deployment/web", ".status.readyReplicas");
    house.until("both replicas have port 80 and are ready", ready, |ready| ready == "2");
    let machine = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let ports = format!("{} 22", machine.local_addr().unwrap().port());
    let node = json!({"fieldRef": {"fieldPath": "status.hostIP"}});
    house.create(&json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client"},
        "spec": {"restartPolicy": "Never", "containers": [{
            "name": "main", "image": "host", "command": ["/usr/bin/python3", "-c", CLIENT],
            "env": [{"name": "MACHINE", "value": ports}, {"name": "NODE", "valueFrom": node}],
        }]},
    }));
    let said = house.log_with("client", "done");
    for line in ["names 2", "long web", "each 2", "server True"] {
        assert!(said.lines().any(|said| said == line), "{line}: {said}");
    }
    assert!(!said.contains("server False") && !said.contains("machine False"), "{said}");
    assert!(said.contains("none not: ") && said.contains("closed not: "), "{said}");
    machine.set_nonblocking(true).unwrap();
    assert!(machine.accept().is_err(), "a pod reached the machine's loopback");
    // From the machine, by the port of the node.
    let port = house.kubectl.value("service/web", ".spec.ports[0].nodePort");
    let mut stream = std::net::TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    std::io::Write::write_all(&mut stream, b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
    assert!(answer.contains("web-"), "{answer}");
    assert!(events(&house, "NotServed").is_empty());
    // Without anybody ready, the kernel refuses at once.
    house.kubectl.ok(&["scale", "deployment/web", "--replicas", "0"]);
    let reach = || std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_err();
    house.until("nobody listens any more", reach, |refused| *refused);
}
