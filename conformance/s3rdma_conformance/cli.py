"""s3rdma-conformance: runs the cases against an endpoint. Exit status: 0 all hold, 1 some do not, 2 the suite could not run."""
import argparse
import os
import sys
import time
import traceback
from xml.sax.saxutils import quoteattr

from . import __version__, dialects
from .case import CASES, SOURCES, Failed, Skipped
from .cases import load
from .fabric import FabricError
from .target import Target
from .wire import ConnectionLost, Credentials


class Result:
    def __init__(self, one, outcome, message, seconds, judged=True):
        self.case, self.outcome, self.message, self.seconds = one, outcome, message, seconds
        self.judged = judged  # False: the case ended by an error of its own


def selected(dialect, only=None):
    load()
    numbers = set()
    for word in (only or "").split(","):
        first, _, last = word.partition("-")
        numbers |= set(range(int(first), int(last or first) + 1)) if word else set()
    unknown = {number for number in numbers if number not in CASES} if only and "-" not in only else set()
    if unknown:
        raise FabricError(f"no case {', '.join(map(str, sorted(unknown)))}: see --list")
    found = [one for number, one in sorted(CASES.items())
            if (not numbers or number in numbers) and (dialect in one.dialects if one.dialects else dialects.by_name(dialect).holds(number))]
    if not found:
        raise FabricError(f"{dialect} has no case of {only}: see --list --dialect {dialect}")
    return found


def run_case(target, one):
    begun, outcome, message, judged = time.monotonic(), "pass", "", True
    try:
        one.run(target)
    except Failed as error:
        outcome, message = "FAIL", str(error)
    except Skipped as error:
        outcome, message = "skip", str(error)
    except Exception as error:  # noqa: BLE001: a case that ends in any other way has failed, too
        where = traceback.extract_tb(error.__traceback__)[-1]
        # A reply that breaks off, or none: the server's doing. Anything else may be a fault of the case.
        judged = isinstance(error, (ConnectionLost, OSError))
        outcome, message = "FAIL", f"{type(error).__name__}: {error} ({os.path.basename(where.filename)}:{where.lineno})"
        target.forget_connection()
    finally:
        target.end_case()
    return Result(one, outcome, message, time.monotonic() - begun, judged)


def row(result):
    text = f"{result.case.number:>4}  {result.outcome:<4}  {result.seconds:6.2f} s  {result.case.rule}"
    return text + (f"\n      {result.message}" if result.message else "")


def run(target, cases, tell=lambda line: None):
    results = []
    for one in cases:
        results.append(run_case(target, one))
        tell(row(results[-1]))
    return results


def write_junit(path, dialect, results):
    counts = {outcome: sum(one.outcome == outcome for one in results) for outcome in ("pass", "FAIL", "skip")}
    lines = ['<?xml version="1.0" encoding="UTF-8"?>',
             f'<testsuite name="s3rdma-conformance {dialect}" tests="{len(results)}" failures="{counts["FAIL"]}" skipped="{counts["skip"]}" '
             f'time="{sum(one.seconds for one in results):.3f}">']
    for one in results:
        inside = {"FAIL": f"<failure message={quoteattr(one.message)}/>", "skip": f"<skipped message={quoteattr(one.message)}/>"}.get(one.outcome, "")
        lines.append(f'  <testcase classname="{dialect}" name={quoteattr(f"{one.case.number} {one.case.name}")} time="{one.seconds:.3f}">{inside}</testcase>')
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([*lines, "</testsuite>", ""]))


def parser():
    made = argparse.ArgumentParser(prog="s3rdma-conformance", description="Runs the conformance cases for S3 over RDMA against a server.")
    made.add_argument("--endpoint", help="the server's URL, http or https")
    made.add_argument("--access-key", default=os.environ.get("AWS_ACCESS_KEY_ID"), help="default: $AWS_ACCESS_KEY_ID")
    made.add_argument("--secret-key", default=os.environ.get("AWS_SECRET_ACCESS_KEY"), help="default: $AWS_SECRET_ACCESS_KEY")
    made.add_argument("--region", default="us-east-1")
    made.add_argument("--ca-file", help="the authorities that certify the server, for https")
    made.add_argument("--dialect", default="ofi1", choices=dialects.NAMES)
    made.add_argument("--provider", default="tcp", help="libfabric's provider: tcp, verbs, or a name as fi_info prints it")
    made.add_argument("--device", help="the RDMA device, for example rxe0")
    made.add_argument("--only", metavar="N", help="cases: 101 or 101,120-129")
    made.add_argument("--list", action="store_true", help="print the cases and their sources")
    made.add_argument("--junit", metavar="FILE", help="write the results as JUnit XML")
    made.add_argument("--version", action="version", version=__version__)
    return made


def print_list(cases):
    for one in cases:
        print(f"{one.number:>4}  {one.rule} [{one.source}]")
    print("\n" + "\n".join(f"[{short}] {text}" for short, text in SOURCES.items()))


def main(arguments=None):
    made = parser()
    options = made.parse_args(arguments)
    try:
        cases = selected(options.dialect, options.only)
    except (FabricError, ValueError) as error:
        made.error(str(error))
    if options.list:
        print_list(cases)
        return 0
    if not (options.endpoint and options.access_key and options.secret_key):
        made.error("--endpoint, --access-key and --secret-key are needed")
    try:
        target = Target(options.endpoint, Credentials(options.access_key, options.secret_key, options.region),
                        dialects.by_name(options.dialect), options.provider, options.device, options.ca_file)
        print(f"s3rdma-conformance {__version__}: {options.endpoint}, {options.dialect} over {target.dialect.about()}")
        target.open()
    except (OSError, FabricError, Failed) as error:
        print(f"s3rdma-conformance: {error}", file=sys.stderr)
        return 2
    try:
        results = run(target, cases, lambda line: print(line, flush=True))
    finally:
        target.close()
    if options.junit:
        write_junit(options.junit, options.dialect, results)
    counts = [sum(one.outcome == outcome for one in results) for outcome in ("pass", "FAIL", "skip")]
    print(f"{len(results)} cases: {counts[0]} pass, {counts[1]} fail, {counts[2]} skipped")
    if not counts[0] and not counts[1]:
        print("s3rdma-conformance: nothing was judged", file=sys.stderr)
        return 2
    return 1 if counts[1] else 0
