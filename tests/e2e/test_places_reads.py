"""Reads that mongod answers otherwise in another place (docs/internals/mongod.md): the same as mongod, or refused."""

import uuid

import pytest
from bson import Binary, Decimal128, Int64, MaxKey, MinKey

from support import exact, share
from support.exact import UNDEFINED, Raw
from support.twins import PLAIN, twins

NESTED = [
    {}, {"list": None}, {"list": Raw(UNDEFINED)}, {"list": 5}, {"list": {"b": 1}}, {"list": {"b": []}},
    {"list": {"b": [[1, 2], 3]}},
    {"list": []}, {"list": [[]]}, {"list": [1, [2, [3]]]}, {"list": [None, "x", {}, "y"]}, {"list": [{"b": "x"}]},
    {"list": [{"b": "x"}, {}, 7, {"b": "y"}]},
    {"list": [{"b": []}, {"b": [[4]]}, {"b": None}, {"b": Raw(UNDEFINED)}]},
    {"list": [[{"b": 9}], {"b": 8}, {"c": 8}, {"b": {"c": 1}}]},
    {"list": [{"b": [{"c": []}, {"c": [5, [6]]}, 3]}, {"b": {"c": None}}, {"b": [[{"c": 4}]]}]},
]
SIMPLE, ENGLISH = {"locale": "simple"}, {"locale": "en", "strength": 1}
REFUSED = 115


@pytest.fixture(scope="module")
def arms():
    with twins(ruled=share.part(("soon2", "rest2"), every=("soon2", "rest0", "rest2"))) as made:
        yield made


def _documents(contents):
    return [{"_id": number, **fields} for number, fields in enumerate(contents)]


def _fill(arms, documents):
    """Their tails have moved once it returns. Reads change nothing, so no question waits again."""
    arms.fill(documents)
    arms.settle()


def _ask(arms, command):
    """What mongod answers, and what Spillway does in each arm."""
    replies = {arm.name: arm.call(command) for arm in arms.arms}
    return replies.pop(PLAIN), list(replies.values())


def _code(reply):
    code = exact.get(reply, "code")
    return exact.plain(code) if code else 0


def _same(arms, command):
    expected, found = _ask(arms, command)
    assert [exact.show_document(each) for each in found] == [exact.show_document(expected)] * len(found), command
    return expected


def _refused(arms, command, why):
    expected, found = _ask(arms, command)
    assert _code(expected) == 0, exact.show_document(expected)
    for each in found:
        assert _code(each) == REFUSED and why in exact.plain(exact.get(each, "errmsg")), exact.show_document(each)


@pytest.fixture
def index(arms):
    """Makes indexes in all arms; they are gone behind the test."""
    def make(*indexes):
        named = [{"name": f"index{number}", **each} for number, each in enumerate(indexes)]
        for arm in arms.arms:
            assert _code(arm.call({"createIndexes": "books", "indexes": named})) == 0
    yield make
    for arm in arms.arms:
        assert _code(arm.call({"dropIndexes": "books", "index": "*"})) == 0


@pytest.mark.share(5)
@pytest.mark.parametrize("options", [{}, {"sparse": True}, {"hidden": True}, {"partialFilterExpression": {"n": 1}}],
                         ids=str)
@pytest.mark.parametrize("path", ["list", "list.b", "list.b.c"])
def test_a_distinct_without_a_query_has_what_an_index_has(arms, index, path, options):
    """mongod answers from the index's keys: null for what is missing, undefined for an empty array."""
    index({"key": {path: -1}, **options})
    for documents in (NESTED, *([each] for each in NESTED)):
        _fill(arms, _documents(documents))
        for more in ({}, {"query": {}}, {"query": {"n": None}}, {"collation": SIMPLE}):
            _same(arms, {"distinct": "books", "key": path, **more})


def test_a_distinct_through_an_index_has_null_for_an_empty_array(arms, index):
    _fill(arms, [{"_id": 1, "list": [{"b": "x"}]}, {"_id": 2, "list": []}])
    assert exact.plain(exact.get(_same(arms, {"distinct": "books", "key": "list.b"}), "values")) == ["x"]
    index({"key": {"list.b": 1}})
    assert exact.plain(exact.get(_same(arms, {"distinct": "books", "key": "list.b"}), "values")) == [None, "x"]


