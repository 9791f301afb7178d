"""A collection with a heavy tail moved in and out again, with kills; `tests/moving/run` does it with 200,000
documents."""

from moving.proof import prove


def test_nothing_is_lost_doubled_or_reordered():
    done = prove(documents=1000, seed=4, kills=2, clients=2)
    assert done["outliers"] > 100
    assert done["operations"]["push"] > 0
