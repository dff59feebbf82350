//! Bodies as kubectl 1.32 sends them for `kubectl create`, beside what it prints with `-o json`.

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4) | pair[1]).collect()
}

fn comes_to(of: &str, hex: &str, twin: &str) {
    let body = bytes(hex);
    let envelope = protobuf::envelope(&body).unwrap();
    let mut found = protobuf::decode(id(of), envelope.raw).unwrap();
    found.insert("apiVersion".to_owned(), envelope.api_version.into());
    found.insert("kind".to_owned(), envelope.kind.into());
    let mut expected = object(serde_json::from_str(twin).unwrap());
    for object in [&mut found, &mut expected] {
        decode(id(of), object).unwrap();
    }
    assert_eq!(Value::Object(found), Value::Object(expected));
}

#[test]
fn r22_kubectl_sends_a_config_map() {
    comes_to(
        "api.core.v1.ConfigMap",
        "6b3873000a0f0a0276311209436f6e6669674d6170121c0a120a02636d12001a0022002a003200380042
         0012060a01611201311a002200",
        r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"cm",
            "creationTimestamp":null},"data":{"a":"1"}}"#,
    );
}

#[test]
fn r22_kubectl_sends_a_secret() {
    comes_to(
        "api.core.v1.Secret",
        "6b3873000a0c0a027631120653656372657412210a110a017312001a0022002a00320038004200120a0a
         0161120568656c6c6f1a001a002200",
        r#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s","creationTimestamp":null},
            "data":{"a":"aGVsbG8="}}"#,
    );
}

#[test]
fn r22_kubectl_sends_a_deployment() {
    comes_to(
        "api.apps.v1.Deployment",
        "6b3873000a150a07617070732f7631120a4465706c6f796d656e7412b8010a1f0a0377656212001a0022
         002a003200380042005a0a0a0361707012037765621286010802120c0a0a0a0361707012037765621a6c
         0a1c0a0012001a0022002a003200380042005a0a0a036170701203776562124c122e0a056e67696e7812
         056e67696e782a00320a0a001000185022002a0042006a007200800100880100900100a201001a003200
         42004a0052005800600068008201008a01009a0100c2010022020a00280038001a0c0800100018002000
         280038001a002200",
        r#"{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"web",
            "creationTimestamp":null,"labels":{"app":"web"}},"spec":{"replicas":2,
            "selector":{"matchLabels":{"app":"web"}},
            "template":{"metadata":{"creationTimestamp":null,"labels":{"app":"web"}},
            "spec":{"containers":[{"name":"nginx","image":"nginx",
            "ports":[{"containerPort":80}],"resources":{}}]}},"strategy":{}},"status":{}}"#,
    );
}

#[test]
fn r22_kubectl_sends_a_job() {
    comes_to(
        "api.batch.v1.Job",
        "6b3873000a0f0a0862617463682f763112034a6f62127e0a110a016a12001a0022002a00320038004200
         125f325d0a100a0012001a0022002a00320038004200124912260a016a120762757379626f781a047472
         75652a0042006a007200800100880100900100a201001a054e65766572320042004a0052005800600068
         008201008a01009a0100c201001a082000280030003a001a002200",
        r#"{"kind":"Job","apiVersion":"batch/v1","metadata":{"name":"j",
            "creationTimestamp":null},"spec":{"template":{"metadata":{"creationTimestamp":null},
            "spec":{"containers":[{"name":"j","image":"busybox","command":["true"],
            "resources":{}}],"restartPolicy":"Never"}}},"status":{}}"#,
    );
}

#[test]
fn r22_kubectl_sends_a_cron_job() {
    comes_to(
        "api.batch.v1.CronJob",
        "6b3873000a130a0862617463682f7631120743726f6e4a6f6212a2010a120a02636a12001a0022002a00
         3200380042001289010a092a202a202a202a202a1a002a7a0a120a02636a12001a0022002a0032003800
         4200126432620a100a0012001a0022002a00320038004200124e12270a02636a120762757379626f781a
         04747275652a0042006a007200800100880100900100a201001a094f6e4661696c757265320042004a00
         52005800600068008201008a01009a0100c201001a001a002200",
        r#"{"kind":"CronJob","apiVersion":"batch/v1","metadata":{"name":"cj",
            "creationTimestamp":null},"spec":{"schedule":"* * * * *",
            "jobTemplate":{"metadata":{"name":"cj","creationTimestamp":null},
            "spec":{"template":{"metadata":{"creationTimestamp":null},
            "spec":{"containers":[{"name":"cj","image":"busybox","command":["true"],
            "resources":{}}],"restartPolicy":"OnFailure"}}}}},"status":{}}"#,
    );
}

