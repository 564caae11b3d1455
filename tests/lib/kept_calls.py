"""Requests by one kept connection, signed here: where hundreds of small ones follow each other, as after each power cut,
boto3 takes most of the time, and its import alone seconds of an emulated processor."""
import datetime
import hashlib
import hmac
import http.client
import urllib.parse

from verbena_server import ACCESS_KEY, SECRET_KEY

REGION, PAYLOAD = "us-east-1", "UNSIGNED-PAYLOAD"
SIGNED = "host;x-amz-content-sha256;x-amz-date"


def mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class Calls:
    def __init__(self, endpoint):
        self.host = urllib.parse.urlsplit(endpoint).netloc
        self.connection = http.client.HTTPConnection(self.host, timeout=60)
        self.day, self.key = None, None

    def signature(self, method, path, query, now):
        day = now[:8]
        if day != self.day:
            self.day, self.key = day, mac(("AWS4" + SECRET_KEY).encode(), day)
            for word in (REGION, "s3", "aws4_request"):
                self.key = mac(self.key, word)
        asked = "\n".join([method, path, query, f"host:{self.host}", f"x-amz-content-sha256:{PAYLOAD}", f"x-amz-date:{now}", "",
                           SIGNED, PAYLOAD])
        scope = f"{day}/{REGION}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(asked.encode()).hexdigest()}"
        return f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/{scope}, SignedHeaders={SIGNED}, Signature={mac(self.key, text).hex()}"

    def call(self, method, path, query="", body=None):
        """Of a path and query that are encoded as S3 signs them: (status, headers, body)."""
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        headers = {"x-amz-content-sha256": PAYLOAD, "x-amz-date": now,
                   "Authorization": self.signature(method, path, query, now)}
        self.connection.request(method, f"{path}?{query}" if query else path, body, headers)
        reply = self.connection.getresponse()
        return reply.status, reply.headers, reply.read()

    def get(self, bucket, key, version=None):
        """(status, ETag, body)"""
        path = urllib.parse.quote(f"/{bucket}/{key}", safe="/~")
        query = f"versionId={urllib.parse.quote(version, safe='~')}" if version else ""
        status, headers, body = self.call("GET", path, query)
        return status, headers["ETag"], body
