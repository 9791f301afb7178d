"""Documents of one collection whose `_id`s have several types: what asks the overflow of one of them meets the
others' links."""

import pytest
from bson import Binary

from support import exact
from support.twins import twins

IDS = ("text", "", 7, Binary(b"id", 0), None, {"e": 1})


@pytest.mark.parametrize("identifier", IDS, ids=str)
def test_each_document_is_edited_among_others(identifier):
    with twins(("rest2",)) as books:
        for arm in books.arms:  # by it, mongod finds the value in all documents' batches
            arm.call({"createIndexes": "books", "indexes": [{"key": {"list": 1}, "name": "list"}]})
        books.fill([{"_id": each, "list": [1, "a", *range(place * 10, place * 10 + 9)]}
                    for place, each in enumerate(IDS)])
        for update in (*({"$addToSet": {"list": place * 10 + 4}} for place in range(len(IDS))), {"$pull": {"list": 4}}):
            books.settle()
            command = {"update": "books", "updates": [{"q": {"_id": identifier}, "u": update}]}
            books.same(command, {arm.name: exact.show_document(arm.call(command)) for arm in books.arms})
        books.same("documents", {arm.name: arm.documents() for arm in books.arms})
