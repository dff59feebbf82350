//! Rules of spec/api-server.md: what users change with MutatingAdmissionPolicies (R161, R164a–R164c).

use serde_json::{Value, json};

use crate::house::*;

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings";
const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";

fn rule(groups: &[&str], resources: &[&str]) -> Value {
    json!({ "apiGroups": groups, "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
        "resources": resources })
}

/// A policy over ConfigMaps with these members of its spec.
fn policy(name: &str, spec: Value) -> Value {
    let mut whole = json!({
        "matchConstraints": { "resourceRules": [rule(&[""], &["configmaps"])] },
        "reinvocationPolicy": "Never",
    });
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({ "metadata": { "name": name }, "spec": whole })
}

fn apply(expression: &str) -> Value {
    json!({ "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": expression } })
}

fn patch(expression: &str) -> Value {
    json!({ "patchType": "JSONPatch", "jsonPatch": { "expression": expression } })
}

fn mutations(all: &[Value]) -> Value {
    json!({ "mutations": all })
}

fn over(groups: &[&str], resources: &[&str], all: &[Value]) -> Value {
    let mut spec = mutations(all);
    spec["matchConstraints"] = json!({ "resourceRules": [rule(groups, resources)] });
    spec
}

/// A policy with a binding of the same name that says nothing else.
async fn bound(house: &House, name: &str, spec: Value) {
    house.made(POLICIES, policy(name, spec)).await;
    let binding = json!({ "metadata": { "name": name }, "spec": { "policyName": name } });
    house.made(BINDINGS, binding).await;
}

fn map(name: &str, data: Value) -> Value {
    json!({ "metadata": { "name": name }, "data": data })
}

fn message(status: &Value) -> &str {
    status["message"].as_str().unwrap()
}

#[tokio::test]
async fn r164a_a_policy_in_force_changes_what_is_written_at_once() {
    let house = House::new().await;
    let change = apply(
        "Object{metadata: Object.metadata{annotations: {'mutated-by': 'admission-policy'}},
            spec: Object.spec{replicas: 1337}}",
    );
    house.made(POLICIES, policy("p", over(&["apps"], &["deployments"], &[change]))).await;
    let plain = house.made(DEPLOYMENTS, deployment("unbound")).await;
    assert_eq!(plain["spec"]["replicas"], 1);
    let binding = json!({ "metadata": { "name": "b" }, "spec": { "policyName": "p" } });
    let answer = house.post(BINDINGS, binding).await;
    assert!(answer.warnings().is_empty(), "{:?}", answer.warnings());
    answer.with(201);
    let made = house.made(DEPLOYMENTS, deployment("d")).await;
    assert_eq!(made["spec"]["replicas"], 1337);
    assert_eq!(made["metadata"]["annotations"]["mutated-by"], "admission-policy");
    // What a policy sets is nobody's field.
    let managers = made["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(managers.len(), 1);
    assert!(managers[0]["fieldsV1"].get("f:metadata").is_none(), "{managers:?}");
    // What is changed is looked at, too; what goes is not.
    let path = format!("{DEPLOYMENTS}/unbound");
    let changed = house.merge(&path, json!({ "spec": { "paused": true } })).await.with(200);
    assert_eq!(changed["spec"]["replicas"], 1337);
    house.delete(&path).await.with(200);
    house.delete(&format!("{BINDINGS}/b")).await.with(200);
    let free = house.made(DEPLOYMENTS, deployment("free")).await;
    assert_eq!(free["spec"]["replicas"], 1);
}

