"""The official Python client against a running tenure: one function per thing that it does. What it
does with custom kinds and service accounts is in custom.py."""
import sys
import threading
import time
import traceback

from kubernetes import client, config, dynamic, watch

import custom
from answers import NAMESPACE, refused

LABELS = {"app": "web"}


def config_map(name, data=None, labels=None):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels=labels), data=data)


def deployment(name):
    container = client.V1Container(name="main", image="nginx")
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=LABELS), spec=client.V1PodSpec(containers=[container]))
    spec = client.V1DeploymentSpec(
        replicas=2, selector=client.V1LabelSelector(match_labels=LABELS), template=template)
    return client.V1Deployment(metadata=client.V1ObjectMeta(name=name), spec=spec)


def test_version_and_groups(core, apps):
    assert client.VersionApi().get_code().major == "1"
    groups = {group.name for group in client.ApisApi().get_api_versions().groups}
    assert {"apps", "batch", "rbac.authorization.k8s.io"} <= groups, groups


def test_create_and_read(core, apps):
    made = core.create_namespaced_config_map(NAMESPACE, config_map("read", {"k": "v"}))
    assert made.metadata.uid and made.metadata.resource_version
    got = core.read_namespaced_config_map("read", NAMESPACE)
    assert got.data == {"k": "v"} and got.metadata.uid == made.metadata.uid
    assert got.metadata.creation_timestamp.tzinfo is not None


def test_create_twice_is_a_conflict(core, apps):
    core.create_namespaced_config_map(NAMESPACE, config_map("twice"))
    error = refused(409, lambda: core.create_namespaced_config_map(NAMESPACE, config_map("twice")))
    assert '"reason":"AlreadyExists"' in error.body.replace(" ", "")


def test_missing_is_404(core, apps):
    refused(404, lambda: core.read_namespaced_config_map("missing", NAMESPACE))


def test_generated_names(core, apps):
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(generate_name="made-"))
    names = {core.create_namespaced_config_map(NAMESPACE, body).metadata.name for _ in range(5)}
    assert len(names) == 5 and all(name.startswith("made-") for name in names), names


def test_list_by_selector(core, apps):
    for number in range(4):
        core.create_namespaced_config_map(NAMESPACE, config_map(f"list-{number}", labels={"half": str(number % 2)}))
    found = core.list_namespaced_config_map(NAMESPACE, label_selector="half=1")
    assert [item.metadata.name for item in found.items] == ["list-1", "list-3"]
    one = core.list_namespaced_config_map(NAMESPACE, field_selector="metadata.name=list-2")
    assert len(one.items) == 1


def test_list_in_pages(core, apps):
    for number in range(7):
        core.create_namespaced_config_map(NAMESPACE, config_map(f"page-{number}", labels={"page": "yes"}))
    names, token = [], None
    while True:
        page = core.list_namespaced_config_map(NAMESPACE, label_selector="page=yes", limit=3, _continue=token)
        names += [item.metadata.name for item in page.items]
        token = page.metadata._continue
        if not token:
            break
    assert names == [f"page-{number}" for number in range(7)], names


def test_replace_with_an_old_version_is_a_conflict(core, apps):
    old = core.create_namespaced_config_map(NAMESPACE, config_map("replace", {"k": "1"}))
    new = core.replace_namespaced_config_map("replace", NAMESPACE, config_map("replace", {"k": "2"}))
    assert new.data == {"k": "2"} and new.metadata.resource_version != old.metadata.resource_version
    refused(409, lambda: core.replace_namespaced_config_map("replace", NAMESPACE, old))


def test_patch_in_three_types(core, apps):
    apps.create_namespaced_deployment(NAMESPACE, deployment("patch"))
    side = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "busybox"}]}}}}
    got = apps.patch_namespaced_deployment("patch", NAMESPACE, side)
    assert {c.name for c in got.spec.template.spec.containers} == {"main", "side"}
    operations = [{"op": "replace", "path": "/spec/replicas", "value": 5}]
    assert apps.patch_namespaced_deployment("patch", NAMESPACE, operations).spec.replicas == 5
    merged = client.ApiClient()
    merged.set_default_header("Content-Type", "application/merge-patch+json")
    got = client.AppsV1Api(merged).patch_namespaced_deployment("patch", NAMESPACE, {"spec": {"replicas": 1}})
    assert got.spec.replicas == 1


