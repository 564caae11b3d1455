#!/usr/bin/env python3
"""What gpudirect.enabled costs a start: the time from the start of the process until its doors are open.

    python3 bench/gpudirect_start.py [--rounds N] [--before PROGRAM]

Servers without a data directory, started by turns: with gpudirect.enabled false, and true; with --before also those of
another build (one of before GPU memory, say). Prints Markdown: medians, and the median of the rounds' ratios."""
import argparse
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "lib"))
from verbena_server import Server, program  # noqa: E402


def start_s(binary, settings):
    server = Server(memory=True, args=settings)
    server.program = binary
    began = time.monotonic()
    server.start()
    took = time.monotonic() - began
    server.stop()
    return took


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--before", help="another build of verbena")
    arguments = parser.parse_args()
    sides = {"off": (program(), ["--set", "gpudirect.enabled=false"]), "on": (program(), ["--set", "gpudirect.enabled=true"])}
    if arguments.before:
        sides["another build"] = (arguments.before, [])
    times = {name: [] for name in sides}
    for _ in range(arguments.rounds):
        for name, side in sides.items():
            times[name].append(start_s(*side))
    print("| gpudirect | start, median ms | against off |\n| --- | --- | --- |")
    for name, found in times.items():
        ratio = statistics.median(one / off for one, off in zip(found, times["off"]))
        print(f"| {name} | {statistics.median(found) * 1000:.1f} | {ratio:.2f}x |")


if __name__ == "__main__":
    main()
