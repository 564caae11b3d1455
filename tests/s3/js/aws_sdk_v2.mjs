// aws-sdk 2 as web pages have it: uploads in parts, and the presigned URLs of the snippet that everybody copies.
import assert from "node:assert/strict";
import AWS from "aws-sdk";

const [endpoint, accessKeyId, secretAccessKey] = process.argv.slice(2);
const big = Buffer.alloc(13 << 20, "0123456789");

async function roundTrip(signatureVersion) {
  const s3 = new AWS.S3({ endpoint, accessKeyId, secretAccessKey, region: "us-east-1", s3ForcePathStyle: true, signatureVersion,
                          maxRetries: 0 });
  const Bucket = `js-aws-sdk-${signatureVersion}`;
  await s3.createBucket({ Bucket }).promise();
  await s3.putObject({ Bucket, Key: "dir/a key", Body: "hello", ContentType: "text/plain", Metadata: { a: "b" } }).promise();
  const got = await s3.getObject({ Bucket, Key: "dir/a key" }).promise();
  assert.deepEqual([got.Body.toString(), got.ContentType, got.Metadata.a], ["hello", "text/plain", "b"]);
  await s3.upload({ Bucket, Key: "large", Body: big }, { partSize: 5 << 20 }).promise();
  const large = await s3.getObject({ Bucket, Key: "large" }).promise();
  assert.ok(large.Body.equals(big) && large.ETag.includes("-3"));

  const headers = { "Content-Type": "image/png", "Cache-Control": "no-store" };
  const plain = s3.getSignedUrl("putObject", { Bucket, Key: "picture", ContentType: "image/png", CacheControl: "no-store" });
  const put = await fetch(plain, { method: "PUT", body: "png", headers });
  assert.equal(put.status, 200, await put.text());
  const head = await s3.headObject({ Bucket, Key: "picture" }).promise();
  assert.deepEqual([head.ContentType, head.CacheControl], ["image/png", "no-store"]);
  const listed = s3.getSignedUrl("putObject", { Bucket, Key: "listed", ContentType: "image/png", ACL: "public-read", Metadata: { a: "b" } });
  // Version 4 signs these as headers, too; with version 2 correct clients send in a header what the URL says.
  const said = { "Content-Type": "image/png", "x-amz-acl": "public-read", "x-amz-meta-a": "b" };
  const answer = await fetch(listed, { method: "PUT", body: "png", headers: said });
  assert.equal(answer.status, 200, await answer.text());
  assert.equal((await s3.headObject({ Bucket, Key: "listed" }).promise()).Metadata.a, "b");
  assert.equal((await fetch(`${endpoint}/${Bucket}/listed?v=3`)).status, 200);
  const download = await fetch(s3.getSignedUrl("getObject", { Bucket, Key: "picture", ResponseContentType: "x/y" }));
  assert.deepEqual([await download.text(), download.headers.get("content-type")], ["png", "x/y"]);

  const form = s3.createPresignedPost({ Bucket, Fields: { key: "posted" }, Conditions: [["starts-with", "$Content-Type", ""]] });
  if (signatureVersion === "v4") {   // the SDK makes forms of version 4 alone
    const data = new FormData();
    for (const [name, value] of Object.entries(form.fields)) data.append(name, value);
    data.append("file", new Blob(["posted"]), "name");
    const posted = await fetch(form.url, { method: "POST", body: data });
    assert.equal(posted.status, 204, await posted.text());
  }
  const keys = (await s3.listObjectsV2({ Bucket }).promise()).Contents.map(({ Key }) => ({ Key }));
  await s3.deleteObjects({ Bucket, Delete: { Objects: keys } }).promise();
  await assert.rejects(s3.headObject({ Bucket, Key: "large" }).promise(), { code: "NotFound" });
  await s3.deleteBucket({ Bucket }).promise();
}

for (const version of ["v4", "v2"]) await roundTrip(version);
console.log("ok");
