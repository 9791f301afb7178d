"""Libraries that are preloaded into Spillway: memory or sockets fail as a test says.

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


class Failing:
    """A library's control, in a file that it maps, too: numbers by name (support/failing_*.c explains them)."""

    def __init__(self, name):
        self.fields = FIELDS[name]
        self.folder = new_folder("failing")
        path = self.folder / "control"
        path.write_bytes(bytes(8 * len(self.fields)))
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 0)
        library = build_folder() / "tests" / f"libfailing_{name}.so"
        self.wrapper = ["env", f"LD_PRELOAD={library}", f"FAILING_{name.upper()}={path}"]

    def set(self, **values):
        for name, value in values.items():
            _number.pack_into(self.memory, 8 * self.fields.index(name), value)

    def get(self, name):
        return _number.unpack_from(self.memory, 8 * self.fields.index(name))[0]

    def close(self):
        self.memory.close()
        remove_folder(self.folder)
