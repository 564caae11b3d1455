#!/usr/bin/python3
"""data.device on block devices of the kernel: what `verbena device format` refuses, what a start refuses, a server whose
objects are there, partitions, a namespace over NVMe-oF that vanishes, `fsck`, `doctor`, and rounds of kill -9
(tests/crash/kill_test.py).

Makes loop devices, so it needs root; without them it is skipped. With --device it uses that one, and all that is on it is
lost. So it does with $VERBENA_TEST_DEVICE, if $VERBENA_TEST_DEVICE_ERASE names the same one.

usage: raw_device_test.py [--rounds N] [--device DEVICE]
"""
import argparse
import contextlib
import fcntl
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "lib"))
from signed_call import call  # noqa: E402
from verbena_server import Server, boto3_client, program  # noqa: E402

SKIP = 77
SIZE = 256 * 1024 * 1024
DAMAGED = 7
SUPERBLOCKS = (0, 1024 * 1024)


@contextlib.contextmanager
def loop_device(folder, name, size=SIZE, *options):
    image = pathlib.Path(folder) / name
    with open(image, "wb") as file:
        file.truncate(size)
    made = subprocess.run(["losetup", "--find", "--show", *options, str(image)], capture_output=True, text=True)
    if made.returncode != 0:
        print(f"skipped: no loop device: {made.stderr.strip()}")
        sys.exit(SKIP)
    device = made.stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


def has_programs(*names):
    """Else what needs them is not tried, which is said."""
    lacking = [name for name in names if not shutil.which(name)]
    if lacking:
        print(f"not tried: what needs {', '.join(lacking)}, which this machine lacks", flush=True)
    return not lacking


def verbena(*words):
    return subprocess.run([program(), *map(str, words)], capture_output=True, text=True, timeout=120)


def refused(done, sentence):
    assert done.returncode != 0, f"not refused: {done.args}: {done.stdout}"
    assert sentence in done.stderr, f"{done.args}: {done.stderr!r} lacks {sentence!r}"


def formatted(*words):
    done = verbena("device", "format", *words)
    assert done.returncode == 0, done.stderr


def a_device_with_data_is_refused(device, folder):
    image = pathlib.Path(folder) / "a file"
    image.write_bytes(b"x" * 4096)
    refused(verbena("device", "format", image), "is no block device")
    refused(verbena("device", "format", "/dev/null"), "is a character device that is no device-dax node")
    refused(verbena("device", "format", "/dev/no-such-disk"), "is missing")
    if has_programs("mkfs.ext4", "dumpe2fs"):
        subprocess.run(["mkfs.ext4", "-q", "-F", device], check=True)
        refused(verbena("device", "format", device), "holds ext4 (a file system)")
        refused(verbena("device", "show", device), "has no superblock")
        subprocess.run(["dumpe2fs", "-h", device], check=True, capture_output=True)  # it is whole
        mounted_is_in_use(device, folder)
    formatted(device, "--force")
    refused(verbena("device", "format", device), "is formatted for volumes already")
    unrecognized_is_refused(device)
    formatted(device, "--force")
    assert "volumes    0" in verbena("device", "show", device).stdout


def unrecognized_is_refused(device):
    """No program that is known has bytes such as these: an encrypted disk without a header looks so."""
    with open(device, "r+b") as disk:
        disk.write(os.urandom(8 * 1024 * 1024))
    refused(verbena("device", "format", device), "holds bytes of something that is not recognized")
    with open(device, "r+b") as disk:
        disk.write(bytes(8 * 1024 * 1024))
    formatted(device)


def mounted_is_in_use(device, folder):
    place = pathlib.Path(folder) / "mounted"
    place.mkdir()
    done = subprocess.run(["mount", device, place], capture_output=True, text=True)
    if done.returncode != 0:
        print(f"not tried: a device that is mounted: {done.stderr.strip()}", flush=True)
        return
    try:
        refused(verbena("device", "format", device, "--force"), "is in use: mounted")
    finally:
        subprocess.run(["umount", place], check=True)


def start(data, device, *more):
    return Server(data, ("--set", f"data.device={device}", *more))


def start_is_refused(data, device, sentence):
    settings = ("--set", f"data.device={device}") if device else ()
    done = verbena("server", data, "--http", "127.0.0.1:0", "--rdma", "127.0.0.1:0", *settings)
    refused(done, sentence)


