"""The filters that the search asks: each operator, with values of every type, on several paths.

A case is (family, type, filter, options). `family` names the operator, `type` the BSON type of its value;
`options` are fields of the command, such as a collation.
"""

from bson import Binary, Code, Decimal128, Int64, ObjectId, Regex

from oracle.places.values import NAN, NESTED, SCALARS, TEXTS, TYPES, kind_of
from support.exact import SYMBOL, UNDEFINED, Raw

PATHS = ("f", "f.g", "f.0", "f.0.g")
_COMPARISONS = ("$eq", "$gt", "$gte", "$lt", "$lte", "$ne")
_TYPES = [*TYPES.values(), "number", 0, -1, 127, 1, 1.0, Int64(16), Decimal128("2"), "unknown", 99, [], [1, "string"],
          None]
_BITS = ("$bitsAllSet", "$bitsAllClear", "$bitsAnySet", "$bitsAnyClear")
HIGH_MASKS = [Binary(bytes(high), 0)
              for high in ([0x80], [0xff], [1, 0x80], [0, 0, 0xff], [0, 0x81, 0], [0] * 6 + [0x80], [0] * 7 + [0x80],
                                                  [0] * 8 + [0x80],
                                                  [0xff] * 8, [0xff] * 20)]
_HIGH_OTHERS = [Binary(b"\x80", 128), Binary(b"\x80\1", 5), Binary(b"\xff", 2)]
_LOW_MASKS = [Binary(b"", 0), Binary(b"\0", 0), Binary(b"\1", 0), Binary(b"\x7f\x7f", 0), Binary(b"abc", 0),
              Binary(b"\0" * 12 + b"\1", 0)]
_MASKS = [0, 1, 3, 128, 255, Int64(2**63 - 1), Int64(2**40), 7.0, 2.0**62, Decimal128("5"), -1, 1.5, [], [0], [7],
          [0, 1, 1], [63], [64],
          [200], [1.0], [Int64(2)],
          [-1], ["a"], "a", None, True, NAN, {}]
_LANGUAGE = {"locale": "en", "strength": 1}
_COLLATIONS = [_LANGUAGE, {"locale": "en", "strength": 2, "caseLevel": True}, {"locale": "en", "numericOrdering": True},
               {"locale": "simple"},
               {"locale": "fr", "backwards": True}, {"locale": "en", "alternate": "shifted", "strength": 3}]


def _case(family, value, made, **options):
    return family, kind_of(value), made, options


def _on_paths(family, value, condition, paths=PATHS):
    return [_case(family, value, {path: condition}) for path in paths]


def _comparisons():
    made = []
    for value in SCALARS + NESTED:
        made += _on_paths("equality", value, value)
        for operator in _COMPARISONS:
            made += _on_paths(operator, value, {operator: value})
    for value in SCALARS[::3] + NESTED[::3]:
        made.append(_case("$gt and $lt", value, {"f": {"$gt": value, "$lt": 200}}))
    return made


def _lists():
    made = []
    for value in SCALARS + NESTED:
        for operator in ("$in", "$nin", "$all"):
            for listed in ([value], [value, 1], [value, None, "b"], [[value]]):
                made.append(_case(operator, value, {"f": {operator: listed}}))
            made.append(_case(operator, value, {"f.g": {operator: [value, 2]}}))
            made.append(_case(operator, value, {"f.0": {operator: [value, 3]}}))
        made.append(_case("$all of $elemMatch", value,
                          {"f": {"$all": [{"$elemMatch": {"$eq": value}}, {"$elemMatch": {"$gte": 1}}]}}))
        made.append(_case("$all of $elemMatch", value, {"f": {"$all": [{"$elemMatch": {"g": value}}]}}))
    for operator in ("$in", "$nin", "$all"):
        for listed in ([], [Regex("a")], [Regex("^A", "i"), None], [1, 1.0, Int64(1), Decimal128("1")], [[], [[]]],
                       [Raw(UNDEFINED)], 5,
                {"g": 1}):
            made.append(_case(operator, listed, {"f": {operator: listed}}))
    return made


def _alls_of_elements(listed):
    every = {"$all": listed}
    return [{"$elemMatch": every}, {"$elemMatch": {"$not": every}}, {"$elemMatch": {"$gte": 0, **every}},
            {"$elemMatch": {"$elemMatch": every}}, {"$all": [{"$elemMatch": every}]}]


