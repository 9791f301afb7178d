"""The bugs that are planted to try the oracle fit the source."""

import pathlib

import pytest

from oracle.planted import BUGS

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
def test_where_a_bug_would_stand(bug):
    sources = (path.read_text() for path in (ROOT / bug.folder).rglob("*.[ch]"))
    assert sum(source.count(bug.old) for source in sources) == 1
