#!/usr/bin/env python3
"""The yardsticks print rows in the form of `verbena bench`, and ratios to its rows. VERBENA and YARDSTICKS name the
programs."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("VERBENA", str(ROOT / "build/verbena"))
YARDSTICKS = os.environ.get("YARDSTICKS", str(ROOT / "build/bin/yardsticks"))
FIELDS = ["door", "provider", "op", "size", "concurrency", "p50_us", "p99_us", "p999_us", "ops_per_s", "bytes_per_s",
          "server_cpu_s_per_gb"]


def run(*command, status=0):
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == status, f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr}"
    return done


class Yardsticks(unittest.TestCase):
    def test_rows_have_the_form_of_a_bench(self):
        done = run(YARDSTICKS, "--json", "--count", "5", "--sizes", "4KiB,1MiB", "--concurrency", "1,2", "--fabtests", "off",
                   "--nginx", "on" if os.access("/usr/sbin/nginx", os.X_OK) else "off")
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        for row in rows:
            self.assertEqual(list(row), FIELDS)
            self.assertGreater(row["bytes_per_s"], 0)
        seen = [(r["door"], r["provider"], r["op"]) for r in rows]
        self.assertEqual(seen.count(("memcpy", "memory", "copy")), 4)
        if os.access("/usr/sbin/nginx", os.X_OK):
            for op in ("get", "put"):
                self.assertEqual(seen.count(("nginx", "http", op)), 4)

    @unittest.skipUnless(os.access("/usr/sbin/nginx", os.X_OK), "there is no nginx")
    def test_nginx_has_tls_and_connections_of_their_own(self):
        with tempfile.TemporaryDirectory(prefix="verbena-yardsticks-") as folder:
            certificate, key = f"{folder}/certificate.pem", f"{folder}/key.pem"
            run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
                "/CN=127.0.0.1", "-keyout", key, "-out", certificate)
            done = run(YARDSTICKS, "--json", "--count", "5", "--sizes", "4KiB", "--ops", "get,get_new", "--fabtests", "off", "--no-memcpy",
                       "--tls-certificate", certificate, "--tls-key", key)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([(row["provider"], row["op"]) for row in rows], [("https", "get"), ("https", "get_new")])

    def test_a_bench_is_set_beside_them(self):
        with tempfile.TemporaryDirectory(prefix="verbena-yardsticks-") as folder:
            beside = pathlib.Path(folder) / "rows"
            bench = run(PROGRAM, "bench", "--json", "--count", "5", "--sizes", "4KiB", "--doors", "native", "--providers", "tcp")
            beside.write_text(bench.stdout, encoding="utf-8")
            shown = run(YARDSTICKS, "--nginx", "off", "--no-memcpy", "--sizes", "4KiB", "--beside", str(beside))
            if "fabtests" in shown.stdout:
                self.assertRegex(shown.stdout, r"native \(tcp\) get 4 KiB: \d+\.\d\dx the throughput of fabtests rma_write")
            beside.write_text("no rows\n", encoding="utf-8")
            self.assertIn("no row of verbena bench", run(YARDSTICKS, "--beside", str(beside), status=2).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
