"""fsspec: verbena://bucket/key for pandas, dask, xarray, zarr, pyarrow.

    pandas.read_parquet("verbena://bucket/table.parquet", storage_options={"endpoint": "http://127.0.0.1:9000", "access_key": ...})
"""
import datetime
import glob
import io
import itertools
import os
import tempfile
import warnings

from fsspec.compression import compr
from fsspec.core import get_compression
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem
from fsspec.utils import infer_storage_options

from . import errors
from ._client import ListedObject, connect

_RANGES_MAX = 64  # of one message
_SPOOLED_MAX = 64 << 20
_REMOVED_MAX = 4096  # of one batch
_STORED_HEADERS = ("cache-control", "content-disposition", "content-encoding", "content-language", "expires")
_OPTIONS = ("endpoint", "native_endpoint", "access_key", "secret_key", "session_token", "region", "via", "provider", "ca_file",
            "insecure", "encryption", "cleartext_rdma", "operation_timeout_ms", "attempts_max")


def _stays_inside(path, root):
    """Whether the file of `path`, which was found below `root`, is in the folder of `root`: a key may have any parts."""
    rest = path[len(root):].removeprefix("/") if root and (path == root or path.startswith(f"{root}/")) else path
    return not rest or not {"", ".", ".."} & set(rest.removesuffix("/").split("/"))


def _check_inside(path, root):
    if not _stays_inside(path, root):
        raise ValueError(f"{path!r} has no place in a folder: a part of it is empty, '.' or '..'")


def _and_above(path):
    """The path, and those of the folders that it is in."""
    while path:
        yield path
        path = path.rpartition("/")[0]


