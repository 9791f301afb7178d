"""The spill protocol as a machine of small steps: what is stored, and who is between which two commands.

Each step is one command of somebody, atomic at the server. `Rules` switches off what protocol.md had not, so that
the search can show what each part is for. Elements are numbers in the order in which they were pushed."""

import collections
import functools

# `furthest`: a mover takes the batch that reaches furthest where the last one ends before n.
# `union`: readers take each position from any batch that holds it; else a batch cuts what those before it hold behind
# its own end.
# `placed`: the guard of an append to a batch names its position.
Rules = collections.namedtuple("Rules", "furthest union placed", defaults=(True, True, True))
# `unique` says that the overflow has its unique index; `sizes` are the movers' batch sizes. `older` says that the
# first mover is an
# older release's: it knows neither `furthest` nor `placed`.
Scenario = collections.namedtuple("Scenario",
                                  "sizes unique length pushes edits reads collects crashes head rules older",
                                  defaults=(False,))
Main = collections.namedtuple("Main", "state array whole")           # state: None or (g, h, n)
Batch = collections.namedtuple("Batch", "number g position elements copy")
# What can still happen: pushes, edits, and so on; the generations so far.
Left = collections.namedtuple("Left", "pushes edits reads collects crashes births")
World = collections.namedtuple("World", "main batches left movers editor reader collector")

IDLE = ("idle",)


def rules_of(scenario, place):
    return scenario.rules._replace(furthest=False, placed=False) if scenario.older and place == 0 else scenario.rules


class Torn(Exception):
    """The overflow does not hold what it should."""


def in_order(batches, g):
    return sorted((batch for batch in batches if batch.g == g), key=lambda batch: (batch.number, batch.copy))


def gather(batches, g, n, union):
    """ov(g)[0:n] of protocol.md section 1; raises where elements are missing."""
    out = ()
    for batch in in_order(batches, g):
        if batch.position > len(out):
            raise Torn(f"a hole before {batch}")
        end = batch.position + len(batch.elements)
        out = out[:batch.position] + batch.elements + (out[end:] if union else ())
    if len(out) < n:
        raise Torn(f"{len(out)} of {n} elements")
    return out[:n]


def logical(image, batches, union):
    if image.state is None:
        return image.array
    g, head, n = image.state
    return image.array[:head] + gather(batches, g, n, union) + image.array[head:]


def require_sound(world, rules):
    """What must hold in each state: the array can be read, and positions have one value (V1, V4, V5)."""
    main = world.main
    if logical(main, world.batches, rules.union) != main.whole:
        raise Torn(f"{logical(main, world.batches, rules.union)} instead of {main.whole}")
    if main.state is None:
        return
    g, head, _ = main.state
    overflow = main.whole[head:]
    for batch in world.batches:
        if batch.g == g and batch.elements != overflow[batch.position:batch.position + len(batch.elements)]:
            raise Torn(f"{batch} holds other elements than {overflow}")


# ---- the mover: M0 to M4, and what a duplicate key makes it do ----

def m0(world, place, scenario):
    main = world.main
    head = main.state[1] if main.state else scenario.head
    if len(main.array) <= head:
        return None
    if main.state is None:
        return world, ("m1", head)
    return world, ("m2", main.state, main.array[head:])


def m1(world, place, scenario, head):
    main, left = world.main, world.left
    if main.state is None and len(main.array) > head:
        state = (left.births, head, 0)
        world = world._replace(main=main._replace(state=state), left=left._replace(births=left.births + 1))
    return world, IDLE


def m2(world, place, scenario, state, tail):
    g, _, n = state
    size, rules = scenario.sizes[place], rules_of(scenario, place)
    known = [batch for batch in in_order(world.batches, g) if batch.position <= n]
    last = known[-1] if known else None
    number = last.number if last else 0
    opened = last
    if last and last.position + len(last.elements) < n and rules.furthest:
        opened = max(known, key=lambda batch: batch.position + len(batch.elements))
    if (opened.position + len(opened.elements) if opened else 0) < n:
        return world, IDLE  # left alone
    held = len(opened.elements) if opened else 0
    beyond = n - opened.position if opened else 0
    if held > beyond:  # stored by somebody: only as much as is the document's own
        stored = opened.elements[beyond:][:len(tail)]
        if stored != tail[:len(stored)]:
            raise Torn("what is stored beyond n is not the document's")
        return world, ("m4", state, len(stored)) if stored else IDLE
    if opened and opened is last and held < size:
        return world, ("m3b", state, tail, opened.number, opened.position, held)
    return world, ("m3c", state, tail, number, 0)


def m3b(world, place, scenario, state, tail, number, position, held):
    room = scenario.sizes[place] - held
    for batch in in_order(world.batches, state[0]):
        if batch.number == number and len(batch.elements) == held and \
                (batch.position == position or not rules_of(scenario, place).placed):
            longer = batch._replace(elements=batch.elements + tail[:room])
            world = world._replace(batches=world.batches - {batch} | {longer})
            return world, ("m3c", state, tail, number, len(tail[:room]))
    return world, IDLE


def m3c(world, place, scenario, state, tail, number, stored):
    """One batch of the rest, or the cut."""
    if stored == len(tail):
        return world, ("m4", state, stored)
    number += 1
    taken = [batch for batch in world.batches if batch.number == number]
    if taken and scenario.unique:
        return world, ("m4", state, stored) if stored else ("g1", frozenset(batch.g for batch in world.batches))
    elements = tail[stored:stored + scenario.sizes[place]]
    batch = Batch(number, state[0], state[2] + stored, elements, len(taken))
    return world._replace(batches=world.batches | {batch}), ("m3c", state, tail, number, stored + len(elements))


