"""Checks what is stored, straight from mongod, against the protocol's invariants V1 to V7.

    V1  a spilled document's batches have no hole and at least n elements
    V2  the flag stands where n > 0, and only there
    V3  no batch of a generation that is not the main document's
    V4  stored elements beyond n equal those behind the head
    V5  where batches overlap they are equal
    V6  (link, batch) unique, from 1 without gaps, no batch too long
    V7  at rest: only the head in the main document, batches full but the last, together n elements

V1, V4 and V5 broken is corruption; the others mean work not done yet. Of an array that was edited in place
(docs/internals/spill-protocol.md, "Edits in place") V1, V2, V3, V5 and the size of batches are asked, of what counts
in its edition.
"""

import functools
import itertools

from bson.raw_bson import RawBSONDocument

from support import exact

_UNITS = {"KB": 1024, "MB": 1024**2, "GB": 1024**3}
# What an element costs besides its value: a type byte and a name of a few digits.
_ELEMENT_OVERHEAD = 10
_ZERO_TIMESTAMP = (exact.TIMESTAMP, b"\0" * 8)


def _bytes(text):
    for unit, factor in _UNITS.items():
        if str(text).endswith(unit):
            return int(text[:-2]) * factor
    return int(text)


class Keeping:
    """A rule of the configuration file with what it leaves out filled in."""

    def __init__(self, rule):
        overflow = rule.get("overflow", {})
        batch = overflow.get("batch", {})
        self.database, _, self.collection = rule["namespace"].partition(".")
        self.array = rule["array"]
        self.key = self.array.replace(".", "/")
        self.empties = rule.get("when_outlier") == "empty"
        self.threshold = rule["threshold"]
        self.max_bytes = _bytes(rule.get("max_bytes", "1MB"))
        self.flag = rule.get("flag")
        default = "{collection}_" + self.array.replace(".", "_") + "_overflow"
        self.overflow = overflow.get("collection", default).replace("{collection}", self.collection)
        self.link = overflow.get("link")
        self.part = overflow.get("array")
        self.of_elements = overflow.get("layout") == "elements"  # one overflow document an element
        self.batch_field = batch.get("field")
        self.batch_size = 1 if self.of_elements else batch.get("size", 1000)
        self.batch_least = self.batch_size  # where Spillways with several sizes serve: the least of them
        self.batch_bytes = _bytes(batch.get("max_bytes", "256KB"))

    def written_names(self):
        """The top-level fields that a move writes."""
        return {self.array.partition(".")[0], "_spill", self.flag and self.flag["field"]}

    def read(self, client):
        """(main documents, overflow documents) as they are stored, without loss."""
        options = client.codec_options.with_options(document_class=RawBSONDocument)
        database = client.get_database(self.database, codec_options=options)
        mains = _read(database[self.collection])
        while True:
            batches = _read(database[self.overflow])
            before, mains = mains, _read(database[self.collection])
            if _states(mains) == _states(before):  # nothing was linked meanwhile
                return mains, batches


class Batch:
    """One overflow document, taken apart."""

    def __init__(self, pairs, keeping):
        self.link = exact.get(pairs, keeping.link)
        generation, position = exact.get(pairs, "_spill.g"), exact.get(pairs, "_spill.p")
        self.generation = generation
        self.position = exact.plain(position) if position else None
        self.first, self.until, self.width = (
            exact.plain(value) if value else None for value in (exact.get(pairs, f"_spill.{each}") for each in "euw"))
        if keeping.of_elements:
            self.number = self.position + 1 if position else None
            self.elements = [_element(pairs, keeping)]
            return
        number = exact.get(pairs, keeping.batch_field or "_spill.i")
        self.number = exact.plain(number) if number else None
        self.elements = _items(exact.get(pairs, keeping.part))

    def strange(self):
        """True for one that no mover has made: split by hand, or restored."""
        return self.generation is None or self.number is None


class Findings:
    """What is wrong with one rule's documents; `waiting` is what time will mend."""

    def __init__(self):
        self.corrupt = []
        self.unfinished = []
        self.garbage = []

    def __bool__(self):
        return bool(self.corrupt or self.unfinished or self.garbage)

    def __str__(self):
        parts = {"corrupt": self.corrupt, "unfinished": self.unfinished, "garbage": self.garbage}
        return "; ".join(f"{name}: {text}" for name, texts in parts.items() for text in texts)


def _read(collection):
    return [exact.parse(bytes(document.raw)) for document in collection.find()]


def _states(mains):
    return [exact.get(pairs, "_spill") for pairs in mains]


def _items(value):
    return [item for _, item in value[1]] if value and value[0] == exact.ARRAY else []


def _element(pairs, keeping):
    """What a document of one element holds: what was kept whole, else its own fields."""
    whole = exact.get(pairs, "_spill.v")
    ours = ("_id", "_spill", keeping.link)
    return whole or (exact.DOCUMENT, [pair for pair in pairs if pair[0] not in ours])


def _repeats_a_name(value):
    """True where a name stands twice in a document anywhere within the value."""
    kind, payload = value
    if kind not in (exact.DOCUMENT, exact.ARRAY):
        return False
    names = [name for name, _ in payload]
    return len(set(names)) < len(names) or any(_repeats_a_name(item) for _, item in payload)


