#!/usr/bin/env python3
"""The conformance suite for S3 over RDMA, as its users start it: `s3rdma` runs every case against this server, and checks what the
suite says of servers that hold nothing; `planted` runs it against bad servers, each of whose faults must be found."""
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
import verbena_server as verbena  # noqa: E402


def suite(module, *arguments, endpoint=None):
    """Exit status and output."""
    there = ["--endpoint", endpoint, "--access-key", verbena.ACCESS_KEY, "--secret-key", verbena.SECRET_KEY] if endpoint else []
    done = subprocess.run([sys.executable, "-m", module, *there, *arguments], cwd=ROOT / "conformance", text=True, timeout=550,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.returncode, done.stdout


def every_case_holds(server):
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/results.xml"
        status, said = suite("s3rdma_conformance", "--junit", file, endpoint=server.http)
        print(said)
        results = xml.parse(file).getroot()
    assert status == 0, "some cases do not hold"
    cases = results.findall("testcase")
    assert len(cases) == int(results.get("tests")) >= 60, results.attrib
    assert results.get("failures") == "0" and results.get("skipped") == "0", results.attrib
    status, listed = suite("s3rdma_conformance", "--list")
    assert status == 0 and all(one.get("name").split()[0] in listed for one in cases), listed


def the_suite_says_what_does_not_hold():
    with tempfile.TemporaryDirectory() as folder, verbena.Server(memory=True, env={"VERBENA_RDMA_TOKEN_PROVIDER": "none"}) as server:
        file = f"{folder}/results.xml"
        status, said = suite("s3rdma_conformance", "--only", "101,200,220", "--junit", file, endpoint=server.http)
        assert status == 1 and "3 cases: 2 pass, 1 fail, 0 skipped" in said, (status, said)
        failed = [case.get("name") for case in xml.parse(file).getroot() if case.find("failure") is not None]
        assert failed == ["101 one_byte"], failed
        gone = server.http
    for arguments, endpoint in (((), gone), (("--only", "999"), gone), (("--provider", "none-such"), None)):
        status, said = suite("s3rdma_conformance", *arguments, endpoint=endpoint)
        assert status == 2, (arguments, status, said)


def every_planted_fault_is_found(server):
    status, said = suite("s3rdma_conformance.planted", endpoint=server.http)
    print(said)
    assert status == 0, "a fault was not found"
    faults = [line for line in said.splitlines() if " found by " in line]
    assert len(faults) >= 30, said


def main():
    with verbena.Server(memory=True) as server:
        if sys.argv[1] == "planted":
            every_planted_fault_is_found(server)
        else:
            every_case_holds(server)
    if sys.argv[1] == "s3rdma":
        the_suite_says_what_does_not_hold()


main()
