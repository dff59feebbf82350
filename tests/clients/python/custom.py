"""Custom kinds, server-side apply and service accounts through the official Python client."""
import json
import threading
import time

from kubernetes import client, dynamic, watch

from answers import NAMESPACE, refused

GROUP, VERSION, PLURAL = "harbour.example", "v1", "boats"
PLACE = (GROUP, VERSION, NAMESPACE, PLURAL)
DEFINITION = "boats.harbour.example"


def boat(name, **spec):
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Boat", "metadata": {"name": name}, "spec": spec}


def definition():
    integer = {"type": "integer"}
    schema = client.V1JSONSchemaProps(type="object", properties={
        "spec": client.V1JSONSchemaProps(
            type="object", required=["port"],
            x_kubernetes_validations=[client.V1ValidationRule(
                rule="self.crew <= 8", message="the crew must fit")],
            properties={
                "port": client.V1JSONSchemaProps(type="string", min_length=2),
                "crew": client.V1JSONSchemaProps(type="integer", default=1),
            }),
        "status": client.V1JSONSchemaProps(type="object", properties={"phase": {"type": "string"}, "aboard": integer}),
    })
    version = client.V1CustomResourceDefinitionVersion(
        name=VERSION, served=True, storage=True,
        schema=client.V1CustomResourceValidation(open_apiv3_schema=schema),
        subresources=client.V1CustomResourceSubresources(
            status={}, scale=client.V1CustomResourceSubresourceScale(
                spec_replicas_path=".spec.crew", status_replicas_path=".status.aboard")))
    return client.V1CustomResourceDefinition(
        metadata=client.V1ObjectMeta(name=DEFINITION),
        spec=client.V1CustomResourceDefinitionSpec(
            group=GROUP, scope="Namespaced", versions=[version],
            names=client.V1CustomResourceDefinitionNames(kind="Boat", plural=PLURAL, short_names=["bt"])))


def established(name):
    for _ in range(100):
        status = client.ApiextensionsV1Api().read_custom_resource_definition(name).status
        if any(c.type == "Established" and c.status == "True" for c in status.conditions or []):
            return
        time.sleep(0.1)
    raise AssertionError(f"{name} is never established")


def bearer(token):
    """A client that shows this token and no certificate."""
    mine = client.Configuration.get_default_copy()
    mine.cert_file = mine.key_file = None
    mine.api_key = {"authorization": f"Bearer {token}"}
    mine.api_key_prefix = {}
    return client.ApiClient(mine)


def account(core, name):
    core.create_namespaced_service_account(
        NAMESPACE, client.V1ServiceAccount(metadata=client.V1ObjectMeta(name=name)))
    body = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=3600))
    made = core.create_namespaced_service_account_token(name, NAMESPACE, body)
    return made.status.token


def allow(name, group, resource, verbs):
    rbac = client.RbacAuthorizationV1Api()
    rbac.create_namespaced_role(NAMESPACE, client.V1Role(
        metadata=client.V1ObjectMeta(name=name),
        rules=[client.V1PolicyRule(api_groups=[group], resources=[resource], verbs=verbs)]))
    rbac.create_namespaced_role_binding(NAMESPACE, client.V1RoleBinding(
        metadata=client.V1ObjectMeta(name=name),
        role_ref=client.V1RoleRef(api_group="rbac.authorization.k8s.io", kind="Role", name=name),
        subjects=[client.RbacV1Subject(kind="ServiceAccount", name=name, namespace=NAMESPACE)]))


def test_a_kind_is_defined(core, apps):
    made = client.ApiextensionsV1Api().create_custom_resource_definition(definition())
    assert made.spec.names.singular == "boat" and made.spec.names.list_kind == "BoatList"
    established(DEFINITION)
    groups = {group.name for group in client.ApisApi().get_api_versions().groups}
    assert GROUP in groups, groups
    found = client.CustomObjectsApi().get_api_resources(GROUP, VERSION)
    assert {r.name for r in found.resources} == {"boats", "boats/status", "boats/scale"}
    wrong = definition()
    wrong.metadata.name = "ships.harbour.example"
    error = refused(422, lambda: client.ApiextensionsV1Api().create_custom_resource_definition(wrong))
    assert json.loads(error.body)["details"]["causes"][0]["field"] == "metadata.name", error.body