class Editions:
    """The state of an array that was edited in place."""

    def __init__(self, state):
        editions = exact.get(state[1], "e")
        self.older, self.later = (exact.get(editions[1], each) for each in "gl")
        self.bound, self.head, self.positions, self.removed, self.edition = (
            exact.plain(exact.get(editions[1], each)) for each in "bhnrv")

    def counts(self, batch):
        return batch.generation in (self.older, self.later) and batch.position < self._most(batch) \
            and (batch.first or 0) <= self.edition and (batch.until is None or batch.until > self.edition)

    def _most(self, batch):
        return self.bound if batch.generation == self.older else self.positions

    def end(self, batch):
        width = len(batch.elements) if batch.width is None else batch.width
        return min(batch.position + width, self._most(batch))

    def overflow(self, batches):
        """(elements, the position up to which something counts)."""
        out, reached = [], 0
        while reached < self.positions:
            held = [each for each in batches if each.position <= reached < self.end(each)]
            batch = next((each for each in held if each.generation == self.later), held[0] if held else None)
            if batch is None or (batch.width is not None and batch.position < reached):
                break
            end = self.end(batch)
            if batch.generation == self.older:
                end = min([end, *(each.position for each in batches
                                  if each.generation == self.later and each.position > reached)])
            part = slice(reached - batch.position, end - batch.position) if batch.width is None else slice(None)
            out += batch.elements[part]
            reached = end
        return out, reached

    def differ(self, one, other):
        """V5: two batches of one name hold one position, and it has two values."""
        begin, end = max(one.position, other.position), min(self.end(one), self.end(other))
        if one.generation != other.generation or begin >= end:
            return False
        copies = one.width is not None or other.width is not None
        return copies or any(one.elements[place - one.position] != other.elements[place - other.position]
                             for place in range(begin, end))


def _link_key(value):
    return value[0], exact.encode([("", value)])


def _value_bytes(value):
    return len(exact.encode([("", value)])) - 7


