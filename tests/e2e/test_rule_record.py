"""spillway.rules: serve does not start where documents are spilled under a rule that is gone, or has another layout."""

import contextlib
import hashlib
import json
import subprocess

import bson
import pymongo
import pytest

from support.cluster import Cluster
from support.operate import RULE, Operator, generation
from support.process import wait_for
from support.spillway import Spillway, program

EAGER = {**RULE, "settle": "10ms", "existing": "move"}
OTHER = {**EAGER, "name": "others", "namespace": "shop.others", "overflow": {**RULE["overflow"], "collection": "more"}}
ANOTHER_PART = {**EAGER, "overflow": {**RULE["overflow"], "array": "another"}}

SHOWN = {**EAGER, "counters": {"total": "total", "documents": "parts"}, "expose": ["flag", "counters"]}
SINGLE = {**SHOWN, "overflow": {"collection": "tails", "link": "book", "layout": "elements"}}


@pytest.fixture(scope="module")
def cluster():
    with Cluster(durable=False, options=["--setParameter", "enableTestCommands=1"]) as made:
        yield made


@pytest.fixture
def shop(cluster, shop):
    """One document that a Spillway has moved."""
    shop.books.insert_one({"_id": 1, "list": list(range(9))})
    with Spillway([cluster.primary], [EAGER]):
        wait_for(lambda: "outlier" in shop.books.find_one({"_id": 1}), "a move")
    return shop


def refusal(cluster, rules):
    spillway = Spillway([cluster.primary], rules)
    try:
        return spillway.refuses_to_start()
    finally:
        spillway.__exit__()


def starts(cluster, rules):
    with Spillway([cluster.primary], rules):
        pass


def hash_of(record):
    """What the record's hash covers: how documents are stored, in the record's own bytes."""
    resolved = record["resolved"]
    covered = {name: record[name] for name in ("layout", "limits")}
    covered |= {name: resolved[name] for name in ("flag", "counters", "reference") if name in resolved}
    covered |= {name: resolved["overflow"][name] for name in ("created",) if name in resolved["overflow"]}
    return hashlib.sha256(bson.encode(covered)).hexdigest()


def test_what_is_recorded(shop):
    record = shop.client.spillway.rules.find_one()
    (books,) = shop.list_collections(filter={"name": "books"})
    (tails,) = shop.list_collections(filter={"name": "tails"})
    assert record.pop("uuid") == books["info"]["uuid"]
    assert record.pop("overflow_uuid") == tails["info"]["uuid"]
    assert record == {
        "_id": {"namespace": "shop.books", "array": "list"}, "format": 1, "rule": "books",
        "layout": {"overflow": "shop.tails", "kind": "batches", "link": "book", "array": "part", "flag": "outlier"},
        "limits": {"threshold": 3, "max_bytes": 1024**2, "when_outlier": "keep", "size": 4, "batch_bytes": 256 * 1024},
        "resolved": {
            "name": "books", "namespace": "shop.books", "array": "list", "threshold": 3, "max_bytes": 1024**2,
            "fold_limit": 16 * 1024**2, "when_outlier": "keep", "settle": "10ms", "gather": 100, "quiet": "1s",
            "gc_delay": "0s", "sweep": "1h",
            "existing": "move", "access": "full", "change_streams": "exact", "damaged": "fail",
            "flag": {"field": "outlier", "value": True, "otherwise": "absent"}, "expose": [],
            "overflow": {"collection": "tails", "layout": "batches", "link": "book", "array": "part",
                         "batch": {"size": 4, "max_bytes": 256 * 1024}, "listed": "false"}},
        "hash": hash_of(record)}
    asked = shop.client.spillway.rules.find({"layout.overflow": "shop.tails"}).explain()
    assert asked["queryPlanner"]["winningPlan"]["inputStage"]["stage"] == "IXSCAN", "each namespace asks so"


FULL = {**EAGER, "counters": {"total": "total", "documents": "parts", "owner": "app"}, "expose": ["flag", "counters"],
        "flag": {"field": "outlier", "value": "true", "otherwise": None},
        "reference": {"field": "more", "format": "of {_id}"},
        "overflow": {**RULE["overflow"], "created": "at", "batch": {"field": "number", "size": 4},
                     "indexes": [{"keys": {"part.x": 1, "at": -1}}, {"keys": {"part": "text"}}]}}


def test_all_of_a_rule_is_recorded_as_it_is_shown(cluster, shop):
    """Whatever changes is written anew, and the hash tells what documents are stored by."""
    records = shop.client.spillway.rules
    shop.tails.drop()
    shop.books.drop()
    hashes = []
    for rule in (FULL, {**FULL, "settle": "20ms", "name": "called-otherwise"}, {**FULL, "threshold": 4},
                 {**FULL, "flag": {**FULL["flag"], "value": True}}, FULL):
        with Spillway([cluster.primary], [rule]) as spillway:
            shown = json.loads(spillway.admin("/rules")[1])["rules"][0]
        record = records.find_one()
        shown.pop("namespaces")
        assert shown.pop("paused") is False
        assert record["resolved"] == shown and record["rule"] == rule["name"]
        assert record["hash"] == hash_of(record)
        hashes.append(record["hash"])
    assert records.count_documents({}) == 1
    assert hashes[0] == hashes[1] == hashes[4] and len(set(hashes)) == 3
    assert shown["counters"] == FULL["counters"] and shown["reference"] == FULL["reference"]
    assert shown["overflow"]["indexes"] == FULL["overflow"]["indexes"]


