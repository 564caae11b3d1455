"""What the server is asked while its disk is recorded, and the ledger of it.

Each key has one writer, which waits for each answer. `Ledger.entries` has, for each operation, what it does to which
things, the disk's position before it was sent and after it was answered. A thing is (kind, bucket, name); its state is None
or a value that `judge.py` compares with what it finds.
"""
import hashlib
import os
import pathlib
import random
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from verbena_server import ACCESS_KEY, SECRET_KEY, boto3_client  # noqa: E402

SYNC, MEMORY, VERSIONED, KEPT = "power-sync", "power-memory", "power-versions", "power-kept"
DIRECTORY = "power--local1-az1--x-s3"
ENCRYPTED = "power-sealed"
NEWER_KEPT = 2
PART = 5 * 1024 * 1024
SIZES = [0, 1, 300, 4096, 16_384, 16_385, 40_000, 65_536, 65_537, 200_000, 700_000]
VERSIONS_MAX = 6
KEYS = 5


class Entry:
    __slots__ = ("what", "effects", "begin", "ack", "ack_s")

    def __init__(self, what, begin):
        self.what, self.begin = what, begin
        self.effects, self.ack, self.ack_s = {}, None, None


class Ledger:
    def __init__(self, position):
        self.position, self.entries, self.lock, self.failures = position, [], threading.Lock(), []

    def begin(self, what):
        return Entry(what, self.position())

    def end(self, entry, effects):
        entry.ack, entry.ack_s, entry.effects = self.position(), time.monotonic(), effects
        with self.lock:
            self.entries.append(entry)


def state_of(body):
    """What an object's bytes are compared by."""
    return len(body), hashlib.sha1(body).hexdigest()


class Writer(threading.Thread):
    """Chooses operations until told to stop. A failure of any ends it and fails the load."""

    def __init__(self, ledger, seed, server, number):
        super().__init__(daemon=True)
        self.ledger, self.random, self.number = ledger, random.Random(seed), number
        self.s3, self.server, self.done = boto3_client(server.http), server, False
        self.now = {}

    def run(self):
        try:
            while not self.done:
                self.step()
        except Exception as error:  # noqa: BLE001
            self.ledger.failures.append(f"{type(self).__name__} {self.number}: {error!r}")

    def body(self, sizes=None):
        return self.random.randbytes(self.random.choice(sizes or SIZES))

    def change(self, what, effects_of, act):
        """One operation: `effects_of(reply)` is what it did."""
        entry = self.ledger.begin(what)
        effects = effects_of(act())
        self.now.update(effects)
        self.ledger.end(entry, effects)


class Plain(Writer):
    """PUT, overwrite, delete, multipart; `bucket` without versions."""
    bucket, sizes = SYNC, SIZES

    def step(self):
        key = f"{self.number}/{self.random.randrange(KEYS)}"
        thing, kind = ("object", self.bucket, key), self.random.random()
        if kind < 0.15:
            self.change("delete", lambda _: {thing: None}, lambda: self.s3.delete_object(Bucket=self.bucket, Key=key))
        elif kind < 0.3 and self.bucket != MEMORY:
            self.multipart(thing, key)
        elif kind < 0.35:
            self.s3.list_objects_v2(Bucket=self.bucket)
        elif kind < 0.42:
            self.copy(thing, key)
        else:
            body = self.body(self.sizes)
            self.change("put", lambda _: {thing: state_of(body)},
                        lambda: self.s3.put_object(Bucket=self.bucket, Key=key, Body=body))

    def copy(self, thing, key):
        source = f"{self.number}/{self.random.randrange(KEYS)}"
        state = self.now.get(("object", self.bucket, source))
        if state is None or source == key:
            return
        self.change("copy", lambda _: {thing: state}, lambda: self.s3.copy_object(
            Bucket=self.bucket, Key=key, CopySource={"Bucket": self.bucket, "Key": source}))

    def multipart(self, thing, key):
        of, bucket = ("upload", self.bucket, key), self.bucket
        open_one = self.now.get(of)
        if open_one is None:
            self.change("create upload", lambda reply: {of: (reply["UploadId"], ())},
                        lambda: self.s3.create_multipart_upload(Bucket=bucket, Key=key))
            self.bodies = {**getattr(self, "bodies", {}), key: []}
            return
        upload, parts = open_one
        end = self.random.random()
        if end < 0.1:
            self.change("abort upload", lambda _: {of: None},
                        lambda: self.s3.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload))
        elif len(parts) == 2 or parts and end < 0.5:
            whole = b"".join(self.bodies[key])
            named = [{"PartNumber": number, "ETag": f'"{tag}"'} for number, tag in parts]
            self.change("complete upload", lambda _: {of: None, thing: state_of(whole)},
                        lambda: self.s3.complete_multipart_upload(Bucket=bucket, Key=key, UploadId=upload,
                                                                  MultipartUpload={"Parts": named}))
        elif not parts or len(self.bodies[key][0]) >= PART:
            body = self.random.randbytes(PART if not parts and self.random.random() < 0.3 else self.random.randrange(1, 90_000))
            self.bodies[key].append(body)
            number = len(parts) + 1
            self.change("upload part", lambda reply: {of: (upload, (*parts, (number, reply["ETag"].strip('"'))))},
                        lambda: self.s3.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=number, Body=body))


