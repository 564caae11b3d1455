"""The CUDA driver through ctypes, as far as the tests need it: libcuda.so.1, or the double in its place."""
import ctypes
import mmap
import os

Address = ctypes.c_uint64


class Properties(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int), ("place", ctypes.c_int * 2), ("metadata", ctypes.c_void_p),
                ("flags", ctypes.c_ubyte * 8)]


class Access(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = [("place", ctypes.c_int * 2), ("flags", ctypes.c_int)]


class CopyAttributes(ctypes.Structure):
    """CUmemcpyAttributes."""

    _fields_ = [("order", ctypes.c_int), ("source", ctypes.c_int * 2), ("target", ctypes.c_int * 2), ("flags", ctypes.c_uint)]


class Driver:
    """Memory of one device."""

    kind, dlpack_type, dlpack_stream = "cuda", 2, 1  # the latter two: DLPack's numbers of the device and its default stream

    def __init__(self, device=0):
        self.library = ctypes.CDLL(os.environ.get("TEST_VERBENA_CUDA_DRIVER") or "libcuda.so.1")
        self.context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.call("cuCtxPushCurrent_v2", self.context)
        self.device = device

    def function(self, name):
        return getattr(self.library, name)

    def call(self, name, *arguments):
        self.check(name, self.function(name)(*arguments))

    def check(self, name, status):
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

    def map_pieces(self, sizes):
        """Physical memory that may be shared by descriptors, mapped side by side; the sizes are the driver's multiples."""
        place = (ctypes.c_int * 2)(1, self.device)  # on this device
        wish = Properties(1, 1, place)  # pinned, by descriptor
        address, at = Address(), 0
        self.call("cuMemAddressReserve", ctypes.byref(address), ctypes.c_size_t(sum(sizes)), ctypes.c_size_t(0), Address(0), ctypes.c_uint64(0))
        for size in sizes:
            handle = ctypes.c_uint64()
            self.call("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(size), ctypes.byref(wish), ctypes.c_uint64(0))
            self.call("cuMemMap", Address(address.value + at), ctypes.c_size_t(size), ctypes.c_size_t(0), handle, ctypes.c_uint64(0))
            self.call("cuMemRelease", handle)
            at += size
        self.call("cuMemSetAccess", address, ctypes.c_size_t(at), ctypes.byref(Access(place, 3)), ctypes.c_size_t(1))
        return address.value

    def unmap_pieces(self, address, sizes):
        at = address
        for size in sizes:
            self.call("cuMemUnmap", Address(at), ctypes.c_size_t(size))
            at += size
        self.call("cuMemAddressFree", Address(address), ctypes.c_size_t(sum(sizes)))

    def free(self, address):
        self.call("cuMemFree_v2", Address(address))

    def write(self, address, data):
        self.call("cuMemcpyHtoD_v2", Address(address), bytes(data), ctypes.c_size_t(len(data)))

    def read(self, address, size):
        data = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", data, Address(address), ctypes.c_size_t(size))
        return data.raw

    def copy(self, to, memory, size):
        """One synchronous copy from the beginning of page-locked memory."""
        self.call("cuMemcpyHtoD_v2", Address(to), ctypes.c_void_p(memory.address), ctypes.c_size_t(size))

    def stream(self):
        made = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(made), ctypes.c_uint(1))  # it does not wait for the default stream
        return made

    def copies(self, places, memory, size, stream):
        """The addresses `places`, each with the next `size` bytes of page-locked memory: two functions that copy them all and
        wait for the end, by one asynchronous call for each, and by one call for all (None: the driver has none)."""
        one, wait = self.function("cuMemcpyHtoDAsync_v2"), self.function("cuStreamSynchronize")
        one.argtypes = [ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
        wait.argtypes = [ctypes.c_void_p]
        sources = range(memory.address, memory.address + size * len(places), size)

        def by_calls():
            status = 0
            for to, source in zip(places, sources):
                status |= one(to, source, size, stream)
            self.check("cuMemcpyHtoDAsync_v2", status or wait(stream))
        return by_calls, self.copies_in_one_call(places, sources, size, stream, wait)

    def copies_in_one_call(self, places, sources, size, stream, wait):
        if not hasattr(self.library, "cuMemcpyBatchAsync"):
            return None  # before CUDA 12.8
        count, failed = len(places), ctypes.c_size_t()
        to, source = (ctypes.c_uint64 * count)(*places), (ctypes.c_uint64 * count)(*sources)
        sizes, attributes, first = (ctypes.c_size_t * count)(*[size] * count), CopyAttributes(order=1), ctypes.c_size_t(0)  # in the stream's order

        def work():
            self.call("cuMemcpyBatchAsync", to, source, sizes, ctypes.c_size_t(count), ctypes.byref(attributes), ctypes.byref(first), ctypes.c_size_t(1),
                      ctypes.byref(failed), stream)
            self.check("cuStreamSynchronize", wait(stream))
        return work


class Locked:
    """Host memory that is page-locked for the device."""

    def __init__(self, driver, size):
        self.driver, self.memory = driver, mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.view = ctypes.c_char.from_buffer(self.memory)
        self.address = ctypes.addressof(self.view)
        driver.call("cuMemHostRegister_v2", ctypes.c_void_p(self.address), ctypes.c_size_t(size), ctypes.c_uint(0))

    def free(self):
        self.driver.call("cuMemHostUnregister", ctypes.c_void_p(self.address))
        del self.view
        self.memory.close()


class Array:
    """Bytes on a device, shown as libraries show their arrays."""

    def __init__(self, driver, size, **interface):
        self.driver, self.size = driver, size
        self.address = driver.allocate(max(size, 1))
        self.interface = {"shape": (size,), "typestr": "|u1", "data": (self.address, False), "version": 3, **interface}

    @property
    def __cuda_array_interface__(self):
        return self.interface

    def __dlpack_device__(self):
        return (self.driver.dlpack_type, self.driver.device)

    def set(self, data):
        self.driver.write(self.address, data)

    def get(self, size=None):
        return self.driver.read(self.address, self.size if size is None else size)

    def free(self):
        self.driver.free(self.address)


class PartOf(Array):
    """Bytes of another array, from an offset on."""

    def __init__(self, whole, offset, size):
        self.driver, self.size, self.address = whole.driver, size, whole.address + offset
        self.interface = {"shape": (size,), "typestr": "|u1", "data": (self.address, False), "version": 3}

    def free(self):
        pass  # with the whole


class MappedArray(Array):
    """An array in memory of the driver's virtual memory API, in two pieces: PyTorch's expandable segments are such."""

    def __init__(self, driver, size):
        least = 2 << 20  # the driver's granularity
        piece = max(1, -(-size // (2 * least))) * least
        self.pieces = (piece, piece)
        self.driver, self.size = driver, size
        self.address = driver.map_pieces(self.pieces)
        self.interface = {"shape": (size,), "typestr": "|u1", "data": (self.address, False), "version": 3}

    def free(self):
        self.driver.unmap_pieces(self.address, self.pieces)
