#!/usr/bin/python3
"""OpenTelemetry traces at a collector: OTLP over HTTP, decoded here."""
import http.server
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from s3_case import S3Case  # noqa: E402
from verbena_server import SECRET_KEY, Server, client_environment, program  # noqa: E402

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SECRET_HEADER = "Bearer collectors-own-secret"


class Collector:
    """A collector that accepts posts and answers with `status`."""

    def __init__(self):
        self.spans, self.headers, self.paths, self.bodies, self.status = [], [], [], [], 200
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                if outer.status == 200:
                    outer.take(self.path, dict(self.headers), body)
                self.send_response(outer.status)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def take(self, path, headers, body):
        self.paths.append(path)
        self.headers.append({name.lower(): value for name, value in headers.items()})
        self.bodies.append(body.decode())
        for resource in json.loads(body)["resourceSpans"]:
            attributes = {one["key"]: one["value"] for one in resource["resource"]["attributes"]}
            assert attributes["service.name"] == {"stringValue": "verbena"}, attributes
            for scope in resource["scopeSpans"]:
                self.spans += scope["spans"]

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def trace(self, trace, least=2):
        """The spans of this trace, once they have arrived."""
        until = time.monotonic() + 30
        while time.monotonic() < until:
            found = [span for span in list(self.spans) if span["traceId"] == trace]
            if len(found) >= least:
                return found
            time.sleep(0.1)
        raise AssertionError(f"no trace {trace}; there are {[span['name'] for span in self.spans]}")


def attributes_of(span):
    values = {}
    for one in span.get("attributes", []):
        (kind, value), = one["value"].items()
        values[one["key"]] = int(value) if kind == "intValue" else value
    return values