def test_a_record_of_the_last_release(cluster, shop):
    """It has no resolved rule and no hash. Documents are known to be spilled under it all the same."""
    records = shop.client.spillway.rules
    before = records.find_one()
    records.update_one({}, {"$unset": {"resolved": "", "hash": ""},
                            "$set": {"checkpoint": {"from": 1, "limits": before["limits"]}}})
    old = records.find_one()
    assert "which is gone" in refusal(cluster, [OTHER]) and "another layout" in refusal(cluster, [ANOTHER_PART])
    starts(cluster, [{**EAGER, "access": "read-only"}])
    assert records.find_one() == old
    with Operator(cluster, [EAGER]) as operator:
        operator.run("verify", code=0)
        operator.run("migrate", code=0)
        assert records.find_one() == old, "none of these writes"
        operator.run("migrate", "--execute", "--resume", code=0)
    assert records.find_one() == before
    records.replace_one({}, old)
    starts(cluster, [EAGER])
    assert records.find_one() == {**before, "checkpoint": old["checkpoint"]}
    # And one that such a release has written limits into.
    records.update_one({}, {"$set": {"limits.threshold": 2}})
    starts(cluster, [{**EAGER, "threshold": 2}])
    assert records.find_one()["resolved"]["threshold"] == 2


NEWER = "what it has moved is recorded in format 2, and Spillway 0.1.0 knows none above 1: a newer Spillway has written"


def test_a_record_in_a_newer_format_is_refused_by_all_and_stays(cluster, shop):
    records = shop.client.spillway.rules
    records.update_one({}, {"$set": {"format": 2}})
    stored = [records.find_one(), *shop.books.find(), *shop.tails.find()]
    assert NEWER in refusal(cluster, [EAGER])
    assert NEWER in refusal(cluster, [{**EAGER, "access": "read-only"}])
    assert "no rule of the file is on the array 'list' of 'shop.books', which is recorded in format 2" in refusal(
        cluster, [OTHER])
    with Operator(cluster, [EAGER]) as operator:
        for command in ("migrate", "undo"):
            report = operator.run(command, "--execute", code=1)
            assert NEWER in report["findings"][0]["examples"][0]["detail"]
        assert operator.run("verify", "--repair", "--execute", code=1)
    assert [records.find_one(), *shop.books.find(), *shop.tails.find()] == stored
    records.update_one({}, {"$unset": {"format": ""}})  # the very first records: all had the format 1
    starts(cluster, [EAGER])


def test_a_newer_format_is_refused_while_an_older_spillway_serves(cluster, shop):
    """The array's namespace is judged again: here since it is dropped."""
    with Spillway([cluster.primary], [{**EAGER, "sweep": "50ms"}]) as spillway:
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as through:
            shop.client.spillway.rules.update_one({}, {"$set": {"format": 2}})
            through.shop.books.drop()
            through.shop.books.insert_one({"_id": 2, "list": [0]})
            spillway.says(NEWER)
            with pytest.raises(pymongo.errors.OperationFailure, match="recorded in format 2"):
                through.shop.books.update_one({"_id": 2}, {"$push": {"list": 1}})
    assert shop.client.spillway.rules.find_one()["format"] == 2
    assert shop.books.find_one() == {"_id": 2, "list": [0]}


def test_what_streams_show_may_change_while_documents_are_split(cluster, shop):
    """Also from a record of a release that did not know the key."""
    records = shop.client.spillway.rules
    exact = records.find_one()
    records.update_one({}, {"$unset": {"resolved.change_streams": ""}})
    starts(cluster, [EAGER])
    assert records.find_one() == exact
    records.update_one({}, {"$unset": {"resolved.change_streams": ""}})
    for word in ("as_stored", "refuse", "exact"):
        starts(cluster, [{**EAGER, "change_streams": word}])
        record = records.find_one()
        assert record["resolved"].pop("change_streams") == word and record["hash"] == exact["hash"]
    assert records.find_one() == exact


def test_a_rule_that_is_gone(cluster, shop):
    said = refusal(cluster, [OTHER])
    assert "array 'list' of 'shop.books' was spilled under rule 'books', which is gone" in said
    edited = {**OTHER, "name": "books", "array": "items"}
    assert "is gone (the file's rule 'books' is on the array 'items' of 'shop.others'): clients" in refusal(cluster,
                                                                                                            [edited])
    starts(cluster, [OTHER, {**EAGER, "name": "called-otherwise"}])
    with Operator(cluster) as operator:
        operator.run("undo", "--execute", code=0)
    starts(cluster, [OTHER])


WRITES = {
    "insert": lambda db: db.books.insert_one({"_id": 7}),
    "update": lambda db: db.books.update_one({"_id": 1}, {"$set": {"title": "new"}}),
    "$push": lambda db: db.books.update_one({"_id": 1}, {"$push": {"list": 1}}),
    "delete": lambda db: db.books.delete_one({"_id": 1}),
    "findAndModify": lambda db: db.books.find_one_and_delete({"_id": 1}),
    "bulkWrite": lambda db: db.client.admin.command({
        "bulkWrite": 1, "ops": [{"insert": 0, "document": {}}], "nsInfo": [{"ns": "shop.books"}]}),
    "explain of an update": lambda db: db.command({
        "explain": {"update": "books", "updates": [{"q": {}, "u": {"$set": {"a": 1}}}]}}),
    "$merge": lambda db: list(db.plain.aggregate([{"$merge": {"into": "books", "whenMatched": "replace"}}])),
    "$out": lambda db: list(db.plain.aggregate([{"$out": "books"}])),
    "createIndexes": lambda db: db.books.create_index("title"),
    "dropIndexes": lambda db: db.books.drop_index("title_1"),
    "collMod": lambda db: db.command({"collMod": "books", "validationLevel": "off"}),
    "drop": lambda db: db.books.drop(),
    "dropDatabase": lambda db: db.client.drop_database("shop"),
    "rename": lambda db: db.client.admin.command({"renameCollection": "shop.plain", "to": "shop.books"}),
    "the overflow": lambda db: db.tails.delete_many({}),
}


