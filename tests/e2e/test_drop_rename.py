"""drop, renameCollection and dropDatabase of ruled namespaces: the overflow goes along, what is alive stays."""

import concurrent.futures
import threading

import pymongo
import pytest
from pymongo.errors import OperationFailure

from support import exact
from support.process import wait_for
from support.shim import Shim
from support.spillway import Spillway
from support.wire import MORE_TO_COME, Connection

LONG = list(range(40))


def rule(name, namespace, **options):
    return {"name": name, "namespace": namespace, "array": "list", "threshold": 3, "settle": "5ms", "quiet": "5ms",
            "gc_delay": "60s", "flag": {"field": "more", "value": True},
            "overflow": {"layout": "batches", "link": "main", "array": "part", "batch": {"size": 10}, **options}}


RULES = [
    rule("books", "shop.books"), rule("apart", "shop.apart", collection="elsewhere.apart_parts"),
    rule("tenants", "tenant_*.posts"), rule("many", "many.*"),
]


@pytest.fixture
def direct(cluster):
    with cluster.client() as made:
        for name in made.list_database_names():
            if name not in ("admin", "config", "local"):
                for collection in made[name].list_collection_names(filter={"type": "collection"}):
                    made[name][collection].delete_many({})
        yield made


def spill(collection, direct, number=1, elements=LONG):
    """Inserts documents with long arrays, and waits until their tails have moved."""
    collection.insert_many({"_id": i, "list": elements} for i in range(number))
    stored = direct[collection.database.name][collection.name]
    wait_for(lambda: stored.count_documents({"list": elements[:3]}) == number, "tails to move")


def refused(call, *words):
    with pytest.raises(OperationFailure) as caught:
        call()
    assert caught.value.code == 115
    for word in words:
        assert word in caught.value.details["errmsg"]


def test_a_drop_takes_the_overflow_along_at_once(client, direct):
    spill(client.shop.books, direct, 5)
    assert direct.shop.books_list_overflow.count_documents({}) == 20
    reply = client.shop.command({"drop": "books"})
    assert direct.shop.books_list_overflow.count_documents({}) == 0
    direct.shop.books.insert_one({"_id": 1})
    expected = direct.shop.command({"drop": "books"})
    assert reply.keys() == expected.keys() and (reply["ns"], reply["nIndexesWas"]) == ("shop.books", 1)
    with pytest.raises(OperationFailure) as caught:
        client.shop.command({"drop": "books"})
    assert caught.value.code == 26
    spill(client.shop.books, direct, 2)
    assert client.shop.books.find_one({"_id": 1}) == {"_id": 1, "list": LONG}


def test_a_drop_that_wants_no_answer_takes_it_along_and_gets_none(client, direct, spillway):
    spill(client.shop.books, direct, 5)
    with Connection(spillway.port) as connection:
        connection.call(exact.document({"drop": "books", "$db": "shop"}), flags=MORE_TO_COME)
        assert connection.command("admin", {"ping": 1}).keys() >= {"ok"}  # its answer is its own: it is behind the drop
    assert "books" not in direct.shop.list_collection_names()
    assert direct.shop.books_list_overflow.count_documents({}) == 0


def test_mongod_s_own_name_for_a_time_series_drops_no_ruled_collection(client, direct):
    spill(client.shop.books, direct)
    refused(lambda: client.shop.command({"drop": "system.buckets.books"}), "system.buckets.")
    assert client.shop.books.find_one() == {"_id": 0, "list": LONG}


def test_an_overflow_in_another_database_goes_with_its_main_collection_and_its_database(client, direct):
    spill(client.shop.apart, direct)
    client.shop.apart.drop()
    assert direct.elsewhere.apart_parts.count_documents({}) == 0
    spill(client.shop.apart, direct)
    client.drop_database("shop")
    wait_for(lambda: direct.elsewhere.apart_parts.count_documents({}) == 0, "the overflow to go")
    spill(client.shop.apart, direct)
    assert client.shop.apart.find_one() == {"_id": 0, "list": LONG}


def test_what_a_lost_reply_left_behind_goes_when_the_drop_is_tried_again(client, direct):
    spill(client.shop.books, direct)
    direct.shop.books.drop()
    with pytest.raises(OperationFailure):
        client.shop.command({"drop": "books"})
    assert direct.shop.books_list_overflow.count_documents({}) == 0


def test_documents_of_hand_made_splits_stay(client, direct):
    direct.shop.books_list_overflow.insert_one({"_id": "mine", "main": 5, "_spill": {"i": 1}})
    client.shop.books.insert_one({"_id": 1})
    client.shop.books.drop()
    assert direct.shop.books_list_overflow.find_one()["_id"] == "mine"
    direct.shop.books_list_overflow.delete_many({})


def test_collections_dropped_under_way_lose_nothing_that_comes_after(client, direct, spillway):
    """Drops and inserts of the same _id from several clients: what a client reads of a document is whole."""
    wrong = []

    def work(number):
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as own:
            for turn in range(25):
                elements = [f"{number}.{turn}.{i}" for i in range(30)]
                try:
                    own.shop.books.insert_one({"_id": number, "list": elements})
                    own.shop.books.update_one({"_id": number}, {"$push": {"list": "last"}})
                    for found in own.shop.books.find({"_id": number}):
                        if found["list"] not in (elements, [*elements, "last"]):
                            wrong.append(found)
                    if turn % 3 == 0:
                        own.shop.books.drop()
                    else:
                        own.shop.books.delete_one({"_id": number})
                except OperationFailure as error:
                    if error.code not in (112, 134, 175, 237, 11000):  # a cursor's collection was dropped
                        wrong.append(error.details)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    spill(client.shop.apart, direct)


