"""Runs the cases against a bad server, one planted fault at a time, in front of a sound one: each fault must be found.

Exit status: 0 each is found and the sound server is found sound, 1 otherwise.
"""
import argparse
import sys

from .. import dialects
from ..cli import run, selected
from ..target import Target
from ..wire import Credentials
from . import rc_faults  # noqa: F401: it adds its own
from .faults import FAULTS
from .proxy import Proxy


def outcomes(options, credentials, fault, cases):
    """The results of some cases through a proxy with a fault."""
    with Proxy(options.endpoint, credentials, options.provider, fault) as proxy:
        target = Target(proxy.url, credentials, dialects.by_name(options.dialect), options.provider, options.device)
        target.open()
        try:
            results = run(target, cases)
        finally:
            target.close()
        if proxy.gate.errors:  # a fault that ends by an error would be found by every case
            raise RuntimeError(f"{fault.name if fault else 'the proxy'}: {proxy.gate.errors}")
        return results


def main():
    parser = argparse.ArgumentParser(prog="python3 -m s3rdma_conformance.planted", description=__doc__)
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--access-key", required=True)
    parser.add_argument("--secret-key", required=True)
    parser.add_argument("--provider", default="tcp")
    parser.add_argument("--device")
    parser.add_argument("--dialect", default="ofi1", choices=dialects.NAMES)
    parser.add_argument("--only", metavar="FAULT")
    parser.add_argument("--why", action="store_true", help="print what each case said")
    options = parser.parse_args()
    credentials = Credentials(options.access_key, options.secret_key)
    cases = {one.number: one for one in selected(options.dialect)}
    faults = [one for one in FAULTS.values() if one.dialect == options.dialect and options.only in (None, one.name)]
    if not faults:
        parser.error(f"{options.dialect} has no fault {options.only}")
    wrong = 0
    wanted = sorted({number for fault in faults for number in fault.cases})
    for result in outcomes(options, credentials, None, [cases[number] for number in wanted]):
        if result.outcome != "pass":
            wrong += 1
            print(f"without a fault: case {result.case.number}: {result.outcome}: {result.message}")
    for fault in faults:
        results = outcomes(options, credentials, fault, [cases[number] for number in fault.cases])
        found = [str(result.case.number) for result in results if result.outcome == "FAIL" and result.judged]
        missed = [str(result.case.number) for result in results if result.outcome != "FAIL" or not result.judged]
        wrong += bool(missed)
        text = f"found by {', '.join(found) or 'none'}" + (f", MISSED by {', '.join(missed)}" if missed else "")
        print(f"{fault.name:<24} {text:<28} {fault.what}", flush=True)
        if options.why:
            print("".join(f"    {result.case.number}: {result.message}\n" for result in results), end="")
    print(f"{len(faults)} faults, {len(wanted)} cases: {wrong or 'nothing'} wrong")
    return 1 if wrong else 0


sys.exit(main())