def test_custom_objects_are_created_read_and_listed(core, apps):
    api = client.CustomObjectsApi()
    made = api.create_namespaced_custom_object(*PLACE, boat("anna", port="kiel"))
    assert made["spec"] == {"port": "kiel", "crew": 1} and made["metadata"]["generation"] == 1
    assert api.get_namespaced_custom_object(*PLACE, "anna") == made
    api.create_namespaced_custom_object(*PLACE, boat("berta", port="riga"))
    found = api.list_namespaced_custom_object(*PLACE)
    assert found["kind"] == "BoatList" and [b["metadata"]["name"] for b in found["items"]] == ["anna", "berta"]
    page = api.list_namespaced_custom_object(*PLACE, limit=1)
    assert len(page["items"]) == 1 and page["metadata"]["remainingItemCount"] == 1
    rest = api.list_namespaced_custom_object(*PLACE, limit=1, _continue=page["metadata"]["continue"])
    assert rest["items"][0]["metadata"]["name"] == "berta"
    assert len(api.list_cluster_custom_object(GROUP, VERSION, PLURAL)["items"]) == 2
    refused(409, lambda: api.create_namespaced_custom_object(*PLACE, boat("anna", port="kiel")))
    refused(404, lambda: api.get_namespaced_custom_object(*PLACE, "clara"))


def test_custom_objects_are_changed(core, apps):
    api = client.CustomObjectsApi()
    made = api.create_namespaced_custom_object(*PLACE, boat("changed", port="kiel", crew=2))
    got = api.patch_namespaced_custom_object(*PLACE, "changed", {"spec": {"port": "riga"}})
    assert got["spec"] == {"port": "riga", "crew": 2}
    operations = [{"op": "replace", "path": "/spec/crew", "value": 3}]
    got = api.patch_namespaced_custom_object(
        *PLACE, "changed", operations, _content_type="application/json-patch+json")
    assert got["spec"] == {"port": "riga", "crew": 3}
    refused(409, lambda: api.replace_namespaced_custom_object(*PLACE, "changed", made))
    got["spec"] = {"port": "oslo"}
    new = api.replace_namespaced_custom_object(*PLACE, "changed", got)
    assert new["spec"] == {"port": "oslo", "crew": 1} and new["metadata"]["generation"] == 4


def test_custom_status_and_scale(core, apps):
    api = client.CustomObjectsApi()
    api.create_namespaced_custom_object(*PLACE, boat("parts", port="kiel"))
    body = {"spec": {"port": "riga"}, "status": {"phase": "Afloat", "aboard": 1}}
    got = api.patch_namespaced_custom_object_status(*PLACE, "parts", body)
    assert got["status"]["phase"] == "Afloat" and got["spec"]["port"] == "kiel"
    assert api.get_namespaced_custom_object_status(*PLACE, "parts")["metadata"]["generation"] == 1
    scale = api.get_namespaced_custom_object_scale(*PLACE, "parts")
    assert scale["kind"] == "Scale" and scale["spec"]["replicas"] == 1 and scale["status"]["replicas"] == 1
    api.patch_namespaced_custom_object_scale(*PLACE, "parts", {"spec": {"replicas": 5}})
    assert api.get_namespaced_custom_object(*PLACE, "parts")["spec"]["crew"] == 5


def test_custom_objects_are_checked(core, apps):
    api = client.CustomObjectsApi()
    for spec, field, told in [
        ({"port": "kiel", "crew": 9}, "spec", "the crew must fit"),
        ({"port": "k"}, "spec.port", "2"),
        ({}, "spec.port", "Required"),
        ({"port": 7}, "spec.port", "string"),
    ]:
        error = refused(422, lambda: api.create_namespaced_custom_object(*PLACE, boat("wrong", **spec)))
        causes = json.loads(error.body)["details"]["causes"]
        assert any(c["field"] == field and told in c["message"] for c in causes), (spec, causes)
    unknown = boat("wrong", port="kiel", mast=2)
    error = refused(400, lambda: api.create_namespaced_custom_object(*PLACE, unknown, field_validation="Strict"))
    assert 'unknown field \\"spec.mast\\"' in error.body, error.body
    assert "mast" not in api.create_namespaced_custom_object(*PLACE, unknown, dry_run="All")["spec"]


def test_custom_objects_are_watched(core, apps):
    api = client.CustomObjectsApi()
    since = api.list_namespaced_custom_object(*PLACE)["metadata"]["resourceVersion"]

    def change():
        time.sleep(0.2)
        api.create_namespaced_custom_object(*PLACE, boat("watched", port="kiel"))
        api.patch_namespaced_custom_object(*PLACE, "watched", {"spec": {"port": "riga"}})
        api.delete_namespaced_custom_object(*PLACE, "watched")

    thread = threading.Thread(target=change)
    thread.start()
    seen, watcher = [], watch.Watch()
    for event in watcher.stream(
            api.list_namespaced_custom_object, *PLACE, resource_version=since, timeout_seconds=20):
        seen.append((event["type"], event["object"]["spec"]["port"]))
        if event["type"] == "DELETED":
            watcher.stop()
    thread.join()
    assert seen == [("ADDED", "kiel"), ("MODIFIED", "riga"), ("DELETED", "riga")], seen