class Traces(S3Case):
    @classmethod
    def setUpClass(cls):
        cls.collector = Collector()
        cls.server_args = ("--set", f"traces.endpoint={cls.collector.url}", "--set", "traces.sample_ratio=0",
                           "--set", f"traces.headers=authorization={SECRET_HEADER}", "--set", "traces.per_second_max=1000")
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.collector.close()

    def parent(self, number, flags="01"):
        return {"traceparent": f"00-{TRACE[:-4]}{number:04x}-{PARENT}-{flags}"}, f"{TRACE[:-4]}{number:04x}"

    def check_tree(self, spans, name, parent):
        """One span of that name is a child of the caller's; the others are below it and inside its time."""
        roots = [span for span in spans if span["name"] == name]
        self.assertEqual(len(roots), 1, spans)
        root = roots[0]
        self.assertEqual((root.get("parentSpanId"), root["kind"]), (parent, 2))
        self.assertEqual(len({span["spanId"] for span in spans}), len(spans))
        for span in spans:
            self.assertRegex(span["spanId"], "^[0-9a-f]{16}$")
            self.assertLessEqual(int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"]))
            if span is not root:
                self.assertEqual((span["parentSpanId"], span["kind"]), (root["spanId"], 1))
                self.assertGreaterEqual(int(span["startTimeUnixNano"]), int(root["startTimeUnixNano"]))
                self.assertLessEqual(int(span["endTimeUnixNano"]), int(root["endTimeUnixNano"]) + 1_000_000)
        self.assertLess(abs(int(root["startTimeUnixNano"]) / 1e9 - time.time()), 120)
        return root, {span["name"] for span in spans if span is not root}

    def test_a_gets_spans_are_its_way_through_the_rooms(self):
        bucket = self.new_bucket()
        body = b"q" * 3_000_000
        headers, trace = self.parent(1)
        self.assertEqual(self.request("PUT", f"/{bucket}/cold", headers, body).status, 200)
        root, below = self.check_tree(self.collector.trace(trace, 5), "PUT object", PARENT)
        self.assertTrue({"read", "open", "receive", "disk", "reply"} <= below, below)
        self.assertEqual(attributes_of(root)["verbena.bytes_in"], len(body))
        headers, trace = self.parent(2)
        self.assertEqual(self.request("GET", f"/{bucket}/cold", headers).body, body)
        root, below = self.check_tree(self.collector.trace(trace, 4), "GET object", PARENT)
        self.assertTrue({"read", "open", "send", "reply"} <= below, below)
        told = attributes_of(root)
        self.assertEqual((told["aws.s3.bucket"], told["aws.s3.key"], told["http.response.status_code"], told["verbena.door"]),
                         (bucket, "cold", 200, "http"))
        self.assertRegex(told["verbena.request_id"], "^[0-9A-F]{16}$")

    def test_a_cold_get_has_waited_for_memory_and_disk(self):
        directory = tempfile.mkdtemp(prefix="verbena-traces-")
        args = ("--set", f"traces.endpoint={self.collector.url}", "--set", "traces.sample_ratio=1", "--set", "cache.size=0")
        with Server(directory=directory, args=args) as server:
            env = dict(client_environment(directory), AWS_ENDPOINT_URL=server.http)

            def run(*command, **more):
                return subprocess.run([program(), *command, "--native", server.native], env=env, check=True, capture_output=True,
                                      timeout=60, **more).stdout
            run("mb", "s3://cold-bucket")
            run("put", "-", "s3://cold-bucket/k", input=b"c" * 2_000_000)
            for via in ("http", "native", "token"):
                self.assertEqual(len(run("get", "s3://cold-bucket/k", "-", "--via", via)), 2_000_000)
                spans = self.collector.trace(self.get_by(via)["traceId"], 5)
                _, below = self.check_tree(spans, "GET object", None)
                self.assertTrue({"open", "wait", "disk", "send"} <= below, (via, below))

    def test_a_client_says_to_which_trace_its_requests_belong(self):
        bucket = self.new_bucket()
        self.s3.put_object(Bucket=bucket, Key="k", Body=b"x" * 5000)
        with tempfile.TemporaryDirectory() as home:
            for number, (via, command) in enumerate([("native", ("get", f"s3://{bucket}/k", "-")), ("http", ("get", f"s3://{bucket}/k", "-")),
                                                     ("native", ("put", "-", f"s3://{bucket}/inline"))]):
                headers, trace = self.parent(0x7000 + number)
                env = dict(client_environment(pathlib.Path(home)), AWS_ENDPOINT_URL=self.server.http, TRACEPARENT=headers["traceparent"])
                subprocess.run([program(), *command, "--via", via, "--native", self.server.native], env=env, check=True, input=b"small",
                               capture_output=True, timeout=60)
                name = "GET object" if command[0] == "get" else "PUT object"
                roots, until = [], time.monotonic() + 30
                while not roots and time.monotonic() < until:  # earlier requests of the command may be reported first
                    spans = self.collector.trace(trace, 1)
                    roots = [span for span in spans if span["name"] == name]
                    time.sleep(0.05)
                self.assertEqual([span.get("parentSpanId") for span in roots], [PARENT], spans)
                self.assertEqual(attributes_of(roots[0]).get("verbena.door"), via)

    def get_by(self, door):
        until = time.monotonic() + 30
        while time.monotonic() < until:
            for span in list(self.collector.spans):
                told = attributes_of(span)
                if span["name"] == "GET object" and (told.get("verbena.door"), told.get("aws.s3.bucket")) == (door, "cold-bucket"):
                    return span
            time.sleep(0.1)
        raise AssertionError(f"no GET by {door}")

    def test_what_its_caller_does_not_record_is_not_traced(self):
        bucket = self.new_bucket()
        headers, unwanted = self.parent(3, "00")
        self.request("GET", f"/{bucket}", headers)
        self.request("GET", f"/{bucket}", {"traceparent": "nonsense"})
        self.request("GET", f"/{bucket}", {"traceparent": f"00-{'0' * 32}-{PARENT}-01"})
        headers, wanted = self.parent(4)
        self.request("GET", f"/{bucket}/none", headers)
        root, _ = self.check_tree(self.collector.trace(wanted), "GET object", PARENT)
        self.assertEqual(attributes_of(root)["error.type"], "NoSuchKey")
        self.assertEqual([span for span in self.collector.spans if span["traceId"] == unwanted], [])

    def test_no_secret_reaches_the_collector(self):
        bucket = self.new_bucket()
        customer_key = "c2VjcmV0LWtleS1vZi0zMi1ieXRlcy1leGFjdGx5ISE="
        headers, trace = self.parent(5)
        path = self.presign("GET", f"/{bucket}/x", 60)
        self.request("GET", path, headers, signed=False)
        headers, last = self.parent(6)
        self.request("PUT", f"/{bucket}/y", {**headers, "x-amz-server-side-encryption-customer-algorithm": "AES256",
                                             "x-amz-server-side-encryption-customer-key": customer_key,
                                             "x-amz-server-side-encryption-customer-key-MD5": "AAAA"}, b"body")
        self.collector.trace(trace)
        self.collector.trace(last)
        told = "".join(self.collector.bodies)
        signature = re.search("X-Amz-Signature=([0-9a-f]{32})", path).group(1)
        for word in (signature, "X-Amz", customer_key, SECRET_KEY, "collectors-own-secret"):
            self.assertNotIn(word, told)
        self.assertIn(SECRET_HEADER, [headers.get("authorization") for headers in self.collector.headers])
        self.assertEqual({headers["content-type"] for headers in self.collector.headers}, {"application/json"})
        self.assertEqual(set(self.collector.paths), {"/v1/traces"})
        env = dict(client_environment(self.server.directory), AWS_ENDPOINT_URL=self.server.http)
        config = subprocess.run([program(), "admin", "config", "--json"], env=env, capture_output=True, timeout=60, check=True).stdout
        self.assertNotIn(b"collectors-own-secret", config)
        keys = {key["key"]: key["value"] for key in json.loads(config)["keys"]}
        self.assertEqual((keys["traces.headers"], keys["traces.endpoint"]), ("***", self.collector.url))


class Lost(unittest.TestCase):
    def lost(self, server, reason):
        text = urllib.request.urlopen(server.admin_url + "/-/metrics", timeout=30).read().decode()
        found = re.search(rf'^verbena_traces_lost_total{{reason="{reason}"}} (\S+)', text, re.M)
        return float(found.group(1)) if found else 0

    def test_a_dead_collector_costs_traces_and_no_request(self):
        args = ("--set", "traces.endpoint=http://127.0.0.1:1", "--set", "traces.sample_ratio=1", "--set", "traces.per_second_max=100000")
        with Server(args=args) as server:
            env = dict(client_environment(server.directory), AWS_ENDPOINT_URL=server.http)
            run = lambda *command: subprocess.run([program(), *command], env=env, check=True, capture_output=True, timeout=60)  # noqa: E731
            doors = {door["door"]: door["address"] for door in json.loads(run("admin", "info", "--json").stdout)["doors"]}
            server.admin_url = doors["admin"]
            run("mb", "s3://bucket")
            until = time.monotonic() + 60
            while self.lost(server, "collector") == 0 and time.monotonic() < until:
                run("ls", "s3://bucket")
                time.sleep(0.3)
            self.assertGreater(self.lost(server, "collector"), 0)

    def test_what_waits_is_sent_when_the_server_stops(self):
        collector = Collector()
        self.addCleanup(collector.close)
        with Server(args=("--set", f"traces.endpoint={collector.url}", "--set", "traces.sample_ratio=1")) as server:
            env = dict(client_environment(server.directory), AWS_ENDPOINT_URL=server.http)
            subprocess.run([program(), "mb", "s3://last-words"], env=env, check=True, capture_output=True, timeout=60)
        self.assertIn("last-words", [attributes_of(span).get("aws.s3.bucket") for span in collector.spans])

    def test_an_endpoint_that_is_none_stops_the_start(self):
        for value in ("127.0.0.1:4318", "http://user:word@collector", "http://collector:port"):
            done = subprocess.run([program(), "server", "--memory", "--http", "127.0.0.1:0", "--rdma", "127.0.0.1:0",
                                   "--set", f"traces.endpoint={value}"], capture_output=True, timeout=60)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(b"traces.endpoint", done.stderr)
            self.assertNotIn(b"word", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
