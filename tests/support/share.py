"""Which cases of a long list `tests/run` tries: a share of them, as it sets SHARE=1. `tests/run full` tries all, and so
does who runs a file by hand.

`pytest.mark.share(4)` marks a test, or a file by `pytestmark`: one in four of its cases is tried, and more of them
where it takes more to have each word that cases say: each value of a parameter, each operator, field and option. Which
ones is decided by a hash of what they say, and never by chance. Of a few cases none is left out. The sanitizers'
program is slow: it has a third of these cases.
"""

import os
import pathlib
import re
import sys
import zlib

from support.process import build_folder

SANITIZED = build_folder().name == "asan"
FEW = 2 if SANITIZED else 8
EVERY = os.environ.get("SHARE") != "1"
WORD = re.compile(r"[$A-Za-z_][\w$.\[\]]*")
ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def share(cases, one_in):
    """Of a loop's cases those of the share, in their order."""
    cases = list(cases)
    taken = cases if EVERY else _chosen(cases, one_in)
    _tell(pathlib.Path(sys._getframe(1).f_code.co_filename).name, len(taken), len(cases))
    return taken


def without(names, seldom):
    """Of names those that an ordinary run tries: all but `seldom`."""
    names = list(names)
    taken = [name for name in names if EVERY or name not in seldom]
    _tell(pathlib.Path(sys._getframe(1).f_code.co_filename).name, len(taken), len(names))
    return taken


def part(ordinary, every):
    """How much an ordinary run does of something that is no list of cases, and how much a full one does."""
    return every if EVERY else ordinary


def _chosen(cases, one_in):
    """A case is taken if its hash says so, or if it says something that no case with a lower hash says."""
    if len(cases) <= FEW:
        return cases
    one_in *= 3 if SANITIZED else 1
    hashes = [zlib.crc32(_text(case).encode()) for case in cases]
    taken, said = set(), set()
    for number in sorted(range(len(cases)), key=lambda number: (hashes[number] % one_in, hashes[number])):
        words = _words(cases[number])
        if not taken or hashes[number] % one_in == 0 or not words <= said:
            taken.add(number)
            said |= words
    return [case for number, case in enumerate(cases) if number in taken]


def _text(value):
    return ADDRESS.sub("", repr(value))


def _words(case):
    """What a case says. A text that is one member of several, such as the name of a fault, is one word: if it were the
    only one, each case would be the only one to say it."""
    words, members = set(), _members(case)
    for place, member in enumerate(members):
        if isinstance(member, (str, bool)):
            words.update([(place, member)] if len(members) > 1 else [])
        else:
            words.update((place, word) for word in WORD.findall(_text(member)))
    return words


def _members(case):
    return [each for member in case for each in _members(member)] if isinstance(case, tuple) else [case]


def _tell(file, taken, cases):
    """A line for tests/run; one write, as several tests run at a time."""
    if taken < cases:
        with open(build_folder() / "share.log", "a") as log:
            log.write(f"{file} {taken} {cases}\n")


class _Case(tuple):
    """What an item's parameters are, with the item."""


def pytest_configure(config):
    config.addinivalue_line("markers", "share(one_in): an ordinary run tries a share of the cases")


def pytest_collection_modifyitems(config, items):
    if EVERY:
        return
    tests = {}
    for item in items:
        mark = item.get_closest_marker("share")
        if mark and hasattr(item, "callspec"):
            case = _Case(item.callspec.params[name] for name in sorted(item.callspec.params))
            case.item = item
            tests.setdefault((item.path.name, item.function, mark.args[0]), []).append(case)
    left = set()
    for (file, _, one_in), cases in tests.items():
        taken = {case.item for case in _chosen(cases, one_in)}
        left.update(case.item for case in cases if case.item not in taken)
        _tell(file, len(taken), len(cases))
    if left:
        config.hook.pytest_deselected(items=[item for item in items if item in left])
        items[:] = [item for item in items if item not in left]
