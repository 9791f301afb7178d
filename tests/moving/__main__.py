"""The proof from the command line: prints what was done, and fails where something was not right."""

import argparse
import json
import random
import time

from moving.proof import prove


def main():
    parser = argparse.ArgumentParser(prog="tests/moving/run", description=__doc__)
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    parser.add_argument("--kills", type=int, default=12, help="of migrate, under traffic and without; and of undo")
    parser.add_argument("--clients", type=int, default=4)
    arguments = parser.parse_args()
    print(f"moving: seed {arguments.seed}", flush=True)
    began = time.monotonic()
    done = prove(arguments.documents, arguments.seed, arguments.kills, arguments.clients)
    print(json.dumps({**done, "seconds": round(time.monotonic() - began)}, indent=1))


if __name__ == "__main__":
    main()
