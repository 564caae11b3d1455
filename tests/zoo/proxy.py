"""Checks for a proxy in front of the server: signatures, streams, conditions, names of all kinds."""
import io
import os
import urllib.request

from zoo import BUCKET, MIB, boto3_client, run


def check(zoo, endpoint):
    s3 = boto3_client(endpoint)
    names = {"key": "a/b c+d%/\u00e9", "meta": {"with_underscore": "x", "with.dot": "y"}}
    s3.put_object(Bucket=BUCKET, Key=names["key"], Body=b"hello", Metadata=names["meta"])
    got = s3.get_object(Bucket=BUCKET, Key=names["key"])
    assert (got["Body"].read(), got["Metadata"]) == (b"hello", names["meta"])
    big = os.urandom(33 * MIB)
    s3.upload_fileobj(io.BytesIO(big), BUCKET, "big")   # in parts, each with its checksum in a trailer
    assert s3.get_object(Bucket=BUCKET, Key="big")["Body"].read() == big
    assert s3.get_object(Bucket=BUCKET, Key="big", Range="bytes=5-9")["Body"].read() == big[5:10]
    whole = os.urandom(20 * MIB)
    s3.put_object(Bucket=BUCKET, Key="whole", Body=whole)
    assert s3.head_object(Bucket=BUCKET, Key="whole")["ContentLength"] == len(whole)
    url = s3.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": names["key"]})
    assert urllib.request.urlopen(url).read() == b"hello"
    assert len(s3.list_objects_v2(Bucket=BUCKET)["Contents"]) == 3
    assert s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": "whole"}]})["Deleted"]
    tree = zoo.home / "tree"
    tree.mkdir()
    (tree / "streamed").write_bytes(os.urandom(9 * MIB))
    run("aws", "--endpoint-url", endpoint, "s3", "sync", tree, f"s3://{BUCKET}/tree", env=zoo.env)
    assert urllib.request.urlopen(f"{endpoint}/-/health").read() == b"ok\n"