@contextlib.contextmanager
def unreadable(shop, mode="alwaysOn", code=11601):
    """The server refuses Spillway to read the records, for a reason that passes."""
    refused = {"failCommands": ["find", "getMore"], "namespace": "spillway.rules", "errorCode": code,
               "appName": "spillway"}
    shop.client.admin.command({"configureFailPoint": "failCommand", "mode": mode, "data": refused})
    try:
        yield
    finally:
        shop.client.admin.command({"configureFailPoint": "failCommand", "mode": "off"})


@contextlib.contextmanager
def begun(cluster, rules):
    """One that nobody waits for, and a client of it that waits a short time."""
    spillway = Spillway([cluster.primary], rules)
    try:
        spillway.start(ready=False)
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True, timeoutMS=1500) as client:
            yield spillway, client.shop
    finally:
        spillway.__exit__()


@pytest.mark.parametrize("rules, words", [
    ([], "which is gone"), ([OTHER], "which is gone"),
    ([{**EAGER, "overflow": {**RULE["overflow"], "collection": "elsewhere"}}], "under another layout")])
def test_records_that_can_t_be_read_for_a_moment(cluster, shop, rules, words):
    """A lack of rights alone says that there may be none."""
    with unreadable(shop), begun(cluster, rules) as (spillway, through):
        wait_for(lambda: "trying on" in spillway.said(), "the first look")
        with pytest.raises(pymongo.errors.PyMongoError):
            through.books.find_one()
        assert spillway.admin("/readyz")[0] == 503
        shop.client.admin.command({"configureFailPoint": "failCommand", "mode": "off"})
        wait_for(lambda: words in spillway.said(), "another look")
        with pytest.raises(pymongo.errors.PyMongoError):
            through.books.find_one()
        assert spillway.admin("/readyz")[0] == 503 and "give the upstream account" not in spillway.said()


def test_a_good_file_is_served_once_its_records_can_be_read(cluster, shop):
    with unreadable(shop, {"times": 3}, 134), Spillway([cluster.primary], [EAGER]) as spillway, \
            pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
        assert client.shop.books.find_one()["list"] == list(range(9))
        assert spillway.says("trying on") and "give the upstream account" not in spillway.said()


@pytest.mark.parametrize("name, times",
                         [("undo", 0), ("undo", 1), ("undo", 2), ("migrate", 0), ("verify", 0), ("check", 0)])
def test_a_command_ends_where_the_records_can_t_be_read(cluster, shop, name, times):
    stored = list(shop.tails.find())
    with Operator(cluster) as operator, unreadable(shop, {"skip": times}):
        options = ["--execute"] if name in ("undo", "migrate") else []
        command = [program(), "check", "--config",
                   operator.file] if name == "check" else operator.command(name, *options)
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == 3 and "failpoint" in ended.stderr
    assert list(shop.tails.find()) == stored


@pytest.mark.parametrize("damage", [
    lambda shop: shop.books.update_one({"_id": 1}, {"$set": {"list": 5}}),
    lambda shop: shop.tails.update_one({"book": 1}, {"$set": {"part": "none"}})], ids=["array", "overflow"])
def test_an_array_that_is_none_any_more_names_its_rule(cluster, shop, damage):
    """Written straight at mongod: reads that look into the array fail, and say what finds the document."""
    damage(shop)
    with Spillway([cluster.primary], [EAGER]) as spillway, \
            pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
        books = client.shop.books
        for read in (lambda: list(books.find({"list": 8})), lambda: books.count_documents({"list": 8}),
                     lambda: books.distinct("list"),
                     lambda: list(books.aggregate([{"$unwind": "$list"}, {"$group": {"_id": "$list"}}]))):
            with pytest.raises(pymongo.errors.OperationFailure, match="rule 'books' .*run 'spillway verify"):
                read()
        with pytest.raises(pymongo.errors.OperationFailure, match="must be an array"):
            list(books.aggregate([{"$limit": 1}, {"$project": {"a": {"$slice": ["$_id", 1]}}}]))


def test_a_rule_that_may_only_be_read(cluster, shop):
    shop.books.insert_one({"_id": 2, "list": list(range(7))})
    shop.plain.insert_one({"_id": 1})
    with Spillway([cluster.primary], [OTHER, {**EAGER, "access": "read-only", "sweep": "10ms"}]) as spillway:
        before = shop.command("dbHash", collections=["books", "tails", "plain"])["md5"]
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as through:
            assert list(through.shop.books.find()) == [{"_id": 1, "list": list(range(9))},
                                                       {"_id": 2, "list": list(range(7))}]
            assert through.shop.books.count_documents({"list": 8}) == 1
            assert through.shop.books.find_one({}, {"list": {"$slice": -2}})["list"] == [7, 8]
            for name, write in WRITES.items():
                with pytest.raises(pymongo.errors.OperationFailure) as refused:
                    write(through.shop)
                assert refused.value.code == 115, name
                assert "read-only" in str(refused.value) or name in ("the overflow", "$out")
            through.shop.others.insert_one({"_id": 1, "list": list(range(9))})
            wait_for(lambda: "_spill" in shop.others.find_one(), "another rule to be at work")
    assert shop.command("dbHash", collections=["books", "tails", "plain"])["md5"] == before
    with Operator(cluster) as operator:
        operator.run("undo", "--execute", code=0)
    assert list(shop.books.find()) == [{"_id": 1, "list": list(range(9))}, {"_id": 2, "list": list(range(7))}]


