"""An edit that is sent again while its first attempt is still under way: both are answered as if there had been one.

A driver that loses its connection sends the command again at once, by another connection and perhaps another
Spillway, and nobody has stopped the first. mongod lets the two in one after the other and answers the second from
the session's history. Here the attempt that goes through the shim stands still before its first command, its second,
and so on, until the other is through.
"""

import itertools

import pytest

from e2e.test_edit_cuts import EDITS, new_session, place, told, update  # noqa: F401 (place is a fixture)
from support.wire import Connection

pytestmark = pytest.mark.share(2)
# Not a removal: the image that a retry is given needs the overflow, which these rules keep for no time (gc_delay).
MORE = {
    "replace one": update({"$set": {"list.$": "other"}}, {"list": 5}),
    "guarded findAndModify": {"findAndModify": "@", "query": {"_id": "#", "list": {"$ne": "last"}},
                              "update": {"$push": {"list": "last"}}, "new": True},
    "findAndModify by the array": {"findAndModify": "@", "query": {"list": 5}, "update": {"$pull": {"list": 5}}},
}
ALL = {**EDITS, **MORE}

@pytest.mark.parametrize("name", ALL)
def test_both_attempts_are_answered_alike(place, name):  # noqa: F811
    for number in itertools.count(1):
        place.fill()
        expected = told(place.call(place.direct, ALL[name], "plain", new_session()))
        after = place.documents(place.direct, "plain")
        session, others = new_session(), []

        def overtaken(request):
            if request.number == number:
                others.append(place.call(place.other, ALL[name], session=session))

        place.shim.restart(overtaken)
        with Connection(place.cut.port) as connection:
            reply = place.call(connection, ALL[name], session=session)
        place.shim.restart()
        if not others:
            assert number > 1
            return
        assert told(others[0]) == expected
        assert told(reply) == expected, f"overtaken before its command {number}"
        assert place.documents(place.other, "books") == after