def test_a_distinct_takes_an_index_that_begins_with_the_path(arms, index):
    index({"key": {"list.b": 1, "n": 1}}, {"key": {"n": 1, "list.c": 1}})
    _fill(arms, _documents(NESTED))
    for path in ("list.b", "list.c", "list", "list.0.b", "list.b.0"):
        _same(arms, {"distinct": "books", "key": path})


def test_a_distinct_by_a_sparse_index_of_several_fields_is_refused(arms, index):
    index({"key": {"list.b": 1, "n": 1}, "sparse": True})
    _fill(arms, _documents(NESTED))
    _refused(arms, {"distinct": "books", "key": "list.b"}, "sparse index")
    _same(arms, {"distinct": "books", "key": "list.b", "query": {"_id": {"$gte": 0}}})


def test_null_under_an_index_with_a_collation_is_refused(arms, index):
    """mongod reads one document for each key: whether it has null or lacks the field is chance."""
    index({"key": {"list.b": 1}, "collation": ENGLISH})
    _fill(arms, _documents([{"list": [{"b": "x"}, {"b": "y"}]}, {"list": []}, {}]))
    _same(arms, {"distinct": "books", "key": "list.b", "collation": ENGLISH})
    _same(arms, {"distinct": "books", "key": "list.b"})
    _fill(arms, _documents([{"list": [{"b": "x"}, {"b": None}, {"b": "y"}]}, {"list": []}]))
    _refused(arms, {"distinct": "books", "key": "list.b", "collation": ENGLISH}, "add a query")
    _same(arms, {"distinct": "books", "key": "list.b", "collation": ENGLISH, "query": {"_id": {"$gte": 0}}})


# What a stage wants of later ones: mongod projects the documents before the stage reads them.
DOCUMENTS_ALONE = [{"list": [{"b": 3}, {"b": 1, "c": 2}, {"b": 4}]}, {"list": [{"b": 1}, {"b": 2}]},
                   {"list": [{"b": 2}]},
                   {"list": [{"b": [5, 0]}, {"b": 7}, {"c": 1}]}, {"list": []}, {}]
MIXED = [{"list": [{"b": 3}, 5, {"b": 0}]}, {"list": [5, {"b": 1}]}, {"list": [[{"b": 1}], {"b": 2}]},
         {"list": [{"b": -1}, None, 7, 8]}]
WANTS_SOME = [[{"$project": {"r": 1}}], [{"$group": {"_id": "$r"}}, {"$sort": {"_id": 1}}],
              [{"$replaceWith": {"i": "$_id", "r": "$r"}}],
              [{"$unwind": "$n"}, {"$project": {"r": 1}}]]
COUNTED = {"r": {"$push": "$_id", "window": {"documents": ["unbounded", "current"]}}}


def _by_path(path):
    order = {path: 1, "_id": 1}
    return [
        [{"$set": {"n": 1}}, {"$sort": order}, {"$group": {"_id": None, "r": {"$push": "$_id"}}}],
        [{"$setWindowFields": {"sortBy": order, "output": COUNTED}}],
        [{"$setWindowFields": {"partitionBy": "$n", "sortBy": {path: 1}, "output": {"r": {"$denseRank": {}}}}}],
        [{"$set": {"r": "$_id"}}, {"$fill": {"sortBy": order, "output": {"r": {"method": "locf"}}}},
         {"$group": {"_id": None, "r": {"$push": "$r"}}}],
        [{"$densify": {"field": path, "range": {"step": 1, "bounds": "full"}}},
         {"$group": {"_id": None, "r": {"$push": "$_id"}}}],
    ]


def _by_position(path):
    joined = {"from": "books", "localField": path, "foreignField": "n", "as": "joined"}
    return [*_by_path(path), [{"$lookup": joined}, {"$set": {"r": {"$size": "$joined"}}}],
            [{"$lookup": {**joined, "pipeline": [{"$project": {"_id": 1}}]}}, {"$set": {"r": "$joined._id"}}]]


def _same_or_refused(arms, pipeline, why):
    """Whether it was refused."""
    command = {"aggregate": "books", "pipeline": pipeline, "cursor": {}}
    expected, found = _ask(arms, command)
    wrong = [exact.show_document(each) for each in found
             if each != expected and not (_code(each) == REFUSED and why in exact.plain(exact.get(each, "errmsg")))]
    assert not wrong, f"{pipeline}: {exact.show_document(expected)}, Spillway: {wrong}"
    return all(_code(each) == REFUSED for each in found)