class Memory(Plain):
    bucket, sizes = MEMORY, [0, 10, 4096, 20_000, 100_000]


class Sealed(Plain):
    bucket = ENCRYPTED


class Versioned(Writer):
    """Versions, delete markers, removed versions. A state: (version, bytes or None), the newest first."""

    def step(self):
        key = f"{self.number}/{self.random.randrange(KEYS)}"
        thing, kind = ("versions", VERSIONED, key), self.random.random()
        old = self.now.get(thing) or ()
        if len(old) >= VERSIONS_MAX or old and kind < 0.15:
            gone = self.random.choice(old)
            rest = tuple(version for version in old if version != gone)
            self.change("delete version", lambda _: {thing: rest or None},
                        lambda: self.s3.delete_object(Bucket=VERSIONED, Key=key, VersionId=gone[0]))
        elif kind < 0.3:
            self.change("delete marker", lambda reply: {thing: ((reply["VersionId"], None), *old)},
                        lambda: self.s3.delete_object(Bucket=VERSIONED, Key=key))
        else:
            body = self.body([0, 100, 16_385, 70_000])
            self.change("put version", lambda reply: {thing: ((reply["VersionId"], state_of(body)), *old)},
                        lambda: self.s3.put_object(Bucket=VERSIONED, Key=key, Body=body))


class Kept(Writer):
    """Overwrites keys while a lifecycle rule removes all but the newest versions."""

    def step(self):
        key, body = f"{self.number}/{self.random.randrange(3)}", self.body([20, 20_000])
        thing = ("kept", KEPT, key)
        old = self.now.get(thing) or ()
        self.change("put kept", lambda reply: {thing: ((reply["VersionId"], state_of(body)), *old)},
                    lambda: self.s3.put_object(Bucket=KEPT, Key=key, Body=body))


class Native(Writer):
    """By the native door: append and rename in a directory bucket, PUT_MANY and its like into SYNC."""

    def __init__(self, ledger, seed, server, number):
        super().__init__(ledger, seed, server, number)
        import verbena
        self.client = verbena.connect(server.http, native_endpoint=server.native, access_key=ACCESS_KEY, secret_key=SECRET_KEY)
        self.bytes = {}

    def step(self):
        kind = self.random.random()
        if kind < 0.5:
            self.append()
        elif kind < 0.75:
            self.rename()
        elif kind < 0.8:
            key = self.key()
            self.bytes.pop(key, None)
            self.change("remove", lambda _: {self.thing(key): None}, lambda: self.client.delete(DIRECTORY, key))
        else:
            self.many()

    def key(self):
        return f"{self.number}-{self.random.randrange(KEYS)}"

    @staticmethod
    def thing(key):
        return "object", DIRECTORY, key

    def append(self):
        key, more = self.key(), self.random.randbytes(self.random.choice((10, 200, 5000, 70_000)))
        whole = self.bytes.get(key, b"") + more
        if len(whole) > 300_000:
            return
        self.bytes[key] = whole
        self.change("append", lambda _: {self.thing(key): state_of(whole)}, lambda: self.client.append(DIRECTORY, key, more))

    def rename(self):
        old, new = self.key(), self.key()
        if old == new or old not in self.bytes:
            return
        state = self.now[self.thing(old)]
        self.bytes[new] = self.bytes.pop(old)
        self.change("rename", lambda _: {self.thing(old): None, self.thing(new): state},
                    lambda: self.client.rename(DIRECTORY, old, new))

    def many(self):
        names = [f"many-{self.number}/{i}" for i in self.random.sample(range(12), self.random.randrange(2, 9))]
        if self.random.random() < 0.2:
            self.change_many("remove many", {name: None for name in names},
                             lambda: self.client.remove_many([(SYNC, name) for name in names]))
            return
        bodies = {name: self.body([1, 500, 4000, 20_000]) for name in names}
        self.change_many("put many", {name: state_of(body) for name, body in bodies.items()},
                         lambda: self.client.put_many([(SYNC, name, body) for name, body in bodies.items()]))

    def change_many(self, what, states, act):
        """Each item is an operation of its own."""
        entries = {name: self.ledger.begin(what) for name in states}
        act().check()
        for name, state in states.items():
            self.ledger.end(entries[name], {("object", SYNC, name): state})


