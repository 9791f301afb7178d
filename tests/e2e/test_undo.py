"""`spillway undo`: what was moved comes back, byte for byte; what can't, stays and is listed."""

import json
import signal
import threading

import pymongo
import pytest
from bson import ObjectId
from bson.raw_bson import RawBSONDocument

from support import outliers
from support.operate import RULE, Operator, found, generation, spill
from support.process import wait_for
from support.spillway import Spillway

FLAGGED = {**RULE, "flag": {"field": "outlier", "value": True, "otherwise": False}}


@pytest.fixture(scope="module")
def operator(cluster):
    with Operator(cluster, [FLAGGED]) as made:
        yield made


def test_the_listeners_key_is_none_of_its_business(cluster, shop):
    """Whoever runs it may not be allowed to read the key."""
    tls = {"cert": "/nowhere/cert.pem", "key": "/nowhere/key.pem"}
    listen = [{"address": "127.0.0.1:1024", "server": cluster.primary.address, "tls": tls}]
    with Operator(cluster, [FLAGGED], listen=listen) as without:
        without.run("undo", code=0)


def snapshot(shop):
    """The hash of what documents hold, and the names of the collections."""
    shown = shop.command("dbHash")
    return shown["collections"]


def raw(shop):
    options = shop.codec_options.with_options(document_class=RawBSONDocument)
    return {bytes(each.raw) for each in shop.get_collection("books", codec_options=options).find()}


def test_everything_comes_back_byte_for_byte(operator, shop):
    shop.books.insert_many(outliers.documents(500, 5, flag="outlier"))
    before = snapshot(shop)
    moved = operator.run("migrate", "--execute", code=0)
    assert moved["documents"] > 60
    assert shop.tails.estimated_document_count() > 150
    spilled = snapshot(shop)
    plan = operator.run("undo", code=0)
    assert snapshot(shop) == spilled, "a plan writes nothing"
    done = operator.run("undo", "--execute", code=0)
    assert snapshot(shop) == before
    assert (done["documents"], done["elements"]) == (plan["documents"], plan["elements"])
    assert (done["documents"], done["elements"]) == (moved["documents"], moved["elements"])
    assert shop.client.spillway.rules.count_documents({}) == 0
    assert operator.run("undo", "--execute", code=0)["documents"] == 0


def test_reads_of_before_the_folds_are_waited_for(operator, shop):
    """Without the rule they would return what was split as it was. A change stream goes on for ever: it is not."""
    shop.books.insert_many([{"_id": i, "list": list(range(9))} for i in range(20)])
    operator.run("migrate", "--execute", code=0)
    with shop.books.watch(max_await_time_ms=100) as stream, shop.client.start_session() as session:
        stream.try_next()
        session.start_transaction()
        assert shop.books.find_one({"_id": 3}, session=session)["list"] == [0, 1, 2]
        cursor = shop.books.find({}, batch_size=2).sort("outlier", 1)
        assert next(cursor)["list"] == [0, 1, 2]
        running = operator.start("undo", "--execute")
        said = running.stderr.readline()
        assert "2 reads and operations that began before arrays were folded back go on; until they have" in said
        assert shop.books.count_documents({"list.8": 8}) == 20
        assert shop.tails.estimated_document_count() == 40 and running.poll() is None
        assert [each["list"] for each in cursor] == [[0, 1, 2]] * 19
        assert running.poll() is None
        session.commit_transaction()
        assert running.communicate(timeout=60) == ("undo of rule 'books': documents 20, elements 120\n", "")
        assert running.returncode == 0 and shop.tails.estimated_document_count() == 0


HAD = [{"outlier": False}, {"outlier": "old"}, {"outlier": None}, {"outlier": {"a": [1]}}, {"outlier": 0}, {}]


