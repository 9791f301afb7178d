"""Edits in place as a machine of small steps: docs/internals/spill-protocol.md, "Edits in place".

Each step is one command, or one transaction's commit, atomic at the server. A transaction reads a snapshot in a step
of its own, and ends if somebody has changed a document that it writes. `Rules` switches off one part at a time, so
that the search can show what the part is for. Elements are numbers; a changed element is 100 more."""

import collections
import functools

from model.protocol import Torn, take_step

Rules = collections.namedtuple(
    "Rules", "editions bounded preferred closed sealed together at_once owned counted measured cleaned history expired "
    "hidden ascending overruled",
    defaults=(True,) * 16)
# `operations`: tuples (kind, argument, transaction): "pull" a value, "set" a value, "at" a position, "pop" an end, or
# "fold" (pull a value the other way). `transaction`: it is a client's own, and is retried by nobody.
# `moved`: so many elements are in the overflow at the beginning. `lost`: in each state, the loss of a document that
# counts must be seen; this can not be had with two batch sizes.
Scenario = collections.namedtuple("Scenario",
                                  "sizes length pushes operations clears reads collects crashes head moved lost rules",
                                  defaults=(False, Rules()))
Main = collections.namedtuple("Main", "state array whole")
# `later`: the name under which everything is stored since the first edit in place; None: there was none, and the
# fields behind it mean nothing. `bound`: below it g's documents count. `mark`: only without `history`.
State = collections.namedtuple("State", "g head n later bound edition pending mark", defaults=(None, 0, 0, None, None))
# It counts in editions from `first` to before `until`. `width`: how many positions it stands for, if it was edited.
Batch = collections.namedtuple("Batch", "number g position elements first until width", defaults=(0, None, None))
Left = collections.namedtuple("Left", "pushes clears reads collects crashes births")
World = collections.namedtuple("World", "main batches left movers editors late reader collector history applied")

IDLE, OVER = ("idle",), ("over",)
ATTEMPTS = 2  # of one operation: then the client has an error, and nothing was applied


# ---- what an array is ----

def counts(batch, state, rules):
    """A reader of this state takes the overflow document."""
    if batch.g not in (state.g, state.later) or batch.position >= state.n:
        return False
    if batch.g == state.g and state.later is not None and rules.bounded and batch.position >= state.bound:
        return False
    if not rules.editions:
        return True
    return batch.first <= state.edition and (batch.until is None or batch.until > state.edition)


def end_of(batch, state, rules):
    if batch.width is not None:
        return batch.position + (batch.width if rules.closed else len(batch.elements))
    end = min(batch.position + len(batch.elements), state.n)
    return min(end, state.bound) if batch.g == state.g and state.later is not None and rules.bounded else end


def holder(batches, state, rules, place):
    """The overflow document that a reader takes the position from: an edited one before any other."""
    held = [each for each in batches if each.position <= place < end_of(each, state, rules)]
    if rules.preferred:
        return max(held, key=lambda each: each.g == state.later, default=None)
    return min(held, key=lambda each: each.position, default=None)


def pieces(batches, state, rules):
    """[(batch, begin, end, elements)] from position 0 to n; raises if something is missing."""
    out, reached = [], 0
    counting = sorted(each for each in batches if counts(each, state, rules))
    while reached < state.n:
        batch = holder(counting, state, rules, reached)
        if batch is None:
            raise Torn(f"a hole at {reached} of {state.n} positions")
        end, elements = end_of(batch, state, rules), batch.elements
        if batch.width is None:
            if batch.g != state.later and rules.preferred:
                end = min([end] + [each.position for each in counting
                                   if each.g == state.later and each.position > reached])
            elements = elements[reached - batch.position:end - batch.position]
        elif batch.position != reached:
            raise Torn(f"{batch} begins inside another one")
        out.append((batch, reached, end, elements))
        reached = end
    return out


def logical(image, batches, rules):
    if image.state is None:
        return image.array
    head = image.state.head
    overflow = sum((elements for *_, elements in pieces(batches, image.state, rules)), ())
    return image.array[:head] + overflow + image.array[head:]


def require_sound(world, rules):
    found = logical(world.main, world.batches, rules)
    if found != world.main.whole:
        raise Torn(f"{found} instead of {world.main.whole}")