def _element_matches():
    made = []
    for value in SCALARS + NESTED:
        inner = [{"$eq": value}, {"$gte": value}, {"$lt": value}, {"$in": [value, 2]}, {"$not": {"$gt": value}},
                 {"$nin": [value]},
                 {"$ne": value},
                 {"g": value}, {"g": {"$gte": value}, "h": "b"}, {"$or": [{"g": value}, {"h": 2}]},
                 {"$nor": [{"g": value}]}, {"0": value},
                 {"$elemMatch": {"$eq": value}}, {"$elemMatch": {"$not": {"$lte": value}}},
                 {"g": {"$elemMatch": {"$gt": value}}},
                 {"$elemMatch": {"g": value}}]
        made += [_case("$elemMatch", value, {"f": {"$elemMatch": each}}) for each in inner]
        made.append(_case("$elemMatch", value, {"f.g": {"$elemMatch": {"$gte": value}}}))
        made += [_case("$all of an element", value, {"f": each}) for each in _alls_of_elements([value])]
        made.append(_case("$elemMatch", value, {"f.0": {"$elemMatch": {"$eq": value}}}))
    for listed in ([], [1, 2], [1, 1.0], [Regex("a"), Regex("b")], [[1, 2], 1], [{"$none": 1}], [{"$gt": 1}], 5,
                   [{"$elemMatch": {"$gt": 1}}, {"$elemMatch": {"$lt": 2}}], [{"$elemMatch": {"g": 1}}]):
        made += [_case("$all of an element", listed, {"f": each}) for each in _alls_of_elements(listed)]
    for each in ({}, {"$exists": True}, {"$size": 1}, {"$type": "array"}, {"$elemMatch": {}}, {"$mod": [2, 1]},
                 {"$regex": "a"}, {"": 1},
            5):
        made.append(_case("$elemMatch", each, {"f": {"$elemMatch": each}}))
    return made


def _shapes():
    made = []
    for size in (0, 1, 2, 3, -1, 1.0, 1.5, Int64(2), Int64(2**62), Decimal128("2"), Decimal128("2.5"), NAN, "2", None):
        made += _on_paths("$size", size, {"$size": size})
    for there in (True, False, 0, 1, 0.0, 1.5, NAN, Decimal128("0"), "", None, [], {}, Raw(UNDEFINED)):
        made += _on_paths("$exists", there, {"$exists": there})
        made.append(_case("$exists", there, {"f": {"$exists": there, "$ne": 1}}))
    for kind in _TYPES:
        made += _on_paths("$type", kind, {"$type": kind})
    made += [_case("$type", kind, {"f": {"$type": kind}})
             for kind in (["array", "null"], ["number", "undefined"], [-1, 127])]
    numbers = (0, 1, 2, 3, -2, 4.0, 2.9, -2.9, Int64(2**62), Int64(-(2**63)), 1e300, Decimal128("3"), Decimal128("3.7"),
               Decimal128("NaN"),
        NAN, float("inf"), "a", None)
    for divisor in numbers:
        for rest in (0, 1, -1, 1.9, Int64(255), Decimal128("1")):
            made.append(_case("$mod", divisor, {"f": {"$mod": [divisor, rest]}}))
        made.append(_case("$mod", divisor, {"f.g": {"$mod": [2, divisor]}}))
    made += [_case("$mod", each, {"f": {"$mod": each}}) for each in ([], [2], [2, 1, 0], 2)]
    return made


def _texts():
    made = []
    for pattern in ("a", "^a", "^A", "b$", "a.c", "", "^$", "(?i)A", "\\d", "[", "é", "^abc", "a|b", "\\Qa.c\\E",
                    "(*UTF8)a", "a b # c"):
        for options in ("", "i", "m", "s", "x", "im", "u", "q"):
            made.append(_case("$regex", pattern, {"f": {"$regex": pattern, "$options": options}}))
        made.append(_case("$regex", pattern, {"f.g": {"$regex": pattern}}))
        made.append(_case("$regex", pattern, {"f": {"$not": {"$regex": pattern}}}))
        if pattern != "[":
            for flags in ("", "i", "ms", "x"):
                regex = Regex(pattern, flags)
                made += [_case("$regex", regex, each) for each in (
                    {"f": regex}, {"f": {"$regex": regex}}, {"f": {"$not": regex}}, {"f": {"$in": [regex, 1]}},
                    {"f": {"$nin": [regex]}},
                    {"f": {"$elemMatch": {"$regex": regex}}}, {"f": {"$all": [regex]}}, {"f": {"$eq": regex}},
                    {"f": {"$ne": regex}},
                    {"f": {"$gt": regex}},
                    {"f": {"$regex": regex, "$options": "i"}}, {"f": {"$elemMatch": {"g": regex}}})]
    return made


