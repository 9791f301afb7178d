"""An edit in which mongod fails one command by a fail point, and which is sent again: applied exactly once.

The failure strikes the first command of the edit, then the second, and so on, until the edit gets through without
it. What the client is told must be what mongod itself tells of that failure, so that a driver does with it what it
would have done. Then the same command comes again with the same statement number, at once or after the array was
folded back and moved again, through another Spillway: its reply must be that of an edit that never failed.
"""

import contextlib
import itertools

import pytest
from bson import Int64
from test_edit_cuts import EDITS, FREE, RULE, Place, new_session, update

from support.cluster import Cluster
from support.process import wait_for
from support.shim import Shim
from support.spillway import Spillway
from support.wire import Closed, Connection

pytestmark = pytest.mark.share(8)
NAME = "the edits"
WRITES = ("update", "delete", "findAndModify")
COMMANDS = (*WRITES, "insert", "find", "aggregate", "getMore")
EDITS = {
    **EDITS,
    "old image": {"findAndModify": "@", "query": {"_id": "#"}, "update": {"$pop": {"list": 1}}},
    "removed": {"findAndModify": "@", "query": {"list": 7}, "remove": True},
    "pushed, old image": {"findAndModify": "@", "query": {"_id": "#"}, "update": {"$push": {"list": 8}}},
    "set by match": update({"$set": {"list.$": "seven"}}, {"list": 7}),
    "found and two at once": {"update": "@", "updates": [{"q": {"list": 7}, "u": {"$inc": {"n": 1}}},
                                                         {"q": {"list": 6}, "u": {"$pull": {"list": 6}}}]},
}
CONCERN = {"code": Int64(91), "errmsg": "on its way down"}
FAILURES = {
    "closed": {"closeConnection": True},
    "shutdown": {"errorCode": 91},
    "conflict": {"errorCode": 112},
    "concern": {"writeConcernError": CONCERN},
}
LASTING = {"conflict": {"errorCode": 112}, "stepped down": {"errorCode": 189}}
KEPT = ("removed", "pushed, old image")  # whose image is put together from what may be garbage afterwards
# Each write of a statement strikes once: the first one, or the second.
WRITE_FAILURES = {
    "closed when written": {"closeConnection": True},
    "failed as written": {"closeConnection": False, "failBeforeCommitExceptionCode": 91},
}


def cases():
    """Every failure of every edit; where the array moves meanwhile, those behind which a driver sends again."""
    for name, failure in itertools.product(EDITS, FAILURES):
        yield name, failure, "at once"
        if failure in ("closed", "concern") and name not in KEPT:
            yield name, failure, "moved between"


def told(reply):
    """What must be equal: all but times, and the number of the book."""
    kept = {name: value for name, value in reply.items() if name not in FREE}
    return {**kept, "value": {**kept["value"], "_id": "#"}} if kept.get("value") else kept


def named(port):
    """A connection that says whose it is, so that failures meet no other."""
    connection = Connection(port, hello=False)
    client = {"application": {"name": NAME}, "driver": {"name": "wire", "version": "1"}, "os": {"type": "any"}}
    connection.command("admin", {"hello": 1, "client": client})
    return connection


class Failing(Place):
    """What edits and failures need; `ports` are mongod's, that of the Spillway behind the shim, and of the other."""

    def __init__(self, cluster, shim, cut, other):
        super().__init__(cluster, shim, cut, other)
        self.ports = {"mongod": cluster.primary.port, "cut": cut.port, "other": other.port}

    def set(self, point, mode, **data):
        self.client.admin.command({"configureFailPoint": point, "mode": mode, "data": data})

    def fail_next(self, command, failure):
        self.set("failCommand", {"times": 1}, appName=NAME, failCommands=[command], **failure)

    def fail_all(self, _, failure):
        self.set("failCommand", "alwaysOn", appName=NAME, failCommands=COMMANDS, **failure)

    def off(self):
        self.shim.restart()
        self.set("failCommand", "off")
        self.set("onPrimaryTransactionalWrite", "off")

    def failing_at(self, number, failure, lasting=False):
        fail = self.fail_all if lasting else self.fail_next

        def hook(request):
            if request.number == number:
                fail(request.name, failure)
        return hook

    def try_once(self, where, command, session, collection="books"):
        """The reply; None where the connection ends without one."""
        with named(self.ports[where]) as connection:
            try:
                return told(self.call(connection, command, collection, session))
            except (Closed, OSError):
                return None

    def plainly(self, command):
        """mongod's reply, and the documents before and after."""
        before = self.documents(self.direct, "plain")
        reply = told(self.call(self.direct, command, "plain", new_session()))
        return reply, before, self.documents(self.direct, "plain")

    def fold_and_move(self):
        """Folds the array back by a change that changes nothing, and waits until its tail has moved again."""
        [found] = self.documents(self.other, "books") or [None]
        if found is None:
            return  # it is deleted
        same = {"update": "books", "updates": [{"q": {"_id": "#"}, "u": {"$set": {"list.0": found["list"][0]}}}]}
        assert self.call(self.other, same)["n"] == 1
        wait_for(lambda: self.client.shop.books.count_documents({"_id": self.book, "_spill.list": {"$exists": True}}),
                 "the tail to move again", pause=0.002)