def require_seen(world, rules):
    """A reader sees that a document is missing that counts."""
    for batch in world.batches:
        if world.main.state and counts(batch, world.main.state, rules):
            try:
                found = logical(world.main, world.batches - {batch}, rules)
            except Torn:
                continue
            if found != world.main.whole:
                raise Torn(f"{found} without {batch}")


# ---- the mover before the first edit in place: M0 to M4; and behind it: one transaction ----

def m0(world, place, scenario):
    state, array = world.main.state, world.main.array
    if len(array) <= (state.head if state else scenario.head):
        return None
    if state is None:
        return world, ("m1",)
    if state.later is not None and scenario.rules.together:
        return world, ("mt", world.main, world.batches)
    return world, ("m2", state, array[state.head:])


def m1(world, place, scenario):
    main, left = world.main, world.left
    if main.state is None and len(main.array) > scenario.head:
        main = main._replace(state=State(left.births, scenario.head, 0))
        world = world._replace(main=main, left=left._replace(births=left.births + 1))
    return world, IDLE


def name_of(state):
    return state.g if state.later is None else state.later


def m2(world, place, scenario, state, tail):
    known = [batch for batch in world.batches if batch.g == name_of(state) and batch.position <= state.n]
    last = max(known, key=lambda batch: batch.position + len(batch.elements), default=None)
    number = max((batch.number for batch in world.batches), default=0)
    if last is None or last.width is not None or last.position + len(last.elements) < state.n:
        return world, ("m3c", state, tail, number, 0)
    beyond = state.n - last.position
    stored = last.elements[beyond:][:len(tail)]
    if stored:
        if stored != tail[:len(stored)]:
            raise Torn("what is stored beyond n is not the document's")
        return world, ("m4", state, len(stored))
    if last.number == number and len(last.elements) < scenario.sizes[place]:
        return world, ("m3b", state, tail, last)
    return world, ("m3c", state, tail, number, 0)


def m3b(world, place, scenario, state, tail, last):
    held = len(last.elements)
    more = tail[:scenario.sizes[place] - held]
    for batch in world.batches:
        if batch[:3] == last[:3] and len(batch.elements) == held:
            longer = batch._replace(elements=batch.elements + more)
            world = world._replace(batches=world.batches - {batch} | {longer})
            return world, ("m3c", state, tail, batch.number, len(more))
    return world, IDLE


def m3c(world, place, scenario, state, tail, number, stored):
    if stored == len(tail):
        return world, ("m4", state, stored)
    number += 1
    if any(batch.number == number for batch in world.batches):
        return world, ("m4", state, stored) if stored else IDLE
    elements = tail[stored:stored + scenario.sizes[place]]
    batch = Batch(number, name_of(state), state.n + stored, elements, state.edition)
    return world._replace(batches=world.batches | {batch}), ("m3c", state, tail, number, stored + len(elements))


def m4(world, place, scenario, state, stored):
    main = world.main
    if main.state and main.state[:3] == state[:3] and main.state.later == state.later:
        array = main.array[:state.head] + main.array[state.head + stored:]
        main = main._replace(state=main.state._replace(n=state.n + stored), array=array)
    return world._replace(main=main), IDLE


def moved(main, batches, size, rules):
    """What the transaction writes: (the open batch or None, what takes its place, new batches)."""
    state, tail = main.state, main.array[main.state.head:]
    number = max((batch.number for batch in batches), default=0)
    opened = next((batch for batch in batches if batch.g == state.later and counts(batch, state, rules)
                   and (batch.width is None or not rules.sealed)
                   and batch.position + len(batch.elements) == state.n and len(batch.elements) < size), None)
    room = size - len(opened.elements) if opened else 0
    longer = {opened._replace(elements=opened.elements + tail[:room])} if opened else set()
    new = {Batch(number + 1 + k, state.later, state.n + at, tail[at:at + size], state.edition)
           for k, at in enumerate(range(room, len(tail), size))}
    return opened, longer, new


