"""Random edits in place in a client's transaction, beside the same on mongod: replies, what is read inside, and what
is there afterwards are equal. `fold_limit` is so low that no array is ever folded back."""

import threading
from uuid import uuid4

import pytest
from bson.binary import Binary
from pymongo.errors import OperationFailure
from test_place_random import RULES, SEED, Draw, begin, store_batches, timeless

from support.editions import array_of, empty
from support.operate import spill
from support.share import part

TRANSACTIONS = part(150, 2000)
__all__ = ["RULES"]


@pytest.fixture
def shop(direct):
    return empty(direct, "model")


class Side:
    """A collection with a session that has a transaction."""

    def __init__(self, collection):
        self.collection = collection
        self.session = collection.database.client.start_session()

    def __enter__(self):
        self.session.start_transaction()
        return self

    def __exit__(self, *_):
        if self.session.in_transaction:
            self.session.abort_transaction()
        self.session.end_session()

    def edit(self, filter, update, filters, images):
        try:
            if images:
                return timeless(self.collection.find_one_and_update(
                    {"_id": "one", **filter}, update, {"outlier": 0}, array_filters=filters,
                    return_document=images == "after", session=self.session))
            done = self.collection.update_one({"_id": "one", **filter}, update, array_filters=filters,
                                              session=self.session)
            return done.matched_count, done.modified_count
        except OperationFailure as error:
            return error.code

    def array(self):
        return timeless(self.collection.find_one({"_id": "one"}, {"outlier": 0}, session=self.session).get("list"))

    def outside(self):
        return timeless(self.collection.find_one({"_id": "one"}, {"outlier": 0}).get("list"))

    def end(self, commits):
        try:
            (self.session.commit_transaction if commits else self.session.abort_transaction)()
            return 0
        except OperationFailure as error:
            return error.code


def transact(shop, books, draw):
    """A transaction of a few edits; how many were refused, and how many changed something."""
    changed = 0
    with Side(shop.model) as model, Side(books) as spilled:
        before = model.outside()
        for _ in range(draw.one(1, 1, 2, 3)):
            edit = *draw.update(), draw.one(False, False, False, "before", "after")
            expected, told = model.edit(*edit), spilled.edit(*edit)
            if told == 10334 and expected != 10334:
                return 1, 0
            assert told == expected, (edit, before)
            if not isinstance(expected, int):
                assert spilled.array() == model.array(), (edit, before)
            assert spilled.outside() == before, edit
            changed += expected == (1, 1)
        commits = draw.one(True, True, False)
        assert spilled.end(commits) == model.end(commits)
        after = model.outside()
        assert spilled.outside() == after and timeless(array_of(shop, "one")) == after
    return 0, changed if commits else 0


def test_random_edits_are_those_of_mongod(shop, client):
    draw, refused, changed = Draw(SEED + 1), 0, 0
    for number in range(TRANSACTIONS):
        if number % 4 == 0 or refused and not shop.model.find_one():
            begin(shop, draw)
        no, yes = transact(shop, client.shop.books, draw)
        refused, changed = refused + no, changed + yes
    assert refused < TRANSACTIONS / 4 and changed > TRANSACTIONS / 5, (refused, changed)


@pytest.mark.parametrize("overlap", [0, 3])
def test_what_changes_nothing_leaves_nothing(shop, client, overlap):
    """Not a byte of the document, and no overflow: copies and marks have gone within the transaction."""
    array = list(range(27))
    spill(shop, "one", array, state={"g": Binary(uuid4().bytes)})
    store_batches(shop, array[3:], overlap)
    books = client.shop.books
    books.update_one({"_id": "one"}, {"$inc": {"list.$[x]": 100}}, array_filters=[{"x": {"$in": [1, 12, 26]}}])

    def stored():
        return shop.books.find_one({"_id": "one"}), list(shop.tails.find().sort("_id", 1))
    before = stored()
    for filter, update, filters in (
            ({}, {"$pull": {"list": 500}}, None), ({"list": 112}, {"$set": {"list.$": 112}}, None),
            ({}, {"$min": {"list.$[]": 5000}}, None), ({"list": 555}, {"$pop": {"list": 1}}, None),
            ({}, {"$set": {"list.$[x]": 13}}, [{"x": 13}]), ({"list": 555}, {"$set": {"list.$": 1}}, None)):
        with books.database.client.start_session() as session, session.start_transaction():
            done = books.update_one({"_id": "one", **filter}, update, array_filters=filters, session=session)
            assert (done.matched_count, done.modified_count) == (filter.get("list") != 555, 0), update
        assert stored() == before, update


def test_two_at_once(shop, client):
    """Each is run again until it got through, as drivers do; each element was counted up as often as told."""
    array = [{"id": each, "val": 0} for each in range(27)]
    spill(shop, "one", array, state={"g": Binary(uuid4().bytes)})
    failures, rounds = [], part(15, 100)

    def work(which):
        def edit(session):
            for each in (which, 26 - which, 13):
                done = books.update_one({"_id": "one", "list.id": each}, {"$inc": {"list.$.val": 1}}, session=session)
                assert done.modified_count == 1
        try:
            books = client.shop.books
            for _ in range(rounds):
                with client.start_session() as session:
                    session.with_transaction(edit)
        except BaseException as failure:  # pytest sees it in the main thread
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(which,)) for which in (3, 4, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    expected = dict.fromkeys(range(27), 0)
    for which in (3, 4, 5):
        for each in (which, 26 - which, 13):
            expected[each] += rounds
    assert {each["id"]: each["val"] for each in client.shop.books.find_one({"_id": "one"})["list"]} == expected
