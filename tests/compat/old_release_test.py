#!/usr/bin/python3
"""What an older program wrote is read by this one, and an older client library is served by it.

    old_release_test.py directory [RECORD]      opens a recorded data directory and compares all of it with what its
                                                manifest says (RECORD: data_b0a5b82.tar.xz beside this file)
    old_release_test.py record PROGRAM RECORD   has an older program write such a directory
    old_release_test.py clients OLD_BUILD BUILD by hand: the C program of tests/abi, linked with the older library, against
                                                this server, and this library's against the older server; on the engine
                                                over Ceph, too, a cluster that the older server filled is read by this one

An older program is built from its commit: `git worktree add --detach ../old b0a5b82`, then in that folder
`cmake --preset release && ninja -C build verbena verbena_abi_client`.
"""
import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
import verbena_server  # noqa: E402
from verbena_server import ACCESS_KEY, SECRET_KEY, Server, boto3_client, client_environment, program  # noqa: E402

RECORD = HERE / "data_b0a5b82.tar.xz"
PART = 5 << 20
SIZES = (0, 1, 4096, 16_385, 65_536, 65_537, 300_000)
KEYS = ("plain", "with space", "a/b/c", "ünïcode/ключ", "per%25cent", "plus+and&amp;", "x" * 1024)
LIFECYCLE = {"Rules": [{"ID": "old", "Status": "Enabled", "Filter": {"Prefix": "never/"}, "Expiration": {"Days": 3650}}]}
CORS = {"CORSRules": [{"AllowedMethods": ["GET"], "AllowedOrigins": ["https://example.org"], "MaxAgeSeconds": 5}]}


def content(name, size):
    """Compressible bytes (to keep the record small) that identify their object."""
    seed = hashlib.sha256(name.encode()).digest() * 2
    return (seed * (size // len(seed) + 1))[:size]


def policy(bucket):
    return {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject",
                                                    "Resource": f"arn:aws:s3:::{bucket}/public/*"}]}


def fill_objects(s3):
    s3.create_bucket(Bucket="old-plain")
    for size in SIZES:
        s3.put_object(Bucket="old-plain", Key=f"size/{size}", Body=content(f"size/{size}", size),
                      Metadata={"origin": "old"}, ContentType="text/x-old", CacheControl="no-cache",
                      Tagging="kind=old&size=" + str(size))
    for key in KEYS:
        s3.put_object(Bucket="old-plain", Key=f"key/{key}"[:1024], Body=content(key, 100))
    for algorithm in ("CRC32", "CRC32C", "SHA1", "SHA256", "CRC64NVME"):
        try:
            s3.put_object(Bucket="old-plain", Key=f"sum/{algorithm}", Body=content(algorithm, 5000), ChecksumAlgorithm=algorithm)
        except Exception as refused:  # an older boto3 lacks some of them
            print("not made by this boto3:", algorithm, type(refused).__name__)
    s3.put_object(Bucket="old-plain", Key="public/readme", Body=b"for all")
    s3.put_bucket_lifecycle_configuration(Bucket="old-plain", LifecycleConfiguration=LIFECYCLE)
    s3.put_bucket_cors(Bucket="old-plain", CORSConfiguration=CORS)
    s3.put_bucket_policy(Bucket="old-plain", Policy=json.dumps(policy("old-plain")))
    s3.put_bucket_tagging(Bucket="old-plain", Tagging={"TagSet": [{"Key": "team", "Value": "old"}]})


def fill_versions(s3):
    s3.create_bucket(Bucket="old-versions")
    s3.put_object(Bucket="old-versions", Key="before", Body=b"null version")
    s3.put_bucket_versioning(Bucket="old-versions", VersioningConfiguration={"Status": "Enabled"})
    for number in range(5):
        s3.put_object(Bucket="old-versions", Key="many", Body=content(f"many{number}", 1000 + number))
    s3.put_object(Bucket="old-versions", Key="before", Body=b"first real version")
    s3.delete_object(Bucket="old-versions", Key="many")
    s3.put_object(Bucket="old-versions", Key="removed", Body=b"gone, but a version")
    s3.delete_object(Bucket="old-versions", Key="removed")
    s3.put_bucket_versioning(Bucket="old-versions", VersioningConfiguration={"Status": "Suspended"})
    s3.put_object(Bucket="old-versions", Key="many", Body=b"the null version of many")


