"""A test case against one server: boto3 as users have it, and raw signed requests for what boto3 cannot send."""
import http.client
import unittest
import urllib.parse
import xml.etree.ElementTree as tree

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import botocore.exceptions

from verbena_server import ACCESS_KEY, SECRET_KEY, Server, boto3_client

NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"


class Reply:
    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    def xml(self):
        return tree.fromstring(self.body)

    def text(self, element):
        """The text of the first element of that name, with or without S3's namespace."""
        for found in self.xml().iter():
            if found.tag.removeprefix(NAMESPACE) == element:
                return found.text
        return None

    @property
    def code(self):
        return self.text("Code") if self.body else None


class S3Case(unittest.TestCase):
    server_args = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(args=cls.server_args)
        cls.server.start()
        cls.s3 = boto3_client(cls.server.http)
        cls.buckets = 0

    @classmethod
    def tearDownClass(cls):
        cls.s3.close()
        cls.server.__exit__(None, None, None)

    def new_bucket(self, **arguments):
        type(self).buckets += 1
        name = f"bucket-{self.buckets}"
        self.s3.create_bucket(Bucket=name, **arguments)
        return name

    def assert_error(self, code, status, call, **arguments):
        """boto3's call fails with that code and status. HEAD has no body: its code is the status."""
        with self.assertRaises(botocore.exceptions.ClientError) as caught:
            call(**arguments)
        reply = caught.exception.response
        self.assertEqual((reply["Error"]["Code"], reply["ResponseMetadata"]["HTTPStatusCode"]), (code, status))
        return reply

    @property
    def address(self):
        return self.server.http.split("//")[1]

    def sign(self, method, path, headers=None, body=b"", service="s3", key=ACCESS_KEY, secret=SECRET_KEY, region="us-east-1"):
        """A signed request's headers. x-amz-content-sha256 may be among `headers`."""
        request = botocore.awsrequest.AWSRequest(method, self.server.http + path, dict(headers or {}), body)
        signer = botocore.auth.S3SigV4Auth(botocore.credentials.Credentials(key, secret), service, region)
        request.context["payload_signing_enabled"] = True
        given = request.headers.get("x-amz-content-sha256")
        if given:
            signer.payload = lambda _: given
        signer.add_auth(request)
        return dict(request.headers.items())

    def presign(self, method, path, expires_s):
        """The path and query of a presigned URL (version 4)."""
        request = botocore.awsrequest.AWSRequest(method, self.server.http + path)
        credentials = botocore.credentials.Credentials(ACCESS_KEY, SECRET_KEY)
        botocore.auth.S3SigV4QueryAuth(credentials, "s3", "us-east-1", expires=expires_s).add_auth(request)
        return request.url.removeprefix(self.server.http)

    def request(self, method, path, headers=None, body=b"", signed=True):
        """Sends one request unchanged; `path` contains the query and is not encoded again."""
        headers = self.sign(method, path, headers, body) if signed else dict(headers or {})
        connection = http.client.HTTPConnection(self.address, timeout=30)
        try:
            connection.request(method, path, body or None, headers)
            return Reply(connection.getresponse())
        finally:
            connection.close()


def quote(text):
    return urllib.parse.quote(text, safe="")
