#!/usr/bin/python3
"""Directory buckets by a boto3 with sessions (1.34 and newer), configured only with the endpoint and the keys. Run by
boto3_debian13.py in a chroot of that release; needs no file of the repository.

The endpoint and the keys come from AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY."""
import os

import boto3
import botocore
from botocore.config import Config
from botocore.exceptions import ClientError

ZONE = "local1-az1"
BUCKET = f"boto3--{ZONE}--x-s3"
signed = []  # of each request but CreateSession and copies: (signed for S3 Express, in a session)


def note(request, **_):
    authorization = request.headers.get("Authorization", b"")
    text = authorization.decode() if isinstance(authorization, bytes) else authorization
    # Copies are signed with the long-term keys, as AWS requires.
    if request.url.endswith("?session") or "x-amz-copy-source" in request.headers:
        return
    signed.append(("/s3express/" in text, "x-amz-s3session-token" in text.lower()))


def refused(code, call, **arguments):
    try:
        call(**arguments)
    except ClientError as error:
        assert error.response["Error"]["Code"] == code, error.response["Error"]
        return
    raise AssertionError(f"{call} was not refused")


def objects(s3):
    s3.put_object(Bucket=BUCKET, Key="a/one", Body=b"0123456789", Metadata={"colour": "green"})
    got = s3.get_object(Bucket=BUCKET, Key="a/one")
    assert got["Body"].read() == b"0123456789" and got["Metadata"] == {"colour": "green"}
    assert got["StorageClass"] == "EXPRESS_ONEZONE", got
    assert s3.get_object(Bucket=BUCKET, Key="a/one", Range="bytes=3-5")["Body"].read() == b"345"
    assert s3.head_object(Bucket=BUCKET, Key="a/one")["ContentLength"] == 10
    refused("NoSuchKey", s3.get_object, Bucket=BUCKET, Key="nothing")
    s3.put_object(Bucket=BUCKET, Key="b", Body=b"")
    listed = s3.list_objects_v2(Bucket=BUCKET, Delimiter="/")
    assert [one["Key"] for one in listed["Contents"]] == ["b"] and listed["CommonPrefixes"] == [{"Prefix": "a/"}], listed
    s3.copy_object(Bucket=BUCKET, Key="copy", CopySource={"Bucket": BUCKET, "Key": "a/one"})
    assert s3.get_object(Bucket=BUCKET, Key="copy")["Body"].read() == b"0123456789"


def appends(s3):
    if "WriteOffsetBytes" not in s3.meta.service_model.operation_model("PutObject").input_shape.members:
        return "append: not known to this boto3"
    size = 0
    for text in (b"one ", b"two ", b"three"):
        answer = s3.put_object(Bucket=BUCKET, Key="log", Body=text, WriteOffsetBytes=size)
        size += len(text)
        assert answer.get("Size", size) == size, answer
    refused("InvalidWriteOffset", s3.put_object, Bucket=BUCKET, Key="log", Body=b"x", WriteOffsetBytes=1)
    assert s3.get_object(Bucket=BUCKET, Key="log")["Body"].read() == b"one two three"
    return "append"


def renames(s3):
    if not hasattr(s3, "rename_object"):
        return "rename: not known to this boto3"
    s3.rename_object(Bucket=BUCKET, Key="renamed", RenameSource="copy")
    assert s3.get_object(Bucket=BUCKET, Key="renamed")["Body"].read() == b"0123456789"
    refused("NoSuchKey", s3.get_object, Bucket=BUCKET, Key="copy")
    return "rename"


def uploads(s3):
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="large")["UploadId"]
    bodies = [os.urandom(5 << 20), b"the end"]
    parts = [{"PartNumber": i + 1, "ETag": s3.upload_part(Bucket=BUCKET, Key="large", UploadId=upload, PartNumber=i + 1, Body=body)["ETag"]}
             for i, body in enumerate(bodies)]
    assert len(s3.list_parts(Bucket=BUCKET, Key="large", UploadId=upload)["Parts"]) == 2
    assert [one["Key"] for one in s3.list_multipart_uploads(Bucket=BUCKET)["Uploads"]] == ["large"]
    s3.complete_multipart_upload(Bucket=BUCKET, Key="large", UploadId=upload, MultipartUpload={"Parts": parts})
    assert s3.get_object(Bucket=BUCKET, Key="large")["Body"].read() == b"".join(bodies)
    aborted = s3.create_multipart_upload(Bucket=BUCKET, Key="never")["UploadId"]
    s3.abort_multipart_upload(Bucket=BUCKET, Key="never", UploadId=aborted)


def main():
    s3 = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], region_name="us-east-1")
    # Calls about the bucket itself use no session; with a fixed endpoint boto3 needs a setting for that.
    control = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], region_name="us-east-1", config=Config(signature_version="s3v4"))
    control.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"Location": {"Name": ZONE, "Type": "AvailabilityZone"},
                                                               "Bucket": {"DataRedundancy": "SingleAvailabilityZone", "Type": "Directory"}})
    assert BUCKET in [one["Name"] for one in control.list_directory_buckets()["Buckets"]]
    control.head_bucket(Bucket=BUCKET)
    s3.meta.events.register("before-send.s3", note)
    objects(s3)
    done = [appends(s3), renames(s3)]
    uploads(s3)
    in_session = sum(both == (True, True) for both in signed)
    assert in_session == len(signed) > 20, signed
    refused("NotImplemented", control.get_bucket_versioning, Bucket=BUCKET)
    keys = [one["Key"] for one in s3.list_objects_v2(Bucket=BUCKET)["Contents"]]
    s3.delete_object(Bucket=BUCKET, Key=keys.pop())
    gone = s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": key} for key in keys]})
    assert len(gone["Deleted"]) == len(keys) and "Errors" not in gone, gone
    control.delete_bucket(Bucket=BUCKET)
    print(f"boto3 {boto3.__version__}, botocore {botocore.__version__}: create, put, get, list, copy, {', '.join(done)}, multipart, delete; "
          f"{in_session} requests in sessions")


main()