@pytest.mark.parametrize("otherwise", [{}, {"otherwise": False}])
def test_a_flag_that_was_there_before_has_its_value_again(cluster, shop, otherwise):
    rule = {**RULE, "settle": "5ms", "quiet": "10m", "sweep": "off", "flag": {**RULE["flag"], **otherwise}}
    originals = [{"_id": i, **had, "list": list(range(9)), "z": 1} for i, had in enumerate(HAD)]
    shop.books.insert_many(originals)
    taken = shop.books.insert_one({"_id": "taken", "outlier": True, "list": list(range(9))}).inserted_id
    with Operator(cluster, [rule]) as operator:
        operator.run("migrate", "--execute", code=0)
        assert shop.books.count_documents({"outlier": True}) == len(HAD) + 1
        with Spillway([cluster.primary], [rule]) as spillway:
            with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as through:
                through.shop.books.update_many({}, {"$pull": {"list": 8}})
                wait_for(lambda: not shop.tails.estimated_document_count(),
                         "the garbage to go, behind which tails may wait for their numbers")
        shorter = [{**each, "list": list(range(8))} for each in originals]
        assert list(shop.books.find({"_id": {"$ne": taken}})) == shorter, "an edit folds it back, and it is left alone"
        operator.run("migrate", "--execute", code=0)
        operator.run("undo", "--execute", code=0)
    assert [list(each)
            for each in shop.books.find({"_id": {"$ne": taken}})] == [list(each) for each in shorter], "in order"
    assert list(shop.books.find({"_id": {"$ne": taken}})) == shorter
    flag = shop.books.find_one({"_id": taken}).get("outlier")
    assert flag == otherwise.get("otherwise"), "it said that there is overflow"


CHANGED = {
    "no flag": {"flag": {}}, "another flag": {"flag": {"field": "split", "value": True}},
    "counters": {"counters": {"total": "number"}},
    "another layout": {"overflow": {"collection": "tails", "link": "book", "layout": "elements"}},
}


@pytest.mark.parametrize("change, recorded", [*((change, True) for change in CHANGED), ("another layout", False)])
def test_what_was_moved_under_another_rule_stays(cluster, operator, shop, change, recorded):
    shop.books.insert_many({"_id": i, "list": list(range(4 + i % 3)), "outlier": False} for i in range(6))
    operator.run("migrate", "--execute", code=0)
    if not recorded:
        shop.client.drop_database("spillway")
    before = snapshot(shop)
    rule = {name: value for name, value in {**FLAGGED, **CHANGED[change]}.items() if value}
    with Operator(cluster, [rule]) as other:
        report = other.run("undo", "--execute", code=1)
    assert report["findings"][0]["code"] == ("another's" if recorded else "corrupt")
    assert snapshot(shop) == before
    operator.run("undo", "--execute", code=0)
    assert list(shop.books.find()) == [{"_id": i, "list": list(range(4 + i % 3)), "outlier": False} for i in range(6)]


def test_states_that_hold_nothing_go_too(operator, shop):
    shop.books.insert_many([
        {"_id": 1, "list": [1], "_spill": {}},
        {"_id": 2, "list": [1, 2, 3, 4, 5], "_spill": {"list": {"g": generation(), "h": 3, "n": 0}}},
        {"_id": 3, "_spill": {"other": {"g": generation(), "h": 3, "n": 0}}, "list": []},
    ])
    operator.run("undo", "--execute", code=0)
    assert list(shop.books.find({"_id": {"$lt": 3}})) == [{"_id": 1, "list": [1]}, {"_id": 2, "list": [1, 2, 3, 4, 5]}]
    assert "other" in shop.books.find_one({"_id": 3})["_spill"], "another rule's state is not touched"


def test_pushes_that_came_later_and_stored_copies(operator, shop):
    spill(shop, 1, list(range(12)), main={"after": 1})
    shop.books.update_one({"_id": 1}, {"$push": {"list": {"$each": [12, 13]}}})
    shop.tails.update_one({"_spill.i": 3}, {"$push": {"part": 12}})  # stored, not linked yet
    operator.run("undo", "--execute", code=0)
    assert list(shop.books.find_one({"_id": 1}).items()) == [("_id", 1), ("list", list(range(14))), ("after", 1)]
    assert shop.list_collection_names() == ["books"]


def test_one_of_two_rules(cluster, shop):
    other = {**RULE, "name": "others", "array": "other", "flag": {"field": "more", "value": "yes"},
             "overflow": {"collection": "other_tails", "link": "book", "array": "part"}}
    original = {"_id": 1, "list": list(range(9)), "other": list(range(9)), "z": 1}
    with Operator(cluster, [FLAGGED, other]) as both:
        shop.books.insert_one(original)
        both.run("migrate", "--execute", code=0)
        both.run("migrate", "--execute", rule="others", code=0)
        both.run("undo", "--execute", code=0)
        assert shop.books.find_one({"_id": 1})["more"] == "yes"
        assert "outlier" not in shop.books.find_one({"_id": 1})
        both.run("undo", "--execute", rule="others", code=0)
        assert list(shop.books.find_one({"_id": 1}).items()) == list(original.items())
        assert shop.list_collection_names() == ["books"]