def _bits():
    made = []
    for operator in _BITS:
        for mask in _MASKS + _LOW_MASKS:
            made += _on_paths(operator, mask, {operator: mask})
        for mask in HIGH_MASKS + _HIGH_OTHERS:
            made += _on_paths("bits by high bytes", mask, {operator: mask})
            for inner in ({"$not": {operator: mask}}, {"$elemMatch": {operator: mask}},
                          {"$elemMatch": {"g": {operator: mask}}},
                          {"$all": [{"$elemMatch": {operator: mask}}]},
                          {"$elemMatch": {"$elemMatch": {operator: mask}}}, {operator: mask, "$gt": 1}):
                made.append(_case("bits by high bytes", mask, {"f": inner}))
            for name in ("$or", "$and", "$nor"):
                made.append(_case("bits by high bytes", mask, {name: [{"f": {operator: mask}}, {"s": 2}]}))
    return made


def _joined():
    values = SCALARS[::4] + NESTED[::4]
    made = []
    for value in values:
        parts = [{"f": {"$gte": value}}, {"f.g": value}, {"s": {"$lt": 3}}]
        for name in ("$and", "$or", "$nor"):
            made.append(_case(name, value, {name: parts}))
            made.append(_case(name, value, {name: [{"$nor": parts[:2]}, {"$or": parts[1:]}]}))
        for inner in ({"$gt": value}, {"$eq": value}, {"$in": [value]}, {"$elemMatch": {"$eq": value}},
                      {"$all": [value]},
                {"$gte": value, "$lte": value}, {"$not": {"$eq": value}}):
            made += _on_paths("$not", value, {"$not": inner}, ("f", "f.g"))
    for empty in ({"$and": []}, {"$or": []}, {"$nor": []}, {"$and": [{}]}, {"$or": [{}]}, {"$nor": [{}]}, {}, {"f": {}},
                  {"f": {"$not": {}}}, {"f": {"$not": 1}},
                  {"$alwaysTrue": 1}, {"$alwaysFalse": 1}, {"$comment": "x"}, {"f": {"$comment": "x", "$gt": 1}},
                  {"$sampleRate": 1.0},
                  {"$sampleRate": 0.0}, {"$bad": 1},
                  {"f": {"$bad": 1}}, {"f": {"$gt": 1, "g": 2}}, {"": 1}, {"$": 1}, {"f.$": 1},
                  {"f.-0": 1}, {"f.00": 1}, {"f.1.0": 1}):
        made.append(_case("joined", empty, empty))
    for path in ("f.", ".f", "f..g", "f.g."):
        made += [_case("a path with an empty part", value, {path: value}) for value in (1, None, [])]
    return made


