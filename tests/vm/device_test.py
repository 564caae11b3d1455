#!/usr/bin/env python3
"""Operation of the device: configuration that is applied, or refused with the setting's name; its counters in the
metrics; the findings of `verbena doctor`. Runs inside the virtual machine: tools/vm.sh run tests/vm/device_test.py
[CASE...]"""
import contextlib
import json
import pathlib
import subprocess
import tempfile

import guest
from guest import KIB, MIB, Mover, Server, verbena


def rdma_resources(kind):
    return json.loads(subprocess.run(["rdma", "-j", "res", "show", kind], stdout=subprocess.PIPE, check=True).stdout)


def listens_on(*settings):
    """The devices on which a server with these settings has completion queues and listeners, from the kernel's
    tables."""
    server = Server(*settings).start()
    try:
        pid = server.process.pid
        queues = [q for q in rdma_resources("cq") if q.get("pid") == pid]
        listeners = [c for c in rdma_resources("cm_id") if c.get("pid") == pid and c.get("state") == "LISTEN"]
        assert queues and listeners, (queues, listeners)
        devices = {entry["ifname"] for entry in queues + listeners}
        entries = {queue["cqe"] for queue in queues}
    finally:
        server.stop()
    return devices, entries


def the_device_name_and_gid_choose_the_device():
    devices, _ = listens_on("rdma.device_name=rxe1", "rdma.gid_index=1", "rdma.ib_port=1")
    assert devices == {"rxe1"}, devices


def the_completion_queue_has_the_configured_size():
    _, entries = listens_on("rdma.max_send_wr=32", "rdma.max_recv_wr=32", "rdma.cq_size=500")
    # 32 + 32 x 14 = 480, which soft-RoCE rounds up to one below a power of two.
    assert entries == {511}, entries


REFUSED = {
    "rdma.device_name=mlx5_9": "no RDMA device mlx5_9",
    "rdma.ib_port=2": "no usable GID",
    "rdma.gid_index=77": "no usable GID",
    "rdma.max_send_wr=2000000": "max_send_wr",
    "rdma.max_send_wr=8000": "set rdma.cq_size between 8128 and that",
    "rdma.max_sge=5": "max_sge: 5 asked, the provider verbs;ofi_rxm has 4",
    "rdma.max_sge=40": "max_sge: 40 asked, the device rxe0 has 32",
    "rdma.cq_size=40000": "cq_size: 40000 asked, the device rxe0 has 32767",
    "rdma.cq_size=100": "cq_size: 100 asked, max_send_wr + max_recv_wr need 256",
}


def values_that_the_device_refuses_are_named():
    for setting, word in REFUSED.items():
        said = Server(setting).refuses_to_start()
        assert word in said, f"{setting}: {said}"


@contextlib.contextmanager
def in_vlan(number):
    """An interface of the VLAN above both ends of the link, with addresses of its own, and clients that go by them."""
    guest.sh("modprobe 8021q")
    before = guest.HTTP, guest.NATIVE
    for n in (0, 1):
        name = f"v{n}.{number}"
        guest.sh(f"ip link add link v{n} name {name} type vlan id {number}")
        guest.sh(f"sysctl -q -w net.ipv4.conf.v{n}/{number}.rp_filter=0 net.ipv4.conf.v{n}/{number}.accept_local=1")
        guest.sh(f"ip addr add 10.78.0.{n + 1}/24 dev {name} && ip link set {name} up")
        guest.sh(f"ip route add 10.78.0.{2 - n} dev {name} src 10.78.0.{n + 1} table {103 + n}")
        guest.sh(f"ip rule add pref 10 iif lo from 10.78.0.{n + 1} to 10.78.0.{2 - n} lookup {103 + n}")
    guest.sh(f"ip rule add pref 5 uidrange {guest.CLIENT_UID}-{guest.CLIENT_UID} to 10.78.0.1 lookup 104")
    guest.HTTP, guest.NATIVE = "http://10.78.0.1:9000", "10.78.0.1:9100"
    try:
        yield
    finally:
        guest.HTTP, guest.NATIVE = before
        guest.sh("ip rule del pref 5 to 10.78.0.1; ip rule del pref 10 lookup 103; ip rule del pref 10 lookup 104; "
                 f"ip link del v0.{number}; ip link del v1.{number}")