class VerbenaFileSystem(AbstractFileSystem):
    """Buckets are the first level of paths. `cat_ranges` reads up to 64 ranges of an object in one message. An object
    whose key ends with a slash stands for a folder and is no file, since a path is the same with a slash at its end and
    without it."""

    protocol = "verbena"
    root_marker = ""

    def __init__(self, client=None, **options):
        super().__init__(**options)
        self._given, self._options = client, {name: options[name] for name in _OPTIONS if name in options}
        self._own, self._own_pid = None, None

    @property
    def client(self):
        """The client of this process: after a fork a new one."""
        if self._given is not None:
            return self._given
        if self._own is None or self._own_pid != os.getpid():
            self._own, self._own_pid = connect(**self._options), os.getpid()
        return self._own

    @classmethod
    def _strip_protocol(cls, path):
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = os.fspath(path)
        if path.startswith("verbena://"):
            path = path[len("verbena://"):]
        return path.strip("/") if path.strip("/") else cls.root_marker

    @staticmethod
    def _get_kwargs_from_urls(path):
        return {} if not path.startswith("verbena://") else {k: v for k, v in infer_storage_options(path).items() if k in _OPTIONS}

    @classmethod
    def _split(cls, path):
        bucket, _, key = cls._strip_protocol(path).partition("/")
        return bucket, key

    def _entry(self, bucket, item):
        return {"name": f"{bucket}/{item.key}", "size": item.size, "type": "file", "etag": item.etag,
                "LastModified": item.last_modified}

    def ls(self, path, detail=True, **_):
        bucket, key = self._split(path)
        if not bucket:
            found = [{"name": name, "size": 0, "type": "directory"} for name in self.client.buckets()]
        else:
            found = self._level(bucket, key)
        return found if detail else sorted(entry["name"] for entry in found)

    def _level(self, bucket, key):
        prefix, found = f"{key}/" if key else "", []
        for item in self.client.list(bucket, prefix, delimiter="/"):
            if isinstance(item, str):
                found.append({"name": f"{bucket}/{item.rstrip('/')}", "size": 0, "type": "directory"})
            elif item.key != prefix:
                found.append(self._entry(bucket, item))
        if not found and key:
            found = [self._entry(bucket, item) for item in self._exact(bucket, key)]
            if not found:
                raise FileNotFoundError(f"{bucket}/{key}")
        return found

    def _exact(self, bucket, key):
        try:
            reply = self.client.head(bucket, key)
        except errors.NotFound:
            return []
        return [ListedObject(key, reply.size, reply.modified_us, reply.etag)]

    def info(self, path, **_):
        bucket, key = self._split(path)
        if not key:
            if bucket and bucket not in self.client.buckets():
                raise FileNotFoundError(bucket)
            return {"name": bucket, "size": 0, "type": "directory"}
        for item in self._exact(bucket, key):
            return self._entry(bucket, item)
        objects, _, _ = self.client.list_page(bucket, f"{key}/", None, None, None, 1)
        if not objects:
            raise FileNotFoundError(f"{bucket}/{key}")
        return {"name": f"{bucket}/{key}", "size": 0, "type": "directory"}

    def exists(self, path, **_):
        try:
            self.info(path)
            return True
        except FileNotFoundError:
            return False

    def find(self, path, maxdepth=None, withdirs=False, detail=False, prefix="", **options):
        bucket, key = self._split(path)
        if maxdepth is not None or withdirs or not bucket:
            return super().find(path, maxdepth=maxdepth, withdirs=withdirs, detail=detail, **options)
        found = [self._entry(bucket, item) for item in self.client.list(bucket, (f"{key}/" if key else "") + prefix)
                 if not item.key.endswith("/")]
        if not found and key and not prefix:
            found = [self._entry(bucket, item) for item in self._exact(bucket, key)]
        by_name = {entry["name"]: entry for entry in found}
        return by_name if detail else sorted(by_name)

    def created(self, path):
        return self.modified(path)

    def modified(self, path):
        return self.info(path).get("LastModified", datetime.datetime.fromtimestamp(0, datetime.timezone.utc))

    def cat_file(self, path, start=None, end=None, **_):
        bucket, key = self._split(path)
        if start is None and end is None:
            return self.client.get(bucket, key).tobytes()
        etag = None
        if (start or 0) < 0 or (end is not None and end < 0):
            found = self.info(path)
            size, etag = found["size"], found.get("etag")
            start = max(0, size + start) if (start or 0) < 0 else start
            end = size + end if end is not None and end < 0 else end
        return self._ranges_of(bucket, key, [(start or 0, end)], etag)[0]

    def _ranges_of(self, bucket, key, wanted, etag=None):
        """The bytes of each (start, end) of one object, in messages of up to 64 ranges, all of one version: that of
        `etag`, or the one that the first message finds. Bytes past the end are left out."""
        out = [b""] * len(wanted)
        asked = [(at, start, end) for at, (start, end) in enumerate(wanted) if end is None or end > start]
        for begin in range(0, len(asked), _RANGES_MAX):
            some = asked[begin:begin + _RANGES_MAX]
            ranges = [(start, 0 if end is None else end - start) for _, start, end in some]
            try:
                got = self.client.get(bucket, key, ranges=ranges, if_match=etag)
            except errors.InvalidRange:
                there = self.client.head(bucket, key)
                some = [one for one in some if one[1] < there.size]
                if not some:
                    continue
                got = self.client.get(bucket, key, ranges=[(start, 0 if end is None else end - start) for _, start, end in some],
                                      if_match=etag or there.etag)
            etag = etag or got.reply.etag
            view, position, size = memoryview(got), 0, got.reply.size
            for at, start, end in some:
                length = min(size, size if end is None else end) - start
                out[at] = bytes(view[position:position + length])
                position += length
            view.release()
            got.release()
        return out

    def cat_ranges(self, paths, starts, ends, max_gap=None, on_error="return", **_):
        """Ranges of many objects: those of one object share messages."""
        starts = [starts] * len(paths) if not isinstance(starts, (list, tuple)) else starts
        ends = [ends] * len(paths) if not isinstance(ends, (list, tuple)) else ends
        if not len(paths) == len(starts) == len(ends):
            raise ValueError("as many starts and ends as paths")
        out, by_path = [b""] * len(paths), {}
        for at, path in enumerate(paths):
            by_path.setdefault(path, []).append(at)
        for path, places in by_path.items():
            try:
                wanted = [(starts[at] or 0, ends[at]) for at in places]
                if any(start < 0 or (end is not None and end < 0) for start, end in wanted):
                    found = [self.cat_file(path, start, end) for start, end in wanted]
                else:
                    found = self._ranges_of(*self._split(path), wanted)
            except Exception as error:
                if on_error == "raise":
                    raise
                found = [error] * len(places)
            for at, value in zip(places, found):
                out[at] = value
        return out

    def get(self, rpath, lpath, recursive=False, *arguments, **options):
        """Keys with empty parts, "." or ".." below `rpath` are refused: their files would not be in `lpath`."""
        if not isinstance(lpath, (list, tuple)):  # else each file is named by the caller
            named = isinstance(rpath, (str, os.PathLike)) and not glob.has_magic(os.fspath(rpath))
            # The last part of a named folder is checked, too: it may become a folder in `lpath`.
            options["below"] = below = self._strip_protocol(rpath).rpartition("/")[0] if named else ""
            if recursive:
                self._check_tree(rpath, below)
        return super().get(rpath, lpath, recursive, *arguments, **options)

    def get_file(self, rpath, lpath, *arguments, below=None, **options):
        if below is not None:
            _check_inside(rpath, below)
        return super().get_file(rpath, lpath, *arguments, **options)

    def _check_tree(self, rpath, below):
        """All keys of a recursive get, before its first file: its own search finds none that have an empty part."""
        for root in self.expand_path(rpath):
            for bucket_or_folder in [root] if root else self.ls("", detail=False):
                for path in self.find(bucket_or_folder):
                    _check_inside(path, below)

    def pipe_file(self, path, value, **options):
        self.client.put(*self._split(path), value, **options)

    def cp_file(self, path1, path2, **_):
        if self.isdir(path1):
            return
        got = self.client.get(*self._split(path1), metadata=True)
        headers = {name: value for name, value in got.reply.headers.items() if name in _STORED_HEADERS}
        self.client.put(*self._split(path2), got, content_type=got.reply.content_type or None, metadata=got.reply.metadata, headers=headers)

    def rm_file(self, path):
        self.client.delete(*self._split(path))

    _rm = rm_file

    def rm(self, path, recursive=False, maxdepth=None):
        whole, removed = recursive and maxdepth is None, set()
        # A pattern's paths may lie in each other: in their order a folder comes before what is in it.
        for one in sorted(self.expand_path(path) if whole else self.expand_path(path, recursive=recursive, maxdepth=maxdepth)):
            bucket, key = self._split(one)
            if whole:
                if removed.isdisjoint(_and_above(one)):
                    self._remove_tree(bucket, key)
                    removed.add(one)
            elif key:
                self.client.delete(bucket, key)

    def _remove_tree(self, bucket, key):
        """Removes the object and all below it: by their keys, since paths do not name those that end with a slash."""
        below = (item.key for item in self.client.list(bucket, f"{key}/" if key else ""))
        keys, found = itertools.chain((item.key for item in self._exact(bucket, key)) if key else (), below), False
        while some := list(itertools.islice(keys, _REMOVED_MAX)):
            found = True
            self.client.remove_many([(bucket, one) for one in some]).check()
        if key and not found:
            raise FileNotFoundError(f"{bucket}/{key}")

    def mkdir(self, path, create_parents=True, **options):
        bucket, key = self._split(path)
        if not key:
            self.client.make_bucket(bucket)

    def makedirs(self, path, exist_ok=False):
        bucket, key = self._split(path)
        if not key and bucket not in self.client.buckets():
            self.client.make_bucket(bucket)

    def rmdir(self, path):
        bucket, key = self._split(path)
        if not key:
            self.client.remove_bucket(bucket)

    def open(self, path, mode="rb", block_size=None, cache_options=None, compression=None, **options):
        if mode[:1] not in ("w", "x"):
            return super().open(path, mode, block_size, cache_options, compression, **options)
        if "b" not in mode:
            of_text = {name: options.pop(name) for name in ("encoding", "errors", "newline") if name in options}
            mode = mode.replace("t", "") + "b"
            return _TextUpload(self.open(path, mode, block_size, cache_options, compression, **options), **of_text)
        upload = super().open(path, mode, block_size, cache_options, **options)
        packing = get_compression(path, compression)
        return upload if packing is None else _PackedUpload(upload, compr[packing](upload, mode="w"))

    def _open(self, path, mode="rb", block_size=None, cache_options=None, **options):
        if mode == "rb":
            return VerbenaFile(self, path, mode, block_size or "default", cache_options=cache_options,
                               cache_type=options.pop("cache_type", "readahead"), **options)
        if mode in ("wb", "xb"):
            return _Upload(self, path, exclusive=mode == "xb")
        raise NotImplementedError(f"mode {mode!r}: objects are read, or written whole")

    def touch(self, path, truncate=True, **_):
        if truncate or not self.exists(path):
            self.pipe_file(path, b"")


