"""A disk whose writes and flushes are recorded, and what it may hold after a power cut.

`RecordedDisk` shows recorded_disk.cc's file as a loop device with a real file system on it. `Recording` reads what was
recorded; `Recording.after_cut()` is one legal state. A disk that has answered a flush holds every write that it had
answered before the flush began. Every other write that had begun is there, missing or torn at sectors, each independent
of the others: so also in any order.

With a device (data.device) there are two disks in one recording, and a flush is of one of them: the file system has the
first SIZE bytes, the device those behind.
"""
import bisect
import contextlib
import mmap
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import time

RECORD = struct.Struct("<IIQQQ")
WRITE_BEGIN, WRITE_END, FLUSH_BEGIN, FLUSH_END = 1, 2, 3, 4
SIZE, DEVICE_SIZE = 512 * 1024 * 1024, 256 * 1024 * 1024
PARTS = (0, 1)
EXT4 = ["mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", "-J", "size=16"]
# btrfs makes durable what was asked for and little else, so a sync that is missing shows there first. `ext4-fast` does
# not keep what fdatasync returned for (fdatasync.py): here to show that.
MAKE = {"ext4": EXT4,
        "ext4-fast": [*EXT4, "-O", "fast_commit"],
        "xfs": ["mkfs.xfs", "-q", "-f", "-K"],
        "btrfs": ["mkfs.btrfs", "-q", "-f", "-K"]}
# Blocks that the file system itself expects the disk to write whole: its superblock. Torn, no mount is possible.
WHOLE_BLOCK = 4096
WHOLE = {"ext4": [0], "ext4-fast": [0], "xfs": [], "btrfs": [64 * 1024, 64 * 1024 * 1024]}
# And those that begin with one of these, at (offset, magic): the metadata of XFS. Its recovery takes the position in the
# log that a block's first sector names for that of the whole block, does not repeat what it takes for done, and refuses
# to mount when the block's checksum is another.
WHOLE_MAGIC = {"xfs": {0: (b"XDB3", b"XDD3", b"XDF3", b"AB3B", b"AB3C", b"IAB3", b"FIB3", b"RMB3", b"R3FC", b"BMA3"),
                       8: (b"\x3d\xf1", b"\x3d\xff", b"\x3e\xbe", b"\x3b\xee")}}


def run(*command):
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)


def missing(recorder, kind):
    """What this machine lacks for the test: a sentence, or None."""
    if os.geteuid() != 0:
        return "mounting needs root"
    for path in ("/dev/fuse", "/dev/loop-control"):
        if not os.path.exists(path):
            return f"there is no {path}"
    if not os.access(recorder, os.X_OK):
        return f"there is no {recorder}: it is built where libfuse3 is installed"
    if shutil.which(MAKE[kind][0]) is None:
        return f"there is no {MAKE[kind][0]}"
    tried = subprocess.run(["losetup", "-f"], capture_output=True, text=True)
    return f"no loop device: {tried.stderr.strip()}" if tried.returncode != 0 else None


def make_file_system(path, kind):
    with open(path, "wb") as base:
        base.truncate(SIZE)
    run(*MAKE[kind], path)


def make_device(path, command):
    """Behind the file system."""
    os.truncate(path, SIZE + DEVICE_SIZE)
    with device_of(path) as device:
        run(*command, device)


@contextlib.contextmanager
def device_of(image):
    device = attach(image, "--offset", str(SIZE))
    try:
        yield device
    finally:
        run("losetup", "-d", device)


def file_system_of(image):
    return attach(image, "--sizelimit", str(SIZE))


def attach(path, *options):
    """A loop device over the file, which ends with its last user."""
    return subprocess.run(["losetup", "-f", "--show", *options, str(path)], check=True, capture_output=True,
                          text=True).stdout.strip()


def mount(device, place):
    """Mounts the device, which goes with the mount. The kernel replays the journal."""
    kind = subprocess.run(["blkid", "-p", "-s", "TYPE", "-o", "value", device], capture_output=True, text=True).stdout.strip()
    try:
        # Several images of one XFS are mounted at a time.
        run("mount", *(["-o", "nouuid"] if kind == "xfs" else []), device, place)
    finally:
        run("losetup", "-d", device)


