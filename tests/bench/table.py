"""A measured row, and the table that the rows make."""

import dataclasses

FAR = 1000  # from the bar: a figure in another unit


@dataclasses.dataclass
class Row:
    """`bar` says in words what at_most or at_least alone would say wrongly; `least` is the smallest
    figure that can be one at all, unless it is given; `most` the largest. On a busy machine, one
    process may wait a hundred times as long as another.
    """

    name: str
    measured: float
    at_most: float = None
    at_least: float = None
    bar: str = ""
    least: float = None
    most: float = None
    detail: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if self.least is None:
            self.least = (self.at_least or self.at_most) / FAR
        if self.most is None:
            self.most = FAR * max(self.at_least or self.at_most, 1)
        if not self.bar:
            self.bar = (f"{self.at_most:,g} at most" if self.at_least is None
                        else f"{self.at_least:,g} at least")

    @property
    def ok(self):
        if self.at_least is not None:
            return self.measured >= self.at_least
        return self.measured <= self.at_most

    def plausible(self):
        """Whether the figure can be one at all, on a busy machine too; says nothing of the bar."""
        return self.least <= self.measured < self.most

    def as_json(self):
        return {"row": self.name, "bar": self.bar, "measured": round(self.measured, 4),
                "ok": self.ok, "detail": self.detail}


def _number(value):
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3f}"


def print_table(rows):
    width = max(len(row.name) for row in rows)
    print(f"\n{'':{width}}  {'bar':>14}  {'measured':>10}")
    for row in rows:
        verdict = "ok" if row.ok else "MISS"
        print(f"{row.name:{width}}  {row.bar:>14}  {_number(row.measured):>10}  {verdict}")


def print_detail(row):
    print(f"  {row.name}: {_number(row.measured)}")
    for name, value in row.detail.items():
        print(f"    {name}: {_number(value)}", flush=True)
