// The `minio` package as its users have it: streams, files, multipart by size, listings, presigned URLs and posts.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import * as Minio from "minio";

const [endpoint, accessKey, secretKey] = process.argv.slice(2);
const { hostname, port } = new URL(endpoint);
const s3 = new Minio.Client({ endPoint: hostname, port: Number(port), useSSL: false, accessKey, secretKey, region: "us-east-1",
                              partSize: 5 << 20 });
const bucket = "js-minio";
const folder = mkdtempSync(join(tmpdir(), "verbena-js-"));

async function collect(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks);
}

async function objects() {
  await s3.putObject(bucket, "text", "hello", 5, { "Content-Type": "text/plain", "X-Amz-Meta-A": "b" });
  assert.equal((await collect(await s3.getObject(bucket, "text"))).toString(), "hello");
  const stat = await s3.statObject(bucket, "text");
  assert.deepEqual([stat.size, stat.metaData["content-type"], stat.metaData.a], [5, "text/plain", "b"]);
  assert.equal((await collect(await s3.getPartialObject(bucket, "text", 1, 3))).toString(), "ell");

  const big = Buffer.alloc(12 << 20, "0123456789");
  await s3.putObject(bucket, "stream", Readable.from([big.subarray(0, 7 << 20), big.subarray(7 << 20)]));   // of unknown length
  writeFileSync(join(folder, "big"), big);
  await s3.fPutObject(bucket, "dir/file name", join(folder, "big"), {});
  await s3.fGetObject(bucket, "dir/file name", join(folder, "back"));
  assert.deepEqual(readFileSync(join(folder, "back")), big);
  assert.deepEqual(await collect(await s3.getObject(bucket, "stream")), big);
  await s3.copyObject(bucket, "copied", `/${bucket}/text`);
  await assert.rejects(s3.statObject(bucket, "none"), { code: "NotFound" });
}

async function listings() {
  const list = (prefix, recursive) => collectNames(s3.listObjectsV2(bucket, prefix, recursive));
  assert.deepEqual(await list("", true), ["copied", "dir/file name", "stream", "text"]);
  assert.deepEqual(await list("", false), ["copied", "dir/", "stream", "text"]);
  assert.deepEqual(await collectNames(s3.listObjects(bucket, "dir/", true)), ["dir/file name"]);
  assert.deepEqual(await collectNames(s3.listIncompleteUploads(bucket, "", true)), []);
}

async function collectNames(stream) {
  const names = [];
  for await (const item of stream) names.push(item.name ?? item.prefix ?? item.key);
  return names.sort();
}

async function presigned() {
  const put = await fetch(await s3.presignedPutObject(bucket, "signed", 60), { method: "PUT", body: "by url" });
  assert.equal(put.status, 200);
  const got = await fetch(await s3.presignedGetObject(bucket, "signed", 60, { "response-content-type": "text/x-y" }));
  assert.deepEqual([await got.text(), got.headers.get("content-type")], ["by url", "text/x-y"]);

  const policy = s3.newPostPolicy();
  policy.setBucket(bucket);
  policy.setKey("posted");
  policy.setContentType("text/plain");
  policy.setContentLengthRange(1, 100);
  policy.setExpires(new Date(Date.now() + 60_000));
  const { formData } = await s3.presignedPostPolicy(policy);
  const form = new FormData();
  for (const [name, value] of Object.entries(formData)) form.append(name, value);
  form.append("file", new Blob(["by form"]), "x.txt");
  const posted = await fetch(`${endpoint}/${bucket}`, { method: "POST", body: form });
  assert.equal(posted.status, 204, await posted.text());
  assert.equal((await collect(await s3.getObject(bucket, "posted"))).toString(), "by form");
}

try {
  await s3.makeBucket(bucket, "us-east-1");
  assert.equal(await s3.bucketExists(bucket), true);
  await objects();
  await listings();
  await presigned();
  // AWS answers 204, which boto 2 and fog demand; this client waits for MinIO's 200 and throws. The tags are set.
  await s3.setBucketTagging(bucket, { a: "b" }).catch(() => {});
  assert.deepEqual(await s3.getBucketTagging(bucket), [{ Key: "a", Value: "b" }]);
  await s3.removeBucketTagging(bucket);
  await s3.removeObjects(bucket, await collectNames(s3.listObjectsV2(bucket, "", true)));
  await s3.removeBucket(bucket);
  assert.equal(await s3.bucketExists(bucket), false);
  console.log("ok");
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.exit(0); // else node waits for kept-alive connections, until the server closes them