#[tokio::test]
async fn r164a_both_kinds_of_patches_and_several_in_their_order() {
    let house = House::new().await;
    bound(
        &house,
        "p",
        json!({
            "variables": [
                { "name": "count", "expression": "has(object.data) ? size(object.data) : 0" },
            ],
            "mutations": [
                apply("Object{data: {'first': string(variables.count)}}"),
                patch("[JSONPatch{op: 'add', path: '/data/second', value: string(variables.count)},
                        JSONPatch{op: 'copy', from: '/data/first', path: '/data/' + jsonpatch.escapeKey('a')},
                        JSONPatch{op: 'add', path: '/metadata/labels', value: {}},
                        JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('example.com/x'),
                            value: request.operation}]"),
                patch("[JSONPatch{op: 'test', path: '/data/first', value: 'something else'},
                        JSONPatch{op: 'remove', path: '/data'}]"),
                patch("[JSONPatch{op: 'test', path: '/data/first', value: '1'},
                        JSONPatch{op: 'remove', path: '/data/own'}]"),
            ],
        }),
    )
    .await;
    let made = house.made(CONFIG_MAPS, map("m", json!({ "own": "x" }))).await;
    // Each sees what the one before it left, its variables included.
    assert_eq!(made["data"], json!({ "first": "1", "second": "2", "a": "1" }));
    assert_eq!(made["metadata"]["labels"], json!({ "example.com/x": "CREATE" }));
}

#[tokio::test]
async fn r164a_an_apply_configuration_merges_as_the_type_says_and_is_defaulted() {
    let house = House::new().await;
    let change = apply(
        "Object{spec: Object.spec{
            initContainers: [Object.spec.initContainers{
                name: 'sidecar', image: 'mesh:1', restartPolicy: 'Always',
                ports: [Object.spec.initContainers.ports{containerPort: 15001}],
            }],
            containers: object.spec.containers.map(c, Object.spec.containers{
                name: c.name, env: [Object.spec.containers.env{name: 'ADDED', value: 'yes'}],
            }),
            ?activeDeadlineSeconds: optional.none(),
        }}",
    );
    bound(&house, "sidecar", over(&[""], &["pods"], &[change])).await;
    let env = json!([{ "name": "OWN", "value": "1" }]);
    let spec = json!({ "containers": [{ "name": "a", "image": "a:1", "env": env }, { "name": "b", "image": "b:1" }] });
    let made = house.made(PODS, json!({ "metadata": { "name": "p" }, "spec": spec })).await;
    let init = &made["spec"]["initContainers"][0];
    assert_eq!((&init["image"], &init["ports"][0]["protocol"]), (&json!("mesh:1"), &json!("TCP")));
    assert_eq!(init["terminationMessagePath"], "/dev/termination-log", "defaults are filled in");
    assert!(init["volumeMounts"].is_array(), "the cluster gives what is new its token: {init}");
    let envs: Vec<&Value> =
        made["spec"]["containers"].as_array().unwrap().iter().map(|c| &c["env"]).collect();
    assert_eq!(
        *envs[0],
        json!([{ "name": "OWN", "value": "1" }, { "name": "ADDED", "value": "yes" }])
    );
    assert_eq!(*envs[1], json!([{ "name": "ADDED", "value": "yes" }]));
    assert_eq!(made["spec"]["containers"][0]["image"], "a:1");
}

#[tokio::test]
async fn r164a_a_patch_that_does_not_fit_refuses_or_is_passed_over() {
    for (expression, wanted) in [
        (apply("Object{spec: Object.spec{replicasx: 1}}"),
            "error applying patch: failed to convert patch object to typed object: .spec.replicasx: field not declared in schema"),
        (apply("Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {'l': 'v'}}}}"),
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.selector"),
        (apply("Object{spec: Object.specx{replicas: 1}}"),
            "type mismatch: unexpected type name \"Object.specx\", expected \"Object.spec\", which matches field name path from root Object type"),
        (apply("Object{spec: Object.spec{replicas: 'many'}}"), "error applying patch: "),
        (apply("Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{
            containers: [Object.spec.template.spec.containers{image: 'x'}]}}}}"), "the element has no key"),
        (apply("Object{spec: Object.spec{replicas: object.nothing.there}}"), "no such key: nothing"),
        (patch("[JSONPatch{op: 'remove', path: '/spec/nothing'}]"), "JSON Patch: "),
        (patch("[JSONPatch{op: 'replace', path: '/spec/template/spec/containers/-', value: {'name': 'x'}}]"),
            "JSON Patch: "),
        (patch("[JSONPatch{op: 'frobnicate', path: '/spec'}]"), "JSON Patch: "),
    ] {
        let text = expression.to_string();
        for ignores in [false, true] {
            let house = House::new().await;
            let mut spec = over(&["apps"], &["deployments"], std::slice::from_ref(&expression));
            spec["failurePolicy"] = if ignores { "Ignore".into() } else { "Fail".into() };
            // What comes after a mutation that failed is made all the same.
            spec["mutations"].as_array_mut().unwrap().push(apply("Object{spec: Object.spec{paused: true}}"));
            bound(&house, "p", spec).await;
            let answer = house.post(DEPLOYMENTS, deployment("d")).await;
            if ignores {
                assert_eq!(answer.with(201)["spec"]["paused"], true, "{text}");
                continue;
            }
            let status = answer.fails(403, "Invalid");
            let told = message(&status);
            assert!(told.starts_with("policy 'p' with binding 'p' denied request: "), "{told}");
            assert!(told.contains(wanted), "{text}: {told}");
            assert_eq!(status["details"]["causes"], json!([{ "message": told }]));
            assert_eq!(status["details"]["kind"], "deployments");
        }
    }
}

