"""Batches that overlap: two Spillways with another `batch.size` each have stored the same elements, or an overflow
without its unique index.

The states are made by hand, as such Spillways leave them. They must be read right at once, grow on, and come to
rest."""

import contextlib
import itertools
import os
import threading

import pymongo
import pytest
from bson.binary import Binary

from support.operate import Operator, found
from support.process import wait_for
from support.spillway import Spillway
from support.verify import Keeping, check, verify

pytestmark = pytest.mark.share(9)
HEAD = 2


def rule(name, **options):
    overflow = {"layout": "batches", "link": "book", "array": "part", "collection": f"{name}_tails",
                **options.pop("overflow", {})}
    return {"name": name, "namespace": f"shop.{name}", "array": "list", "threshold": HEAD, "gc_delay": "0s",
            "sweep": "1h", **options, "overflow": overflow}


# Nothing moves under the first ones: their documents stay as they were made. The first sweep may meet an overflow whose
# document is not stored yet: it is garbage then, but an hour later.
STILL = {"settle": "1h", "quiet": "1h", "gc_delay": "1h"}
QUICK = {"settle": "10ms", "quiet": "10ms"}
SIZES = (3, 10)
ELEMENTS = {"layout": "elements", "link": "book"}


def rules(speed):
    batches = [rule(f"books{size}", **speed, overflow={"batch": {"size": size}}) for size in SIZES]
    each = rule("each", **speed, overflow=ELEMENTS)
    del each["overflow"]["array"]
    return [*batches, each]


BY_NAME = {each["name"]: each for each in rules(QUICK)}

# (number, position, end) of each batch, and n. Numbers that stand twice need that the unique index was dropped.
STATES = {
    "the last one ends before n": ([(1, 0, 10), (2, 3, 6)], 10),
    "the last one ends at n, another one behind it": ([(1, 0, 10), (2, 3, 6)], 6),
    "the last one ends behind n, another one behind it": ([(1, 0, 10), (2, 3, 8)], 6),
    "the last but one ends behind n": ([(1, 0, 3), (2, 3, 13), (3, 6, 8), (4, 8, 9)], 12),
    "two within one": ([(1, 0, 10), (2, 3, 6), (3, 6, 7), (4, 10, 12)], 12),
    "many within one": ([(1, 0, 90), *((2 + i, 3 + i, 4 + i) for i in range(70)), (72, 90, 93)], 93),
    "a number twice, the second shorter": ([(1, 0, 8), (1, 0, 3)], 8),
    "a number twice, the first shorter": ([(1, 0, 3), (1, 0, 8)], 8),
    "a number twice in the middle": ([(1, 0, 5), (2, 5, 7), (2, 5, 10), (3, 7, 9)], 10),
    "numbers that do not run with places": ([(1, 0, 4), (2, 4, 10), (3, 10, 12), (2, 4, 6), (3, 6, 8), (4, 8, 9)], 12),
    "all of them twice": ([(1 + i, 3 * i, 3 * i + 3) for i in range(4)] * 2, 12),
}
UNIQUE = [name for name, (batches, _) in STATES.items() if len({each[0] for each in batches}) == len(batches)]
WAITING = 5  # behind the head, and not moved yet


def number(position):
    """The element at a place of the overflow."""
    return {"k": position, "even": position % 2 == 0}


def make(shop, name, identifier, state, waiting=WAITING):
    """Stores a document in one of the states; returns the whole array."""
    batches, moved = STATES[state]
    last = max([moved, *(end for _, _, end in batches)])
    overflow = [number(position) for position in range(last + waiting)]
    head = [{"k": -2}, {"k": -1}]
    of = Binary(os.urandom(16))
    tails = shop[f"{name}_tails"]
    for each, first, end in batches:
        if name == "each":
            tails.insert_many([{"book": identifier, **number(place), "_spill": {"g": of, "p": place}}
                               for place in range(first, end)])
        else:
            tails.insert_one({"book": identifier, "part": overflow[first:end],
                              "_spill": {"g": of, "p": first, "i": each}})
    shop[name].insert_one({"_id": identifier, "list": head + overflow[moved:],
                           "_spill": {"list": {"g": of, "h": HEAD, "n": moved}}})
    return head + overflow


def empty(shop):
    for each in BY_NAME:
        shop[each].delete_many({})
        shop[f"{each}_tails"].delete_many({})


def drop_unique(shop, name):
    with contextlib.suppress(pymongo.errors.OperationFailure):
        shop[f"{name}_tails"].drop_indexes()