ELSEWHERE = {**EAGER, "name": "long", "namespace": "shop.long",
             "overflow": {**RULE["overflow"], "collection": "extra.tails"}}
SECOND = {**OTHER, "namespace": "shop.long", "array": "second", "flag": {"field": "long", "value": True}}


def test_under_a_rule_that_may_only_be_read_nothing_is_made_or_moved(cluster, shop):
    shop.client.drop_database("extra")
    shop.long.create_index("list")
    document = {"_id": 2, "list": list(range(9)), "second": list(range(9))}
    shop.long.insert_one(document)
    before = (shop.client.list_database_names(), shop.list_collection_names(),
              shop.client.spillway.command("dbHash")["md5"])
    reading = {**ELSEWHERE, "access": "read-only", "sweep": "10ms"}
    with Spillway([cluster.primary], [EAGER, reading, {**SECOND, "sweep": "10ms"}]) as spillway:
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as through:
            assert through.shop.long.find_one() == document
            with pytest.raises(pymongo.errors.OperationFailure, match="read-only"):
                through.shop.long.update_one({"_id": 2}, {"$push": {"second": 1}})
            through.shop.books.insert_one({"_id": 2, "list": list(range(9))})
            wait_for(lambda: "_spill" in shop.books.find_one({"_id": 2}), "another collection's to be moved")
    with Operator(cluster, [reading]) as operator:
        for command in (("migrate",), ("migrate", "--execute"), ("verify", "--repair", "--execute")):
            report = operator.run(*command, code=1)
            assert "read-only" in report["findings"][0]["examples"][0]["detail"], command
    assert shop.long.find_one() == document
    after = (shop.client.list_database_names(), shop.list_collection_names(),
             shop.client.spillway.command("dbHash")["md5"])
    assert after == before


def test_a_database_that_holds_only_overflow_is_not_dropped(cluster, shop):
    shop.client.drop_database("extra")
    with Operator(cluster, [ELSEWHERE]) as operator:
        shop.long.insert_one({"_id": 1, "list": list(range(9))})
        operator.run("migrate", "--execute", code=0)
    for access in ("full", "read-only"):
        with Spillway([cluster.primary], [EAGER, {**ELSEWHERE, "access": access}]) as spillway:
            with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as through:
                with pytest.raises(pymongo.errors.OperationFailure) as refused:
                    through.drop_database("extra")
                assert refused.value.code == 115
                assert through.shop.long.find_one()["list"] == list(range(9))


def test_another_layout(cluster, shop):
    assert ("spilled under another layout: 'overflow.array' was 'part' and is 'another' in the file; bring that back"
            in refusal(cluster, [ANOTHER_PART]))
    with Operator(cluster, [ANOTHER_PART]) as operator:
        report = operator.run("migrate", "--execute", code=1)
        assert "spilled under another layout" in report["findings"][0]["examples"][0]["detail"]
    assert shop.books.find_one({"_id": 1})["list"] == [0, 1, 2]
    single = {**SINGLE, "flag": {"field": "long" * 30, "value": 1}, "reference": {"field": "more", "format": "{_id}"}}
    said = refusal(cluster,
                   [{**single, "overflow": {**single["overflow"], "link": "of" * 60, "collection": "elsewhere"}}])
    for words in ("'overflow.collection' was 'shop.tails' and is 'shop.elsewhere' in the file, ",
                  "'overflow.layout' was 'batches' and is 'elements' in the file, ",
                  "; bring that back, or fold them back with 'spillway undo' and the file that has it"):
        assert words in said, said
    assert ("'overflow.array' was 'part' and is not set in the file, 'counters.total' with 'owner: spillway' was not "
            "set "
            "and is 'total' in the file, "
            "'counters.documents' was not set and is 'parts' in the file; bring" in refusal(cluster, [SINGLE]))


def test_what_is_refused_makes_no_collection(cluster, shop):
    renamed = {**EAGER, "overflow": {**EAGER["overflow"], "collection": "elsewhere"}}
    assert "another layout" in refusal(cluster, [renamed])
    with Operator(cluster, [renamed]) as operator:
        operator.run("verify", "--repair", "--execute", code=1)
        operator.run("migrate", "--execute", code=1)
    assert sorted(shop.list_collection_names()) == ["books", "tails"]


FILMS = {**EAGER, "name": "films", "namespace": "shop.films"}


def test_two_files_and_one_overflow(cluster, shop):
    assert "is recorded as that of the array 'list' of 'shop.books'" in refusal(cluster, [FILMS])
    with Operator(cluster) as operator:
        operator.run("undo", "--execute", code=0)
    shop.books.drop()
    for options in ("", "/?appName=billing", "/?appName=" + 64 * "%C3%A9"):
        upstream = {"upstream": {"uri": f"mongodb://{cluster.primary.address}{options}"}}
        with Spillway([cluster.primary], [EAGER], more=upstream):
            assert "another Spillway is connected" in refusal(cluster, [FILMS]), "it is empty, but not for long"
    starts(cluster, [FILMS])  # a rule that was edited before it moved anything
    assert [each["_id"]["namespace"] for each in shop.client.spillway.rules.find()] == ["shop.films"]


PATTERN = {**EAGER, "namespace": "shop.b*", "sweep": "50ms",
           "overflow": {**RULE["overflow"], "collection": "{collection}_tails"}}