#[tokio::test]
async fn r164a_a_json_patch_that_makes_no_object_of_the_kind_refuses_whatever_the_policy() {
    for (expression, wanted) in [
        (
            "[JSONPatch{op: 'add', path: '/spec/strange', value: 1}]",
            "unknown field \"spec.strange\"",
        ),
        ("[JSONPatch{op: 'replace', path: '/spec/replicas', value: 'many'}]", "spec.replicas"),
        (
            "[JSONPatch{op: 'replace', path: '/kind', value: 'Pod'}]",
            "may not change kind or apiVersion",
        ),
        ("[JSONPatch{op: 'remove', path: '/kind'}]", "may not change kind or apiVersion"),
    ] {
        let house = House::new().await;
        let mut spec = over(&["apps"], &["deployments"], &[patch(expression)]);
        spec["failurePolicy"] = "Ignore".into();
        bound(&house, "p", spec).await;
        let answer = house.post(DEPLOYMENTS, deployment("d")).await;
        let status = answer.fails(500, "InternalError");
        assert!(message(&status).contains(wanted), "{expression}: {status}");
    }
}

#[tokio::test]
async fn r164a_nobody_is_renamed_or_moved_or_given_a_uid() {
    let house = House::new().await;
    house.made(NAMESPACES, named("other")).await;
    let moved = apply("Object{metadata: Object.metadata{namespace: 'other'}}");
    bound(&house, "p", mutations(&[moved])).await;
    house.post(CONFIG_MAPS, named("m")).await.fails(400, "BadRequest");
    house.delete(POLICIES).await.with(200);
    house.config_map("m").await;
    let renamed = apply("Object{metadata: Object.metadata{name: 'else', uid: 'mine'}}");
    house.made(POLICIES, policy("p", mutations(&[renamed]))).await;
    let path = format!("{CONFIG_MAPS}/m");
    let status = house.merge(&path, json!({ "data": { "a": "b" } })).await.fails(422, "Invalid");
    assert!(status["details"]["causes"].to_string().contains("metadata.name"), "{status}");
    // Only what a POST makes may get another name; its uid is the server's.
    let made = house.config_map("n").await;
    assert_eq!(made["metadata"]["name"], "else");
    assert_ne!(made["metadata"]["uid"], "mine");
    let applied = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "o" } });
    let path = format!("{CONFIG_MAPS}/o?fieldManager=t");
    let answer = house.patch(&path, "application/apply-patch+yaml", applied).await;
    let status = answer.fails(400, "BadRequest");
    assert!(message(&status).contains("does not match the name on the URL"), "{status}");
}

#[tokio::test]
async fn r164a_what_is_wrong_with_an_object_after_a_policy_is_told_as_ever() {
    let house = House::new().await;
    let change = apply("Object{spec: Object.spec{replicas: -3}}");
    bound(&house, "p", over(&["apps"], &["deployments"], &[change])).await;
    let status = house.post(DEPLOYMENTS, deployment("d")).await.fails(422, "Invalid");
    assert_eq!(status["details"]["causes"][0]["field"], "spec.replicas");
}