@pytest.fixture(scope="module")
def still(cluster):
    """A Spillway that moves nothing by itself."""
    with cluster.client() as client:
        client.drop_database("shop")
    with Spillway([cluster.primary], rules(STILL), name="still") as made:
        with pymongo.MongoClient("127.0.0.1", made.port, directConnection=True) as client:
            yield client.shop


@pytest.fixture
def shop(direct):
    empty(direct.shop)
    return direct.shop


CASES = [(f"books{size}", state) for size in SIZES for state in STATES] + [
    ("each", state) for state in STATES if state not in UNIQUE]


def case(shop, name, state, identifier="x"):
    if name == "each" or state not in UNIQUE:
        drop_unique(shop, name)
    return make(shop, name, identifier, state)


@pytest.fixture(params=CASES, ids=lambda given: " ".join(given))
def made(request, still, shop):
    """(the collection through Spillway, the array that is stored in one of the states)"""
    name, state = request.param
    whole = case(shop, name, state)
    yield still[name], whole
    assert shop[name].find_one({"_id": "x"})["_spill"], "it was moved: what was read was another state"


def test_find_returns_the_whole_array(made):
    books, whole = made
    assert books.find_one({"_id": "x"})["list"] == whole
    assert books.find_one({"list": number(1)})["list"] == whole


def test_filters_and_counts_look_into_the_whole_array(made):
    books, whole = made
    for element in whole:
        assert books.count_documents({"list": element}) == 1
        assert len(list(books.find({"list.k": element["k"]}))) == 1
    assert books.count_documents({"list": {"$size": len(whole)}}) == 1
    assert books.count_documents({"list": {"$elemMatch": {"k": len(whole), "even": True}}}) == 0
    assert books.count_documents({f"list.{len(whole) - 3}.k": whole[-3]["k"]}) == 1


def test_aggregates_see_each_element_once(made):
    books, whole = made
    numbers = [each["k"] for each in whole]
    assert [each["list"]["k"] for each in books.aggregate([{"$unwind": "$list"}])] == numbers
    assert sorted(books.distinct("list.k")) == numbers
    assert next(books.aggregate([{"$project": {"n": {"$size": "$list"}}}]))["n"] == len(whole)


def test_windows(made):
    books, whole = made
    bounds = range(0, len(whole), 1 if len(whole) < 30 else 13)
    for skip, count in itertools.product(bounds, (1, 4, len(whole))):
        window = {"list": {"$slice": [skip, count]}}
        assert books.find_one({"_id": "x"}, window)["list"] == whole[skip:skip + count]
        # By an aggregate: the stages cut it out.
        assert list(books.find({"list.k": -1}, window))[0]["list"] == whole[skip:skip + count]
    for count in (1, 7, len(whole)):
        assert books.find_one({"_id": "x"}, {"list": {"$slice": -count}})["list"] == whole[-count:]


@pytest.mark.parametrize("name", BY_NAME)
def test_edits_happen_on_the_whole_array(still, shop, name):
    books = still[name]
    for state in [state for each, state in CASES if each == name]:
        # The garbage of an edit is looked for by the _id: each state has one of its own.
        whole = case(shop, name, state, state)
        one = {"_id": state}
        assert books.update_one(one, {"$addToSet": {"list": whole[5]}}).modified_count == 0
        assert books.update_one({**one, "list": {"$ne": whole[6]}}, {"$push": {"list": whole[6]}}).matched_count == 0
        assert books.update_one(one, {"$pull": {"list": whole[4]}}).modified_count == 1
        del whole[4]
        assert books.update_one(one, {"$set": {"list.7.k": "new"}}).modified_count == 1
        whole[7] = {**whole[7], "k": "new"}
        assert books.find_one(one)["list"] == whole, state
        assert shop[name].find_one(one)["list"] == whole, state


def test_verify_reports_no_corruption(shop):
    for name, state in CASES:
        empty(shop)
        case(shop, name, state)
        keeping = Keeping(BY_NAME[name])
        assert not check(*keeping.read(shop.client), keeping)[0].corrupt, (name, state)


def rests(direct, of):
    """Whole, and as if nobody had ever overlapped."""
    return not verify(direct, of)


def start(cluster, *names):
    """A Spillway that moves at once."""
    return Spillway([cluster.primary], [BY_NAME[name] for name in names], name="quick")


