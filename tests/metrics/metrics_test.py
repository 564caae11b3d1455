#!/usr/bin/python3
"""Metrics, and the rules and dashboards over them: metrics_test.py rules | dashboards | live | scraped

rules       promtool checks deploy/prometheus: syntax, and each alarm where it must fire and where not
dashboards  deploy/grafana's files equal their generator's output, and their expressions are PromQL
live        every metric in rules, dashboards and documents is exported by a running server after use of all doors
scraped     Prometheus itself scrapes a server (OpenMetrics), evaluates the rules, and has exemplars of real requests
"""
import importlib.util
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
from verbena_server import Server, boto3_client, client_environment, program  # noqa: E402

PROMETHEUS = ROOT / "deploy" / "prometheus"
GRAFANA = ROOT / "deploy" / "grafana"
RULES = PROMETHEUS / "verbena.rules.yml"
OPERATIONS = ROOT / "docs" / "operations.md"
ALARMS = 10
NAME = re.compile(r"\bverbena_\w+")
RECORDED = re.compile(r"\bverbena:[\w:]+")
# Exported only with an RDMA device.
OF_DEVICES = {"verbena_rdma_port_active", "verbena_rdma_port_counter_total"}
# Exported from their first event on, which this test does not cause: the sources must contain them.
OF_EVENTS = {
             "verbena_cache_checked_total", "verbena_fabric_connections_stalled_total", "verbena_fabric_data_endpoints_recycled_total",
             "verbena_fabric_messages_dropped_total", "verbena_fabric_operation_failures_total", "verbena_store_punched_bytes_total",
             "verbena_tcp_accepted_total", "verbena_tcp_authenticated_total", "verbena_tcp_connections",
             "verbena_tcp_refused_total", "verbena_tcp_stalled_total", "verbena_tcp_violations_total",
             "verbena_access_log_dropped_total", "verbena_bucket_log_dropped_total", "verbena_bucket_log_objects_total",
             "verbena_ended_objects_total", "verbena_events_delivered_total", "verbena_events_failures_total", "verbena_events_refused_total", "verbena_events_dropped_total", "verbena_events_let_go_total",
             "verbena_http_too_slow_total", "verbena_lifecycle_removals_total", "verbena_lifecycle_refusals_total",
             "verbena_lifecycle_aborts_total", "verbena_quota_charged_bytes_total", "verbena_quota_charged_requests_total", "verbena_quota_refusals_total", "verbena_rdma_tokens_refused_total",
             "verbena_traces_sent_total", "verbena_traces_lost_total"}
# Metrics of the engine over Ceph: tests/rados/servers_test.py compares its servers with the documents.
OF_CEPH = "verbena_rados_"
OPEN_METRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"


def rules():
    """All rules: recording rules and alarms."""
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def dashboards():
    spec = importlib.util.spec_from_file_location("dashboards", GRAFANA / "dashboards.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name: json.loads(text) for name, text in module.files()}


def expressions():
    """Expressions of all panels: (where, PromQL with Grafana's variables filled in)."""
    for name, dashboard in dashboards().items():
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                filled = target["expr"].replace("$instance", ".*").replace("$__rate_interval", "5m")
                yield f"{name}: {panel['title']}", filled


def family(name):
    """The family of a sample."""
    return re.sub(r"(_seconds)_(bucket|sum|count)$", r"\1", name)


def documented():
    """Metrics named in documents, without those of the C API and of test programs."""
    header = (ROOT / "include" / "verbena" / "verbena.h").read_text()
    api = set(NAME.findall(header))
    for path in sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]):
        for name in NAME.findall(path.read_text()):
            if path == OPERATIONS or (name.endswith("_total") and name not in api):
                yield path.name, name


def promtool(*words):
    return subprocess.run(["promtool", *map(str, words)], capture_output=True, text=True, timeout=120)


class Renamed(unittest.TestCase):
    def test_operations_lists_each_metric_with_its_old_and_its_new_name(self):
        pair = r'"(verbena_\w+)",\s*"(verbena_\w+)"'
        in_sources = set(re.findall(pair, (ROOT / "src/base/renamed_metrics.h").read_text()))
        section = OPERATIONS.read_text().split("### Metrics with a new name")[1].split("\n## ")[0]
        self.assertEqual(set(re.findall(r"\| `(\w+)` \| `(\w+)` \|", section)), in_sources)
        self.assertTrue(in_sources)


