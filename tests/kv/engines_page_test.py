#!/usr/bin/python3
"""docs/kv-engines.md: the configurations that it gives, word by word, load the three connectors, by our hosts, and blocks travel by them.
Only the server's address is another one."""
import asyncio
import json
import os
import pathlib
import re
import shlex
import sys
import unittest
from unittest import mock

import kv_case
import yaml

torch = kv_case.torch_or_skip()
import engine  # noqa: E402
import lmcache_host  # noqa: E402
import sglang_host  # noqa: E402

from verbena.kv.store import Options  # noqa: E402

TEXT = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "kv-engines.md").read_text()


def section(title):
    """The first indented block under a heading."""
    body = TEXT.split(f"## {title}\n", 1)[1]
    return re.match(r"\n*((?:    .*\n)+)", body).group(1).replace("\n    ", "\n").removeprefix("    ")


def option(command, name):
    """The value of an option of a shell's command, as JSON."""
    words = shlex.split(command.replace("\\\n", " "))
    return json.loads(words[words.index(name) + 1])


class Page(unittest.TestCase):
    def setUp(self):
        self.server = self.enterContext(kv_case.CacheServer())
        keys = {"AWS_ACCESS_KEY_ID": kv_case.ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": kv_case.SECRET_KEY}
        self.enterContext(mock.patch.dict(os.environ, keys))
        made = Options.of  # a busy machine is no lost server
        patient = {"deadline_ms": 20_000, "lookup_ms": 20_000}
        self.enterContext(mock.patch.object(Options, "of", lambda settings: made({**patient, **settings})))

    def here(self, text):
        """A text of the page with this server's address."""
        self.assertRegex(text, "store:9000")
        return text.replace("store:9000", self.server.at[0]).replace("store:9100", self.server.at[1])

    def test_vllm(self):
        command = self.here(section("vLLM in five minutes"))
        self.assertIn("PYTHONHASHSEED=0", command)
        transfer = option(command, "--kv-transfer-config")
        settings = transfer.pop("kv_connector_extra_config")
        for loaded in (0, 6):
            one = engine.Engine(settings, transfer=transfer, model="page")
            one.add(engine.Request("a request", range(26)))
            one.run()
            one.flush()
            one.shutdown()
            self.assertEqual((one.loaded, one.wrong, one.lost), (loaded, 0, 0))
            self.assertGreater(one.compared, 0)

    def test_lmcache(self):
        settings = yaml.safe_load(self.here(section("LMCache in five minutes")))

        async def travel():
            first, _ = lmcache_host.connect_as(settings, asyncio.get_running_loop())
            chunk = first._new_chunk()
            chunk.tensor.copy_(torch.randn(*chunk.get_shape()).to(torch.float16))
            await first.batched_put([lmcache_host.Key(1)], [chunk])
            await first.close()
            other, _ = lmcache_host.connect_as(settings, asyncio.get_running_loop())
            got, = await other.batched_get([lmcache_host.Key(1)])
            self.assertTrue(torch.equal(got.tensor, chunk.tensor))
            await other.close()
        asyncio.run(travel())

    def test_sglang(self):
        command = self.here(section("SGLang in five minutes"))
        extra = option(command, "--hicache-storage-backend-extra-config")
        words = shlex.split(command.replace("\\\n", " "))
        layout = words[words.index("--hicache-mem-layout") + 1]
        self.assertEqual(words[words.index("--hicache-storage-backend") + 1], "dynamic")
        mine, theirs = sglang_host.Pool(layout), sglang_host.Pool(layout)
        mine.kv_buffer.copy_(torch.randn(mine.kv_buffer.shape))
        one, other = (sglang_host.create_as(extra, pool) for pool in (mine, theirs))
        self.assertEqual(one.batch_set_v1(["page"], torch.arange(0, 4)), [True])
        self.assertEqual(other.batch_get_v1(["page"], torch.arange(8, 12)), [True])
        self.assertTrue(torch.equal(theirs.page(8), mine.page(0)))
        one.close()
        other.close()


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
