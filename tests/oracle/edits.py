"""Random updates inside of an array, and conditions on one: what needs the array whole."""

from bson import Int64, Regex

from oracle import bits, values


def _merged(*parts):
    update = {}
    for part in parts:
        for operator, change in part.items():
            update.setdefault(operator, {}).update(change)
    return update


class Edits:
    """Makes edits of one array at `path`; a result is (update, label, the statement's other fields)."""

    def __init__(self, rng, pipelines):
        self.rng = rng
        self.pipelines = pipelines

    def _position(self):
        return self.rng.choice((0, 0, 1, 1, 2, 3, 4, 5, 7, self.rng.randrange(12), 30))

    def _small(self):
        return self.rng.choice((0, 1, 2, 7, 1.0, "a", "b", "B", None))

    def _each(self, most=4):
        return [values.element(self.rng) if self.rng.random() < 0.5 else self._small()
                for _ in range(self.rng.randrange(most + 1))]

    def push(self, path):
        clauses = [("$each", self._each())]
        if self.rng.random() < 0.6:
            clauses.append(("$position", self.rng.choice((0, 1, 2, 5, 100, -1, -2, -100))))
        if self.rng.random() < 0.5:
            clauses.append(("$slice", self.rng.choice((0, 1, 2, 4, 10, 100, -1, -3, -10))))
        if self.rng.random() < 0.4:
            clauses.append(("$sort", self.rng.choice((1, -1, {"x": 1}, {"x": -1, "y": 1}))))
        if len(clauses) == 1:
            clauses.append(("$position", 0))
        self.rng.shuffle(clauses)
        return {"$push": {path: dict(clauses)}}, "edit_push", {}

    def pull(self, path):
        what = self.rng.choice((
            self._small(), {"$gte": 2}, {"$lt": 3}, {"$in": [1, 7, "a"]}, {"$ne": 1}, {"x": self._small()},
            {"x": {"$exists": True}}, {"$type": "string"}, {"$exists": True}, {"$elemMatch": {"$gt": 0}},
            Regex("a"), [1], {"$not": {"$gt": 1}}, {"$size": 2}, {"$bad": 1}, bits.test(self.rng), bits.test(self.rng),
            {"x": bits.test(self.rng)},
            values.odd(self.rng), {"$lte": values.odd(self.rng)},
        ))
        return {"$pull": {path: what}}, "edit_pull", {}

    def pull_all(self, path):
        return {"$pullAll": {path: self._each()}}, "edit_pull_all", {}

    def pop(self, path):
        return {"$pop": {path: self.rng.choice((1, -1))}}, "edit_pop", {}

    def add_to_set(self, path):
        if self.rng.random() < 0.5:
            return {"$addToSet": {path: self._small()}}, "edit_add_to_set", {}
        if self.rng.random() < 0.3:
            return {"$addToSet": {path: values.element(self.rng)}}, "edit_add_to_set", {}
        return {"$addToSet": {path: {"$each": self._each()}}}, "edit_add_to_set", {}

    def _change(self, path):
        """Some operator on a path inside of the array."""
        return self.rng.choice((
            {"$set": {path: values.element(self.rng)}}, {"$set": {path: self._small()}},
            {"$set": {f"{path}.x": self._small()}}, {"$unset": {path: ""}}, {"$unset": {f"{path}.x": ""}},
            {"$inc": {path: self.rng.choice((1, 1.5, Int64(3)))}}, {"$mul": {path: 2}}, {"$min": {path: 1}},
            {"$max": {path: "m"}}, {"$bit": {path: {"or": 5}}}, {"$currentDate": {path: True}},
            {"$inc": {f"{path}.x": 1}}, {"$push": {f"{path}.x": 1}}, {"$pull": {f"{path}.x": 1}},
            {"$addToSet": {path: 1}}, {"$rename": {f"{path}.x": "y"}},
        ))

    def index(self, path):
        update = self._change(f"{path}.{self._position()}")
        if self.rng.random() < 0.2:
            update = _merged(update, self._change(f"{path}.{self._position() + 40}"))
        return update, "edit_index", {}

    def every(self, path):
        return self._change(f"{path}.$[]"), "edit_every", {}

    def filtered(self, path):
        condition = self.rng.choice((
            {"e": {"$gte": 2}}, {"e": self._small()}, {"e.x": {"$exists": True}}, {"e": {"$ne": 1}},
            {"e": {"$type": "number"}}, {"$or": [{"e": 1}, {"e": "a"}]}, {"e": bits.test(self.rng)},
            {"e.x": bits.test(self.rng)},
            {"e": {"$gte": values.odd(self.rng)}}, {"e": values.odd(self.rng)},
        ))
        return self._change(f"{path}.$[e]"), "edit_filtered", {"arrayFilters": [condition]}

    def positional(self, path):
        return self._change(f"{path}.$"), "edit_positional", {}

    def rename(self, path):
        return self.rng.choice(({"$rename": {path: "moved"}}, {"$rename": {"z": path}})), "edit_rename", {}

    def whole(self, path):
        return self.rng.choice((
            {"$min": {path: [1]}}, {"$max": {path: [9]}}, {"$inc": {path: 1}}, {"$mul": {path: 2}},
            {"$currentDate": {path: True}}, {"$bit": {path: {"and": 1}}}, {"$setOnInsert": {path: self._each()}},
            {"$setOnInsert": {f"{path}.1": 5}},
        )), "edit_whole", {}

    def pipeline(self, path):
        field = f"${path}"
        array = {"$cond": [{"$isArray": field}, field, []]}
        return self.rng.choice((
            [{"$set": {path: {"$concatArrays": [array, self._each()]}}}],
            [{"$set": {path: {"$filter": {"input": array, "cond": {"$ne": ["$$this", 1]}}}}}],
            [{"$set": {path: {"$reverseArray": array}, "n": {"$size": array}}}],
            [{"$set": {"s": {"$arrayElemAt": [array, -1]}}}],
            [{"$set": {path: {"x": 1}}}],
            [{"$set": {path: self._each()}}],
            [{"$unset": [path, "s"]}],
            [{"$project": {path: 1}}],
            [{"$replaceWith": {"$mergeObjects": ["$$ROOT", {"s": 1}]}}],
            [{"$set": {"s": {"$size": field}}}],
            [{"$set": {path: {"$slice": [array, 2]}}}, {"$set": {"s": {"$size": field}}}],
        )), "edit_pipeline", {}

    def one(self, path):
        kinds = (self.push, self.push, self.pull, self.pull, self.pull_all, self.pop, self.add_to_set,
                 self.add_to_set, self.index, self.index, self.index, self.every, self.filtered,
                 self.positional, self.rename, self.whole)
        if self.pipelines:
            kinds += (self.pipeline, self.pipeline)
        return self.rng.choice(kinds)(path)