def test_status_is_apart(core, apps):
    apps.create_namespaced_deployment(NAMESPACE, deployment("status"))
    got = apps.patch_namespaced_deployment_status(
        "status", NAMESPACE, {"spec": {"replicas": 9}, "status": {"observedGeneration": 1, "replicas": 2}})
    assert got.status.replicas == 2 and got.spec.replicas == 2 and got.metadata.generation == 1


def test_scale(core, apps):
    apps.create_namespaced_deployment(NAMESPACE, deployment("scale"))
    scale = apps.read_namespaced_deployment_scale("scale", NAMESPACE)
    assert scale.spec.replicas == 2
    scale.spec.replicas = 6
    # A controller may write the status at any time, so the scale is not held to a revision.
    scale.metadata.resource_version = None
    apps.replace_namespaced_deployment_scale("scale", NAMESPACE, scale)
    got = apps.read_namespaced_deployment("scale", NAMESPACE)
    assert got.spec.replicas == 6 and got.metadata.generation == 2


def test_watch_sees_every_change(core, apps):
    since = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version

    def change():
        time.sleep(0.2)
        core.create_namespaced_config_map(NAMESPACE, config_map("watched", {"k": "1"}))
        core.patch_namespaced_config_map("watched", NAMESPACE, {"data": {"k": "2"}})
        core.delete_namespaced_config_map("watched", NAMESPACE)

    thread = threading.Thread(target=change)
    thread.start()
    seen, watcher = [], watch.Watch()
    for event in watcher.stream(core.list_namespaced_config_map, NAMESPACE, resource_version=since, timeout_seconds=20):
        seen.append((event["type"], event["object"].data))
        if event["type"] == "DELETED":
            watcher.stop()
    thread.join()
    assert seen == [("ADDED", {"k": "1"}), ("MODIFIED", {"k": "2"}), ("DELETED", {"k": "2"})], seen


def test_dry_run_keeps_nothing(core, apps):
    core.create_namespaced_config_map(NAMESPACE, config_map("dry"), dry_run="All")
    refused(404, lambda: core.read_namespaced_config_map("dry", NAMESPACE))


def test_invalid_is_422_with_a_cause(core, apps):
    wrong = deployment("invalid")
    wrong.spec.template.metadata.labels = {"app": "other"}
    error = refused(422, lambda: apps.create_namespaced_deployment(NAMESPACE, wrong))
    assert "spec.template.metadata.labels" in error.body, error.body


def test_secret_keeps_bytes(core, apps):
    body = client.V1Secret(metadata=client.V1ObjectMeta(name="secret"), string_data={"k": "open"})
    got = core.create_namespaced_secret(NAMESPACE, body)
    assert got.data == {"k": "b3Blbg=="} and got.string_data is None and got.type == "Opaque"


def test_delete_with_a_wrong_uid_is_a_conflict(core, apps):
    core.create_namespaced_config_map(NAMESPACE, config_map("uid"))
    wrong = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="0"))
    refused(409, lambda: core.delete_namespaced_config_map("uid", NAMESPACE, body=wrong))
    core.delete_namespaced_config_map("uid", NAMESPACE)
    refused(404, lambda: core.read_namespaced_config_map("uid", NAMESPACE))


def test_delete_collection(core, apps):
    for name in ("mass-1", "mass-2"):
        core.create_namespaced_config_map(NAMESPACE, config_map(name, labels={"mass": "yes"}))
    core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="mass=yes")
    assert not core.list_namespaced_config_map(NAMESPACE, label_selector="mass=yes").items
    assert core.list_namespaced_config_map(NAMESPACE).items


def test_dynamic_client(core, apps):
    found = dynamic.DynamicClient(client.ApiClient()).resources.get(api_version="batch/v1", kind="Job")
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "dynamic"}, "spec": {"template": template}}
    made = found.create(body=body, namespace=NAMESPACE)
    assert made.spec.backoffLimit == 6 and made.spec.completionMode == "NonIndexed"
    found.delete(name="dynamic", namespace=NAMESPACE, body={"propagationPolicy": "Background"})
    refused(404, lambda: found.get(name="dynamic", namespace=NAMESPACE))


def main():
    config.load_kube_config()
    core, apps = client.CoreV1Api(), client.AppsV1Api()
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))
    passed = failed = 0
    every = {**globals(), **vars(custom)}
    for name, test in [(n, t) for n, t in every.items() if n.startswith("test_")]:
        try:
            test(core, apps)
            passed += 1
        except Exception:
            failed += 1
            print(f"FAILED {name}\n{traceback.format_exc()}")
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