def unmount(place):
    for _ in range(50):
        if subprocess.run(["umount", str(place)], capture_output=True).returncode == 0:
            return
        time.sleep(0.1)
    run("umount", "-l", place)


class RecordedDisk:
    """`with` mounts it at `place`. `position()`: the number of events so far. `fresh`: else `base` is there already.
    `format_device`: the command that formats the device; without one there is none, else `device` is its name."""

    def __init__(self, folder, kind, recorder, write_us=300, flush_us=2000, fresh=True, format_device=None):
        self.folder, self.kind, self.fresh, self.format_device = pathlib.Path(folder), kind, fresh, format_device
        self.device = None
        self.base, self.log = self.folder / "base", self.folder / "log"
        self.place, self.fuse = self.folder / "m", self.folder / "fuse"
        self.command = [str(recorder), str(self.base), str(self.log), str(self.folder / "position"), str(self.fuse),
                        str(write_us), str(flush_us), *([str(SIZE)] if format_device else [])]

    def __enter__(self):
        if self.fresh:
            make_file_system(self.base, self.kind)
            if self.format_device:
                make_device(self.base, self.format_device)
        self.place.mkdir(exist_ok=True)
        self.fuse.mkdir(exist_ok=True)
        self.daemon = subprocess.Popen(self.command, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while not (self.fuse / "disk").exists():
            assert self.daemon.poll() is None and time.monotonic() < deadline, "recorded_disk did not start"
            time.sleep(0.02)
        with open(self.folder / "position", "rb") as file:
            self.count = mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)
        mount(attach(self.fuse / "disk", "--direct-io=on"), self.place)
        if self.format_device:
            self.device = attach(self.fuse / "device", "--direct-io=on")
        return self

    def position(self):
        return struct.unpack("<Q", self.count[:8])[0]

    def __exit__(self, *_):
        unmount(self.place)
        if self.device:
            run("losetup", "-d", self.device)
        time.sleep(0.1)
        self.daemon.send_signal(signal.SIGTERM)
        try:
            self.daemon.wait(10)
        except subprocess.TimeoutExpired:
            self.daemon.kill()
            self.daemon.wait()
        subprocess.run(["umount", "-l", str(self.fuse)], capture_output=True)


def part_of(offset):
    return int(offset >= SIZE)


class Write:
    __slots__ = ("begin", "end", "offset", "length", "at", "part")

    def __init__(self, begin, offset, length, at):
        self.begin, self.end, self.offset, self.length, self.at = begin, None, offset, length, at
        self.part = part_of(offset)

    def is_there(self, flushed):
        """Whatever happens."""
        return self.end is not None and self.end < flushed[self.part]


class Recording:
    """`writes` in the order of their begins, `flushes`: (end, begin, part), and the time of each event."""

    def __init__(self, path, kind):
        self.file = open(path, "rb")
        self.data = mmap.mmap(self.file.fileno(), 0, prot=mmap.PROT_READ)
        self.whole, self.whole_magic = WHOLE[kind], WHOLE_MAGIC.get(kind, {})
        self.writes, self.flushes, self.times_s = [], [], []
        begun, at = {}, 0
        while at + RECORD.size <= len(self.data):
            event, number, time_ns, offset, length = RECORD.unpack_from(self.data, at)
            at += RECORD.size
            index = len(self.times_s)
            self.times_s.append(time_ns / 1e9)
            if event == WRITE_BEGIN:
                begun[number] = Write(index, offset, length, at)
                self.writes.append(begun[number])
                at += length
            elif event == WRITE_END:
                begun[number].end = index
            elif event == FLUSH_BEGIN:
                begun[number] = (index, part_of(offset))
            else:
                self.flushes.append((index, *begun[number]))
        self.events = len(self.times_s)
        self.begins = [write.begin for write in self.writes]

    def flushed_at(self, cut):
        """For each part an event: all its writes answered before that are there whatever happens."""
        return [max((begin for end, begin, of in self.flushes if end < cut and of == part), default=0) for part in PARTS]

    def pending(self, cut, flushed):
        return [write for write in self.writes[:bisect.bisect_left(self.begins, cut)] if not write.is_there(flushed)]

    def whole_blocks(self, write):
        """The places in the write of blocks that are there as a whole or not at all."""
        data = self.bytes_of(write)
        for at in range(-write.offset % WHOLE_BLOCK - WHOLE_BLOCK, write.length, WHOLE_BLOCK):
            if write.offset + at in self.whole:
                yield at
            elif at >= 0 and any(bytes(data[at + place:at + place + len(magic)]) == magic
                                 for place, all_magic in self.whole_magic.items() for magic in all_magic):
                yield at

    def bytes_of(self, write):
        return memoryview(self.data)[write.at:write.at + write.length]


