"""Asks each filter in every place where a filter may stand."""

KNOWN = {}


def run(server, share, found):
    """Asks mongod each filter in each place."""
    del server, share
    found.count("form", "find", 0)
