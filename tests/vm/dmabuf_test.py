#!/usr/bin/env python3
"""What the RDMA device of the virtual machine does with a dma-buf, which is what a GPU's driver exports its memory as. A buffer of the module
vgem stands for the GPU's: it is mapped, written and read here, and then offered to the device. Runs inside the virtual machine, by hand:
tools/vm.sh run python3 tests/vm/dmabuf_test.py"""
import ctypes
import errno
import fcntl
import glob
import mmap
import os
import pathlib
import platform
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "conformance"))
from s3rdma_conformance import verbs  # noqa: E402

SIZE = 1 << 20
CREATE_DUMB, PRIME_HANDLE_TO_FD, VERSION = 0xC02064B2, 0xC00C642D, 0xC0406400  # of <drm/drm.h>
LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ = 1, 2, 4


def load_vgem():
    """The module lies beside the guest's kernel, in the cache of tools/vm.sh."""
    cache = pathlib.Path(os.environ.get("VERBENA_CACHE") or pathlib.Path.home() / ".cache/verbena")
    folder = cache / "vm/kernel/lib/modules" / platform.release() / "kernel/drivers/gpu/drm"
    for name in ("drm.ko", "drm_shmem_helper.ko", "vgem/vgem.ko"):
        done = subprocess.run(["insmod", folder / name], capture_output=True, text=True)
        if done.returncode and "File exists" not in done.stderr:
            sys.exit(f"{name}: {done.stderr.strip()}")
    for card in sorted(glob.glob("/dev/dri/card*")):
        opened = os.open(card, os.O_RDWR | os.O_CLOEXEC)
        name = ctypes.create_string_buffer(32)
        told = bytearray(struct.pack("iiiiQQQQQQ", 0, 0, 0, 0, 31, ctypes.addressof(name), 0, 0, 0, 0))
        fcntl.ioctl(opened, VERSION, told)
        if name.value == b"vgem":
            return opened
        os.close(opened)
    sys.exit("vgem made no device")


def make_buffer(card):
    """A dma-buf of SIZE bytes."""
    asked = bytearray(struct.pack("IIIIIIQ", SIZE // 4096, 1024, 32, 0, 0, 0, 0))
    fcntl.ioctl(card, CREATE_DUMB, asked)
    _, _, _, _, handle, _, size = struct.unpack("IIIIIIQ", asked)
    assert size >= SIZE, size
    exported = bytearray(struct.pack("IIi", handle, os.O_CLOEXEC | os.O_RDWR, -1))
    fcntl.ioctl(card, PRIME_HANDLE_TO_FD, exported)
    return struct.unpack("IIi", exported)[2]


def it_is_memory(buffer):
    data = os.urandom(SIZE)
    with mmap.mmap(buffer, SIZE, mmap.MAP_SHARED) as one:
        one[:] = data
    with mmap.mmap(buffer, SIZE, mmap.MAP_SHARED) as other:
        assert other[:] == data


def register(device, domain, buffer):
    """0, or the number of the error."""
    c = device.library.c
    c.ibv_reg_dmabuf_mr.restype = ctypes.c_void_p
    ctypes.set_errno(0)
    region = c.ibv_reg_dmabuf_mr(ctypes.c_void_p(domain), ctypes.c_uint64(0), ctypes.c_size_t(SIZE), ctypes.c_uint64(0), ctypes.c_int(buffer),
                                 ctypes.c_int(LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ))
    return 0 if region else ctypes.get_errno()


def main():
    buffer = make_buffer(load_vgem())
    it_is_memory(buffer)
    device = verbs.Device(None, "10.77.0.1")
    domain = device.library.made(device.library.c.ibv_alloc_pd(ctypes.c_void_p(device.context)), "ibv_alloc_pd")
    error = register(device, domain, buffer)
    print(f"ibv_reg_dmabuf_mr: {'registered' if error == 0 else os.strerror(error)}")
    # docs/fabrics.md says so: a device that registers it deserves a test that moves bytes.
    assert error == errno.EOPNOTSUPP, error


main()
