#!/usr/bin/python3
"""The script for a machine with a GPU, over the doubles of the driver and of an RDMA device."""
import os
import pathlib
import subprocess
import sys

from hip_driver import own

SCRIPT = pathlib.Path(__file__).resolve().parent / "on_device.py"
NIC = pathlib.Path(os.environ[own("TEST_VERBENA_CUDA_DRIVER", "TEST_VERBENA_HIP_DRIVER")]).with_name("libverbena_nic_double.so")
done = subprocess.run([sys.executable, SCRIPT, "--memory", own("cuda", "rocm"), "--size", "5", "--seconds", "0", "--rdma", "127.0.0.1"],
                      capture_output=True, text=True, timeout=150,
                      env={**os.environ, "LD_PRELOAD": str(NIC), "TEST_VERBENA_RDMA_DEVICE": "double"})
print(done.stdout, done.stderr, sep="")
rows = [line for line in done.stdout.splitlines() if "Double 0" in line]
assert done.returncode == 0, done.returncode
ways = ["native local, direct", "native local, direct, mapped", "native local, shared", "native tcp, staged", "http, staged", "native verbs, peer"]
assert [row.split("|")[2].strip() for row in rows] == ways, rows
