// Custom kinds, server-side apply and service accounts through the official JavaScript client.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { config, core, k8s, namespace, refused, typed } from "./world.mjs";

const group = "harbour.example";
const version = "v1";
const plural = "boats";
const place = { group, version, namespace, plural };
const definitionName = "boats.harbour.example";
const custom = config.makeApiClient(k8s.CustomObjectsApi);
const extensions = config.makeApiClient(k8s.ApiextensionsV1Api);
const objects = k8s.KubernetesObjectApi.makeApiClient(config);

const boat = (name, spec) => ({
  apiVersion: `${group}/${version}`, kind: "Boat", metadata: { name, namespace }, spec,
});
const create = (name, spec) => custom.createNamespacedCustomObject({ ...place, body: boat(name, spec) });
const get = (name) => custom.getNamespacedCustomObject({ ...place, name });
const causes = (error) => JSON.parse(error.body).details.causes;
const apply = typed(k8s.PatchStrategy.ServerSideApply);

const definition = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: definitionName },
  spec: {
    group,
    scope: "Namespaced",
    names: { kind: "Boat", plural, shortNames: ["bt"] },
    versions: [{
      name: version,
      served: true,
      storage: true,
      subresources: {
        status: {},
        scale: { specReplicasPath: ".spec.crew", statusReplicasPath: ".status.aboard" },
      },
      schema: {
        openAPIV3Schema: {
          type: "object",
          properties: {
            spec: {
              type: "object",
              required: ["port"],
              x_kubernetes_validations: [{ rule: "self.crew <= 8", message: "the crew must fit" }],
              properties: {
                port: { type: "string", minLength: 2 },
                crew: { type: "integer", _default: 1 },
              },
            },
            status: {
              type: "object",
              properties: { phase: { type: "string" }, aboard: { type: "integer" } },
            },
          },
        },
      },
    }],
  },
};

// Follows a path until `last` says that enough was seen.
function watched(settings, path, since, last) {
  const seen = [];
  let controller;
  const done = new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error(`only ${JSON.stringify(seen)}`)), 20_000).unref();
    new k8s.Watch(settings)
      .watch(path, { resourceVersion: since }, (type, object) => {
        seen.push([type, object.metadata.name, object.spec?.port]);
        if (last(type, object)) resolve(seen);
      }, (error) => { if (error && error.name !== "AbortError") reject(error); })
      .then((request) => { controller = request; }, reject);
  });
  return done.finally(() => controller?.abort());
}

// Settings that show this token and no certificate.
function bearer(token) {
  const settings = new k8s.KubeConfig();
  settings.loadFromClusterAndUser(config.getCurrentCluster(), { name: "bearer", token });
  return settings;
}

const path = `/apis/${group}/${version}/namespaces/${namespace}/${plural}`;

