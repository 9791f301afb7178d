"""The published layouts, from the files in deploy/examples: what mongod holds at rest, field by field."""

import random
import subprocess

import pymongo
import pytest
from pymongo.errors import OperationFailure

from support.layouts import COMMENTS, FOLLOWERS, LEGACY, MANUAL, Example, check_stored, verify, wait_for_layout
from support.process import wait_for
from support.spillway import program

SEED = 6
HIDDEN = (MANUAL, COMMENTS)  # their flags are


@pytest.fixture(scope="module")
def client(cluster):
    with cluster.client() as made:
        yield made


@pytest.fixture(scope="module", params=[MANUAL, LEGACY, FOLLOWERS, COMMENTS], ids=lambda layout: layout.file.stem)
def example(request, cluster, client):
    for database in ("shop", "social", "blog"):  # what the other rule has spilled
        client.drop_database(database)
    with Example(cluster.primary, request.param) as made:
        yield made


@pytest.fixture
def direct(example, client):
    """The database as mongod has it."""
    return client[example.layout.database]


@pytest.fixture
def books(example, direct):
    """The collection through Spillway, empty."""
    layout = example.layout
    with pymongo.MongoClient("127.0.0.1", example.port, directConnection=True) as through:
        main = through[layout.database][layout.main]
        main.delete_many({})
        wait_for(lambda: not direct[layout.overflow].count_documents({}), "the overflow to empty")
        yield main


class History:
    """Random writes, done through Spillway and on the model of what one document would be."""

    def __init__(self, books, layout):
        self.random = random.Random(SEED)
        self.books, self.layout, self.array = books, layout, layout.array
        self.documents, self.made, self.users = {}, 0, 0

    def customers(self, count):
        self.users += count
        return [self.layout.item(i) for i in range(self.users - count, self.users)]

    def some(self):
        """Few or many: on both sides of the threshold, sometimes more than one batch."""
        most = self.random.choice([3, self.layout.threshold, self.layout.threshold + 1, 2 * self.layout.threshold])
        return self.random.randint(1, most)

    def insert(self):
        self.made += 1
        customers = self.customers(self.some())
        document = {"_id": self.made, "title": f"book {self.made}", "year": 1972, self.array: customers,
                    **self.layout.fresh_fields(self.random, len(customers))}
        self.books.insert_one(document)
        self.documents[self.made] = document

    def update(self, document, change):
        assert self.books.update_one({"_id": document["_id"]}, change).modified_count == 1

    def push(self, document):
        added = self.customers(self.some())
        self.update(document, {"$push": {self.array: {"$each": added}}})
        document[self.array] += added

    def push_in_front(self, document):
        added = self.customers(2)
        self.update(document, {"$push": {self.array: {"$each": added, "$position": 1}}})
        document[self.array][1:1] = added

    def edit(self, document):
        index, = self.random.sample(range(len(document[self.array])), 1)
        document[self.array][index], = self.customers(1)
        self.update(document, {"$set": {f"{self.array}.{index}": document[self.array][index], "year": index}})
        document["year"] = index

    def pull(self, document):
        gone = self.random.choice(document[self.array])
        self.update(document, {"$pull": {self.array: gone}})
        document[self.array].remove(gone)

    def pop(self, document):
        self.update(document, {"$pop": {self.array: 1}})
        document[self.array].pop()

    def keep(self, document):
        left = self.random.randint(1, len(document[self.array]))
        if left < len(document[self.array]):
            self.update(document, {"$push": {self.array: {"$each": [], "$slice": left}}})
            del document[self.array][left:]

    def replace(self, document):
        customers = self.customers(self.some())
        kept = {"_id": document["_id"], "title": "again", self.array: customers}
        document.clear()
        document.update({**kept, **self.layout.fresh_fields(self.random, len(customers))})
        assert self.books.replace_one({"_id": document["_id"]}, document).matched_count == 1
        document["year"] = 1
        self.update(document, {"$set": {"year": 1}})

    def set_whole(self, document):
        document[self.array] = self.customers(self.random.choice([1, self.some()]))
        self.update(document, {"$set": {self.array: document[self.array]}})

    def delete(self, document):
        assert self.books.delete_one({"_id": document["_id"]}).deleted_count == 1
        del self.documents[document["_id"]]

    def step(self):
        able = [each for each in self.documents.values() if len(each[self.array]) > 1]
        if len(able) < 8:
            return self.insert()
        writes = [self.push_in_front, self.edit, self.edit, self.pull, self.pop, self.replace, self.keep,
                  self.set_whole,
                  self.delete]
        if self.random.random() < 0.5:
            return self.push(self.random.choice(able))
        return self.random.choice(writes)(self.random.choice(able))