def mt(world, place, scenario, main, batches):
    """All that M0 has seen of the tail is stored and cut by one transaction, whose first command is the cut."""
    opened, longer, new = moved(main, batches, scenario.sizes[place], scenario.rules)
    taken = {batch.number for batch in world.batches}
    now, state = world.main.state, main.state
    holds = now and (now.g, now.later, now.n, now.edition) == (state.g, state.later, state.n, state.edition)
    if not holds or (opened and opened not in world.batches) or taken & {batch.number for batch in new}:
        return world, IDLE
    count = len(main.array) - state.head
    array = world.main.array[:now.head] + world.main.array[now.head + count:]
    after = world.main._replace(state=now._replace(n=state.n + count), array=array)
    return world._replace(main=after, batches=world.batches - {opened} | longer | new), IDLE


MOVER = {"idle": m0, "m1": m1, "m2": m2, "m3b": m3b, "m3c": m3c, "m4": m4, "mt": mt}


move = functools.partial(take_step, MOVER)


# ---- operations ----

def wanted(operation, array):
    """The positions that the operation concerns, of a whole array."""
    kind, argument, _ = operation
    if kind == "pop":
        return {0 if argument == 0 else len(array) - 1} if array else set()
    if kind == "at":
        return {argument} & set(range(len(array)))
    return {place for place, element in enumerate(array) if element == argument}


def applied_to(operation, part, first, places):
    """A part of the array that begins at `first`, after the operation."""
    removes = operation[0] in ("pop", "pull", "fold")
    out = ()
    for place, element in enumerate(part, first):
        if place not in places:
            out += (element,)
        elif not removes:
            out += (element + 100,)
    return out


def perform(world, number, operation, main):
    """The moment at which the operation counts: `main` is what it has written."""
    if number in world.applied:
        raise AssertionError(f"{operation} was applied twice")
    whole = world.main.whole
    whole = applied_to(operation, whole, 0, wanted(operation, whole))
    return world._replace(main=main._replace(whole=whole), applied=world.applied | {number})


# ---- the editor: E0, then X0 to X2, or the fold ----

def e0(world, number, scenario, attempt):
    """The client's write, guarded by "no state"."""
    operation, main = scenario.operations[number], world.main
    if number in world.history or (main.state and main.state.mark == number):
        return world, OVER
    if attempt == ATTEMPTS:
        return world, OVER
    if main.state is None:
        array = applied_to(operation, main.array, 0, wanted(operation, main.array))
        world = perform(world, number, operation, main._replace(array=array))
        return world._replace(history=world.history | {number}), OVER
    if operation[0] == "fold":
        return world, ("i1", attempt, main.state)
    return world, ("x1", attempt, main, world.batches)


def i1(world, number, scenario, attempt, state):
    try:
        found = pieces(world.batches, state, scenario.rules)
    except Torn:
        if same(world.main.state, state):
            raise
        return world, ("e0", attempt + 1)
    return world, ("i2", attempt, state, sum((elements for *_, elements in found), ()))


def i2(world, number, scenario, attempt, state, overflow):
    main = world.main
    if main.state == state:
        main = main._replace(state=None, array=main.array[:state.head] + overflow + main.array[state.head:])
    return world._replace(main=main), ("e0", attempt + 1)


Plan = collections.namedtuple("Plan", "state removed added head nothing")


def clean(batches, state):
    """Who has no pending edit's copies and marks any more, and what replaces them."""
    left = {each for each in batches if each.g == state.later and each.first > state.edition}
    marked = {each for each in batches if each.g in (state.g, state.later)
              and each.until is not None and each.until > state.edition} - left
    return left | marked, {each._replace(until=None) for each in marked}


def plan(scenario, number, main, batches, births):
    """What X1 writes, by its snapshot."""
    operation, rules = scenario.operations[number], scenario.rules
    state = main.state if main.state.later is not None else \
        main.state._replace(later=births, bound=main.state.n)
    gone, kept = clean(batches, state) if rules.cleaned else (set(), set())
    batches = batches - gone | kept
    found = pieces(batches, state, rules)
    concerned = wanted(operation, logical(main, batches, rules))
    before, where = state.head, {}
    for _, begin, _, elements in found:
        where[begin] = before
        before += len(elements)
    touched = {batch for batch, begin, _, elements in found
               if concerned & set(range(where[begin], where[begin] + len(elements)))}
    lowest = min((each.number for each in batches), default=0)
    copies = {Batch(min(lowest, 0) - 1 - k, state.later, begin,
                    applied_to(operation, elements, where[begin], concerned), state.edition + 1, None, end - begin)
              for k, (batch, begin, end, elements) in enumerate(found) if batch in touched}
    marked = {each._replace(until=state.edition + 1) for each in touched}
    head = len(applied_to(operation, main.array[:state.head], 0, concerned))
    return Plan(state._replace(pending=births), gone | (touched - kept), (kept - touched) | marked | copies,
                head, not concerned)


