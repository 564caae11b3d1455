"""What a way to a GPU's memory brings, beside what the driver alone does with the same bytes, or a user's program without
Verbena: the rows of a table, each with its bytes compared."""
import concurrent.futures
import importlib
import os
import pathlib
import random
import re
import shutil
import sys
import tempfile
import time
import urllib.request
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "clients"))
from python_case import ACCESS_KEY, SECRET_KEY  # noqa: E402
from cuda_driver import Array, Locked, PartOf  # noqa: E402
from verbena_server import boto3_client  # noqa: E402
import verbena  # noqa: E402
from verbena import _safetensors  # noqa: E402

FILES = 32  # of the weights: an object of more than 1 GiB has no place in the hot tier
TENSORS = 4  # of each
GET_SIZE, GETS_AT_ONCE = 16 << 20, 8  # as verbena.torch.load_file has them


class Table:
    """A table of Markdown. A row that fails has the reason in place of its figures."""

    failed = 0  # rows of all tables

    def __init__(self, *columns):
        self.columns, self.rows = columns, []

    def add(self, first, work):
        """A row: the cells `first`, and those that `work` returns."""
        try:
            row = [*first, *work()]
        except Exception as why:  # noqa: BLE001 the other rows are still wanted
            Table.failed += 1
            row = [*first, f"**failed**: {type(why).__name__}: {why}".replace("\n", " ").replace("|", "/")]
        row += [""] * (len(self.columns) - len(row))
        self.rows.append(row)
        print(self.line(row), file=sys.stderr, flush=True)

    @staticmethod
    def line(cells):
        return "| " + " | ".join(map(str, cells)) + " |"

    def __str__(self):
        return "\n".join(map(self.line, [self.columns, ["---"] * len(self.columns), *self.rows]))