def test_an_index_with_the_same_keys_goes_with_the_others(operator, shop):
    shop.tails.create_index([("book", 1), ("_spill.i", 1)], name="mine")
    shop.books.insert_one({"_id": 1, "list": list(range(12))})
    operator.run("migrate", "--execute", code=0)
    shop.tails.insert_one({"book": "nobody", "part": [1], "_spill": {"g": generation(9), "p": 0, "i": 9}})
    assert operator.run("undo", "--execute", code=0)["elements"] == 9
    assert shop.list_collection_names() == ["books"]


def test_nothing_is_folded_back_beside_a_hidden_index(operator, shop):
    shop.books.insert_one({"_id": 1, "list": list(range(12))})
    operator.run("migrate", "--execute", code=0)
    before = snapshot(shop)
    index = {"name": "book_1__spill.i_1"}
    shop.command("collMod", "tails", index={**index, "hidden": True})
    for options in ([], ["--execute"]):
        report = operator.run("undo", *options, code=1)
        assert found(report) == {("hidden", "unfinished"): 1}
        assert "collMod" in report["findings"][0]["examples"][0]["detail"]
    assert snapshot(shop) == before
    shop.command("collMod", "tails", index={**index, "hidden": False})
    operator.run("undo", "--execute", code=0)
    assert shop.list_collection_names() == ["books"]


def test_too_large_corrupt_and_foreign_stay(operator, shop):
    spill(shop, "large", [1, 2, 3] + ["x" * 3_500_000] * 5)
    spill(shop, "torn", list(range(12)))
    shop.tails.delete_one({"book": "torn", "_spill.i": 2})
    spill(shop, "good", list(range(12)))
    shop.tails.insert_one({"book": "somebody", "part": [1]})
    shop.tails.create_index([("book", 1), ("_spill.i", 1)], unique=True)
    before = {name: shop.books.find_one({"_id": name}) for name in ("large", "torn")}
    for options in ([], ["--execute"]):
        report = operator.run("undo", *options, code=1)
        assert found(report) == {("too large", "unfinished"): 1, ("corrupt", "corrupt"): 1}
    assert {name: shop.books.find_one({"_id": name}) for name in before} == before
    assert shop.books.find_one({"_id": "good"}) == {"_id": "good", "list": list(range(12))}
    assert shop.tails.distinct("book") == ["large", "somebody", "torn"]


def test_all_that_stays_is_listed(operator, shop):
    for i in range(12):
        spill(shop, i, list(range(12)))
    shop.tails.delete_many({"_spill.i": 2})
    for command in ("undo", "verify"):
        report = operator.run(command, code=1)
        torn = [finding for finding in report["findings"] if finding["class"] == "corrupt"]
        assert torn and all(len(finding["examples"]) == finding["count"] for finding in torn)
        assert {each["_id"] for each in torn[0]["examples"]} == set(range(12)) and "more" not in torn[0]


def test_what_the_server_refuses_stays_and_is_named(operator, shop):
    shop.books.insert_many({"_id": i, "list": list(range(9)), "allowed": i != 2} for i in range(5))
    operator.run("migrate", "--execute", code=0)
    shop.command("collMod", "books", validator={"allowed": True})
    before = shop.books.find_one({"_id": 2})
    report = operator.run("undo", "--execute", code=1)
    assert found(report) == {("refused", "unfinished"): 1}
    assert "validation" in report["findings"][0]["examples"][0]["detail"]
    assert (report["findings"][0]["examples"][0]["_id"], report["documents"]) == (2, 4)
    assert shop.books.find_one({"_id": 2}) == before
    assert shop.tails.distinct("book") == [2]
    shop.command("collMod", "books", validator={})
    assert operator.run("undo", "--execute", code=0)["findings"] == []