def require_growth_and_rest(direct, spillway, name, arrays):
    """Documents come to rest as they are and after a push; `arrays` is what they hold, by `_id`."""
    more = ["more"] * 7
    with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
        books = client.shop[name]
        wait_for(lambda: rests(direct, BY_NAME[name]), "rest", pause=0.05)
        for identifier, whole in arrays.items():
            books.update_one({"_id": identifier}, {"$push": {"list": {"$each": more}}})
            assert books.find_one({"_id": identifier})["list"] == whole + more, identifier
            assert books.count_documents({"_id": identifier, "list": number(1)}) == 1
        wait_for(lambda: rests(direct, BY_NAME[name]), "rest", pause=0.05)
        for identifier, whole in arrays.items():
            assert books.find_one({"_id": identifier})["list"] == whole + more, identifier


@pytest.mark.parametrize("name", [f"books{size}" for size in SIZES])
def test_such_documents_grow_on_and_come_to_rest(cluster, direct, shop, name):
    drop_unique(shop, name)
    arrays = {state: make(shop, name, state, state) for state in UNIQUE}
    with start(cluster, name) as quick:
        require_growth_and_rest(direct, quick, name, arrays)


@pytest.mark.parametrize("name", BY_NAME)
def test_numbers_that_stand_twice_are_mended_and_the_index_comes_back(cluster, direct, shop, name):
    drop_unique(shop, name)
    arrays = {state: make(shop, name, state, state) for state in STATES}
    with start(cluster, name) as quick:
        require_growth_and_rest(direct, quick, name, arrays)
        wait_for(lambda: any(index.get("unique") for index in shop[f"{name}_tails"].index_information().values()),
                 "the unique index")


def repair(operator):
    """Batches first, then their garbage once it is a second old, then the index that numbers which stood twice kept
    from being made."""
    wait_for(lambda: not operator.run("verify", "--repair", "--execute")["findings"], "nothing to be left to repair",
             pause=0.3)
    operator.run("verify", code=0)


@pytest.mark.parametrize("name", BY_NAME)
def test_the_command_verify_tells_of_unfinished_work_and_does_it(cluster, direct, shop, name):
    drop_unique(shop, name)
    arrays = {state: make(shop, name, state, state) for state in STATES}
    with Operator(cluster, [BY_NAME[name]]) as operator:
        told = found(operator.run("verify", code=1))
        assert told["V7", "unfinished"] >= len(arrays)
        assert not [finding for finding in told if finding[1] == "corrupt"]
        repair(operator)
    mains, batches = Keeping(BY_NAME[name]).read(direct)
    findings, whole = check(mains, batches, Keeping(BY_NAME[name]))
    assert not findings
    assert sorted(map(len, whole.values())) == sorted(map(len, arrays.values()))


@pytest.mark.parametrize("name", BY_NAME)
def test_the_command_undo_brings_everything_back(cluster, direct, shop, name):
    drop_unique(shop, name)
    arrays = {state: make(shop, name, state, state) for state in STATES}
    with Operator(cluster, [BY_NAME[name]]) as operator:
        told = found(operator.run("undo", "--execute"))
        assert set(told) <= {("kept", "unfinished")}, "other than that another Spillway is connected"
    assert {each["_id"]: each["list"] for each in shop[name].find()} == arrays
    assert not any("_spill" in each for each in shop[name].find())


@contextlib.contextmanager
def killed_reads():
    """mongod kills a read whose index is dropped (175)."""
    try:
        yield
    except pymongo.errors.OperationFailure as failure:
        if failure.code != 175:
            raise


class Writer(threading.Thread):
    """Pushes [number, 0], [number, 1], ... in small groups, through one Spillway after the other."""

    def __init__(self, number, ports, count):
        super().__init__(daemon=True)
        self.number = number
        self.ports = ports
        self.count = count
        self.done = 0
        self.failure = None

    def run(self):
        try:
            with contextlib.ExitStack() as stack:
                clients = [stack.enter_context(pymongo.MongoClient("127.0.0.1", port, directConnection=True))
                           for port in self.ports]
                while self.done < self.count:
                    self._push(clients[self.done % len(clients)].shop.rolling)
        except Exception as failure:  # the test tells it
            self.failure = failure

    def _push(self, books):
        many = min(1 + self.done % 2, self.count - self.done)
        elements = [[self.number, self.done + i] for i in range(many)]
        books.update_one({"_id": self.number % 2}, {"$push": {"list": {"$each": elements}}}, upsert=True)
        self.done += many
        with killed_reads():  # else who reads meanwhile sees what was pushed before
            assert books.count_documents({"_id": self.number % 2, "list": [self.number, 0]}) == 1


def rolling(size):
    """A rule with this batch size."""
    return rule("rolling", **QUICK, overflow={"batch": {"size": size}})