def _of_any_type(rng, path):
    """A condition with a value of any type."""
    value = values.odd(rng)
    place = rng.choice((path, path, f"{path}.x", f"{path}.{rng.randrange(4)}"))
    operator = rng.choice(("$eq", "$gt", "$gte", "$lt", "$lte", "$ne"))
    return rng.choice((
        {place: value}, {place: {operator: value}}, {place: {operator: value}}, {place: {"$in": [value, 1]}},
        {place: {"$nin": [value]}}, {place: {"$all": [value]}},
        {path: {"$elemMatch": {operator: value}}}, {path: {"$elemMatch": {"x": value}}},
        {place: {"$not": {operator: value}}}, {place: [value]},
        {"$or": [{place: value}, {"k": 2}]},
    ))


def _of_the_document(rng, path):
    """A schema: it sees each field, also those that it does not name. Some layouts show a flag, named `many`."""
    schema = rng.choice(({"minItems": 3}, {"maxItems": 4}, {"items": {"bsonType": "number"}}, {"bsonType": "array"}))
    for name in reversed(path.split(".")):
        schema = {"properties": {name: schema}}
    names = {"additionalProperties": rng.random() < 0.5, "patternProperties": {"^([a-r]|_id|serial|t|z)": {}}}
    return {"$jsonSchema": rng.choice((schema, {**schema, **names}, names,
                                       {"patternProperties": {"^_s": {"bsonType": "string"}}}))}


def condition(rng, path):
    """A condition on an array: part of a filter."""
    choice = rng.random()
    if choice < 0.12:
        return bits.condition(rng, path)
    if choice < 0.3:
        return _of_any_type(rng, path)
    small = rng.choice((0, 1, 2, 7, "a", "b", "B", None))
    position = rng.choice((0, 1, 2, 3, 5, 9, 20))
    field = f"${path}"
    array = {"$cond": [{"$isArray": field}, field, []]}
    if rng.random() < 0.05:
        return _of_the_document(rng, path)
    return rng.choice((
        {path: small}, {path: {"$in": [small, 5]}}, {path: {"$nin": [small, 5]}}, {path: {"$ne": small}},
        {path: {"$ne": small}}, {path: {"$all": [small, 1]}}, {path: {"$size": rng.randrange(6)}},
        {path: {"$elemMatch": {"$gte": 1, "$lt": 5}}}, {path: {"$elemMatch": {"x": {"$exists": True}}}},
        {path: {"$elemMatch": {"$all": [small]}}}, {path: {"$elemMatch": {"$not": {"$all": [small, 1.0]}}}},
        {path: {"$exists": rng.random() < 0.7}}, {path: {"$type": rng.choice(("array", "string", "int"))}},
        {path: Regex("a")}, {path: {"$not": {"$gt": 2}}}, {path: {"$gt": 1, "$lt": 2}},
        {f"{path}.{position}": {"$exists": rng.random() < 0.5}}, {f"{path}.{position}": small},
        {f"{path}.x": small}, {f"{path}.x": {"$ne": small}}, {f"{path}.x": {"$exists": False}},
        {f"{path}.{position}.x": small}, {path: [1, 2]}, {path: []}, {path: {"$ne": []}},
        {"$nor": [{path: small}, {path: {"$size": 2}}]}, {"$or": [{path: small}, {"k": 1}]},
        {"$and": [{path: {"$ne": small}}, {"n": {"$gte": 0}}]}, {path: {"$mod": [2, 1]}},
        {"$expr": {"$lt": [{"$size": array}, rng.randrange(8)]}},
        {"$expr": {"$in": [small, array]}}, {"$expr": {"$gt": [{"$size": array}, "$n"]}},
        {"$expr": {"$lt": [{"$size": field}, 5]}},
    ))
