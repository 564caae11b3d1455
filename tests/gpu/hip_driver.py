"""AMD's driver (HIP) through ctypes, as cuda_driver.py has NVIDIA's, and the driver that a test runs over."""
import ctypes
import os

from cuda_driver import Driver

NAMES = {"cuDeviceGetName": "hipDeviceGetName", "cuMemAlloc_v2": "hipMalloc", "cuMemFree_v2": "hipFree", "cuMemcpyHtoD_v2": "hipMemcpyHtoD",
         "cuMemcpyDtoH_v2": "hipMemcpyDtoH", "cuMemcpyHtoDAsync_v2": "hipMemcpyHtoDAsync", "cuMemHostRegister_v2": "hipHostRegister",
         "cuMemHostUnregister": "hipHostUnregister", "cuStreamCreate": "hipStreamCreateWithFlags", "cuStreamSynchronize": "hipStreamSynchronize", **{f"cuMem{name}": f"hipMem{name}" for name in (
             "AddressReserve", "AddressFree", "Create", "Release", "Map", "Unmap", "SetAccess")}}


def load(names):
    """The first of these libraries that is there."""
    for name in names[:-1]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            pass
    return ctypes.CDLL(names[-1])


class HipDriver(Driver):
    """Memory of one device, which is the thread's own from then on."""

    kind, dlpack_type, dlpack_stream = "rocm", 10, 0
    def __init__(self, device=0):
        named = os.environ.get("TEST_VERBENA_HIP_DRIVER")
        self.library = load([named] if named else [f"libamdhip64.so{version}" for version in (".7", ".6", ".5", "")])
        self.library.hipGetErrorName.restype = ctypes.c_char_p
        self.call("hipInit", 0)
        self.call("hipSetDevice", device)
        self.device = device

    def function(self, name):
        return getattr(self.library, NAMES.get(name, name))

    def check(self, name, status):
        if status:
            raise OSError(f"{NAMES.get(name, name)}: {self.library.hipGetErrorName(status).decode()}")


def is_hip():
    """Whether tests run over AMD's driver, or its double."""
    return "TEST_VERBENA_HIP_DRIVER" in os.environ


def own(cuda, hip):
    """What the driver of the tests calls it."""
    return hip if is_hip() else cuda


def driver(device=0):
    """That driver."""
    return HipDriver(device) if is_hip() else Driver(device)