#[tokio::test]
async fn r164a_what_expressions_see() {
    let house = House::new().await;
    let seen = [
        ("operation", "request.operation"),
        ("kind", "request.kind.kind + '/' + object.kind + '/' + object.apiVersion"),
        ("old", "string(oldObject == null ? 'none' : oldObject.data['own'])"),
        ("namespace", "namespaceObject.metadata.name"),
        ("user", "request.userInfo.username"),
        (
            "may",
            "string(authorizer.group('').resource('pods').namespace('default').check('get').allowed())",
        ),
        ("may-this", "string(authorizer.requestResource.check('update').allowed())"),
        ("variable", "string(variables.twice)"),
    ];
    let members: Vec<String> =
        seen.iter().map(|(name, text)| format!("'{name}': {text}")).collect();
    let mut spec = mutations(&[apply(&format!("Object{{data: {{{}}}}}", members.join(", ")))]);
    spec["variables"] = json!([
        { "name": "once", "expression": "object.data['own']" },
        { "name": "twice", "expression": "variables.once + variables.once" },
    ]);
    bound(&house, "p", spec).await;
    let made = house.made(CONFIG_MAPS, map("m", json!({ "own": "x" }))).await;
    let wanted = |operation: &str, old: &str, own: &str| {
        json!({ "operation": operation, "kind": "ConfigMap/ConfigMap/v1", "old": old, "namespace": "default",
            "user": "kubernetes-admin", "may": "true", "may-this": "true", "variable": own.repeat(2), "own": own })
    };
    assert_eq!(made["data"], wanted("CREATE", "none", "x"));
    let path = format!("{CONFIG_MAPS}/m");
    let changed = house.merge(&path, json!({ "data": { "own": "y" } })).await.with(200);
    assert_eq!(changed["data"], wanted("UPDATE", "x", "y"));
}

#[tokio::test]
async fn r164a_parameters_bindings_and_conditions_say_when_a_policy_acts() {
    let house = House::new().await;
    house
        .made(NAMESPACES, json!({ "metadata": { "name": "ours", "labels": { "ours": "yes" } } }))
        .await;
    for (name, value) in [("one", "1"), ("two", "2")] {
        let metadata = json!({ "name": name, "labels": { "param": "yes" } });
        house.made(SECRETS, json!({ "metadata": metadata, "stringData": { "v": value } })).await;
    }
    house
        .made(
            POLICIES,
            policy(
                "p",
                json!({
                    "paramKind": { "apiVersion": "v1", "kind": "Secret" },
                    "matchConditions": [{ "name": "not-exempt", "expression":
                        "!has(object.metadata.labels) || !('exempt' in object.metadata.labels)" }],
                    "mutations": [apply(
                        "Object{data: {params.metadata.name: (has(object.data) ? string(size(object.data)) : '0')}}"
                    )],
                }),
            ),
        )
        .await;
    let reference = json!({ "namespace": "default", "selector": { "matchLabels": { "param": "yes" } },
        "parameterNotFoundAction": "Deny" });
    let resources = json!({ "namespaceSelector": { "matchLabels": { "ours": "yes" } } });
    let spec = json!({ "policyName": "p", "paramRef": reference, "matchResources": resources });
    house.made(BINDINGS, json!({ "metadata": { "name": "b" }, "spec": spec })).await;
    let path = "/api/v1/namespaces/ours/configmaps";
    // Once for each parameter, each of what the one before it left.
    assert_eq!(house.made(path, named("a")).await["data"], json!({ "one": "0", "two": "1" }));
    assert!(house.config_map("elsewhere").await.get("data").is_none());
    let exempt = labelled("exempt", json!({ "exempt": "" }));
    assert!(house.made(path, exempt).await.get("data").is_none());
    // Parameters that are wanted and not there.
    for name in ["one", "two"] {
        house.delete(&format!("{SECRETS}/{name}")).await.with(200);
    }
    let status = house.post(path, named("c")).await.fails(403, "Forbidden");
    let why =
        "policy 'p' with binding 'b' denied request: failed to configure binding: no params found";
    assert!(message(&status).starts_with(why), "{status}");
}