def _schemas():
    made = []
    kinds = ("object", "array", "number", "boolean", "string", "null", ["string", "number"])
    bson_kinds = (*TYPES.values(), "number", ["int", "array"])
    keywords = [{"type": kind} for kind in kinds] + [{"bsonType": kind} for kind in bson_kinds]
    keywords += [
        {"minimum": 1}, {"minimum": 1, "exclusiveMinimum": True}, {"maximum": 255},
        {"maximum": 255, "exclusiveMaximum": True},
        {"multipleOf": 2}, {"multipleOf": 1.5},
        {"multipleOf": Decimal128("0.5")}, {"minimum": Decimal128("1.5")}, {"minLength": 1}, {"maxLength": 1},
        {"maxLength": 2.0},
        {"pattern": "^a"}, {"pattern": "é"},
        {"minItems": 1}, {"maxItems": 1}, {"uniqueItems": True}, {"uniqueItems": False}, {"items": {"type": "number"}},
        {"items": {"enum": [1, 2]}},
        {"items": [{"type": "number"}, {"type": "string"}]}, {"items": [{"type": "number"}], "additionalItems": False},
        {"items": [{"type": "number"}], "additionalItems": {"type": "number"}},
        {"properties": {"g": {"type": "number"}}},
        {"properties": {"0": {"type": "number"}}},
        {"required": ["g"]}, {"required": ["g", "h"]}, {"minProperties": 1}, {"maxProperties": 1},
        {"additionalProperties": False},
        {"properties": {"g": {}}, "additionalProperties": False}, {"additionalProperties": {"type": "number"}},
        {"patternProperties": {"^g": {"minimum": 2}}},
        {"properties": {"h": {}}, "patternProperties": {"^g": {"type": "number"}}, "additionalProperties": False},
        {"dependencies": {"g": ["h"]}},
        {"dependencies": {"g": {"required": ["h"]}}}, {"allOf": [{"type": "array"}, {"minItems": 2}]},
        {"anyOf": [{"type": "array"}, {"type": "string"}]},
        {"oneOf": [{"type": "array"}, {"minItems": 1}]}, {"not": {"type": "number"}}, {"title": "t"},
        {"description": "d"}, {}, {"bad": 1},
        {"type": "integer"},
        {"items": {"items": {"type": "number"}}}, {"properties": {"g": {"items": {"minimum": 1}}}}, {"encrypt": {}},
        {"not": {"required": ["g"]}},
    ]
    keywords += [{"enum": [value]} for value in SCALARS + NESTED]
    for schema in keywords:
        name = "$jsonSchema " + next(iter(schema), "of nothing")
        made.append(_case(name, schema, {"$jsonSchema": {"properties": {"f": schema}}}))
        made.append(_case(name, schema,
                          {"$jsonSchema": {"required": ["f"], "properties": {"f": {"properties": {"g": schema}}}}}))
        made.append(_case(name, schema, {"$nor": [{"$jsonSchema": {"properties": {"f": schema}}}]}))
        made.append(_case(name, schema,
                          {"f": {"$_internalSchemaObjectMatch": {"$jsonSchema": {"properties": {"g": schema}}}}}))
    made += [_case("$jsonSchema", each, {"$jsonSchema": each}) for each in (
        {"required": ["f", "loc"]}, {"additionalProperties": False}, {"minProperties": 5}, {"maxProperties": 4},
        {"properties": {"_id": {"maximum": 100}}},
        {"patternProperties": {"^f": {"bsonType": "array"}}}, {"dependencies": {"f": ["g"]}}, {"bsonType": "object"},
        {"type": "array"}, 5,
        {"required": []})]
    return made


def _internals():
    made = []
    for value in SCALARS + NESTED:
        made += [_case("$_internal", value, {"f": {name: value}}) for name in (
            "$_internalExprEq", "$_internalExprGt", "$_internalExprGte", "$_internalExprLt", "$_internalExprLte",
            "$_internalSchemaEq")]
    tests = {
        "$_internalSchemaMinItems": 1, "$_internalSchemaMaxItems": 1, "$_internalSchemaMinLength": 1,
        "$_internalSchemaMaxLength": 1,
        "$_internalSchemaUniqueItems": True,
        "$_internalSchemaObjectMatch": {"g": 1}, "$_internalSchemaType": "array",
        "$_internalSchemaFmod": [Decimal128("1.5"), 0],
        "$_internalSchemaBinDataSubType": 4,
        "$_internalSchemaMatchArrayIndex": {"index": 0, "namePlaceholder": "i", "expression": {"i": {"$gt": 1}}},
        "$_internalSchemaAllElemMatchFromIndex": [1, {"i": {"$gt": 1}}],
        "$_internalSchemaBinDataEncryptedType": 2, "$_internalSchemaBinDataFLE2EncryptedType": 2,
    }
    made += [_case("$_internal", value, {"f": {name: value}}) for name, value in tests.items()]
    whole = {"$_internalSchemaMinProperties": 5, "$_internalSchemaMaxProperties": 4,
             "$_internalSchemaXor": [{"f": 1}, {"f": {"$gt": 0}}],
             "$_internalSchemaCond": [{"f": 1}, {"s": 1}, {"s": 2}],
             "$_internalSchemaRootDocEq": {"_id": 0, "f": 0, "s": 0, "loc": [0, 0]},
             "$_internalSchemaAllowedProperties": {"properties": ["_id", "f"], "namePlaceholder": "i",
                                                   "patternProperties": [],
                 "otherwise": {"i": 0}}}
    return made + [_case("$_internal", value, {name: value}) for name, value in whole.items()]


