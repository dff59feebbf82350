//! An API server that runs in a pod: Aggregator Should be able to support the 1.17 Sample API Server using the
//! current Aggregator. What is done with the APIService itself is in crates/server.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};

use super::house::{House, On};

const FISHES: &str = "/apis/fish.example/v1/namespaces/shop/fishes";

/// Serves one kind over HTTPS at the pod's own address, and keeps its objects in memory.
const SERVE: &str = r#"import http.server, json, os, ssl
KIND = {'name': 'fishes', 'singularName': 'fish', 'namespaced': True, 'kind': 'Fish',
    'verbs': ['create', 'delete', 'get', 'list']}
objects = {}
class Api(http.server.BaseHTTPRequestHandler):
    def say(self, code, body):
        body = json.dumps(body).encode()
        self.send_response(code)
        self.send_header('content-type', 'application/json')
        self.send_header('content-length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def own(self):
        path = self.path.split('?')[0].removeprefix('/apis/fish.example/v1').strip('/').split('/')
        return (path[3] if len(path) > 3 else '') if path[0] == 'namespaces' else None
    def do_GET(self):
        name = self.own()
        if name is None:
            at = self.path.split('?')[0].rstrip('/').endswith('/fish.example/v1')
            self.say(200 if at else 404, {'kind': 'APIResourceList', 'apiVersion': 'v1',
                'groupVersion': 'fish.example/v1', 'resources': [KIND]})
        elif name in objects:
            self.say(200, objects[name])
        elif name:
            self.say(404, {'kind': 'Status', 'apiVersion': 'v1', 'metadata': {}, 'status': 'Failure',
                'reason': 'NotFound', 'message': f'fishes.fish.example "{name}" not found', 'code': 404})
        else:
            self.say(200, {'kind': 'FishList', 'apiVersion': 'fish.example/v1',
                'metadata': {'resourceVersion': '1'}, 'items': list(objects.values())})
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers['content-length'])))
        body['metadata']['uid'] = body['metadata']['name']
        objects[body['metadata']['name']] = body
        self.say(201, body)
    def do_DELETE(self):
        objects.pop(self.own())
        self.say(200, {'kind': 'Status', 'apiVersion': 'v1', 'metadata': {}, 'status': 'Success'})
    def log_message(self, *rest): pass
server = http.server.ThreadingHTTPServer((os.environ['IP'], 8443), Api)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain('/tls/tls.crt', '/tls/tls.key')
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()"#;

/// An authority, and a certificate and key for the Service.
fn identity() -> [String; 3] {
    let (key, own) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    let params = CertificateParams::new(vec!["fish.shop.svc".to_owned()]).unwrap();
    let certificate = params.signed_by(&own, &issuer).unwrap().pem();
    [authority, certificate, own.serialize_pem()]
}

#[test]
fn r131a_an_api_server_in_a_pod_serves_its_group() {
    let house = House::open(On::Process, &[]).unwrap();
    let [authority, certificate, key] = identity();
    house.create(&json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "tls"},
        "type": "kubernetes.io/tls", "stringData": {"tls.crt": certificate, "tls.key": key},
    }));
    house.create(&json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "fish"},
        "spec": {"selector": {"app": "fish"}, "ports": [{"port": 443, "targetPort": 8443}]},
    }));
    let ip = json!([{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]);
    house.create(&json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "fish", "labels": {"app": "fish"}},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "main", "image": "host", "command": ["/usr/bin/python3", "-c", SERVE],
                "env": ip, "volumeMounts": [{"name": "tls", "mountPath": "/tls"}],
                "readinessProbe": {"tcpSocket": {"port": 8443}, "periodSeconds": 1},
            }],
            "volumes": [{"name": "tls", "secret": {"secretName": "tls"}}],
        },
    }));
    house.create(&json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1.fish.example", "labels": {"own": "yes"}},
        "spec": {
            "group": "fish.example", "version": "v1", "groupPriorityMinimum": 2000,
            "versionPriority": 200, "caBundle": STANDARD.encode(authority),
            "service": {"name": "fish", "namespace": "shop"},
        },
    }));
    let wait = ["wait", "apiservice/v1.fish.example", "--for=condition=Available", "--timeout=60s"];
    house.kubectl.ok(&wait);
    let kinds = || house.kubectl.ok(&["api-resources", "--api-group=fish.example", "--no-headers"]);
    house.until("its kind is listed", kinds, |said| said.contains("Fish"));

    let fish =
        json!({"apiVersion": "fish.example/v1", "kind": "Fish", "metadata": {"name": "anna"}});
    let create = ["create", "--validate=false", "--filename", "-"];
    assert_eq!(house.kubectl.feed(&create, &fish.to_string()), "fish.fish.example/anna created\n");
    assert_eq!(house.get("fishes.fish.example/anna")["metadata"]["uid"], "anna");
    let list =
        || -> Value { serde_json::from_str(&house.kubectl.ok(&["get", "--raw", FISHES])).unwrap() };
    assert_eq!(list()["items"].as_array().unwrap().len(), 1);
    house.kubectl.ok(&["delete", "--raw", &format!("{FISHES}/anna")]);
    assert_eq!(list()["items"], json!([]));

    // Without its APIService the group is not there.
    house.kubectl.ok(&["delete", "apiservices", "--selector", "own=yes"]);
    let look = || house.kubectl.command(&["get", "--raw", FISHES]).output().unwrap();
    house.until("the group is gone", look, |output| !output.status.success());
}
