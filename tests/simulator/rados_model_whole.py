#!/usr/bin/env python3
"""The model of RADOS defines every function of librados that these programs call. One that it lacks would be librados's
own, on the model's objects: rados_model_whole.py MODEL PROGRAM..."""
import subprocess
import sys


def functions(file, *kinds):
    lines = subprocess.run(["nm", "--dynamic", file], check=True, capture_output=True, text=True).stdout.splitlines()
    fields = [line.split()[-2:] for line in lines]
    return {name.split("@")[0] for kind, name in fields if kind in kinds and "librados" in name
            and not name.startswith("_ZTI")}  # type names: the same in both


model, *programs = sys.argv[1:]
defined = functions(model, "T", "W")
assert len(defined) > 50, f"{model} defines {len(defined)} functions of librados"
missing = {name for program in programs for name in functions(program, "U")} - defined
if missing:
    names = subprocess.run(["c++filt"], input="\n".join(sorted(missing)), capture_output=True, text=True).stdout
    sys.exit(f"the model of RADOS lacks:\n{names}")
