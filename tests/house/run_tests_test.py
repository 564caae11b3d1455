#!/usr/bin/env python3
"""tools/run_tests.py and tools/failed_tests.py over a scripted CTest, and steps of dev and tools/vm.sh."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
# Fails the tests named in `fails`, the first time; the second time those in `fails_again`. Those whose name begins with
# "seeds" have the label new_seeds.
CTEST = """#!/usr/bin/env python3
import pathlib, sys
report = sys.argv[sys.argv.index("--output-junit") + 1]
again = "--rerun-failed" in sys.argv
with open("calls", "a") as calls:
    print(*sys.argv[1:], file=calls)
names = pathlib.Path("fails").read_text().split() if again else ["good", *pathlib.Path("fails").read_text().split()]
if "-LE" in sys.argv and sys.argv[sys.argv.index("-LE") + 1] == "^new_seeds$":
    names = [name for name in names if not name.startswith("seeds")]
fails = pathlib.Path("fails_again" if again else "fails").read_text().split()
lines = [f'<testcase name="{n}" status="{"fail" if n in fails else "run"}"><system-out>said</system-out></testcase>' for n in names]
pathlib.Path(report).write_text("<testsuite>" + "".join(lines) + "</testsuite>")
sys.exit(8 if fails else 0)
"""


class RunTests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="verbena-run-tests-")
        self.addCleanup(folder.cleanup)
        self.build = pathlib.Path(folder.name) / "build"
        self.build.mkdir()
        ctest = pathlib.Path(folder.name) / "ctest"
        ctest.write_text(CTEST)
        ctest.chmod(0o755)
        self.environment = dict(os.environ, PATH=f"{folder.name}:{os.environ['PATH']}")

    def run_tests(self, fails="", fails_again=""):
        """Status of the run, of what was repeated (None: nothing was) and of the report, and the report's output."""
        (self.build / "fails").write_text(fails)
        (self.build / "fails_again").write_text(fails_again)
        run = self.script("unit|s3", "-j", "2")
        again = self.script("--again") if run else None
        reports = [self.build / "tests.xml", self.build / "again.xml"]
        report = subprocess.run([sys.executable, TOOLS / "failed_tests.py", *reports], capture_output=True, text=True, check=False)
        return run, again, report.returncode, report.stdout

    def script(self, *arguments):
        words = [*arguments, self.build] if arguments == ("--again",) else [self.build, *arguments]
        return subprocess.run([sys.executable, TOOLS / "run_tests.py", *words], env=self.environment, capture_output=True,
                              check=False).returncode

    def calls(self):
        return (self.build / "calls").read_text().splitlines()

    def test_what_passes_is_run_once_by_its_labels(self):
        self.assertEqual(self.run_tests(), (0, None, 0, ""))
        self.assertEqual(len(self.calls()), 1)
        self.assertIn("--no-tests=error -L unit|s3 -j 2", self.calls()[0])

    def test_a_flaky_test_is_repeated_counted_and_no_failure(self):
        status, again, reported, said = self.run_tests("one two")
        self.assertEqual((bool(status), again, reported), (True, 0, 0))
        self.assertIn("--rerun-failed", self.calls()[1])
        self.assertNotIn("-j", self.calls()[1].split(), "alone")
        self.assertIn("flaky: one", said)
        self.assertTrue(said.endswith("0 failed, 2 flaky\n"), said)

    def test_what_fails_again_has_failed(self):
        _, again, reported, said = self.run_tests("one two", "two")
        self.assertNotEqual(again, 0)
        self.assertEqual(reported, 1)
        self.assertTrue(said.endswith("failed: two (build)\n1 failed, 1 flaky\n"), said)

    def test_more_than_three_failures_are_not_repeated(self):
        status, again, reported, _ = self.run_tests("one two three four")
        self.assertEqual((bool(status), again, reported, len(self.calls())), (True, 1, 1, 1))

    def test_a_failure_of_new_seeds_is_not_taken_back_by_others(self):
        status, _, reported, said = self.run_tests("seeds two")
        self.assertEqual((bool(status), reported), (True, 1))
        self.assertTrue(said.endswith("failed: seeds (build)\n1 failed, 1 flaky\n"), said)


class Steps(unittest.TestCase):
    """Steps of the scripts, taken out of them."""

    def test_a_part_in_the_background_begins_where_the_user_may_not_lower_its_nice_value(self):
        text = (TOOLS.parent / "dev").read_text(encoding="utf-8")
        function = re.search(r"^start_behind\(\) \{\n.*?^\}", text, re.M | re.S).group()
        for more in 0, 5:
            begin = f"set -e; declare -A behind=(); {function}; start_behind nice-test.{more} {more} nice; trap - EXIT"
            end = f'wait "${{behind[nice-test.{more}]}}"; cat /tmp/verbena-nice-test.{more}.$$; rm /tmp/verbena-nice-test.{more}.$$'
            user = 65534 if os.getuid() == 0 else None
            ran = subprocess.run(["bash", "-c", f"{begin}; {end}"], capture_output=True, text=True, timeout=60, check=False,
                                 user=user, group=user, cwd="/", preexec_fn=lambda: os.nice(7))
            self.assertEqual((ran.returncode, ran.stdout.strip()), (0, str(min(os.nice(0) + 7 + more, 19))), ran.stderr)

    def test_the_clock_of_a_guest_is_a_whole_number(self):
        step = re.search(r"tsc=\$\((awk .*?) /proc/cpuinfo\)", (TOOLS / "vm.sh").read_text(encoding="utf-8"), re.S).group(1)
        for bogomips, khz in ("4190.15", "2095075"), ("4190.00", "2095000"), ("11999.99", "5999995"):
            cpuinfo = f"flags\t\t: fpu constant_tsc rdtscp\nbogomips\t: {bogomips}\n"
            ran = subprocess.run(["bash", "-c", step], input=cpuinfo, capture_output=True, text=True, timeout=60, check=True)
            self.assertEqual(ran.stdout, f"tsc_early_khz={khz}\n")


if __name__ == "__main__":
    unittest.main()
