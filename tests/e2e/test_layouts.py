"""The published layouts, from the files in deploy/examples: what mongod holds at rest, field by field."""

import pathlib
import random
import subprocess

import pymongo
import pytest
from pymongo.errors import OperationFailure

from support.cluster import Cluster
from support.process import wait_for
from support.spillway import Spillway, program

EXAMPLES = pathlib.Path(__file__).parents[2] / "deploy" / "examples"
QUICK = "settle: 10ms\n    quiet: 10ms\n    gc_delay: 0s\n    sweep: 200ms\n    threshold:"
ARRAY, EXTRA = "customers_purchased", "customers_purchased_extra"
SEED = 6


class Layout:
    """What a text publishes; the example file must bring just this about."""

    def __init__(self, example, main, overflow, threshold, flag):
        self.file = EXAMPLES / f"{example}.yaml"
        self.main, self.overflow, self.threshold, self.flag = main, overflow, threshold, flag

    def stored(self, document):
        """(the main document, its overflow arrays) for a document as the application knows it."""
        whole = document.get(ARRAY)
        if not isinstance(whole, list) or len(whole) <= self.threshold:
            return document, []
        tail = whole[self.threshold:]
        batches = [tail[i:i + 1000] for i in range(0, len(tail), 1000)]
        return {**document, ARRAY: whole[:self.threshold], "has_extras": self.flag}, batches


MANUAL = Layout("manual", "sales", "extra_sales", 50, True)
LEGACY = Layout("legacy-books", "books", "book_extras", 1000, "true")


class Example(Spillway):
    """A Spillway with an example file: only addresses and times are other ones."""

    def __init__(self, server, layout):
        super().__init__([server])
        self.layout, self.server = layout, server

    def write_file(self):
        text = self.layout.file.read_text()
        for old, new in ((":27117", f":{self.port}"), (":27017", f":{self.server.port}"),
                         (":9117", f":{self.admin_port}"), ("threshold:", QUICK)):
            assert old in text
            text = text.replace(old, new)
        self.file.touch(mode=0o600)
        self.file.write_text(text)


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as made:
        yield made


@pytest.fixture(scope="module")
def direct(cluster):
    with cluster.client() as client:
        yield client.shop


@pytest.fixture(scope="module", params=[MANUAL, LEGACY], ids=lambda layout: layout.file.stem)
def example(request, cluster, direct):
    direct.client.drop_database("shop")  # what the other rule has spilled
    with Example(cluster.primary, request.param) as made:
        yield made


@pytest.fixture
def books(example, direct):
    """The collection through Spillway, empty."""
    with pymongo.MongoClient("127.0.0.1", example.port, directConnection=True) as client:
        main = client.shop[example.layout.main]
        main.delete_many({})
        wait_for(lambda: not direct[example.layout.overflow].count_documents({}), "the overflow to empty")
        yield main


