"""Indexes on a ruled array have their likes on the overflow; clients see those of the main collection only."""

import re

import pymongo
import pytest
from pymongo.errors import OperationFailure

from support.cluster import Cluster
from support.process import wait_for

pytestmark = pytest.mark.share(3)
LONG = [{"isbn": number, "by": {"name": f"N{number}"}} for number in range(40)]
OVERFLOW = "books_list_overflow"
RULES = [
    {"name": name.strip("*"), "namespace": f"shop.{name}", "array": array, "threshold": 3, "settle": "5ms",
     "gc_delay": "0s",
     "overflow": {"layout": "batches", "link": "main", "array": "part", "batch": {"size": 10}, **options}}
    for name, array, options in (
        ("books", "list", {}), ("deep", "a.list", {}), ("early", "list", {}),
        ("seen*", "list", {}), ("chosen", "list", {"indexes": [{"keys": {"part.isbn": 1}}]}), ("asked", "list", {}),
    )
]
RULES[-1]["gc_delay"] = "1m"  # without it the overflow is not asked
RULES += [{**RULES[0], "name": array, "namespace": "shop.both", "array": array} for array in ("list", "a.list")]


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as made:
        with made.client() as direct:
            direct.shop.early.create_index("list.isbn")
        yield made


@pytest.fixture
def books(client):
    yield client.shop.books
    client.shop.books.drop_indexes()
    client.shop.books.drop()


def keys(collection):
    """{name: [(field, direction)]} of all indexes but those that are always there."""
    return {name: index["key"] for name, index in collection.index_information().items()
            if name != "_id_" and not name.startswith("main_1__spill")}


def likes(direct, name=OVERFLOW):
    return {name.removeprefix("spillway:"): key for name, key in keys(direct.shop[name]).items()}


MADE = {
    "single": ([("list.isbn", 1)], {}, [("part.isbn", 1)]),
    "of whole elements": ([("list", -1)], {}, [("part", -1)]),
    "compound": ([("title", 1), ("list.isbn", 1), ("year", -1), ("list.by.name", -1)], {},
                 [("part.isbn", 1), ("part.by.name", -1)]),
    "partial": ([("list.isbn", 1)], {"partialFilterExpression": {"year": {"$gt": 5}}}, [("part.isbn", 1)]),
    "wildcard below": ([("list.$**", 1)], {}, [("part.$**", 1)]),
    "all fields": ([("$**", 1)], {}, None),
    "elsewhere": ([("title", 1)], {"unique": True}, None),
    "a name alike": ([("listed", 1)], {}, None),
}


@pytest.mark.parametrize("case", MADE)
def test_an_index_on_the_array_is_made_on_the_overflow(books, direct, case):
    key, options, like = MADE[case]
    name = books.create_index(key, **options)
    assert keys(books) == {name: key}
    assert likes(direct) == ({name: like} if like else {})
    assert name not in keys(direct.shop[OVERFLOW])
    books.drop_index(name)
    assert keys(books) == {} and likes(direct) == {}


def test_options_that_matter_are_kept(books, direct):
    collation = {"locale": "de", "strength": 2}
    books.create_index("list.isbn", name="s", sparse=True)
    books.create_index("list.by.name", name="c", collation=collation)
    books.create_index("list.by", name="h", hidden=True)
    made = direct.shop[OVERFLOW].index_information()
    assert made["spillway:s"]["sparse"] and made["spillway:h"]["hidden"]
    assert made["spillway:c"]["collation"] == books.index_information()["c"]["collation"]
    assert len(made) == 5


def test_several_at_once_and_each_way_to_drop_them(books, direct):
    books.create_indexes([pymongo.IndexModel("list.isbn"), pymongo.IndexModel("list.by"), pymongo.IndexModel("title")])
    assert set(likes(direct)) == {"list.isbn_1", "list.by_1"}
    books.drop_index([("list.by", 1)])
    assert set(likes(direct)) == {"list.isbn_1"}
    books.create_index("list.by.name")
    books.database.command("dropIndexes", "books", index=["list.isbn_1", "list.by.name_1"])
    assert likes(direct) == {}
    books.create_index("list.isbn")
    books.drop_indexes()
    assert keys(books) == {} and likes(direct) == {}


def made(*indexes, **more):
    return {"createIndexes": "@", "indexes": [{"name": "n", **index} for index in indexes], **more}