def m4(world, place, scenario, state, stored):
    main = world.main
    if main.state == state:
        g, head, n = state
        main = main._replace(state=(g, head, n + stored), array=main.array[:head] + main.array[head + stored:])
    return world._replace(main=main), IDLE


def g1(world, place, scenario, seen):
    alive = {world.main.state[0]} if world.main.state else set()
    return world, ("g2", seen - alive)


def g2(world, place, scenario, dead):
    return world._replace(batches=frozenset(batch for batch in world.batches if batch.g not in dead)), IDLE


MOVER = {"idle": m0, "m1": m1, "m2": m2, "m3b": m3b, "m3c": m3c, "m4": m4, "g1": g1, "g2": g2}


def take_step(steps, world, place, scenario):
    """A mover's next one of these steps: the world after it; None where nothing is to be moved."""
    now = world.movers[place]
    done = steps[now[0]](world, place, scenario, *now[1:])
    if done is None:
        return None
    world, then = done
    return world._replace(movers=world.movers[:place] + (then,) + world.movers[place + 1:])


move = functools.partial(take_step, MOVER)


# ---- the others ----

def push(world, scenario):
    main, left = world.main, world.left
    if not left.pushes:
        return
    element = (scenario.length + scenario.pushes - left.pushes,)
    main = main._replace(array=main.array + element, whole=main.whole + element)
    yield world._replace(main=main, left=left._replace(pushes=left.pushes - 1))


def edit(world, scenario):
    """One try: E0 takes the first element away, where there is no state; else the array is folded back."""
    main, left, now = world.main, world.left, world.editor
    if now == IDLE:
        left = left._replace(edits=left.edits - 1)
        if left.edits >= 0 and main.state is not None:
            yield world._replace(editor=("i1", main.state), left=left)
        elif left.edits >= 0 and main.array:
            main = main._replace(array=main.array[1:], whole=main.whole[1:])
            yield world._replace(main=main, left=left)
    elif now[0] == "i1":
        try:
            overflow = gather(world.batches, now[1][0], now[1][2], scenario.rules.union)
            yield world._replace(editor=("i2", now[1], overflow))
        except Torn:
            if main.state == now[1]:
                raise
            yield world._replace(editor=IDLE)  # the generation has died meanwhile
    else:
        _, state, overflow = now
        if main.state == state:
            main = main._replace(state=None, array=main.array[:state[1]] + overflow + main.array[state[1]:])
        yield world._replace(main=main, editor=IDLE)


def read(world, scenario):
    """R1 the main document, R2 its overflow, later."""
    left, now = world.left, world.reader
    if now == IDLE:
        if left.reads and world.main.state:
            yield world._replace(reader=("r2", world.main), left=left._replace(reads=left.reads - 1))
        return
    try:
        if logical(now[1], world.batches, scenario.rules.union) != now[1].whole:
            raise AssertionError(f"a reader got {logical(now[1], world.batches, scenario.rules.union)}")
    except Torn:
        if world.main.state and world.main.state[0] == now[1].state[0]:
            raise
    yield world._replace(reader=IDLE)


def collect(world, scenario):
    """G0 to G2 by somebody who is no mover."""
    left, now = world.left, world.collector
    if now == IDLE:
        if left.collects and world.batches:
            seen = frozenset(batch.g for batch in world.batches)
            yield world._replace(collector=("g1", seen), left=left._replace(collects=left.collects - 1))
    else:
        world, then = MOVER[now[0]](world, 0, scenario, *now[1:])
        yield world._replace(collector=then)


def crash(world, scenario):
    if not world.left.crashes:
        return
    left = world.left._replace(crashes=world.left.crashes - 1)
    for place, now in enumerate(world.movers):
        if now != IDLE:
            movers = world.movers[:place] + (IDLE,) + world.movers[place + 1:]
            yield world._replace(movers=movers, left=left)
    if world.editor != IDLE:
        yield world._replace(editor=IDLE, left=left)


def steps(world, scenario):
    """All worlds that one command leads to."""
    for place in range(len(world.movers)):
        after = move(world, place, scenario)
        if after:
            yield after
    for others in (push, edit, read, collect, crash):
        yield from others(world, scenario)


def beginning(scenario):
    array = tuple(range(scenario.length))
    left = Left(scenario.pushes, scenario.edits, scenario.reads, scenario.collects, scenario.crashes, 0)
    return World(Main(None, array, array), frozenset(), left, (IDLE,) * len(scenario.sizes), IDLE, IDLE, IDLE)


ALONE = 100  # steps in which one mover must come to rest


def require_rest(world, scenario):
    """Everything crashed here: each mover alone must bring what is stored to rest, with nothing lost."""
    for place in range(scenario.older, len(scenario.sizes)):
        alone = world._replace(movers=(IDLE,) * len(scenario.sizes), editor=IDLE, reader=IDLE, collector=IDLE)
        for _ in range(ALONE):
            after = move(alone, place, scenario)
            if after is None:
                break
            if after == alone:
                raise Torn("a mover alone does nothing")
            alone = after
        else:
            raise Torn(f"a mover with batches of {scenario.sizes[place]} never comes to rest")
        require_sound(alone, scenario.rules)
