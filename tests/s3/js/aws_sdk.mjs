// @aws-sdk/client-s3 as its users have it: default integrity protections (CRC32 trailers), paging, multipart, copies.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import {
  AbortMultipartUploadCommand, CompleteMultipartUploadCommand, CopyObjectCommand, CreateBucketCommand,
  CreateMultipartUploadCommand, DeleteBucketCommand, DeleteObjectsCommand, GetBucketCorsCommand, GetObjectAttributesCommand,
  GetObjectCommand, HeadBucketCommand, HeadObjectCommand, ListBucketsCommand, PutBucketCorsCommand, PutBucketTaggingCommand,
  GetBucketTaggingCommand, PutObjectCommand, S3Client, UploadPartCommand, paginateListObjectsV2,
} from "@aws-sdk/client-s3";

const [endpoint, accessKeyId, secretAccessKey] = process.argv.slice(2);
const s3 = new S3Client({ endpoint, region: "us-east-1", forcePathStyle: true, credentials: { accessKeyId, secretAccessKey } });
const Bucket = "js-aws-sdk";
const MiB = 1 << 20;
const md5 = (data) => `"${createHash("md5").update(data).digest("hex")}"`;
const bytes = async (reply) => Buffer.from(await reply.Body.transformToByteArray());

async function objects() {
  for (const size of [0, 1, 70_000, 3 * MiB]) {
    const data = Buffer.alloc(size, "verbena ");
    const put = await s3.send(new PutObjectCommand({ Bucket, Key: `dir/object ${size}`, Body: data, Metadata: { size: `${size}` } }));
    assert.equal(put.ETag, md5(data));
    assert.ok(put.ChecksumCRC32, "the SDK sends a CRC32 by itself, and the server tells it back");
    const got = await s3.send(new GetObjectCommand({ Bucket, Key: `dir/object ${size}` }));
    assert.deepEqual(await bytes(got), data);
    assert.equal(got.Metadata.size, `${size}`);
  }
  for (const ChecksumAlgorithm of ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"]) {
    if (ChecksumAlgorithm === "CRC64NVME") continue; // needs a package of its own in the SDK
    const put = await s3.send(new PutObjectCommand({ Bucket, Key: "sum", Body: "data", ChecksumAlgorithm }));
    const head = await s3.send(new HeadObjectCommand({ Bucket, Key: "sum", ChecksumMode: "ENABLED" }));
    assert.equal(head[`Checksum${ChecksumAlgorithm}`], put[`Checksum${ChecksumAlgorithm}`]);
    assert.ok(put[`Checksum${ChecksumAlgorithm}`], ChecksumAlgorithm);
    assert.deepEqual(await bytes(await s3.send(new GetObjectCommand({ Bucket, Key: "sum" }))), Buffer.from("data"));
  }
  await s3.send(new CopyObjectCommand({ Bucket, Key: "copy", CopySource: `${Bucket}/sum` }));
  await assert.rejects(s3.send(new PutObjectCommand({ Bucket, Key: "copy", Body: "x", IfNoneMatch: "*" })),
    { name: "PreconditionFailed" });
  await assert.rejects(s3.send(new GetObjectCommand({ Bucket, Key: "none" })), { name: "NoSuchKey" });
}

async function multipart() {
  const { UploadId } = await s3.send(new CreateMultipartUploadCommand({ Bucket, Key: "parts", ChecksumAlgorithm: "SHA256" }));
  const Parts = [];
  for (const [index, size] of [5 * MiB, 1000].entries()) {
    const Body = Buffer.alloc(size, index + 1);
    const part = await s3.send(new UploadPartCommand({ Bucket, Key: "parts", UploadId, PartNumber: index + 1, Body, ChecksumAlgorithm: "SHA256" }));
    Parts.push({ PartNumber: index + 1, ETag: part.ETag, ChecksumSHA256: part.ChecksumSHA256 });
  }
  const done = await s3.send(new CompleteMultipartUploadCommand({ Bucket, Key: "parts", UploadId, MultipartUpload: { Parts } }));
  assert.match(done.ETag, /-2"$/);
  assert.equal(done.ChecksumType, "COMPOSITE");
  const attributes = await s3.send(new GetObjectAttributesCommand({ Bucket, Key: "parts", ObjectAttributes: ["ObjectParts", "ObjectSize", "Checksum"] }));
  assert.equal(attributes.ObjectSize, 5 * MiB + 1000);
  assert.equal(attributes.ObjectParts.TotalPartsCount, 2);
  assert.equal(attributes.Checksum.ChecksumSHA256, done.ChecksumSHA256);
  const part = await s3.send(new GetObjectCommand({ Bucket, Key: "parts", PartNumber: 2 }));
  assert.deepEqual(await bytes(part), Buffer.alloc(1000, 2));
  const other = await s3.send(new CreateMultipartUploadCommand({ Bucket, Key: "other" }));
  await s3.send(new AbortMultipartUploadCommand({ Bucket, Key: "other", UploadId: other.UploadId }));
}

async function buckets() {
  const rules = [{ AllowedMethods: ["GET"], AllowedOrigins: ["*"], MaxAgeSeconds: 5 }];
  await s3.send(new PutBucketCorsCommand({ Bucket, CORSConfiguration: { CORSRules: rules } }));
  assert.deepEqual((await s3.send(new GetBucketCorsCommand({ Bucket }))).CORSRules, rules);
  await s3.send(new PutBucketTaggingCommand({ Bucket, Tagging: { TagSet: [{ Key: "a", Value: "b" }] } }));
  assert.deepEqual((await s3.send(new GetBucketTaggingCommand({ Bucket }))).TagSet, [{ Key: "a", Value: "b" }]);
  assert.ok((await s3.send(new ListBucketsCommand({ Prefix: "js-" }))).Buckets.some((b) => b.Name === Bucket));
}

async function clear() {
  const keys = [];
  for await (const page of paginateListObjectsV2({ client: s3, pageSize: 2 }, { Bucket })) {
    keys.push(...(page.Contents ?? []).map(({ Key }) => Key));
  }
  assert.deepEqual(keys, ["copy", "dir/object 0", "dir/object 1", "dir/object 3145728", "dir/object 70000", "parts", "sum"]);
  const deleted = await s3.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects: keys.map((Key) => ({ Key })) } }));
  assert.equal(deleted.Deleted.length, keys.length);
  await s3.send(new DeleteBucketCommand({ Bucket }));
  await assert.rejects(s3.send(new HeadBucketCommand({ Bucket })), { name: "NotFound" });
}

await s3.send(new CreateBucketCommand({ Bucket }));
await objects();
await multipart();
await buckets();
await clear();
console.log("ok");
