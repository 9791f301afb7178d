"""Makes a failing episode small: leaves out operations as long as it still fails."""

from oracle.episode import Disagreement

# Movers strike at random times: a shorter episode is let off only after it passed so often.
TRIES = 3


def fails(world, episode):
    """The disagreement of an episode, None where there is none."""
    for _ in range(TRIES):
        try:
            world.connect()
            episode.run(world)
        except Disagreement as disagreement:
            return disagreement
    return None


def shrink(world, episode, disagreement, at_most=150):
    """(smaller episode, its disagreement): delta debugging over the list of operations."""
    best, why = episode.with_operations(episode.made[:disagreement.number + 1]), disagreement
    size = max(len(best.made) // 2, 1)
    runs = 0
    while runs < at_most:
        shorter, runs = _without_one_part(world, best, size, runs, at_most)
        if shorter:
            best, why = shorter
        elif size == 1:
            break
        else:
            size = max(size // 2, 1)
    return best, why


def _without_one_part(world, episode, size, runs, at_most):
    """The first shorter episode that fails, by leaving out `size` operations in a row."""
    for start in range(0, len(episode.made), size):
        if runs >= at_most:
            break
        runs += 1
        rest = episode.made[:start] + episode.made[start + size:]
        if not rest or _unseen_overlap(rest):
            continue
        candidate = episode.with_operations(rest)
        why = fails(world, candidate)
        if why:
            return (candidate, why), runs
    return None, runs


def _unseen_overlap(made):
    """Whether an overlap has lost the push by which a mover sees it: only the sweep, an hour away, would mend it."""
    behind = made[1:] + [{}]
    return any(each["does"] == "overlap"
               and not (then.get("labels") == ["push_each"] and then["targets"] == each["targets"])
               for each, then in zip(made, behind))
