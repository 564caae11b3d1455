#!/usr/bin/python3
"""`dpu:` as a configuration file has it: a start that names why the machine, or the configuration, is not what is asked
for; and a start where the firmware calls the machine a DPU."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from command_line_case import FAILURE, USAGE  # noqa: E402
from verbena_server import ACCESS_KEY, SECRET_KEY, Server, client_environment, program  # noqa: E402

DPU = """dpu:
  enabled: true
  enable_rdma: true
  enable_crypto: true
"""
REQUIRED = "rdma:\n  encryption: required\n"
# OPENSSL_ia32cap(3): a processor without AES and without carry-less multiplication.
WITHOUT_AES = {"OPENSSL_ia32cap": "~0x200000200000000:0x0"}
# Runs a command where the firmware names this machine, in a mount namespace of its own: /sys/class has DMI's names alone.
NAMED = ('mount -t tmpfs none /sys/class && mkdir -p /sys/class/dmi/id && printf "%s\\n" "$VENDOR" >/sys/class/dmi/id/sys_vendor && '
         'printf "%s\\n" "$PRODUCT" >/sys/class/dmi/id/product_name && exec "$@"')
UNSHARE = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
BLUEFIELD = {"VENDOR": "https://www.mellanox.com", "PRODUCT": "BlueField-3 DPU"}


def named(*command):
    return [*UNSHARE, "sh", "-c", NAMED, "sh", *command]


def may_name():
    done = subprocess.run(named("true"), env=dict(os.environ, **BLUEFIELD), capture_output=True)
    return done.returncode == 0


def has_aes():
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    return " aes " in flags and " pclmulqdq " in flags


class Dpu(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="verbena-dpu-")
        self.addCleanup(self.folder.cleanup)
        self.home = pathlib.Path(self.folder.name)
        self.file = self.home / "verbena.yaml"
        self.env = dict(client_environment(self.home), VERBENA_ROOT_ACCESS_KEY=ACCESS_KEY, VERBENA_ROOT_SECRET_KEY=SECRET_KEY)

    def refusal(self, text, under=lambda *command: list(command), env=None):
        """What a server with this configuration says before it ends."""
        self.file.write_text(text)
        done = subprocess.run(under(program(), "server", str(self.home / "data"), "--config", str(self.file), "--http", "127.0.0.1:0",
                                    "--rdma", "127.0.0.1:0"), env={**self.env, **(env or {})}, capture_output=True, text=True, timeout=60)
        self.assertIn(done.returncode, (FAILURE, USAGE), done.stdout + done.stderr)
        return done.stderr

    def test_a_machine_that_is_no_dpu_is_refused_with_its_own_name(self):
        if any(pathlib.Path(path).exists() for path in ("/sys/class/dmi/id/product_name", "/proc/device-tree/model")):
            name = "DMI: "
        else:
            name = "(device tree: none; DMI: none)"
        for text in ("dpu:\n  enabled: true\n", DPU + REQUIRED):
            said = self.refusal(text)
            self.assertIn("dpu.enabled: this machine does not call itself a DPU that is known, BlueField or Pensando", said)
            self.assertIn(name, said)
            self.assertIn("without the key the server runs here as on any machine", said)

    def test_what_the_configuration_lacks_is_named_before_the_machine_is_asked(self):
        self.assertIn("dpu.enable_crypto: add rdma.encryption: required, which encrypts what RDMA devices move", self.refusal(DPU))
        for key in ("enable_rdma", "enable_crypto"):
            self.assertIn("dpu.enable_rdma and dpu.enable_crypto need dpu.enabled: true", self.refusal(f"dpu:\n  {key}: true\n"))
        rule = 'listeners:\n  - networks: ["10.0.0.0/8"]\n    encryption: off\n'
        self.assertIn("dpu.enable_crypto: encrypts for every client, but listeners[0].encryption is off", self.refusal(DPU + REQUIRED + rule))
        self.assertIn("dpu.enable_cryptos", self.refusal(DPU + "  enable_cryptos: true\n"))

    @unittest.skipUnless(may_name(), "no mount namespace here")
    def test_on_a_dpu_each_part_that_is_missing_is_named(self):
        other = {"VENDOR": "QEMU", "PRODUCT": "Standard PC"}
        self.assertIn("DMI: QEMU Standard PC)", self.refusal(DPU + REQUIRED, named, other))
        self.assertIn("dpu.enable_crypto: this processor has no AES instructions", self.refusal(DPU + REQUIRED, named, {**BLUEFIELD, **WITHOUT_AES}))
        if has_aes():
            self.assertIn("dpu.enable_rdma: the native door has no RDMA device of this DPU", self.refusal(DPU + REQUIRED, named, BLUEFIELD))

    @unittest.skipUnless(may_name() and has_aes(), "no mount namespace here, or no AES instructions")
    def test_a_machine_that_calls_itself_a_dpu_serves(self):
        self.file.write_text("dpu:\n  enabled: true\n  enable_crypto: true\n" + REQUIRED)
        start = self.home / "start"
        start.write_text("#!/bin/sh\nexec " + " ".join(f"'{word}'" for word in named(program())) + ' "$@"\n')
        start.chmod(0o755)
        server = Server(args=("--config", str(self.file)), env={"VERBENA_RDMA_TOKEN_PROVIDER": "auto", **BLUEFIELD})
        server.program = str(start)
        with server:
            self.assertIn("dpu: this server runs on a DPU (device tree: none; DMI: https://www.mellanox.com BlueField-3 DPU)", server.log())
            self.assertIn("rdma.encryption: required: ", server.log())
            for command in (("mb", "s3://dpu"), ("put", str(self.file), "s3://dpu/k"), ("cat", "s3://dpu/k")):
                done = subprocess.run([program(), *command, "--endpoint", server.http, "--native", server.native], env=self.env,
                                      capture_output=True, timeout=60)
                self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout, self.file.read_bytes())


if __name__ == "__main__":
    unittest.main()
