"""The oracle's share of every test run: a new seed each time."""

import random

from oracle.campaigns import Campaign


def test_plain_and_ruled_collections_cannot_be_told_apart():
    campaign = Campaign(random.SystemRandom().randrange(2**31))
    campaign.run(most_operations=3000, most_seconds=150, until_covered=True)
    campaign.report()
    campaign.require_coverage()


def test_the_oracle_finds_nothing_where_there_is_nothing():
    Campaign(1, direct=True).run(most_operations=300)
