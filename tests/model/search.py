"""Walks through all states of a scenario, breadth first, so that a violation comes by its shortest way."""

from model import protocol


class Broken(Exception):
    """A violation: `story` are the worlds that lead to it."""

    def __init__(self, scenario, story, why):
        super().__init__(str(why))
        self.scenario = scenario
        self.story = story

    def told(self):
        lines = [str(self.scenario), *map(_told, self.story), f"violation: {self}"]
        return "\n".join(lines)


def _told(world):
    batches = " ".join(f"{b.number}@{b.position}{list(b.elements)}" for b in sorted(world.batches))
    now = " ".join(str(each[0]) for each in world.movers)
    return f"  {now:12} main {world.main.state} {list(world.main.array)}  overflow {batches}"


def _story(world, before):
    story = []
    while world is not None:
        story.append(world)
        world = before[world]
    return story[::-1]


def search(scenario, machine=protocol, most=2_000_000):
    """How many states there are; raises Broken at the first that must not be."""
    begin = machine.beginning(scenario)
    before, layer, rested = {begin: None}, [begin], set()
    while layer:
        following = []
        for world in layer:
            try:
                stored = (world.main, world.batches)
                if stored not in rested:
                    rested.add(stored)
                    machine.require_sound(world, scenario.rules)
                    machine.require_rest(world, scenario)
                after = list(machine.steps(world, scenario))
            except (protocol.Torn, AssertionError) as why:
                raise Broken(scenario, _story(world, before), why) from why
            for each in after:
                if each not in before:
                    before[each] = world
                    following.append(each)
        layer = following
        if len(before) > most:
            raise RuntimeError(f"more than {most} states: {scenario}")
    return len(before)