PRESENT = {"partialFilterExpression": {"list": {"$exists": True}}}
SAME = {"key": {"list": 1}}
ANSWERED = [
    made(SAME), made(SAME), made(SAME, SAME), made(SAME, {"key": {"title": 1}, "name": "t"}), made({"key": {"_id": 1}}),
    made({"key": {"list": 1}, "name": "other"}), made({"key": {"list.isbn": 1}}),
    made({"key": {"list": 1}, "name": "s", "sparse": True}), made({"key": {"list": 1}, "name": "s", "sparse": True}),
    made({"key": {"list": 1}, "name": "p", **PRESENT}), made({"key": {"list": 1}, "name": "p", **PRESENT}),
    made({"key": {"list": 1, "title": 1}, "name": "q", **PRESENT}, SAME), made({"key": {"list": "nonsense"}}),
    made({"key": {"list": 1}, "name": "x", "nonsense": 1}), made({"key": {}, "name": "x"}), made({"name": "x"}),
    made({"key": {"list": 1}, "name": ""}), made({"key": {"list": 0}, "name": "x"}), made(),
    made({"key": {"list": 1}, "name": "x", "sparse": True, **PRESENT}), made({"key": {"list": "hashed"}, "name": "h"}),
    made({"key": {"list": 1}, "name": "y", "partialFilterExpression": {"list": {"$exists": False}}}),
    made({"key": {"at": 1}, "name": "z", "partialFilterExpression": {"list": {"$size": 3}}}),
    made({"key": {"title": 1}, "name": "u", "unique": True, **PRESENT}),
    made({"key": {"title": 1}, "name": "u", "unique": True}), made({"key": {"title": 1}, "name": "u", **PRESENT}),
    made({"key": {"late": 1}, "name": "l"}, commitQuorum=1), made({"key": {"late": 1}, "name": "l"}, commitQuorum=9),
    made({"key": {"later": 1}, "name": "m"}, commitQuorum="nonsense"), made(SAME, nonsense=1),
    {"createIndexes": "@", "indexes": 5}, {"createIndexes": "@"}, {"listIndexes": "@"},
    {"dropIndexes": "@", "index": "n"}, {"dropIndexes": "@", "index": "n"}, made(SAME),
    {"dropIndexes": "@", "index": "*"},
]


def answer(database, command, name):
    """Without times and UUIDs, and as if the collection were called @."""
    reply = database.command({key: name if value == "@" else value for key, value in command.items()}, check=False)
    shown = {key: value for key, value in reply.items() if key not in ("$clusterTime", "operationTime")}
    shown = re.sub("[0-9a-f]{8}-[0-9a-f-]{27}", "UUID", str(shown))
    return shown.replace(f"shop.{name}", "shop.@").replace(f"'{name}'", "'@'")


def test_the_replies_are_mongod_s(books, direct):
    """Of a collection that is not there, then of one that has an outlier."""
    for turn in range(2):
        direct.shop.plain.drop()
        if turn:
            direct.shop.plain.insert_one({"_id": 1, "list": LONG})
            books.insert_one({"_id": 1, "list": LONG})
            wait_for(lambda: direct.shop.books.count_documents({"list": LONG[:3]}) == 1, "the tail to move")
        for number, command in enumerate(ANSWERED):
            mine, theirs = answer(books.database, command, "books"), answer(direct.shop, command, "plain")
            assert mine == theirs, (number, command)