def make_buckets(ledger, server):
    s3 = boto3_client(server.http)

    def made(bucket, more=None, **options):
        entry = ledger.begin("create bucket")
        s3.create_bucket(Bucket=bucket, **options)
        if more:
            more()
        ledger.end(entry, {("bucket", bucket, ""): "there"})

    made(SYNC)
    made(VERSIONED, lambda: s3.put_bucket_versioning(Bucket=VERSIONED, VersioningConfiguration={"Status": "Enabled"}))
    made(KEPT, lambda: make_rule(s3))
    made(ENCRYPTED, lambda: s3.put_bucket_encryption(Bucket=ENCRYPTED, ServerSideEncryptionConfiguration={
        "Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]}))

    def add(request, **_):
        request.headers.add_header("x-verbena-durability", "memory")
    s3.meta.events.register("before-sign.s3.CreateBucket", add)
    made(MEMORY)
    s3.meta.events.unregister("before-sign.s3.CreateBucket", add)
    if not native_client():  # by which the judge reads it
        return
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "express"))
    from express_case import Express
    entry = ledger.begin("create bucket")
    Express(server.http).make_bucket(DIRECTORY)
    ledger.end(entry, {("bucket", DIRECTORY, ""): "there"})


def make_rule(s3):
    s3.put_bucket_versioning(Bucket=KEPT, VersioningConfiguration={"Status": "Enabled"})
    rule = {"ID": "kept", "Status": "Enabled", "Filter": {"Prefix": ""},
            "NoncurrentVersionExpiration": {"NoncurrentDays": 1, "NewerNoncurrentVersions": NEWER_KEPT}}
    s3.put_bucket_lifecycle_configuration(Bucket=KEPT, LifecycleConfiguration={"Rules": [rule]})


def writers(ledger, server, chance):
    kinds = [Plain, Plain, Memory, Sealed, Versioned, Kept] + ([Native] if native_client() else [])
    return [kind(ledger, chance.getrandbits(32), server, number) for number, kind in enumerate(kinds)]


def native_client():
    from verbena_server import program
    sys.path.insert(0, os.environ.get("CLIENT_PYTHON") or str(pathlib.Path(program()).parent / "python"))
    try:
        import verbena  # noqa: F401
    except ImportError:
        return False
    return True


def run(ledger, server, seed, seconds):
    """Three stretches of load: an orderly stop and a kill -9 of the idle server between them."""
    chance, threads = random.Random(seed), []
    make_buckets(ledger, server)
    for stretch in range(3):
        before, threads = threads, writers(ledger, server, chance)
        for old, new in zip(before, threads):  # the next writer of the same keys
            new.now = old.now
            for kept in ("bodies", "bytes"):
                if hasattr(old, kept):
                    setattr(new, kept, getattr(old, kept))
        for thread in threads:
            thread.start()
        time.sleep(seconds / 3)
        for thread in threads:
            thread.done = True
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "a call hangs"
        assert not ledger.failures, ledger.failures
        if stretch == 0:
            assert server.stop() == 0, server.log()
            server.start()
        elif stretch == 1:
            time.sleep(1)  # a memory bucket's last moment
            server.kill()
            server.start()
    assert server.stop() == 0, server.log()