def objects_are_there(device, folder):
    data = pathlib.Path(folder) / "data"
    data.mkdir()
    bodies = {f"k{i}": os.urandom(size) for i, size in enumerate((10, 20_000, 65_536, 1_000_000, 9_000_001))}
    with start(data, device) as server:
        s3 = boto3_client(server.http)
        s3.create_bucket(Bucket="bucket")
        for key, body in bodies.items():
            s3.put_object(Bucket="bucket", Key=key, Body=body)
        # The device is the server's: neither another server nor format gets it.
        start_is_refused(pathlib.Path(folder) / "second", device, "is in use")
        refused(verbena("device", "format", device, "--force"), "is in use")
        server.kill()
    with start(data, device) as server:
        s3 = boto3_client(server.http)
        for key, body in bodies.items():
            assert s3.get_object(Bucket="bucket", Key=key)["Body"].read() == body, key
        assert server.stop() == 0
    assert not list((data / "volumes").iterdir()), "a volume is a file"
    done = verbena("fsck", data, "--device", device)
    assert done.returncode == 0 and "sound" in done.stdout, done.stdout + done.stderr
    refused(verbena("fsck", data), "--device")
    found = verbena("doctor", "--device", device).stdout
    assert "device of the data" in found and "extents in use" in found, found
    start_is_refused(data, "", "set data.device")
    start_is_refused(pathlib.Path(folder) / "second", device, "has the volumes of another store")
    refused(verbena("device", "format", device), "has the volumes of a Verbena store")
    return data


def damage_is_told(data, device):
    for place in SUPERBLOCKS:
        with open(device, "r+b") as disk:
            disk.seek(place + 100)
            disk.write(b"damage")
        if place == 0:
            done = verbena("fsck", data, "--device", device)
            assert done.returncode == 0, "one copy of the superblock is enough"
            assert "copy 0 of the superblock" in done.stdout, done.stdout
            assert "copy 0 of the superblock" in verbena("doctor", "--device", device).stdout
    done = verbena("fsck", data, "--device", device)
    assert done.returncode == DAMAGED and "both copies of the superblock" in done.stderr, done.stderr
    start_is_refused(data, device, "both copies of the superblock")


def others_are_noticed(data, device):
    """Another program makes the device its own, as it does not know the format."""
    if not has_programs("mkswap", "wipefs"):
        return
    subprocess.run(["mkswap", device], check=True, capture_output=True)
    start_is_refused(data, device, "holds swap")
    done = verbena("fsck", data, "--device", device)
    assert done.returncode == DAMAGED and "A server does not start" in done.stdout, done.stdout + done.stderr
    assert "holds swap" in verbena("doctor", "--device", device).stdout
    subprocess.run(["wipefs", "--all", device], check=True, capture_output=True)
    start_is_refused(data, device, "was overwritten by another program")
    done = verbena("fsck", data, "--device", device)
    assert done.returncode == DAMAGED and "Nothing is lost" not in done.stdout, done.stdout + done.stderr
    done = verbena("doctor", "--device", device)
    assert re.search("^fail +device of the data: the begin of ", done.stdout, re.MULTILINE), done.stdout
    assert "begin      overwritten" in verbena("device", "show", device).stdout
    with start(data, device, "--accept-data-loss") as server:
        keys = boto3_client(server.http).list_objects_v2(Bucket="bucket")["KeyCount"]
        assert keys == 6, keys
        assert server.stop() == 0
    done = verbena("fsck", data, "--device", device)
    assert done.returncode == 0 and "device:" not in done.stdout, done.stdout


def an_older_directory_is_refused(data, device, folder):
    older, newer = pathlib.Path(folder) / "older", pathlib.Path(folder) / "newer"
    shutil.copytree(data, older)
    with start(data, device) as server:
        boto3_client(server.http).put_object(Bucket="bucket", Key="newer", Body=b"x" * 100_000)
        assert server.stop() == 0
    start_is_refused(older, device, "is older than")
    done = verbena("fsck", older, "--device", device)
    assert done.returncode == DAMAGED and "is older than" in done.stdout, done.stdout + done.stderr
    # VERSION is lost: the sentence has what to write there.
    shutil.copytree(data, newer)
    text = (newer / "VERSION").read_text(encoding="utf-8")
    (newer / "VERSION").unlink()
    done = verbena("server", newer, "--http", "127.0.0.1:0", "--rdma", "127.0.0.1:0", "--set", f"data.device={device}")
    refused(done, "VERSION is missing")
    for line in text.split("\n"):
        assert line in done.stderr, done.stderr
    assert "--force" not in done.stderr, done.stderr
    with start(data, device) as server:
        assert boto3_client(server.http).get_object(Bucket="bucket", Key="newer")["Body"].read() == b"x" * 100_000
        assert server.stop() == 0


def another_device_is_refused(data, folder):
    with loop_device(folder, "other") as other:
        formatted(other)
        start_is_refused(data, other, "is another device")