def rate(size, seconds, work, least=3):
    """GiB/s of the median of the calls within the time; of at least so many."""
    took, until = [], time.monotonic() + seconds
    while len(took) < least or time.monotonic() < until:
        began = time.monotonic()
        work()
        took.append(time.monotonic() - began)
    return size / sorted(took)[len(took) // 2] / (1 << 30)


def all_went(way, counted):
    """Every transfer that a client has counted went that way, and none was tried by another, or failed."""
    others = [name for name in ("staged", "shared", "direct", "peer") if name != way]
    found = {name: counted[name] for name in (*others, "direct_failed", "peer_failed", "failed") if counted[name]}
    assert counted[way] > 0 and not found, f"{counted[way]} transfers went {way}, and besides: {found}"


def connect(server, via, provider=None):
    options = {"provider": provider} if provider else {}
    return verbena.connect(server.http, native_endpoint=server.native, access_key=ACCESS_KEY, secret_key=SECRET_KEY, via=via,
                           multipart_threshold=1 << 30, **options)


class Hot:
    """What is read meanwhile comes from the hot tier."""

    def __init__(self, server):
        self.url = f"http://{server.native}/-/metrics"

    def counts(self):
        text = urllib.request.urlopen(self.url, timeout=30).read().decode()
        return [sum(float(value) for value in re.findall(rf"^verbena_cache_{name}_total(?:{{.*}})? (\S+)$", text, re.M)) for name in ("hits", "misses")]

    def warm(self, work, rounds_max=10):
        """Works until nothing comes from elsewhere: the tier does not take all that is written, or read, at once."""
        for _ in range(rounds_max):
            before = self.counts()
            work()
            if self.counts()[1] == before[1]:
                return self
        return self

    def __enter__(self):
        self.before = self.counts()

    def __exit__(self, kind, *_):
        hits, misses = (now - before for now, before in zip(self.counts(), self.before))
        assert kind is not None or (hits > 0 and misses == 0), f"{hits:.0f} reads from the hot tier, {misses:.0f} from elsewhere"


def imported(name):
    """The module, if it is there."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def torch_with_gpu():
    torch = imported("torch")
    return torch if torch is not None and torch.cuda.is_available() else None


def pinned_copy(driver, array, data, seconds):
    """GiB/s of one synchronous copy of as much page-locked memory."""
    locked = Locked(driver, len(data))
    try:
        locked.memory[:] = data
        brought = rate(len(data), seconds, lambda: driver.copy(array.address, locked, len(data)))
        assert array.get() == data, "the driver's copy has brought other bytes"
    finally:
        locked.free()
    return brought


class Speed:
    """The rows, of servers one after the other; the yardsticks are measured once."""

    def __init__(self, driver, options):
        self.driver, self.options, self.card = driver, options, driver.name()
        self.table = Table("card", "what", "by", "GiB/s", "against", "GiB/s", "ratio", "wanted")
        self.copies = self.user = None

    def row(self, what, by, wanted, measure):
        """`measure` returns GiB/s, the yardstick's name, and its GiB/s."""
        def work():
            brought, against, yardstick = measure()
            return f"{brought:.2f}", against, f"{yardstick:.2f}", f"{brought / yardstick:.2f}", wanted
        self.table.add((self.card, what, by), work)

    def hot_object(self, by, wanted, brought, yardstick):
        size = self.options.size
        self.row(f"GET of a hot object of {size} MiB", by, wanted, lambda: (brought, "one copy of page-locked memory", yardstick))

    def batch(self, server, by, wanted, beside_user):
        """A batch of hot objects into scattered places of a device, with nothing touched between them."""
        count, piece = self.options.batch, 64 << 10
        what = f"{count:,} hot objects of 64 KiB, one batch, scattered places"
        offsets = [2 * piece * i for i in range(count)]
        random.Random(count).shuffle(offsets)
        data = os.urandom(count * piece)
        expected = bytearray(2 * piece * count)
        for i, at in enumerate(offsets):
            expected[at:at + piece] = data[i * piece:(i + 1) * piece]

        def on_array(work):
            array = Array(self.driver, len(expected))

            def compare(who):
                assert array.get() == expected, f"{who} brought other bytes, or some beside the places"
                array.set(bytes(len(expected)))
            try:
                array.set(bytes(len(expected)))
                return work(array, compare)
            finally:
                array.free()

        def measure(array, compare):
            if self.copies is None:
                self.copies = self.many_copies([array.address + at for at in offsets], data, piece, compare)
            with connect(server, "native", "local") as client:
                keys = [f"scattered/{i}" for i in range(count)]
                client.put_many([("gpu", key, data[i * piece:(i + 1) * piece]) for i, key in enumerate(keys)]).check()
                places = [("gpu", key, at, piece) for key, at in zip(keys, offsets)]
                with client.register(array) as window, Hot(server).warm(lambda: client.get_many(places, window).check()):
                    compare("the batch")
                    self.brought = rate(len(data), self.options.seconds, lambda: client.get_many(places, window))
                compare("a later batch")
                self.counted = client.device_counters()
            return self.brought, *self.copies

        def beside(array, compare):
            assert self.brought is not None, "the batch has failed"
            if self.user is None:
                self.user = self.by_user(server, array, offsets, piece, compare)
            return self.brought, *self.user

        self.brought = self.counted = None
        self.row(what, by, wanted, lambda: on_array(measure))
        if beside_user:
            self.row(what, by, ">= 10", lambda: on_array(beside))
        self.table.add((self.card, "ways taken by that batch", by), lambda: self.ways_taken(by))

    def many_copies(self, places, data, piece, compare):
        """The faster of one asynchronous copy for each place, and one call for all of them."""
        locked = Locked(self.driver, len(data))
        try:
            locked.memory[:] = data
            ways = zip(("as many asynchronous copies of page-locked memory", "cuMemcpyBatchAsync of page-locked memory"),
                       self.driver.copies(places, locked, piece, self.driver.stream()))
            found = []
            for name, work in ways:
                if work is None:
                    continue
                try:
                    found.append((rate(len(data), self.options.seconds, work), name))
                except OSError as why:  # one yardstick is enough
                    print(name, why, sep=": ", file=sys.stderr)
                    continue
                compare(name)
        finally:
            locked.free()
        brought, name = max(found)
        return name, brought

    def by_user(self, server, array, offsets, piece, compare):
        """What a program without Verbena does; where the packages for it are missing, what comes near."""
        size = len(offsets) * piece
        boto3, numpy, torch = map(imported, ("boto3", "numpy", "torch"))
        lacking = [name for name, found in (("boto3", boto3), ("numpy", numpy), ("torch that has a GPU", torch_with_gpu())) if found is None]
        keys = [f"scattered/{i}" for i in range(len(offsets))]
        if not lacking:
            s3 = boto3_client(server.http)

            def work():
                for key in keys:
                    torch.from_numpy(numpy.frombuffer(s3.get_object(Bucket="gpu", Key=key)["Body"].read(), numpy.uint8)).cuda(self.options.device)
                torch.cuda.synchronize(self.options.device)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of memory that may not be written
                return "boto3, torch.from_numpy().cuda()", rate(size, 0, work, 1)
        with connect(server, "http") as client:
            def by_hand():
                for key, at in zip(keys, offsets):
                    self.driver.write(array.address + at, client.get_bytes("gpu", key)[0])
            brought = rate(size, 0, by_hand, 1)
        compare("the driver")
        return f"this client's GETs by HTTP and the driver's copies (there is no {', no '.join(lacking)})", brought

    def ways_taken(self, by):
        """By the calls with the batches, as their client has counted them; docs/gpu.md has the copies by a CPU of each way."""
        assert self.counted is not None, "the batch has failed"
        assert not self.counted["failed"], self.counted
        went = {way: self.counted[way] for way in ("staged", "shared", "direct", "peer") if self.counted[way]}
        told = ", ".join(f"{calls} {way}" for way, calls in went.items())
        return told, "calls that the client has counted", "", "", by.rpartition(", ")[2]

    def weights(self, server, by):
        weights = Weights(self.driver, self.options, by)
        try:
            self.row(weights.what, by, ">= 1.5", lambda: weights.measure(server))
        finally:
            weights.remove()


def weights_size(wanted, free_memory=None):
    """As much of `wanted` bytes as this machine has room for: the hot tier, the server's files, and files of ours."""
    if free_memory is None:
        found = re.search(r"MemAvailable:\s+(\d+) kB", pathlib.Path("/proc/meminfo").read_text())
        free_memory = int(found.group(1)) << 10
    disk = shutil.disk_usage(tempfile.gettempdir()).free
    while wanted > 64 << 20 and (free_memory < 6 * wanted or disk < 3 * wanted):
        wanted //= 2
    return wanted


class Weights:
    """A model's weights as safetensors files: from the hot tier to the device, and from the page cache."""

    def __init__(self, driver, options, by):
        self.driver, self.options, self.by = driver, options, by
        self.folder = tempfile.mkdtemp(prefix="verbena-weights-")
        self.size = options.weights << 20
        self.what = f"weights: {FILES} safetensors files, {self.size / (1 << 30):.3g} GiB in all"
        self.paths = [os.path.join(self.folder, f"model-{i}.safetensors") for i in range(FILES)]

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def write_files(self):
        each = self.size // FILES // TENSORS // 64 * 64
        head = _safetensors.make_head([(f"layer.{i}", "float32", (each // 4,), each) for i in range(TENSORS)], None)
        noise = os.urandom(min(self.size, GET_SIZE + 4099))  # pieces of a GET's size are never the same
        for number, path in enumerate(self.paths):
            with open(path, "wb") as file:
                file.write(head)
                left, at = each * TENSORS, number * 1009 % len(noise)
                while left:
                    some = noise[at:at + left]
                    file.write(some)
                    left, at = left - len(some), 0
        self.head, self.data = len(head), each * TENSORS

    def measure(self, server):
        self.write_files()
        self.array = Array(self.driver, FILES * self.data)
        try:
            with connect(server, "native", "local") as client, concurrent.futures.ThreadPoolExecutor(GETS_AT_ONCE) as self.pool:
                for number, path in enumerate(self.paths):
                    client.put("gpu", f"weights/{number}", pathlib.Path(path).read_bytes())
                load, compare = self.by_torch(client) or self.by_ranges(client)
                with Hot(server).warm(lambda: self.read_whole(client)):  # ranges do not enter the tier
                    brought = rate(FILES * self.data, 0, load)
                compare(self.by)
            load, compare, name = self.from_page_cache()
            yardstick = rate(FILES * self.data, 0, load)
            compare(name)
        finally:
            self.array.free()
        return brought, name, yardstick

    def read_whole(self, client):
        for number in range(FILES):
            client.get("gpu", f"weights/{number}").release()

    def compare_tensors(self, torch, loaded, who):
        for path, tensors in zip(self.paths, loaded):
            data = memoryview(pathlib.Path(path).read_bytes())[self.head:]
            each = len(data) // TENSORS
            for i in range(TENSORS):
                wanted = torch.frombuffer(bytearray(data[i * each:(i + 1) * each]), dtype=torch.uint8)
                assert torch.equal(tensors[f"layer.{i}"].cpu().view(torch.uint8), wanted), f"{who} brought other bytes"

    def by_torch(self, client):
        torch = torch_with_gpu()
        if torch is None:
            return None
        import verbena.torch
        loaded = [None] * FILES

        def load():
            for number in range(FILES):
                loaded[number] = verbena.torch.load_file(f"s3://gpu/weights/{number}", device=f"cuda:{self.options.device}", client=client)
            torch.cuda.synchronize(self.options.device)
        return load, lambda who: self.compare_tensors(torch, loaded, who)

    def compare_array(self, who):
        for number, path in enumerate(self.paths):
            part = PartOf(self.array, number * self.data, self.data)
            assert part.get() == pathlib.Path(path).read_bytes()[self.head:], f"{who} brought other bytes"
            part.set(bytes(self.data))

    def by_ranges(self, client):
        """As verbena.torch does it, into memory of the driver's."""
        def one(key, etag, at, first, size):
            client.get_into("gpu", key, PartOf(self.array, at, size), range=(first, size), if_match=etag)

        def load():
            waiting = []
            for number in range(FILES):
                key = f"weights/{number}"
                head = _safetensors.read_head(client, "gpu", key)
                begin, end = head.places[0].begin, head.places[-1].end
                waiting += [self.pool.submit(one, key, head.etag, number * self.data + first - begin, first, min(GET_SIZE, end - first))
                            for first in range(begin, end, GET_SIZE)]
            for done in waiting:
                done.result()
        return load, self.compare_array

    def from_page_cache(self):
        torch, safetensors = torch_with_gpu(), imported("safetensors.torch")
        if torch is not None and safetensors is not None:
            loaded = [None] * FILES

            def load():
                for number, path in enumerate(self.paths):
                    loaded[number] = safetensors.load_file(path, device=f"cuda:{self.options.device}")
                torch.cuda.synchronize(self.options.device)
            return load, lambda who: self.compare_tensors(torch, loaded, who), "safetensors, from the page cache"

        def by_hand():
            for number, path in enumerate(self.paths):
                with open(path, "rb", buffering=0) as file:
                    file.seek(self.head)
                    for at in range(0, self.data, GET_SIZE):
                        self.driver.write(self.array.address + number * self.data + at, file.read(min(GET_SIZE, self.data - at)))
        lacking = "safetensors" if safetensors is None else "torch that has a GPU"
        return by_hand, self.compare_array, f"read() from the page cache and the driver's copy (there is no {lacking})"