def fill_uploads(s3):
    s3.create_bucket(Bucket="old-uploads")
    upload = s3.create_multipart_upload(Bucket="old-uploads", Key="whole", Metadata={"parts": "2"})["UploadId"]
    parts = []
    for number, size in ((1, PART), (3, 777)):
        etag = s3.upload_part(Bucket="old-uploads", Key="whole", UploadId=upload, PartNumber=number,
                              Body=content(f"part{number}", size))["ETag"]
        parts.append({"PartNumber": number, "ETag": etag})
    s3.complete_multipart_upload(Bucket="old-uploads", Key="whole", UploadId=upload, MultipartUpload={"Parts": parts})
    upload = s3.create_multipart_upload(Bucket="old-uploads", Key="open", ContentType="text/x-open")["UploadId"]
    s3.upload_part(Bucket="old-uploads", Key="open", UploadId=upload, PartNumber=1, Body=content("open1", PART))
    s3.upload_part(Bucket="old-uploads", Key="open", UploadId=upload, PartNumber=2, Body=content("open2", 99))


def fill_locked(s3):
    s3.create_bucket(Bucket="old-locked", ObjectLockEnabledForBucket=True)
    s3.put_object(Bucket="old-locked", Key="held", Body=b"held", ObjectLockLegalHoldStatus="ON")
    s3.put_object(Bucket="old-locked", Key="kept", Body=b"kept", ObjectLockMode="COMPLIANCE",
                  ObjectLockRetainUntilDate="2099-01-01T00:00:00Z")
    s3.create_bucket(Bucket="old-sealed")
    s3.put_object(Bucket="old-sealed", Key="sse", Body=content("sse", 70_000), ServerSideEncryption="AES256")


def keys_of(made):
    return {"aws_access_key_id": made["access_key"], "aws_secret_access_key": made["secret_key"]}


def user_client(server, made):
    import boto3
    from botocore.config import Config
    return boto3.client("s3", endpoint_url=server.http, region_name="us-east-1", config=Config(s3={"addressing_style": "path"}),
                        **keys_of(made))


def fill_users(server):
    """An account with a bucket, and a user with the right to read it."""
    def call(*words, given=None):
        env = dict(client_environment(server.directory), AWS_ENDPOINT_URL=server.http)
        done = subprocess.run([server.program or program(), "user", *words], input=given, capture_output=True, text=True, env=env,
                              timeout=60)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout
    account = json.loads(call("add", "old", "--json"))
    user = json.loads(call("add", "old/reader", "--json"))
    read = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["s3:GetObject", "s3:ListBucket"], "Resource": "*"}]}
    call("policy", "put", "old/reader", "read", "-", given=json.dumps(read))
    s3 = user_client(server, account)
    s3.create_bucket(Bucket="old-account")
    s3.put_object(Bucket="old-account", Key="of the account", Body=content("account", 4096))
    s3.close()
    return {"account": account, "user": user}


def fill(server):
    s3 = boto3_client(server.http)
    fill_objects(s3)
    fill_versions(s3)
    fill_uploads(s3)
    fill_locked(s3)
    s3.close()


def listing(s3, call, key, **arguments):
    return [entry for page in s3.get_paginator(call).paginate(**arguments) for entry in page.get(key, [])]


def describe_object(s3, bucket, key, version=None):
    extra = {"VersionId": version} if version else {}
    answer = s3.get_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED", **extra)
    body = answer["Body"].read()
    fields = ("ContentLength", "ETag", "ContentType", "CacheControl", "Metadata", "VersionId", "ServerSideEncryption", "PartsCount",
              "TagCount", "ObjectLockMode", "ObjectLockLegalHoldStatus", "ChecksumCRC32", "ChecksumCRC32C", "ChecksumSHA1",
              "ChecksumSHA256", "ChecksumCRC64NVME", "ChecksumType", "StorageClass")
    facts = {name: answer[name] for name in fields if name in answer}
    facts["modified"] = answer["LastModified"].isoformat()
    facts["sha256"] = hashlib.sha256(body).hexdigest()
    if not version:
        facts["tags"] = s3.get_object_tagging(Bucket=bucket, Key=key)["TagSet"]
        ranged = s3.get_object(Bucket=bucket, Key=key, Range="bytes=0-9")["Body"].read() if body else b""
        assert ranged == body[:10], (bucket, key)
    return facts