def rdma_goes_by_the_interface_of_its_vlan():
    def sent():
        return int(pathlib.Path("/sys/class/net/v0.100/statistics/tx_bytes").read_text())

    with in_vlan(100):
        said = Server("rdma.vlan=200").refuses_to_start()
        assert "rdma.vlan 200" in said, said
        server = Server("rdma.vlan=100", "rdma.token_networks=10.78.0.2").start()
        try:
            verbena("mb", "s3://faults", "--durability", "memory")
            Mover(via="http", op="seed", size=MIB).must_succeed()
            for door in ("native", "token"):
                before, packets = sent(), guest.counters("rxe0", "sent_pkts")
                Mover(via=door, op="get", size=MIB, encryption="preferred" if door == "native" else "off").must_succeed(door)
                assert sent() - before >= MIB, f"{door}: {sent() - before} bytes by the VLAN's interface"
                assert guest.counters("rxe0", "sent_pkts") - packets >= 256, "by the device"
        finally:
            server.stop()


DPU = """dpu:
  enabled: true
  enable_rdma: true
  enable_crypto: true
rdma:
  encryption: required
"""
BLUEFIELD = {"sys_vendor": "https://www.mellanox.com", "product_name": "BlueField-3 DPU"}


@contextlib.contextmanager
def called(names):
    """The machine as its firmware would name it: files over the kernel's."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as undo:
        for name, text in names.items():
            file = pathlib.Path(folder) / name
            file.write_text(text + "\n")
            guest.sh(f"mount --bind {file} /sys/class/dmi/id/{name}")
            undo.callback(guest.sh, f"umount /sys/class/dmi/id/{name}")
        yield


def a_dpu_serves_sealed_by_its_own_device():
    """All three keys, in a machine that calls itself a BlueField: which device is counted, and that it moves the bytes."""
    tokens = "rdma.token_provider=auto"
    said = Server(tokens, file=DPU).refuses_to_start()
    assert "dpu.enabled: this machine does not call itself a DPU" in said and "DMI: QEMU" in said, said
    with called(BLUEFIELD):
        said = Server(tokens, file=DPU, device=None).refuses_to_start()
        assert "dpu.enable_rdma: the native door has no RDMA device of this DPU" in said, said
        for device in ("rxe1", "rxe0"):
            server = Server(tokens, file=DPU, device=device).start()
            try:
                assert "DMI: https://www.mellanox.com BlueField-3 DPU)" in server.log(), server.log()
                assert f"dpu.enable_rdma: the native door's RDMA goes by {device} (verbs;ofi_rxm)" in server.log(), server.log()
                if device == "rxe0":
                    verbena("mb", "s3://faults", "--durability", "memory")
                    Mover(via="http", op="seed", size=MIB).must_succeed()
                    packets = guest.counters(device, "sent_pkts")
                    Mover(via="native", op="get", size=MIB, encryption="required").must_succeed("native")
                    assert guest.counters(device, "sent_pkts") - packets >= 256, "1 MiB in packets of at most 4 KiB"
                    assert server.metric('verbena_sealed_bytes_total{direction="to_client"}') >= MIB
            finally:
                server.stop()


def port_counters_are_metrics():
    server = Server().start()
    try:
        verbena("mb", "s3://faults", "--durability", "memory")
        Mover(via="http", op="seed", size=f"{256 * KIB},{MIB}").must_succeed()

        def read(counter):
            return server.metric(f'verbena_rdma_port_counter_total{{counter="{counter}",device="rxe0",port="1"}}')

        assert server.metric('verbena_rdma_port_active{device="rxe0",port="1"}') == 1
        sent = read("sent_pkts")
        assert sent == guest.counters("rxe0", "sent_pkts")
        Mover(via="native", op="get", size=1 * MIB).must_succeed("native")
        assert read("sent_pkts") - sent >= 256, "1 MiB in packets of at most 4 KiB"
        retries = ("rcvd_seq_err", "completer_retry_err", "duplicate_request", "out_of_seq_request")
        guest.shape("loss 2%")
        for _ in range(20):  # a single one occasionally loses no packet
            Mover(via="native", op="get", size=256 * KIB, count=2).must_succeed("native")
            if sum(map(read, retries)) > 0:
                break
        guest.unshape()
        assert sum(map(read, retries)) > 0, "no packet of the device was lost"
        guest.link_down()
        guest.until(lambda: server.metric('verbena_rdma_port_active{device="rxe0",port="1"}') == 0, 20, "port_active 0")
        guest.link_up()
    finally:
        guest.link_up()
        server.stop()


def doctor():
    out = verbena("doctor", "--json", check=False, client=False).stdout
    return {line["subject"]: line for line in map(json.loads, out.splitlines())}


def the_doctor_finds_the_device():
    found = doctor()
    port = found["rdma device rxe0 port 1"]
    assert port["health"] == "ok", port
    for word in ("ACTIVE", "Ethernet", "RoCE v2", "[1] 0000:0000:0000:0000:0000:ffff:0a4d:0001", "v0 has MTU 4200"):
        assert word in port["found"], (word, port)
    assert "provider verbs;ofi_rxm" in found, sorted(found)
    assert found["rdma device files"]["health"] == "ok"
    assert found["limit memlock"]["found"] == "unlimited"
    assert found["packet filter"]["found"].startswith("no packet filter")


def below_rxe0():
    return doctor()["encryption below rxe0"]["found"]


def the_doctor_tells_what_encrypts_below_the_device():
    found = below_rxe0()
    for words in ("inline AES-XTS: absent", "v0: IPsec packet offload absent", "0 of the host's 0 in packet offload",
                  "IPsec paths none", "MACsec offload absent", "MACsec interface absent here",
                  "it sends through another device, which the kernel does not name here"):
        assert words in found, (words, found)
    psp = doctor()["encryption PSP"]["found"]
    assert psp in ("absent from this kernel", "absent: the kernel has it, but no network device"), psp
    guest.sh("modprobe macsec && ip link add link v0 macsec9 type macsec")
    try:
        assert "MACsec interface macsec9 (does not encrypt)" in below_rxe0(), below_rxe0()
        guest.sh("ip link set macsec9 type macsec encrypt on")
        assert "MACsec interface macsec9 (encrypts" in below_rxe0(), below_rxe0()
    finally:
        guest.sh("ip link del macsec9")


def the_doctor_says_what_is_wrong():
    guest.link_down()
    guest.until(lambda: guest.port_state("rxe0") == "DOWN", 20, "the port to go down")
    port = doctor()["rdma device rxe0 port 1"]
    assert port["health"] == "warn" and "not active" in port["mend"], port
    guest.link_up()
    guest.sh("rdma link delete rxe0; rdma link delete rxe1")
    none = doctor()["rdma devices"]
    assert none["health"] == "warn" and "rdma link add rxe0 type rxe netdev" in none["mend"], none
    assert "loaded" in none["found"], none
    # As doctor advises:
    for n in (0, 1):
        guest.sh(f"rdma link add rxe{n} type rxe netdev v{n}")
    assert doctor()["rdma device rxe0 port 1"]["health"] == "ok"


if __name__ == "__main__":
    guest.prepare()
    guest.run([the_device_name_and_gid_choose_the_device, the_completion_queue_has_the_configured_size,
               values_that_the_device_refuses_are_named, rdma_goes_by_the_interface_of_its_vlan,
               a_dpu_serves_sealed_by_its_own_device, port_counters_are_metrics, the_doctor_finds_the_device,
               the_doctor_tells_what_encrypts_below_the_device, the_doctor_says_what_is_wrong])