def test_a_spillway_that_moves_them_out_again_is_told(cluster, operator, shop):
    shop.books.insert_many({"_id": i, "list": list(range(20))} for i in range(30))
    eager = {**FLAGGED, "settle": "10ms", "quiet": "10ms", "existing": "move"}
    with Spillway([cluster.primary], [eager]) as spillway:
        wait_for(lambda: shop.books.count_documents({"_spill.list.n": 17}) == 30, "all to be moved")
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as through:
            undo = operator.start("undo", "--execute")
            while undo.poll() is None:
                for i in range(30):  # edits bring it back into the mover's mind
                    through.shop.books.update_one({"_id": i}, {"$set": {"list.1": 1}})
            undo.communicate()
            for i in range(30):
                assert through.shop.books.find_one({"_id": i})["list"] == list(range(20))
    assert operator.run("undo", "--execute", code=0)["findings"] == []
    assert shop.list_collection_names() == ["books"]


def test_what_is_moved_out_again_meanwhile_is_told(cluster, shop):
    """While what came back may still be read, and undo waits."""
    shop.books.insert_one({"_id": 1, "list": list(range(20))})
    with Operator(cluster, [{**FLAGGED, "gc_delay": "2s"}]) as operator:
        operator.run("migrate", "--execute", code=0)
        undo = operator.start("undo", "--execute", "--json")
        wait_for(lambda: "_spill" not in shop.books.find_one({"_id": 1}), "the first to come back", pause=0.005)
        spill(shop, "again", list(range(12)))
        again = shop.books.find_one({"_id": "again"})
        report = json.loads(undo.communicate(timeout=60)[0])
        assert undo.returncode == 1 and found(report) == {("moved again", "unfinished"): 1}
        assert report["findings"][0]["examples"][0]["_id"] == "again"
        assert shop.books.find_one({"_id": "again"}) == again and shop.tails.distinct("book") == ["again"]


def test_a_document_that_changes_each_time_stays(cluster, operator, shop):
    """Each try is late: another writes its state meanwhile."""
    spill(shop, "x", list(range(12)))
    spill(shop, "good", list(range(12)))
    slow = {"failCommands": ["update"], "namespace": "shop.books", "appName": "spillway", "blockConnection": True,
            "blockTimeMS": 300}
    stopped = threading.Event()

    def change():
        with cluster.client() as client:
            while not stopped.wait(0.005):
                client.shop.books.update_one({"_id": "x"}, {"$inc": {"_spill.other.x": 1}})

    thread = threading.Thread(target=change)
    thread.start()
    try:
        shop.client.admin.command("configureFailPoint", "failCommand", mode="alwaysOn", data=slow)
        report = operator.run("undo", "--execute", code=1)
    finally:
        shop.client.admin.command("configureFailPoint", "failCommand", mode="off")
        stopped.set()
        thread.join()
    assert found(report) == {("busy", "unfinished"): 1}
    assert (report["findings"][0]["examples"][0]["_id"], report["documents"]) == ("x", 1)
    assert shop.tails.distinct("book") == ["x"] and "_spill" not in shop.books.find_one({"_id": "good"})


def test_a_spillway_with_a_raised_threshold_may_go_on(cluster, operator, shop):
    shop.books.insert_many({"_id": i, "list": list(range(20))} for i in range(30))
    operator.run("migrate", "--execute", code=0)
    raised = {**FLAGGED, "threshold": 1000000, "max_bytes": "15MB"}
    with Spillway([cluster.primary], [raised]) as spillway:
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as through:
            through.shop.books.update_one({"_id": 1}, {"$push": {"list": 20}})
            report = operator.run("undo", "--execute", code=1)
            assert found(report) == {("kept", "unfinished"): 1}
            assert shop.client.spillway.rules.count_documents({}) == 1, "it may move documents out again"
            through.shop.books.update_one({"_id": 1}, {"$push": {"list": 21}})
    assert shop.books.find_one({"_id": 1}) == {"_id": 1, "list": list(range(22))}
    assert shop.books.count_documents({"_spill": {"$exists": True}}) == 0
    assert operator.run("undo", "--execute", code=0)["findings"] == []
    assert shop.list_collection_names() == ["books"]


ASTRAY = [{"namespace": "shop.book"}, {"namespace": "shop.others"}, {"array": "part"}]