def _geometry():
    box = [[0, 0], [5, 5]]
    rings = [[[0, 0], [0, 6], [6, 6], [6, 0], [0, 0]]]
    crs = {"type": "name", "properties": {"name": "urn:x-mongodb:crs:strictwinding:EPSG:4326"}}
    shapes = [
        {"$box": box}, {"$center": [[0, 0], 2]}, {"$centerSphere": [[0, 0], 0.1]},
        {"$polygon": [[0, 0], [0, 6], [6, 6]]},
        {"$box": [[6, 6], [0, 0]]}, {"$center": [[0, 0], -1]},
        {"$geometry": {"type": "Polygon", "coordinates": rings}},
        {"$geometry": {"type": "Polygon", "coordinates": rings, "crs": crs}},
        {"$geometry": {"type": "MultiPolygon", "coordinates": [rings]}},
        {"$geometry": {"type": "Point", "coordinates": [0, 0]}},
        {"$geometry": {"type": "LineString", "coordinates": [[0, 0], [5, 5]]}},
        {"$geometry": {"type": "GeometryCollection", "geometries": [{"type": "Polygon", "coordinates": rings}]}},
        {"$box": {"a": [0, 0], "b": [5, 5]}}, {"$center": {"a": [0, 0], "r": 2}}, {"$uniqueDocs": True, "$box": box},
        {"$geometry": {"type": "Bad", "coordinates": []}}, box,
        {"$geometry": {"type": "Polygon",
                       "coordinates": [[[-80.0, 80.0], [100.0, 80.0], [100.0, -80.0], [-80.0, -80.0], [-80.0, 80.0]]]}},
    ]
    made = []
    for operator in ("$geoWithin", "$within", "$geoIntersects"):
        for shape in shapes:
            name = f"{operator} {next(iter(shape), '')}" if isinstance(shape, dict) else operator
            for path in ("f", "f.g", "loc"):
                made.append(_case(name, shape, {path: {operator: shape}}))
            made.append(_case(name, shape, {"f": {"$not": {operator: shape}}}))
            made.append(_case(name, shape, {"f": {"$elemMatch": {operator: shape}}}))
    return made


