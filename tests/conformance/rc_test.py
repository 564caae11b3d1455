#!/usr/bin/env python3
"""The conformance suite's dialects over reliable connections, over a double of an RDMA device that server and suite share: `s3rdma` runs every
case, `planted` runs bad servers, each of whose faults must be found.

rc_test.py s3rdma|planted hipobj-rc-v2|cuobj-rc
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
import verbena_server as verbena  # noqa: E402

DOUBLE = os.environ["VERBS_DOUBLE_LIBRARY"]
CASES_MIN, FAULTS_MIN = {"hipobj-rc-v2": 80, "cuobj-rc": 95}, {"hipobj-rc-v2": 22, "cuobj-rc": 11}


def suite(module, server, table, *arguments):
    env = dict(os.environ, S3RDMA_LIBIBVERBS=DOUBLE, VERBS_DOUBLE=table)
    done = subprocess.run([sys.executable, "-m", module, "--endpoint", server.http, "--access-key", verbena.ACCESS_KEY, "--secret-key",
                           verbena.SECRET_KEY, *arguments], cwd=ROOT / "conformance", env=env, text=True, timeout=280, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    print(done.stdout)
    return done.returncode, done.stdout


def every_case_holds(server, folder, dialect):
    file = f"{folder}/results.xml"
    status, _ = suite("s3rdma_conformance", server, f"{folder}/table", "--dialect", dialect, "--junit", file)
    results = xml.parse(file).getroot()
    assert status == 0, "some cases do not hold"
    assert int(results.get("tests")) >= CASES_MIN[dialect] and results.get("skipped") == "0", results.attrib


def every_planted_fault_is_found(server, folder, dialect):
    status, said = suite("s3rdma_conformance.planted", server, f"{folder}/table", "--dialect", dialect)
    assert status == 0, "a fault was not found"
    assert said.count(" found by ") >= FAULTS_MIN[dialect], said


def main():
    part, dialect = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        env = {"LD_PRELOAD": DOUBLE, "VERBS_DOUBLE": f"{folder}/table", "VERBENA_RDMA_TOKEN_PROVIDER": "rc"}
        with verbena.Server(memory=True, env=env) as server:
            {"s3rdma": every_case_holds, "planted": every_planted_fault_is_found}[part](server, folder, dialect)


main()
