"""The oracle's share of every test run. Always the same seed: `campaign` draws new ones."""

import pytest

from oracle.campaigns import Campaign
from support import share
from support.process import build_folder

SEED = 20261122
# An ordinary run's: every other episode mostly reads arrays, and this seed draws nearly all there is in 4,000
# operations.
MIXED_SEED = 207
# The sanitizers make the program slow, and see the same code in fewer operations.
SANITIZED = build_folder().name == "asan"
OPERATIONS = 400 if SANITIZED else share.part(4000, every=20000)
MIXED = not SANITIZED and not share.EVERY


def test_plain_and_ruled_collections_cannot_be_told_apart():
    campaign = Campaign(MIXED_SEED if MIXED else SEED, mixed=MIXED)
    campaign.run(most_operations=OPERATIONS, most_seconds=540, until_covered=not SANITIZED)
    campaign.report()
    if not SANITIZED:
        campaign.require_coverage()


def test_the_oracle_finds_nothing_where_there_is_nothing():
    Campaign(1, direct=True).run(most_operations=160)


@pytest.mark.skipif(SANITIZED, reason="the same code in fewer operations")
def test_documents_of_one_element():
    """A little of each run; more by `run --elements`."""
    Campaign(SEED, elements=True).run(most_operations=400)


def test_arrays_that_are_not_taken_back():
    """They are edited in place, or the edit is refused. A little of each run; more by `run --in-place`."""
    campaign = Campaign(SEED, in_place=True)
    campaign.run(most_operations=160 if SANITIZED else 400)
    assert 0 < campaign.refused < campaign.operations / 10
