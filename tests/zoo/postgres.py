"""A PostgreSQL of our own, for the backup programs."""
import pathlib

from zoo import free_port, own, run

USER = "postgres"


class Postgres:
    def __init__(self, home, name="data", archive_command="", restore_command=""):
        self.home, self.port = pathlib.Path(home), free_port()
        self.data = self.home / name
        self.archive, self.restore = archive_command, restore_command
        self.bin = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1]
        self.socket = self.home / f"{name}-socket"
        self.socket.mkdir()
        own(self.socket, USER)

    def make(self):
        self.data.mkdir(mode=0o700)
        own(self.data, USER)
        run(self.bin / "initdb", "-D", self.data, "-A", "trust", "--no-sync", user=USER, cwd="/")
        return self

    def start(self):
        """Starts it on our own socket and port, overriding the data directory's settings."""
        settings = {"port": self.port, "unix_socket_directories": self.socket, "listen_addresses": "", "wal_level": "replica",
                    "archive_mode": "on" if self.archive else "off", "archive_command": self.archive,
                    "restore_command": self.restore, "max_wal_senders": 4, "logging_collector": "off"}
        lines = "".join(f"{name} = '{value}'\n" for name, value in settings.items())
        conf = self.data / "conf.d-verbena.conf"
        conf.write_text(lines)
        own(conf, USER)
        main = self.data / "postgresql.conf"
        if "conf.d-verbena" not in main.read_text():
            with open(main, "a") as out:
                out.write("include_if_exists = 'conf.d-verbena.conf'\n")
        run(self.bin / "pg_ctl", "-D", self.data, "-w", "-t", "120", "-l", self.socket / "log", "start", user=USER, cwd="/")
        return self

    def stop(self):
        run(self.bin / "pg_ctl", "-D", self.data, "-w", "-m", "fast", "stop", user=USER, cwd="/")

    def sql(self, text):
        return run(self.bin / "psql", "-h", self.socket, "-p", self.port, "-U", USER, "-d", "postgres", "-At", "-c", text,
                   user=USER, cwd="/").strip()
