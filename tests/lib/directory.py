"""A directory for tests: OpenLDAP's slapd with a few people and groups, on free ports, ended by pid; and a fake one.

    with Authority() as authority, Directory(authority) as directory:
        directory.ldaps, directory.ldap, directory.port
"""
import pathlib
import shutil
import socket
import subprocess
import tempfile
import threading
import time

BASE = "dc=example,dc=org"
LOOKUP = ("cn=lookup,dc=example,dc=org", "the lookup's password")
# name: (password, further lines of the entry)
PEOPLE = {
    "alice": ("correct horse", "mail: alice@example.org\n"),
    "bob": ("battery staple", ""),
    "carol": ("once right", ""),
    "dave": ("of no group", ""),
    "star*(name)": ("odd one", ""),
    "two": ("has two names", "uid: deux\n"),
}
GROUPS = {"dev": ["alice", "bob"], "ops": ["alice"], "odd": ["star*(name)"]}


def entry_of(name):
    escaped = "".join(c if c.isalnum() else "\\%02x" % ord(c) for c in name)
    return f"uid={escaped},ou=people,{BASE}"


def contents():
    text = (f"dn: {BASE}\nobjectClass: dcObject\nobjectClass: organization\no: example\ndc: example\n\n"
            f"dn: ou=people,{BASE}\nobjectClass: organizationalUnit\nou: people\n\n"
            f"dn: ou=groups,{BASE}\nobjectClass: organizationalUnit\nou: groups\n\n"
            f"dn: {LOOKUP[0]}\nobjectClass: applicationProcess\nobjectClass: simpleSecurityObject\ncn: lookup\n"
            f"userPassword: {LOOKUP[1]}\n\n")
    for name, (password, more) in PEOPLE.items():
        text += (f"dn: {entry_of(name)}\nobjectClass: inetOrgPerson\nuid: {name}\ncn: {name}\nsn: {name}\n"
                 f"userPassword: {password}\n{more}\n")
    for name, members in GROUPS.items():
        text += f"dn: cn={name},ou=groups,{BASE}\nobjectClass: groupOfNames\ncn: {name}\n"
        text += "".join(f"member: {entry_of(one)}\n" for one in members) + "\n"
    return text


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Directory:
    def __init__(self, authority, *names):
        """`names`: of its certificate."""
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="verbena-slapd-"))
        self.process = None
        self.take_ports()
        certificate, key = authority.certificate(*(names or ("localhost", "127.0.0.1")))
        (self.folder / "db").mkdir()
        self.configuration = self.folder / "slapd.conf"
        self.configuration.write_text(f"""
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
moduleload ppolicy
pidfile {self.folder}/slapd.pid
disallow bind_anon
TLSCACertificateFile {authority.file}
TLSCertificateFile {certificate}
TLSCertificateKeyFile {key}
database mdb
maxsize 16777216
suffix "{BASE}"
rootdn "cn=root,{BASE}"
directory {self.folder}/db
overlay ppolicy
ppolicy_default "cn=policy,{BASE}"
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="{LOOKUP[0]}" read by self read by users read
""")
        policy = (f"dn: cn=policy,{BASE}\nobjectClass: device\nobjectClass: pwdPolicy\ncn: policy\npwdAttribute: userPassword\n"
                  "pwdLockout: TRUE\npwdMaxFailure: 6\npwdLockoutDuration: 3600\n\n")
        subprocess.run(["/usr/sbin/slapadd", "-f", str(self.configuration)], input=contents() + policy, text=True, check=True,
                       capture_output=True, timeout=60)

    def take_ports(self):
        with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:  # both at once: they differ
            self.port, self.tls_port = one.getsockname()[1], other.getsockname()[1]
        self.ldap, self.ldaps = f"ldap://127.0.0.1:{self.port}", f"ldaps://127.0.0.1:{self.tls_port}"

    def start(self):
        """Again at the ports of before; at first at others if another program has taken them meanwhile."""
        tries = 5 if self.process is None and not (self.folder / "log").exists() else 1
        for left in reversed(range(tries)):
            try:
                return self.start_once()
            except AssertionError:
                if left == 0 or "Address already in use" not in self.log():
                    raise
                self.stop()
                self.take_ports()
        return self

    def start_once(self):
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(["/usr/sbin/slapd", "-h", f"{self.ldap}/ {self.ldaps}/", "-f", str(self.configuration),
                                             "-d", "256"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)
        deadline = time.monotonic() + 60
        for port in (self.port, self.tls_port):
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 5).close()
                    break
                except OSError:
                    assert self.process.poll() is None and time.monotonic() < deadline, self.log()
                    time.sleep(0.05)
        return self

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.process = None

    def log(self):
        """The log of operations, one per line."""
        return (self.folder / "log").read_text(errors="replace")

    def connections(self):
        return self.log().count(" ACCEPT ")

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class FakeDirectory:
    """A listener that calls `serve(connection)` for each connection."""

    def __init__(self, serve):
        self.serve, self.received, self.count, self.ended = serve, [], 0, threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"ldap://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            self.count += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        connection.settimeout(30)
        try:
            with connection:
                self.serve(self, connection)
        except OSError:
            pass

    def read(self, connection):
        data = connection.recv(65536)
        self.received.append(data)
        return data

    def hears(self):
        return b"".join(self.received)

    def close(self):
        self.ended.set()
        self.listener.close()


def ber(tag, *parts):
    body = b"".join(parts)
    size = bytes([len(body)]) if len(body) < 128 else b"\x84" + len(body).to_bytes(4, "big")
    return bytes([tag]) + size + body


def result(message, operation, code, *more):
    """An LDAPMessage with an LDAPResult."""
    return ber(0x30, ber(2, bytes([message])), ber(operation, ber(10, bytes([code])), ber(4), ber(4), *more))