class Rules(unittest.TestCase):
    def test_prometheus_takes_rules_and_configuration(self):
        for what, path in (("rules", RULES), ("config", PROMETHEUS / "prometheus.yml")):
            done = promtool("check", what, path)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_each_alarm_fires_where_it_must_and_not_where_it_must_not(self):
        done = promtool("test", "rules", PROMETHEUS / "verbena.tests.yml")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        checks = [check for test in yaml.safe_load((PROMETHEUS / "verbena.tests.yml").read_text())["tests"]
                  for check in test["alert_rule_test"]]
        alarms = {rule["alert"] for rule in rules() if "alert" in rule}
        self.assertEqual({check["alertname"] for check in checks if check["exp_alerts"]}, alarms)
        self.assertEqual({check["alertname"] for check in checks if not check["exp_alerts"]}, alarms)

    def test_the_document_says_of_each_alarm_what_to_do(self):
        alarms = [rule for rule in rules() if "alert" in rule]
        self.assertEqual(len(alarms), ALARMS)
        headings = re.findall(r"^### (\w+)$", OPERATIONS.read_text(), re.M)
        self.assertEqual(sorted(headings), sorted(rule["alert"] for rule in alarms))
        for rule in alarms:
            self.assertEqual(rule["annotations"]["runbook"], "docs/operations.md#" + rule["alert"].lower())
            self.assertIn(rule["labels"]["severity"], ("critical", "warning"))


