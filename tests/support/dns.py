"""A DNS server for a test, which knows one replica set by SRV and TXT records; and a program that asks it."""

import os
import pathlib
import socket
import struct
import subprocess
import threading

SRV, TXT, INTERNET = 33, 16, 1
SOURCE = pathlib.Path(__file__).with_name("dns_shim.c")


class Dns:
    """Context manager. `members` are (host, port) below NAME; it counts the questions for SRV records."""

    NAME = "set.spillway.test"

    def __init__(self, members, text):
        self.members, self.text, self.asked = members, text, 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))

    def __enter__(self):
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.socket.close()

    def environment(self, folder):
        """What a program must have in its environment to ask here."""
        library = folder / "dns_shim.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", library, SOURCE], check=True)
        return {**os.environ, "LD_PRELOAD": str(library), "DNS_PORT": str(self.socket.getsockname()[1])}

    def _serve(self):
        while True:
            try:
                question, sender = self.socket.recvfrom(4096)
            except OSError:
                return
            self.socket.sendto(self._answer(question), sender)

    def _answer(self, question):
        name, end = _read_name(question, 12)
        kind, _ = struct.unpack_from(">HH", question, end)
        records = []
        if kind == SRV and name == f"_mongodb._tcp.{self.NAME}":
            self.asked += 1
            records = [struct.pack(">HHH", 0, 0, port) + _name(host) for host, port in self.members]
        elif kind == TXT and name == self.NAME:
            records = [bytes([len(self.text)]) + self.text.encode()]
        head = question[:2] + struct.pack(">HHHHH", 0x8580, 1, len(records), 0, 0)
        answers = [_name(name) + struct.pack(">HHIH", kind, INTERNET, 60, len(data)) + data for data in records]
        return head + question[12:end + 4] + b"".join(answers)


def _name(text):
    return b"".join(bytes([len(part)]) + part.encode() for part in text.split(".")) + b"\0"


def _read_name(message, at):
    parts = []
    while message[at]:
        parts.append(message[at + 1:at + 1 + message[at]].decode().lower())
        at += 1 + message[at]
    return ".".join(parts), at + 1