REFUSED = {
    "unique": ({"key": {"list.isbn": 1}, "unique": True}, "unique"),
    "unique where": ({"key": {"title": 1}, "unique": True, "partialFilterExpression": {"list.isbn": {"$gt": 9}}},
                     "unique"),
    "TTL": ({"key": {"list.at": 1}, "expireAfterSeconds": 5}, "TTL"),
    "TTL where": ({"key": {"at": 1}, "expireAfterSeconds": 5, "partialFilterExpression": {"list": 3}}, "TTL"),
    "unique to be": ({"key": {"list.isbn": 1}, "prepareUnique": True}, "unique"),
    "text": ({"key": {"list.by": "text"}}, "text"),
    "text of all": ({"key": {"$**": "text"}}, "text"),
    "geo": ({"key": {"list.at": "2dsphere"}}, "geo"),
    "several where": ({"key": {"list": 1, "x": 1}, "partialFilterExpression": {"list.isbn": {"$gt": 9}}}, "partial"),
    "parallel where": ({"key": {"list.isbn": 1, "list.by": 1}, "partialFilterExpression": {"x": 1}}, "two paths"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_index_that_needs_the_whole_array_is_refused(books, case):
    index, word = REFUSED[case]
    with pytest.raises(OperationFailure) as caught:
        books.database.command("createIndexes", "books", indexes=[{**index, "name": "x"}])
    assert caught.value.code == 115 and word in caught.value.details["errmsg"]
    assert keys(books) == {}


OTHERWISE = {"unique": "$addToSet", "TTL": "outside the array", "text": "outside the array", "geo": "outside the array",
             "partial": "by other fields", "two paths": "one index for each path"}


def test_the_refusal_names_another_way(books):
    for index, word in REFUSED.values():
        reply = books.database.command("createIndexes", "books", indexes=[{**index, "name": "x"}], check=False)
        assert reply["code"] == 115 and OTHERWISE[word] in reply["errmsg"]


# By the names of the fields in NodeBB, which makes {members: 1, _key: 1} so.
PARTIAL = {
    "there": ([("list", 1), ("key", 1)], {"list": {"$exists": True}}),
    "an array": ([("key", 1), ("list.isbn", -1)], {"list": {"$type": "array"}, "key": {"$gt": "a"}}),
    "elsewhere": ([("key", 1)], {"$or": [{"list": {"$exists": True}}, {"key": "b"}]}),
    "by elements": ([("list.isbn", 1)], {"list.isbn": {"$gte": 20}}),
    "by whole elements": ([("list", 1)], {"list": {"$gte": {"isbn": 38}}}),
    "by an element, elsewhere": ([("key", 1)], {"list.isbn": 38}),
    "by a position": ([("list", 1)], {"list.30": {"$exists": True}}),
}
ASKED_WITH = [{}, {"list": {"$exists": True}}, {"list": LONG[38]}, {"list.isbn": 38}, {"list.isbn": {"$gte": 30}},
              {"list.isbn": {"$gte": 20}, "key": {"$gt": "a"}}, {"key": "b"}, {"key": "b", "list.isbn": 38},
              {"key": {"$gt": "b"}, "list": {"$type": "array"}}, {"list.30": {"$exists": True}},
              {"list": {"$elemMatch": {"isbn": {"$gt": 37}}}}, {"list.isbn": {"$not": {"$gte": 20}}}, {"list": None}]
ELEMENTS = [LONG, LONG[:30], LONG[30:], LONG[:2], [], None, 7, [LONG[38]] * 6]


def found(collection, query, **options):
    return sorted(document["_id"] for document in collection.find(query, **options))


@pytest.mark.parametrize("case", PARTIAL)
def test_a_partial_index_by_the_array_changes_no_answer(books, direct, case):
    key, condition = PARTIAL[case]
    plain = direct.shop.plain
    plain.drop()
    name = plain.create_index(key, partialFilterExpression=condition)
    assert books.create_index(key, partialFilterExpression=condition) == name
    documents = [{"_id": i, "key": "abc"[i % 3], "list": ELEMENTS[i % 8]} for i in range(24)]
    for collection in (books, plain):
        collection.insert_many([*documents, {"_id": 24, "key": "b"}])
    wait_for(lambda: not direct.shop.books.count_documents({"list.3": {"$exists": True}}), "tails to move")
    for collection in (books, plain):
        collection.update_many({"key": "c"}, {"$set": {"key": "b"}})
        collection.update_many({"_id": {"$in": [0, 3]}}, {"$push": {"list": {"isbn": 50}}})
    exact = case in ("there", "an array", "elsewhere")
    for query in ASKED_WITH:
        assert found(books, query) == found(plain, query), query
        for hint in (name, key):
            if exact:
                assert found(books, query, hint=hint) == found(plain, query, hint=hint), (query, hint)
                assert books.count_documents(query, hint=hint) == plain.count_documents(query, hint=hint)
            else:
                with pytest.raises(OperationFailure) as caught:
                    found(books, query, hint=hint)
                assert caught.value.code == 115 and "partial index" in caught.value.details["errmsg"]


def test_a_unique_index_of_documents_with_the_array_holds(books, direct):
    books.create_index("key", unique=True, **PRESENT)
    books.insert_many([{"_id": 1, "key": 1, "list": LONG}, {"_id": 2, "key": 1}])
    wait_for(lambda: direct.shop.books.count_documents({"list": LONG[:3]}) == 1, "the tail to move")
    for write in (lambda: books.insert_one({"key": 1, "list": []}),
                  lambda: books.update_one({"_id": 2}, {"$push": {"list": 1}})):
        with pytest.raises(OperationFailure) as caught:
            write()
        assert caught.value.code == 11000
    books.update_one({"_id": 1}, {"$unset": {"list": 1}})
    books.update_one({"_id": 2}, {"$push": {"list": 1}})


NEW_OPTIONS = {"TTL": {"expireAfterSeconds": 5}, "unique": {"prepareUnique": True}}


@pytest.mark.parametrize("word", NEW_OPTIONS)
@pytest.mark.parametrize("named", [{"name": "x"}, {"keyPattern": {"list.at": 1}}], ids=str)
def test_no_index_is_made_one_that_needs_the_whole_array(books, named, word):
    books.create_index("list.at", name="x")
    books.create_index("at", name="y", expireAfterSeconds=9)
    with pytest.raises(OperationFailure) as caught:
        books.database.command("collMod", "books", index={**named, **NEW_OPTIONS[word]})
    assert caught.value.code == 115 and word in caught.value.details["errmsg"]
    books.database.command("collMod", "books", index={"name": "y", "expireAfterSeconds": 99})
    books.database.command("collMod", "books", index={**named, "hidden": True})
    assert books.index_information()["y"]["expireAfterSeconds"] == 99


HINTED = {
    "find": lambda books, hint: list(books.find({"list.isbn": 39}, hint=hint)),
    "find of other fields": lambda books, hint: list(books.find({}, {"_id": 1}, hint=hint)),
    "count": lambda books, hint: books.count_documents({"n": 1}, hint=hint),
    "aggregate": lambda books, hint: list(books.aggregate([{"$match": {"n": 1}}], hint=hint)),
    "update": lambda books, hint: books.update_many({"list.isbn": 39}, {"$set": {"n": 2}}, hint=hint),
    "delete": lambda books, hint: books.delete_many({"list.isbn": 39}, hint=hint),
    "findAndModify": lambda books, hint: books.find_one_and_delete({"n": 1}, hint=hint),
    "explain": lambda books, hint: books.find({"n": 1}, hint=hint).explain(),
}


@pytest.mark.parametrize("command", HINTED)
def test_a_hint_of_an_index_that_lacks_what_moved_is_refused(books, direct, command):
    books.insert_one({"_id": 1, "n": 1, "list": LONG})
    wait_for(lambda: direct.shop.books.count_documents({"list": LONG[:3]}) == 1, "the tail to move")
    books.create_index("list.late", name="s", sparse=True)
    for hint in ("s", {"list.late": 1}):
        with pytest.raises(OperationFailure) as caught:
            HINTED[command](books, hint)
        assert caught.value.code == 115 and "sparse" in caught.value.details["errmsg"]
    books.create_index("list.$**", name="w")
    for hint in ("w", {"list.$**": 1}):
        wrong = command not in ("find", "update", "delete")  # mongod can't answer them by that index
        with pytest.raises(OperationFailure) as caught:
            HINTED[command](books, hint)
        assert caught.value.code == (291 if wrong else 115), caught.value.details
    books.create_index("n", sparse=True)
    books.create_index("list", name="whole", sparse=True)
    assert [found["_id"] for found in books.find({}, hint="whole")] == [1]
    assert [found["_id"] for found in books.find({"n": 1}, hint="n_1")] == [1]
    assert books.count_documents({"list.isbn": 39}) == 1


def test_a_hint_of_a_sparse_index_of_several_arrays_needs_the_name_of_each(client, direct):
    both = client.shop.both
    both.insert_many([
        {"_id": 1, "n": 1, "list": LONG}, {"_id": 2, "n": 1, "a": {"list": LONG}}, {"_id": 3, "n": 1},
        {"_id": 4, "n": 1, "list": []}, {"_id": 5, "n": 1, "a": {"list": []}},
    ])
    wait_for(lambda: direct.shop.both.count_documents({"$or": [{"list": LONG[:3]}, {"a.list": LONG[:3]}]}) == 2,
             "the tails to move")
    for there, paths in (([1, 4], ["list"]), ([2, 5], ["a.list"]), ([2, 5], ["a"]), ([1, 2, 4, 5], ["list", "a.list"]),
                         ([1, 2, 4, 5], ["list", "a"])):
        both.create_index([(path, 1) for path in paths], name="s", sparse=True)
        assert sorted(found["_id"] for found in both.find({"n": 1}, hint="s")) == there, paths
        both.drop_index("s")
    for paths in (["list.isbn"], ["list", "a.list.isbn"], ["a", "list.isbn"]):
        both.create_index([(path, 1) for path in paths], name="s", sparse=True)
        with pytest.raises(OperationFailure) as caught:
            both.count_documents({"n": 1}, hint="s")
        assert caught.value.code == 115 and "sparse" in caught.value.details["errmsg"]
        both.drop_index("s")


@pytest.mark.parametrize("command", HINTED)
def test_an_index_made_elsewhere_is_looked_up_before_a_hint_passes(books, direct, command):
    books.insert_one({"_id": 1, "n": 1, "list": LONG})
    wait_for(lambda: direct.shop.books.count_documents({"list": LONG[:3]}) == 1, "the tail to move")
    for wrong in ("s", {"list.late": -1}):
        with pytest.raises(OperationFailure) as absent:
            HINTED[command](books, wrong)
        assert absent.value.code in (2, 17007), "as mongod says"
    direct.shop.books.create_index("list.late", name="s", sparse=True)
    with pytest.raises(OperationFailure) as caught:
        HINTED[command](books, "s")
    assert caught.value.code == 115 and "sparse" in caught.value.details["errmsg"]
    with pytest.raises(OperationFailure) as other_way:
        HINTED[command](books, {"list.late": -1})
    assert other_way.value.code in (2, 17007)


def test_a_hint_on_a_collection_that_was_never_seen_is_looked_up(client, direct):
    direct.shop.drop_collection("seen_first")
    direct.shop.seen_first.insert_one({"_id": 1, "list": LONG})
    direct.shop.seen_first.create_index("list.late", sparse=True)
    with pytest.raises(OperationFailure) as caught:
        list(client.shop.seen_first.find({"list.isbn": 39}, hint="list.late_1"))
    assert caught.value.code == 115 and "sparse" in caught.value.details["errmsg"]
    assert client.shop.seen_first.count_documents({}, hint="_id_") == 1


def test_long_arrays_are_moved_read_and_found_beneath_them(books, direct):
    books.create_index("list.isbn")
    books.insert_many([{"_id": i, "list": LONG} for i in range(3)])
    wait_for(lambda: direct.shop.books.count_documents({"list": LONG[:3]}) == 3, "tails to move")
    assert books.count_documents({"list.isbn": 39}) == 3
    explained = direct.shop[OVERFLOW].find({"part.isbn": 39}).explain()
    assert explained["queryPlanner"]["winningPlan"]["inputStage"]["indexName"] == "spillway:list.isbn_1"


def plans(document, name):
    """Each value of this name within a document."""
    if isinstance(document, dict):
        yield from (value for key, value in document.items() if key == name)
    if isinstance(document, (dict, list)):
        for inner in document.values() if isinstance(document, dict) else document:
            yield from plans(inner, name)


def test_an_index_has_finds_ask_the_overflow_first(client, direct):
    asked, main = client.shop.asked, direct.shop.asked
    asked.insert_many([{"_id": i, "even": i % 2 == 0,
                        "list": [{"isbn": 100 * i + n} for n in range(40 if i % 10 == 0 else 2)]}
                       for i in range(200)])
    wait_for(lambda: main.count_documents({"_spill.list.n": 37}) == 20, "tails to move")
    query = {"list.isbn": {"$gte": 9030, "$lt": 9040}, "even": True}
    assert "$unionWith" not in str(asked.find(query).explain())
    assert [found["_id"] for found in asked.find(query)] == [90]
    name = asked.create_index("list.isbn")
    explained = asked.find(query).explain()
    assert set(plans(explained, "indexName")) >= {name, f"spillway:{name}"}
    [found] = asked.find(query)
    assert found == {"_id": 90, "even": True, "list": [{"isbn": 9000 + n} for n in range(40)]}
    direct.shop.command("profile", 1, filter={"command.comment": "by its tail"})
    assert list(asked.find({"list.isbn": 9035, "even": True}, {"even": 1},
                           comment="by its tail")) == [{"_id": 90, "even": True}]
    direct.shop.command("profile", 0)
    assert [next(iter(entry["command"])) for entry in direct.shop["system.profile"].find()] == ["aggregate", "find"]
    assert list(asked.find({"list.isbn": 9035, "even": False}, {"even": 1})) == []
    asked.drop_index(name)
    assert "$unionWith" not in str(asked.find(query).explain())
    assert asked.distinct("_id", query) == [90]


IN_TRANSACTIONS = [{"list.isbn": 5039}, {"list.isbn": {"$gte": 5030}, "_id": {"$lt": 60}},
                   {"list": {"$elemMatch": {"isbn": 5001}}}]


@pytest.mark.parametrize("query", IN_TRANSACTIONS, ids=str)
def test_an_element_is_found_in_a_transaction(client, direct, query):
    asked, main = client.shop.asked, direct.shop.asked
    asked.drop()
    asked.insert_many([{"_id": i, "list": [{"isbn": 100 * i + n} for n in range(40)]} for i in range(40, 70)])
    wait_for(lambda: main.count_documents({"_spill.list.n": 37}) == 30, "tails to move")
    asked.create_index("list.isbn")
    expected = list(asked.find(query, sort=[("_id", 1)]))
    assert expected
    with client.start_session() as session, session.start_transaction():
        assert list(asked.find(query, sort=[("_id", 1)], session=session)) == expected
        assert [found["_id"]
                for found in asked.find(query, {"_id": 1}, session=session)] == [found["_id"] for found in expected]
        asked.update_one({"_id": 50}, {"$push": {"list": {"isbn": 5039, "new": True}}}, session=session)
        assert asked.distinct("_id", query, session=session) == [found["_id"] for found in expected]
    assert asked.find_one({"_id": 50})["list"][-1]["new"]


def test_indexes_that_are_there_at_the_start_have_their_likes(direct):
    wait_for(lambda: likes(direct, "early_list_overflow") == {"list.isbn_1": [("part.isbn", 1)]}, "the index")


def test_a_nested_array_and_an_index_that_the_rule_has_made_already(client, direct):
    client.shop.deep.create_index([("a.list.x", 1), ("a.other", 1)])
    assert likes(direct, "deep_a_list_overflow") == {"a.list.x_1_a.other_1": [("part.x", 1)]}
    client.shop.deep.drop_indexes()
    client.shop.deep.create_index("a")
    assert likes(direct, "deep_a_list_overflow") == {}
    client.shop.chosen.create_index("list.isbn")
    assert keys(direct.shop.chosen_list_overflow) == {"part.isbn_1": [("part.isbn", 1)]}
    client.shop.chosen.drop_indexes()
    assert keys(direct.shop.chosen_list_overflow) == {"part.isbn_1": [("part.isbn", 1)]}


def test_a_dropped_collection_s_indexes_go_with_it(books, direct):
    books.create_index("list.isbn")
    books.drop()
    books.create_index("list.by")
    assert set(likes(direct)) == {"list.by_1"}
    books.insert_one({"_id": 1, "list": LONG})
    wait_for(lambda: direct.shop.books.find_one()["list"] == LONG[:3], "the tail to move")


def test_a_hint_of_the_arrays_index_changes_no_answer(client, direct):
    """The overflow is asked; documents that it names are found without the hint."""
    books = client.shop.asked
    books.drop()
    books.create_index([("list.isbn", 1), ("n", 1)], name="by_isbn")
    books.insert_many([{"_id": 1, "n": 1, "list": LONG}, {"_id": 2, "n": 2, "list": LONG[30:32]},
                       {"_id": 3, "n": 3, "list": LONG[:35]}])
    wait_for(lambda: direct.shop.asked.count_documents({"_spill.list.n": {"$gt": 0}}) == 2, "the tails to move")
    for isbn, ids in ((39, [1]), (31, [1, 2, 3]), (1, [1, 3]), (99, [])):
        for query in ({"list.isbn": isbn}, {"list.isbn": isbn, "n": {"$gte": 0}}):
            for hint in ("by_isbn", {"list.isbn": 1, "n": 1}):
                assert sorted(found["_id"] for found in books.find(query, {"n": 1}, hint=hint)) == ids
                assert sorted(len(found["list"]) for found in books.find(query, hint=hint)) == sorted(
                    {1: 40, 2: 2, 3: 35}[number] for number in ids)
                assert books.count_documents(query, hint=hint) == len(ids)
                assert len(list(books.aggregate([{"$match": query}], hint=hint))) == len(ids)
    for hint in ("none", {"list.isbn": -1}):
        with pytest.raises(OperationFailure) as caught:
            list(books.find({"list.isbn": 39}, hint=hint))
        assert caught.value.code == 2
    assert [found["_id"] for found in books.find({"n": 2}, hint={"list.isbn": 1, "n": 1})] == [2]