def test_a_pattern_whose_array_was_edited_before_it_moved_anything(cluster, shop):
    shop.client.drop_database("shop")
    names = ["b0", "b1", "b2"]
    records = shop.client.spillway.rules
    for name in names:
        shop[name].insert_one({"_id": 1, "items": [1, 2]})
    with Spillway([cluster.primary], [{**PATTERN, "array": "item"}]):
        wait_for(lambda: records.count_documents({"_id.array": "item"}) == 3, "records")
    records.insert_one({"_id": {"namespace": "shop.others", "array": "item"},
                        "layout": {"overflow": "shop.others_tails"}})
    before = list(records.find())
    with Operator(cluster, [{**PATTERN, "array": "items"}]) as operator:
        subprocess.run([program(), "check", "--config", operator.file], capture_output=True, timeout=60, check=False)
    assert list(records.find()) == before, "check only reads"
    with Spillway([cluster.primary], [{**PATTERN, "array": "items"}]) as edited:
        with pymongo.MongoClient("127.0.0.1", edited.port, directConnection=True) as through:
            for name in names:
                through.shop[name].update_one({"_id": 1}, {"$push": {"items": {"$each": [3, 4, 5]}}})
                wait_for(lambda: "_spill" in shop[name].find_one(), "a move")
        assert edited.metrics()["spillway_unfit_namespaces"] == 0
    assert [each["_id"]["namespace"]
            for each in records.find({"_id.array": "item"})] == ["shop.others"], "of no rule in the file"
    assert "under rule 'books', which is gone" in refusal(cluster,
                                                          [{**PATTERN, "array": "item"}]), "it has moved something now"


def sweeps(cluster, rule):
    with Spillway([cluster.primary], [{**rule, "gc_delay": "0s", "sweep": "50ms"}]) as spillway:
        wait_for(lambda: spillway.metrics()["spillway_sweeps_total"] >= 5, "sweeps")
        return spillway.said()


def test_overflow_that_no_record_names(cluster, shop):
    """Restored without the records: documents that refer to it prove whose it is."""
    shop.films.insert_one({"_id": 1, "list": list(range(9))})
    shop.tails.insert_one({"book": "gone", "_spill": {"g": generation(9), "p": 0, "i": 1}, "part": [1]})
    stored = list(shop.tails.find())
    records = shop.client.spillway.rules
    records.drop()
    for wrong in (FILMS, {**EAGER, "array": "other"}):
        assert "documents of 'shop.books' refer to its overflow 'shop.tails'" in refusal(cluster, [wrong])
    shop.client.admin.command("renameCollection", "shop.books", to="elsewhere.books", dropTarget=True)
    said = sweeps(cluster, FILMS)
    assert "no record says whose it is: nothing is moved there" in said
    assert "the sweep has" not in said and "wait" not in said, "nothing moves, and nothing waits to be moved"
    assert "outliers wait" not in sweeps(cluster, {**FILMS, "existing": "wait"})
    with Operator(cluster, [FILMS]) as wrong:
        for command in (("migrate", "--execute"), ("verify", "--repair", "--execute"), ("undo", "--execute")):
            wrong.run(*command, code=1)
    assert list(shop.tails.find()) == stored and "_spill" not in shop.films.find_one() and not records.find_one()
    shop.client.admin.command("renameCollection", "elsewhere.books", to="shop.books")
    with Spillway([cluster.primary], [{**EAGER, "gc_delay": "0s", "sweep": "50ms"}]):
        wait_for(lambda: [each["book"] for each in shop.tails.find()] == [1, 1], "what nobody refers to to go again")
    assert [each["_id"]["namespace"] for each in records.find()] == ["shop.books"]


def test_overflow_that_only_a_damaged_document_needs(cluster, shop):
    """Nobody is told to remove it: the log sends the operator to verify, which names the document."""
    shop.client.spillway.rules.drop()
    shop.books.update_one({"_id": 1}, {"$set": {"_spill.list.g": "lost"}})
    shop.tails.update_many({}, {"$set": {"_spill.g": generation(9)}})
    said = sweeps(cluster, EAGER)
    assert "no document of 'shop.books' whose state can be read is seen to refer to" in said
    assert "mend the damaged documents that 'spillway verify --rule books' names" in said
    with Operator(cluster, [EAGER]) as operator:
        named = operator.run("verify", code=1)["findings"]
    assert [(each["name"], each["count"]) for each in named] == [("state-unreadable", 1)]


def test_what_a_sample_claimed_may_be_another_s_in_part(cluster, shop):
    """A few tails in thousands are in no sample: before anything goes, who refers to just that is asked."""
    records = shop.client.spillway.rules
    records.update_one({}, {"$set": {"claimed": "sample"}})
    for i, (link, number) in enumerate((("x", 1), (1, 9), ("gone", 1)), 7):
        shop.tails.insert_one({"book": link, "_spill": {"g": generation(i), "p": 0, "i": number}, "part": [3, 4]})
        if link != "gone":
            shop.others.insert_one({"_id": link, "list": [0], "_spill": {"list": {"g": generation(i), "h": 1, "n": 2}}})
    with Spillway([cluster.primary], [{**EAGER, "sweep": "50ms"}]) as spillway:
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as through:
            through.shop.books.update_one({"_id": 1}, {"$set": {"list.5": "edited"}})
        wait_for(lambda: shop.tails.count_documents({"book": "gone"}) == 0, "what nobody refers to to go")
        wait_for(lambda: shop.books.count_documents({"_spill.list.n": 6})
                 and shop.tails.count_documents({"book": 1}) == 3,
                 "the edited one's old tail to go, and to be moved again")
        assert seen(spillway) == {1: [*range(5), "edited", 6, 7, 8]}
    assert [each["_spill"]["g"]
            for each in shop.tails.find({"part": [3, 4]}).sort("_spill.g")] == [b"\x07" * 16, b"\x08" * 16]
    assert records.find_one()["claimed"] == "sample"