class _Document:
    """One main document beside its batches."""

    def __init__(self, pairs, batches, keeping, findings):
        self.pairs = pairs
        self.keeping = keeping
        self.findings = findings
        self.identifier = exact.get(pairs, "_id")
        self.state = exact.get(pairs, f"_spill.{keeping.key}")
        self.value = exact.get(pairs, keeping.array)
        self.strange = any(batch.strange() for batch in batches)
        edited = self.state and exact.get(self.state[1], "e")
        self.editions = Editions(self.state) if edited else None
        generation = self.state and exact.get(self.state[1], "g")
        if self.editions:
            self._take_edited(batches)
            return
        own = [batch for batch in batches if batch.generation == generation and not batch.strange()]
        self.own = sorted(own, key=lambda batch: batch.number)
        self.garbage = [batch for batch in batches if batch not in own and not batch.strange()]

    def _take_edited(self, batches):
        """What an earlier edition needs, or a pending edit has stored, waits."""
        names = self.editions.older, self.editions.later
        self.own = [each for each in batches if not each.strange() and self.editions.counts(each)]
        self.garbage = [each for each in batches if each.generation not in names and not each.strange()]

    def _number(self, name):
        if self.editions:
            return {"h": self.editions.head, "n": self.editions.positions}[name]
        return exact.plain(exact.get(self.state[1], name))

    def _say(self, where, text):
        where.append(f"{exact.show(self.identifier)}: {text}")

    def never_moved(self):
        """Those that the protocol leaves alone."""
        names = [name for name, _ in self.pairs]
        twice = any(names.count(name) > 1 for name in self.keeping.written_names())
        parent = self.pairs
        for part in self.keeping.array.split("."):
            twice = twice or [name for name, _ in parent].count(part) > 1
            value = next((item for name, item in parent if name == part), (exact.NULL, b""))
            parent = value[1] if value[0] == exact.DOCUMENT else []
        # A pipeline update that moves such elements about aborts mongod 6.0.
        twice = twice or any(_repeats_a_name(item) for item in _items(self.value))
        return twice or self.strange or self.identifier == _ZERO_TIMESTAMP

    @functools.cached_property
    def overflow(self):
        """The elements that the batches hold, by position; V1's holes and V5 on the way."""
        out = []
        for batch in self.own:
            if batch.position > len(out):
                self._say(self.findings.corrupt, f"V1: a hole before batch {batch.number}")
                return out
            overlap = out[batch.position:batch.position + len(batch.elements)]
            if batch.elements[:len(overlap)] != overlap:
                self._say(self.findings.corrupt, f"V5: batch {batch.number} differs from those before")
            out += batch.elements[len(out) - batch.position:]
        return out

    def logical(self):
        """The whole array."""
        items = _items(self.value)
        if not self.state:
            return items
        head = self._number("h")
        if self.editions:
            return items[:head] + self.editions.overflow(self.own)[0] + items[head:]
        return items[:head] + self.overflow[:self._number("n")] + items[head:]

    def check(self):
        self._check_flag()
        if self.garbage:
            numbers = [batch.number for batch in self.garbage]
            self._say(self.findings.garbage, f"V3: batches {numbers} of another generation")
        if self.state is None:
            self._check_ordinary()
        elif self.editions:
            self._check_edited()
        else:
            self._check_spilled()

    def _check_edited(self):
        elements, reached = self.editions.overflow(self.own)
        expected = self.editions.positions - self.editions.removed
        if reached < self.editions.positions:
            self._say(self.findings.corrupt, f"V1: a hole at {reached} of {self.editions.positions}")
        elif len(elements) != expected or len(_items(self.value)) < self.editions.head:
            self._say(self.findings.corrupt, f"V1: {len(elements)} elements of {expected} are there")
        for one, other in itertools.combinations(self.own, 2):
            if self.editions.differ(one, other):
                self._say(self.findings.corrupt, f"V5: batches {one.number} and {other.number} differ")
        for batch in self.own:
            if len(batch.elements) > self.keeping.batch_size:
                self._say(self.findings.unfinished, f"V6: batch {batch.number} is too long")

    def _check_flag(self):
        flag = self.keeping.flag
        if not flag:
            return
        spilled = self.state is not None and self._number("n") > 0
        stands = exact.get(self.pairs, flag["field"]) == exact.value_of(flag["value"])
        if spilled != stands:
            self._say(self.findings.unfinished, f"V2: flag {stands}, spilled {spilled}")

    def _check_ordinary(self):
        if self.value is None or self.value[0] != exact.ARRAY or self.never_moved():
            return
        if len(self.value[1]) > self.keeping.threshold:
            self._say(self.findings.unfinished, f"V7: {len(self.value[1])} elements, not moved")
        elif len(exact.encode(self.value[1])) > self.keeping.max_bytes:
            self._say(self.findings.unfinished, "V7: too many bytes, not moved")

    def _check_spilled(self):
        out = self.overflow
        head, linked = self._number("h"), self._number("n")
        if len(out) < linked:
            self._say(self.findings.corrupt, f"V1: {len(out)} elements of {linked} are there")
        tail = _items(self.value)[head:]
        if out[linked:] != tail[:len(out) - linked]:
            self._say(self.findings.corrupt, "V4: stored elements beyond n differ from the tail")
        if self.never_moved():
            return  # a state may have been born before the document became one of those
        if len(_items(self.value)) != head or linked < 1:
            self._say(self.findings.unfinished, f"V7: head {head}, n {linked}, {len(tail)} behind")
        elif len(out) != linked:
            self._say(self.findings.unfinished, f"V7: the batches hold not just {linked}")
        if sum(len(batch.elements) for batch in self.own) > len(out):
            self._say(self.findings.unfinished, "V7: batches hold elements twice")
        self._check_head(head)
        self._check_batches()

    def _check_head(self, head):
        """Only N elements that are too fat leave fewer than N in the main document."""
        most = 0 if self.keeping.empties else self.keeping.threshold
        first = self.logical()[:head + 1]
        fat = sum(map(_value_bytes, first)) + _ELEMENT_OVERHEAD * len(first) > self.keeping.max_bytes
        if head > most or (head < most and not fat):
            self._say(self.findings.unfinished, f"V7: head {head} where {most} is the rule")

    def _check_batches(self):
        numbers = [batch.number for batch in self.own]
        if numbers != list(range(1, len(numbers) + 1)):
            self._say(self.findings.unfinished, f"V6: batches are numbered {numbers}")
        for batch, following in zip(self.own, [*self.own[1:], None]):
            if len(batch.elements) > self.keeping.batch_size:
                self._say(self.findings.unfinished, f"V6: batch {batch.number} is too long")
            if following and not self._full(batch, following):
                self._say(self.findings.unfinished, f"V7: batch {batch.number} is not full")

    def _full(self, batch, following):
        if len(batch.elements) >= self.keeping.batch_least or not following.elements:
            return True
        sizes = [_value_bytes(item) for item in [*batch.elements, following.elements[0]]]
        return sum(sizes) + _ELEMENT_OVERHEAD * len(sizes) > self.keeping.batch_bytes


def _by_link(batches):
    found = {}
    for batch in batches:
        found.setdefault(_link_key(batch.link), []).append(batch)
    return found


def check(mains, overflows, keeping):
    """Findings on all of one rule's documents, and its logical arrays by `_id`."""
    findings = Findings()
    linked = _by_link([Batch(pairs, keeping) for pairs in overflows])
    arrays = {}
    for pairs in mains:
        identifier = exact.get(pairs, "_id")
        batches = linked.pop(_link_key(identifier), [])
        document = _Document(pairs, batches, keeping, findings)
        document.check()
        arrays[_link_key(identifier)] = document.logical()
    for batches in linked.values():
        if not all(batch.strange() for batch in batches):
            findings.garbage.append(f"V3: {len(batches)} batches of {exact.show(batches[0].link)}")
    return findings, arrays


def verify(client, rule):
    """Findings on what `client`'s mongod holds under a rule of the configuration file."""
    keeping = Keeping(rule)
    return check(*keeping.read(client), keeping)[0]