#[tokio::test]
async fn r164a_a_condition_that_fails_follows_the_failure_policy() {
    for (failure, code) in [("Fail", 403), ("Ignore", 201)] {
        let house = House::new().await;
        let mut spec = mutations(&[apply("Object{data: {'a': 'b'}}")]);
        spec["failurePolicy"] = failure.into();
        spec["matchConditions"] =
            json!([{ "name": "x", "expression": "object.nothing.there == 1" }]);
        bound(&house, "p", spec).await;
        let answer = house.post(CONFIG_MAPS, named("m")).await;
        if code == 201 {
            assert!(answer.with(201).get("data").is_none());
        } else {
            let status = answer.fails(403, "Invalid");
            assert!(message(&status).contains("no such key: nothing"), "{status}");
        }
    }
}

/// Counts in the annotation `n` and leaves its own mark.
fn counting(mark: &str) -> Value {
    apply(&format!(
        "Object{{metadata: Object.metadata{{annotations: {{
            'n': string(int(object.metadata.annotations['n']) + 1), '{mark}': 'yes'}}}}}}"
    ))
}

fn counted(name: &str) -> Value {
    json!({ "metadata": { "name": name, "annotations": { "n": "0" } } })
}

#[tokio::test]
async fn r161_policies_are_asked_in_the_order_of_their_names_and_once_more_if_they_want() {
    let house = House::new().await;
    for (name, again) in [("c-third", "Never"), ("a-first", "IfNeeded"), ("b-second", "IfNeeded")] {
        let mut spec = mutations(&[counting(name)]);
        spec["reinvocationPolicy"] = again.into();
        bound(&house, name, spec).await;
    }
    let made = house.made(CONFIG_MAPS, counted("m")).await;
    // One, two, three; then the first two once more.
    assert_eq!(made["metadata"]["annotations"]["n"], "5");
    // Whoever changes something is asked again, were it alone, as upstream asks it.
    let house = House::new().await;
    let mut spec = mutations(&[counting("only")]);
    spec["reinvocationPolicy"] = "IfNeeded".into();
    bound(&house, "only", spec).await;
    assert_eq!(house.made(CONFIG_MAPS, counted("m")).await["metadata"]["annotations"]["n"], "2");
    // What changes nothing is no reason to ask again.
    let house = House::new().await;
    bound(&house, "still", mutations(&[apply("Object{data: {'a': 'b'}}")])).await;
    let made = house.made(CONFIG_MAPS, map("m", json!({ "a": "b" }))).await;
    assert_eq!(made["data"], json!({ "a": "b" }));
}

#[tokio::test]
async fn r161_each_parameter_is_asked_again_by_itself() {
    let house = House::new().await;
    for name in ["one", "two", "three"] {
        let metadata = json!({ "name": name, "labels": { "param": "yes" } });
        house.made(SECRETS, json!({ "metadata": metadata })).await;
    }
    let mut spec = mutations(&[counting("x")]);
    spec["paramKind"] = json!({ "apiVersion": "v1", "kind": "Secret" });
    spec["reinvocationPolicy"] = "IfNeeded".into();
    house.made(POLICIES, policy("p", spec)).await;
    let reference = json!({ "selector": { "matchLabels": { "param": "yes" } }, "parameterNotFoundAction": "Deny" });
    let spec = json!({ "policyName": "p", "paramRef": reference });
    house.made(BINDINGS, json!({ "metadata": { "name": "b" }, "spec": spec })).await;
    assert_eq!(house.made(CONFIG_MAPS, counted("m")).await["metadata"]["annotations"]["n"], "6");
}

#[tokio::test]
async fn r161_policies_come_after_the_cluster_and_the_cluster_settles_what_they_leave() {
    let house = House::new().await;
    let change = patch(
        "[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'seen': string(size(object.spec.tolerations))}},
          JSONPatch{op: 'replace', path: '/spec/tolerations', value: []}]",
    );
    bound(&house, "p", over(&[""], &["pods"], &[change])).await;
    let made = house.made(PODS, pod("p")).await;
    assert_eq!(made["metadata"]["annotations"]["seen"], "2", "built-in admission came before");
    assert_eq!(made["spec"]["tolerations"].as_array().unwrap().len(), 2, "and once more after");
}

