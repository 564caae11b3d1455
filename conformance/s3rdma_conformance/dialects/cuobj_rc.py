"""`cuobj-rc`: cuObject's protocol over reliable connections, as elbencho's shim speaks it.

    POST /.s3rdma-rc/connect      a queue pair and its first packet sequence number; the answer has the server's, and a session
    x-amz-rdma-token              rc:<session>:<address hex>:<size hex>:<remote key hex>, on GetObject, PutObject and UploadPart
    POST /.s3rdma-rc/disconnect   the session
"""
from ..case import Failed, check
from .ofi1 import HEADER
from .rc import OverConnections, parse


GONE = "0" * 32  # the session of a window that was closed before it had one


class CuobjRc(OverConnections):
    name = "cuobj-rc"

    def connect(self, target, window, **headers):
        """The reply of the server, to whose queue pair the window's is connected if it is one."""
        told = {HEADER: window.description(), "x-amz-rdma-psn": f"{window.sequence:06x}", **headers}
        reply = target.call("POST", "/.s3rdma-rc/connect", headers=[one for one in told.items() if one[1] is not None])
        if reply.status == 200:
            window.session = reply.header("x-amz-rdma-session")
            said, sequence = reply.header("x-amz-rdma-reply") or "", reply.header("x-amz-rdma-psn") or ""
            check(said.startswith("200:") and window.session and sequence, f"a connection without its session, queue pair or sequence number: {reply}")
            session = window.session
            window.leave = lambda: self.disconnect(target, session)
            number, gid, _, _, _ = parse(said[4:])
            window.connect(number, int(sequence, 16), gid)
        return reply

    def disconnect(self, target, session):
        return target.call("POST", "/.s3rdma-rc/disconnect", headers=[("x-amz-rdma-session", session)])

    def token(self, window, **other):
        fields = {"session": window.session, "base": window.address, "size": window.size, "key": window.key, **other}
        return f"rc:{fields['session']}:{fields['base']:x}:{fields['size']:x}:{fields['key']:x}"

    def _ask(self, method, target, window, path, token=None, spelling=HEADER, headers=(), **request):
        if token is None:
            if window.session is None and window.pair is None:
                window.session = GONE
            if window.session is None:
                reply = self.connect(target, window)
                if reply.status != 200:
                    raise Failed(f"no connection: {reply}")
            token = self.token(window)
        return target.call(method, path, headers=[*headers, (spelling, token)], **request)

    def get(self, target, window, path, **request):
        return self._ask("GET", target, window, path, **request)

    def put(self, target, window, path, **request):
        request.setdefault("payload_hash", "UNSIGNED-PAYLOAD")
        return self._ask("PUT", target, window, path, **request)

    def moved(self, reply):
        said = reply.header("x-amz-rdma-reply")
        return int(said) if said in ("200", "204", "206") else None

    def declined(self, reply):
        return reply.header("x-amz-rdma-reply") == "501"