def write_partition(disk, size):
    """One Linux partition from 1 MiB on."""
    entry = struct.pack("<B3xB3xII", 0, 0x83, 2048, size // 512)
    with open(disk, "r+b") as file:
        file.seek(446)
        file.write(entry)
        file.seek(510)
        file.write(b"\x55\xaa")
    subprocess.run(["blockdev", "--rereadpt", disk], check=True)


def until(condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.1)
    return condition()


def a_partition_is_a_device(folder):
    with loop_device(folder, "parted", 2 * SIZE, "--partscan") as disk:
        write_partition(disk, SIZE)
        part = pathlib.Path(disk + "p1")
        if not until(part.is_block_device, 5):
            print("not tried: a partition, for its name does not appear", flush=True)
            return
        refused(verbena("device", "format", disk), "partition table")
        formatted(part)
        with open(disk, "rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            refused(verbena("device", "format", part, "--force"), "is on a disk that another program has locked")
        data = pathlib.Path(folder) / "on a partition"
        data.mkdir()
        with start(data, part) as server:
            boto3_client(server.http).create_bucket(Bucket="bucket")
            refused(verbena("device", "format", disk, "--force"), "is in use")
            assert server.stop() == 0
        formatted(disk, "--force")
        assert until(lambda: not part.exists(), 5), "the kernel still shows the partition"


def namespace_of(device):
    """Of a namespace over a fabric: the folder of its controller, and the words that connect it."""
    controller = pathlib.Path("/sys/class/nvme") / re.sub(r"n\d+$", "", pathlib.Path(device).name)
    if not (controller / "delete_controller").exists():
        return None
    read = {name: (controller / name).read_text().strip() for name in ("transport", "address", "subsysnqn")}
    return controller, f"transport={read['transport']},{read['address']},nqn={read['subsysnqn']}"


def a_namespace_that_vanishes(device, folder):
    """The fabric's connection goes while a server writes. Returns the name under which it is back."""
    found = namespace_of(device)
    if found is None:
        return device
    controller, words = found
    formatted(device, "--force")
    data, acknowledged = pathlib.Path(folder) / "vanishes", {}
    data.mkdir()
    with start(data, device) as server:
        assert call(server, "PUT", "/bucket")[0] == 200

        def put(key, size):
            body = os.urandom(size)
            status, _ = call(server, "PUT", f"/bucket/{key}", body)
            acknowledged.update({key: body} if status == 200 else {})
            return status

        for number in range(4):
            assert put(f"k{number}", 1_000_000) == 200
        assert put("small", 500) == 200
        (controller / "delete_controller").write_text("1")
        statuses = [put(f"gone{number}", 1_000_000) for number in range(12)]
        assert all(status >= 500 for status in statuses), statuses
        small = boto3_client(server.http).get_object(Bucket="bucket", Key="small")
        assert small["Body"].read() == acknowledged["small"]
        assert "nothing is written to it until the server starts again" in server.log(), server.log()
        server.kill()
    pathlib.Path("/dev/nvme-fabrics").write_text(words)
    assert until(lambda: list(pathlib.Path("/dev").glob("nvme*n1")), 30), "the namespace does not come back"
    device = str(sorted(pathlib.Path("/dev").glob("nvme*n1"))[-1])
    with start(data, device) as server:
        s3 = boto3_client(server.http)
        assert {item["Key"] for item in s3.list_objects_v2(Bucket="bucket")["Contents"]} == set(acknowledged)
        for key, body in acknowledged.items():
            assert s3.get_object(Bucket="bucket", Key=key)["Body"].read() == body, key
        assert server.stop() == 0
    print("a namespace that vanished and came back: what was acknowledged is there", flush=True)
    return device


def device_to_erase():
    """Taken out of the environment: a server refuses variables of this kind that it does not know."""
    device, erase = (os.environ.pop(name, None) for name in ("VERBENA_TEST_DEVICE", "VERBENA_TEST_DEVICE_ERASE"))
    if device and erase != device:
        print(f"{device} is not used: VERBENA_TEST_DEVICE_ERASE={device} says that its contents may go", flush=True)
        return None
    return device


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--device", default=device_to_erase(), help="all that is on it is lost; default: a loop device")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="verbena-device-") as folder:
        with contextlib.ExitStack() as stack:
            device = options.device or stack.enter_context(loop_device(folder, "disk"))
            a_device_with_data_is_refused(device, folder)
            data = objects_are_there(device, folder)
            another_device_is_refused(data, folder)
            an_older_directory_is_refused(data, device, folder)
            others_are_noticed(data, device)
            damage_is_told(data, device)
            a_partition_is_a_device(folder)
            device = a_namespace_that_vanishes(device, folder)
            formatted(device, "--force")
            subprocess.run([sys.executable, TESTS / "crash" / "kill_test.py", "--rounds", str(options.rounds), "--device",
                            device], check=True)
    print("a raw device: refusals, objects, fsck, doctor and kill -9: ok")


if __name__ == "__main__":
    main()