def test_stages_that_go_by_a_position_are_the_same_or_refused_where_later_ones_want_some_fields(arms):
    _fill(arms, [{"n": number % 3, **each} for number, each in enumerate(_documents(DOCUMENTS_ALONE))])
    refused = [_same_or_refused(arms, [*stages, *last], "position")
               for path in ("list.0.b", "list.1", "list.b.0") for stages in _by_position(path)
               for last in (*WANTS_SOME, [])]
    assert any(refused) and not all(refused)


def test_stages_that_go_by_a_path_are_the_same_or_refused_where_later_ones_want_some_fields(arms):
    _fill(arms, [{"n": number % 3, **each} for number, each in enumerate(_documents(DOCUMENTS_ALONE))])
    for stages in _by_path("list.b"):
        for last in WANTS_SOME:
            assert not _same_or_refused(arms, [*stages, *last], "nothing")
    _fill(arms, [{"n": number % 3, **each} for number, each in enumerate(_documents(DOCUMENTS_ALONE + MIXED))])
    assert all(_same_or_refused(arms, [*stages, *last], "no documents") for stages in _by_path("list.b")
               for last in WANTS_SOME)


@pytest.mark.parametrize("word", ["indexKey", "recordId"])
def test_what_the_plan_tells_of_an_image_is_refused(arms, word):
    _fill(arms, _documents(DOCUMENTS_ALONE))
    base = arms.arms[0].documents()
    for arm in arms.arms[1:]:
        reply = arm.call({"findAndModify": "books", "query": {"n": 9}, "sort": {"n": 1},
                          "update": {"$push": {"list": 1}}, "fields": {"k": {"$meta": word}}})
        assert _code(reply) == REFUSED and arm.documents() == base


BY_INDEX = [{"list.b": {"$gte": MinKey()}}, {"list.b": {"$lte": MaxKey()}}, {"list": {"$gt": [[]]}},
            {"$or": [{"n": 9}, {"list": {"$gte": [[1]]}}]}]


@pytest.mark.parametrize("query", BY_INDEX, ids=str)
def test_a_filter_that_an_index_on_the_array_answers_otherwise_is_refused(arms, index, query):
    _fill(arms, _documents([{"list": [0, 1]}, {"list": [[[1]], 2, 3]}, {"list": [{"b": 1}, 5, 6]}, {}]))
    questions = [{"find": "books", "filter": query, "sort": {"_id": 1}}, {"count": "books", "query": query},
                 {"distinct": "books", "key": "_id", "query": query},
                 {"aggregate": "books", "pipeline": [{"$match": query}, {"$sort": {"_id": 1}}], "cursor": {}}]
    for command in questions:
        _same(arms, command)
    index({"key": {"list": 1}}, {"key": {"list.b": 1}})
    for command in questions:
        _refused(arms, command, "an index on the array")
    for arm in arms.arms[1:]:
        for command in ({"update": "books", "updates": [{"q": query, "u": {"$push": {"list": 1}}}]},
                        {"delete": "books", "deletes": [{"q": query, "limit": 1}]}):
            assert _code(arm.call(command)) == REFUSED


# A range by a type that mongod can't invert: it fails where it takes the index.
SYMBOL, POINTER = Raw(exact.SYMBOL, b"\2\0\0\0x\0"), Raw(exact.DB_POINTER, b"\2\0\0\0x\0" + b"\1" * 12)
SHAPE = {"$geoWithin": {"$center": [[0, 0], 5]}}
NO_INVERSE = [{"list": {"$not": {"$gt": SYMBOL}}}, {"$nor": [{"list": {"$lte": POINTER}}]}, {"list": {"$not": SHAPE}},
              {"list.b": {"$not": {"$gte": SYMBOL}}},
              {"$and": [{"n": {"$exists": False}}, {"$nor": [{"list.b": SHAPE}]}]}]
INVERSE = [{"list": {"$not": {"$eq": SYMBOL}}}, {"list": {"$gt": SYMBOL}}, {"list": 1, "n": {"$not": SHAPE}},
           {"list": SHAPE, "n": {"$not": {"$eq": 1}}}]
