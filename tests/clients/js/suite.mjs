// The official JavaScript client against a running tenure: one function per thing that it does.
import assert from "node:assert/strict";
import { tests as customTests } from "./custom.mjs";
import { config, core, gone, k8s, namespace, refused, typed } from "./world.mjs";

const apps = config.makeApiClient(k8s.AppsV1Api);

const configMap = (name, data, labels) => ({ metadata: { name, labels }, data });
const deployment = (name) => ({
  metadata: { name },
  spec: {
    replicas: 2,
    selector: { matchLabels: { app: name } },
    template: {
      metadata: { labels: { app: name } },
      spec: { containers: [{ name: "main", image: "nginx" }] },
    },
  },
});
const create = (body) => core.createNamespacedConfigMap({ namespace, body });

const tests = {
  async "version and resources"() {
    const version = await config.makeApiClient(k8s.VersionApi).getCode();
    assert.equal(version.major, "1");
    const list = await apps.getAPIResources();
    assert.ok(list.resources.some((resource) => resource.name === "deployments"));
  },
  async "create and read"() {
    const made = await create(configMap("read", { k: "v" }));
    assert.ok(made.metadata.uid);
    const got = await core.readNamespacedConfigMap({ name: "read", namespace });
    assert.deepEqual({ ...got.data }, { k: "v" });
    assert.ok(got.metadata.creationTimestamp instanceof Date);
  },
  async "create twice is a conflict"() {
    await create(configMap("twice"));
    await refused(409, create(configMap("twice")));
  },
  async "missing is 404"() {
    await refused(404, core.readNamespacedConfigMap({ name: "missing", namespace }));
  },
  async "list by selector and in pages"() {
    for (const number of [0, 1, 2, 3, 4]) {
      await create(configMap(`list-${number}`, {}, { page: "yes", half: String(number % 2) }));
    }
    const half = await core.listNamespacedConfigMap({ namespace, labelSelector: "half=1" });
    assert.deepEqual(half.items.map((item) => item.metadata.name), ["list-1", "list-3"]);
    const names = [];
    let token;
    do {
      const page = await core.listNamespacedConfigMap({
        namespace, labelSelector: "page=yes", limit: 2, _continue: token,
      });
      names.push(...page.items.map((item) => item.metadata.name));
      token = page.metadata._continue;
    } while (token);
    assert.equal(names.length, 5);
  },
  async "replace with an old version is a conflict"() {
    const old = await create(configMap("replace", { k: "1" }));
    const body = configMap("replace", { k: "2" });
    const got = await core.replaceNamespacedConfigMap({ name: "replace", namespace, body });
    assert.equal(got.data.k, "2");
    await refused(409, core.replaceNamespacedConfigMap({ name: "replace", namespace, body: old }));
  },
  async "patch in three types"() {
    const name = "patch";
    await apps.createNamespacedDeployment({ namespace, body: deployment(name) });
    const patch = (body, type) => apps.patchNamespacedDeployment({ name, namespace, body }, typed(type));
    const side = { spec: { template: { spec: { containers: [{ name: "side", image: "busybox" }] } } } };
    const strategic = await patch(side, k8s.PatchStrategy.StrategicMergePatch);
    assert.equal(strategic.spec.template.spec.containers.length, 2);
    const merged = await patch(side, k8s.PatchStrategy.MergePatch);
    assert.equal(merged.spec.template.spec.containers.length, 1);
    const operations = [{ op: "replace", path: "/spec/replicas", value: 5 }];
    assert.equal((await patch(operations, k8s.PatchStrategy.JsonPatch)).spec.replicas, 5);
  },
  async "status and scale"() {
    const name = "scale";
    await apps.createNamespacedDeployment({ namespace, body: deployment(name) });
    const scale = await apps.readNamespacedDeploymentScale({ name, namespace });
    assert.equal(scale.spec.replicas, 2);
    scale.spec.replicas = 4;
    // A controller may write the status at any time, so the scale is not held to a revision.
    delete scale.metadata.resourceVersion;
    await apps.replaceNamespacedDeploymentScale({ name, namespace, body: scale });
    const body = { spec: { replicas: 9 }, status: { replicas: 9 } };
    const got = await apps.patchNamespacedDeploymentStatus(
      { name, namespace, body }, typed(k8s.PatchStrategy.MergePatch));
    assert.equal(got.spec.replicas, 4);
    assert.equal(got.status.replicas, 9);
  },
  async "watch sees every change"() {
    const since = (await core.listNamespacedConfigMap({ namespace })).metadata.resourceVersion;
    const seen = [];
    const path = `/api/v1/namespaces/${namespace}/configmaps`;
    let controller;
    const done = new Promise((resolve, reject) => {
      setTimeout(() => reject(new Error(`only ${JSON.stringify(seen)}`)), 20_000).unref();
      new k8s.Watch(config)
        .watch(path, { resourceVersion: since }, (type, object) => {
          seen.push([type, object.data?.k]);
          if (type === "DELETED") resolve();
        }, (error) => { if (error && error.name !== "AbortError") reject(error); })
        .then((request) => { controller = request; }, reject);
    });
    await create(configMap("watched", { k: "1" }));
    await core.patchNamespacedConfigMap(
      { name: "watched", namespace, body: { data: { k: "2" } } }, typed(k8s.PatchStrategy.MergePatch));
    await core.deleteNamespacedConfigMap({ name: "watched", namespace });
    await done;
    controller?.abort();
    assert.deepEqual(seen, [["ADDED", "1"], ["MODIFIED", "2"], ["DELETED", "2"]]);
  },
  async "informer fills its cache"() {
    const path = `/api/v1/namespaces/${namespace}/configmaps`;
    await create(configMap("informed"));
    const list = () => core.listNamespacedConfigMap({ namespace });
    const informer = k8s.makeInformer(config, path, list);
    const added = new Promise((resolve) => informer.on("add", (object) => {
      if (object.metadata.name === "informed-later") resolve();
    }));
    await informer.start();
    assert.ok(informer.get("informed", namespace));
    await create(configMap("informed-later"));
    await added;
    await informer.stop();
  },
  async "dry run keeps nothing"() {
    await core.createNamespacedConfigMap({ namespace, body: configMap("dry"), dryRun: "All" });
    await refused(404, core.readNamespacedConfigMap({ name: "dry", namespace }));
  },
  async "invalid is 422"() {
    const body = deployment("invalid");
    body.spec.template.metadata.labels = { app: "other" };
    const error = await refused(422, apps.createNamespacedDeployment({ namespace, body }));
    assert.match(String(error.body), /spec\.template\.metadata\.labels/);
  },
  async "object api applies by kind"() {
    const objects = k8s.KubernetesObjectApi.makeApiClient(config);
    const job = {
      apiVersion: "batch/v1", kind: "Job", metadata: { name: "object", namespace },
      spec: { template: { spec: { restartPolicy: "Never", containers: [{ name: "main", image: "busybox" }] } } },
    };
    const made = await objects.create(job);
    assert.equal(made.spec.backoffLimit, 6);
    await objects.delete(job);
    // A Job lets its pods go unless told otherwise, and stays until the collector has done so.
    await gone(() => objects.read(job));
  },
  async "delete and delete collection"() {
    await create(configMap("mass-1", {}, { mass: "yes" }));
    await create(configMap("mass-2", {}, { mass: "yes" }));
    await core.deleteNamespacedConfigMap({ name: "mass-1", namespace });
    await refused(404, core.readNamespacedConfigMap({ name: "mass-1", namespace }));
    await core.deleteCollectionNamespacedConfigMap({ namespace, labelSelector: "mass=yes" });
    const left = await core.listNamespacedConfigMap({ namespace, labelSelector: "mass=yes" });
    assert.equal(left.items.length, 0);
  },
};

await core.createNamespace({ body: { metadata: { name: namespace } } });
let passed = 0;
let failed = 0;
for (const [name, test] of Object.entries({ ...tests, ...customTests })) {
  try {
    await test();
    passed += 1;
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${name}\n${error.stack}`);
  }
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
