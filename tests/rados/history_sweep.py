"""Frees what a long history (history_test.py) no longer needs, since the cluster, which is in memory, would fill up:
the keys of finished things, and, by `verbena rados fsck --repair`, the remains of killed servers."""
import collections
import http.client
import subprocess
import time
import urllib.parse
import xml.etree.ElementTree as tree

import verbena_server
from express_case import Express
from history_servers import place

ITEMS = 256        # of a batch
PAGE_PAUSE_S = 0.05
ATTEMPTS = 3       # at a thing
REPAIR_EVERY_S = 240
DAMAGED = 7        # docs/cluster.md: the exit code


class Sweep:
    """`buckets`: kind -> bucket."""

    def __init__(self, run, ceph, buckets):
        self.run, self.ceph, self.buckets = run, ceph, buckets
        self.choose = run.random("sweep")
        self.over = collections.deque()  # (attempt, kind, name, version ids)

    def take(self, thing):
        """Removes the keys of a thing whose history is over. Its unanswered calls may still land and stay; there are
        few."""
        if thing.kind in self.buckets:
            self.over.append((1, thing.kind, thing.name, list(thing.version_ids.values())))

    def remove_keys(self):
        while not self.run.stop.wait(0.2):
            some = [self.over.popleft() for _ in range(min(ITEMS, len(self.over)))]
            if not some:
                continue
            try:
                self.remove(self.choose.choice(self.run.servers), some)
            except (*self.run.failures, TypeError):  # TypeError: the server has no address now
                self.run.counts["sweeps that broke off"] += 1
                self.over.extend((attempt + 1, *what) for attempt, *what in some if attempt < ATTEMPTS)

    def remove(self, server, some):
        names = []
        for _, kind, name, _ in some:
            bucket = self.buckets[kind]
            names += [(bucket, f"{end}{name}") for end in "az"] if kind == "pair" else [(bucket, name)] if kind == "register" else []
        with self.run.connect(server, "native") as client:
            client.remove_many(names)
        with self.run.connect(server, "http") as client:
            for _, kind, name, ids in some:
                for version in ids if kind == "versions" else ():
                    client.delete(self.buckets[kind], name, version_id=version)

    def watch_pages(self):
        """Pages of the bucket with versions, through any server, with and without a delimiter: each page must be of
        one moment."""
        while not self.run.stop.wait(PAGE_PAUSE_S):
            address = self.choose.choice(self.run.servers).http
            if address is None:
                continue
            query, marker = f"/{self.buckets['versions']}?versions=&max-keys={self.choose.choice((7, 50, 1000))}", ""
            s3 = Express(address, service="s3")
            try:
                while marker is not None and not self.run.stop.is_set():
                    reply = s3.call("GET", query + marker)
                    marker = self.check_page(reply.body) if reply.status == 200 else None
            except (OSError, http.client.HTTPException):
                continue  # the server is dead, or frozen
            finally:
                s3.connection.close()

    def check_page(self, body):
        """The markers of the next page; None: this is the last."""
        entries, markers, key_before = [], {}, None
        for one in tree.fromstring(body):
            kind = one.tag.rsplit("}", 1)[-1]
            if kind in ("Version", "DeleteMarker"):
                entries.append({child.tag.rsplit("}", 1)[-1]: child.text for child in one})
            else:
                markers[kind] = one.text
        names = [entry["VersionId"] for entry in entries]
        assert len(set(names)) == len(names), f"a version is listed twice: {entries}"
        for number, entry in enumerate(entries):
            if number > 0 or not markers.get("KeyMarker"):
                assert (entry["IsLatest"] == "true") == (entry["Key"] != key_before), f"not one moment: {entries}"
            key_before = entry["Key"]
        self.run.counts["pages of versions"] += 1
        if markers.get("IsTruncated") != "true":
            return None
        return "".join(f"&{ours}={urllib.parse.quote(markers.get(theirs) or '', safe='')}" for ours, theirs in
                       (("key-marker", "NextKeyMarker"), ("version-id-marker", "NextVersionIdMarker")) if markers.get(theirs))

    def repair(self):
        """Runs during the load. It may give up when the cluster does not answer, but must not find damage."""
        while not self.run.stop.wait(REPAIR_EVERY_S):
            began = time.monotonic()
            try:
                done = subprocess.run([verbena_server.program(), "rados", "fsck", "--repair", *place(self.ceph), "--set", "rados.timeout=10"],
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
            except subprocess.TimeoutExpired:
                self.run.counts["repairs that did not end"] += 1
                continue
            self.run.counts["repairs" if done.returncode == 0 else "repairs that gave up"] += 1
            if done.returncode == DAMAGED:
                self.run.fail(f"a repair that took {time.monotonic() - began:.0f} s found damage:\n{done.stdout[-3000:]}")
            elif done.returncode != 0:
                print(f"a repair gave up: {done.stdout.strip()[-300:]}", flush=True)