@pytest.mark.parametrize("how", ["edit", "delete", "refit"])
def test_overflow_that_nobody_refers_to_any_more(cluster, shop, how):
    """And no record: its generations tell for which array they were born."""
    records = shop.client.spillway.rules
    with Spillway([cluster.primary],
                  [{**EAGER, "gc_delay": "60s", "threshold": 6 if how == "refit" else 3}]) as spillway:
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as through:
            if how == "edit":
                through.shop.books.update_one({"_id": 1}, {"$set": {"list.5": "edited"}})
            elif how == "delete":
                through.shop.books.delete_one({"_id": 1})
            wait_for(lambda: not shop.books.find_one({"_spill.list.n": 6}), "the generation to end")
    records.delete_many({})
    with Spillway([cluster.primary], [EAGER]):
        shop.books.insert_one({"_id": 2, "list": list(range(9))})
        with Operator(cluster) as operator:
            wait_for(lambda: "_spill" in shop.books.find_one({"_id": 2}) or operator.run("migrate", "--execute"),
                     "a move")
        assert shop.books.find_one({"_id": 2})["list"] == [0, 1, 2]
    with Spillway([cluster.primary], [{**EAGER, "sweep": "50ms"}]):
        record = records.find_one()
        assert record, "a document refers to it now"
        # What a document that is there has left may have been gone for a moment, and nothing else been there.
        assert how != "delete" or record["claimed"] == "sample"
        wait_for(lambda: shop.tails.count_documents({"book": 1}) in (0, 2) and rests(cluster, EAGER),
                 "the old ones to go")


def test_a_large_overflow_that_was_split_by_hand(cluster, shop):
    """A few of Spillway's among many, without a record; or nobody can tell in time whether there are any."""
    records = shop.client.spillway.rules
    shop.tails.insert_many({"book": f"hand{i}", "part": [1], "_spill": {"i": 1}} for i in range(20000))
    records.delete_many({})
    starts(cluster, [EAGER])
    assert records.find_one()["claimed"] == "sample"
    records.delete_many({})
    slow = {"failCommands": ["find"], "errorCode": 50, "namespace": "shop.tails"}
    shop.tails.delete_many({"book": 1})
    shop.books.delete_many({})
    shop.client.admin.command({"configureFailPoint": "failCommand", "mode": {"skip": 1}, "data": slow})
    try:
        starts(cluster, [EAGER])
    finally:
        shop.client.admin.command({"configureFailPoint": "failCommand", "mode": "off"})
    assert records.find_one()["claimed"] == "sample"


def test_a_record_that_goes_while_it_is_served(cluster, shop):
    with Spillway([cluster.primary], [{**EAGER, "sweep": "50ms"}]) as spillway:
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as through:
            shop.client.drop_database("spillway")
            through.shop.books.drop()  # all is judged again
            shop.tails.insert_one({"book": "gone", "_spill": {"g": generation(9), "p": 0, "i": 1}, "part": [1]})
            through.shop.books.insert_one({"_id": 2, "list": list(range(9))})
            wait_for(lambda: "_spill" in shop.books.find_one(), "a move")
            wait_for(lambda: not shop.tails.find_one({"book": "gone"}), "the orphan to go")
    assert shop.client.spillway.rules.find_one()["_id"]["namespace"] == "shop.books"


def test_a_restore_that_brings_the_overflow_first(cluster, shop):
    """And its main documents much later, while Spillway runs: only what no sweep's period brings back is garbage."""
    shop.books.insert_many({"_id": i, "list": list(range(9))} for i in range(2, 4))
    with Operator(cluster) as before:
        before.run("migrate", "--execute", code=0)
    books = list(shop.books.find())
    shop.books.delete_many({})
    with Spillway([cluster.primary], [{**EAGER, "sweep": "2s"}]) as spillway:

        def sweeps_so_far():
            return spillway.metrics()["spillway_sweeps_total"]

        for number, book in enumerate(books[:2], 1):
            wait_for(lambda: sweeps_so_far() >= number, "a sweep")
            shop.books.insert_one(book)
        wait_for(lambda: not shop.tails.find_one({"book": 3}), "what never came back to go")
        assert seen(spillway) == {i: list(range(9)) for i in range(1, 3)}


def test_a_document_that_is_restored_just_before_its_overflow_goes(cluster, shop):
    shop.books.insert_one({"_id": 2, "list": list(range(9))})
    with Operator(cluster) as before:
        before.run("migrate", "--execute", code=0)
    book = shop.books.find_one({"_id": 1})
    looks = {"ns": "shop.books", "op": "query", "command.filter._id.$in": 1}
    with Spillway([cluster.primary], [{**EAGER, "gc_delay": "1s", "sweep": "off"}]) as spillway:
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as through:
            shop.command("profile", 2)
            through.shop.books.delete_one({"_id": 1})
            wait_for(lambda: shop.system.profile.find_one(looks), "a look at the document")
            shop.books.insert_one(book)
            through.shop.books.delete_one({"_id": 2})
            wait_for(lambda: not shop.tails.find_one({"book": 2}), "what is gone to go")
            shop.command("profile", 0)
        assert seen(spillway) == {1: list(range(9))}


def test_other_limits(cluster, shop):
    starts(cluster, [{**EAGER, "threshold": 5}])
    assert shop.client.spillway.rules.find_one()["limits"]["threshold"] == 5


def kept(shop):
    """How many elements each main document holds itself."""
    return {each["_id"]: len(each["list"]) for each in shop.books.find()}


def seen(spillway):
    with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
        return {each["_id"]: each["list"] for each in client.shop.books.find()}


