#!/usr/bin/python3
"""Power cuts: the real server on a real file system on a disk whose writes and flushes are recorded; from the recording,
disks as a cut may leave them, which the kernel mounts and the server recovers.

A round is one load (load.py, seconds long) and its cuts; a fifth of them cuts a recovery from a cut. Each cut has a seed of its own, from the round's and the cut's
place in the recording, and is one legal state of the disk (disk.py), judged by judge.py. A round whose cut fails is kept
in a folder that is printed: `--replay FOLDER --at EVENT` judges that cut again.

With `--device` the bytes of objects are on a device of their own (data.device), beside the disk with the file system.
With `--fault` the load's server skips some syncs, and a cut must find it: exit status 0 if one does.

usage: cuts.py [--fs ext4|ext4-fast|xfs|btrfs] [--device] [--cuts N] [--seed S] [--fault volumes|log|manifest|...]
"""
import argparse
import concurrent.futures
import contextlib
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
          "index-directory": "/index$", "volume-directory": "/volumes$", "device": "/dev/loop", "everything": "/"}
FORMAT = [program(), "device", "format"]
FLUSH_US = (500, 5_000, 30_000)  # the longest flush of a load's disk: behind a slow one more is at stake
NEW_NAMESPACE = 0x00020000  # CLONE_NEWNS
PRIVATE = 1 << 18 | 1 << 14  # MS_PRIVATE, MS_REC
RECOVERIES = 2  # of each load, cut again
SKIP = 77


def own_mounts():
    """A mount namespace of its own: whatever happens, no mount stays."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_NAMESPACE) != 0 or libc.mount(b"none", b"/", None, PRIVATE, None) != 0:
        print(f"skipped: no mount namespace: {os.strerror(ctypes.get_errno())}")
        sys.exit(SKIP)


class Round:
    """A recording and the ledger that its cuts are compared with. `recovered_at`: of a recovery, the cut before it."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        with open(self.folder / "ledger", "rb") as file:
            self.entries, self.first, self.kind, self.has_device, self.seed, self.recovered_at = pickle.load(file)
        self.recording = disk.Recording(self.folder / "log", self.kind)

    def ledger_at(self, place):
        """The place in the ledger's recording, and its time."""
        times = self.recording.times_s
        return self.recovered_at or (place, times[min(place, len(times)) - 1])

    def choose(self, count, chance):
        """Places of cuts: anywhere, before a flush is answered, after an operation is."""
        places, flushes = [], [end for end, *_ in self.recording.flushes if end > self.first]

        def at_stake(place):
            return len(self.recording.pending(place, self.recording.flushed_at(place)))
        for _ in range(count):
            way = chance.random()
            if way < 0.4:
                places.append(chance.randrange(self.first, self.recording.events + 1))
            elif way < 0.7:
                places.append(max(chance.choices(flushes, k=3), key=at_stake))
            elif self.recovered_at:
                places.append(chance.choice(flushes) + 1)
            else:
                places.append(chance.choice(self.entries).ack)
        return sorted(min(place, self.recording.events) for place in places)

    def chance(self, number, place):
        return random.Random(f"{self.seed}/{number}/{place}")


def scratch():
    """A folder in memory, where there is enough of it: images are written and dropped by the hundred."""
    shared = "/dev/shm"
    enough = os.path.isdir(shared) and shutil.disk_usage(shared).free > 4 << 30
    return pathlib.Path(tempfile.mkdtemp(prefix="vp-", dir=shared if enough else None))


def keep(folder, *ledger):
    with open(folder / "ledger", "wb") as file:
        pickle.dump(ledger, file)
    return Round(folder)


def record_load(kind, has_device, seed, seconds, fault):
    """A load on a new disk."""
    folder, flush_us = scratch(), random.Random(seed).choice(FLUSH_US)
    environment = {"LD_PRELOAD": str(SKIPPER), "SKIPPED_SYNC": FAULTS[fault]} if fault else None
    with disk.RecordedDisk(folder, kind, RECORDER, flush_us=flush_us, format_device=has_device and FORMAT) as recorded:
        ledger, first = load.Ledger(recorded.position), recorded.position()
        data = recorded.place / "data"
        data.mkdir()
        server = Server(data, ["--set", "lifecycle_day=1", *judge.on_device(recorded.device)], environment)
        server.log_path = str(folder / "server.log")
        try:
            load.run(ledger, server.start(), seed, seconds)
        finally:
            server.kill()
    return keep(folder, ledger.entries, first, kind, has_device, seed, None)


def record_recovery(held, place, chance):
    """What the kernel and the server do after a cut, recorded: it may be cut, too."""
    folder = scratch()
    floor = disk.Floor(held.folder / "base", folder / "floor", held.recording)
    disk.after_cut(held.recording, floor, place, folder / "base", chance)
    os.unlink(floor.path)
    with disk.RecordedDisk(folder, held.kind, RECORDER, fresh=False, format_device=held.has_device and FORMAT) as recorded:
        server = judge.server_on(recorded.place / "data", recorded.device)
        server.log_path = str(folder / "server.log")
        try:
            judge.write_again(server.start())
            assert server.stop() == 0, server.log()
        finally:
            server.kill()
    return keep(folder, held.entries, 0, held.kind, held.has_device, held.seed, held.ledger_at(place))


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
            disk.mount(disk.file_system_of(cut.image), place)
        except Exception as error:  # noqa: BLE001
            return f"the file system does not mount: {error}"
        with contextlib.ExitStack() as after:
            after.callback(disk.unmount, place)
            device = after.enter_context(disk.device_of(cut.image)) if held.has_device else None
            judge.judge(place / "data", device, held.entries, *held.ledger_at(cut.place), cut.number % 2 == 0, log)
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


