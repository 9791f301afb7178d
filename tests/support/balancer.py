"""HAProxy before several Spillways, by the file that we ship."""

import pathlib
import re
import shutil
import socket

from support.process import Process, new_folder, remove_folder, wait_for
from support.replica_set import PORTS

SHIPPED = pathlib.Path(__file__).parents[2] / "deploy" / "examples" / "haproxy.cfg"


class Balancer(Process):
    """HAProxy on 127.0.0.1, by the shipped file with a test's addresses."""

    def __init__(self, first, spillways):
        folder = new_folder("haproxy")
        text, count = re.subn("bind :27117-27126", f"bind 127.0.0.1:{first}-{first + PORTS - 1}", SHIPPED.read_text())
        for number, spillway in enumerate(spillways, 1):
            text, found = re.subn(rf"(server spillway{number}) \S+ check port \d+",
                                  rf"\1 {spillway.host} check addr 127.0.0.1 port {spillway.admin_port}", text)
            count += found
        assert count == 3, "the shipped file has other lines than the test expects"
        self.first = first
        self.commands = folder / "commands"
        text = text.replace("global\n", f"global\n    stats socket {self.commands} level admin\n")
        (folder / "haproxy.cfg").write_text(text)
        program = shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin")
        assert program, "haproxy is not installed"
        super().__init__("haproxy", [program, "-db", "-f", folder / "haproxy.cfg"], folder)

    def __enter__(self):
        self.start()
        wait_for(self._accepts, "HAProxy to listen")
        return self

    def _accepts(self):
        self.require_running()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.first)) == 0

    def __exit__(self, *_):
        self.kill()
        remove_folder(self.folder)

    def cut(self, name):
        """Every connection to this Spillway ends; new ones go there, too."""
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(str(self.commands))
            control.sendall(f"shutdown sessions server spillways/{name}\n".encode())
            control.recv(100)
