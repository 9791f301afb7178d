"""Libraries that are preloaded into Spillway: memory or sockets fail as a test says, names are looked up slowly, or
turns of loops are measured.

    failing = Failing("malloc")
    with Relay(RULES, wrapper=failing.wrapper) as relay:
        failing.set(least=1, nth=3)
        ... failing.get("failed") ...
"""

import mmap
import struct

from support.process import build_folder, new_folder, remove_folder

FIELDS = {
    "malloc": ("least", "nth", "lasting", "counted", "failed", "large", "live", "room"),
    "io": ("most", "read_error", "write_error", "accept_error", "every", "calls", "failed"),
}
_number = struct.Struct("<q")


class Preloaded:
    """A library's control, in a file that it maps, too: numbers by name (support/NAME.c explains them)."""

    def __init__(self, name, fields):
        self.fields = fields
        self.folder = new_folder(name)
        path = self.folder / "control"
        path.write_bytes(bytes(8 * len(self.fields)))
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 0)
        library = build_folder() / "tests" / f"lib{name}.so"
        self.environment = {"LD_PRELOAD": str(library), name.upper(): str(path)}
        self.wrapper = ["env", *(f"{key}={value}" for key, value in self.environment.items())]

    def set(self, **values):
        for name, value in values.items():
            _number.pack_into(self.memory, 8 * self.fields.index(name), value)

    def get(self, name):
        return _number.unpack_from(self.memory, 8 * self.fields.index(name))[0]

    def close(self):
        self.memory.close()
        remove_folder(self.folder)


class Failing(Preloaded):
    def __init__(self, name):
        super().__init__(f"failing_{name}", FIELDS[name])


class HeldNames(Preloaded):
    """Names below .test are this machine, and who looks one up waits while they are held."""

    def __init__(self):
        super().__init__("held_names", ("held", "let", "asked"))


class Turns(Preloaded):
    """How long the turns of event loops take."""

    def __init__(self):
        super().__init__("turns", ("longest", "sum"))

    def during(self, work):
        """The longest turn while `work` runs, and all turns together: nanoseconds of CPU."""
        self.set(longest=0, sum=0)
        work()
        return self.get("longest"), self.get("sum")
