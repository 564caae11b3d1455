"""The CUDA driver through ctypes, as far as the tests need it: libcuda.so.1, or the double in its place."""
import ctypes
import os

Address = ctypes.c_uint64


class Driver:
    """Memory of one device."""

    def __init__(self, device=0):
        self.library = ctypes.CDLL(os.environ.get("TEST_VERBENA_CUDA_DRIVER") or "libcuda.so.1")
        self.context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.call("cuCtxPushCurrent_v2", self.context)
        self.device = device

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(status, ctypes.byref(text))
            raise OSError(f"{name}: {(text.value or b'?').decode()}")

    def name(self):
        text = ctypes.create_string_buffer(128)
        self.call("cuDeviceGetName", text, 127, self.device)
        return text.value.decode()

    def allocate(self, size):
        address = Address()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def free(self, address):
        self.call("cuMemFree_v2", Address(address))

    def write(self, address, data):
        self.call("cuMemcpyHtoD_v2", Address(address), bytes(data), ctypes.c_size_t(len(data)))

    def read(self, address, size):
        data = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", data, Address(address), ctypes.c_size_t(size))
        return data.raw


class Array:
    """Bytes on a device, shown as libraries show their arrays."""

    def __init__(self, driver, size, **interface):
        self.driver, self.size = driver, size
        self.address = driver.allocate(max(size, 1))
        self.interface = {"shape": (size,), "typestr": "|u1", "data": (self.address, False), "version": 3, **interface}

    @property
    def __cuda_array_interface__(self):
        return self.interface

    def set(self, data):
        self.driver.write(self.address, data)

    def get(self, size=None):
        return self.driver.read(self.address, self.size if size is None else size)

    def free(self):
        self.driver.free(self.address)