def test_random_histories(example, direct, books):
    history = History(books, example.layout)
    for _ in range(example.layout.rounds):
        for _ in range(60):
            history.step()
        check_stored(direct, example.layout, history.documents)  # the next ones meet arrays at rest
        assert any(len(each[history.array]) > example.layout.threshold for each in history.documents.values())
        shown = {each["_id"]: each for each in books.find()}
        assert shown == {key: example.layout.shown(each) for key, each in history.documents.items()}
        verify(example)


def test_the_files_are_good(example):
    ran = subprocess.run([program(), "check", "--config", example.layout.file], capture_output=True, text=True,
                         timeout=60, check=False)
    # the file is good: the rules follow, with their defaults
    assert f"collection: {example.layout.overflow}" in ran.stdout, ran.stderr


def long_and_short(books, direct, layout):
    """One document at rest in two places, and an ordinary one."""
    whole = list(range(layout.threshold + 20))
    books.insert_many([{"_id": "long", layout.array: whole}, {"_id": "short", layout.array: [1]}])
    wait_for_layout(direct, layout, {"long": {"_id": "long", layout.array: whole}})
    return whole


def test_queries_that_know_the_flag(example, direct, books):
    """Where it is shown they find by it; where it is hidden, no document has one."""
    layout, knows = example.layout, example.layout.flag
    flag, = knows
    whole = long_and_short(books, direct, layout)
    if layout in HIDDEN:
        assert books.count_documents(knows) == 0
        assert books.count_documents({flag: {"$exists": False}}) == 2
        assert books.count_documents({flag: {"$nin": list(knows.values())}}) == 2
        assert books.update_one({"_id": "long", flag: {"$ne": True}},
                                {"$push": {layout.array: "last"}}).modified_count == 1
        wait_for_layout(direct, layout, {"long": {"_id": "long", layout.array: [*whole, "last"]}})
        verify(example)
        return
    assert list(books.find(knows)) == [layout.shown({"_id": "long", layout.array: whole})]
    assert books.count_documents(knows) == 1
    assert [each["_id"] for each in books.find({flag: {"$exists": False}})] == ["short"]
    assert not books.count_documents({flag: True if layout is LEGACY else "true"})  # types are told apart
    assert books.update_one({"_id": "long", **knows}, {"$push": {layout.array: "last"}}).modified_count == 1
    assert books.update_one({"_id": "short", **knows}, {"$push": {layout.array: "last"}}).matched_count == 0
    wait_for_layout(direct, layout, {"long": {"_id": "long", layout.array: [*whole, "last"]}})
    verify(example)