OF_SYMBOLS = [{"list": [0, "x"]}, {"list": [0, "X", SYMBOL]}, {"list": [{"b": "x"}, 5, POINTER]},
              {"list": [{"b": SYMBOL}]}, {}]


def _asking(query):
    return [{"find": "books", "filter": query, "sort": {"_id": 1}}, {"count": "books", "query": query},
            {"distinct": "books", "key": "_id", "query": query},
            {"aggregate": "books", "pipeline": [{"$match": query}, {"$sort": {"_id": 1}}], "cursor": {}}]


@pytest.mark.share(20)  # mongod prints a stack trace for each: a second of work
@pytest.mark.parametrize("name", ["find", "count", "distinct", "aggregate"])
@pytest.mark.parametrize("query", NO_INVERSE, ids=str)
def test_a_negated_range_that_an_index_cannot_tell_has_mongods_error(arms, index, query, name):
    _fill(arms, _documents(OF_SYMBOLS))
    [command] = [each for each in _asking(query) if name in each]
    assert _code(_same(arms, command)) == 0
    index({"key": {"list": 1}}, {"key": {"list.b": 1}})
    assert _code(_same(arms, command)) in (8, 4457011)
    _refused(arms, {**_asking(query)[0], "hint": {"$natural": 1}}, "an index on the array")


@pytest.mark.parametrize("query", INVERSE, ids=str)
def test_other_conditions_beside_an_index_are_answered(arms, index, query):
    _fill(arms, _documents(OF_SYMBOLS))
    index({"key": {"list": 1}}, {"key": {"list.b": 1}})
    for command in _asking(query):
        assert _code(_same(arms, command)) == 0


def test_a_symbol_under_a_collation_that_an_index_lacks_is_refused(arms, index):
    _fill(arms, _documents(OF_SYMBOLS))
    commands = _asking({"list": SYMBOL}) + _asking({"list.b": {"$in": [SYMBOL]}})
    for command in commands:
        _same(arms, {**command, "collation": ENGLISH})
    index({"key": {"list": 1}}, {"key": {"list.b": 1}})
    for command in commands:
        _refused(arms, {**command, "collation": ENGLISH}, "a symbol under a collation")
        _same(arms, {**command, "collation": SIMPLE})
        _same(arms, command)


@pytest.mark.parametrize("query", [NO_INVERSE[0], BY_INDEX[0]], ids=str)
def test_a_filter_in_a_union_that_an_index_on_the_array_answers_otherwise_is_refused(arms, index, query):
    _fill(arms, _documents(OF_SYMBOLS))
    command = {"aggregate": "others",
               "pipeline": [{"$unionWith": {"coll": "books", "pipeline": [{"$match": query}, {"$sort": {"_id": 1}}]}}],
               "cursor": {}}
    _same(arms, command)
    index({"key": {"list": 1}}, {"key": {"list.b": 1}})
    expected, found = _ask(arms, command)
    assert _code(expected) in (0, 4457011)
    for each in found:
        assert _code(each) in (REFUSED, 4457011)


def test_null_beside_an_index_by_a_position_is_refused(arms, index):
    _fill(arms, _documents([{"list": [{"b": 0}, {"b": 1}, {"b": 2}]}, {"list": [{"b": 0}, {"c": 1}, 5]}]))
    find = {"find": "books", "filter": {"list.1.b": None}}
    _same(arms, find)
    index({"key": {"list.1.b": 1}})
    _refused(arms, find, "an index on the array")
    _same(arms, {"find": "books", "filter": {"list.1.b": 1}})


# A $group behind nothing but a query: mongod runs it in its other engine, and in the first one behind Spillway's
# stages.
CODE = Raw(exact.CODE, b"\2\0\0\0f\0")
ALL = {"$match": {"list": {"$gte": 0}}}


def _groups(arms, values, accumulator, *behind):
    """What a group of these values comes to, in mongod's order of them."""
    _fill(arms, [{"_id": number, "list": [1, 2, 3], "v": value} for number, value in enumerate(values)])
    return {"aggregate": "books", "pipeline": [ALL, {"$sort": {"_id": 1}}, {"$group": {"_id": None, "r": accumulator}},
                                               *behind], "cursor": {}}


