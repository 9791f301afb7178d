"""The status page as a browser shows it: whole, without complaints, readable on a phone."""

import os
import pathlib

import pymongo
import pytest
from pymongo.errors import OperationFailure

from browser.webdriver import Browser
from support.cluster import Cluster
from support.process import wait_for
from support.spillway import Spillway

LONG_NAME = "a_name_without_any_place_to_break_it_" * 4
NASTY = "<b onclick=alert(1)>bold</b>"
LENGTHS = {"maria": 4200, "tom": 1800, "otto": 950, "ada": 300}
HOSTILE = {LONG_NAME: 700, NASTY: 600}


def rule(name, namespace, array):
    return {"name": name, "namespace": namespace, "array": array, "threshold": 50, "settle": "20ms",
            "overflow": {"link": "main", "array": "part", "batch": {"size": 500}}}


TOKEN = "a-token-for-the-tests"
RULES = [rule("followers", "social.users", "followers"), rule("buyers", "shop.books", "customers_purchased")]
OUTLIERS = len(LENGTHS) + 2


@pytest.fixture(scope="module")
def spillway():
    with Cluster() as cluster:
        made = Spillway([cluster.primary], RULES)
        made.secure_admin(token=TOKEN)
        with made, pymongo.MongoClient("127.0.0.1", made.port, directConnection=True) as client:
            fill(client, LENGTHS)
            client.shop.books.insert_many([{"_id": number, "customers_purchased": list(range(number * 40))}
                                           for number in range(4)])
            outliers(made, OUTLIERS)
            assert len(client.social.users.find_one({"_id": "maria"})["followers"]) == LENGTHS["maria"]
            with pytest.raises(OperationFailure):
                client.social.users.create_index("followers", unique=True)
            yield made


def fill(client, lengths):
    client.social.users.insert_many([{"_id": name, "followers": list(range(count))} for name, count in lengths.items()])


def outliers(spillway, count):
    wait_for(lambda: spillway.metrics()["spillway_outliers_total"] == count, "the tails to move")


@pytest.fixture(scope="module")
def wide(spillway):
    with Browser(width=900, height=1250) as browser:
        browser.open(address(spillway))
        yield browser


@pytest.fixture(scope="module")
def phone(spillway):
    with Browser(width=390, height=844, phone=True) as browser:
        browser.open(address(spillway))
        yield browser


def address(spillway):
    """With the token as the password, as the browser would ask for it."""
    return f"http://anyone:{TOKEN}@127.0.0.1:{spillway.admin_port}/"


def test_its_picture_can_be_kept(wide):
    picture = wide.picture()
    assert picture.startswith(b"\x89PNG") and len(picture) > 10_000
    if os.environ.get("SPILLWAY_PICTURE"):
        pathlib.Path(os.environ["SPILLWAY_PICTURE"]).write_bytes(picture)


@pytest.fixture(scope="module")
def hostile(spillway):
    with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
        fill(client, HOSTILE)
    outliers(spillway, OUTLIERS + len(HOSTILE))


@pytest.fixture(params=["wide", "phone"])
def browser(request, spillway, hostile):
    window = request.getfixturevalue(request.param)
    window.open(address(spillway))
    return window


def test_it_is_all_there_and_the_browser_has_nothing_to_complain_of(browser):
    text = browser.run("return document.body.innerText")
    for words in ("ready", "social.users: followers beyond 50", "maria", str(LENGTHS["maria"]), NASTY, "unique index"):
        assert words in text, words
    assert browser.run("return document.compatMode") == "CSS1Compat"
    assert browser.run("return document.querySelectorAll('b, script').length") == 0
    assert [each for each in browser.complaints() if "favicon" not in each] == []


def test_nothing_is_wider_than_the_window(browser):
    assert browser.run("return document.documentElement.scrollWidth") <= browser.width
    assert browser.run("""return [...document.querySelectorAll("td, th, h1, h2, p")].filter(
        each => each.getBoundingClientRect().right > innerWidth || each.scrollWidth > each.clientWidth + 1)
        .map(each => each.innerText)""") == []


def test_short_names_are_not_broken(browser):
    heights = browser.run("""return [...document.querySelectorAll("td")].filter(each => each.innerText == "followers")
        .map(each => { const range = document.createRange(); range.selectNodeContents(each);
                       return range.getClientRects().length })""")
    assert heights and set(heights) == {1}


def test_a_phone_shows_letters_of_a_size_that_can_be_read(phone):
    assert phone.run("return innerWidth") == phone.width, "it is not laid out for a desk and made small"
    assert phone.run("""return Math.min(...[...document.querySelectorAll("td, th, p, h2")].map(
        each => parseFloat(getComputedStyle(each).fontSize)))""") >= 16


def test_it_comes_again_by_itself(wide):
    wide.run("window.before = true")
    wait_for(lambda: wide.run("return window.before === undefined"), "the page to be loaded again")
