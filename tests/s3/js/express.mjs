// @aws-sdk/client-s3 on a directory bucket, as its users have it: nothing but the endpoint is said, and the SDK opens
// sessions by itself.
import assert from "node:assert/strict";
import {
  AbortMultipartUploadCommand, CompleteMultipartUploadCommand, CopyObjectCommand, CreateBucketCommand,
  CreateMultipartUploadCommand, CreateSessionCommand, DeleteBucketCommand, DeleteObjectCommand, DeleteObjectsCommand,
  GetObjectAclCommand, GetObjectAttributesCommand, GetObjectCommand, GetObjectTaggingCommand, HeadBucketCommand,
  HeadObjectCommand, PutBucketEncryptionCommand, ListBucketsCommand, ListDirectoryBucketsCommand, ListMultipartUploadsCommand, ListObjectsV2Command,
  ListObjectVersionsCommand, ListPartsCommand, PutBucketVersioningCommand, PutObjectCommand, RenameObjectCommand,
  S3Client, UploadPartCommand, UploadPartCopyCommand,
} from "@aws-sdk/client-s3";

const [endpoint, accessKeyId, secretAccessKey] = process.argv.slice(2);
const s3 = new S3Client({ endpoint, region: "us-east-1", forcePathStyle: true, credentials: { accessKeyId, secretAccessKey } });
// With an endpoint of its own the SDK would open a session to make the bucket that the session is of.
const control = new S3Client({ endpoint, region: "us-east-1", forcePathStyle: true, disableS3ExpressSessionAuth: true, credentials: { accessKeyId, secretAccessKey } });
const Bucket = "js-express--local1-az1--x-s3";
const MiB = 1 << 20;
const text = async (reply) => reply.Body.transformToString();
const get = async (Key, more = {}) => text(await s3.send(new GetObjectCommand({ Bucket, Key, ...more })));

// What the SDK signs: every object request in a session of the bucket.
let sessions = 0, others = 0;
s3.middlewareStack.add((next, context) => async (args) => {
  const { headers } = args.request;
  if (headers["x-amz-s3session-token"]) {
    assert.match(headers.authorization, /\/s3express\/aws4_request/);
    sessions += 1;
  } else {
    others += 1;
  }
  return next(args);
}, { step: "finalizeRequest", priority: "low", name: "watchSessions" });

async function buckets() {
  await control.send(new CreateBucketCommand({
    Bucket,
    CreateBucketConfiguration: {
      Location: { Name: "local1-az1", Type: "AvailabilityZone" },
      Bucket: { DataRedundancy: "SingleAvailabilityZone", Type: "Directory" },
    },
  }));
  const head = await s3.send(new HeadBucketCommand({ Bucket }));
  assert.equal(head.BucketLocationName, "local1-az1");
  assert.equal(head.BucketLocationType, "AvailabilityZone");
  const listed = await s3.send(new ListDirectoryBucketsCommand({}));
  assert.deepEqual(listed.Buckets.map(({ Name }) => Name), [Bucket]);
  assert.ok(!(await s3.send(new ListBucketsCommand({}))).Buckets?.some(({ Name }) => Name === Bucket));
  const session = await s3.send(new CreateSessionCommand({ Bucket, SessionMode: "ReadOnly" }));
  assert.ok(session.Credentials.SessionToken);
  const left = session.Credentials.Expiration - Date.now();
  assert.ok(left > 240_000 && left <= 301_000, `${left} ms`);
}

async function objects() {
  for (const size of [0, 1, 70_000]) {
    const Key = `dir/${size}`;
    const put = await s3.send(new PutObjectCommand({ Bucket, Key, Body: Buffer.alloc(size, "x"), Metadata: { size: `${size}` } }));
    assert.doesNotMatch(put.ETag, /^"[0-9a-f]{32}"$/);
    assert.equal(await get(Key), "x".repeat(size));
    const head = await s3.send(new HeadObjectCommand({ Bucket, Key, ChecksumMode: "ENABLED" }));
    assert.equal(head.StorageClass, "EXPRESS_ONEZONE");
    assert.equal(head.ChecksumCRC32, put.ChecksumCRC32);
  }
  assert.equal(await get("dir/70000", { Range: "bytes=10-19" }), "x".repeat(10));
  const page = await s3.send(new ListObjectsV2Command({ Bucket, Prefix: "dir/" }));
  assert.equal(page.KeyCount, 3);
  assert.equal(page.Contents[0].StorageClass, "EXPRESS_ONEZONE");
  const groups = await s3.send(new ListObjectsV2Command({ Bucket, Delimiter: "/" }));
  assert.deepEqual(groups.CommonPrefixes, [{ Prefix: "dir/" }]);
  await s3.send(new CopyObjectCommand({ Bucket, Key: "copy", CopySource: `${Bucket}/dir/1` }));
  assert.equal(await get("copy"), "x");
}

