#!/usr/bin/env python3
"""The conformance suite between real RDMA devices, by hand: tools/vm.sh run env VERBENA=$PWD/build/verbena
/usr/bin/python3 tests/vm/conformance_test.py [ofi1|hipobj-rc-v2|cuobj-rc ...] [--only N]
A case that was skipped does not hold: this server has all that the cases need."""
import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

import guest
from guest import AS_CLIENT, DEVICE, Server

ROOT = pathlib.Path(__file__).resolve().parents[2]
# By dialect: what the server needs to serve its tokens, and the suite to speak it over the clients' device.
DIALECTS = {
    "ofi1": ([], ["--provider", "verbs"]),
    "hipobj-rc-v2": (["rdma.token_provider=rc"], []),
    "cuobj-rc": (["rdma.token_provider=rc"], []),
}


def holds(dialect, arguments):
    settings, flags = DIALECTS[dialect]
    server = Server(*settings).start()
    variables = {**guest.KEYS, **{name: os.environ[name] for name in ("S3RDMA_LIBFABRIC",) if name in os.environ}}
    suite = [*AS_CLIENT, "env", *(f"{name}={value}" for name, value in variables.items()), sys.executable, "-m", "s3rdma_conformance"]
    flags = [*flags, "--endpoint", guest.HTTP, "--dialect", dialect, "--device", f"{DEVICE}1", *arguments]
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)  # the suite runs as another user
        file = f"{folder}/results.xml"
        done = subprocess.run([*suite, *flags, "--junit", file], cwd=ROOT / "conformance", check=False)
        skipped = xml.parse(file).getroot().get("skipped") if done.returncode == 0 else None
    server.stop()
    return skipped == "0"


def main():
    guest.prepare()
    words = sys.argv[1:]
    options = words[words.index("--only"):] if "--only" in words else []
    wanted = words[:len(words) - len(options)] or [*DIALECTS]
    failed = [dialect for dialect in wanted if not holds(dialect, options)]
    sys.exit(f"cases do not hold: {failed}" if failed else 0)


main()
