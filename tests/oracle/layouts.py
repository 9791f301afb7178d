"""The layouts that the oracle tries: ruled arrays and how their tails are kept, at each threshold."""

THRESHOLDS = (0, 1, 2, 3, 5)
OF_ELEMENTS = "each_"  # so begin the collections whose rules have one overflow document an element
# The second Spillway's batch size, where it is another than the first one's: a configuration that is being changed.
OTHER_SIZES = {"flag": 5, "empty": 2, "bytes": 2}
SETTLE = {"settle": "20ms", "gather": 3, "quiet": "20ms", "sweep": "1h"}


class Layout:
    """One collection under one or two rules.

    `arrays` are the ruled paths, `masked` the fields that a rule shows to clients on purpose and
    that no comparison may look at, `collation` the collection's default.
    """

    def __init__(self, name, threshold, rules, masked=(), collation=None, more=None):
        self.kind = name
        self.collection = f"{name}{threshold}"
        self.threshold = threshold
        self.masked = masked
        self.collation = collation
        self.keeps_garbage = any(rule["gc_delay"] != "0s" for rule in rules)
        self.keeps_images = all(rule["gc_delay"] != "0s" for rule in rules)
        self._rules = rules
        self._more = more or {}

    @property
    def arrays(self):
        return [rule["array"] for rule in self._rules]

    def rules(self, database, place=0):
        """The rules as the configuration file of the Spillway at this place has them."""
        return [
            {
                "name": f"{self.collection}-{rule['array']}",
                "namespace": f"{database}.{self.collection}",
                "threshold": self.threshold,
                **SETTLE,
                **self._more,
                **rule,
                "overflow": self._overflow(rule["overflow"], place),
            }
            for rule in self._rules
        ]

    def _overflow(self, overflow, place):
        if place == 0 or self.kind not in OTHER_SIZES:
            return overflow
        return {**overflow, "batch": {**overflow["batch"], "size": OTHER_SIZES[self.kind]}}

    def batch_sizes(self, rule):
        """The least and the greatest that a batch is full with."""
        own = rule["overflow"].get("batch", {}).get("size", 1)
        other = OTHER_SIZES.get(self.kind, own)
        return min(own, other), max(own, other)


def _rule(array="f", gc_delay="0s", overflow=None, **options):
    usual = {"layout": "batches", "link": "main", "array": "part", "batch": {"size": 2}}
    overflow = {**usual, **(overflow or {})}
    return {"array": array, "gc_delay": gc_delay, **options, "overflow": overflow}


def _kinds():
    yes = {"field": "many", "value": True, "otherwise": "absent"}
    word = {"field": "many", "value": "yes", "otherwise": "no"}
    numbered = {"batch": {"field": "batchNumber", "size": 3}, "link": "owner"}
    fat = {"batch": {"size": 3, "max_bytes": "1KB"}}
    return {
        "keep": ([_rule(gc_delay="60s")],),
        "empty": ([_rule(when_outlier="empty", overflow=numbered)],),
        "flag": ([_rule(flag=yes)],),
        "otherwise": ([_rule(flag=word, gc_delay="60s")],),
        "shown": ([_rule(flag=yes, expose=["flag"])], ("many",)),
        # Garbage is looked for by the _id that a filter names, perhaps in another case: the sweep's.
        "collated": ([_rule(flag=yes, gc_delay="60s")], (), {"locale": "en", "strength": 1}),
        "dotted": ([_rule(array="a.f", overflow=numbered)],),
        "bytes": ([_rule(max_bytes="1KB", overflow=fat)],),
        # Finds by one element ask the overflow first.
        "indexed": ([_rule(gc_delay="60s", overflow={"indexes": [{"keys": {"part": 1}}]})],),
        "two": ([
            _rule(flag=yes, overflow={"collection": "{collection}_f"}),
            _rule(array="a.f", when_outlier="empty", gc_delay="60s",
                  overflow={"collection": "{collection}_a", "batch": {"size": 3}}),
        ],),
    }


def _as_elements(rule):
    """The rule with a document for each element. Elements of the generator have a field `x`, too."""
    kept = {name: value for name, value in rule["overflow"].items() if name in ("collection", "link")}
    link = "x" if kept["link"] == "main" else kept["link"]
    return {**rule, "overflow": {**kept, "layout": "elements", "link": link, "indexes": [{"keys": {"y": 1}}]}}


def all_layouts(elements=False, in_place=False):
    kinds = _kinds()
    if elements:
        kinds = {f"{OF_ELEMENTS}{name}": ([_as_elements(rule) for rule in rules], *rest)
                 for name, (rules, *rest) in kinds.items()}
    return [
        Layout(name, threshold, *parts, more={"fold_limit": "1B"} if in_place else None)
        for name, parts in kinds.items() for threshold in THRESHOLDS
    ]
