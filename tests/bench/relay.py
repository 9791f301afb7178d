"""The relay's rows: what a message costs that no rule concerns."""

import contextlib
import pathlib
import re

from bench.arms import (
    RULED,
    UNRULED,
    HAProxy,
    Load,
    PinnedSpillway,
    Pipe,
    Slices,
    Stub,
    child_of,
    end_gently,
    interleave,
    memory,
)
from bench.table import Row

PROXIES = {"pipe": Pipe, "haproxy": HAProxy, "spillway": PinnedSpillway}


def side_by_side(scale, connections):
    """Finds by _id through every arm; 'ruled' is a namespace with a rule and nothing spilled."""
    with contextlib.ExitStack() as stack:
        stub = stack.enter_context(Stub())
        ports = {name: stack.enter_context(kind(stub)).port for name, kind in PROXIES.items()}
        ports["direct"] = stub.port
        loads = {
            name: stack.enter_context(Load(port, connections=connections, collection=UNRULED))
            for name, port in ports.items()
        }
        loads["ruled"] = stack.enter_context(
            Load(ports["spillway"], connections=connections, collection=RULED))
        return Slices(interleave(loads, scale.rounds, scale.seconds))


def throughput(scale):
    slices = side_by_side(scale, 16)
    detail = slices.detail("per_second")
    for arm in ("pipe", "ruled", "direct"):
        detail[f"{arm} / haproxy"] = round(slices.ratio(arm, "haproxy", "per_second"), 3)
    measured = slices.ratio("spillway", "haproxy", "per_second")
    return [Row("pass-through throughput at 16 connections / HAProxy", measured, at_least=1.0,
                detail=detail)]


def latency(scale):
    slices = side_by_side(scale, 1)
    detail = slices.detail("p50_us", "p99_us")
    detail["pipe / haproxy"] = round(slices.ratio("pipe", "haproxy", "p50_us"), 3)
    detail["ruled / pipe"] = round(slices.ratio("ruled", "pipe", "p50_us"), 3)
    return [
        Row("pass-through p50 at one connection / bare libuv pipe",
            slices.ratio("spillway", "pipe", "p50_us"), at_most=1.05, detail=detail),
        Row("pass-through p50 at one connection / HAProxy",
            slices.ratio("spillway", "haproxy", "p50_us"), at_most=1.3),
    ]


def compared(scale):
    """What is watched: Spillway, and what stands beside it."""
    return PROXIES if scale.beside else {"spillway": PinnedSpillway}


def watched(kind, wrapped, operations, report, server, **load):
    """Runs a proxy under a watching program; what report(process) says once it has ended."""
    with server() as behind, kind(behind, wrapped) as proxy:
        with Load(proxy.port, **load) as generator:
            generator.count(operations)
        end_gently(proxy, child_of(proxy.pid) if wrapped[0] == "strace" else None)
        return report(proxy)


def per_operation(kind, wrapped, scale, report, server=Stub, **load):
    """The difference of two runs: what start and end cost is in both."""
    few, many = scale.watched
    counts = [watched(kind, wrapped, count, report, server, **load) for count in (few, many)]
    return (counts[1] - counts[0]) / (many - few)


def system_calls(scale):
    def report(process):
        """Of strace's table the last line: seconds, calls, errors, 'total'."""
        lines = process.said().splitlines()
        total = next(line.split() for line in reversed(lines) if line.endswith(" total"))
        return int(total[3])

    counts = {
        f"{name}, {connections} connections": per_operation(
            kind, ["strace", "-f", "-c"], scale, report, connections=connections)
        for name, kind in compared(scale).items() for connections in (1, 16)
    }
    return [Row("system calls an operation, one connection", counts["spillway, 1 connections"],
                at_most=6.05, bar="6 at most", detail=counts)]