#[test]
fn r22_kubectl_sends_a_pod_disruption_budget() {
    comes_to(
        "api.policy.v1.PodDisruptionBudget",
        "6b3873000a200a09706f6c6963792f76311213506f6444697372757074696f6e427564676574123a0a11
         0a017012001a0022002a0032003800420012190a09080110001a03353025120c0a0a0a03617070120377
         65621a0a080018002000280030001a002200",
        r#"{"kind":"PodDisruptionBudget","apiVersion":"policy/v1","metadata":{"name":"p",
            "creationTimestamp":null},"spec":{"minAvailable":"50%",
            "selector":{"matchLabels":{"app":"web"}}},"status":{"disruptionsAllowed":0,
            "currentHealthy":0,"desiredHealthy":0,"expectedPods":0}}"#,
    );
}

#[test]
fn r22_kubectl_sends_a_resource_quota() {
    comes_to(
        "api.core.v1.ResourceQuota",
        "6b3873000a130a027631120d5265736f7572636551756f746112340a110a017112001a0022002a003200
         38004200121d0a0a0a0363707512030a01310a0f0a066d656d6f727912050a033147691a001a002200",
        r#"{"kind":"ResourceQuota","apiVersion":"v1","metadata":{"name":"q",
            "creationTimestamp":null},"spec":{"hard":{"cpu":"1","memory":"1Gi"}},"status":{}}"#,
    );
}

#[test]
fn r22_kubectl_sends_a_service() {
    comes_to(
        "api.core.v1.Service",
        "6b3873000a0d0a02763112075365727669636512690a1f0a0373766312001a0022002a00320038004200
         5a0a0a03617070120373766312420a1b0a0738302d38303830120354435018502207080010903f1a0028
         00120a0a0361707012037376631a002209436c757374657249503a00420052005a00600068001a020a00
         1a002200",
        r#"{"kind":"Service","apiVersion":"v1","metadata":{"name":"svc",
            "creationTimestamp":null,"labels":{"app":"svc"}},"spec":{"ports":[{"name":"80-8080",
            "protocol":"TCP","port":80,"targetPort":8080}],"selector":{"app":"svc"},
            "type":"ClusterIP"},"status":{"loadBalancer":{}}}"#,
    );
}

#[test]
fn r22_kubectl_sends_a_ingress() {
    comes_to(
        "api.networking.v1.Ingress",
        "6b3873000a1f0a146e6574776f726b696e672e6b38732e696f2f76311207496e677265737312460a110a
         016912001a0022002a00320038004200122d1a2b0a09612e6578616d706c65121e0a1c0a1a0a012f120d
         220b0a0373766312040a0010501a065072656669781a020a001a002200",
        r#"{"kind":"Ingress","apiVersion":"networking.k8s.io/v1","metadata":{"name":"i",
            "creationTimestamp":null},"spec":{"rules":[{"host":"a.example",
            "http":{"paths":[{"path":"/","pathType":"Prefix","backend":{"service":{"name":"svc",
            "port":{"number":80}}}}]}}]},"status":{"loadBalancer":{}}}"#,
    );
}

#[test]
fn r22_kubectl_sends_a_namespace() {
    comes_to(
        "api.core.v1.Namespace",
        "6b3873000a0f0a02763112094e616d657370616365121a0a120a026e7312001a0022002a003200380042
         0012001a020a001a002200",
        r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"ns",
            "creationTimestamp":null},"spec":{},"status":{}}"#,
    );
}

#[test]
fn r22_kubectl_sends_a_service_account() {
    comes_to(
        "api.core.v1.ServiceAccount",
        "6b3873000a140a027631120e536572766963654163636f756e7412140a120a02736112001a0022002a00
         3200380042001a002200",
        r#"{"kind":"ServiceAccount","apiVersion":"v1","metadata":{"name":"sa",
            "creationTimestamp":null}}"#,
    );
}

#[test]
fn r22_kubectl_sends_a_token_request() {
    comes_to(
        "api.authentication.v1.TokenRequest",
        "6b3873000a280a1861757468656e7469636174696f6e2e6b38732e696f2f7631120c546f6b656e526571
         75657374121a0a100a0012001a0022002a0032003800420012001a040a0012001a002200",
        r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest",
            "metadata":{"creationTimestamp":null},"spec":{"audiences":null,
            "expirationSeconds":null,"boundObjectRef":null},"status":{"token":"",
            "expirationTimestamp":null}}"#,
    );
}