def x1(world, number, scenario, attempt, main, batches):
    """The transaction's commit: copies, marks, and their name in the state."""
    rules, operation = scenario.rules, scenario.operations[number]
    made = plan(scenario, number, main, batches, world.left.births)
    if made.nothing:
        return world, OVER
    stale = world.main != main or not made.removed <= world.batches
    if stale or {each.number for each in made.added if each.first > made.state.edition} & \
            {each.number for each in world.batches - made.removed}:
        return world, ("e0", attempt + 1)
    flip = (attempt, made.state, made.head, len(main.array))
    world = world._replace(batches=world.batches - made.removed | made.added,
                           left=world.left._replace(births=world.left.births + 1))
    if not rules.at_once:
        return world, ("named", *flip)
    world = world._replace(main=main._replace(state=made.state))
    if operation[2]:
        return x2(world, number, scenario, *flip)
    return world, ("x2", *flip)


def named(world, number, scenario, attempt, state, head, length):
    """Without `at_once`: the state names the copies in a command of its own."""
    main = world.main
    if main.state and main.state[:3] == state[:3] and main.state.edition == state.edition:
        return world._replace(main=main._replace(state=state)), ("x2", attempt, state, head, length)
    return world, ("e0", attempt + 1)


def x2(world, number, scenario, attempt, state, head, length):
    """The client's own statement: it changes the head and the tail, and makes the copies count."""
    rules, operation, main = scenario.rules, scenario.operations[number], world.main
    now = main.state
    if number in world.history:
        return world, OVER
    holds = now and (now.g, now.later, now.edition) == (state.g, state.later, state.edition) \
        and (now.pending == state.pending or not rules.owned) and (now.n == state.n or not rules.counted) \
        and (operation[0] != "pop" or len(main.array) == length or not rules.measured)
    if not holds:
        return world, ("e0", attempt + 1)
    concerned, behind = wanted(operation, main.whole), len(main.whole) - len(main.array)
    first = applied_to(operation, main.array[:now.head], 0, concerned)
    rest = applied_to(operation, main.array[now.head:], behind + now.head, concerned)
    after = now._replace(head=head, edition=now.edition + 1, pending=None)
    if not rules.history:
        after = after._replace(mark=number)
    world = perform(world, number, operation, main._replace(state=after, array=first + rest))
    if not rules.history:
        return world, ("told",)
    return world._replace(history=world.history | {number}), OVER


def told(world, number, scenario):
    """Without `history`: the transaction left a mark in the state, which the statement takes away."""
    state = world.main.state
    if state and state.mark == number:
        world = world._replace(main=world.main._replace(state=state._replace(mark=None)),
                               history=world.history | {number})
    return world, OVER


EDITOR = {"e0": e0, "i1": i1, "i2": i2, "x1": x1, "named": named, "x2": x2, "told": told}


def edit(world, scenario):
    for number, now in enumerate(world.editors):
        if now != OVER:
            after, then = EDITOR[now[0]](world, number, scenario, *now[1:])
            yield after._replace(editors=after.editors[:number] + (then,) + after.editors[number + 1:])
    for number, now in world.late:
        after, _ = EDITOR[now[0]](world, number, scenario, *now[1:])
        yield after._replace(late=after.late - {(number, now)})


# ---- the others ----

def push(world, scenario):
    main, left = world.main, world.left
    if left.pushes:
        element = (scenario.length + scenario.pushes - left.pushes,)
        main = main._replace(array=main.array + element, whole=main.whole + element)
        yield world._replace(main=main, left=left._replace(pushes=left.pushes - 1))


