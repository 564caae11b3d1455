"""`hipobj-rc-v2`: a transfer is prepared, made ready and perhaps cancelled by three signed calls; a GET is written by the server, a PUT by the
client, into memory that the server lends for it alone.

    POST /.hipobj-rc/prepare   what is to be moved, the client's queue pair; the answer has the server's, and for a PUT its memory
    POST /.hipobj-rc/ready     for a GET the client's memory; answered when all bytes have moved
    POST /.hipobj-rc/cancel
"""
import secrets
import threading

from .. import wire
from ..case import Failed, Skipped, check
from .rc import OverConnections, parse

PROTOCOL = "hipobj-rc-v2"
# Shared cases that have no form here: empty objects, parts of objects, declines with a body, queries, Range (an offset and a size stand for it:
# 300, 301), errors with S3's code, for PREPARE answers as a HEAD does (305, 326), and a body after a failure (316-321).
FOREIGN = {105, 108, 116, *range(120, 131), 141, 147, 163, 172, 200, 201, 210, *range(260, 267), 274, 289}
CUSTOMER_KEY = "x-amz-server-side-encryption-customer-"


def keys_of(headers):
    """PREPARE looks at an object as a HEAD does: with its customer's key."""
    return [one for one in headers if one[0].lower().startswith(CUSTOMER_KEY)]


class Transfer:
    """A prepared one: what the server said."""

    def __init__(self, reply, window, cookie):
        self.reply, self.window, self.cookie = reply, window, cookie
        self.session, self.address, self.key = None, 0, 0


class HipobjRc(OverConnections):
    name = PROTOCOL
    tells_etag = False  # 304 asks for it

    @classmethod
    def holds(cls, number):
        return number not in FOREIGN

    def headers(self, fields):
        named = {"protocol": PROTOCOL, **fields}
        return [(f"x-amz-rdma-{name.replace('_', '-')}", str(value)) for name, value in named.items() if value is not None]

    def call(self, target, call, fields, more=(), headers=()):
        """`fields`: of x-amz-rdma-*; `more`: what Target.call takes."""
        return target.call("POST", f"/.hipobj-rc/{call}", headers=[*self.headers(fields), *headers], **dict(more))

    def prepare(self, target, window, op, path, query=None, *, connect=True, more=(), headers=(), fields=None):
        """A Transfer; its window is connected to the server's queue pair unless the call failed or `connect` is False."""
        cookie = secrets.randbits(32)
        place = wire.quote(path) + ("?" + wire.canonical_query(query) if query else "")
        told = {"token": window.description(), "psn": f"{window.sequence:06x}", "cookie": f"{cookie:08x}", "op": op, "target": place,
                "size": window.size, **(fields or {})}
        transfer = Transfer(self.call(target, "prepare", told, more, headers), window, cookie)
        reply = transfer.reply
        if reply.status == 200:
            transfer.session, said = reply.header("x-amz-rdma-session"), reply.header("x-amz-rdma-reply") or ""
            check(said.startswith("200:") and transfer.session and reply.header("x-amz-rdma-psn"),
                  f"a session without its id, queue pair or sequence number: {reply}")
            number, gid, _, _, _ = parse(said[4:])
            if op == "PUT":
                check(reply.header("x-amz-rdma-mr-addr") and reply.header("x-amz-rdma-mr-rkey"), f"a PUT without the server's memory: {reply}")
                transfer.address, transfer.key = (int(reply.header(f"x-amz-rdma-mr-{name}"), 16) for name in ("addr", "rkey"))
            if connect:
                window.connect(number, int(reply.header("x-amz-rdma-psn"), 16), gid)
        return transfer

    def ready(self, target, transfer, more=(), headers=(), **fields):
        window = transfer.window
        told = {"session": transfer.session, "cookie": f"{transfer.cookie:08x}", "qpn": f"{window.number:x}", "mr_addr": f"{window.address:x}",
                "mr_rkey": f"{window.key:x}", **fields}
        return self.call(target, "ready", told, more, headers)

    def cancel(self, target, session):
        return self.call(target, "cancel", {"session": session})

    def store(self, target, transfer, cookie=None, size=None, **request):
        """READY, and the client's write into the server's memory while it is under way: the reply, and the write's status."""
        replies = []

        def ask():
            try:
                replies.append(self.ready(target, transfer, **request))
            except Exception as error:  # noqa: BLE001: told to the case
                replies.append(error)
            finally:
                target.forget_connection()
        thread = threading.Thread(target=ask)
        thread.start()
        status = transfer.window.write(transfer.address, transfer.key, transfer.cookie if cookie is None else cookie, size)
        thread.join(60)
        if not replies or isinstance(replies[0], Exception):
            raise Failed(f"no answer to READY: {replies}")
        return replies[0], status

    def get(self, target, window, path, *, query=None, headers=(), **more):
        if window.session is not None:  # a queue pair serves one transfer
            window.renew()
        transfer = self.prepare(target, window, "GET", path, query, more=more, headers=keys_of(headers))
        window.session = transfer.session or ""
        if transfer.reply.status != 200:
            self._skip_if_behind_the_end(target, window, path, transfer.reply)
            return transfer.reply
        reply = self.ready(target, transfer, more, headers)
        if self.moved(reply):
            came = window.immediate(10)
            check(came == transfer.cookie, f"the last write has not the cookie {transfer.cookie:08x} as its immediate value: {came}")
        return reply

    def _skip_if_behind_the_end(self, target, window, path, reply):
        """Servers may refuse a size that reaches behind the object's end (301); a case that uses a larger window cannot run there."""
        if reply.status == 416 and int(target.call("HEAD", path).header("content-length") or "0") < window.size:
            raise Skipped("a size that reaches behind the object's end is refused here, as it may be")

    def put(self, target, window, path, *, query=None, headers=(), **more):
        if window.session is not None:
            window.renew()
        transfer = self.prepare(target, window, "PUT", path, query, more=more)
        window.session = transfer.session or ""
        if transfer.reply.status != 200:
            return transfer.reply
        reply, status = self.store(target, transfer, more=more, headers=headers)
        if self.moved(reply):
            check(status == 0, f"a PUT succeeds though the client's write has failed with status {status}")
        return reply

    def moved(self, reply):
        """READY's answer as hipObject's client reads it: the protocol's name and a cookie. Not every server adds x-amz-rdma-reply."""
        answered = reply.status == 200 and reply.header("x-amz-rdma-protocol") == PROTOCOL and reply.header("x-amz-rdma-cookie")
        return 200 if answered and reply.header("x-amz-rdma-reply") in (None, "200") else None

    def declined(self, reply):
        return reply.status == 501 and reply.header("x-amz-rdma-protocol-status") == "unsupported"