# For a processor, the C library's copy of a long piece is one instruction; callgrind counts its bytes.
COUNTED = ["env", "GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=1000000000:"
           "glibc.cpu.x86_rep_stosb_threshold=1000000000",
           "valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]


def said_by(process, pattern):
    """What valgrind says of the process itself. The launcher, which it forks, has lines of its own."""
    return re.search(rf"=={process.pid}==.* {pattern}", process.said())[1]


def count_instructions(scale, kind=PinnedSpillway, **load):
    """User instructions an operation."""
    def report(process):
        return int(said_by(process, r"Collected : (\d+)"))

    return per_operation(kind, COUNTED, scale, report, **load)


def instructions(scale):
    counts = {name: count_instructions(scale, kind) for name, kind in compared(scale).items()}
    counts["spillway, ruled"] = count_instructions(scale, collection=RULED)
    return [Row("user instructions an operation, no rule on the namespace", counts["spillway"],
                at_most=3000, detail=counts),
            Row("user instructions of a find of an ordinary ruled document / pass-through",
                counts["spillway, ruled"] / counts["spillway"], at_most=2.0)]


class Observing(PinnedSpillway):
    """Spillway that looks at one passing command in a hundred."""

    options = {"observe": {"sample": 0.01}}


def observe(scale):
    """What looking for arrays that may need a rule costs: pushes without a rule, with and without it."""
    counts = {name: count_instructions(scale, kind, operation="push", ids=100, collection=UNRULED)
              for name, kind in (("off", PinnedSpillway), ("one in a hundred", Observing))}
    return [Row("user instructions of a push without a rule, one in a hundred observed / observe off",
                counts["one in a hundred"] / counts["off"], at_most=1.03, detail=counts)]


def allocations(scale):
    def report(process):
        return int(said_by(process, r"total heap usage: ([\d,]+) allocs").replace(",", ""))

    def count(kind, **load):
        return per_operation(
            kind, ["valgrind", "--leak-check=no", "--undef-value-errors=no"], scale, report, **load)

    counts = {
        "find": count(PinnedSpillway),
        "insert of 300 bytes": count(PinnedSpillway, operation="insert"),
    }
    if scale.beside:
        counts["find, ruled"] = count(PinnedSpillway, collection=RULED)
    worst = max(counts["find"], counts["insert of 300 bytes"])
    # Some are timers', not messages': the mover's hello once a second is a hundred. Of two counts the first may have
    # more of them, and where it is of a few hundred messages that shows.
    return [Row("heap allocations for a forwarded message", worst, at_most=0.001, bar="0",
                least=-0.01 if scale.beside else -1, detail=counts)]


def idle_memory(scale):
    def measure(kind):
        with Stub() as stub, kind(stub) as proxy:
            with Load(proxy.port) as one:
                one.count(100)
                before = memory(proxy.pid, "Private_Dirty")
                with Load(proxy.port, connections=scale.idle) as many:
                    many.count(2 * scale.idle)
                    after = memory(proxy.pid, "Private_Dirty")
        return (after - before) / scale.idle

    sizes = {name: measure(kind) for name, kind in PROXIES.items()}
    return [Row(f"Private_Dirty of an idle connection, KiB ({scale.idle} connections)",
                sizes["spillway"], at_most=2.0, detail=sizes)]


def big_message(scale):
    """Growth of the peak resident size while a message of 48 MB passes, each way."""
    size = 48_000_000

    def measure(kind, found_bytes, **load):
        with Stub(found_bytes) as stub, kind(stub) as proxy:
            with Load(proxy.port, operation="insert") as small, Load(proxy.port, **load) as big:
                small.count(1000)
                pathlib.Path(f"/proc/{proxy.pid}/clear_refs").write_text("5")
                before = memory(proxy.pid, "VmHWM", "status")
                big.count(scale.big)
                return memory(proxy.pid, "VmHWM", "status") - before

    growth = {
        f"{name}, {way}": measure(kind, found_bytes, **load)
        for name, kind in PROXIES.items()
        for way, found_bytes, load in (
            ("request", 270, {"operation": "insert", "bytes": size}),
            ("reply", size - 1000, {}))
    }
    worst = max(growth["spillway, request"], growth["spillway, reply"])
    return [Row("peak memory more for a message of 48 MB, KiB", worst, at_most=256, least=0,
                detail=growth)]
