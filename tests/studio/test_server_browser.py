"""The whole journey in a real browser: wide and narrow, light and dark, by keyboard, interrupted and resumed."""

import os
import time

import pytest

from certifare.studio.projects import Project

from .conftest import SCRIPT, messy_csv
from .served import Served
from .window import CHROMIUM, Window

FULL = os.environ.get("CERTIFARE_FULL") == "1"

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: install the Debian package chromium")


@pytest.fixture
def served(tmp_path):
    running = Served(tmp_path / "studio", most=1 << 20)
    yield running
    running.close()


@pytest.fixture
def windows(served):
    """Opens windows, each with a browser of its own."""
    opened = []

    def window(**looks):
        opened.append(Window(served.entrance, **looks))
        return opened[-1]

    yield window
    for each in opened:
        each.close()


@pytest.fixture
def messy(tmp_path):
    path = tmp_path / f"people {SCRIPT.replace('/', '')}.csv"
    path.write_bytes(messy_csv())
    return path


def looks_right(window):
    """Nothing is clipped, axe-core finds nothing serious, and no name has become a script."""
    assert window.run("document.documentElement.scrollWidth <= innerWidth")
    assert [found for found in window.browser.violations() if found[0] in ("serious", "critical")] == []
    assert window.run("document.title") != "owned"


@pytest.mark.parametrize(
    ("table", "width", "dark"),
    [
        pytest.param("adult", 1280, False, marks=pytest.mark.slow),
        ("messy", 390, True),
        *([("adult", 390, True), ("messy", 1280, False)] if FULL else []),
    ],
)
def test_the_journey_from_a_file_to_a_checked_certificate(windows, messy, tmp_path, table, width, dark):
    window = windows(width=width, dark=dark)
    looks_right(window)
    if table == "adult":
        window.click("#example")
    else:
        window.upload("#file", messy)
    window.wait("state.found")
    looks_right(window)
    window.go("plan", "document.querySelectorAll('#plan-table tbody tr').length >= 3")
    looks_right(window)
    window.go("explore")
    window.click("#start")
    window.wait("state.running === null && orders.blind && orders.aware && price !== null")
    window.wait("document.querySelectorAll('#plane .dots').length === 3 && points.length > 20")
    looks_right(window)
    window.run(
        "{ const slider = document.querySelector('#target'); slider.value = 0.25;"
        "slider.dispatchEvent(new Event('input')); }"
    )
    assert window.run("chosen.bound <= 0.25 && document.querySelector('#marker .ring') !== null")
    window.go("understand", "document.querySelector('#parts').contentDocument?.querySelector('#drives') != null")
    window.click("#explain")
    window.wait("!document.querySelector('#explanation').hidden")
    looks_right(window)
    window.go("issue", "document.querySelector('#command').textContent.includes('--target 0.25')")
    looks_right(window)
    window.click("#certify")
    window.wait("state.running === null && document.querySelector('#result .result')")
    assert "percentage points" in window.text("#result .result")
    assert "95 %" in window.text("#result .result")
    looks_right(window)
    if table == "messy":
        window.run("document.querySelector('#target').value = 0.3, choose()")
        window.click("#certify")
        window.wait("document.querySelector('#problem').textContent.includes('were looked at before')")
        window.wait("document.querySelector('#again-line').textContent.includes('90\u00a0% confidence')")
        assert window.run("!document.querySelector('#again-line').hidden")
    window.go("check", "document.querySelectorAll('#checks .good').length >= 6")
    assert window.run("document.querySelector('#problem').hidden")
    if table == "messy":
        fresh = tmp_path / "fresh.csv"
        fresh.write_bytes(messy_csv(900, seed=3))
        window.upload("#fresh", fresh)
        window.wait("document.querySelectorAll('#fresh-checks li').length > 6")
        window.upload("#period-file", fresh)
        window.wait("document.querySelector('#history').contentDocument?.querySelector('#chart-course1') != null")
    looks_right(window)
    assert window.text("#problem") == ""
    assert window.browser.complaints() == []
    assert all(address.startswith((window.origin, "data:")) for address in window.browser.requests())


def test_every_step_works_by_keyboard_alone(windows, messy):
    window = windows()
    window.tab_to("#file")  # a file is chosen in a dialogue of the browser
    window.upload("#file", messy)
    window.wait("state.found")
    window.tab_to("#opened .actions a")
    window.press("Enter")
    window.wait("location.hash === '#plan' && !document.querySelector('#plan').hidden")
    window.tab_to("#plan .actions a")
    window.press("Enter")
    window.tab_to("#start")
    window.press("Enter")
    window.wait("state.running === null && orders.aware")
    window.tab_to("#target")
    before = window.run("target()")
    for _ in range(5):
        window.press("ArrowRight")
    assert window.run("target()") == pytest.approx(before + 0.005)
    window.tab_to("#explore .actions a[href='#issue']")
    window.press("Enter")
    window.tab_to("#certify")
    assert window.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"