#[tokio::test]
async fn r164a_an_expression_that_costs_too_much_refuses() {
    let house = House::new().await;
    let list = "[0,1,2,3,4,5,6,7,8,9]";
    let all: String = (0..7).map(|n| format!("{list}.all(x{n}, ")).collect();
    let costly = format!("Object{{data: {{'a': string({all}true{})}}}}", ")".repeat(7));
    bound(&house, "p", mutations(&[apply(&costly)])).await;
    let status = house.post(CONFIG_MAPS, named("m")).await.fails(403, "Invalid");
    assert!(
        message(&status).contains("operation cancelled: actual cost limit exceeded"),
        "{status}"
    );
    // One that takes longer than a request may wait is made elsewhere.
    let house = House::new().await;
    let all: String = (0..4).map(|n| format!("{list}.all(x{n}, ")).collect();
    let long = format!("Object{{data: {{'a': string({all}true{})}}}}", ")".repeat(4));
    bound(&house, "p", mutations(&[apply(&long)])).await;
    assert_eq!(house.config_map("m").await["data"], json!({ "a": "true" }));
}

#[tokio::test]
async fn r164a_what_a_patch_makes_has_bounds() {
    let house = House::new().await;
    let large = map("m", json!({ "a": "x".repeat(200 * 1024) }));
    // Each round doubles what the object holds.
    let doubling = "[JSONPatch{op: 'copy', from: '/data/a', path: '/data/b'}]";
    let growing = (0..12).fold(String::new(), |text, round| {
        let name =
            format!("JSONPatch{{op: 'add', path: '/data/x{round}', value: object.data['a']}}");
        if text.is_empty() { name } else { format!("{text}, {name}") }
    });
    bound(&house, "p", mutations(&[patch(doubling), patch(&format!("[{growing}]"))])).await;
    let answer = house.post(CONFIG_MAPS, large).await;
    assert!(matches!(answer.code, 413 | 422), "{}", answer.text());
    let made = house.made(CONFIG_MAPS, map("n", json!({ "a": "small" }))).await;
    assert_eq!(made["data"]["x11"], "small");
}

#[tokio::test]
async fn r164a_policies_and_webhooks_are_never_changed() {
    let house = House::new().await;
    let change = apply("Object{metadata: Object.metadata{annotations: {'touched': 'yes'}}}");
    let mut spec = mutations(&[change]);
    spec["matchConstraints"] = json!({ "resourceRules": [{ "apiGroups": ["*"], "apiVersions": ["*"],
        "operations": ["*"], "resources": ["*/*"] }] });
    bound(&house, "p", spec).await;
    let untouched = |object: Value| object["metadata"].get("annotations").is_none();
    let hooks = json!({ "metadata": { "name": "h" }, "webhooks": [] });
    assert!(untouched(house.made(HOOKS, hooks).await));
    let binding = json!({ "metadata": { "name": "b" }, "spec": { "policyName": "p" } });
    assert!(untouched(house.made(BINDINGS, binding).await));
    assert!(!untouched(house.config_map("m").await));
    let path = format!("{POLICIES}/p");
    assert!(untouched(
        house.merge(&path, json!({ "metadata": { "labels": { "a": "b" } } })).await.with(200)
    ));
    house.delete(&path).await.with(200);
}

