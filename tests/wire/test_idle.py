"""A process whose server is gone: its threads try again, and rest in between."""

import pytest

from support import tasks
from support.process import wait_for


@pytest.mark.parametrize("name", ["sweeper", "keeper"])
def test_a_thread_rests_while_the_server_is_gone(unserved, name):
    thread = wait_for(lambda: tasks.named(unserved.pid, name), f"the {name}")[0]
    before = tasks.rests(thread), tasks.seconds(thread)
    wait_for(lambda: tasks.rests(thread) >= before[0] + 3, f"the {name} to rest")
    assert tasks.seconds(thread) - before[1] < 0.5
