"""Who is connected to a port: the machine's TCP table, matched with processes' descriptors."""

import os
import pathlib
import re

_ESTABLISHED = "01"


def _established():
    """(remote port, inode) of each established IPv4 or IPv6 connection, seen from either end."""
    found = []
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path("/proc/net", table).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == _ESTABLISHED:
                found.append((int(words[2].rpartition(":")[2], 16), words[9]))
    return found


def inodes_of(pid):
    """The sockets of a process."""
    found = set()
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            match = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(entry))
        except FileNotFoundError:
            continue
        if match:
            found.add(match[1])
    return found


def connected_to(ports):
    """The inodes of the near ends of connections to any of these ports."""
    return {inode for port, inode in _established() if port in ports and inode != "0"}


def strangers(ports, pids):
    """Sockets that are connected to one of the ports and belong to none of the processes.

    A connection may close, or pass between two looks: only what a second look confirms counts.
    """
    suspects = connected_to(ports)
    for _ in range(2):
        if suspects:
            suspects -= set().union(*(inodes_of(pid) for pid in pids))
            suspects &= connected_to(ports)
    return suspects