@pytest.mark.parametrize("wrong", ASTRAY)
@pytest.mark.parametrize("command", ["undo", "verify"])
def test_a_file_that_is_wrong_removes_nothing(cluster, operator, shop, wrong, command):
    shop.books.insert_many({"_id": i, "list": list(range(9))} for i in range(3))
    shop.others.insert_one({"_id": 1, "list": []})
    operator.run("migrate", "--execute", code=0)
    before = snapshot(shop)
    with Operator(cluster, [{**FLAGGED, **wrong}]) as astray:
        report = astray.run(command, *(["--repair"] if command == "verify" else []), "--execute", code=1)
    assert "recorded as that of the array 'list' of 'shop.books'" in report["findings"][0]["examples"][0]["detail"]
    assert {name: snapshot(shop)[name] for name in before} == before
    operator.run("verify", code=0)


def test_a_collection_that_somebody_dropped(cluster, operator, shop):
    shop.books.insert_many({"_id": i, "list": list(range(9))} for i in range(3))
    operator.run("migrate", "--execute", code=0)
    records = list(shop.client.spillway.rules.find())
    shop.tails.insert_one({"_id": ObjectId("5" * 24), "book": "old", "part": [1],
                           "_spill": {"g": generation(), "p": 0, "i": 1}})
    shop.books.drop()
    shop.client.drop_database("spillway")
    left = shop.command("dbHash", collections=["tails"])["md5"]
    assert found(operator.run("undo", "--execute", code=1)) == {("not known", "unfinished"): 1}
    for recorded in (False, True):
        if recorded:
            shop.client.spillway.rules.insert_many(records)
        assert list(found(operator.run("verify", "--repair", "--execute", code=1))) == [("V3", "garbage")]
        assert shop.command("dbHash", collections=["tails"])["md5"] == left
    operator.run("undo", "--execute", code=0)
    assert "tails" not in shop.list_collection_names()
    assert shop.client.spillway.rules.count_documents({}) == 0


@pytest.mark.parametrize("recorded", [True, False])
def test_a_collection_that_somebody_renamed(operator, shop, recorded):
    shop.books.insert_many({"_id": i, "list": list(range(9))} for i in range(3))
    operator.run("migrate", "--execute", code=0)
    if not recorded:
        shop.client.drop_database("spillway")
    shop.books.rename("archive")
    stored = list(shop.tails.find())
    report = operator.run("undo", "--execute", code=1)
    assert "documents of 'shop.archive' refer to its overflow" in report["findings"][0]["examples"][0]["detail"]
    assert list(shop.tails.find()) == stored
    shop.archive.rename("books")
    assert operator.run("undo", "--execute", code=0)["documents"] == 3
    assert shop.list_collection_names() == ["books"]


PATTERN = {**FLAGGED, "namespace": "shop.b*", "overflow": {**FLAGGED["overflow"], "collection": "{collection}_tails"}}


def test_another_spillway_is_waited_for_once(cluster, shop):
    names = [f"b{i}" for i in range(4)]
    for name in names:
        shop[name].insert_one({"_id": 1, "list": list(range(9))})
    with Operator(cluster, [PATTERN]) as of_pattern, Spillway([cluster.primary], [{**PATTERN, "threshold": 100}]):
        of_pattern.run("migrate", "--execute", code=0)
        before = shop.command("serverStatus")["metrics"]["aggStageCounters"]["$currentOp"]
        assert found(of_pattern.run("undo", "--execute", code=1)) == {("kept", "unfinished"): 4}
        asked = shop.command("serverStatus")["metrics"]["aggStageCounters"]["$currentOp"] - before
    # Reads that go on are looked for, too.
    assert 1 < asked <= 32, "sixteen times for all of them, not for each"


def test_collections_of_a_pattern_that_somebody_dropped(cluster, shop):
    with Operator(cluster, [PATTERN]) as of_pattern:
        for name in ("books", "brooks"):
            shop[name].insert_one({"_id": 1, "list": list(range(9))})
        of_pattern.run("migrate", "--execute", code=0)
        shop.brooks.drop()
        of_pattern.run("undo", "--execute", code=0)
    assert shop.list_collection_names() == ["books"]
    assert shop.client.spillway.rules.count_documents({}) == 0