def test_dynamic_server_side_apply(core, apps):
    found = dynamic.DynamicClient(client.ApiClient()).resources.get(api_version=f"{GROUP}/{VERSION}", kind="Boat")
    where = {"namespace": NAMESPACE, "name": "applied"}
    made = found.server_side_apply(body=boat("applied", port="kiel"), field_manager="one", **where)
    assert made.spec.port == "kiel"
    entry = made.metadata.managedFields[0]
    assert (entry.manager, entry.operation) == ("one", "Apply")
    other = boat("applied", port="riga")
    error = refused(409, lambda: found.server_side_apply(body=other, field_manager="two", **where))
    told = json.loads(error.body)
    assert told["message"] == 'Apply failed with 1 conflict: conflict with "one": .spec.port', told
    assert told["details"]["causes"][0]["field"] == ".spec.port"
    forced = found.server_side_apply(body=other, field_manager="two", force_conflicts=True, **where)
    assert forced.spec.port == "riga"
    # What is left out of the next configuration goes, back to its default.
    found.server_side_apply(body=boat("applied", port="riga", crew=4), field_manager="two", **where)
    assert found.server_side_apply(body=other, field_manager="two", **where).spec.crew == 1


def test_typed_server_side_apply(core, apps):
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "typed"}, "data": {"k": "1"}}
    kind = {"_content_type": "application/apply-patch+yaml"}
    made = core.patch_namespaced_config_map("typed", NAMESPACE, body, field_manager="one", **kind)
    assert made.data == {"k": "1"} and made.metadata.managed_fields[0].operation == "Apply"
    body["data"] = {"k": "2"}
    refused(409, lambda: core.patch_namespaced_config_map("typed", NAMESPACE, body, field_manager="two", **kind))
    got = core.patch_namespaced_config_map("typed", NAMESPACE, body, field_manager="two", force=True, **kind)
    assert got.data == {"k": "2"}
    refused(422, lambda: core.patch_namespaced_config_map("typed", NAMESPACE, body, **kind))


def test_a_service_account_reads_what_it_may(core, apps):
    mine = bearer(account(core, "robot"))
    api = client.CustomObjectsApi(mine)
    error = refused(403, lambda: api.list_namespaced_custom_object(*PLACE))
    assert f"system:serviceaccount:{NAMESPACE}:robot" in error.body, error.body
    allow("robot", GROUP, PLURAL, ["get", "list", "watch"])
    assert api.list_namespaced_custom_object(*PLACE)["items"]
    watcher = watch.Watch()
    for event in watcher.stream(api.list_namespaced_custom_object, *PLACE, timeout_seconds=20):
        assert event["type"] == "ADDED"
        watcher.stop()
    refused(403, lambda: api.delete_namespaced_custom_object(*PLACE, "anna"))
    refused(403, lambda: api.list_cluster_custom_object(GROUP, VERSION, PLURAL))
    refused(403, lambda: client.CoreV1Api(mine).list_namespaced_config_map(NAMESPACE))
    me = client.AuthenticationV1Api(mine).create_self_subject_review(client.V1SelfSubjectReview())
    assert me.status.user_info.username == f"system:serviceaccount:{NAMESPACE}:robot"
    review = client.V1SelfSubjectAccessReview(spec=client.V1SelfSubjectAccessReviewSpec(
        resource_attributes=client.V1ResourceAttributes(namespace=NAMESPACE, verb="get", group=GROUP, resource=PLURAL)))
    assert client.AuthorizationV1Api(mine).create_self_subject_access_review(review).status.allowed
    core.delete_namespaced_service_account("robot", NAMESPACE)
    refused(401, lambda: api.list_namespaced_custom_object(*PLACE))


def test_custom_objects_are_deleted_with_their_kind(core, apps):
    api = client.CustomObjectsApi()
    for name in ("mass-1", "mass-2"):
        body = boat(name, port="kiel")
        body["metadata"]["labels"] = {"mass": "yes"}
        api.create_namespaced_custom_object(*PLACE, body)
    api.delete_collection_namespaced_custom_object(*PLACE, label_selector="mass=yes")
    assert not api.list_namespaced_custom_object(*PLACE, label_selector="mass=yes")["items"]
    assert api.delete_namespaced_custom_object(*PLACE, "anna")["status"] == "Success"
    refused(404, lambda: api.get_namespaced_custom_object(*PLACE, "anna"))
    client.ApiextensionsV1Api().delete_custom_resource_definition(DEFINITION)
    for _ in range(100):
        try:
            client.ApiextensionsV1Api().read_custom_resource_definition(DEFINITION)
        except client.ApiException as error:
            assert error.status == 404
            break
        time.sleep(0.1)
    refused(404, lambda: api.list_namespaced_custom_object(*PLACE))