@contextlib.contextmanager
def running(rule):
    with Cluster(durable=False) as cluster, Shim(cluster.primary.port) as shim:
        upstream = {"upstream": {"uri": f"mongodb://{cluster.primary.address}/"}}
        with Spillway([shim], [rule], upstream) as cut, Spillway([cluster.primary], [rule]) as other:
            yield Failing(cluster, shim, cut, other)


@pytest.fixture(scope="module")
def at_once():
    """Garbage goes at once, so that an array moves again at once."""
    with running(RULE) as made:
        yield made


@pytest.fixture(scope="module")
def later():
    with running({**RULE, "gc_delay": "1m"}) as made:
        yield made


@pytest.fixture
def place(request, name):
    """An image must be there as long as it may be asked for again."""
    return request.getfixturevalue("later" if name in KEPT else "at_once")


def failure_of_mongod(place, command, failure):
    """What mongod itself says when the command fails that way."""
    place.fill()
    place.fail_next(next(iter(command)), failure)
    reply = place.try_once("mongod", command, new_session(), "plain")
    place.off()
    return reply


def fail_at(place, number, command, failure, session, lasting=False):
    """The reply to an edit whose command of that number fails, and the names of all its commands."""
    place.shim.restart(place.failing_at(number, failure, lasting))
    reply = place.try_once("cut", command, session)
    commands = [request.name for request in place.shim.requests if not request.handshake()]
    place.off()
    return reply, commands


def again(place, command, session, between):
    """The reply to the same command sent again: at once, or later and elsewhere."""
    if between == "at once":
        return place.try_once("cut", command, session)
    place.fold_and_move()
    return place.try_once("other", command, session)


def is_retryable(reply):
    return reply is None or "RetryableWriteError" in reply.get("errorLabels", ())


def conflicts(reply):
    """Behind a conflict Spillway may try again, or tell it as that of the statement."""
    return 112 in (reply.get("code"), *[error["code"] for error in reply.get("writeErrors", ())])


def statements(command):
    return len(command.get("updates", [1]))


@pytest.mark.parametrize("name, failure, between", list(cases()))
def test_a_command_fails(place, name, failure, between):
    command, data = EDITS[name], FAILURES[failure]
    failed = failure_of_mongod(place, command, data)
    told = []
    for number in itertools.count(1):
        place.fill()
        expected, before, after = place.plainly(command)
        session = new_session()
        reply, commands = fail_at(place, number, command, data, session)
        if last_write(commands) == number:
            told.append(reply)
        where = f"{failure} at command {number} of {commands}"
        assert reply in (expected, failed) or failure == "conflict" and conflicts(reply), where
        if reply == expected:
            assert place.documents(place.other, "books") == after, where
        elif not is_retryable(reply) and statements(command) == 1:
            assert place.documents(place.other, "books") == before, where
        assert again(place, command, session, between) == expected, f"sent again: {where}"
        assert place.documents(place.other, "books") == after, where
        if len(commands) < number:
            break
    assert number > 1
    assert told and (told == [failed] * len(told) or failure == "conflict")


def last_write(commands):
    """Its number: its failure is always told. How many commands there are may differ, where a mover is at work."""
    return max((number for number, name in enumerate(commands, 1) if name in WRITES), default=0)


@pytest.mark.parametrize("failure", LASTING)
@pytest.mark.parametrize("name", EDITS)
def test_all_commands_fail_from_one_on(place, name, failure):
    """Spillway gives up, and does not ask for ever."""
    command, data = EDITS[name], LASTING[failure]
    failed = failure_of_mongod(place, command, data)
    for number in itertools.count(1):
        place.fill()
        expected, _, after = place.plainly(command)
        session = new_session()
        reply, commands = fail_at(place, number, command, data, session, lasting=True)
        if len(commands) < number:
            break
        gave_up = reply == failed or failure == "conflict" and conflicts(reply)
        assert gave_up, f"{failure} from command {number} of {commands}"
        assert len(commands) < number + 20, commands
        assert again(place, command, session, "at once") == expected
        assert place.documents(place.other, "books") == after
    assert number > 1
    assert (reply, place.documents(place.other, "books")) == (expected, after)


def without_text(reply):
    """mongod's text names the session."""
    errors = [{**error, "errmsg": ""} for error in (reply or {}).get("writeErrors", ())]
    return reply and {**reply, "errmsg": "", "writeErrors": errors}


@pytest.mark.parametrize("failure", WRITE_FAILURES)
@pytest.mark.parametrize("name, between", [(name, between) for name in EDITS for between in ("at once", "moved between")
                                           if name not in KEPT or between == "at once"])
def test_a_write_fails(place, name, failure, between):
    command = EDITS[name]
    for skipped in range(statements(command)):
        place.fill()
        expected, _, after = place.plainly(command)
        place.fill()
        replies = []
        for where, collection in (("mongod", "plain"), ("cut", "books")):
            session = new_session()
            place.set("onPrimaryTransactionalWrite", {"skip": skipped}, **WRITE_FAILURES[failure])
            replies.append(without_text(place.try_once(where, command, session, collection)))
            place.off()
        assert replies[1] == replies[0]
        assert again(place, command, session, between) == expected
        assert place.documents(place.other, "books") == [{**found, "_id": place.book} for found in after]