@pytest.mark.slow
def test_two_windows_have_a_project_each(windows, messy):
    one, other = windows(), windows()
    one.upload("#file", messy)
    one.wait("state.found")
    other.run("location.hash = 'check'")
    other.wait("document.querySelector('#problem').textContent.includes('Open a table')")
    other.click("#example")
    other.wait("state.found")
    for window in (one, other):
        window.go("explore")
        window.click("#start")
    for window in (one, other):
        window.wait("state.running === null && orders.aware", patience=90)
    assert one.run("location.pathname") != other.run("location.pathname")
    assert one.run("state.found.records") == 1484
    assert other.run("state.found.records") == 48_842
    assert one.run("points.length") != other.run("points.length")


@pytest.mark.slow
def test_a_reload_in_the_middle_of_a_search_loses_nothing(windows, messy):
    window = windows()
    window.upload("#file", messy)
    window.wait("state.found")
    window.go("explore")
    window.click("#start")
    window.wait("points.length > 0")
    window.reload()
    window.wait("state.running === null && orders.blind && orders.aware")
    there = window.run("points.length")
    window.reload()
    window.wait(f"points.length === {there} && orders.aware")
    assert window.run("location.hash") == "#explore"


@pytest.mark.slow
def test_a_search_is_cancelled_and_begun_again(windows, messy, monkeypatch):
    def slow(self):
        for done in range(400):
            self._progress("growing tree encoders", done, 400)
            time.sleep(0.05)

    window = windows()
    window.upload("#file", messy)
    window.wait("state.found")
    window.go("explore")
    with monkeypatch.context() as patched:
        patched.setattr(Project, "explore", slow)
        window.click("#start")
        window.wait("!document.querySelector('#cancel').hidden")
        window.click("#cancel")
        window.wait("document.querySelector('#stage').textContent === 'Cancelled.'")
    window.click("#start")
    window.wait("state.running === null && orders.aware")


def test_a_malformed_file_and_one_that_is_too_large_are_refused_in_words(windows, tmp_path):
    window = windows()
    for name, content, words in (
        ("broken.parquet", b"PAR1 nonsense PAR1", "broken.parquet"),
        ("notes.docx", b"PK\x03\x04\x00\x00", "notes.docx"),
        ("large.csv", b"a,b\n" * 300_000, "larger than 1 MB"),
    ):
        (tmp_path / name).write_bytes(content)
        window.upload("#file", tmp_path / name)
        window.wait(f"document.querySelector('#problem').textContent.includes({words!r})")
        assert window.run("document.querySelector('#opened').hidden")
    looks_right(window)


def test_a_large_file_is_opened_and_does_not_keep_another_window_waiting(tmp_path):
    """300 MB with ``CERTIFARE_FULL=1``, 3 MB without."""
    table, n = tmp_path / "large.csv", 3_000_000 if FULL else 30_000
    with table.open("w") as file:
        file.write("sex,score,note,granted\n")
        file.writelines(f"{'fm'[i % 2]},{i * 7919 % 10_007}.{i:07},{'x' * 80},{'ny'[i % 3 > 0]}\n" for i in range(n))
    served = Served(tmp_path / "studio")
    one, other = Window(served.entrance), Window(served.entrance)
    try:
        one.upload("#file", table)
        other.click("#example")
        other.wait("state.found")
        one.wait("state.found", patience=300)
        assert one.run("state.found.records") == n
        one.go("explore")
        one.click("#start")
        one.wait("points.length > 0", patience=300)
        one.click("#cancel")
        one.wait("document.querySelector('#stage').textContent === 'Cancelled.'", patience=300)
    finally:
        one.close()
        other.close()
        served.close()


@pytest.mark.slow
def test_a_stopped_server_is_explained_and_its_projects_are_there_after_a_restart(windows, served, messy):
    window = windows()
    window.upload("#file", messy)
    window.wait("state.found")
    served.close()
    window.click("#example")
    window.wait("document.querySelector('#problem').textContent.includes('certifare studio')")
    again = Served(served.studio.folder)
    try:
        other = Window(again.entrance)
        other.wait("document.querySelectorAll('#earlier a').length === 1")
        other.click("#earlier a")
        other.wait("state.found && state.found.records === 1484")
        other.close()
    finally:
        again.close()