def heads(shop):
    return {each["_id"]: each["_spill"]["list"]["h"] for each in shop.books.find({"_spill": {"$exists": True}})}


def rests(cluster, rule):
    with Operator(cluster, [rule]) as operator:
        return not operator.run("verify")["findings"]


def test_what_is_spilled_is_brought_to_another_threshold(cluster, shop):
    arrays = {1: list(range(9)), 2: [0, 1, 2], 3: [0, 1], 4: [0, 1, 2, 3], 5: ["x" * 300, *range(20)]}
    shop.books.insert_many({"_id": i, "list": arrays[i]} for i in (2, 3, 4, 5))
    for threshold, expected in ((2, {1: 2, 2: 2, 4: 2, 5: 2}), (8, {1: 8, 5: 8}), (3, {1: 3, 4: 3, 5: 3})):
        rule = {**EAGER, "threshold": threshold}
        with Spillway([cluster.primary], [rule]) as spillway:
            wait_for(lambda: heads(shop) == expected, f"a head of {threshold}")
            assert seen(spillway) == arrays
            wait_for(lambda: rests(cluster, rule), "rest")
    with Spillway([cluster.primary], [{**EAGER, "threshold": 8, "max_bytes": 300}]) as fat:
        shop.books.insert_one({"_id": 6, "list": ["y" * 120] * 10})
        arrays[6] = ["y" * 120] * 10
        with pymongo.MongoClient("127.0.0.1", fat.port, directConnection=True) as client:
            client.shop.books.update_one({"_id": 6}, {"$set": {"list.0": "z" * 120}})
            arrays[6][0] = "z" * 120
        wait_for(lambda: heads(shop) == {1: 8, 5: 3, 6: 2}, "two fat elements to stay")
        assert seen(fat) == arrays
    with Spillway([cluster.primary], [{**EAGER, "threshold": 8, "max_bytes": 300}]) as again:
        wait_for(lambda: again.metrics()["spillway_sweeps_total"] >= 1, "a sweep")
        assert again.metrics()["spillway_spills_total"] == 0, "it has the head that the rule gives it"
        assert heads(shop) == {1: 8, 5: 3, 6: 2}


def test_what_keeps_no_document_from_another_threshold(cluster, shop):
    """A migrate that was interrupted under the old limits; another Spillway that still had them at the first sweep."""
    records = shop.client.spillway.rules
    shop.books.insert_many({"_id": i, "list": list(range(9))} for i in range(2, 121))
    with Operator(cluster) as before:
        before.run("migrate", "--execute", code=0)
    limits = records.find_one()["limits"]
    records.update_one({}, {"$set": {"checkpoint": {"from": 1, "limits": limits}}})
    sixes = dict.fromkeys(range(1, 121), 6)
    with Spillway([cluster.primary], [{**EAGER, "threshold": 6, "sweep": "500ms"}]) as spillway:
        mine = records.find_one()["limits"]
        records.update_one({}, {"$set": {"limits": limits}})
        wait_for(lambda: spillway.metrics()["spillway_sweeps_total"] >= 2, "sweeps")
        records.update_one({}, {"$set": {"limits": mine}})
        wait_for(lambda: heads(shop) == sixes, "all of them")


def test_a_document_that_the_server_refuses_stops_no_sweep(cluster, shop):
    shop.books.insert_many({"_id": i, "list": list(range(9)), **({} if i == 3 else {"title": "x"})}
                           for i in range(2, 6))
    with Operator(cluster) as before:
        before.run("migrate", "--execute", code=0)
    shop.command("collMod", "books", validator={"title": {"$type": "string"}})
    shop.tails.insert_one({"book": "gone", "_spill": {"g": generation(), "p": 0, "i": 1}, "part": [1]})
    with Spillway([cluster.primary], [{**EAGER, "threshold": 6, "sweep": "200ms"}]):
        wait_for(lambda: heads(shop) == {1: 3, 2: 6, 3: 3, 4: 6, 5: 6}, "the others to be brought to it")
        wait_for(lambda: shop.tails.count_documents({"book": "gone"}) == 0, "the orphan to go")


def filled(cluster, shop, rule, arrays):
    shop.client.spillway.rules.delete_many({})
    shop.tails.drop()
    shop.books.delete_many({})
    shop.books.insert_many({"_id": i, "list": array} for i, array in arrays.items())
    with Operator(cluster, [rule]) as before:
        before.run("migrate", "--execute", code=0)


def shows(shop, head, total):
    """Whether document 1 has this head, and its elements are out; until then it is an outlier to everybody who
    looks."""
    document = shop.books.find_one({"_id": 1})
    assert (document["outlier"], document["total"]) == (True, total)
    return document["_spill"]["list"]["h"] == head and document["_spill"]["list"]["n"] == total - head


@pytest.mark.parametrize("rule", [SHOWN, SINGLE], ids=["batches", "elements"])
def test_what_clients_see_stays_under_another_threshold(cluster, shop, rule):
    filled(cluster, shop, rule, {1: list(range(9)), 2: list(range(4))})
    for threshold in (6, 2):
        with Spillway([cluster.primary], [{**rule, "threshold": threshold, "gc_delay": "200ms"}]) as spillway:
            wait_for(lambda: shows(shop, threshold, 9), f"a head of {threshold}", pause=0)
            assert seen(spillway) == {1: list(range(9)), 2: list(range(4))}
            wait_for(lambda: rests(cluster, {**rule, "threshold": threshold}), "rest")
            if threshold == 6:
                assert shop.books.find_one({"_id": 2}) == {"_id": 2, "list": list(range(4))}
    assert shop.books.find_one({"_id": 1}, {"parts": 1})["parts"] == (2 if rule is SHOWN else 7)


