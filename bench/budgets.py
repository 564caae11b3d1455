"""The design's budgets: how each is computed from a round's rows, its limit, and the reason where it is not met."""

import statistics

KIB, MIB = 1 << 10, 1 << 20
LOCAL_GET = ("native takes about 2 us in every round (two hand-overs through shared memory between polling threads, two MACs over "
             "some 150 bytes, a look-up, a copy); nginx takes 14 to 36 us, by where the scheduler puts it and its client, and the "
             "ratio goes with that")

SENDFILE = ("a server that does nothing but send bytes from memory is no faster (rows below): nginx's sendfile lends the page cache's "
            "own pages to the socket, which are not copied over loopback; memory that is used again cannot be lent like that")

TLS_WHY = ("perf, GETs of 4 KiB: 53% of the server's time is the kernel's (37% sending, the loopback's receiving side included, 11% "
           "epoll_wait, 6% receiving), 20% Verbena's own, 14% OpenSSL's, 11% the C library's: no one piece is the difference")


def find(rows, door, op, size, provider=None, concurrency=1):
    for row in rows:
        if (row["door"], row["op"], row["size"], row["concurrency"]) == (door, op, size, concurrency) and provider in (
                None, row["provider"]):
            return row
    return None


def ratio(a, b, figure):
    if a is None or b is None or not a[figure] or not b[figure]:
        return None
    return a[figure] / b[figure]


def faster(op, size):
    """The ratio of nginx's time to that of native on local."""
    def value(one):
        return ratio(find(one["memory"], "nginx", op, size), find(one["memory"], "native", op, size, "local"), "p50_us")
    return value


def tcp_latency(one):
    small = find(one["small"], "fabtests", "one_way", 64, "tcp")
    large = find(one["memory"], "fabtests", "one_way", 4 * KIB, "tcp")
    get = find(one["memory"], "native", "get", 4 * KIB, "tcp")
    if not small or not large or not get:
        return None
    return get["p50_us"] / (small["p50_us"] + large["p50_us"])


def throughput(provider, size, yardstick, op):
    def value(one):
        return ratio(find(one["memory"], "native", "get", size, provider), find(one["memory"], yardstick, op, size),
                     "bytes_per_s")
    return value


def cpu_against_memcpy(one):
    get, copy = find(one["memory"], "native", "get", MIB, "local"), find(one["memory"], "memcpy", "copy", MIB)
    if not get or not copy or not get["server_cpu_s_per_gb"]:  # 0: less than a tick
        return None
    return get["server_cpu_s_per_gb"] / (1e9 / copy["bytes_per_s"])


def per_core(size, door):
    """Requests per second of the server's CPU, relative to nginx."""
    def value(one):
        return ratio(find(one["per_core"], "nginx", "get", size, concurrency=8),
                     find(one["per_core"], door, "get", size, concurrency=8), "server_cpu_s_per_gb")
    return value


def plain_sends(size, door):
    """The same, relative to a server that only sends."""
    def value(one):
        return ratio(find(one["per_core"], "plain", "get", size, concurrency=8),
                     find(one["per_core"], door, "get", size, concurrency=8), "server_cpu_s_per_gb")
    return value


def over_tls(size, op="get"):
    """The server's CPU for a request by TLS 1.3: nginx's, relative to ours."""
    def value(one):
        return ratio(find(one.get("tls", []), "nginx", op, size, concurrency=8),
                     find(one.get("tls", []), "anonymous", op, size, concurrency=8), "server_cpu_s_per_gb")
    return value


def md5_side_by_side(one):
    return ratio(find(one["md5"], "md5", "side_by_side", MIB, concurrency=16), find(one["md5"], "md5", "one_body", MIB),
                 "bytes_per_s")


def puts_with_md5(figure):
    """16 concurrent callers, relative to one core's MD5."""
    def value(one):
        put, digest = find(one["md5"], "native", "put_md5", MIB, "local", 16), find(one["md5"], "md5", "one_body", MIB)
        if not put or not digest or not put[figure]:
            return None
        return put[figure] / digest["bytes_per_s"] if figure == "bytes_per_s" else 1e9 / put[figure] / digest["bytes_per_s"]
    return value