def describe(server):
    """All readable content of a server, as one comparable document."""
    s3 = boto3_client(server.http)
    seen = {"buckets": [], "objects": {}, "versions": {}, "uploads": {}, "documents": {}}
    for bucket in s3.list_buckets()["Buckets"]:
        name = bucket["Name"]
        seen["buckets"].append([name, bucket["CreationDate"].isoformat()])
        for entry in listing(s3, "list_objects_v2", "Contents", Bucket=name):
            seen["objects"][f"{name}/{entry['Key']}"] = {
                "listed": [entry["Size"], entry["ETag"], entry["LastModified"].isoformat()], **describe_object(s3, name, entry["Key"])}
        for entry in listing(s3, "list_object_versions", "Versions", Bucket=name):
            key = f"{name}/{entry['Key']}?{entry['VersionId']}"
            seen["versions"][key] = [entry["IsLatest"], describe_object(s3, name, entry["Key"], entry["VersionId"])]
        for entry in listing(s3, "list_object_versions", "DeleteMarkers", Bucket=name):
            seen["versions"][f"{name}/{entry['Key']}?{entry['VersionId']}"] = [entry["IsLatest"], "marker"]
        for upload in listing(s3, "list_multipart_uploads", "Uploads", Bucket=name):
            parts = listing(s3, "list_parts", "Parts", Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])
            seen["uploads"][f"{name}/{upload['Key']}"] = [[p["PartNumber"], p["Size"], p["ETag"]] for p in parts]
        seen["documents"][name] = documents(s3, name)
    s3.close()
    return json.loads(json.dumps(seen, sort_keys=True, default=str))


def documents(s3, bucket):
    kept = {}
    for call, fields in (("get_bucket_lifecycle_configuration", "Rules"), ("get_bucket_cors", "CORSRules"),
                         ("get_bucket_policy", "Policy"), ("get_bucket_tagging", "TagSet"), ("get_bucket_versioning", "Status"),
                         ("get_object_lock_configuration", "ObjectLockConfiguration")):
        try:
            kept[call] = getattr(s3, call)(Bucket=bucket).get(fields)
        except s3.exceptions.ClientError as none:
            kept[call] = none.response["Error"]["Code"]
    return kept


def go_on(server):
    """Completes what was left unfinished, and checks that locks still hold."""
    s3 = boto3_client(server.http)
    (upload,) = listing(s3, "list_multipart_uploads", "Uploads", Bucket="old-uploads")
    named = {"Bucket": "old-uploads", "Key": "open", "UploadId": upload["UploadId"]}
    parts = [{"PartNumber": p["PartNumber"], "ETag": p["ETag"]} for p in listing(s3, "list_parts", "Parts", **named)]
    s3.complete_multipart_upload(MultipartUpload={"Parts": parts}, **named)
    whole = s3.get_object(Bucket="old-uploads", Key="open")["Body"].read()
    assert whole == content("open1", PART) + content("open2", 99)
    for key in ("held", "kept"):
        (version,) = listing(s3, "list_object_versions", "Versions", Bucket="old-locked", Prefix=key)
        try:
            s3.delete_object(Bucket="old-locked", Key=key, VersionId=version["VersionId"])
        except s3.exceptions.ClientError as refused:
            assert refused.response["Error"]["Code"] == "AccessDenied", refused
        else:
            raise AssertionError(f"a locked version of before was removed: {key}")
    s3.put_object(Bucket="old-plain", Key="size/4096", Body=b"overwritten")
    s3.delete_object(Bucket="old-plain", Key="size/1")
    s3.delete_object(Bucket="old-versions", Key="many")
    s3.close()


def compare(before, after):
    differing = [f"{part}: {name}: {before[part][name]} -> {after[part].get(name)}"
                 for part in ("objects", "versions", "uploads", "documents")
                 for name in before[part] if before[part][name] != after[part].get(name)]
    new = [f"{part}: {name}" for part in ("objects", "versions", "uploads") for name in after[part] if name not in before[part]]
    assert before["buckets"] == after["buckets"], (before["buckets"], after["buckets"])
    assert not differing and not new, "\n".join(differing + new)
    print(f"as it was written: {len(before['buckets'])} buckets, {len(before['objects'])} objects, {len(before['versions'])} versions")


