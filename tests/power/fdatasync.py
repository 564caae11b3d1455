#!/usr/bin/python3
"""What a file system itself keeps of what it said was synced, without Verbena: threads append to files of their own and
call fdatasync; then cuts, as cuts.py makes them, with nothing on the disk but what must be there. Exit status 1 if a
cut loses a byte that fdatasync had returned for, or cannot be mounted.

usage: fdatasync.py [--fs ext4|ext4-fast|xfs|btrfs] [--cuts N] [--seconds S]
"""
import argparse
import os
import random
import shutil
import sys
import threading
import time

import cuts
import disk

THREADS = 4


def append(recorded, number, until_s, answered):
    chance, at = random.Random(number), 0
    file = os.open(recorded.place / str(number), os.O_CREAT | os.O_WRONLY)
    folder = os.open(recorded.place, os.O_RDONLY)
    os.fsync(file)
    os.fsync(folder)
    while time.monotonic() < until_s:
        size = chance.choice((500, 4096, 20_000))
        os.pwrite(file, bytes([number + 1]) * size, at)
        at += size
        os.fdatasync(file)
        answered.append((recorded.position(), number, at))
    os.close(file)
    os.close(folder)


def record(folder, kind, seconds):
    answered, until_s = [], time.monotonic() + seconds
    with disk.RecordedDisk(folder, kind, cuts.RECORDER, flush_us=5000) as recorded:
        threads = [threading.Thread(target=append, args=(recorded, number, until_s, answered)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return answered


def whole(path, number, size):
    return path.exists() and path.read_bytes()[:size] == bytes([number + 1]) * size


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fs", choices=list(disk.MAKE), default="ext4")
    parser.add_argument("--cuts", type=int, default=150)
    parser.add_argument("--seconds", type=float, default=4)
    options = parser.parse_args()
    lacking = disk.missing(cuts.RECORDER, options.fs)
    if lacking:
        print(f"skipped: {lacking}")
        return cuts.SKIP
    cuts.own_mounts()
    folder = cuts.scratch()
    answered = record(folder, options.fs, options.seconds)
    recording, place, image = disk.Recording(folder / "log", options.fs), folder / "cut", folder / "image"
    floor, lost, unmountable = disk.Floor(folder / "base", folder / "floor", recording), 0, 0
    place.mkdir()
    chosen = sorted(random.choices(answered, k=options.cuts))
    for cut, number, size in chosen:
        floor.advance(recording.flushed_at(cut))
        floor.copy(image)
        try:
            disk.mount(disk.file_system_of(image), place)
        except Exception:  # noqa: BLE001
            unmountable += 1
            continue
        lost += not whole(place / str(number), number, size)
        disk.unmount(place)
    shutil.rmtree(folder)
    print(f"{options.fs}: {len(answered)} calls of fdatasync, {len(chosen)} cuts: {lost} lost synced bytes, {unmountable} did not mount")
    return 1 if lost or unmountable else 0


if __name__ == "__main__":
    sys.exit(main())