TIES = [[1, 1.0], [1.0, 5.0, 1, 5], [Int64(1), Int64(5), 1, 5], [Decimal128("1"), Decimal128("1.0")],
        [Decimal128("1E+1"), Decimal128("10.0")], [0.0, -0.0],
        [Decimal128("-0.0"), Decimal128("0.00")], ["x", SYMBOL], [[1], [1.0]], [{"k": 1}, {"k": Int64(1)}]]
NO_TIES = [[1, 1, 5, 5], [1.0, 2, 3.5], [1.5, 1.5], [Decimal128("1.10"), Decimal128("1.10")], ["a", "b", "b"],
           [None, 5, Raw(UNDEFINED)], [], [None], [{}, [], {"k": 1}],
           [[1], [2]], [MinKey(), 1], [Decimal128("0"), 1], [float("nan"), float("nan")], [True, True],
           ["x", SYMBOL, "y"][1:]]


@pytest.mark.parametrize("word", ["$min", "$max"])
def test_equal_values_of_several_types_in_a_group_are_refused(arms, word):
    for values in TIES:
        least, most = (values[:1] + values[-1:]), values
        _refused(arms, _groups(arms, most if len(values) > 2 else least, {word: "$v"}), "$min or $max")
    for values in NO_TIES:
        _same(arms, _groups(arms, values, {word: "$v"}))
        _same(arms, _groups(arms, values, {word: ["$v"]}))


def test_ties_of_texts_are_refused_under_a_collation_alone(arms):
    for values, ties in ((["x", "X"], True), (["x", "y", "Y"], False), (["x", "y"], False)):
        command = _groups(arms, values, {"$min": "$v"})
        _same(arms, command)
        if ties:
            _refused(arms, {**command, "collation": ENGLISH}, "$min or $max")
        else:
            _same(arms, {**command, "collation": ENGLISH})


def test_several_extremes_in_one_group_and_a_bucket_are_told_apart(arms):
    _fill(arms, [{"_id": number, "list": [1, 2, 3], "v": value, "w": 7} for number, value in enumerate([1, 2, 2.0])])
    both = {"w": {"$max": "$w"}, "s": {"$sum": "$v"}}
    for group in ({"$group": {"_id": None, **both, "r": {"$min": "$v"}}},
                  {"$bucket": {"groupBy": "$w", "boundaries": [0, 9], "output": {**both, "r": {"$min": "$v"}}}}):
        _same(arms, {"aggregate": "books", "pipeline": [ALL, group], "cursor": {}})
    for group in ({"$group": {"_id": None, **both, "r": {"$max": "$v"}}},
                  {"$bucket": {"groupBy": "$w", "boundaries": [0, 9], "output": {**both, "r": {"$max": "$v"}}}}):
        _refused(arms, {"aggregate": "books", "pipeline": [ALL, group], "cursor": {}}, "$min or $max")
    # Behind a $set mongod runs a group in the first engine, too.
    _same(arms, {"aggregate": "books", "pipeline": [ALL, {"$sort": {"_id": 1}}, {"$set": {"z": 1}},
                                                    {"$group": {"_id": None, "r": {"$max": "$v"}}}], "cursor": {}})


@pytest.mark.parametrize("value", [SYMBOL, CODE, MinKey(), MaxKey()], ids=["symbol", "code", "minKey", "maxKey"])
def test_values_that_the_other_engine_changes_are_refused_before_other_stages(arms, value):
    for group in ({"_id": "$v"}, {"_id": {"k": {"j": "$v"}}}, {"_id": None, "r": {"$push": "$v"}},
                  {"_id": None, "r": {"$push": {"k": "$v"}}},
                  {"_id": None, "r": {"$first": "$v"}}, {"_id": None, "r": {"$mergeObjects": {"k": "$v"}}}):
        _fill(arms, [{"_id": 1, "list": [1, 2, 3], "v": value}])
        pipeline = [ALL, {"$group": group}]
        _same(arms, {"aggregate": "books", "pipeline": pipeline, "cursor": {}})
        for last in ({"$limit": 5}, {"$project": {"q": "$_id", "r": 1}}):
            _refused(arms, {"aggregate": "books", "pipeline": [*pipeline, last], "cursor": {}}, "MinKey")
            _same(arms,
                  {"aggregate": "books", "pipeline": [ALL, {"$set": {"z": 1}}, {"$group": group}, last], "cursor": {}})
    _refused(arms, {"aggregate": "books", "pipeline": [ALL, {"$sortByCount": "$v"}], "cursor": {}}, "MinKey")
    union = {"aggregate": "others",
             "pipeline": [{"$unionWith": {"coll": "books", "pipeline": [ALL, {"$sortByCount": "$v"}]}}], "cursor": {}}
    _refused(arms, union, "MinKey")
    _same(arms, {"aggregate": "books", "pipeline": [ALL, {"$sortByCount": "$list"}], "cursor": {}})