def clear(world, scenario):
    """A client sets the whole array: the state goes."""
    if world.left.clears and world.main.state:
        yield world._replace(main=Main(None, (90,), (90,)), left=world.left._replace(clears=world.left.clears - 1))


def same(state, before):
    """The array of `before` can still be read: nobody has removed what it needs."""
    return state is not None and state.g == before.g and state.edition == before.edition


def read(world, scenario):
    """R1 the main document; then its overflow, a document at a time, by their numbers."""
    left, now, order = world.left, world.reader, 1 if scenario.rules.ascending else -1
    if now == IDLE:
        if left.reads and world.main.state:
            reader = ("r2", world.main, -order * 99, frozenset())
            yield world._replace(reader=reader, left=left._replace(reads=left.reads - 1))
            for element in sorted(asked(scenario) - set(world.main.array)):
                reader = ("hit", world.main, element, -99)
                yield world._replace(reader=reader, left=left._replace(reads=left.reads - 1))
        return
    if now[0] != "r2":
        yield world._replace(reader=MEMBER[now[0]](world, scenario.rules, *now[1:]))
        return
    _, image, last, found = now
    ahead = [each for each in world.batches if order * each.number > order * last]
    if ahead:
        batch = min(ahead, key=lambda each: order * each.number)
        yield world._replace(reader=("r2", image, batch.number, found | {batch}))
        return
    judge(world.main.state, image, found, scenario.rules)
    yield world._replace(reader=IDLE)


# ---- class 7: is an element in the overflow? Each question reads a document at a time ----

def asked(scenario):
    """The elements that the operations concern, as they were and as they become."""
    values = {operation[1] for operation in scenario.operations if operation[0] in ("pull", "set")}
    return values | {each + 100 for each in values}


def ahead_of(world, image, last, rules):
    """The next document that counts."""
    ahead = [each for each in world.batches if each.number > last and counts(each, image.state, rules)]
    return min(ahead, key=lambda each: each.number, default=None)


def there(image, element):
    if element not in image.whole:
        raise AssertionError(f"a reader was told of {element} in {image.whole}")
    return IDLE


def hit(world, rules, image, element, last):
    batch, state = ahead_of(world, image, last, rules), image.state
    if batch is None:
        return ("all", image, element, -99, frozenset())
    if element not in batch.elements:
        return ("hit", image, element, batch.number)
    end = batch.position + len(batch.elements)
    if state.later is None or batch.g == state.later:
        return there(image, element) if batch.width is not None or end <= state.n else IDLE
    if not rules.overruled:
        return there(image, element)
    return ("later", image, element, -99, batch.position, end) if end <= state.bound else IDLE


def later(world, rules, image, element, last, begin, end):
    batch = ahead_of(world, image, last, rules)
    if batch is None:
        return there(image, element)
    if batch.g == image.state.later and batch.position < end and end_of(batch, image.state, rules) > begin:
        return IDLE  # another way
    return ("later", image, element, batch.number, begin, end)


def all_of(world, rules, image, element, last, found):
    batch = ahead_of(world, image, last, rules)
    if batch is not None:
        return ("all", image, element, batch.number, found | {batch})
    try:
        pieces(found, image.state, rules)
    except Torn:
        return IDLE  # once more
    if element in image.whole:
        raise AssertionError(f"a reader was told that {element} is not in {image.whole}")
    return IDLE


MEMBER = {"hit": hit, "later": later, "all": all_of}


def judge(state, image, batches, rules):
    """What was read is what the image's array was. A hole is no damage if the state has changed meanwhile."""
    older = rules._replace(editions=False)  # an older release's reader: it knows only what was never edited
    try:
        for each in (rules,) if image.state.later is not None else (rules, older):
            found = logical(image, batches, each)
            if found != image.whole:
                raise AssertionError(f"a reader got {found} instead of {image.whole}")
    except Torn:
        if same(state, image.state):
            raise