export const tests = {
  async "a kind is defined"() {
    const made = await objects.create(definition);
    assert.equal(made.spec.names.singular, "boat");
    for (let turn = 0; ; turn += 1) {
      const { status } = await extensions.readCustomResourceDefinition({ name: definitionName });
      if (status?.conditions?.some(({ type, status }) => type === "Established" && status === "True")) break;
      assert.ok(turn < 100, JSON.stringify(status));
      await sleep(100);
    }
    const found = await custom.getAPIResources({ group, version });
    assert.deepEqual(found.resources.map(({ name }) => name).sort(), ["boats", "boats/scale", "boats/status"]);
    const wrong = { ...definition, metadata: { name: "ships.harbour.example" } };
    assert.equal(causes(await refused(422, objects.create(wrong)))[0].field, "metadata.name");
  },
  async "custom objects are created, read and listed"() {
    const made = await create("anna", { port: "kiel" });
    assert.deepEqual(made.spec, { port: "kiel", crew: 1 });
    assert.deepEqual(await get("anna"), made);
    await create("berta", { port: "riga" });
    const found = await custom.listNamespacedCustomObject(place);
    assert.equal(found.kind, "BoatList");
    assert.deepEqual(found.items.map((item) => item.metadata.name), ["anna", "berta"]);
    const all = await custom.listClusterCustomObject({ group, version, plural });
    assert.equal(all.items.length, 2);
    await refused(409, create("anna", { port: "kiel" }));
    await refused(404, get("clara"));
  },
  async "custom objects are changed"() {
    const name = "changed";
    const made = await create(name, { port: "kiel", crew: 2 });
    const patch = (body, type) => custom.patchNamespacedCustomObject({ ...place, name, body }, typed(type));
    const merged = await patch({ spec: { port: "riga" } }, k8s.PatchStrategy.MergePatch);
    assert.deepEqual(merged.spec, { port: "riga", crew: 2 });
    const operations = [{ op: "replace", path: "/spec/crew", value: 3 }];
    const changed = await patch(operations, k8s.PatchStrategy.JsonPatch);
    assert.equal(changed.spec.crew, 3);
    await refused(415, patch({ spec: { crew: 4 } }, k8s.PatchStrategy.StrategicMergePatch));
    const replace = (body) => custom.replaceNamespacedCustomObject({ ...place, name, body });
    await refused(409, replace(made));
    const replaced = await replace({ ...changed, spec: { port: "oslo" } });
    assert.deepEqual(replaced.spec, { port: "oslo", crew: 1 });
    assert.equal(replaced.metadata.generation, 4);
  },
  async "custom status and scale are apart"() {
    const name = "parts";
    await create(name, { port: "kiel" });
    const merge = typed(k8s.PatchStrategy.MergePatch);
    const body = { spec: { port: "riga" }, status: { phase: "Afloat", aboard: 1 } };
    const told = await custom.patchNamespacedCustomObjectStatus({ ...place, name, body }, merge);
    assert.deepEqual([told.spec.port, told.status.phase], ["kiel", "Afloat"]);
    const scale = await custom.getNamespacedCustomObjectScale({ ...place, name });
    assert.deepEqual([scale.kind, scale.spec.replicas, scale.status.replicas], ["Scale", 1, 1]);
    const more = { spec: { replicas: 5 } };
    await custom.patchNamespacedCustomObjectScale({ ...place, name, body: more }, merge);
    assert.equal((await get(name)).spec.crew, 5);
  },
  async "custom objects are checked"() {
    for (const [spec, field, told] of [
      [{ port: "kiel", crew: 9 }, "spec", "the crew must fit"],
      [{ port: "k" }, "spec.port", "2"],
      [{}, "spec.port", "Required"],
      [{ port: 7 }, "spec.port", "string"],
    ]) {
      const found = causes(await refused(422, create("wrong", spec)));
      assert.ok(
        found.some((cause) => cause.field === field && cause.message.includes(told)), JSON.stringify(found));
    }
    const body = boat("wrong", { port: "kiel", mast: 2 });
    const strict = custom.createNamespacedCustomObject({ ...place, body, fieldValidation: "Strict" });
    assert.match((await refused(400, strict)).body, /unknown field \\"spec\.mast\\"/);
    const dry = await custom.createNamespacedCustomObject({ ...place, body, dryRun: "All" });
    assert.equal(dry.spec.mast, undefined);
    await refused(404, get("wrong"));
  },
  async "custom objects are watched"() {
    const since = (await custom.listNamespacedCustomObject(place)).metadata.resourceVersion;
    const done = watched(config, path, since, (type) => type === "DELETED");
    await create("watched", { port: "kiel" });
    await custom.patchNamespacedCustomObject(
      { ...place, name: "watched", body: { spec: { port: "riga" } } }, typed(k8s.PatchStrategy.MergePatch));
    await custom.deleteNamespacedCustomObject({ ...place, name: "watched" });
    assert.deepEqual(await done, [
      ["ADDED", "watched", "kiel"], ["MODIFIED", "watched", "riga"], ["DELETED", "watched", "riga"],
    ]);
  },
  async "an informer follows a custom kind"() {
    const informer = k8s.makeInformer(config, path, () => custom.listNamespacedCustomObject(place));
    const added = new Promise((resolve) => informer.on("add", (object) => {
      if (object.metadata.name === "informed") resolve();
    }));
    await informer.start();
    assert.equal(informer.get("anna", namespace).spec.port, "kiel");
    await create("informed", { port: "kiel" });
    await added;
    await informer.stop();
  },
  async "the object api works by kind"() {
    const made = await objects.create(boat("object", { port: "kiel" }));
    assert.equal(made.spec.crew, 1);
    const read = await objects.read(boat("object"));
    assert.equal(read.metadata.uid, made.metadata.uid);
    const merged = await objects.patch(
      boat("object", { port: "riga" }), undefined, undefined, undefined, undefined, k8s.PatchStrategy.MergePatch);
    assert.equal(merged.spec.port, "riga");
    const replaced = await objects.replace({ ...merged, spec: { port: "oslo" } });
    assert.equal(replaced.spec.port, "oslo");
    const list = await objects.list(`${group}/${version}`, "Boat", namespace);
    assert.ok(list.items.some((item) => item.metadata.name === "object"));
    await objects.delete(boat("object"));
    await refused(404, objects.read(boat("object")));
  },
  async "server-side apply"() {
    const applied = (object, manager, force) => objects.patch(
      object, undefined, undefined, manager, force, k8s.PatchStrategy.ServerSideApply);
    const made = await applied(boat("applied", { port: "kiel" }), "one");
    assert.equal(made.spec.port, "kiel");
    assert.deepEqual(made.metadata.managedFields.map(({ manager, operation }) => [manager, operation]), [["one", "Apply"]]);
    const error = await refused(409, applied(boat("applied", { port: "riga" }), "two"));
    assert.equal(JSON.parse(error.body).message, 'Apply failed with 1 conflict: conflict with "one": .spec.port');
    assert.equal(causes(error)[0].reason, "FieldManagerConflict");
    const forced = await applied(boat("applied", { port: "riga" }), "two", true);
    assert.equal(forced.spec.port, "riga");
    const map = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "applied" }, data: { k: "1" } };
    const settled = await core.patchNamespacedConfigMap(
      { name: "applied", namespace, body: map, fieldManager: "one" }, apply);
    assert.equal(settled.data.k, "1");
    await refused(422, core.patchNamespacedConfigMap({ name: "applied", namespace, body: map }, apply));
  },
  async "a service account reads what it may"() {
    const name = "robot";
    await core.createNamespacedServiceAccount({ namespace, body: { metadata: { name } } });
    const request = await core.createNamespacedServiceAccountToken(
      { name, namespace, body: { spec: { audiences: [], expirationSeconds: 3600 } } });
    const settings = bearer(request.status.token);
    const mine = settings.makeApiClient(k8s.CustomObjectsApi);
    const error = await refused(403, mine.listNamespacedCustomObject(place));
    assert.match(error.body, /system:serviceaccount:js:robot/);
    const rbac = config.makeApiClient(k8s.RbacAuthorizationV1Api);
    const rules = [{ apiGroups: [group], resources: [plural], verbs: ["get", "list", "watch"] }];
    await rbac.createNamespacedRole({ namespace, body: { metadata: { name }, rules } });
    await rbac.createNamespacedRoleBinding({
      namespace,
      body: {
        metadata: { name },
        roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name },
        subjects: [{ kind: "ServiceAccount", name, namespace }],
      },
    });
    const list = await mine.listNamespacedCustomObject(place);
    assert.ok(list.items.length > 0);
    const done = watched(settings, path, list.metadata.resourceVersion, () => true);
    await create("for-robots", { port: "kiel" });
    assert.deepEqual(await done, [["ADDED", "for-robots", "kiel"]]);
    await refused(403, mine.deleteNamespacedCustomObject({ ...place, name: "for-robots" }));
    await refused(403, settings.makeApiClient(k8s.CoreV1Api).listNamespacedConfigMap({ namespace }));
    const me = await settings.makeApiClient(k8s.AuthenticationV1Api).createSelfSubjectReview({ body: {} });
    assert.equal(me.status.userInfo.username, "system:serviceaccount:js:robot");
    await core.deleteNamespacedServiceAccount({ name, namespace });
    await refused(401, mine.listNamespacedCustomObject(place));
  },
  async "custom objects are deleted with their kind"() {
    const gone = await custom.deleteNamespacedCustomObject({ ...place, name: "anna" });
    assert.equal(gone.status, "Success");
    await refused(404, get("anna"));
    await extensions.deleteCustomResourceDefinition({ name: definitionName });
    for (let turn = 0; ; turn += 1) {
      const left = await extensions.listCustomResourceDefinition();
      if (!left.items.some((item) => item.metadata.name === definitionName)) break;
      assert.ok(turn < 100);
      await sleep(100);
    }
    await refused(404, custom.listNamespacedCustomObject(place));
  },
};
