#!/usr/bin/python3
"""The running server in the console: its live metrics page."""
import json
import os
import subprocess
import sys
import time

import boto3

from console_case import ROOT, InBrowser, admin_of, main
from verbena_server import ACCESS_KEY, SECRET_KEY, Server, boto3_client

sys.path.insert(0, str(ROOT / "tests" / "events"))
from targets import Webhook, free_port, wait_until  # noqa: E402


class Operator(InBrowser):
    @classmethod
    def server_args(cls, home):
        return ("--set", f"access_log={home / 'access.log'}", "--set", f"events.targets=shelf=file://{home / 'events.jsonl'}")

    def test_the_doors_are_told_live(self):
        browser = self.browser
        self.bucket("busy")
        body = os.urandom(3_000_000)
        self.s3.put_object(Bucket="busy", Key="one", Body=body)
        self.s3.get_object(Bucket="busy", Key="one")["Body"].read()
        program = os.environ.get("VERBENA") or str(ROOT / "build" / "verbena")
        env = dict(os.environ, AWS_ACCESS_KEY_ID=ACCESS_KEY, AWS_SECRET_ACCESS_KEY=SECRET_KEY, AWS_ENDPOINT_URL=self.server.http, HOME=str(self.home))
        for _ in range(4):
            subprocess.run([program, "get", "s3://busy/one", self.home / "one", "--via", "native", "--native", self.server.native], env=env, check=True, timeout=60,
                           stdin=subprocess.DEVNULL, capture_output=True)
        browser.click("Buckets")
        browser.run("""(() => { const real = window.fetch
            window.asked = []
            window.fetch = (url, how) => { if (url.startsWith('/-/admin/')) asked.push(url + ' ' + how.body); return real(url, how) } })()""")
        browser.click("Live")
        browser.wait("((rates) => rates.length > 0 && rates.every((e) => e.innerText !== '–'))(Array.from(document.querySelectorAll('.hero tbody tr td:nth-child(3)')))", "rates")
        self.assertEqual(browser.run("document.querySelector('.hero b').innerText"), "0 %", "the server has no RDMA device")
        self.assertRegex(browser.run("document.querySelector('.hero .hint').innerText"), "by shared memory.*by HTTP")
        browser.sees("busy")
        browser.wait("document.querySelector('[aria-label=\"Bytes by provider\"]')?.innerText.includes('local')", "the provider")
        self.assertEqual(set(browser.run("asked")), {'/-/admin/top {"sums":false}'}, "nobody watches the server's requests for it")
        self.picture("live")
        self.assert_accessible("live")
        browser.dark(True)
        self.picture("live-dark")

    def live_with(self, extra):
        """Live, with these metrics besides the server's: those of a machine with other devices."""
        self.browser.click("Buckets")
        self.browser.run(f"""(() => {{ const real = window.fetch
            window.fetch = async (url, how) => {{ const answer = await real(url, how)
              return url.endsWith('/-/metrics') ? new Response({json.dumps(extra)} + await answer.text()) : answer }} }})()""")
        self.browser.click("Live")

    def test_a_ports_counters_are_told_and_what_went_wrong_there(self):
        browser = self.browser
        extra = "".join(f'verbena_rdma_port_counter_total{{counter="{name}",device="mlx5_0",port="1"}} {value}\n'
                        for name, value in (("port_rcv_data", 262144), ("port_xmit_data", 524288), ("symbol_error", 7), ("out_of_sequence", 0), ("unicast_rcv_packets", 5)))
        self.live_with('verbena_rdma_port_active{device="mlx5_0",port="1"} 1\n' + extra)
        browser.wait("document.querySelector('[aria-label=\"RDMA ports\"]')?.innerText.includes('mlx5_0')", "the port")
        said = browser.run("document.querySelector('[aria-label=\"RDMA ports\"] tbody').innerText.split(/\\s*\\t\\s*/)")
        self.assertEqual(said, ["mlx5_0", "1", "active", "1.0 MiB", "2.0 MiB", "symbol_error 7"])

    def test_gpus_that_copy_for_the_server_are_told_and_where_there_are_none_nothing_is(self):
        browser = self.browser
        browser.click("Live")
        browser.sees("How long requests take")
        self.assertIsNone(browser.run("document.querySelector('[aria-label=\"Memory of GPUs\"]')"))
        self.live_with("".join(f"verbena_gpudirect_{name} {value}\n" for name, value in (
            ("devices", 2), ("copies_total", 12), ("copies_failed_total", 1), ('bytes_total{direction="to_device"}', 3 << 20),
            ('bytes_total{direction="from_device"}', 1 << 20), ("mapped_bytes", 4096))))
        gpus = "document.querySelector('[aria-label=\"Memory of GPUs\"]')"
        browser.wait(f"{gpus}?.innerText.includes('0 B/s')", "the rates")
        self.assertEqual(browser.run(f"{gpus}.querySelector('tbody').innerText.split(/\\s*\\t\\s*/)"),
                         ["direct", "3.0 MiB", "1.0 MiB", "12", "1", "0 B/s", "0 B/s", "0/s"])
        self.assertIn("2 GPUs", browser.run(f"{gpus}.innerText"))
        self.assert_accessible("live of GPUs")

    def test_the_server_tells_of_itself_its_sessions_events_and_log(self):
        browser = self.browser
        self.bucket("held")
        program = os.environ.get("VERBENA") or str(ROOT / "build" / "verbena")
        env = dict(os.environ, AWS_ACCESS_KEY_ID=ACCESS_KEY, AWS_SECRET_ACCESS_KEY=SECRET_KEY, AWS_ENDPOINT_URL=self.server.http, HOME=str(self.home))
        # An upload that sends no bytes keeps its session open.
        holder = subprocess.Popen([program, "put", "-", "s3://held/one", "--via", "native", "--native", self.server.native], env=env, stdin=subprocess.PIPE,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            browser.click("Server")
            browser.sees("What it is")
            browser.sees("process")
            browser.sees("limit nofile")
            self.picture("server")
            self.assert_accessible("server")
            holder.stdin.write(b"x" * 20_000_000)
            holder.stdin.flush()
            browser.click("Sessions")
            # One load at a time: the button's answer to an earlier one may be older than the session.
            browser.wait("""(async () => {
                const shown = () => document.querySelector('main tbody')?.innerText
                if (shown()) return true
                Array.from(document.querySelectorAll('main button')).find((b) => b.title === 'Load again').click()
                for (let turns = 0; turns < 40 && !shown(); ++turns) await new Promise((then) => setTimeout(then, 50))
                return Boolean(shown()) })()""", "the session that is held", 60)
            # Waited for: the table is away while a load that the page began by itself is on its way.
            browser.wait("Boolean(document.querySelector('main tbody')?.innerText.includes('local'))", "the way of the session")
            self.picture("sessions")
            self.assert_accessible("sessions")
            browser.run("document.querySelector('main tbody .acts button').click()")
            browser.wait("Boolean(document.querySelector('dialog[open]'))", "the question")
            browser.click("End session")
            browser.wait("document.getElementById('announcer').textContent.endsWith('is ended')")
        finally:
            holder.kill()
            holder.wait()
            holder.stdin.close()
        browser.click("Events")
        browser.sees("shelf")
        browser.click("Upkeep")
        browser.sees("Versions removed")
        browser.sees("Damaged blocks")
        self.picture("upkeep")
        self.assert_accessible("upkeep")
        browser.click("Log")
        browser.sees("session opened")
        browser.fill("That say", "ended by arn:aws:iam")
        browser.wait("document.querySelectorAll('main tbody tr').length === 1", "the one line")
        self.picture("log")
        self.assert_accessible("log")

    def test_the_doctor_names_the_command_that_mends(self):
        browser = self.browser
        browser.click("Server")
        browser.sees("disk of the access log")
        doctor = "document.querySelector('[aria-label=\"Findings of the doctor\"]')"
        self.assertGreater(browser.run(f"{doctor}.querySelectorAll('tbody tr').length"), 8)
        program = os.environ.get("VERBENA") or str(ROOT / "build" / "verbena")
        env = dict(os.environ, AWS_ACCESS_KEY_ID=ACCESS_KEY, AWS_SECRET_ACCESS_KEY=SECRET_KEY, AWS_ENDPOINT_URL=self.server.http, HOME=str(self.home))
        told = subprocess.run([program, "admin", "doctor", "--json"], env=env, timeout=60, stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout
        commands = {json.loads(line)["command"] for line in told.splitlines()} - {""}
        self.assertEqual(set(browser.run(f"Array.from({doctor}.querySelectorAll('.secret code'), (e) => e.innerText)")), commands)
        browser.run(f"{doctor}.scrollIntoView()")
        self.picture("doctor")

    def search(self, **fields):
        """Runs a search; returns its rows."""
        browser = self.browser
        for label, text in fields.items():
            name = label.replace("_", " ")
            (browser.choose if name in ("When", "Outcome") else browser.fill)(name, text)
        browser.run("document.querySelector('main form .button.main').click()")
        browser.wait("document.body.innerText.includes('That is all.') || document.body.innerText.includes('Searched back to')", "the search's end")
        return browser.run("Array.from(document.querySelectorAll('main .table tbody tr'), (row) => Array.from(row.cells, (cell) => cell.innerText.trim()))")

    def test_the_audit_log_is_searched(self):
        browser = self.browser
        self.bucket("files")
        for n in range(230):
            self.s3.put_object(Bucket="files", Key=f"made/{n:03}", Body=b"x")
        evil = "<img src=x onerror=\"window.hit=1\">\u202e"
        self.s3.put_object(Bucket="files", Key=evil, Body=b"x")
        self.s3.delete_object(Bucket="files", Key="made/007")
        with self.assertRaises(self.s3.exceptions.NoSuchKey):
            self.s3.get_object(Bucket="files", Key="made/007")
        log, until = self.home / "access.log", time.monotonic() + 30
        while "NoSuchKey" not in log.read_text() and time.monotonic() < until:
            time.sleep(0.05)
        self.go("#/server/audit")
        browser.sees("Searched back to")
        rows = self.search(Bucket="files", Key_begins_with="made/007")
        self.assertEqual([row[2] for row in rows], ["GET object", "DELETE object", "PUT object"])
        self.assertEqual([row[5] for row in rows], ["404 NoSuchKey", "204", "200"])
        rows = self.search(Outcome="failed")
        self.assertEqual(len(rows), 1)
        browser.run("document.querySelector('main tbody .link').click()")
        browser.sees("Request id")
        self.picture("audit-request")
        self.assert_accessible("a line of the audit log")
        browser.press("Escape")
        self.assertEqual(len(self.search(Outcome="", Key_begins_with="made/")), 100)
        self.picture("audit")
        self.assert_accessible("audit")
        for rows in (200, 232):
            browser.click("Older")
            browser.wait(f"document.querySelectorAll('main tbody tr').length === {rows}", f"{rows} rows")
        browser.sees("That is all.")
        rows = self.search(Key_begins_with="<img")
        self.assertEqual([row[3] for row in rows], ["files/<img src=x onerror=\"window.hit=1\">\ufffd"])
        self.assertEqual(browser.run("[document.querySelectorAll('main img').length, window.hit].join()"), "0,")
        self.search(Key_begins_with="", From_address="nonsense")
        browser.sees("peer must be an address")

    def test_who_may_only_search_sees_that_page_alone(self):
        iam = boto3.client("iam", endpoint_url=self.server.http, region_name="us-east-1", aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY)
        iam.create_user(UserName="auditor")
        allowed = {"Effect": "Allow", "Action": "admin:SearchAudit", "Resource": "*"}
        iam.put_user_policy(UserName="auditor", PolicyName="p", PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [allowed]}))
        key = iam.create_access_key(UserName="auditor")["AccessKey"]
        iam.close()
        browser = self.browser
        browser.click("Sign out")
        browser.fill("Access key", key["AccessKeyId"])
        browser.fill("Secret key", key["SecretAccessKey"])
        browser.click("Sign in")
        browser.wait("Boolean(document.querySelector('.frame'))", "the console")
        self.assertNotIn("Live", browser.run("document.querySelector('nav').innerText"))
        browser.click("Server")
        browser.sees("Searched back to")
        self.assertEqual(browser.run("Array.from(document.querySelectorAll('[role=tab]'), (e) => e.innerText.trim())"), ["Audit"])

    def test_who_keeps_no_audit_log_is_told_how_to(self):
        with Server(memory=True) as server:
            self.browser.open(admin_of(server) + "/")
            self.sign_in()
            self.go("#/server/audit")
            self.browser.sees("There is no access log")
            self.browser.sees("access_log: /var/lib/verbena/access.log")
            self.assert_accessible("no audit log")