@contextlib.contextmanager
def hung_inserts(direct):
    """Batches are stored when this ends, not before."""
    def hang(mode):
        direct.admin.command("configureFailPoint", "hangDuringBatchInsert", mode=mode,
                             data={"nss": "shop.rolling_tails"})
    hang("alwaysOn")
    try:
        yield
    finally:
        hang("off")


def hung(direct, count):
    operations = direct.admin.aggregate([{"$currentOp": {}}, {"$match": {"failpointMsg": "hangDuringBatchInsert"}}])
    return len(list(operations)) == count


def clients_of(stack, cluster, *sizes):
    """The collection through a Spillway for each of these batch sizes."""
    for size in sizes:
        spillway = stack.enter_context(Spillway([cluster.primary], [rolling(size)], name=f"size{size}"))
        client = stack.enter_context(pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True))
        yield client.shop.rolling


def generation_of(shop):
    return shop.rolling.find_one().get("_spill", {}).get("list", {}).get("g")


def rests_but_for_sizes(direct):
    """Batches may be full by either size."""
    keeping = Keeping(rolling(7))
    keeping.batch_least = 2
    return not check(*keeping.read(direct), keeping)[0]


def push(books, first, end):
    books.update_one({"_id": "x"}, {"$push": {"list": {"$each": list(range(first, end))}}})


@pytest.mark.parametrize("unique", [True, False], ids=["with its unique index", "without its unique index"])
def test_one_fills_a_batch_while_the_other_stores_the_next_one(cluster, direct, shop, unique):
    for name in ("rolling", "rolling_tails"):
        shop[name].drop()
    with contextlib.ExitStack() as stack:
        small, large = clients_of(stack, cluster, 2, 7)
        small.insert_one({"_id": "x", "list": list(range(HEAD + 2))})
        wait_for(lambda: rests(direct, rolling(2)), "rest")
        if not unique:
            shop.rolling_tails.drop_indexes()
        before = generation_of(shop)
        # The first batch is full for the one, and has room for the other.
        count = 8 if unique else 14  # there the other one stores a second batch, too
        with hung_inserts(direct):
            push(small, 4, 5)
            wait_for(lambda: hung(direct, 1), "the next batch")
            push(large, 5, count)
            if unique:
                wait_for(lambda: len(shop.rolling.find_one()["list"]) == HEAD, "the cut")
            else:
                wait_for(lambda: hung(direct, 2), "the next batch of the other")
        for books in (small, large):
            assert books.find_one({"list": 3})["list"] == list(range(count))
            assert books.count_documents({"list": {"$size": count}}) == 1
        # Whose cut came too late sees that the batches overlap: they are stored anew.
        wait_for(lambda: generation_of(shop) != before and rests_but_for_sizes(direct), "it to be stored anew")
        push(large, count, count + 9)
        for books in (small, large):
            assert books.find_one({"list": 3})["list"] == list(range(count + 9))
    with Operator(cluster, [rolling(7)]) as operator:
        repair(operator)


@pytest.mark.parametrize("unique", [True, False], ids=["with its unique index", "without its unique index"])
def test_a_rolling_change_of_the_batch_size(cluster, direct, shop, unique):
    for name in ("rolling", "rolling_tails"):
        shop[name].drop()
    count, parts = 240, 4
    with Spillway([cluster.primary], [rolling(2)],
                  name="old") as old, Spillway([cluster.primary], [rolling(7)], name="new") as new:
        writers = [Writer(number, [old.port, new.port], count) for number in range(4)]
        for writer in writers:
            writer.start()
        for part in range(1, parts + 1):
            goal = len(writers) * count * part // parts
            wait_for(lambda: sum(writer.done for writer in writers) >= goal
                     or any(writer.failure for writer in writers), "pushes")
            if not unique:
                drop_unique(shop, "rolling")
        for writer in writers:
            writer.join()
        assert [writer.failure for writer in writers] == [None] * len(writers)
    with Spillway([cluster.primary], [rolling(7)], name="last") as last, \
            pymongo.MongoClient("127.0.0.1", last.port, directConnection=True) as client:
        wait_for(lambda: all(len(each["list"]) == HEAD for each in shop.rolling.find()), "tails to move")
        for book in (0, 1):
            whole = client.shop.rolling.find_one({"_id": book})["list"]
            for number in (book, book + 2):
                assert [pushed for writer, pushed in whole if writer == number] == list(range(count))
            assert client.shop.rolling.count_documents({"_id": book, "list": {"$size": len(whole)}}) == 1
    with Operator(cluster, [rolling(7)]) as operator:
        assert not [finding for finding in found(operator.run("verify")) if finding[1] == "corrupt"]
        repair(operator)