def cut_round(held, places, jobs, until_first):
    """Judges all cuts of a round. Returns how many were, and the failures: (cut, what is wrong)."""
    global current
    current, failures, running = held, [], {}
    floor = disk.Floor(held.folder / "base", held.folder / "floor", held.recording)

    def take(some):
        done, _ = concurrent.futures.wait(running, return_when=some)
        for future in done:
            cut, wrong = running.pop(future), future.result()
            if wrong is not None:
                failures.append((cut, wrong))

    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("fork")) as pool:
        begun = 0
        for number, place in enumerate(places):
            image = held.folder / f"cut-{number}"
            sentence = disk.after_cut(held.recording, floor, place, image, held.chance(number, place))
            cut = Cut(number, place, image, sentence)
            running[pool.submit(judge_cut, cut)] = cut
            begun += 1
            if len(running) > jobs:
                take(concurrent.futures.FIRST_COMPLETED)
            if failures and until_first:
                break
        take(concurrent.futures.ALL_COMPLETED)
    os.unlink(floor.path)
    return begun, failures


def report(held, failures, planted):
    for cut, wrong in failures[:1] if planted else failures:
        print(f"seed {held.seed}, {'recovery, ' if held.recovered_at else ''}cut {cut.number} before event {cut.place} of "
              f"{held.recording.events} ({cut.sentence}):\n  {wrong[:1500]}", flush=True)
    if planted:
        shutil.rmtree(held.folder)
        return 0
    print(f"kept: cuts.py --replay {held.folder} --at {failures[0][0].number}:{failures[0][0].place}", flush=True)
    return 1


def replay(options):
    global current
    current = held = Round(options.replay)
    number, place = map(int, options.at.split(":"))
    floor = disk.Floor(held.folder / "base", held.folder / "floor", held.recording)
    image = held.folder / "cut-again"
    sentence = disk.after_cut(held.recording, floor, place, image, held.chance(number, place))
    if options.image:
        shutil.copyfile(image, options.image)
    wrong = judge_cut(Cut(number, place, image, sentence))
    print(sentence, wrong or "sound", sep="\n")
    return 1 if wrong else 0


def rounds_of(options, seed, wanted):
    """A load with its cuts, and the recoveries from some of them with theirs: (round, places)."""
    chance = random.Random(f"places {seed}")
    held = record_load(options.fs, options.device, seed, options.seconds, options.fault)
    of_recovery = 0 if options.fault else wanted // 10
    yield held, held.choose(wanted - RECOVERIES * of_recovery, chance)
    for place in held.choose(RECOVERIES if of_recovery else 0, chance):
        recovery = record_recovery(held, place, chance)
        yield recovery, recovery.choose(of_recovery, chance)
        shutil.rmtree(recovery.folder)
    shutil.rmtree(held.folder)


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fs", choices=list(disk.MAKE), default="ext4")
    parser.add_argument("--device", action="store_true", help="objects on a device of their own (data.device)")
    parser.add_argument("--cuts", type=int, default=50)
    parser.add_argument("--per-load", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=6, help="of each load")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--fault", choices=list(FAULTS), help="the load's server skips these syncs: a cut must find it")
    parser.add_argument("--replay", help="the folder of a failed round")
    parser.add_argument("--at", help="NUMBER:EVENT")
    parser.add_argument("--image", help="with --replay: copy the disk to this file")
    return parser.parse_args()


def main():
    options = arguments()
    lacking = disk.missing(RECORDER, options.fs)
    if lacking:
        print(f"skipped: {lacking}")
        return SKIP
    own_mounts()
    if options.replay:
        return replay(options)
    what = options.fs + (" and a device" if options.device else "")
    print(f"seed {options.seed}, {what}", flush=True)
    started, cuts, loads, operations, recoveries = time.monotonic(), 0, 0, 0, 0
    while cuts < options.cuts:
        for held, places in rounds_of(options, options.seed + loads, min(options.per_load, options.cuts - cuts)):
            begun, failures = cut_round(held, places, options.jobs, bool(options.fault))
            cuts += begun
            recoveries += begun if held.recovered_at else 0
            operations += 0 if held.recovered_at else len(held.entries)
            if failures:
                return report(held, failures, options.fault)
        loads += 1
        if loads % 10 == 0:
            print(f"{cuts} cuts, {time.monotonic() - started:.0f} s", flush=True)
    if options.fault:
        print(f"no cut of {cuts} found the fault that was planted: {options.fault}")
        return 1
    print(f"{what}: {cuts} cuts ({recoveries} of them of a recovery from one) of {loads} loads of {operations} "
          f"operations: none lost, none half there, {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
