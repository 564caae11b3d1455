// The SDK's default chain of credentials, by AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN: node web_identity.mjs BUCKET
import { GetObjectCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';

const s3 = new S3Client({ forcePathStyle: true });
const where = { Bucket: process.argv[2], Key: 'by-sdk' };
await s3.send(new PutObjectCommand({ ...where, Body: 'by the SDK of JavaScript' }));
const body = await (await s3.send(new GetObjectCommand(where))).Body.transformToString();
console.log(body === 'by the SDK of JavaScript' ? 'ok' : body);
