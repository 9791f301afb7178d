"""Random reads that look at ruled arrays: filters, projections, sorts, counts, distincts, pipelines."""

from oracle import bits, values
from oracle.edits import condition

_ORDERS = ({"_id": 1}, {"k": 1, "_id": -1}, {"n": -1, "_id": 1})


def named(value, path, kind="computes"):
    """Labels for all that is named in a read: its stages, what they compute and project, and what they ask of the
    array."""
    if isinstance(value, list):
        for item in value:
            yield from named(item, path, kind)
    elif not isinstance(value, dict):
        if kind == "asks":
            yield f"asks for {values.type_of(value)}"
    else:
        for name, inner in value.items():
            if name.startswith("$"):
                yield f"{kind} {name}"
                if name in bits.OPERATORS and bits.form_of(inner):
                    yield f"{kind} bits by {bits.form_of(inner)}"
            elif kind == "asks" and f"{name}.".startswith(f"{path}."):
                yield f"{kind} {_form(name[len(path) + 1:], inner)}"
            yield from named(inner, path,
                             _KINDS.get(name) or ("computes" if kind == "stage" and name.startswith("$") else kind))


_KINDS = {"filter": "asks", "query": "asks", "$match": "asks", "restrictSearchWithMatch": "asks", "$expr": "computes",
          "projection": "projects", "pipeline": "stage", "$facet": "stage"}


def _form(below, inner):
    """Of a condition: where in the array, and whether it is a value itself."""
    where = "the array" if not below else "a place" if below[0].isdigit() else "a field"
    is_value = not (isinstance(inner, dict) and any(name.startswith("$") for name in inner))
    return f"{where} to be" if is_value else where