def record(old_program, to):
    with tempfile.TemporaryDirectory(prefix="verbena-old-") as folder:
        data = pathlib.Path(folder) / "data"
        data.mkdir()
        server = Server(directory=data)
        server.program = old_program
        with server:
            fill(server)
            made = fill_users(server)
            manifest = {"seen": describe(server), "made": made}
        (pathlib.Path(folder) / "manifest.json").write_text(json.dumps(manifest, indent=1, sort_keys=True))
        with tarfile.open(to, "w:xz", preset=9) as archive:
            archive.add(pathlib.Path(folder) / "manifest.json", "manifest.json")
            archive.add(data, "data")
    print(f"{to}: {os.path.getsize(to)} bytes")


def check_directory(archive):
    with tempfile.TemporaryDirectory(prefix="verbena-old-") as folder:
        subprocess.run(["tar", "-xJSf", archive, "-C", folder], check=True)
        manifest = json.loads((pathlib.Path(folder) / "manifest.json").read_text())
        server = Server(directory=pathlib.Path(folder) / "data")
        with server:
            compare(manifest["seen"], describe(server))
            check_users(server, manifest["made"])
            go_on(server)
            server.kill()
        after = Server(directory=pathlib.Path(folder) / "data")
        with after:
            seen = describe(after)
            assert seen["objects"]["old-uploads/open"]["ContentLength"] == PART + 99
            assert "old-plain/size/1" not in seen["objects"] and seen["objects"]["old-plain/size/4096"]["ContentLength"] == 11
        checked = subprocess.run([program(), "fsck", str(pathlib.Path(folder) / "data")], capture_output=True, text=True, timeout=120)
        assert checked.returncode == 0, checked.stdout + checked.stderr
    print("a directory of before opens, goes on, and is sound")


def check_users(server, made):
    account, user = user_client(server, made["account"]), user_client(server, made["user"])
    assert [bucket["Name"] for bucket in account.list_buckets()["Buckets"]] == ["old-account"]
    assert user.get_object(Bucket="old-account", Key="of the account")["Body"].read() == content("account", 4096)
    try:
        user.put_object(Bucket="old-account", Key="not", Body=b"allowed")
    except user.exceptions.ClientError as refused:
        assert refused.response["Error"]["Code"] == "AccessDenied", refused
    else:
        raise AssertionError("a user's policy of before is not kept")
    account.close()
    user.close()


def run_client(client, library, server, via):
    env = {"AWS_ENDPOINT_URL": server.http, "VERBENA_NATIVE": server.native, "AWS_ACCESS_KEY_ID": ACCESS_KEY,
           "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "HOME": "/nonexistent", "LD_LIBRARY_PATH": str(library / "lib")}
    done = subprocess.run([client, via, str(server.process.pid)], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, (client, via, done.returncode, done.stdout, done.stderr)
    print(done.stdout.strip())


def check_clients(old, new):
    sides = ((old, new, "an older client, this server"), (new, old, "this client, an older server"))
    for client, serving, said in sides:
        server = Server()
        server.program = str(serving / "verbena")
        with server:
            for via in ("native", "http", "auto"):
                print(said, via, end=": ")
                run_client(str(client / "bin" / "verbena_abi_client"), client, server, via)
    verbena_server.ON_RADOS = True
    with tempfile.TemporaryDirectory(prefix="verbena-old-") as folder:
        (pathlib.Path(folder) / "data").mkdir()
        server = Server(directory=pathlib.Path(folder) / "data")
        server.program = str(old / "verbena")
        with server:
            fill(server)
            before = describe(server)
        server = Server(directory=pathlib.Path(folder) / "data")
        server.program = str(new / "verbena")
        with server:
            compare(before, describe(server))
            go_on(server)
    print("a cluster of before opens and goes on")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("mode", choices=("directory", "record", "clients"))
    arguments.add_argument("paths", nargs="*")
    given = arguments.parse_args()
    if given.mode == "record":
        record(*given.paths)
    elif given.mode == "clients":
        check_clients(*(pathlib.Path(path).resolve() for path in given.paths))
    else:
        check_directory(given.paths[0] if given.paths else RECORD)


main()
