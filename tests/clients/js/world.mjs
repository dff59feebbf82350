// What every test of this folder shares: the client, where it works, and how a refusal is expected.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The packages lie in the build folder, where a bare import from here would not find them.
const require = createRequire(`${process.env.TENURE_NODE_PACKAGES}/package.json`);
export const k8s = await import(pathToFileURL(require.resolve("@kubernetes/client-node")));

export const namespace = "js";
export const config = new k8s.KubeConfig();
config.loadFromFile(process.env.KUBECONFIG);
export const core = config.makeApiClient(k8s.CoreV1Api);

export const typed = (type) => k8s.setHeaderOptions("Content-Type", type);

export async function refused(code, promise) {
  const error = await promise.then(
    () => assert.fail(`expected ${code}, got success`),
    (failure) => failure,
  );
  assert.equal(error.code, code, String(error));
  return error;
}

// Reads until the object is not there any more; fails if it stays.
export async function gone(read) {
  const end = Date.now() + 10_000;
  for (;;) {
    const error = await read().then(() => null, (failure) => failure);
    if (error) return assert.equal(error.code, 404, String(error));
    assert.ok(Date.now() < end, "the object is still there");
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