def verify(example):
    """What `spillway verify` says must be that all is well."""
    rule = "book-sales" if example.layout is MANUAL else "legacy-books"
    ran = subprocess.run([program(), "verify", "--config", example.file, "--rule", rule],
                         capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def overflow_of(direct, layout, identifier):
    """The overflow arrays in order; each document must have the published fields and `_spill`, no others."""
    arrays, position = [], 0
    for number, batch in enumerate(direct[layout.overflow].find({"book_id": identifier}).sort("_spill.i"), 1):
        state = batch["_spill"]
        assert set(batch) == {"_id", "book_id", EXTRA, "_spill"}
        assert (set(state), state["i"], state["p"]) == ({"g", "p", "i"}, number, position)
        arrays.append(batch[EXTRA])
        position += len(batch[EXTRA])
    return arrays


def parts(direct, layout, identifier):
    """What stands in mongod of one document: (main without `_spill`, overflow arrays)."""
    main = direct[layout.main].find_one({"_id": identifier}) or {}
    arrays = [batch[EXTRA] for batch in direct[layout.overflow].find({"book_id": identifier}).sort("_spill.i")]
    main.pop("_spill", None)
    return main, arrays


def wait_for_layout(direct, layout, documents):
    for document in documents.values():
        wait_for(lambda: parts(direct, layout, document["_id"]) == layout.stored(document),
                 f"{document['_id']} of {len(document.get(ARRAY) or [])} to rest", 20, 0.02)


def check_stored(direct, layout, documents):
    """Every document in mongod is the model's, and there is no other."""
    wait_for_layout(direct, layout, documents)
    assert {each["_id"] for each in direct[layout.main].find({}, {"_id": 1})} == set(documents)
    wait_for(lambda: set(direct[layout.overflow].distinct("book_id")) <= set(documents), "the deleted ones' overflow to go")
    for document in documents.values():
        stored = direct[layout.main].find_one({"_id": document["_id"]})
        main, batches = layout.stored(document)
        state = stored.pop("_spill", None)
        assert stored == main
        assert overflow_of(direct, layout, document["_id"]) == batches
        assert (state is not None) == bool(batches)
        if state:
            assert list(state) == [ARRAY]
            assert (state[ARRAY]["h"], state[ARRAY]["n"]) == (layout.threshold, sum(map(len, batches)))


class History:
    """Random writes, done through Spillway and on the model of what one document would be."""

    def __init__(self, books, layout):
        self.random = random.Random(SEED)
        self.books, self.layout = books, layout
        self.documents, self.made, self.users = {}, 0, 0

    def customers(self, count):
        self.users += count
        return [f"user{i}" for i in range(self.users - count, self.users)]

    def some(self):
        """Few or many: on both sides of the threshold, sometimes more than one batch."""
        most = self.random.choice([3, self.layout.threshold, self.layout.threshold + 1, 2 * self.layout.threshold])
        return self.random.randint(1, most)

    def insert(self):
        self.made += 1
        document = {"_id": self.made, "title": f"book {self.made}", "year": 1972, ARRAY: self.customers(self.some())}
        self.books.insert_one(document)
        self.documents[self.made] = document

    def update(self, document, change):
        assert self.books.update_one({"_id": document["_id"]}, change).modified_count == 1

    def push(self, document):
        added = self.customers(self.some())
        self.update(document, {"$push": {ARRAY: {"$each": added}}})
        document[ARRAY] += added

    def push_in_front(self, document):
        added = self.customers(2)
        self.update(document, {"$push": {ARRAY: {"$each": added, "$position": 1}}})
        document[ARRAY][1:1] = added

    def edit(self, document):
        index, = self.random.sample(range(len(document[ARRAY])), 1)
        document[ARRAY][index], = self.customers(1)
        self.update(document, {"$set": {f"{ARRAY}.{index}": document[ARRAY][index], "year": index}})
        document["year"] = index

    def pull(self, document):
        gone = self.random.choice(document[ARRAY])
        self.update(document, {"$pull": {ARRAY: gone}})
        document[ARRAY].remove(gone)

    def pop(self, document):
        self.update(document, {"$pop": {ARRAY: 1}})
        document[ARRAY].pop()

    def keep(self, document):
        left = self.random.randint(1, len(document[ARRAY]))
        if left < len(document[ARRAY]):
            self.update(document, {"$push": {ARRAY: {"$each": [], "$slice": left}}})
            del document[ARRAY][left:]

    def replace(self, document):
        document.update({"title": "again", ARRAY: self.customers(self.some())})
        document.pop("year", None)
        assert self.books.replace_one({"_id": document["_id"]}, document).matched_count == 1
        document["year"] = 1
        self.update(document, {"$set": {"year": 1}})

    def delete(self, document):
        assert self.books.delete_one({"_id": document["_id"]}).deleted_count == 1
        del self.documents[document["_id"]]

    def step(self):
        able = [each for each in self.documents.values() if len(each[ARRAY]) > 1]
        if len(able) < 8:
            return self.insert()
        writes = [self.push_in_front, self.edit, self.edit, self.pull, self.pop, self.replace, self.keep, self.delete]
        if self.random.random() < 0.5:
            return self.push(self.random.choice(able))
        return self.random.choice(writes)(self.random.choice(able))


def test_random_histories(example, direct, books):
    history = History(books, example.layout)
    for _ in range(4):
        for _ in range(60):
            history.step()
        check_stored(direct, example.layout, history.documents)  # the next ones meet arrays at rest
        assert any(len(each[ARRAY]) > example.layout.threshold for each in history.documents.values())
        shown = {each["_id"]: each for each in books.find()}
        if example.layout is LEGACY:
            for each in shown.values():
                outlier = each.pop("has_extras", None)
                assert outlier == ("true" if len(each[ARRAY]) > LEGACY.threshold else None)
        assert shown == history.documents
        verify(example)


def test_the_files_are_good(example):
    ran = subprocess.run([program(), "check", "--config", example.layout.file], capture_output=True, text=True,
                         timeout=60, check=False)
    assert f"array: {EXTRA}" in ran.stdout, ran.stderr  # the file is good: the rules follow, with their defaults


def long_and_short(books, direct, layout):
    """One document at rest in two places, and an ordinary one."""
    whole = list(range(layout.threshold + 20))
    books.insert_many([{"_id": "long", ARRAY: whole}, {"_id": "short", ARRAY: [1]}])
    wait_for_layout(direct, layout, {"long": {"_id": "long", ARRAY: whole}})
    return whole


def test_queries_that_know_the_flag(example, direct, books):
    layout, knows = example.layout, {"has_extras": example.layout.flag}
    shown = knows if layout is LEGACY else {}
    whole = long_and_short(books, direct, layout)
    assert list(books.find(knows)) == [{"_id": "long", ARRAY: whole, **shown}]
    assert books.count_documents(knows) == 1
    assert [each["_id"] for each in books.find({"has_extras": {"$exists": False}})] == ["short"]
    assert not books.count_documents({"has_extras": "true" if layout is MANUAL else True})  # types are told apart
    assert books.update_one({"_id": "long", **knows}, {"$push": {ARRAY: "last"}}).modified_count == 1
    assert books.update_one({"_id": "short", **knows}, {"$push": {ARRAY: "last"}}).matched_count == 0
    wait_for_layout(direct, layout, {"long": {"_id": "long", ARRAY: [*whole, "last"]}})
    verify(example)


def test_writes_of_the_flag(example, direct, books):
    """Where it is shown, an application may set what stands there; where it is hidden, that is refused."""
    layout, mark = example.layout, {"$set": {"has_extras": example.layout.flag}}
    whole = long_and_short(books, direct, layout)
    if layout is MANUAL:
        with pytest.raises(OperationFailure) as refusal:
            books.update_one({"_id": "long"}, mark)
        assert refusal.value.code == 115
    else:
        assert books.update_one({"_id": "long"}, mark).modified_count == 0
        assert books.update_one({"_id": "long"}, {**mark, "$push": {ARRAY: "last"}}).modified_count == 1
        whole.append("last")
    wait_for_layout(direct, layout, {"long": {"_id": "long", ARRAY: whole}})
    assert books.find_one({"_id": "long"})[ARRAY] == whole
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
        fat = {"$set": {ARRAY: ["x" * 50] * 1200}}
        assert refused(lambda: around.update_one({"_id": "long"}, fat)).code == 121
        assert books.update_one({"_id": "long"}, {"$push": {ARRAY: "last"}}).modified_count == 1
        wait_for_layout(direct, layout, {"long": {"_id": "long", ARRAY: [*whole, "last"]}})
        assert refused(lambda: books.insert_one({"_id": "fat", ARRAY: ["x" * 50] * 1200})).code == 121
        fence(direct, layout, {"$expr": {"$lte": [{"$bsonSize": "$$ROOT"}, 400]}})  # no fold back gets through
        assert refused(lambda: books.update_one({"_id": "long"}, {"$set": {f"{ARRAY}.{len(whole)}": "edited"}})).code == 115
        verify(example)
        assert books.find_one({"_id": "long"})[ARRAY] == [*whole, "last"]
    finally:
        fence(direct, layout, {})


def test_a_fence_that_looks_at_the_array_is_unfit(example, direct, books):
    layout = example.layout
    long_and_short(books, direct, layout)
    fence(direct, layout, {"$expr": {"$lte": [{"$size": f"${ARRAY}"}, 5000]}})
    try:
        ran = subprocess.run([program(), "check", "--config", example.file], capture_output=True, text=True,
                             timeout=60, check=False)
        assert ran.returncode == 1 and f"its validator looks at '{ARRAY}'" in ran.stdout
    finally:
        fence(direct, layout, {})