def _expressions():
    made = []
    for value in SCALARS + NESTED:
        literal = {"$literal": value}
        for operator in ("$eq", "$gt", "$gte", "$lt", "$lte", "$ne", "$cmp"):
            made.append(_case(f"$expr {operator}", value, {"$expr": {operator: ["$f", literal]}}))
        for tested in ({"$in": [literal, {"$cond": [{"$isArray": "$f"}, "$f", []]}]}, {"$eq": ["$f.g", literal]},
                       {"$in": ["$f", [literal, 1]]},
                       {"$and": [{"$gte": ["$f", literal]}, {"$lt": ["$s", 3]}]},
                       {"$eq": [{"$type": "$f"}, {"$type": literal}]},
                       {"$let": {"vars": {"v": literal}, "in": {"$eq": ["$$v", "$f.g"]}}}, {"$ifNull": ["$f", literal]},
                       literal):
            made.append(_case("$expr", value, {"$expr": tested}))
        made.append(_case("$expr", value, {"$or": [{"$expr": {"$lt": ["$f", literal]}}, {"f.g": value}]}))
        made.append(_case("let", value, {"$expr": {"$eq": ["$f", "$$v"]}}, let={"v": literal}))
    array = {"$cond": [{"$isArray": "$f"}, "$f", []]}
    text = {"$convert": {"input": "$f", "to": "string", "onError": "none", "onNull": "null"}}
    tests = [
        {"$gt": [{"$size": array}, 1]}, {"$size": "$f"}, {"$isNumber": "$f"}, {"$not": ["$f"]}, "$f", "$f.g",
        {"$eq": ["$f", "$s"]},
        {"$eq": ["$f.0", 1]},
        {"$gt": [{"$strLenBytes": text}, 3]}, {"$regexMatch": {"input": text, "regex": "^a"}},
        {"$eq": [{"$toLower": text}, "a"]},
        {"$anyElementTrue": [array]},
        {"$allElementsTrue": [array]}, {"$eq": [{"$first": array}, 1]}, {"$gt": [{"$bsonSize": "$$ROOT"}, 90]},
        {"$eq": [{"$getField": "f"}, 1]}, {"$eq": ["$$ROOT.f", 1]},
        {"$eq": ["$$CURRENT.f", [1, 2]]}, {"$gt": ["$f", None]}, {"$eq": ["$missing", "$f"]},
        {"$eq": ["$f", "$$REMOVE"]},
        {"$lte": ["$f", "$missing"]},
        {"$in": [1, {"$map": {"input": array, "in": {"$ifNull": ["$$this.g", 0]}}}]},
        {"$filter": {"input": array, "cond": {"$gt": ["$$this", 1]}}},
        {"$gt": [{"$reduce": {"input": array, "initialValue": 0, "in": {"$max": ["$$value", "$$this"]}}}, 1]},
        {"$setIsSubset": [[1], array]},
        {"$eq": [{"$arrayElemAt": [array, -1]}, "b"]}, {"$eq": [{"$indexOfArray": [array, "b"]}, 2]},
        {"$add": ["$s", 1]},
        {"$eq": [{"$mod": ["$s", 2]}, 1]},
        {"$eq": [{"$objectToArray": {"$cond": [{"$eq": [{"$type": "$f"}, "object"]}, "$f", {}]}}, []]},
        {"$eq": [{"$concat": ["a", text]}, "aa"]}, {"$literal": "$f"},
        {"$switch": {"branches": [{"case": {"$isArray": "$f"}, "then": False}], "default": True}},
        {"$cond": [{"$lt": ["$f", 5]}, True, None]}, {"$eq": [{"$toString": "$f"}, "1"]},
        {"$eq": [{"$dateToString": {"date": {"$toDate": "$_id"}}}, "x"]}, {"$add": ["$f", 1]}, {"$bad": 1},
        {"$eq": ["$f"]}, {"$sum": "$f"},
        {"$max": "$f.g"},
        {"$eq": [{"$sortArray": {"input": array, "sortBy": 1}}, array]}, {"$binarySize": "$f"},
        {"$function": {"body": "function() { return true }", "args": [], "lang": "js"}},
    ]
    made += [_case("$expr", each, {"$expr": each}) for each in tests]
    made += [_case("$expr", each, {"$and": [{"$expr": each}, {"s": {"$lt": 4}}]}) for each in tests]
    return made


def _collated():
    values = TEXTS + [["a", "A"], {"g": "A"}, [{"g": "É"}], Raw(SYMBOL, b"\2\0\0\0A\0"), Regex("a"), Code("A"), None, 1,
                      Binary(b"A", 0),
        ObjectId(b"A" * 12)]
    made = []
    for collation in _COLLATIONS:
        for value in values:
            conditions = [value, {"$gt": value}, {"$lte": value}, {"$ne": value}, {"$in": [value, "E"]},
                          {"$all": [value]},
                          {"$elemMatch": {"$eq": value}}, {"$elemMatch": {"g": value}},
                          {"$not": {"$gte": value}}, {"$_internalSchemaEq": value}]
            for condition in conditions:
                if not isinstance(value, Regex) or condition is value:
                    made.append(_case("collation", value, {"f": condition}, collation=collation))
            made.append(_case("collation", value, {"f.g": value}, collation=collation))
            made.append(_case("collation", value, {"$expr": {"$eq": ["$f", {"$literal": value}]}}, collation=collation))
            made.append(_case("collation", value,
                              {"$expr": {"$in": [{"$literal": value}, {"$cond": [{"$isArray": "$f"}, "$f", []]}]}},
                collation=collation))
            made.append(_case("collation", value, {"$jsonSchema": {"properties": {"f": {"enum": [value]}}}},
                              collation=collation))
    return made


_MAKERS = (_comparisons, _lists, _element_matches, _shapes, _texts, _bits, _joined, _schemas, _internals, _geometry,
           _expressions,
    _collated)


def cases(share):
    """A part of the cases: evenly from each family, always the same ones."""
    families = {}
    for make in _MAKERS:
        for case in make():
            families.setdefault(case[0], []).append(case)
    chosen = []
    for family in families.values():
        count = max(round(len(family) * share), 1)
        chosen += [family[index * len(family) // count] for index in range(count)]
    return chosen