class Floor:
    """The disk with exactly what it must hold at a cut; cuts come in ascending order."""

    def __init__(self, base, path, recording):
        with open(base, "rb") as source:
            copy_sparse(source.fileno(), path)
        self.path, self.recording, self.next = path, recording, 0
        self.file = open(path, "r+b")
        self.kept = []  # begun before the flush, not answered by then

    def advance(self, flushed):
        writes, waiting = self.recording.writes, []
        for write in self.kept:
            (self.apply if write.is_there(flushed) else waiting.append)(write)
        self.kept = waiting
        while self.next < len(writes) and writes[self.next].begin < max(flushed):
            write = writes[self.next]
            self.next += 1
            if write.is_there(flushed):
                self.apply(write)
            else:
                self.kept.append(write)

    def apply(self, write):
        os.pwrite(self.file.fileno(), self.recording.bytes_of(write), write.offset)

    def copy(self, path):
        copy_sparse(self.file.fileno(), path)


def copy_sparse(source, path):
    size = os.fstat(source).st_size
    with open(path, "wb") as out:
        out.truncate(size)
        at = 0
        while at < size:
            try:
                at = os.lseek(source, at, os.SEEK_DATA)
            except OSError:  # no data behind this place
                return
            end = os.lseek(source, at, os.SEEK_HOLE)
            out.seek(at)
            while at < end:
                at += os.sendfile(out.fileno(), source, at, end - at)


MODES = ["none", "all", "some", "some", "most", "few", "torn", "torn", "all but one", "one alone"]


def survivors(pending, mode, chance):
    """For each pending write a number from 0 to 1: the share of it that reached the disk."""
    if mode in ("all but one", "one alone"):
        odd, other = (0, 1) if mode == "all but one" else (1, 0)
        chosen = chance.randrange(len(pending)) if pending else None
        return [odd if i == chosen else other for i in range(len(pending))]
    if mode == "torn":
        return [chance.choice((0, 0.5, 0.5, 1)) for _ in pending]
    share = {"none": 0, "all": 1, "some": 0.5, "most": 0.9, "few": 0.1}[mode]
    return [int(chance.random() < share) for _ in pending]


def sectors_of(recording, write, sector, chance):
    """The ranges of a torn write that reached the disk: its begin, its end, or any of its sectors."""
    starts = list(range(0, write.length, sector))
    shape, middle = chance.choice(("begin", "end", "any")), chance.randrange(len(starts) + 1)
    kept = {"begin": lambda i: i < middle, "end": lambda i: i >= middle, "any": lambda i: chance.random() < 0.5}[shape]
    there = {start for i, start in enumerate(starts) if kept(i)}
    for block in recording.whole_blocks(write):
        inside = {s for s in starts if block <= s < block + WHOLE_BLOCK}
        if inside & there:
            there |= inside
    return sorted(there)


def after_cut(recording, floor, cut, path, chance):
    """Writes one legal state of the disk after a cut before event `cut`. Returns a sentence about it."""
    flushed = recording.flushed_at(cut)
    floor.advance(flushed)
    floor.copy(path)
    pending = recording.pending(cut, flushed)
    mode, sector = chance.choice(MODES), chance.choice((512, 4096))
    counts = {0: 0, 0.5: 0, 1: 0}
    fd = os.open(path, os.O_WRONLY)
    try:
        for write, share in zip(pending, survivors(pending, mode, chance)):
            data = recording.bytes_of(write)
            counts[share] += 1
            if share == 1:
                os.pwrite(fd, data, write.offset)
            elif share:
                for start in sectors_of(recording, write, sector, chance):
                    os.pwrite(fd, data[start:start + sector], write.offset + start)
    finally:
        os.close(fd)
    return f"{mode}: of {len(pending)} unflushed writes {counts[1]} whole, {counts[0.5]} torn at {sector}, {counts[0]} missing"