def test_a_dropped_database_may_come_again_and_again(client, direct):
    for turn in range(8):
        posts = client[f"tenant_{turn % 2}"].posts
        spill(posts, direct, 3, LONG[turn:])
        assert [found["list"] for found in posts.find()] == [LONG[turn:]] * 3
        client.drop_database(posts.database.name)
        assert posts.database.name not in direct.list_database_names()
        # The index that keeps movers apart is made again before anything is stored.
    spill(client.tenant_1.posts, direct)
    assert any(index.get("unique") and list(index["key"])[0] == "main"
               for index in direct.tenant_1.posts_list_overflow.list_indexes())


def test_a_store_never_goes_into_an_overflow_collection_that_was_made_anew(client, direct, spillway):
    """Another mover than the one that saw the drop has its unique index in the collection that is gone."""
    spill(client.shop.books, direct)
    direct.shop.books_list_overflow.drop()
    direct.shop.books.delete_many({})
    spill(client.shop.books, direct)
    assert any(index.get("unique") for index in direct.shop.books_list_overflow.list_indexes())


def test_a_rename_away_from_its_rule_is_refused(client, direct):
    spill(client.shop.books, direct)
    refused(lambda: client.shop.books.rename("archive"), "'books'", "renameCollection", "same rules")
    refused(lambda: client.shop.archive.rename("books_list_overflow"), "overflow")
    assert client.shop.books.find_one()["list"] == LONG


@pytest.mark.parametrize("name", ["nodot", "", 5, "shop.", ".books"])
def test_a_rename_of_half_a_name_onto_a_ruled_one_fails_as_at_mongod(client, direct, name):
    command = {"renameCollection": name, "to": "shop.books"}
    errors = []
    client.shop.books.find_one()  # mongod is not asked about this connection's rights any more
    for side in (client, direct):
        with pytest.raises(pymongo.errors.OperationFailure) as failed:
            side.admin.command(dict(command))
        errors.append((failed.value.code, failed.value.details["errmsg"]))
    assert errors[0] == errors[1]


def test_a_rename_between_namespaces_of_one_rule(client, direct):
    client.many.one.insert_one({"_id": 1, "list": [1, 2]})
    client.many.one.rename("two")
    assert client.many.two.find_one() == {"_id": 1, "list": [1, 2]} and not client.many.one.find_one()
    spill(client.many.three, direct)
    refused(lambda: client.many.three.rename("four"), "'many'", "overflow", "stay behind")
    assert client.many.three.find_one()["list"] == LONG


def test_a_rename_goes_back_where_a_tail_moves_meanwhile(cluster, direct):
    """Between the look whether all is whole and the rename."""
    looked = threading.Event()

    def wait_for_the_move(request):
        if request.name == "renameCollection" and not request.is_question() and not looked.is_set():
            looked.set()
            wait_for(lambda: direct.many.five.find_one({"list": LONG[:3]}), "the tail to move")

    with Shim(cluster.primary.port, wait_for_the_move) as shim, Spillway([shim], [RULES[-1]]) as held, \
            pymongo.MongoClient("127.0.0.1", held.port, directConnection=True) as client:
        client.many.five.insert_one({"_id": 1, "list": []})
        with concurrent.futures.ThreadPoolExecutor(1) as other:
            renamed = other.submit(client.many.five.rename, "six")
            looked.wait()
            client.many.five.update_one({"_id": 1}, {"$push": {"list": {"$each": LONG}}})
            refused(renamed.result, "old name")
        assert client.many.five.find_one() == {"_id": 1, "list": LONG}
        assert not client.many.six.find_one()


def test_a_collection_may_be_renamed_onto_a_ruled_name(client, direct):
    spill(client.shop.books, direct, 3)
    client.shop.fresh.insert_many([{"_id": 0, "list": ["short"]}, {"_id": 5, "list": LONG}])
    with pytest.raises(OperationFailure) as caught:
        client.shop.fresh.rename("books")
    assert caught.value.code == 48  # the target exists, in mongod's own words
    reply = client.admin.command("renameCollection", "shop.fresh", to="shop.books", dropTarget=True)
    assert reply["ok"] == 1
    assert list(client.shop.books.find()) == [{"_id": 0, "list": ["short"]}, {"_id": 5, "list": LONG}]
    wait_for(lambda: direct.shop.books.find_one({"_id": 5})["list"] == LONG[:3], "the long array to move")
    # What belongs to documents that are there again is not removed before its time.
    assert direct.shop.books_list_overflow.distinct("main") == [0, 5]
    assert client.shop.books.find_one({"_id": 5})["list"] == LONG


def test_a_collection_from_another_database_may_take_a_ruled_name(client):
    client.plain.fresh.insert_one({"_id": 7, "list": LONG})
    client.admin.command("renameCollection", "plain.fresh", to="shop.books", dropTarget=True)
    assert client.shop.books.find_one({"_id": 7})["list"] == LONG


def test_documents_with_a_state_that_is_not_theirs_take_no_ruled_name(client, direct):
    direct.shop.copied.insert_one({"_id": 1, "list": [], "_spill": {"list": {"n": 5}}})
    refused(lambda: client.shop.copied.rename("books", dropTarget=True), "renameCollection")
    assert direct.shop.copied.find_one()
