"""Overflow documents with links that no document can have as its `_id`: somebody wrote them by hand."""

import bson
import pytest
from bson import Regex
from bson.raw_bson import RawBSONDocument

from support.operate import RULE, found, generation
from support.process import wait_for
from support.spillway import Spillway

LINKS = {"an operator": {"$gt": 1}, "undefined": None, "a regular expression": Regex("a"), "an array": [1, 2]}


def undefined(document):
    """The document, with an undefined link in place of null."""
    return RawBSONDocument(bson.encode(document).replace(b"\x0abook\0", b"\x06book\0"))


def batch(link, number):
    return {"_id": f"{link} {number}", "book": link, "part": [number],
            "_spill": {"g": generation(9), "p": number, "i": number}}


def raw(shop):
    options = shop.codec_options.with_options(document_class=RawBSONDocument)
    return [bytes(each.raw) for each in shop.get_collection("tails", codec_options=options).find().sort("_id", 1)]


@pytest.mark.parametrize("name", LINKS)
def test_an_odd_link_keeps_nothing_else_from_work(cluster, operator, shop, name):
    """mongod refuses conditions with some of them."""
    shop.books.insert_one({"_id": "first", "list": list(range(15))})
    operator.run("migrate", "--execute", code=0)  # what tells whose the overflow is
    odd = [batch(LINKS[name], 1), batch(LINKS[name], 2)]
    del odd[1]["_spill"]
    shop.tails.insert_many(undefined(each) if name == "undefined" else each for each in odd)
    stored = [each for each in raw(shop) if b"first" not in each]
    shop.books.insert_one({"_id": "long", "list": list(range(15))})
    report = operator.run("migrate", "--execute", code=1)
    assert (report["documents"], found(report)) == (1, {("no document", "unfinished"): 1})

    shop.tails.insert_one(batch("nobody", 3))
    for options, garbage in ([], 2), (["--repair", "--execute"], 1):
        report = operator.run("verify", *options, code=1)
        assert found(report) == {("V3", "garbage"): garbage, ("foreign", "left as it is"): 1}
    shop.tails.insert_one(batch("nobody", 3))
    with Spillway([cluster.primary], [{**RULE, "sweep": "1s"}]):
        wait_for(lambda: shop.tails.count_documents({"book": "nobody"}) == 0, "the sweep to find garbage")

    report = operator.run("undo", "--execute", code=1)
    assert (report["documents"], found(report)) == (2, {("foreign", "unfinished"): 1})
    assert raw(shop) == stored
    assert list(shop.books.find()) == [{"_id": each, "list": list(range(15))} for each in ("first", "long")]
