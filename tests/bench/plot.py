"""Draws the plot of tests/bench/celebrity as SVG, with a background of its own: light or dark."""

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 880, 590
LEFT, RIGHT, TOP, BOTTOM = 70, 710, 118, 364  # of the throughput plot
BARS_TOP, BAR, GAP = 466, 20, 6
NAMES = {"push": "push a follower", "profile": "read a profile", "last": "read the last 20",
         "member": "look for a follower"}
FIRST = "mongod alone"
POINTS = 60  # of a line
CLASSES = {"mongod alone": "alone", "Spillway": "ours", "pattern by hand": "hand"}
STYLE = """
  .page { fill: #ffffff; } text { fill: #1f2328; font: 13px system-ui, sans-serif; }
  .title { font-size: 17px; font-weight: 600; } text.small { font-size: 12px; fill: #57606a; }
  .head { font-weight: 600; } .end { text-anchor: end; } .middle { text-anchor: middle; }
  .grid { stroke: #d0d7de; } polyline { fill: none; stroke-width: 2.5; stroke-linejoin: round; }
  rect.alone { fill: #b35900; } polyline.alone { stroke: #b35900; stroke-dasharray: 2 3; }
  rect.ours { fill: #0969da; } polyline.ours { stroke: #0969da; }
  rect.hand { fill: #1a7f37; } polyline.hand { stroke: #1a7f37; stroke-dasharray: 9 4; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } text { fill: #e6edf3; } text.small { fill: #9198a1; }
    .grid { stroke: #30363d; }
    rect.alone { fill: #f0883e; } polyline.alone { stroke: #f0883e; }
    rect.ours { fill: #58a6ff; } polyline.ours { stroke: #58a6ff; }
    rect.hand { fill: #56d364; } polyline.hand { stroke: #56d364; }
  }
"""


def ticks(first, last):
    """Round numbers from `first` to `last`: four to ten of them, or fewer of a small range."""
    for power in range(12):
        steps = [factor * 10**power for factor in (1, 2, 5)]
        step = next((one for one in steps if last - first <= 8 * one), None)
        if step:
            break
    return [step * i for i in range(math.ceil(first / step), int(last / step) + 1)]


def short(number):
    """1200 -> 1,200; 250000 -> 250k."""
    return f"{number / 1000:,.5g}k" if number >= 10_000 else f"{number:,.0f}"


def text(x, y, words, classes=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{classes}">{escape(words)}</text>'


def rectangle(kind, x, y, width, height):
    return (f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}"/>')


def line(x1, y1, x2, y2):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="grid"/>'


class Axes:
    """Pushes to the right, operations a second upwards."""

    def __init__(self, first, last, greatest):
        self.first, self.last = first, max(last, first + 1)
        self.greatest = greatest

    def x(self, pushes):
        return LEFT + (RIGHT - LEFT) * (pushes - self.first) / (self.last - self.first)

    def y(self, rate):
        return BOTTOM - (BOTTOM - TOP) * rate / self.greatest

    def draw(self):
        parts = []
        for rate in ticks(0, self.greatest):
            parts += [line(LEFT, self.y(rate), RIGHT, self.y(rate)),
                      text(LEFT - 8, self.y(rate) + 4, short(rate), "small end")]
        for pushes in ticks(self.first, self.last):
            parts.append(text(self.x(pushes), BOTTOM + 18, short(pushes), "small middle"))
        return parts


def ends_apart(ends):
    """The heights of the words at the ends of the lines, so that none covers another."""
    placed, lowest = {}, -100
    for name, y in sorted(ends.items(), key=lambda item: item[1]):
        lowest = placed[name] = max(y, lowest + 32)
    return placed


def points(figures):
    """(pushes so far, operations a second by arm): neighbouring rounds together, POINTS at most."""
    rounds = figures["rounds"]
    together = math.ceil(len(rounds) / POINTS)
    for start in range(0, len(rounds), together):
        some = rounds[start:start + together]
        rates = {}
        for name in CLASSES:
            seconds = sum(one[name]["seconds"] for one in some)
            rates[name] = sum(one[name]["operations"] for one in some) / seconds
        yield some[-1][FIRST]["pushes"], rates


def throughput(figures):
    found = list(points(figures))
    axes = Axes(figures["settings"]["prefilled"], found[-1][0],
                1.08 * max(rate for _, rates in found for rate in rates.values()))
    longest = figures["rounds"][-1][FIRST]["longest"]
    parts = [text(LEFT, TOP - 12, "operations a second", "head"), *axes.draw(),
             text((LEFT + RIGHT) / 2, BOTTOM + 38,
                  f"followers pushed so far (at the end the longest array has {longest:,})",
                  "small middle")]
    for name, kind in CLASSES.items():
        places = " ".join(f"{axes.x(pushes):.1f},{axes.y(rates[name]):.1f}"
                          for pushes, rates in found)
        parts.append(f'<polyline class="{kind}" points="{places}"/>')
    ends = ends_apart({name: axes.y(rate) for name, rate in found[-1][1].items()})
    for name, y in ends.items():
        at_end = figures["last_tenth"][name]["per_second"]
        parts += [rectangle(CLASSES[name], RIGHT + 10, y - 9, 10, 10),
                  text(RIGHT + 26, y, name, "head"),
                  text(RIGHT + 26, y + 15, f"{at_end:,.0f} at the end", "small")]
    return parts


def milliseconds(number):
    return f"{number:,.{2 if number < 10 else 1 if number < 100 else 0}f}"


def bars(figures):
    """The median of each operation, by arms; each operation has a scale of its own."""
    words = "median time of an operation at the end (last tenth of the run), in ms"
    parts = [text(LEFT, BARS_TOP - 34, words, "head")]
    room = (WIDTH - LEFT) / len(NAMES)
    for column, (kind, words) in enumerate(NAMES.items()):
        x = LEFT + column * room
        times = {name: figures["last_tenth"][name][f"{kind}_p50_us"] / 1000
                 for name in CLASSES}
        greatest = max(times.values()) or 1
        parts.append(text(x, BARS_TOP - 10, words))
        for row, (name, time) in enumerate(times.items()):
            y, width = BARS_TOP + row * (BAR + GAP), max(1.5, (room - 75) * time / greatest)
            parts += [rectangle(CLASSES[name], x, y, width, BAR),
                      text(x + width + 6, y + 15, milliseconds(time))]
    return parts


def description(figures):
    settings = figures["settings"]
    begin = f", from {settings['prefilled']:,} pushes on" if settings["prefilled"] else ""
    return [f"{settings['users']:,} users; operations choose them by a Zipf distribution "
            f"({settings['exponent']}){begin}",
            "60 % pushes, 25 % profiles without the array, 10 % last 20 followers, "
            "5 % look for one follower"]


def draw(figures):
    foot = (f"{figures['date'][:10]}, {figures['cores']} cores for everything, "
            f"{figures['settings']['connections']} connections. Made by {figures['command']}")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        "<title>Operations a second: mongod alone, Spillway, the outlier pattern by hand</title>",
        f"<style>{STYLE}</style>", rectangle("page", 0, 0, WIDTH, HEIGHT),
        text(LEFT, 30, "A social network with a celebrity", "title"),
        *(text(LEFT, 50 + 16 * row, words, "small")
          for row, words in enumerate(description(figures))),
        *throughput(figures), *bars(figures), text(LEFT, HEIGHT - 18, foot, "small"), "</svg>",
    ]
    return "\n".join(parts) + "\n"