def test_a_state_that_cannot_be_read_keeps_its_overflow(operator, shop):
    for identifier, state in enumerate(({"h": 3, "n": 9}, "x", {"h": 3, "g": 5}, {}, None)):
        spill(shop, identifier, list(range(12)))
        shop.books.update_one({"_id": identifier},
                              {"$set": {"_spill.list": state} if state is not None else {"_spill": 7}})
    shop.tails.create_index([("book", 1), ("_spill.i", 1)], unique=True)
    report = operator.run("undo", "--execute", code=1)
    assert ("corrupt", "corrupt") in found(report)
    assert shop.tails.count_documents({}) == 15


def test_a_place_where_migrate_stopped_is_forgotten(operator, shop):
    shop.books.insert_many({"_id": i, "list": list(range(9))} for i in range(5))
    operator.run("migrate", "--execute", code=0)
    limits = shop.client.spillway.rules.find_one()["limits"]
    stopped = {"$set": {"checkpoint": {"from": 4, "limits": limits}}}
    shop.client.spillway.rules.update_one({}, stopped)
    shop.tails.delete_one({"book": 0})  # corrupt: the record stays
    operator.run("undo", "--execute", code=1)
    assert "checkpoint" not in shop.client.spillway.rules.find_one()
    shop.client.spillway.rules.update_one({}, stopped)
    operator.run("migrate", "--execute", "--resume")
    assert not shop.books.find_one({"_id": 1}).get("_spill"), "it was told to go on behind that"
    shop.client.spillway.rules.update_one({}, stopped)
    operator.run("migrate", "--execute")
    assert "checkpoint" not in shop.client.spillway.rules.find_one()
    operator.run("migrate", "--execute", "--resume")
    assert shop.books.count_documents({"_spill": {"$exists": True}}) == 5


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_ended_in_the_middle_and_run_again(operator, shop, number):
    shop.books.insert_many(outliers.documents(250, 6))
    before = snapshot(shop)
    operator.run("migrate", "--execute", code=0)
    spilled = shop.books.count_documents({"_spill": {"$exists": True}})
    for share in (0.8, 0.4):
        undo = operator.start("undo", "--execute", "--rate", "100")
        wait_for(lambda: shop.books.count_documents({"_spill": {"$exists": True}}) < share * spilled, "some")
        undo.send_signal(number)
        undo.communicate()
        assert undo.returncode == (4 if number == signal.SIGINT else -9)
    operator.run("undo", "--execute", code=0)
    assert snapshot(shop) == before


def test_what_a_renamed_document_lacks_is_no_garbage(operator, shop):
    """Somebody gave it another _id straight at mongod: its overflow has no document, and it has no overflow."""
    shop.books.insert_many({"_id": each, "list": list(range(15))} for each in ("sound", "before"))
    operator.run("migrate", "--execute", code=0)
    shop.books.insert_one({**shop.books.find_one({"_id": "before"}), "_id": "renamed"})
    shop.books.delete_one({"_id": "before"})
    needed = list(shop.tails.find({"book": "before"}))
    assert needed and found(operator.run("undo", "--execute", code=1)) == {("corrupt", "corrupt"): 1}
    assert list(shop.tails.find()) == needed
    shop.tails.update_many({}, {"$set": {"book": "renamed"}})
    operator.run("undo", "--execute", code=0)
    assert [each["list"] for each in shop.books.find()] == [list(range(15))] * 2


def test_any_number_of_overflow_documents_may_have_one_number(cluster, shop):
    """As an application may have written them, that numbers nothing. The overflow is walked by its own index."""
    rule = {**RULE, "overflow": {**RULE["overflow"], "batch": {"size": 4, "field": "number"}}}
    shop.books.insert_one({"_id": "z", "list": list(range(9))})
    with Operator(cluster, [rule]) as operator:
        operator.run("migrate", "--execute", code=0)  # what tells whose the overflow is
        shop.tails.drop_indexes()
        shop.tails.create_index([("book", 1), ("number", 1)], name="of the application")
        shop.tails.insert_many({"book": "x", "part": [1], "number": 1} for _ in range(4500))
        shop.tails.insert_one({"book": "y", "part": [1], "number": 1, "_spill": {"g": generation(), "p": 0}})
        report = operator.run("undo", "--execute", code=1, timeout=60)
    assert found(report) == {("foreign", "unfinished"): 1}
    assert {each["book"] for each in shop.tails.find()} == {"x"}, "what belonged to nobody is gone"
