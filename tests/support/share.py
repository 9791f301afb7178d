"""Which cases of a long list an ordinary run tries: a share of them. `tests/run full` tries all, as does EVERY=1.

A case is in the share if it says something that no case before it says: the name of an operator, of a field, of an
option, of a fault. Of the others one in so many is, by a hash of what the case says: a new case changes nothing for
those that are there.
"""

import os
import pathlib
import re
import sys
import zlib

from support.process import build_folder

EVERY = os.environ.get("EVERY") == "1"
WORD = re.compile(r"[$A-Za-z_][\w$.\[\]]*")
ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def share(cases, one_in):
    """The cases of the share, in their order; tests/run tells how many there are."""
    cases = list(cases)
    taken = cases if EVERY else list(_chosen(cases, one_in))
    if len(taken) < len(cases):
        _tell(len(taken), len(cases))
    return taken


def part(ordinary, every):
    """How much an ordinary run does of something that is no list of cases, and how much a full one does."""
    return every if EVERY else ordinary


def _chosen(cases, one_in):
    said = set()
    for case in cases:
        words = _words(case)
        text = ADDRESS.sub("", repr(case))
        if not words <= said or zlib.crc32(text.encode()) % one_in == 0:
            yield case
        said |= words


def _words(case):
    """What a case says. A text that is a member of its own, such as the name of a fault, is one word."""
    members = enumerate(case) if isinstance(case, (tuple, list)) else [(0, case)]
    words = set()
    for place, member in members:
        if isinstance(member, str):
            words.add((place, member))
        else:
            words.update((place, word) for word in WORD.findall(ADDRESS.sub("", repr(member))))
    return words


def _tell(taken, cases):
    """A line for tests/run; one write, as several tests run at a time."""
    file = pathlib.Path(sys._getframe(2).f_code.co_filename).name
    with open(build_folder() / "share.log", "a") as log:
        log.write(f"{file} {taken} {cases}\n")
