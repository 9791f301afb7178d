"""A share of the search for questions that mongod answers differently in another place.

A difference that is not on a module's list is one that nobody has handled yet.
`tests/oracle/search_places` asks everything, also of another mongod. An ordinary run's share may miss some of them.
"""

import pytest

from oracle import places
from support import share

SHARE = share.part(0.0015, every=0.01)


@pytest.fixture(scope="module")
def server():
    with places.Server() as running:
        yield running


@pytest.mark.parametrize("name", places.MODULES)
def test_the_differences_are_those_that_are_handled(server, name):
    module, found = places.module(name), places.Found()
    module.run(server, SHARE, found)
    new = {what: example for what, (_, example) in found.differences.items() if what not in module.KNOWN}
    assert not new
    # Else the list is wrong, or the share asks too little to find anything.
    missed = set(module.KNOWN) - set(found.differences) - set(getattr(module, "RARE", ()))
    assert len(missed) <= share.part(len(module.KNOWN) // 2, every=0), missed
    assert found.figures(), "nothing was asked"
