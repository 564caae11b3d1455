#!/usr/bin/python3
"""Power cuts: the real server on a real file system on a disk whose writes and flushes are recorded; from the recording,
disks as a cut may leave them, which the kernel mounts and the server recovers.

A round is one load (load.py, seconds long) and its cuts. Each cut has a seed of its own, from the round's and the cut's
place in the recording, and is one legal state of the disk (disk.py), judged by judge.py. A round whose cut fails is kept
in a folder that is printed: `--replay FOLDER --at EVENT` judges that cut again.

With `--fault` the load's server skips some syncs, and a cut must find it: exit status 0 if one does.

usage: cuts.py [--fs ext4|ext4-fast|xfs|btrfs] [--cuts N] [--seed S] [--fault volumes|log|manifest|...]
"""
import argparse
import concurrent.futures
import ctypes
import multiprocessing
import os
import pathlib
import pickle
import random
import shutil
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import disk  # noqa: E402
import judge  # noqa: E402
import load  # noqa: E402
from verbena_server import Server, program  # noqa: E402

BUILD = pathlib.Path(program()).parent
RECORDER = os.environ.get("RECORDED_DISK") or BUILD / "bin" / "recorded_disk"
SKIPPER = os.environ.get("SKIPPED_SYNC_LIBRARY") or BUILD / "bin" / "skipped_sync.so"
# Planted faults: syncs of paths with this in them are answered and not done (skipped_sync.cc).
FAULTS = {"volumes": "/volumes/", "log": ".log", "manifest": "/MANIFEST-", "tables": ".sst",
          "index-directory": "/index$", "volume-directory": "/volumes$", "everything": "/"}
FLUSH_US = (500, 5_000, 30_000)  # the longest flush of a load's disk: behind a slow one more is at stake
NEW_NAMESPACE = 0x00020000  # CLONE_NEWNS
PRIVATE = 1 << 18 | 1 << 14  # MS_PRIVATE, MS_REC
SKIP = 77