#[tokio::test]
async fn r164a_custom_objects_are_changed_by_their_schema() {
    let house = House::new().await;
    let key = json!(["name"]);
    let item = json!({ "type": "object", "required": ["name"], "properties": {
        "name": { "type": "string" }, "size": { "type": "integer" } } });
    let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": {
        "size": { "type": "integer" }, "shape": { "type": "string", "default": "round" },
        "words": { "type": "array", "items": { "type": "string" } },
        "parts": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": key,
            "items": item } } } } });
    let definition = json!({ "metadata": { "name": "widgets.example.com" }, "spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": { "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" },
        "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }] } });
    house.made("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    let path = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = |name: &str, spec: Value| json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": name }, "spec": spec });
    let change =
        apply("Object{spec: Object.spec{size: 3, parts: [Object.spec.parts{name: 'b', size: 2}]}}");
    let strange = patch("[JSONPatch{op: 'add', path: '/spec/strange', value: true}]");
    bound(&house, "p", over(&["example.com"], &["widgets"], &[change, strange])).await;
    let parts = json!([{ "name": "a" }, { "name": "b", "size": 1 }]);
    let made = house.made(path, widget("w", json!({ "parts": parts }))).await;
    let wanted = json!([{ "name": "a" }, { "name": "b", "size": 2 }]);
    assert_eq!(made["spec"], json!({ "size": 3, "shape": "round", "parts": wanted }));
    house.delete(POLICIES).await.with(200);
    for (expression, why) in [
        ("Object{spec: Object.spec{strange: 1}}", ".spec.strange: field not declared in schema"),
        (
            "Object{spec: Object.spec{words: ['a']}}",
            "may not mutate atomic arrays, maps or structs: .spec.words",
        ),
    ] {
        house
            .made(POLICIES, policy("p", over(&["example.com"], &["widgets"], &[apply(expression)])))
            .await;
        let status = house.post(path, widget("x", json!({}))).await.fails(403, "Invalid");
        assert!(message(&status).contains(why), "{status}");
        house.delete(POLICIES).await.with(200);
    }
}

#[tokio::test]
async fn r164a_subresources_are_changed_in_the_form_they_have() {
    let house = House::new().await;
    house.made(DEPLOYMENTS, deployment("d")).await;
    let change = apply("Object{spec: Object.spec{replicas: object.spec.replicas + 1}}");
    bound(&house, "p", over(&["apps"], &["deployments/scale"], &[change])).await;
    let path = format!("{DEPLOYMENTS}/d/scale");
    let scale = house.merge(&path, json!({ "spec": { "replicas": 4 } })).await.with(200);
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(5)));
    let whole = house.get(&format!("{DEPLOYMENTS}/d")).await.with(200);
    assert_eq!((&whole["kind"], &whole["spec"]["replicas"]), (&json!("Deployment"), &json!(5)));
    assert!(whole["spec"]["template"]["spec"]["containers"].is_array());
    // Of a status only the status is taken.
    let change = apply(
        "Object{metadata: Object.metadata{labels: {'a': 'b'}}, spec: Object.spec{replicas: 9},
            status: Object.status{readyReplicas: 7}}",
    );
    bound(&house, "s", over(&["apps"], &["deployments/status"], &[change])).await;
    let path = format!("{DEPLOYMENTS}/d/status");
    let written = house.merge(&path, json!({ "status": { "replicas": 7 } })).await.with(200);
    assert_eq!(written["status"]["readyReplicas"], 7);
    assert_eq!(written["spec"]["replicas"], 5);
    // What is posted to an object has a type of its own.
    let change = patch("[JSONPatch{op: 'replace', path: '/target/name', value: 'elsewhere'}]");
    bound(&house, "b", over(&[""], &["pods/binding"], &[change])).await;
    house.made(PODS, pod("p")).await;
    let binding = json!({ "metadata": { "name": "p" }, "target": { "name": "n" } });
    house.made(&format!("{PODS}/p/binding"), binding).await;
    assert_eq!(house.get(&format!("{PODS}/p")).await.with(200)["spec"]["nodeName"], "elsewhere");
}

#[tokio::test]
async fn r164a_connections_are_looked_at_and_not_changed() {
    let house = House::new().await;
    house.bound(pod("p")).await;
    let mut spec =
        mutations(&[patch("[JSONPatch{op: 'replace', path: '/command', value: ['sh']}]")]);
    spec["matchConstraints"] = json!({ "resourceRules": [{ "apiGroups": [""], "apiVersions": ["v1"],
        "operations": ["CONNECT"], "resources": ["pods/exec"] }] });
    bound(&house, "p", spec).await;
    let answer = house.ask("POST", &format!("{PODS}/p/exec?command=ls"), &[], "").await;
    let status = answer.fails(500, "InternalError");
    assert!(message(&status).contains("may not change the options of a connection"), "{status}");
    house.delete(POLICIES).await.with(200);
    let mut spec = mutations(&[apply("Object{command: 'sh'}")]);
    spec["matchConstraints"] = json!({ "resourceRules": [{ "apiGroups": [""], "apiVersions": ["v1"],
        "operations": ["CONNECT"], "resources": ["pods/exec"] }] });
    house.made(POLICIES, policy("p", spec)).await;
    let answer = house.ask("POST", &format!("{PODS}/p/exec?command=ls"), &[], "").await;
    let status = answer.fails(403, "Invalid");
    assert!(message(&status).contains("no corresponding type"), "{status}");
}

