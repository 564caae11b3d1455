"""RDMA libraries: the machine's own if installed, since they support its devices, else those of the wheel."""
import ctypes
import pathlib

_OWN = pathlib.Path(__file__).parent / "_libs" / "rdma"

for _name in ("libnl-3.so.200", "libnl-route-3.so.200", "libibverbs.so.1", "libefa.so.1", "librdmacm.so.1"):
    if not (_OWN / _name).exists():
        continue
    try:
        ctypes.CDLL(_name)
    except OSError:
        ctypes.CDLL(str(_OWN / _name))
