"""Time to the first byte of a large GET over HTTP: our door and nginx, one kept-alive connection each, measured by
the same few lines of Python."""

import contextlib
import hashlib
import hmac
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "lib"))
import verbena_server  # noqa: E402  pylint: disable=wrong-import-position

SIZE = 16 << 20
ASKED = 40


def presign(host, method, path, parameters=()):
    """A presigned query (SigV4) of this minute; `parameters` are the request's own pairs."""
    now = time.gmtime()
    date, stamp = time.strftime("%Y%m%d", now), time.strftime("%Y%m%dT%H%M%SZ", now)
    scope = f"{date}/us-east-1/s3/aws4_request"
    query = urllib.parse.urlencode(sorted({
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Credential": f"{verbena_server.ACCESS_KEY}/{scope}",
        "X-Amz-Date": stamp, "X-Amz-Expires": "3600", "X-Amz-SignedHeaders": "host", **dict(parameters)}.items()),
        quote_via=urllib.parse.quote, safe="")
    request = f"{method}\n{path}\n{query}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = ("AWS4" + verbena_server.SECRET_KEY).encode()
    for part in (*scope.split("/"), text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return f"{path}?{query}&X-Amz-Signature={key.hex()}"


def exchange(connection, head, body=b""):
    """One request. Returns its status, the microseconds to the first byte, and those to the last."""
    began = time.perf_counter()
    connection.sendall(head.encode() + body)
    data = connection.recv(1 << 16)
    first = time.perf_counter()
    answer = data
    while b"\r\n\r\n" not in answer:
        answer += connection.recv(1 << 16)
    head_bytes, _, rest = answer.partition(b"\r\n\r\n")
    length = next((int(line.split(b":")[1]) for line in head_bytes.split(b"\r\n")
                   if line.lower().startswith(b"content-length:")), 0)
    left, buffer = length - len(rest), bytearray(1 << 20)
    while left > 0:
        left -= connection.recv_into(buffer, min(left, len(buffer)))
    return int(head_bytes.split()[1]), (first - began) * 1e6, (time.perf_counter() - began) * 1e6


def ask(port, target):
    host = f"127.0.0.1:{port}"
    head = f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port)) as connection:
        times = [exchange(connection, head) for _ in range(ASKED + 3)][3:]
    if any(status != 200 for status, _, _ in times):
        raise RuntimeError(f"{target}: status {times[0][0]}")
    return statistics.median(t[1] for t in times), statistics.median(t[2] for t in times)


@contextlib.contextmanager
def nginx():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="verbena-nginx-"))
    (folder / "root").mkdir()
    (folder / "root" / "large").write_bytes(os.urandom(SIZE))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/log error; {user} events {{}}\n"
        f"http {{ access_log off; sendfile on; tcp_nodelay on; server {{ listen 127.0.0.1:{port}; root {folder}/root; }} }}\n",
        encoding="utf-8")
    process = subprocess.Popen(["/usr/sbin/nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")],
                               stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.02)
        yield port
    finally:
        process.terminate()
        process.wait(10)
        shutil.rmtree(folder, ignore_errors=True)


def measure():
    """[(who, microseconds to the first byte, to the last)], medians."""
    rows = []
    with verbena_server.Server(env={"VERBENA_LOG_LEVEL": "warn"}) as server:
        port = int(server.http.rsplit(":", 1)[1])
        host = f"127.0.0.1:{port}"
        with socket.create_connection(("127.0.0.1", port)) as connection:
            for path, body in (("/first-byte", b""), ("/first-byte/large", os.urandom(SIZE))):
                head = f"PUT {presign(host, 'PUT', path)} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
                status, _, _ = exchange(connection, head, body)
                if status != 200:
                    raise RuntimeError(f"PUT {path}: status {status}")
        rows.append(("Verbena, HTTP", *ask(port, presign(host, "GET", "/first-byte/large"))))
    if os.access("/usr/sbin/nginx", os.X_OK):
        with nginx() as port:
            rows.append(("nginx", *ask(port, "/large")))
    return rows


if __name__ == "__main__":
    for row in measure():
        print(f"{row[0]:<16} first byte {row[1]:8.1f} us, last {row[2]:9.1f} us")