def collect(world, scenario):
    """G0, G1, G2; or what nobody goes on with is cleaned up."""
    left, now, main = world.left, world.collector, world.main
    if now == IDLE:
        if left.collects:
            left = left._replace(collects=left.collects - 1)
            seen = frozenset(each.g for each in world.batches)
            yield world._replace(left=left, collector=("g1", seen))
            yield world._replace(left=left, collector=("g1 older", seen))
            if main.state and main.state.pending:
                yield world._replace(left=left, collector=("c1", main, world.batches))
    elif now[0] == "g1":
        yield world._replace(collector=("g2", now[1], main.state))
    elif now[0] == "g1 older":
        yield world._replace(collector=("g2", older_dead(now[1], main.state, scenario.rules), None))
    elif now[0] == "g2":
        yield world._replace(collector=IDLE, batches=without_garbage(world.batches, now[1], now[2], scenario.rules))
    else:
        world = world._replace(collector=IDLE)
        gone, kept = clean(now[2], now[1].state)
        if now[1] == main and gone <= world.batches:
            world = world._replace(main=main._replace(state=main.state._replace(pending=None)),
                                   batches=world.batches - gone | kept)
        yield world


def older_dead(seen, state, rules):
    """What an older release takes for dead. A state that it can't read may name anything."""
    if state is not None and state.later is not None and rules.hidden:
        return frozenset()
    return seen - ({state.g} if state else set())


def is_garbage(batch, seen, state, rules):
    if state is None or batch.g not in (state.g, state.later):
        return batch.g in seen
    if batch.g == state.g and state.later is not None and batch.position >= state.bound:
        return True
    return batch.until is not None and batch.until <= state.edition + (not rules.expired)


def without_garbage(batches, seen, state, rules):
    """G2. A copy gets the number of what it has replaced, in the transaction that removes this."""
    gone = {each for each in batches if is_garbage(each, seen, state, rules)}
    left = set(batches - gone)
    for free in sorted(gone):
        heir = max((each for each in left if each.position == free.position and each.number < 0 and free.number > 0),
                   key=lambda each: each.first, default=None)
        if heir:
            left = left - {heir} | {heir._replace(number=free.number)}
    return frozenset(left)


def crash(world, scenario):
    if not world.left.crashes:
        return
    world = world._replace(left=world.left._replace(crashes=world.left.crashes - 1))
    for place, now in enumerate(world.movers):
        if now != IDLE:
            yield world._replace(movers=world.movers[:place] + (IDLE,) + world.movers[place + 1:])
    for number, now in enumerate(world.editors):
        if now == OVER:
            continue
        again = OVER if scenario.operations[number][2] else ("e0", 0)
        after = world._replace(editors=world.editors[:number] + (again,) + world.editors[number + 1:])
        yield after
        if now[0] != "e0":  # its last command may still arrive
            yield after._replace(late=after.late | {(number, now)})


def steps(world, scenario):
    for place in range(len(world.movers)):
        after = move(world, place, scenario)
        if after:
            yield after
    for others in (push, edit, clear, read, collect, crash):
        yield from others(world, scenario)


def beginning(scenario):
    """The first `moved` elements behind the head are in the overflow already, in batches of the first mover."""
    array = tuple(range(scenario.length))
    head, size, state, batches = scenario.head, scenario.sizes[0], None, ()
    if scenario.moved:
        state = State(0, head, scenario.moved)
        stored = array[head:head + scenario.moved]
        batches = (Batch(1 + k, 0, at, stored[at:at + size]) for k, at in enumerate(range(0, len(stored), size)))
    main = Main(state, array[:head] + array[head + scenario.moved:], array)
    left = Left(scenario.pushes, scenario.clears, scenario.reads, scenario.collects, scenario.crashes, 1)
    editors = (("e0", 0),) * len(scenario.operations)
    return World(main, frozenset(batches), left, (IDLE,) * len(scenario.sizes), editors, frozenset(), IDLE, IDLE,
                 frozenset(), frozenset())


ALONE = 100


def require_rest(world, scenario):
    """Everything crashed here: each mover alone brings what is stored to rest, with nothing lost."""
    if scenario.lost:
        require_seen(world, scenario.rules)
    for place in range(len(scenario.sizes)):
        alone = world._replace(movers=(IDLE,) * len(scenario.sizes), reader=IDLE, collector=IDLE)
        for _ in range(ALONE):
            after = move(alone, place, scenario)
            if after is None:
                break
            alone = after
        else:
            raise Torn(f"a mover with batches of {scenario.sizes[place]} never comes to rest")
        require_sound(alone, scenario.rules)