class Notifications(InBrowser):
    """Targets that do not accept their events: one refuses an event, one is no longer configured."""

    @classmethod
    def server_args(cls, home):
        cls.hook = Webhook(refuses=b"poison")
        targets = [f"picky=http://127.0.0.1:{cls.hook.port}/", f"shelf=file://{home / 'events.jsonl'}"]
        cls.later = ["--set", "events.targets=" + ",".join(targets), "--set", "events.allow_private=picky"]
        return ["--set", "events.targets=" + ",".join([*targets, f"old=http://127.0.0.1:{free_port()}/"]), "--set", "events.allow_private=picky,old"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, target in (("orders", "picky"), ("archive", "old")):
            cls.s3.create_bucket(Bucket=name)
            rule = {"QueueArn": f"arn:verbena:sqs::{target}:webhook", "Events": ["s3:ObjectCreated:*"]}
            cls.s3.put_bucket_notification_configuration(Bucket=name, NotificationConfiguration={"QueueConfigurations": [rule]})
            for key in ("before", "poison", "behind it"):
                cls.s3.put_object(Bucket=name, Key=key, Body=b"")
        cls.s3.close()
        cls.server.stop()
        cls.server.args = cls.later
        cls.server.start()
        cls.admin = admin_of(cls.server)
        cls.s3 = boto3_client(cls.server.http)

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.hook.close()

    def told(self):
        """Keys of the events at the hook."""
        return {record["s3"]["object"]["key"] for message in self.hook.messages for record in message.get("Records", [])}

    def agree(self, question):
        browser = self.browser
        browser.wait("Boolean(document.querySelector('dialog[open]'))", "the question")
        browser.sees(question)
        browser.click("Drop")

    def test_what_is_not_taken_is_shown_and_let_go_of(self):
        browser = self.browser
        browser.click("Server")
        browser.click("Events")
        browser.sees("no longer configured")
        again = "Array.from(document.querySelectorAll('main button')).find((b) => b.title === 'Load again').click()"
        browser.wait(f"document.body.innerText.includes('status 413') || ({again}, false)", "why it is not taken", 60)
        browser.sees("orders/poison")
        self.picture("events")
        self.assert_accessible("events")
        browser.run("document.querySelector('[aria-label=\"Events that are not taken\"] .acts button').click()")
        self.agree("will never get it")
        browser.wait("!document.body.innerText.includes('orders/poison')", "it is gone")
        # An event may come twice: the server was stopped during the delivery.
        wait_until(lambda: "behind+it" in self.told() or "behind it" in self.told(), what="what waited behind it")
        self.assertFalse(any("poison" in key for key in self.told()))
        browser.run("document.querySelector('[aria-label=\"Drop what waits for old\"]').click()")
        self.agree("Drop 4 events?")
        browser.wait("!document.body.innerText.includes('no longer configured')", "nothing waits for it any more")


if __name__ == "__main__":
    main()