#[tokio::test]
async fn r164a_the_same_objects_in_another_version_count_unless_exact() {
    let house = House::new().await;
    let path = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    let scaler = |name: &str| {
        json!({ "metadata": { "name": name }, "spec": { "maxReplicas": 3, "targetCPUUtilizationPercentage": 50,
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "d" } } })
    };
    let mut spec = over(
        &["autoscaling"],
        &["horizontalpodautoscalers"],
        &[apply(
            "Object{spec: Object.spec{maxReplicas: object.spec.metrics[0].resource.target.averageUtilization}}",
        )],
    );
    spec["matchConstraints"]["resourceRules"][0]["apiVersions"] = json!(["v2"]);
    bound(&house, "p", spec.clone()).await;
    let made = house.made(path, scaler("a")).await;
    assert_eq!(made["apiVersion"], "autoscaling/v1");
    assert_eq!(made["spec"]["maxReplicas"], 50, "it saw the version that it names");
    assert_eq!(made["spec"]["targetCPUUtilizationPercentage"], 50);
    spec["matchConstraints"]["matchPolicy"] = "Exact".into();
    house.delete(POLICIES).await.with(200);
    house.made(POLICIES, policy("p", spec)).await;
    assert_eq!(house.made(path, scaler("b")).await["spec"]["maxReplicas"], 3);
}

#[tokio::test]
async fn r164a_dry_runs_are_changed_as_well() {
    let house = House::new().await;
    bound(&house, "p", mutations(&[apply("Object{data: {'a': 'b'}}")])).await;
    let path = format!("{CONFIG_MAPS}?dryRun=All");
    let made = house.post(&path, named("m")).await.with(201);
    assert_eq!(made["data"], json!({ "a": "b" }));
    house.get(&format!("{CONFIG_MAPS}/m")).await.with(404);
}

#[tokio::test]
async fn r136g_expressions_of_mutations_are_compiled_where_they_stand() {
    let house = House::new().await;
    for (mutation, field, why) in [
        (apply("Object{"), "applyConfiguration", "compilation failed: "),
        (apply("'teapot'"), "applyConfiguration", "must evaluate to Object but got string"),
        (
            apply("Object.spec{}"),
            "applyConfiguration",
            "must evaluate to Object but got Object.spec",
        ),
        (apply("nothing.there"), "applyConfiguration", "undeclared reference to 'nothing'"),
        (patch("JSONPatch{}"), "jsonPatch", "must evaluate to list(JSONPatch) but got JSONPatch"),
        (patch("[]"), "jsonPatch", "must evaluate to list(JSONPatch) but got list(dyn)"),
        (patch("[Object{}]"), "jsonPatch", "must evaluate to list(JSONPatch) but got list(Object)"),
    ] {
        let refused = house.post(POLICIES, policy("p", mutations(&[mutation]))).await;
        let status = refused.fails(422, "Invalid");
        let cause = &status["details"]["causes"][0];
        assert_eq!(cause["field"], format!("spec.mutations[0].{field}.expression"));
        assert!(cause["message"].as_str().unwrap().contains(why), "{cause}");
    }
    // Only mutations know what patches are made of.
    let mut spec = mutations(&[apply("Object{}")]);
    spec["variables"] = json!([{ "name": "a", "expression": "Object{}" }]);
    let status = house.post(POLICIES, policy("p", spec)).await.fails(422, "Invalid");
    assert_eq!(status["details"]["causes"][0]["field"], "spec.variables[0].expression");
}

#[tokio::test]
async fn r255_mutating_policies_are_acted_on_and_not_warned_about() {
    let house = House::new().await;
    let answer = house.post(POLICIES, policy("p", mutations(&[apply("Object{}")]))).await;
    assert!(answer.warnings().is_empty(), "{:?}", answer.warnings());
    answer.with(201);
}
