#!/usr/bin/python3
"""A client in a process of its own: it moves objects to and from its memory on a device, or tries an address that is another
process's memory.

usage: other_process.py HTTP NATIVE DEVICE ADDRESS
"""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "clients"))
from python_case import ACCESS_KEY, SECRET_KEY  # noqa: E402
from cuda_driver import Array  # noqa: E402
from hip_driver import driver, is_hip  # noqa: E402
import verbena  # noqa: E402

SIZE = 5 << 20


class Foreign:
    """Shown as an array of this process."""

    def __init__(self, address):
        self.__cuda_array_interface__ = {"shape": (16,), "typestr": "|u1", "data": (address, False), "version": 3}

    def __dlpack_device__(self):
        return (10 if is_hip() else 2, 0)


def main():
    http, native, device, address = sys.argv[1:]
    with verbena.connect(http, native_endpoint=native, access_key=ACCESS_KEY, secret_key=SECRET_KEY, via="native",
                         provider=os.environ.get("CLIENT_PROVIDER", "auto")) as client:
        if int(address):
            try:
                client.put("bucket", "foreign", Foreign(int(address)))
                print("it was taken")
            except Exception as why:
                print(f"{type(why).__name__}: {why}")
            return
        array = Array(driver(int(device)), SIZE)
        for turn in range(5):
            data = os.urandom(SIZE)
            array.set(data)
            client.put("bucket", f"process/{device}", array)
            array.set(bytes(SIZE))
            got = client.get_into("bucket", f"process/{device}", array)
            assert array.get() == data, f"turn {turn}: other bytes"
        print(f"{got.device_path}: all bytes are right")


main()