class Dashboards(unittest.TestCase):
    def test_they_are_what_their_program_makes(self):
        done = subprocess.run([sys.executable, GRAFANA / "dashboards.py", "--check"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual({path.name for path in GRAFANA.glob("*.json")}, set(dashboards()))

    def test_a_file_that_was_edited_by_hand_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / "dashboards.py"
            copy.write_text((GRAFANA / "dashboards.py").read_text())
            for path in GRAFANA.glob("*.json"):
                (copy.parent / path.name).write_text(path.read_text().replace("Verbena: ", "Our ", 1))
            done = subprocess.run([sys.executable, copy, "--check"], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 1, done.stdout)

    def test_their_expressions_are_promql(self):
        made = [{"record": f"check:number{i}", "expr": expression} for i, (_, expression) in enumerate(expressions())]
        self.assertGreater(len(made), 30)
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            yaml.safe_dump({"groups": [{"name": "panels", "rules": made}]}, file)
            file.flush()
            done = promtool("check", "rules", file.name)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_panels_do_not_lie_on_each_other(self):
        for name, dashboard in dashboards().items():
            cells = set()
            for panel in dashboard["panels"]:
                at = panel["gridPos"]
                self.assertLessEqual(at["x"] + at["w"], 24)
                for cell in [(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])]:
                    self.assertNotIn(cell, cells, f"{name}: {panel['title']}")
                    cells.add(cell)


class Traffic:
    """A server, after an object was written and read by each door."""

    def __init__(self, **settings):
        self.folder = tempfile.TemporaryDirectory(prefix="verbena-metrics-")
        self.home = pathlib.Path(self.folder.name)
        self.log = self.home / "access.log"
        self.data = self.home / "data"
        self.data.mkdir()
        self.server = Server(directory=self.data, env={"VERBENA_ACCESS_LOG": str(self.log), **settings})
        self.server.start()

    def close(self):
        self.server.stop()
        if os.path.exists(self.server.log_path):
            os.unlink(self.server.log_path)
        self.folder.cleanup()

    def restart(self):
        self.server.stop()
        self.server.start()

    def verbena(self, *words):
        env = dict(client_environment(self.home), AWS_ENDPOINT_URL=self.server.http)
        subprocess.run([program(), *map(str, words), "--native", self.server.native], env=env, check=True, timeout=120,
                       stdin=subprocess.DEVNULL, capture_output=True)

    def put_by_each_door(self):
        source = self.home / "source"
        source.write_bytes(os.urandom(200_000))
        self.verbena("mb", "s3://measured")
        for door in ("http", "token", "native"):
            self.verbena("put", source, f"s3://measured/{door}", "--via", door)
        s3 = boto3_client(self.server.http)
        s3.put_object(Bucket="measured", Key="sealed", Body=b"x" * 100_000, ServerSideEncryption="AES256")
        s3.close()

    def get_by_each_door(self):
        for door in ("http", "token", "native"):
            for _ in range(2):  # from disk, from memory
                self.verbena("get", f"s3://measured/{door}", self.home / "target", "--via", door)
        s3 = boto3_client(self.server.http)
        s3.get_object(Bucket="measured", Key="sealed")["Body"].read()
        s3.close()

    def scrape(self, accept="*/*"):
        request = urllib.request.Request(f"http://{self.server.native}/-/metrics", headers={"Accept": accept})
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.headers["Content-Type"], reply.read().decode()


class Live(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.traffic = Traffic()
        cls.traffic.put_by_each_door()
        cls.traffic.restart()
        cls.traffic.get_by_each_door()
        source = cls.traffic.home / "source"
        for door in ("http", "token", "native"):
            cls.traffic.verbena("put", source, f"s3://measured/again-{door}", "--via", door)
        cls.text = cls.traffic.scrape()[1]
        cls.told = set(re.findall(r"^# TYPE (\w+) ", cls.text, re.M))

    @classmethod
    def tearDownClass(cls):
        cls.traffic.close()

    def value(self, sample):
        found = re.search("^" + re.escape(sample) + r" (\S+)$", self.text, re.M)
        return float(found.group(1)) if found else None

    def assert_told(self, where, name):
        if name not in OF_DEVICES and name not in OF_EVENTS:
            self.assertIn(family(name), self.told, f"{where} names a metric that the server does not tell")

    def test_what_rules_and_dashboards_name_is_there(self):
        recorded = {rule["record"] for rule in rules() if "record" in rule}
        for where, text in [*((rule.get("alert") or rule["record"], rule["expr"]) for rule in rules()), *expressions()]:
            names = NAME.findall(text)
            self.assertTrue(names or RECORDED.findall(text) or "up{" in text, where)
            for name in names:
                self.assert_told(where, name)
            for name in RECORDED.findall(text):
                self.assertIn(name, recorded, where)

    def test_what_documents_name_is_there(self):
        for where, name in documented():
            if not name.startswith(OF_CEPH):
                self.assert_told(where, name)

    def test_each_metric_of_the_sources_is_in_a_document(self):
        described = set()
        for path in (ROOT / "docs").glob("*.md"):
            described.update(NAME.findall(path.read_text()))
        for path in (ROOT / "src").rglob("*"):
            if path.suffix in (".cc", ".h") and "test" not in path.stem.split("_"):
                for name in re.findall(r'"(verbena_\w+)",\s*"', path.read_text()):
                    if not name.startswith(OF_CEPH):
                        self.assertIn(family(name), described, path.name)

    def test_what_is_told_only_after_an_event_is_in_the_sources(self):
        sources = "".join(path.read_text() for path in (ROOT / "src").rglob("*") if path.suffix in (".cc", ".h"))
        for name in OF_DEVICES | OF_EVENTS:
            self.assertIn(f'"{name}"', sources)

    def test_each_door_has_times_of_what_went_through_it(self):
        for door in ("http", "token", "native"):
            for verb in ("get", "put"):
                labels = f'{{door="{door}",size="1MiB",verb="{verb}"}}'
                count = self.value("verbena_request_duration_seconds_count" + labels)
                self.assertIsNotNone(count, labels)
                self.assertGreaterEqual(count, 1)
                self.assertGreater(self.value("verbena_request_duration_seconds_sum" + labels), 0)

    def test_the_disk_and_the_queues_have_times(self):
        for op in ("read", "write", "sync", "log_sync"):
            self.assertGreater(self.value(f'verbena_disk_duration_seconds_count{{op="{op}"}}'), 0, op)
        for queue in ("blocking", "commit", "core"):
            self.assertGreater(self.value(f'verbena_queue_wait_seconds_count{{queue="{queue}"}}'), 0, queue)
        for op in ("read", "write"):
            self.assertGreater(self.value(f'verbena_fabric_transfer_seconds_count{{op="{op}"}}'), 0, op)

    def test_a_bucket_has_its_requests_and_bytes(self):
        self.assertGreaterEqual(self.value('verbena_bucket_requests_total{bucket="measured",op="get"}'), 7)
        self.assertEqual(self.value('verbena_bucket_requests_total{bucket="measured",op="put"}'), 3)
        self.assertEqual(self.value('verbena_bucket_bytes_total{bucket="measured",direction="in"}'), 3 * 200_000)
        self.assertGreaterEqual(self.value('verbena_bucket_bytes_total{bucket="measured",direction="out"}'), 6 * 200_000)

    def test_buckets_that_are_not_there_have_no_series(self):
        try:
            urllib.request.urlopen(f"{self.traffic.server.http}/made-up-by-a-stranger/key", timeout=30)
        except urllib.error.HTTPError as refused:
            self.assertIn(refused.code, (403, 404))
        self.assertNotIn("made-up-by-a-stranger", self.traffic.scrape()[1])

    def test_the_build_and_the_disk_are_told(self):
        version = subprocess.run([program(), "--version"], capture_output=True, text=True, timeout=60).stdout.split()[-1]
        self.assertRegex(self.text, rf'(?m)^verbena_build_info{{compiler="\w+ [^"]+",version="{re.escape(version)}"}} 1$')
        self.assertGreater(self.value("verbena_store_size_bytes"), self.value("verbena_store_free_bytes"))

    def test_exemplars_are_requests_that_the_access_log_has(self):
        kind, text = self.traffic.scrape(OPEN_METRICS)
        self.assertTrue(kind.startswith("application/openmetrics-text; version=1.0.0"), kind)
        self.assertTrue(text.endswith("# EOF\n"))
        kept = set(re.findall(r'# \{request_id="([0-9A-F]{16})"\} \S+ \d+\.\d{3}$', text, re.M))
        self.assertTrue(kept)
        logged = {json.loads(line).get("id") for line in self.traffic.log.read_text().splitlines()}
        # The log is written a moment later, so one of the last requests may be missing.
        self.assertTrue(kept & logged, (kept, len(logged)))
        self.assertEqual(self.traffic.scrape()[1].count("request_id"), 0)

    def test_a_hundred_scrapes_make_no_series(self):
        before = len(self.traffic.scrape()[1].splitlines())
        for _ in range(100):
            after = len(self.traffic.scrape(OPEN_METRICS)[1].splitlines())
        self.assertLess(abs(after - before), 200)  # the other format has one more line per family


class Scraped(unittest.TestCase):
    WAIT_S = 90

    @classmethod
    def setUpClass(cls):
        cls.traffic = Traffic()
        cls.traffic.put_by_each_door()
        cls.traffic.get_by_each_door()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            cls.address = f"127.0.0.1:{free.getsockname()[1]}"
        config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config["rule_files"] = [str(RULES)]
        config["scrape_configs"][0]["static_configs"] = [{"targets": [cls.traffic.server.native]}]
        (cls.traffic.home / "prometheus.yml").write_text(yaml.safe_dump(config))
        cls.output = open(cls.traffic.home / "prometheus.log", "wb")
        cls.process = subprocess.Popen(
            ["prometheus", f"--config.file={cls.traffic.home}/prometheus.yml", f"--storage.tsdb.path={cls.traffic.home}/tsdb",
             f"--web.listen-address={cls.address}", "--enable-feature=exemplar-storage", "--log.level=warn"],
            stdin=subprocess.DEVNULL, stdout=cls.output, stderr=cls.output)

    @classmethod
    def tearDownClass(cls):
        cls.process.send_signal(signal.SIGTERM)
        try:
            cls.process.wait(20)
        except subprocess.TimeoutExpired:
            cls.process.kill()
            cls.process.wait()
        cls.output.close()
        cls.traffic.close()

    def ask(self, path, **query):
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as reply:
            return json.load(reply)["data"]

    def until(self, what, found):
        """The first result of found() that is not empty."""
        deadline = time.monotonic() + self.WAIT_S
        last = None
        while time.monotonic() < deadline:
            try:
                last = found()
                if last:
                    return last
            except (OSError, KeyError) as error:
                last = error
            time.sleep(1)
        self.fail(f"{what}: {last!r}\n{(self.traffic.home / 'prometheus.log').read_text()[-3000:]}")

    def test_prometheus_reads_the_server_evaluates_the_rules_and_keeps_exemplars(self):
        def target():
            active = self.ask("targets")["activeTargets"]
            return active and active[0]["health"] == "up" and active[0]
        self.assertEqual(self.until("the target is up", target)["lastError"], "")
        count = self.until("requests were read", lambda: self.ask(
            "query", query='sum(verbena_request_duration_seconds_count{job="verbena"})')["result"])
        self.assertGreater(float(count[0]["value"][1]), 10)

        def evaluated():
            found = [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]
            return found and all(rule["health"] != "unknown" for rule in found) and found
        found = self.until("the rules were evaluated", evaluated)
        self.assertEqual({rule["health"] for rule in found}, {"ok"}, found)
        self.assertEqual(len(found), len(rules()))
        self.assertEqual([rule["name"] for rule in found if rule.get("state") == "firing"], [])

        def exemplars():
            now = time.time()
            return self.ask("query_exemplars", query="verbena_request_duration_seconds_bucket", start=now - 600, end=now + 60)
        kept = self.until("exemplars were kept", exemplars)
        ids = {one["labels"]["request_id"] for series in kept for one in series["exemplars"]}
        for request_id in ids:
            self.assertRegex(request_id, "^[0-9A-F]{16}$")


SUBJECTS = {"rules": Rules, "dashboards": Dashboards, "live": Live, "scraped": Scraped}

if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in SUBJECTS:
        chosen = SUBJECTS[sys.argv.pop(1)]
        unittest.main(argv=[sys.argv[0], *(sys.argv[1:] or [chosen.__name__])])
    unittest.main()