def test_edits_that_know_the_flag(example, direct, books):
    """The array goes back for them, and the flag with it: what they say of it counts before."""
    layout, knows = example.layout, example.layout.flag
    if layout in HIDDEN:
        knows = {name: {"$ne": value} for name, value in knows.items()}
    whole = long_and_short(books, direct, layout)
    assert books.update_one({"_id": "long", **knows}, {"$pull": {layout.array: whole[-1]}}).modified_count == 1
    wait_for_layout(direct, layout, {"long": {"_id": "long", layout.array: whole[:-1]}})
    assert books.update_many({"$and": [knows, {"_id": "long"}]},
                             {"$set": {f"{layout.array}.1": "one"}}).modified_count == 1
    wait_for_layout(direct, layout, {"long": {"_id": "long", layout.array: [0, "one", *whole[2:-1]]}})
    assert books.update_one({"_id": "short", **knows}, {"$pull": {layout.array: 1}}).matched_count == (layout in HIDDEN)
    assert refused(lambda: books.update_one({"$or": [knows]}, {"$pop": {layout.array: 1}})).code == 115
    assert books.find_one_and_update({**knows, "_id": "long"}, {"$pop": {layout.array: 1}},
                                     {layout.array: {"$slice": -1}},
                                     return_document=True)[layout.array] == whole[-3:-2]
    wait_for_layout(direct, layout, {"long": {"_id": "long", layout.array: [0, "one", *whole[2:-2]]}})
    verify(example)


def test_writes_of_the_flag(example, direct, books):
    """Where it is shown, an application may set what stands there; where it is hidden, that is refused."""
    layout, mark = example.layout, {"$set": example.layout.flag}
    whole = long_and_short(books, direct, layout)
    if layout in HIDDEN:
        with pytest.raises(OperationFailure) as refusal:
            books.update_one({"_id": "long"}, mark)
        assert refusal.value.code == 115
    else:
        assert books.update_one({"_id": "long"}, mark).modified_count == 0
        assert books.update_one({"_id": "long"}, {**mark, "$push": {layout.array: "last"}}).modified_count == 1
        whole.append("last")
    wait_for_layout(direct, layout, {"long": {"_id": "long", layout.array: whole}})
    assert books.find_one({"_id": "long"})[layout.array] == whole
    verify(example)


def fence(direct, layout, validator):
    direct.command("collMod", layout.main, validator=validator)


def refused(write):
    with pytest.raises(OperationFailure) as refusal:
        write()
    return refusal.value


def test_a_fence_by_size(example, direct, books):
    """A validator on the whole document's size stops whole arrays that are written around Spillway."""
    layout = example.layout
    whole = long_and_short(books, direct, layout)
    fence(direct, layout, {"$expr": {"$lte": [{"$bsonSize": "$$ROOT"}, 40000]}})
    try:
        around = direct[layout.main]
        fat = {"$set": {layout.array: ["x" * 50] * 1200}}
        assert refused(lambda: around.update_one({"_id": "long"}, fat)).code == 121
        assert books.update_one({"_id": "long"}, {"$push": {layout.array: "last"}}).modified_count == 1
        wait_for_layout(direct, layout, {"long": {"_id": "long", layout.array: [*whole, "last"]}})
        assert refused(lambda: books.insert_one({"_id": "fat", layout.array: ["x" * 50] * 1200})).code == 121
        fence(direct, layout, {"$expr": {"$lte": [{"$bsonSize": "$$ROOT"}, 400]}})  # no fold back gets through
        assert refused(lambda: books.update_one({"_id": "long"},
                                                {"$set": {f"{layout.array}.{len(whole)}": "edited"}})).code == 115
        verify(example)
        assert books.find_one({"_id": "long"})[layout.array] == [*whole, "last"]
    finally:
        fence(direct, layout, {})


def test_a_fence_that_looks_at_the_array_is_unfit(example, direct, books):
    layout = example.layout
    long_and_short(books, direct, layout)
    fence(direct, layout, {"$expr": {"$lte": [{"$size": f"${layout.array}"}, 5000]}})
    try:
        ran = subprocess.run([program(), "check", "--config", example.file], capture_output=True, text=True,
                             timeout=60, check=False)
        assert ran.returncode == 1 and f"its validator looks at '{layout.array}'" in ran.stdout
    finally:
        fence(direct, layout, {})
