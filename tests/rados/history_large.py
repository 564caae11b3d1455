"""Large objects of a history (history_test.py): one thread overwrites an object all the time while another one reads
it slowly."""
import http.client
import socket
import time

from express_case import Express
from history import UNKNOWN, Call
from history_things import body_of, value_of

LARGE_SIZE = 32 << 20
# A large object costs as much as a thousand small ones. So in a long run these threads pause: after the first FIRST_S
# seconds they run only in the first SOME_S of each EVERY_S.
FIRST_S, SOME_S, EVERY_S = 100, 30, 180


def small_socket(connection):
    """A socket with a small receive buffer."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
    made.settimeout(connection.timeout)
    made.connect((connection.host, connection.port))
    return made


class LargeObjects:
    def __init__(self, run, bucket):
        self.run, self.bucket = run, bucket
        self.choose = run.random("large")

    def may_go_on(self):
        """False when the run is over; waits during a pause."""
        while not self.run.stop.is_set():
            passed = time.monotonic() - self.run.began
            if passed < FIRST_S or passed % EVERY_S < SOME_S:
                return True
            self.run.stop.wait(0.5)
        return False

    def write(self):
        run, serial = self.run, 0
        while self.may_go_on():
            server = self.choose.choice(run.servers)
            serial += 1
            call = Call("put", f"large.{serial}:{LARGE_SIZE}", by=str(run.servers.index(server)))
            client = run.connect_or_none(server, "http")
            if client is None:
                time.sleep(0.2)
                continue
            run.outcome(server, call, lambda: client.put(self.bucket, "k", body_of(call.value)) and 200)  # noqa: B023
            run.counts["large puts"] += call.answer == 200
            client.close()
            run.stop.wait(1.5)

    def read_slowly(self):
        """Reads the beginning, waits until the object is overwritten and unused bytes are removed, and reads the
        rest."""
        run, turn = self.run, 0
        while self.may_go_on():
            turn += 1
            server = run.servers[turn % len(run.servers)]
            call = Call("get", by=str(run.servers.index(server)))
            try:
                s3 = Express(server.http, service="s3")
                s3.connection.timeout = 30
                headers = s3.signed("GET", f"/{self.bucket}/k")
            except Exception:  # noqa: BLE001  it has no address now
                time.sleep(0.2)
                continue
            answer = run.outcome(server, call, lambda: self.read(s3, headers))  # noqa: B023
            if answer == "bytes of no write":
                run.fail(f"{call!r}: a large object's bytes")
            run.counts["slow reads"] += isinstance(answer, str) and answer != UNKNOWN
            s3.connection.close()

    def read(self, s3, headers):
        s3.connection.sock = small_socket(s3.connection)
        s3.connection.request("GET", f"/{self.bucket}/k", headers=headers)
        reply = s3.connection.getresponse()
        if reply.status == 404:
            return 404
        if reply.status != 200:
            raise self.run.verbena.errors.ServerError("large", "", "", reply.status)
        first = reply.read(64 << 10)
        time.sleep(3.5)
        body = first + reply.read()
        if len(body) != int(reply.headers["content-length"]):
            raise http.client.IncompleteRead(body[:20])
        return value_of(body)