def test_an_outlier_whose_next_generation_holds_nothing_yet(cluster, shop):
    """A sweep has brought its array back, and its old overflow may still be read: everything may happen to it now."""
    filled(cluster, shop, SHOWN, {i: list(range(9)) for i in range(1, 5)})
    between = {**SHOWN, "threshold": 5, "gc_delay": "60s"}
    shop.books.update_one({"_id": 4}, {"$push": {"list": 9}})
    with Spillway([cluster.primary], [between]) as spillway:
        wait_for(lambda: shop.books.count_documents({"_spill.list.n": 0, "outlier": True, "total": {"$gte": 9}}) == 4,
                 "all to be whole")
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
            client.shop.books.update_one({"_id": 1}, {"$set": {"list.7": "edited"}})
            client.shop.books.update_one({"_id": 2}, {"$push": {"list": 9}})
            client.shop.books.update_one({"_id": 3}, {"$set": {"list": [1]}})
            assert [each["list"] for each in client.shop.books.find()] == [
                [*range(7), "edited", 8], list(range(10)), [1], list(range(10))]
    assert shop.books.find_one({"_id": 1}, {"_spill": 0}) == {"_id": 1, "list": [*range(7), "edited", 8]}
    assert shop.books.find_one({"_id": 3}, {"_spill": 0}) == {"_id": 3, "list": [1]}
    with Operator(cluster, [between]) as operator:
        assert not any(each["code"] == "V2" for each in operator.run("verify", code=1)["findings"])
    with Spillway([cluster.primary], [{**SHOWN, "threshold": 20}]):
        wait_for(lambda: shop.books.count_documents({"_spill": {"$exists": True}}) == 0, "none to be an outlier")
    for i in (2, 4):
        assert shop.books.find_one({"_id": i}) == {"_id": i, "list": list(range(10))}


def test_a_birth_that_another_threshold_undoes_keeps_the_total(cluster, shop):
    """Of two Spillways the one folds back what is too short for it, and the other's move takes that birth away
    again."""
    born = {"g": generation(), "h": 6, "n": 0, "a": ["outlier"], "b": {"c": True}}
    filled(cluster, shop, SHOWN, {1: [0]})
    with Spillway([cluster.primary], [SHOWN]) as spillway:
        shop.books.insert_one({"_id": 2, "list": [0, 1], "outlier": True, "total": 9, "_spill": {"list": born}})
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as through:
            through.shop.books.update_one({"_id": 2}, {"$push": {"list": 2}})
        wait_for(lambda: "_spill" not in shop.books.find_one({"_id": 2}), "the birth to be undone")
    total = shop.books.find_one({"_id": 2})["total"]
    assert total in (2, 3), "what it had when the birth was undone, before the push or behind it"
    assert shop.books.find_one({"_id": 2}) == {"_id": 2, "list": [0, 1, 2], "total": total}


def test_an_emptied_array_that_is_ordinary_now(cluster, shop):
    emptied = {**SINGLE, "when_outlier": "empty"}
    filled(cluster, shop, emptied, {1: list(range(9)), 2: list(range(30)), 3: ["x" * 100] * 5})
    assert heads(shop) == {1: 0, 2: 0, 3: 0}
    with Spillway([cluster.primary], [{**emptied, "threshold": 20, "max_bytes": 400}]):
        wait_for(lambda: heads(shop) == {2: 0, 3: 0}, "the short one to come back")
    assert shop.books.find_one({"_id": 1}) == {"_id": 1, "list": list(range(9))}
    assert shop.tails.count_documents({"book": {"$gt": 1}}) == 35


def test_a_threshold_that_changes_under_traffic(cluster, shop):
    arrays = {i: list(range(12)) for i in range(40)}
    shop.books.delete_many({})
    shop.books.insert_many({"_id": i, "list": array} for i, array in arrays.items())
    with Operator(cluster) as before:
        before.run("migrate", "--execute", code=0)
    with Spillway([cluster.primary], [{**EAGER, "threshold": 6, "quiet": "0s"}]) as raised:
        with pymongo.MongoClient("127.0.0.1", raised.port, directConnection=True) as client:
            for number in range(10**6):
                i = number % len(arrays)
                update = {"$push": {"list": number}} if number % 3 else {"$set": {"list.7": number}}
                client.shop.books.update_one({"_id": i}, update)
                arrays[i] = [*arrays[i], number] if number % 3 else [*arrays[i][:7], number, *arrays[i][8:]]
                assert client.shop.books.find_one({"_id": i})["list"] == arrays[i]
                if i == 0 and set(heads(shop).values()) == {6}:
                    break
        assert seen(raised) == arrays


def test_undo_and_migrate_bring_what_is_spilled_to_a_raised_threshold(cluster, shop):
    shop.books.insert_one({"_id": 2, "list": [0, 1, 2, 3]})
    with Operator(cluster) as before:
        before.run("migrate", "--execute", code=0)
    assert kept(shop) == {1: 3, 2: 3}
    with Operator(cluster, [{**RULE, "threshold": 5}]) as raised:
        raised.run("undo", "--execute", code=0)
        raised.run("migrate", "--execute", code=0)
        assert raised.run("verify", code=0)["spilled"] == 1
    assert kept(shop) == {1: 5, 2: 4}


def test_nothing_is_spilled_any_more(cluster, shop):
    shop.tails.delete_many({})
    shop.books.delete_many({})
    starts(cluster, [OTHER])
    starts(cluster, [ANOTHER_PART])
    assert shop.client.spillway.rules.find_one({"_id.namespace": "shop.books"})["layout"]["array"] == "another"