async function appends() {
  const Key = "log";
  let size = 0, whole = "";
  for (const record of ["one ", "two ", "three"]) {
    const put = await s3.send(new PutObjectCommand({ Bucket, Key, Body: record, WriteOffsetBytes: size }));
    size += record.length;
    whole += record;
    assert.equal(put.Size, size);
  }
  assert.equal(await get(Key), whole);
  await assert.rejects(s3.send(new PutObjectCommand({ Bucket, Key, Body: "x", WriteOffsetBytes: 1 })), { name: "InvalidWriteOffset" });
}

// Logs that grow encrypted: each append says how, or the bucket's configuration does.
async function sealedAppends() {
  const other = "js-sealed--local1-az1--x-s3", key = "of-logs";
  await control.send(new CreateBucketCommand({
    Bucket: other,
    CreateBucketConfiguration: {
      Location: { Name: "local1-az1", Type: "AvailabilityZone" },
      Bucket: { DataRedundancy: "SingleAvailabilityZone", Type: "Directory" },
    },
  }));
  await control.send(new PutBucketEncryptionCommand({
    Bucket: other,
    ServerSideEncryptionConfiguration: { Rules: [{ ApplyServerSideEncryptionByDefault: { SSEAlgorithm: "aws:kms", KMSMasterKeyID: key }, BucketKeyEnabled: true }] },
  }));
  const ways = [
    [Bucket, "log of S3", { ServerSideEncryption: "AES256" }],
    [other, "log of KMS", { ServerSideEncryption: "aws:kms", SSEKMSKeyId: key }],
    [other, "log of the bucket's key", { ServerSideEncryption: "aws:kms" }],  // which AWS recommends
    [other, "log of the configuration", {}],
  ];
  for (const [Bucket, Key, how] of ways) {
    let size = 0, whole = "";
    for (const record of ["one ", "two ", "three ", "four ".repeat(20_000)]) {
      const put = await s3.send(new PutObjectCommand({ Bucket, Key, Body: record, WriteOffsetBytes: size, ...how }));
      size += record.length;
      whole += record;
      assert.equal(put.Size, size, Key);
      assert.equal(put.ServerSideEncryption, Bucket === other ? "aws:kms" : "AES256", Key);
      assert.equal(put.SSEKMSKeyId, Bucket === other ? key : undefined, Key);
    }
    const got = await s3.send(new GetObjectCommand({ Bucket, Key }));
    assert.equal(got.ServerSideEncryption, Bucket === other ? "aws:kms" : "AES256");
    assert.equal(await text(got), whole);
    assert.equal(await text(await s3.send(new GetObjectCommand({ Bucket, Key, Range: "bytes=2-9" }))), whole.slice(2, 10));
    const head = await s3.send(new HeadObjectCommand({ Bucket, Key }));
    assert.equal(head.ContentLength, size);
    assert.equal(head.SSEKMSKeyId, Bucket === other ? key : undefined);
    const another = Bucket === other ? { ServerSideEncryption: "AES256" } : {};
    await assert.rejects(s3.send(new PutObjectCommand({ Bucket, Key, Body: "x", WriteOffsetBytes: size, ...another })), { name: "EncryptionTypeMismatch" });
    await assert.rejects(s3.send(new PutObjectCommand({ Bucket, Key, Body: "x", WriteOffsetBytes: 1, ...how })), { name: "InvalidWriteOffset" });
    await s3.send(new DeleteObjectCommand({ Bucket, Key }));
  }
  await control.send(new DeleteBucketCommand({ Bucket: other }));
}

