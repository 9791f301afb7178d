"""The search's command line; `search_places` beside this folder starts it with its mongod."""

import argparse
import sys
import time

from oracle import places


def _report(name, found, known, seconds, examples):
    figures = ", ".join(f"{names} {group}s in {questions} questions"
                        for group, (names, questions) in sorted(found.figures().items()))
    print(f"{name}: {figures}; {len(found.differences)} differences; {seconds:.0f} s")
    for what, (times, example) in sorted(found.differences.items()):
        print(f"  {'known' if what in known else 'NEW'}: {what} ({times} times)")
        if examples or what not in known:
            print(f"      {example}")


def main():
    parser = argparse.ArgumentParser(prog="tests/oracle/search_places", description=places.__doc__.splitlines()[0])
    parser.add_argument("--share", type=float, default=1.0, help="the part of the cases to ask (1: all of them)")
    parser.add_argument("--examples", action="store_true", help="show an example of known differences, too")
    parser.add_argument("--figures", action="store_true", help="show how often each operator, type and form was asked")
    parser.add_argument("modules", nargs="*", help=f"only these of: {' '.join(places.MODULES)}")
    given = parser.parse_args()
    new = missing = 0
    with places.Server() as server:
        print(f"mongod {server.version}, share {given.share}")
        for name in given.modules or places.MODULES:
            module, found, began = places.module(name), places.Found(), time.monotonic()
            module.run(server, given.share, found)
            _report(name, found, module.KNOWN, time.monotonic() - began, given.examples)
            if given.figures:
                for (group, each), times in sorted(found.asked.items()):
                    print(f"    {group} {each}: {times}")
            new += len(set(found.differences) - set(module.KNOWN))
            gone = set(module.KNOWN) - set(found.differences) if given.share == 1 else ()
            for what in sorted(gone):
                print(f"  GONE: {what}")
            missing += len(gone)
    return 1 if new or missing else 0


if __name__ == "__main__":
    sys.exit(main())
