"""The oracle's share of every test run. Always the same seed: `campaign` draws new ones."""

from oracle.campaigns import Campaign


SEED = 20261121


def test_plain_and_ruled_collections_cannot_be_told_apart():
    campaign = Campaign(SEED)
    campaign.run(most_operations=4000, most_seconds=200, until_covered=True)
    campaign.report()
    campaign.require_coverage()


def test_the_oracle_finds_nothing_where_there_is_nothing():
    Campaign(1, direct=True).run(most_operations=300)