async function renames() {
  await s3.send(new RenameObjectCommand({ Bucket, Key: "log 2", RenameSource: "log", ClientToken: "once" }));
  await s3.send(new RenameObjectCommand({ Bucket, Key: "log 2", RenameSource: "log", ClientToken: "once" }));
  assert.equal(await get("log 2"), "one two three");
  await assert.rejects(s3.send(new GetObjectCommand({ Bucket, Key: "log" })), { name: "NoSuchKey" });
  await assert.rejects(s3.send(new RenameObjectCommand({ Bucket, Key: "copy", RenameSource: "log%202", DestinationIfNoneMatch: "*", ClientToken: "two" })),
    { name: "PreconditionFailed" });
  await assert.rejects(s3.send(new RenameObjectCommand({ Bucket, Key: "x", RenameSource: "log%202", ClientToken: "once" })),
    { name: "IdempotencyParameterMismatch" });
}

async function multipart() {
  const Key = "parts";
  const { UploadId } = await s3.send(new CreateMultipartUploadCommand({ Bucket, Key }));
  const first = await s3.send(new UploadPartCommand({ Bucket, Key, UploadId, PartNumber: 1, Body: Buffer.alloc(5 * MiB, "a") }));
  const second = await s3.send(new UploadPartCopyCommand({ Bucket, Key, UploadId, PartNumber: 2, CopySource: `${Bucket}/copy` }));
  assert.equal((await s3.send(new ListPartsCommand({ Bucket, Key, UploadId }))).Parts.length, 2);
  assert.equal((await s3.send(new ListMultipartUploadsCommand({ Bucket }))).Uploads.length, 1);
  await s3.send(new CompleteMultipartUploadCommand({
    Bucket, Key, UploadId,
    MultipartUpload: { Parts: [{ PartNumber: 1, ETag: first.ETag, ChecksumCRC32: first.ChecksumCRC32 }, { PartNumber: 2, ETag: second.CopyPartResult.ETag }] },
  }));
  const attributes = await s3.send(new GetObjectAttributesCommand({ Bucket, Key, ObjectAttributes: ["ObjectSize", "StorageClass"] }));
  assert.equal(attributes.ObjectSize, 5 * MiB + 1);
  assert.equal(attributes.StorageClass, "EXPRESS_ONEZONE");
  const put = await s3.send(new PutObjectCommand({ Bucket, Key, Body: "tail", WriteOffsetBytes: 5 * MiB + 1 }));
  assert.equal(put.Size, 5 * MiB + 5);
  assert.equal(await get(Key, { Range: "bytes=-6" }), "axtail");
  const other = await s3.send(new CreateMultipartUploadCommand({ Bucket, Key: "other" }));
  await s3.send(new AbortMultipartUploadCommand({ Bucket, Key: "other", UploadId: other.UploadId }));
}

async function refusals() {
  const refused = [
    new GetObjectAclCommand({ Bucket, Key: "copy" }), new GetObjectTaggingCommand({ Bucket, Key: "copy" }),
    new ListObjectVersionsCommand({ Bucket }),
    new PutBucketVersioningCommand({ Bucket, VersioningConfiguration: { Status: "Enabled" } }),
    new PutObjectCommand({ Bucket, Key: "copy", Body: "x", Tagging: "a=b" }),
    new PutObjectCommand({ Bucket, Key: "copy", Body: "x", ACL: "private" }),
  ];
  for (const command of refused) await assert.rejects(s3.send(command), { name: "NotImplemented" }, command.constructor.name);
  await assert.rejects(s3.send(new ListObjectsV2Command({ Bucket, Prefix: "di" })), { name: "InvalidArgument" });
}

async function clear() {
  await s3.send(new DeleteObjectCommand({ Bucket, Key: "copy" }));
  const page = await s3.send(new ListObjectsV2Command({ Bucket }));
  assert.deepEqual(page.Contents.map(({ Key }) => Key), ["dir/0", "dir/1", "dir/70000", "log 2", "parts"]);
  const gone = await s3.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects: page.Contents.map(({ Key }) => ({ Key })) } }));
  assert.equal(gone.Deleted.length, 5);
  await control.send(new DeleteBucketCommand({ Bucket }));
}

for (const step of [buckets, objects, appends, sealedAppends, renames, multipart, refusals, clear]) await step();
assert.ok(sessions > 30, `${sessions} requests were in a session, ${others} were not`);
console.log("ok");