class ArrayReads:
    """Makes (command name, arguments, labels, form) of such reads on the array at `path`."""

    def __init__(self, rng, ids):
        self.rng = rng
        self.ids = ids

    def join(self, path, collection):
        """$lookup and $unionWith of a collection with itself: both sides whole."""
        rng = self.rng
        local = rng.choice(("k", "n", path, f"{path}.x", "_id"))
        foreign = rng.choice(("k", path, path, f"{path}.x", "n"))
        lookup = {"from": collection, "localField": local, "foreignField": foreign, "as": "joined"}
        size = {"$size": {"$cond": [{"$isArray": f"${path}"}, f"${path}", []]}}
        inner = rng.choice((
            [], [{"$match": self._condition(path)}], [{"$project": {"_id": 1, "size": size}}],
            [{"$match": {"n": {"$gte": 1}}}, {"$unset": f"{path}.x"}],
            [{"$project": {f"{path}.x": 1}}, {"$unwind": f"${path}"}],
            [{"$group": {"_id": None, "sizes": {"$sum": size}}}],
        ))
        if rng.random() < 0.4:
            lookup["pipeline"] = inner
        lead = rng.choice(([], [{"$match": {"n": {"$gte": 1}}}], [{"$sort": {"_id": 1}}, {"$limit": 2}],
                           [{"$project": {"k": 1, "n": 1}}]))
        found = {"from": collection, "startWith": rng.choice(("$k", "$n", f"${path}")),
                 "connectFromField": rng.choice(("n", "_id")),
                 "connectToField": rng.choice(("k", "n")), "as": "joined", "maxDepth": rng.randrange(3)}
        form = {"drain": 2}
        if rng.random() < 0.4:
            found["restrictSearchWithMatch"] = {"n": {"$gte": 1}}
        elif rng.random() < 0.3:
            found["restrictSearchWithMatch"] = self._condition(path)
            form["may_refuse"] = True
        # Which comes first of those that a $graphLookup found is chance.
        ordered = {"$set": {"joined": {"$sortArray": {"input": "$joined", "sortBy": {"_id": 1}}}}}
        stages = rng.choice((
            [{"$graphLookup": found}, ordered],
            [{"$graphLookup": {**found, "depthField": "deep"}}, ordered, {"$unwind": "$joined"}],
            [{"$lookup": lookup}], [{"$lookup": lookup}, {"$unwind": "$joined"}],
            [{"$facet": {"one": [{"$lookup": {**lookup, "foreignField": "k"}}], "two": [{"$count": "n"}]}}],
            [{"$unionWith": collection}], [{"$unionWith": {"coll": collection, "pipeline": inner}}],
            [{"$group": {"_id": "$k"}}, {"$sort": {"_id": 1}}, {"$lookup": {**lookup, "localField": "_id"}}],
            [{"$lookup": self._by_variable(path, collection)}], [{"$lookup": self._by_variable(path, collection)}],
        ))
        pipeline = [*lead, *stages, *self._setting("joined")]
        return "aggregate", [("pipeline", pipeline), ("cursor", {})], ["aggregate_joined"], form

    def _setting(self, part):
        """Now and then a stage that sets what many layouts' flag is called, in a document or in a part of it."""
        if self.rng.random() > 0.15:
            return []
        return [{"$set": self.rng.choice(({"many": 7}, {f"{part}.many": 7}, {part: {"many": 7}}))}]

    def _by_variable(self, path, collection):
        """A $lookup whose pipeline knows the local document by `let`; with a $limit, no run may keep anything for
        the next."""
        rng = self.rng
        array = {"$cond": [{"$isArray": f"${path}"}, f"${path}", []]}
        test = rng.choice(({"$eq": ["$k", "$$k"]}, {"$lte": ["$n", "$$k"]}, {"$in": ["$$k", array]},
                           {"$gt": [{"$size": array}, "$$k"]}))
        ends = rng.choice(([], [{"$limit": rng.randrange(1, 3)}], [{"$limit": 1}],
                           [{"$project": {"size": {"$size": array}}}]))
        return {"from": collection, "let": {"k": "$k"}, "pipeline": [{"$match": {"$expr": test}}, *ends],
                "as": "joined"}

    def one(self, path):
        kinds = (self.find, self.find, self.find, self.count, self.distinct, self.aggregate, self.aggregate,
                 self.matched, self.matched, self.window, self.window, self.element, self.element, self.member,
                 self.member, self.member, self.foremost)
        return self.rng.choice(kinds)(path)

    def _condition(self, path):
        """On the array; also two, or one on another field beside it."""
        made = condition(self.rng, path)
        choice = self.rng.random()
        if choice < 0.65:
            return made
        if choice < 0.82:
            return {"$and": [made, condition(self.rng, path)]}
        return {**made, "n": {"$gte": self.rng.randrange(3)}}

    def _projection(self, path):
        field = f"${path}"
        array = {"$cond": [{"$isArray": field}, field, []]}
        last = {"$slice": [array, -2]}
        return self.rng.choice((
            {f"{path}.x": 1}, {f"{path}.x": 0}, {"n": 1, f"{path}.x": 1, f"{path}.y": 1}, {"size": {"$size": array}},
            {"n": 1, "last": last}, {"first": {"$first": array}, "_id": 0}, {"copy": field}, {path: {"$size": array}},
            {"some": {"$filter": {"input": array, "cond": {"$gte": ["$$this", 2]}}}},
            {"k": 1, "has": {"$in": [1, array]}},
        ))

    def _window(self, path):
        rng = self.rng
        slice_ = rng.choice((rng.randrange(-6, 7), [rng.randrange(-6, 7), rng.randrange(1, 5)],
                             [rng.randrange(30), 50]))
        return {path: {"$slice": slice_}, **rng.choice(({}, {}, {"n": 1}, {"n": 0}, {"_id": 0}, {"_id": 1}))}

    def collision(self, path):
        """Paths in each other's way, which mongod refuses."""
        rng = self.rng
        forms = (1, 0, {"$slice": 1}, {"$elemMatch": {"x": 1}}, {"$literal": 2}, {"y": 1})
        outer = rng.choice((path, path, path.partition(".")[0], "n"))
        paths = [(outer, rng.choice(forms)), (f"{outer}.x", rng.choice(forms)), ("k", 1)]
        rng.shuffle(paths)
        arguments = [("projection", dict(paths))]
        if rng.random() < 0.5:
            arguments.append(("filter", self._condition(path)))
        return "find", arguments, ["find_collision"], {}

    def window(self, path):
        arguments = [("projection", self._window(path))]
        if self.rng.random() < 0.4:
            arguments.append(("filter", self._condition(path) if self.rng.random() < 0.5 else {"n": {"$gte": 1}}))
        if self.rng.random() < 0.3:
            arguments.append(("sort", self.rng.choice(_ORDERS)))
        # Spillway cuts windows reply by reply, and has mongod cut those of a single batch of many documents.
        arguments += self.rng.choice(([], [("limit", self.rng.randrange(1, 30))], [("singleBatch", True)],
                                      [("singleBatch", True), ("limit", self.rng.randrange(2, 6))],
                                      [("limit", 3), ("batchSize", self.rng.randrange(1, 5))]))
        return "find", arguments, ["find_window"], {"drain": 2}

    def element(self, path):
        """$elemMatch and positional projections. Elements of nested arrays have no $elemMatch."""
        rng = self.rng
        arguments = [("projection", self._matched(path))]
        label = "find_matched"
        if "." in path or rng.random() < 0.5:
            label = "find_positional"
            arguments = [("filter", self._single(path)), ("projection", {
                **rng.choice(({}, {}, {"n": 1}, {"_id": 0}, {"more": {"$type": "$n"}, "k": 1})), f"{path}.$": 1})]
        elif rng.random() < 0.5:
            arguments.append(("filter", self._condition(path)))
        if rng.random() < 0.3:
            arguments.append(("sort", self._sort(path)))
        if rng.random() < 0.3:
            arguments.append((rng.choice(("skip", "limit")), rng.randrange(1, 3)))
        if rng.random() < 0.2:
            arguments.append(("collation", {"locale": "en", "strength": 2}))
        rng.shuffle(arguments)
        return "find", arguments, [label], {}

    def _of_one_element(self, path):
        """A condition that, mostly, one element meets or none does: the overflow can be asked."""
        rng = self.rng
        value = rng.choice((rng.randrange(4), rng.randrange(4), rng.randrange(40), "a", "m", values.odd(rng)))
        return rng.choice((
            {path: value}, {f"{path}.x": value}, {path: {"$eq": value}}, {path: {"$in": [value, rng.randrange(4)]}},
            {f"{path}.x": {"$in": [value]}},
            {path: {"$elemMatch": {"x": value}}}, {path: {"$elemMatch": {"$gte": rng.randrange(9), "$lt": 12}}},
            {path: {"x": rng.randrange(3)}},
            {path: {"$elemMatch": {"x": {"$gte": 1}, "y": None}}}, {path: {"$regex": "^[a-m]"}},
            {f"{path}.x": {"$elemMatch": {"$gt": 1}}},
            {path: {"$gt": rng.randrange(40)}}, {f"{path}.x": {"$lt": rng.randrange(4)}}, {path: {"$all": [value]}},
            self._condition(path),
        ))

    def member(self, path):
        """Whether one document's array has some element."""
        rng = self.rng
        made = self._of_one_element(path)
        filter_ = {"_id": rng.choice(list(self.ids) or [1]), **made}
        if rng.random() < 0.3:
            filter_ = rng.choice(({"$and": [filter_]}, {**filter_, "n": {"$gte": rng.randrange(3)}},
                                  {**filter_, "$expr": {"$lte": ["$n", 3]}},
                                  {"$and": [made, {"_id": {"$eq": filter_["_id"]}}]}))
        arguments = [("filter", filter_)]
        projection = rng.choice((None, {"_id": 1}, {"_id": 1}, {"n": 1}, {"n": 1, "k": 1}, {"k": 1, "_id": 0},
                                 {path: 0}, {path: 1}, {"n": 0},
                                 {"_id": 0}, {"size": {"$type": f"${path}"}}, {"a": {"$literal": 1}}))
        if projection is not None:
            arguments.append(("projection", projection))
        arguments += rng.choice(([], [("limit", 1), ("singleBatch", True)], [("limit", 1)],
                                 [("batchSize", rng.randrange(4))]))
        return "find", arguments, ["find_member"], {"drain": 2} if "batchSize" in dict(arguments) else {}

    def foremost(self, path):
        """What comes first by the array; the _id says which among equals."""
        rng = self.rng
        arguments = [("sort", {path: rng.choice((1, -1)), "_id": rng.choice((1, -1))}), ("limit", rng.randrange(1, 6))]
        if rng.random() < 0.3:
            arguments.append(("skip", rng.randrange(1, 4)))
        if rng.random() < 0.5:
            arguments.append(("projection", rng.choice(({"n": 1}, {path: 0}, {"_id": 1, "k": 1}, {"n": 1, path: 1}))))
        return "find", arguments, ["find_foremost"], {}

    def _matched(self, path):
        condition = self.rng.choice((
            {"$gte": self.rng.randrange(4)}, {"x": {"$gte": self.rng.randrange(3)}}, {"$in": [1, "a", None]}, {},
            {"$type": "string"}, {"$elemMatch": {"$gt": 1}}, {"y": None}, {"$not": {"$lt": 3}},
            {"$eq": self.rng.randrange(4)},
            bits.test(self.rng), {"x": bits.test(self.rng)}, {"$gte": values.odd(self.rng)},
            {"x": values.odd(self.rng)},
        ))
        return {path: {"$elemMatch": condition},
                **self.rng.choice(({}, {}, {"n": 1}, {"n": 0}, {"_id": 0}, {"k": {"$slice": 1}}))}

    def _single(self, path):
        """A condition that says which element is meant."""
        rng = self.rng
        made = rng.choice((
            {path: rng.randrange(4)}, {path: {"$gte": rng.randrange(4)}},
            {path: {"$in": [rng.randrange(4), "a", None]}},
            {path: {"$elemMatch": {"$gte": rng.randrange(3), "$lt": 9}}},
            {path: {"$elemMatch": {"x": {"$exists": True}}}},
            {f"{path}.x": rng.randrange(4)}, {f"{path}.x": {"$gte": rng.randrange(3)}}, {f"{path}.y": None},
            {path: None},
            {path: {"$regex": "^[a-m]"}}, {path: {"x": rng.randrange(3)}},
            {path: {"$gte": rng.randrange(4), "$lt": 9, "$type": "number"}},
            {path: {"$gte": rng.randrange(4), "$lt": 9}}, {f"{path}.x": rng.randrange(3), f"{path}.y": {"$lte": 2}},
        ))
        # One array or the other may say which element is meant, where both can.
        return {**made, **rng.choice(({}, {"_id": {"$gte": 1}}, {"$and": [{path: {"$gte": rng.randrange(3)}}]},
                                      {"z": 2}, {"k": {"$gte": 1}}))}

    def _bounds(self):
        """min and max of the index on _id; the wrong way round, mongod refuses them."""
        bounds = (None, 0, 100, 3000, 10**6, "S", "S3", "zz", {"a": 1}, True, *self.ids, *self.ids)
        return self.rng.sample([(name, {"_id": self.rng.choice(bounds)}) for name in ("min", "max")],
                               self.rng.randrange(1, 3))

    def _sort(self, path):
        return self.rng.choice((*_ORDERS, {"$natural": -1}, {path: 1, "_id": 1}, {f"{path}.x": -1, "_id": 1}))

    def find(self, path):
        rng = self.rng
        if rng.random() < 0.1:
            return self.collision(path)
        reads_filter = rng.random() < 0.7
        arguments, form = [], {}
        if reads_filter:
            arguments.append(("filter", self._condition(path)))
        if not reads_filter or rng.random() < 0.3:
            arguments.append(("projection", self._projection(path)))
        if rng.random() < 0.4:
            arguments.append(("sort", self._sort(path)))
        if rng.random() < 0.15 and "$natural" not in str(arguments):
            arguments += [("hint", {"_id": 1}), *self._bounds()]
        if rng.random() < 0.3:
            arguments.append(("skip", rng.randrange(1, 3)))
        if rng.random() < 0.4:
            arguments.append(("limit", rng.randrange(1, 4)))
        elif rng.random() < 0.5:
            arguments.append(("batchSize", rng.randrange(4)))
            form["drain"] = rng.randrange(1, 4)
        rng.shuffle(arguments)
        return "find", arguments, ["find_by_array" if reads_filter else "find_computed"], form

    def count(self, path):
        arguments = [("query", self._condition(path))]
        if self.rng.random() < 0.2:
            arguments.append((self.rng.choice(("skip", "limit")), self.rng.randrange(1, 3)))
        return "count", arguments, ["count_by_array"], {}

    def distinct(self, path):
        if self.rng.random() < 0.5:
            arguments = [("key", self.rng.choice((path, f"{path}.x", f"{path}.{self.rng.randrange(8)}", f"{path}.2.x",
                                                  f"{path}.x.0"))), ("query", {"k": {"$gte": self.rng.randrange(3)}})]
            if self.rng.random() < 0.3:
                arguments.pop()  # mongod may answer it from an index
            return "distinct", arguments, ["distinct_of_array"], {"distinct": True}
        arguments = [("key", self.rng.choice(("n", "_id"))), ("query", self._condition(path))]
        return "distinct", arguments, ["distinct_by_array"], {"distinct": True}

    def matched(self, path):
        """A pipeline that begins with a condition on the array, as countDocuments' does."""
        rng = self.rng
        array = {"$cond": [{"$isArray": f"${path}"}, f"${path}", []]}
        few = [{"$sort": rng.choice(_ORDERS)}, {rng.choice(("$skip", "$limit")): rng.randrange(1, 4)}]
        sizes = [{"$group": {"_id": None, "n": {"$sum": 1}, "sizes": {"$sum": {"$size": array}}}}]
        ends = rng.choice((
            [], [{"$count": "n"}], [{"$group": {"_id": "$n", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}],
            sizes, sizes, [{"$sortByCount": {"$size": array}}, {"$sort": {"_id": 1}}],
            [{"$project": {"n": 1}}],
            [{"$project": self._projection(path)}], [{"$match": self._condition(path)}, {"$count": "n"}],
            [{"$sort": self._sort(path)}, {"$project": {"n": 1}}],
            [{"$set": {"size": {"$size": array}}}, {"$unset": path}], [{"$unwind": f"${path}"}, {"$count": "n"}],
            [{"$sortByCount": "$k"}, {"$sort": {"_id": 1}}],
            [{"$facet": {"all": [{"$count": "n"}], "some": [{"$sort": {"_id": 1}}, {"$limit": 1}]}}],
        ))
        if "$natural" in str(ends):
            ends = []  # no pipeline has it
        size = {"batchSize": rng.randrange(4)} if rng.random() < 0.3 else {}
        first = self._condition(path) if rng.random() < 0.6 else self._of_one_element(path)
        pipeline = [{"$match": first}, *rng.choice(([], [], few)), *ends]
        return "aggregate", [("pipeline", pipeline), ("cursor", size)], ["aggregate_matched"], {"drain": 2}

    def _dropping(self, path):
        """Stages that need nothing of the array, and others behind them that drop it or do not."""
        rng = self.rng
        carrying = rng.choice((
            [{"$set": {"tags": ["x", "y"]}}, {"$unwind": "$tags"}], [],
            [{"$redact": {"$cond": [{"$gt": ["$n", 1]}, "$$KEEP", "$$PRUNE"]}}],
            [{"$setWindowFields": {"partitionBy": "$n", "sortBy": {"_id": 1}, "output": {"sum": {
                "$sum": "$n", "window": {"documents": ["unbounded", "current"]}}}}}],
            [{"$fill": {"output": {"new": {"value": 1}}}}],
        ))
        dropping = rng.choice((
            [{"$group": {"_id": "$n", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}], [{"$project": {path: 0}}],
            [{"$set": {path: rng.choice(("$n", 1, {"$add": ["$n", 1]}, "$$REMOVE", {"x": 1}))}}],
            [{"$sort": {"_id": 1}}, {"$replaceWith": {"id": "$_id", "of": "$n"}}], [{"$sort": {"_id": 1}}],
            [{"$bucketAuto": {"groupBy": "$n", "buckets": 2}}],
            [{"$facet": {"all": [{"$count": "n"}], "by": [{"$group": {"_id": "$n"}}, {"$sort": {"_id": 1}}]}}],
        ))
        return [[*carrying, *dropping]] * 3

    def aggregate(self, path):
        field = f"${path}"
        array = {"$cond": [{"$isArray": field}, field, []]}
        some = {"$arrayElemAt": [array, self.rng.randrange(4)]}
        lead = self.rng.choice(([], [{"$match": {"n": {"$gte": 1}}}], [{"$sort": {"_id": 1}}, {"$limit": 3}]))
        stages = self.rng.choice((
            [{"$match": self._condition(path)}], [{"$match": self._condition(path)}, {"$project": {"n": 1}}],
            [{"$limit": 4}, {"$match": bits.condition(self.rng, path)}],
            [{"$facet": {"found": [{"$match": bits.condition(self.rng, path)}]}}],
            [{"$set": {"size": {"$size": array}}}], [{"$unwind": field}, {"$sort": {"_id": 1}}],
            [{"$unwind": {"path": field, "includeArrayIndex": "at", "preserveNullAndEmptyArrays": True}}],
            [{"$group": {"_id": "$_id", "sizes": {"$push": {"$size": array}}}}, {"$sort": {"_id": 1}}],
            [{"$unset": f"{path}.x"}], [{"$project": self._projection(path)}], [{"$addFields": {"whole": "$$ROOT"}}],
            [{"$facet": {"long": [{"$match": {f"{path}.3": {"$exists": True}}}], "all": [{"$count": "n"}]}}],
            [{"$facet": {"inner": [{"$project": {f"{path}.x": 1}}, {"$unwind": f"${path}"}],
                         "all": [{"$sort": {"_id": -1}}]}}],
            # What many layouts' flag is called.
            [{"$set": {"size": {"$size": array}, "many": {"$type": field}}}],
            [{"$project": {"many": {"$size": array}, "_id": 0}}],
            [{"$replaceRoot": {"newRoot": {"$mergeObjects": [{"many": "$n"}, "$$ROOT"]}}}],
            # An element may have a field of that name.
            [{"$replaceRoot": {"newRoot": {"$cond": [{"$eq": [{"$type": some}, "object"]}, some, {}]}}}],
            [{"$replaceWith": {"id": "$_id", "part": {"$slice": [array, 1, 3]}}}],
            [{"$redact": {"$cond": [{"$gt": [{"$size": {"$ifNull": [array, []]}}, 1]}, "$$KEEP", "$$PRUNE"]}}],
            *self._dropping(path),
        ))
        size = {"batchSize": self.rng.randrange(1, 3)} if self.rng.random() < 0.3 else {}
        pipeline = [*lead, *stages, *self._setting(self.rng.choice(("whole", "all", path)))]
        return "aggregate", [("pipeline", pipeline), ("cursor", size)], ["aggregate_array"], {"drain": 2}