# what, the budget in words, whether more is better, the limit, how, the reason when it is not met
BUDGETS = [
    ("native GET 4 KiB on `local`, p50, against nginx", ">= 18x faster", True, 18, faster("get", 4 * KIB), LOCAL_GET),
    ("native GET 64 KiB on `local`, p50, against nginx", ">= 20x faster", True, 20, faster("get", 64 * KIB), LOCAL_GET),
    ("native PUT 4 KiB on `local`, `memory`, p50, against nginx DAV", ">= 18x faster", True, 18, faster("put", 4 * KIB),
     "the PUT path's coroutines: some 40,000 instructions, a fifth of them for allocations"),
    ("native PUT 64 KiB on `local`, `memory`, p50, against nginx DAV", ">= 20x faster", True, 20,
     faster("put", 64 * KIB), "as at 4 KiB"),
    ("native GET 4 KiB on `tcp`, p50, against one way of 64 B and one of 4 KiB", "<= 2.0x", False, 2.0, tcp_latency,
     "a request, a write into the window and a reply are three messages of the provider, the yardstick is two"),
    ("native GET 1 MiB on `tcp`, throughput, against fi_rma_bw", ">= 0.9x", True, 0.9,
     throughput("tcp", MIB, "fabtests", "rma_write"), "one request at a time waits for its own round trip"),
    ("native GET 16 MiB on `tcp`, throughput, against fi_rma_bw", ">= 0.9x", True, 0.9,
     throughput("tcp", 16 * MIB, "fabtests", "rma_write"), "one request at a time waits for its own round trip"),
    ("native GET 1 MiB on `local`, throughput, against memcpy", ">= 0.8x", True, 0.8,
     throughput("local", MIB, "memcpy", "copy"),
     "memcpy of one process stays in one core's cache; here source, copy and reader are on two cores"),
    ("native GET 16 MiB on `local`, throughput, against memcpy", ">= 0.8x", True, 0.8,
     throughput("local", 16 * MIB, "memcpy", "copy"), "as at 1 MiB"),
    ("server CPU per GB, native GET 1 MiB on `local`, against memcpy's", "<= 1.2x", False, 1.2, cpu_against_memcpy,
     "as above, and the core polls for a while after each request"),
    ("HTTP GET 4 KiB, anonymous, requests per second of server CPU, against nginx", ">= 0.8x", True, 0.8,
     per_core(4 * KIB, "anonymous"), "the kernel's part is the same; S3's rules and twice as many headers come on top"),
    ("HTTP GET 64 KiB, anonymous, requests per second of server CPU, against nginx", ">= 1.0x", True, 1.0,
     per_core(64 * KIB, "anonymous"), "half of it is the cost of plain sends (the row below), the other half HTTP's and S3's own: 15,600 instructions, and Asio's three system calls a request against nginx's two"),
    ("HTTP GET 1 MiB, anonymous, requests per second of server CPU, against nginx", ">= 1.0x", True, 1.0,
     per_core(MIB, "anonymous"), SENDFILE),
    ("HTTP GET 4 KiB, signed, requests per second of server CPU, against nginx", ">= 0.5x", True, 0.5,
     per_core(4 * KIB, "http"), "the signature: canonical request, a SHA-256 and an HMAC"),
    ("HTTP GET 64 KiB, signed, requests per second of server CPU, against nginx", ">= 0.9x", True, 0.9,
     per_core(64 * KIB, "http"), "perf finds 56% of the server's time in the kernel, as nginx has it, and the rest in the signature (canonical "
     "request, a SHA-256 and an HMAC), the parser and S3's rules"),
    ("HTTP GET 1 MiB, signed, requests per second of server CPU, against nginx", ">= 0.9x", True, 0.9,
     per_core(MIB, "http"), SENDFILE),
    ("plain sends of 64 KiB in memory, requests per second of server CPU, against nginx", "", True, 0, per_core(64 * KIB, "plain"),
     ""),
    ("plain sends of 1 MiB in memory, requests per second of server CPU, against nginx", "", True, 0, per_core(MIB, "plain"), ""),
    ("HTTP GET 64 KiB, anonymous, requests per second of server CPU, against plain sends", "", True, 0,
     plain_sends(64 * KIB, "anonymous"), ""),
    ("HTTP GET 1 MiB, anonymous, requests per second of server CPU, against plain sends", "", True, 0,
     plain_sends(MIB, "anonymous"), ""),
    ("HTTPS GET 4 KiB, anonymous, TLS 1.3, requests per second of server CPU, against nginx's TLS", ">= 1.0x", True, 1.0,
     over_tls(4 * KIB), TLS_WHY),
    ("HTTPS GET 64 KiB, anonymous, TLS 1.3, requests per second of server CPU, against nginx's TLS", ">= 1.1x", True, 1.1,
     over_tls(64 * KIB), TLS_WHY),
    ("HTTPS GET 1 MiB, anonymous, TLS 1.3, requests per second of server CPU, against nginx's TLS", ">= 1.2x", True, 1.2,
     over_tls(MIB), TLS_WHY),
    ("HTTPS GET 4 KiB, a new connection for each request, requests per second of server CPU, against nginx's TLS", ">= 1.0x", True, 1.0,
     over_tls(4 * KIB, "get_new"), TLS_WHY),
    ("MD5 of 16 bodies side by side, one core, against OpenSSL's of one body after the other", ">= 3x", True, 3, md5_side_by_side,
     "the vector unit of this machine has four lanes"),
    ("native PUT 1 MiB with an MD5 as its entity tag, 16 callers on `local`, `memory`: throughput, against one core's MD5", "", True, 0,
     puts_with_md5("bytes_per_s"), ""),
    ("the same, bytes a second of the server's CPU (all that a PUT is), against one core's MD5", "", True, 0,
     puts_with_md5("server_cpu_s_per_gb"), ""),
]
UNTRIED = [
    ("native GET on verbs (p50, throughput, CPU)", "`verbena bench --listen ADDRESS` and `yardsticks --perftest` in `./dev vm` "
     "measure soft RDMA devices in a virtual machine; no figure of hardware exists"),
    ("HTTP against Ceph RGW", "in this run; `./dev bench rados` does it, docs/cluster.md has what it measured"),
]


def table(rounds, measured_alone=False):
    """`measured_alone`: without what was not measured."""
    rounds = [{"memory": [], "small": [], "md5": [], "per_core": []} | one for one in rounds]
    out = ["| what | budget | measured | |", "| --- | --- | --- | --- |"]
    for what, words, more, bound, compute, why in BUDGETS:
        values = [value for value in (compute(one) for one in rounds) if value is not None]
        if not values and measured_alone:
            continue
        if not values:
            out.append(f"| {what} | {words} | - | not measured in this run |")
            continue
        middle = statistics.median(values)
        met = middle >= bound if more else middle <= bound
        spread = f" ({min(values):.2f} to {max(values):.2f})" if len(values) > 1 else ""
        verdict = ("met" if met else "not met: " + why) if words else ""
        out.append(f"| {what} | {words} | {middle:.2f}x{spread} | {verdict} |")
    for what, why in UNTRIED if not measured_alone else []:
        out.append(f"| {what} | | - | untried: {why} |")
    return out