class VerbenaFile(AbstractBufferedFile):
    """An object read in ranges, all of the version at the time of opening."""

    def __init__(self, fs, path, *arguments, **options):
        super().__init__(fs, path, *arguments, **options)
        self._etag = self.details.get("etag")

    def _fetch_range(self, start, end):
        if end <= start:
            return b""
        bucket, key = self.fs._split(self.path)
        return self.fs.client.get(bucket, key, range=(start, end - start), if_match=self._etag).tobytes()


class _WholeOrNot:
    """A file whose `with` discards it after an exception, and else closes it."""

    def __exit__(self, kind, value, trace):
        if kind is not None:
            self.discard()
        else:
            self.close()


class _Upload(_WholeOrNot, tempfile.SpooledTemporaryFile):
    """Stores the written bytes as an object when it is closed. A `with` that ends by an exception discards them, and so
    does the finalizer of a file that was not closed. A wrapper's finalizer, and `with fsspec.open(...)` after an
    exception, close the file as any close() does, and so store what was written until then."""

    _done = True

    def __init__(self, fs, path, exclusive):
        super().__init__(max_size=_SPOOLED_MAX)
        self.fs, self.path, self._exclusive, self._done = fs, path, exclusive, False

    def __del__(self):
        if not self._done:
            self.discard()
            warnings.warn(f"{self.path} is not stored: it was not closed", RuntimeWarning, stacklevel=2)

    def readable(self):
        return False

    def writable(self):
        return True

    def seekable(self):
        return True

    def discard(self):
        self._done = True
        super().close()

    def close(self):
        if self._done:
            return
        self._done = True
        try:
            self.seek(0)
            self.fs.client.put_stream(*self.fs._split(self.path), self.read, if_none_match="*" if self._exclusive else None)
        finally:
            super().close()

    commit = close


class _AroundUpload(_WholeOrNot):
    def __del__(self):
        """Not that of `io`, which closes the file: the upload has its own finalizer."""


class _PackedUpload(_AroundUpload, io.BufferedIOBase):
    """An _Upload of compressed bytes: stored and discarded as that is. Most of what compresses does not close its file."""

    def __init__(self, upload, packed):
        self._upload, self._packed = upload, packed

    def writable(self):
        return True

    def write(self, data):
        return self._packed.write(data)

    def discard(self):
        self._upload.discard()
        super().close()

    def close(self):
        if self.closed:
            return
        try:
            self._packed.close()
        except BaseException:
            self.discard()
            raise
        super().close()
        self._upload.close()


class _TextUpload(_AroundUpload, io.TextIOWrapper):
    """An _Upload of text, or a _PackedUpload: stored and discarded as that is."""

    def discard(self):
        self.buffer.discard()