def test_merging_what_is_no_document_has_the_other_engines_error(arms):
    expected, found = _ask(arms, _groups(arms, [5], {"$mergeObjects": "$v"}))
    for each in (expected, *found):
        assert (_code(each),
                exact.plain(exact.get(each, "errmsg"))) == (5911200, exact.plain(exact.get(expected, "errmsg")))
    for values in ([{"k": 1}, {"j": 2}], [None, {"k": 1}], []):
        _same(arms, _groups(arms, values, {"$mergeObjects": "$v"}, {"$project": {"q": "$r"}}))


# A group that some pipeline runs, and the collection whose cursor it is.
GROUPING = [("books", lambda stages: stages),
            ("others", lambda stages: [{"$unionWith": {"coll": "books", "pipeline": stages}}])]


def _first_batch_later(arm, collection, pipeline):
    """The reply to the getMore that runs the pipeline."""
    cursor = arm.call({"aggregate": collection, "pipeline": pipeline, "cursor": {"batchSize": 0}})
    return arm.call({"getMore": Int64(exact.plain(exact.get(cursor, "cursor.id"))), "collection": collection})


@pytest.mark.parametrize("collection, within", GROUPING, ids=[name for name, _ in GROUPING])
def test_a_group_that_runs_in_the_get_more_fails_there_as_in_the_first_batch(arms, collection, within):
    _fill(arms, [{"_id": number, "list": [1, 2, 3], "v": value} for number, value in enumerate([1, 2.0, 2])])
    merging, tying = ([ALL, {"$sort": {"_id": 1}}, {"$group": {"_id": None, "r": {word: "$v"}}}]
                      for word in ("$mergeObjects", "$max"))
    bucket = [ALL, {"$bucket": {"groupBy": "$_id", "boundaries": [0, 9], "output": {"r": {"$mergeObjects": "$v"}}}}]
    for stages in (merging, bucket):
        expected, *found = ([exact.plain(exact.get(reply, name)) for name in ("code", "codeName", "errmsg")]
                            for reply in (_first_batch_later(arm, collection, within(stages)) for arm in arms.arms))
        assert expected[0] == 5911200 and found == [expected] * len(found), stages
    expected, *found = (_first_batch_later(arm, collection, within(tying)) for arm in arms.arms)
    assert _code(expected) == 0
    for each in found:
        assert _code(each) == REFUSED and "$min or $max" in exact.plain(exact.get(each, "errmsg"))

SCHEMA = {"$jsonSchema": {}}
NESTED_SCHEMAS = [SCHEMA, {"$and": [SCHEMA]}, {"$or": [{"b": 1}, SCHEMA]}, {"$nor": [SCHEMA]},
                  {"b": {"$elemMatch": SCHEMA}}, {"b": {"$not": {"$elemMatch": SCHEMA}}},
                  {"b": {"$_internalSchemaObjectMatch": SCHEMA}},
                  {"$and": [{"$or": [{"b": {"$elemMatch": {"$nor": [SCHEMA]}}}]}]}]


@pytest.mark.parametrize("condition", NESTED_SCHEMAS, ids=str)
def test_a_schema_inside_an_elem_match_projection_has_mongods_error(arms, condition):
    _fill(arms, _documents(DOCUMENTS_ALONE))
    projection = {"list": {"$elemMatch": condition}}
    for command in ({"find": "books", "projection": projection}, {"find": "books", "projection": {"n": 1, **projection},
                                                                  "filter": {"list.b": 1}, "sort": {"list": 1}},
                    {"findAndModify": "books", "query": {"_id": 0}, "update": {"$push": {"list": 7}},
                     "fields": projection}):
        expected, found = _ask(arms, command)
        assert _code(expected) == 224
        assert [_code(each) for each in found] == [224] * len(found), command


