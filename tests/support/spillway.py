"""Starts `spillway serve` for a test: writes its configuration, waits until it is ready, ends it."""

import http.client
import os
import re
import signal
import ssl

from support.process import Adopted, Process, adopt_orphans, free_port, new_folder, remove_folder, wait_for

ADMIN_SECONDS = 60  # bounds what hangs


def program():
    return os.environ.get("SPILLWAY", "spillway")


def yaml(value, indent=0):
    """Block-style YAML of dictionaries, lists and scalars; a string is quoted only where it must."""
    pad = " " * indent
    if isinstance(value, dict):
        return "".join(f"{pad}{key}:{_yaml_value(item, indent)}" for key, item in value.items())
    return "".join(f"{pad}-{_yaml_value(item, indent)}" for item in value)


def _yaml_value(value, indent):
    if isinstance(value, (dict, list)) and value:
        return "\n" + yaml(value, indent + 2)
    return f" {_yaml_scalar(value)}\n"


def _yaml_scalar(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list)):
        return "{}" if isinstance(value, dict) else "[]"
    if isinstance(value, str) and not (value[:1].isalnum() and value not in ("true", "false", "null")):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value)


class QuotedText(str):
    """A string that looks like another scalar; wrap it to have it quoted."""

    def __str__(self):
        return f'"{str.__str__(self)}"'


class Spillway(Process):
    """Context manager around one `spillway serve`.

    `servers` are the mongods behind it (one listener each), `rules` the rules as dictionaries of the
    configuration file, which move what was there before unless they say otherwise, `more` further top-level keys,
    `environment` further variables. The environment's SPILLWAY_WORKERS and SPILLWAY_OPTIONS hold for tests that do not
    choose workers, and for all of `serve`.
    """

    def __init__(self, servers, rules=(), more=None, name="spillway", environment=None):
        self.ports = [free_port() for _ in servers]
        self.admin_port = free_port()
        folder = new_folder(name)
        self.settings = {
            "listen": [
                {"address": f"127.0.0.1:{port}", "server": server.address}
                for port, server in zip(self.ports, servers)
            ],
            "admin": f"127.0.0.1:{self.admin_port}",
            "rules": [{"existing": "move", **rule} for rule in rules],
        }
        if "SPILLWAY_WORKERS" in os.environ:
            self.settings["workers"] = int(os.environ["SPILLWAY_WORKERS"])
        self.settings.update(more or {})
        self.file = folder / "spillway.yaml"
        self.admin_headers, self.admin_authority, self.admin_seconds = {}, None, ADMIN_SECONDS
        self.upgrades = 0
        environment = {**os.environ, **(environment or {})}
        options = os.environ.get("SPILLWAY_OPTIONS", "").split()
        super().__init__(name, [program(), "serve", *options, "--config", self.file], folder, environment)

    @property
    def port(self):
        return self.ports[0]

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def __enter__(self):
        try:
            self.start()
        except BaseException as error:
            self.__exit__(type(error))
            raise
        return self

    def __exit__(self, failure=None, *_):
        """Ends it; it must end well, and no sanitizer may have said anything in all its life.

        Of a test that failed, pytest shows the end of the log."""
        code = self.stop() if self.running() else 0
        said = self.said() if self.process else ""
        remove_folder(self.folder)
        if failure is not None:
            print(f"{self.name} said:\n{said[-6000:]}")
        if failure is None and (code != 0 or "Sanitizer" in said):
            raise RuntimeError(f"{self.name} ended with {code}: {said[-6000:]}")

    def start(self, ready=True):
        self.write_file()
        super().start()
        if ready:
            wait_for(self.ready, f"{self.name} to be ready", pause=0.02)

    def write_file(self):
        self.file.touch(mode=0o600)  # it may hold a password
        self.file.write_text(yaml(self.settings))

    def secure_admin(self, token=None, authority=None, **more):
        """The section form of `admin`, before the start: with a token, with TLS by a support.certificates.Authority."""
        admin = self.settings["admin"] = {"address": f"127.0.0.1:{self.admin_port}", **more}
        if token:
            file = self.folder / "token"
            file.touch(mode=0o600)
            file.write_text(token + "\n")
            admin["token_file"] = "token"
            self.admin_headers = {"Authorization": f"Bearer {token}"}
        if authority:
            admin["tls"] = {"cert": str(authority.cert), "key": str(authority.key), **more.get("tls", {})}
            self.admin_authority = authority

    def refuses_to_start(self, seconds=60):
        """What it says as it ends with code 1 instead of starting."""
        self.start(ready=False)
        code = self.process.wait(seconds)
        if code != 1:
            raise AssertionError(f"{self.name} ended with {code}: {self.said()}")
        return self.said()

    def hang_up(self):
        """SIGHUP: the file and certificates are read again."""
        self.process.send_signal(signal.SIGHUP)

    def start_upgrade(self):
        """SIGUSR2: the program is started anew."""
        adopt_orphans()
        self.process.send_signal(signal.SIGUSR2)

    def upgrade(self):
        """A new process serves: it is `process` from now on. Returns the one before, which ends in its own time."""
        self.start_upgrade()
        return self.upgraded()

    def upgraded(self):
        """The same, for an upgrade that was asked for in another way."""
        before = self.process
        wait_for(lambda: len(self._successors()) > self.upgrades, f"an upgrade of {self.name}")
        self.process = Adopted(self._successors()[self.upgrades])
        self.upgrades += 1
        return before

    def _successors(self):
        """The processes that took over, by the log."""
        return [int(pid) for pid in re.findall(r" 1056 upgrade: process (\d+) serves from now on", self.said())]

    def says(self, text):
        """Waits until its log has this text: a thread writes it, a moment after what it tells of."""
        return wait_for(lambda: text in self.said(), f"{text!r} in the log of {self.name}")

    def ready(self):
        self.require_running()
        return self.admin("/readyz")[0] == 200

    def admin(self, path):
        """(status, text) of the admin address; status 0 where nothing listens."""
        if self.admin_authority:
            context = ssl.create_default_context(cafile=self.admin_authority.ca)
            connection = http.client.HTTPSConnection("127.0.0.1", self.admin_port, timeout=self.admin_seconds,
                                                     context=context)
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.admin_port, timeout=self.admin_seconds)
        try:
            connection.request("GET", path, headers=self.admin_headers)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    def metrics(self):
        """Samples of /metrics: {'spillway_spills_total{rule="x"}': 3.0}."""
        samples = {}
        for line in self.admin("/metrics")[1].splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                samples[name] = float(value)
        return samples