def own_mounts():
    """A mount namespace of its own: whatever happens, no mount stays."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_NAMESPACE) != 0 or libc.mount(b"none", b"/", None, PRIVATE, None) != 0:
        print(f"skipped: no mount namespace: {os.strerror(ctypes.get_errno())}")
        sys.exit(SKIP)


class Round:
    """One load on one disk."""

    def __init__(self, folder, kind, seed, seconds=None, fault=None):
        self.folder, self.kind, self.seed = pathlib.Path(folder), kind, seed
        if seconds is not None:
            self.record(seconds, fault)
        with open(self.folder / "ledger", "rb") as file:
            self.entries, self.first, self.kind, self.seed = pickle.load(file)
        self.recording = disk.Recording(self.folder / "log", self.kind)

    def record(self, seconds, fault):
        environment = {"LD_PRELOAD": str(SKIPPER), "SKIPPED_SYNC": FAULTS[fault]} if fault else None
        flush_us = random.Random(self.seed).choice(FLUSH_US)
        with disk.RecordedDisk(self.folder, self.kind, RECORDER, flush_us=flush_us) as recorded:
            ledger, first = load.Ledger(recorded.position), recorded.position()
            data = recorded.place / "data"
            data.mkdir()
            server = Server(data, ["--set", "lifecycle_day=1"], environment)
            server.log_path = str(self.folder / "server.log")
            try:
                load.run(ledger, server.start(), self.seed, seconds)
            finally:
                server.kill()
        with open(self.folder / "ledger", "wb") as file:
            pickle.dump((ledger.entries, first, self.kind, self.seed), file)

    def choose(self, count, chance):
        """Places of cuts: anywhere, before a flush is answered, after an operation is."""
        places, flushes = [], [end for end, _ in self.recording.flushes if end > self.first]

        def at_stake(place):
            return len(self.recording.pending(place, self.recording.flushed_at(place)))
        for _ in range(count):
            way = chance.random()
            if way < 0.4:
                places.append(chance.randrange(self.first, self.recording.events + 1))
            elif way < 0.7:
                places.append(max(chance.choices(flushes, k=3), key=at_stake))
            else:
                places.append(chance.choice(self.entries).ack)
        return sorted(min(place, self.recording.events) for place in places)

    def chance(self, number, place):
        return random.Random(f"{self.seed}/{number}/{place}")


class Cut:
    """One cut, judged in a process of the pool."""

    def __init__(self, number, place, image, sentence):
        self.number, self.place, self.image, self.sentence = number, place, image, sentence


def judge_cut(cut):
    """None, or what is wrong."""
    held, place = current, pathlib.Path(tempfile.mkdtemp(prefix="vp-", dir=current.folder))
    log = place.with_suffix(".log")
    try:
        try:
            disk.mount(disk.attach(cut.image), place)
        except Exception as error:  # noqa: BLE001
            return f"the file system does not mount: {error}"
        try:
            times = held.recording.times_s
            judge.judge(place / "data", held.entries, cut.place, times[min(cut.place, len(times)) - 1],
                        cut.number % 2 == 0, log)
        finally:
            disk.unmount(place)
    except judge.Wrong as wrong:
        return str(wrong)
    except Exception as error:  # noqa: BLE001
        return repr(error)
    finally:
        os.unlink(cut.image)
        place.rmdir()
        log.unlink(missing_ok=True)
    return None


current = None  # the round, in the processes of the pool


def cut_round(held, places, jobs, first_fault_only):
    """Judges all cuts of a round. Returns the failures: (cut, what is wrong)."""
    global current
    current, failures = held, []
    floor = disk.Floor(held.folder / "base", held.folder / "floor", held.recording)
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as pool:
        running = {}

        def take(some):
            done, _ = concurrent.futures.wait(running, return_when=some)
            for future in done:
                cut, wrong = running.pop(future), future.result()
                if wrong is not None:
                    failures.append((cut, wrong))
        done = 0
        for number, place in enumerate(places):
            image = held.folder / f"cut-{number}"
            sentence = disk.after_cut(held.recording, floor, place, image, held.chance(number, place))
            cut = Cut(number, place, image, sentence)
            running[pool.submit(judge_cut, cut)] = cut
            done += 1
            if len(running) > jobs:
                take(concurrent.futures.FIRST_COMPLETED)
            if failures and first_fault_only:
                break
        take(concurrent.futures.ALL_COMPLETED)
    os.unlink(floor.path)
    return done, failures


def report(held, failures, folder, planted):
    for cut, wrong in failures[:1] if planted else failures:
        print(f"seed {held.seed}, cut {cut.number} before event {cut.place} of {held.recording.events} ({cut.sentence}):\n"
              f"  {wrong[:1500]}", flush=True)
    if planted:
        shutil.rmtree(folder)
        return 0
    print(f"kept: cuts.py --replay {folder} --at {failures[0][0].number}:{failures[0][0].place}", flush=True)
    return 1


def replay(options):
    held = Round(options.replay, None, None)
    number, place = map(int, options.at.split(":"))
    global current
    current = held
    floor = disk.Floor(held.folder / "base", held.folder / "floor", held.recording)
    image = held.folder / "cut-again"
    sentence = disk.after_cut(held.recording, floor, place, image, held.chance(number, place))
    if options.image:
        shutil.copyfile(image, options.image)
    wrong = judge_cut(Cut(number, place, image, sentence))
    print(sentence, wrong or "sound", sep="\n")
    return 1 if wrong else 0


def scratch(options):
    """Memory, where there is enough of it: images are written and dropped by the hundred."""
    shared = "/dev/shm"
    return shared if os.path.isdir(shared) and shutil.disk_usage(shared).free > 4 << 30 else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fs", choices=list(disk.MAKE), default="ext4")
    parser.add_argument("--cuts", type=int, default=50)
    parser.add_argument("--per-load", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=6, help="of each load")
    parser.add_argument("--until-s", type=float, help="begin no round after this time")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--fault", choices=list(FAULTS), help="the load's server skips these syncs: a cut must find it")
    parser.add_argument("--replay")
    parser.add_argument("--at", help="NUMBER:EVENT")
    parser.add_argument("--image", help="with --replay: keep the disk there")
    options = parser.parse_args()
    lacking = disk.missing(RECORDER, options.fs)
    if lacking:
        print(f"skipped: {lacking}")
        return SKIP
    own_mounts()
    if options.replay:
        return replay(options)
    print(f"seed {options.seed}, {options.fs}", flush=True)
    started, cuts, rounds, answered = time.monotonic(), 0, 0, 0
    while cuts < options.cuts and (options.until_s is None or time.monotonic() - started < options.until_s):
        seed = options.seed + rounds
        rounds += 1
        folder = tempfile.mkdtemp(prefix="vp-", dir=scratch(options))
        held = Round(folder, options.fs, seed, options.seconds, options.fault)
        places = held.choose(min(options.per_load, options.cuts - cuts), random.Random(f"places {seed}"))
        done, failures = cut_round(held, places, options.jobs, bool(options.fault))
        cuts += done
        answered += len(held.entries)
        if failures:
            return report(held, failures, folder, options.fault)
        shutil.rmtree(folder)
        if rounds % 10 == 0:
            print(f"{cuts} cuts, {time.monotonic() - started:.0f} s", flush=True)
    print(f"{cuts} cuts of {rounds} loads with {answered} operations on {options.fs}: none lost, none half there, "
          f"{time.monotonic() - started:.0f} s")
    if options.fault:
        print(f"no cut found the fault that was planted: {options.fault}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