# What a $lookup without a pipeline can't join by in the first engine: error 2 there.
@pytest.mark.parametrize("value", [Raw(UNDEFINED), [1, {"$x": 1}], [1, Raw(UNDEFINED)]],
                         ids=["undefined", "named", "inside"])
def test_values_that_a_lookup_cannot_join_by_are_refused(arms, value):
    _fill(arms, [{"_id": 1, "list": [1, 2, 3], "v": value}, {"_id": 2, "list": [1], "v": 7}])
    plain = {"from": "others", "localField": "v", "foreignField": "w", "as": "joined"}
    asked = {"aggregate": "books", "pipeline": [ALL, {"$lookup": plain}], "cursor": {}}
    _refused(arms, asked, "$lookup")
    # With a pipeline, or behind a $set, mongod fails, too.
    for stages in ([{"$lookup": {**plain, "pipeline": []}}], [{"$set": {"z": 1}}, {"$lookup": plain}]):
        expected, found = _ask(arms, {**asked, "pipeline": [ALL, *stages]})
        assert [_code(each) for each in (expected, *found)] == [2] * (1 + len(found))


def test_a_distinct_with_a_query_has_what_an_index_without_arrays_has(arms, index):
    """mongod answers from the keys: null for documents that lack the field, until an array comes."""
    never = [{"_id": 1, "list": {"b": "x"}, "n": 1}, {"_id": 2, "n": 1}, {"_id": 3, "list": 5, "n": 1},
             {"_id": 4, "list": {"b": "y"}, "n": 2}]
    queries = [{"n": 1}, {"list.b": {"$ne": "q"}}, {"n": {"$gt": 0}, "list.b": {"$ne": "y"}}, {"n": 2}, {"list.b": "x"},
               {"z": None}]
    with_null = 0
    for keys in ({"list.b": 1}, {"n": 1, "list.b": 1}, {"list.b": 1, "n": 1}):
        _fill(arms, [{"_id": 0}])
        index({"key": keys, "name": "on" + "".join(keys)})
        _fill(arms, never)
        for query in queries:
            for more in ({}, {"collation": SIMPLE}):
                reply = _same(arms, {"distinct": "books", "key": "list.b", "query": query, **more})
                with_null += None in exact.plain(exact.get(reply, "values"))
        _fill(arms, [*never, {"_id": 5, "list": [{"b": "z"}, {"b": "w"}, {}], "n": 1}])
        for query in queries:
            _same(arms, {"distinct": "books", "key": "list.b", "query": query})
        for arm in arms.arms:
            assert _code(arm.call({"dropIndexes": "books", "index": "*"})) == 0
    assert with_null


def test_a_distinct_that_starts_a_transaction(arms, index):
    """The plan is asked for outside of the transaction."""
    _fill(arms, [{"_id": 1, "list": {"b": "x"}, "n": 1}, {"_id": 2, "n": 1}])
    index({"key": {"n": 1, "list.b": 1}})
    asked = {"distinct": "books", "key": "list.b", "query": {"n": 1}, "readConcern": {"level": "snapshot"}}
    for arm in arms.arms:
        session = {"lsid": {"id": Binary(uuid.uuid4().bytes, 4)}, "txnNumber": Int64(1), "autocommit": False}
        reply = arm.call({**asked, **session, "startTransaction": True})
        assert _code(reply) == 0, exact.show_document(reply)
        assert exact.plain(exact.get(reply, "values")) == [None, "x"]
        assert arm.connection.command("admin", {"commitTransaction": 1, **session})["ok"] == 1


def test_a_distinct_with_a_query_by_an_index_with_a_collation(arms, index):
    _fill(arms, [{"_id": 0}])
    index({"key": {"list.b": 1}, "collation": ENGLISH})
    _fill(arms, [{"_id": 1, "list": {"b": "x"}}, {"_id": 2}, {"_id": 3, "list": {"b": 7}}])
    ask = {"distinct": "books", "key": "list.b", "query": {"list.b": {"$ne": 3}}, "collation": ENGLISH}
    _same(arms, ask)
    _fill(arms, [{"_id": 1, "list": {"b": "x"}}, {"_id": 2}, {"_id": 3, "list": {"b": None}}])
    _refused(arms, ask, "null or undefined under a collation")
