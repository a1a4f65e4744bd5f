"""The page, in a real browser: charts are there, at desktop and phone width, in light and dark, on screen and paper."""

import base64
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from certifare import CellCounts, FairTreeEncoder, certify, certify_counts
from certifare.certificates.assumptions import ASSUMPTIONS
from certifare.certificates.rounding import round_up
from certifare.document import make_statement, sign
from certifare.drawing.palette import PALETTE
from certifare.errors import FileError
from certifare.foundation.version import VERIFY_PAGE
from certifare.report import describe_encoder, render_html, render_pdf, report_data
from certifare.tables.table import Table

from .browser import CHROMIUM, decode_png
from .make_screenshots import PICTURES, take
from .samples import HOSTILE, SCRIPT, balanced, bundle, encoder_report, hostile_report, whole_report

DOCS = Path(__file__).parents[2] / "docs"
WIDTHS = {"desktop": 1280, "phone": 390}
CHARTS = {
    "tree": ["interval", "cells", "frontier", "ratios"],
    "boosted": ["interval", "cells", "map", "frontier", "ratios"],
    "hostile": ["interval", "cells", "map", "frontier", "ratios"],
    "small": ["interval", "cells"],
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Reports of every kind, as files."""
    folder = tmp_path_factory.mktemp("pages")
    data = {
        kind: encoder_report(tmp_path_factory.mktemp(kind), kind, suppress_below=30 if kind == "tree" else None)
        for kind in ("tree", "boosted")
    }
    data["hostile"] = hostile_report()
    data["whole"] = whole_report(tmp_path_factory.mktemp("whole"))
    data["small"] = report_data(certify_counts(CellCounts([[300, 0], [0, 300]], groups=["a", "b"])))
    paths = {}
    for name, content in data.items():
        paths[name] = folder / f"{name}.html"
        paths[name].write_text(render_html(content), "utf-8")
    return paths


# -- without a browser --------------------------------------------------------------------------------------------


def test_a_page_needs_nothing_else(pages):
    for path in pages.values():
        text = path.read_text("utf-8")
        assert "default-src 'none'" in text
        for tag in ("<script", "<iframe", "<object", "<embed", '<link rel="stylesheet', "@import", "<img"):
            assert tag not in text
        assert f'<a href="{VERIFY_PAGE}"' in text  # a link to follow, which loads nothing
        sources = re.findall(r'(?:src|href)\s*=\s*"([^"]*)"', text.replace(f'<a href="{VERIFY_PAGE}"', "<a"))
        assert all(source.startswith(("#", "data:,")) for source in sources)
        assert len(text.encode()) < 300_000


def test_names_are_text_in_pages(pages):
    text = pages["hostile"].read_text("utf-8")

    assert "&lt;script&gt;document.title" in text
    for name in HOSTILE[:3]:
        assert name not in text


def test_a_void_certificate_is_no_pass():
    import msgspec

    certificate = msgspec.structs.replace(
        certify_counts(CellCounts([[300, 300], [300, 300]], groups=["a", "b"])),
        assumptions=("VOID: 3 of 9 records.", *ASSUMPTIONS[1:]),
    )
    text = render_html(report_data(sign(make_statement(certificate), None), target=0.9))

    assert "not valid: VOID: 3 of 9 records." in text
    assert ">FAIL<" in text
    assert ">PASS<" not in text
    assert 'class="bound"' in text  # its figures follow from its counts


def test_a_certificate_whose_figures_do_not_hold_is_not_described(browser, tmp_path):
    import msgspec

    honest = certify_counts(CellCounts([[300, 200], [300, 400]], groups=["a", "b"]))
    data = report_data(sign(make_statement(msgspec.structs.replace(honest, bound=0.01)), None), target=0.9)
    page = tmp_path / "report.html"
    page.write_text(render_html(data), "utf-8")
    browser.open(page, 1000)

    assert browser.complaints() == []
    assert ">PASS<" not in page.read_text("utf-8")
    assert data["figures"] is None
    first = browser.run("document.querySelector('main').innerText.trim()")
    assert first.startswith("FAIL")
    assert "its counts give" in first
    assert "0.01" not in browser.run("document.querySelector('h1').innerText")
    red = browser.run("getComputedStyle(document.querySelector('.alert')).color")
    assert red == browser.run("getComputedStyle(document.querySelector('.badge.bad')).color")


def test_what_fails_stands_above_the_bound(tmp_path):
    from certifare.document import verify_document

    path, document = bundle(tmp_path)
    path.write_text(path.read_text("utf-8") + " ", "utf-8")
    text = render_html(report_data(document, verdict=verify_document(document, encoder=path), target=0.9))

    assert text.index("not the certified one") < text.index('class="bound"')
    assert ">PASS<" not in text


# -- in a browser -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", CHARTS)
def test_charts_are_there(pages, browser, name, width):
    browser.open(pages[name], WIDTHS[width])

    assert browser.complaints() == []
    assert [url for url in browser.requests() if not url.startswith(("file:", "data:"))] == []
    assert browser.run("document.documentElement.scrollWidth") <= WIDTHS[width]
    assert browser.run("[...document.querySelectorAll('figure')].map(f => f.id)") == [
        f"chart-{chart}" for chart in CHARTS[name]
    ]
    for chart in CHARTS[name]:
        selector = f"#chart-{chart} > :first-child"
        box = browser.run(
            f"(() => {{ const r = document.querySelector('{selector}').getBoundingClientRect();"
            "return [r.left, r.right, r.width, r.height] })()"
        )
        assert box[0] >= 0
        assert box[1] <= WIDTHS[width]
        assert min(box[2:]) > 60
        outside = browser.run(
            f"[...document.querySelectorAll('#chart-{chart} text')].filter(t => {{"
            "const r = t.getBoundingClientRect(); return r.left < 0 || r.right > innerWidth }).map(t => t.textContent)"
        )
        assert outside == []  # nothing is cut
        pixels = browser.picture(selector)
        colours, counts = np.unique(pixels[:, :, :3].astype(np.int64) @ (1 << 16, 1 << 8, 1), return_counts=True)
        # Not blank: some of the picture is drawn, in more than one colour.
        assert len(colours) > 10
        assert counts.max() / counts.sum() < 0.995


@pytest.mark.parametrize("name", ["tree", "boosted"])
def test_the_dark_page_is_dark(pages, browser, name):
    browser.open(pages[name], 390, dark=True)

    assert browser.complaints() == []
    pixels = browser.picture()
    assert pixels[:10, :10, :3].max() < 60
    assert np.median(pixels[:, :, :3]) < 60
    drawn = "document.querySelector('.plane').querySelectorAll('line, rect, path, text')"
    used = browser.run(f"[...{drawn}].flatMap(e => [getComputedStyle(e).fill, getComputedStyle(e).stroke])")
    assert used
    light = {_rgb(pair[0]) for pair in PALETTE.values()}
    assert not set(used) & light  # charts follow


def _rgb(colour):
    return f"rgb({int(colour[1:3], 16)}, {int(colour[3:5], 16)}, {int(colour[5:7], 16)})"


@pytest.mark.parametrize("name", CHARTS)
def test_hostile_names_do_nothing(pages, browser, name):
    browser.open(pages[name], 1280)

    assert browser.run("document.title").startswith("Certificate: ")
    assert browser.run("document.querySelectorAll('script, iframe, img, object, foreignObject').length") == 0
    handlers = "[...document.querySelectorAll('*')].filter(e => [...e.attributes].some(a => a.name.startsWith('on')))"
    assert browser.run(f"{handlers}.length") == 0
    if name == "hostile":
        assert SCRIPT in browser.run("document.body.textContent")


@pytest.mark.parametrize("name", CHARTS)
def test_structure_for_those_who_listen(pages, browser, name):
    browser.open(pages[name], 1280)

    assert browser.run("document.documentElement.lang") == "en"
    for landmark in ("header", "nav", "main", "footer"):
        assert browser.run(f"document.querySelectorAll('{landmark}').length") == 1
    levels = browser.run("[...document.querySelectorAll('h1, h2, h3, h4')].map(h => +h.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert browser.run("[...document.querySelectorAll('table')].every(t => t.caption && t.caption.textContent.trim())")
    assert browser.run("[...document.querySelectorAll('th')].every(t => ['row', 'col'].includes(t.scope))")
    assert browser.run("[...document.querySelectorAll('section')].every(s => s.getAttribute('aria-labelledby'))")
    assert browser.run(
        "[...document.querySelectorAll('[aria-labelledby]')].every("
        "e => document.getElementById(e.getAttribute('aria-labelledby')))"
    )
    assert browser.run(
        "[...document.querySelectorAll('a:not([target])')].every(a => document.querySelector(a.getAttribute('href')))"
    )
    identifiers = browser.run("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(set(identifiers)) == len(identifiers)
    tree = browser.call("Accessibility.getFullAXTree")["nodes"]
    images = [node for node in tree if node.get("role", {}).get("value") == "image" and not node["ignored"]]
    assert len(images) == len(CHARTS[name]) - 1  # the bars of the cells are in a table, which is read as one
    assert all(node["name"]["value"].strip() for node in images)


def test_axe_would_find_something(browser, tmp_path):
    (tmp_path / "bad.html").write_text("<html lang=en><title>x</title><main><h1>x</h1><img src='data:,'></main>")
    browser.open(tmp_path / "bad.html", 1280)

    assert [rule for _, rule, _ in browser.violations()] == ["image-alt"]


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        # Each page and each mode once in `make test`.
        pytest.param(name, mode, marks=[pytest.mark.slow] * (i != j))
        for i, name in enumerate(CHARTS)
        for j, mode in enumerate(["dark", "opened", "phone", "print"])
    ],
)
def test_axe_finds_no_violation(pages, browser, name, mode):
    browser.open(pages[name], WIDTHS["phone" if mode == "phone" else "desktop"], dark=mode == "dark",
                 media="print" if mode == "print" else "")  # fmt: skip
    if mode == "opened":
        browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")

    assert browser.violations() == []


def test_the_keyboard_reaches_everything(pages, browser):
    browser.open(pages["tree"], 1280)
    reached = []
    for _ in range(40):
        for kind in ("keyDown", "keyUp"):
            browser.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
        reached.append(browser.run("document.activeElement.tagName + ' ' + document.activeElement.textContent.trim()"))

    assert reached[0] == "A Skip to the report"
    assert sum(entry.startswith("SUMMARY") for entry in reached) >= 3
    assert any(entry.startswith("PRE certifare verify") for entry in reached)


def test_tables_open_and_list_every_cell(pages, browser):
    browser.open(pages["tree"], 390)
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")

    rows = browser.run("[...document.querySelectorAll('#cells table.all tbody tr')].length")
    leaves = browser.run("[...document.querySelectorAll('.tree .leaf')].map(l => l.textContent)")
    assert leaves == [f"cell {i}" for i in range(rows)]
    assert browser.run("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("name", ["tree", "boosted"])
def test_a_printed_report_is_light_open_and_at_most_seven_pages(pages, browser, name):
    """Printed from a dark screen on a phone, the page is light, its tables are open, and it has seven pages at most."""
    browser.open(pages[name], 390, dark=True, media="print")

    assert browser.run("getComputedStyle(document.body).backgroundColor") == _rgb(PALETTE["paper"][0])
    heights = browser.run("[...document.querySelectorAll('details table')].map(t => t.getBoundingClientRect().height)")
    assert len(heights) == 3
    assert min(heights) > 60
    browser.open(pages[name], 718, media="print")  # as wide as A4 less its margins, at 96 dots an inch
    cut = browser.run(
        "[...document.querySelectorAll('pre, code')].filter(e => e.scrollWidth > e.clientWidth + 1).length"
    )
    assert cut == 0
    pdf = base64.b64decode(browser.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"])
    assert pdf.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 7


def test_the_pdf_has_an_outline_and_at_most_seven_pages(pages):
    if CHROMIUM is None:
        pytest.skip("no Chromium here: install the Debian package chromium to print")
    pdf = render_pdf(pages["tree"].read_text("utf-8"))

    assert pdf.startswith(b"%PDF")
    assert b"/Outlines" in pdf
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 7


def test_without_chromium_a_pdf_is_refused_with_the_remedy(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileError, match="Debian's package is called chromium"):
        render_pdf("<p>")
    broken = tmp_path / "chromium"
    broken.write_text("#!/bin/sh\necho no display >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(FileError, match="did not print the report: no display"):
        render_pdf("<p>")


CLIPPED = (
    # Where text goes beyond the box that shows it: a region that scrolls on a phone may, nothing else.
    "[...document.querySelectorAll('table, .scroll, pre, code, dd, figure, h1')].filter(e => "
    "e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 && getComputedStyle(e).display != 'inline')"
    ".map(e => e.getAttribute('aria-label') || e.className || e.tagName)"
)
BEYOND = (
    "[...document.querySelectorAll('table, pre, code, figure')].filter(e => !e.closest('.scroll') && "
    "(e.getBoundingClientRect().right > document.documentElement.clientWidth + 1 || "
    "e.getBoundingClientRect().left < 0)).map(e => e.className || e.tagName)"
)


def show(browser, page, mode):
    """Open a page with all that opens: at 1280 or 390 pixels, or as wide as paper."""
    browser.open(page, {"phone": 390, "print": 718}.get(mode, 1280), media="print" if mode == "print" else "")
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")


@pytest.mark.parametrize("mode", ["light", "phone", "print"])
@pytest.mark.parametrize("name", ["tree", "boosted", "whole"])
def test_no_table_or_code_is_clipped(pages, browser, name, mode):
    """At 1280 pixels and on paper nothing scrolls sideways; on a phone, wide tables do in a region of their own."""
    show(browser, pages[name], mode)

    assert browser.run("document.documentElement.scrollWidth") <= browser.run("innerWidth")
    assert browser.run(BEYOND) == []
    clipped = browser.run(CLIPPED)
    if mode == "phone":
        scroll = "[...document.querySelectorAll('.scroll')].map(e => e.getAttribute('aria-label'))"
        clipped = [label for label in clipped if label not in browser.run(scroll)]
    assert clipped == []


def test_a_clipped_table_would_be_found(pages, browser):
    show(browser, pages["tree"], "light")
    browser.run("document.querySelector('.dense td').textContent = 'x'.repeat(400)")
    assert browser.run(CLIPPED) != []
    browser.run("document.querySelector('.sign td').style.minWidth = '2000px'")
    assert browser.run(BEYOND) != []


def printed(browser, page):
    """Print a page; the lines of text of each page of paper, from top to bottom."""
    pypdfium2 = pytest.importorskip("pypdfium2")
    browser.open(page, 718, media="print")
    pdf = base64.b64decode(browser.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"])
    return [sheet.get_textpage().get_text_bounded().split("\r\n") for sheet in pypdfium2.PdfDocument(pdf)]


@pytest.mark.parametrize("name", ["tree", "boosted", "whole"])
def test_every_printed_page_has_number_and_certificate_and_no_orphaned_heading_or_row(pages, browser, name):
    paper = printed(browser, pages[name])
    identity = browser.run("document.querySelector('.about .digest').textContent")
    headings = set(browser.run("[...document.querySelectorAll('h2, h3, caption')].map(h => h.textContent.trim())"))

    assert len(paper) >= 3
    for number, lines in enumerate(paper, 1):
        text = "\n".join(lines)
        assert f"certificate {identity}" in text
        assert f"{number} / {len(paper)}" in text
        body = [line.strip() for line in lines if line.strip() and identity not in line and " / " not in line]
        assert len(body) >= 3, body  # no page for a line or two
        assert body[-1] not in headings
    assert any("Signatures" in line for line in paper[1])  # the page that is signed


def test_the_summary_fits_on_the_first_page(pages, browser):
    browser.open(pages["tree"], 718, media="print")

    bottom = browser.run("document.querySelector('#summary').getBoundingClientRect().bottom")
    assert bottom < 994  # A4 less its margins
    assert browser.run("document.querySelector('.about').innerText").split("\n")[0] == "Producer"


def test_bars_add_up_to_the_distance_and_chance_leads_to_t_star(pages, browser):
    """Bars begin where the last one ended, reach the distance in the sample, and chance leads to T*."""
    browser.open(pages["boosted"], 1280)
    bars = browser.run(
        "[...document.querySelectorAll('.steps .bar i')].map(i => "
        "[i.className, i.getBoundingClientRect().left, i.getBoundingClientRect().right])"
    )
    climbing = [bar for bar in bars if bar[0] == "series-1"]
    falling = [bar for bar in bars if bar[0] == "series-2"]
    (sample, chance, whole) = [bar for bar in bars if bar[0] in ("total", "chance")]

    assert climbing[0][1] == pytest.approx(sample[1], abs=0.5)
    assert all(b[1] == pytest.approx(a[2], abs=1.5) for a, b in pairwise(climbing))
    assert climbing[-1][2] == pytest.approx(sample[2], abs=1.5)
    assert (chance[1], chance[2]) == (pytest.approx(sample[2], abs=1.5), pytest.approx(whole[2], abs=1.5))
    assert falling[-1][1] == pytest.approx(sample[1], abs=1.5)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_screenshots_of_the_documentation_can_be_taken_again(pages, tmp_path):
    """All pictures that the documentation shows can be taken, have their size, and are there."""
    take(pages["boosted"], tmp_path)

    shown = "".join((DOCS / page).read_text("utf-8") for page in ("report.md", "index.md"))
    for name, (width, height, dark, _, _) in PICTURES.items():
        picture = decode_png((tmp_path / name).read_bytes())
        kept = decode_png((DOCS / "figures" / name).read_bytes())
        assert picture.shape[:2] == (height or len(picture), width)
        assert (np.median(picture[:, :, :3]) < 60) == dark
        assert kept.shape[1:] == picture.shape[1:]
        assert f"figures/{name}" in shown


def test_a_real_encoder_on_real_records(adult, browser, tmp_path):
    records = Table.from_frame(adult, label="income", sensitive="sex", drop=["fnlwgt", "split"])
    order = np.random.default_rng(0).permutation(len(records))
    train, fresh = records.take(order[:20_000]), records.take(order[20_000:35_000])
    encoder = FairTreeEncoder(gamma=0.9, max_cells=24, min_cell_size=100)
    encoder.fit(train.features, train.y, sensitive_features=train.sensitive).save(tmp_path / "encoder.json")
    certificate = certify(encoder, fresh.features, sensitive_features=fresh.sensitive)
    data = report_data(certificate, encoder=describe_encoder(tmp_path / "encoder.json"), target=0.2)
    (tmp_path / "report.html").write_text(render_html(data), "utf-8")

    browser.open(tmp_path / "report.html", 390)

    assert browser.complaints() == []
    assert browser.run("document.documentElement.scrollWidth") <= 390
    assert browser.run("document.querySelector('h1').textContent") == data["headline"]
    assert browser.run("document.querySelector('.bound b').textContent") == f"T* = {round_up(certificate.bound)}"
    assert browser.run("document.querySelector('.badge').textContent") == "PASS"
    assert browser.run("[...document.querySelectorAll('figure')].length") == 3
    assert browser.run("document.querySelectorAll('.tree .node').length") == 2 * certificate.counts.n_cells - 1
    pdf = base64.b64decode(browser.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"])
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 7


def test_a_large_tree_is_folded_and_paper_stays_short(browser, tmp_path):
    """Of a tree with 300 cells the upper levels are open; its table of cells stays closed on paper."""
    rng = np.random.default_rng(0)
    certificate = certify_counts(CellCounts(rng.integers(20, 90, (300, 2)), groups=["a", "b"]))
    data = report_data(certificate, encoder=balanced(300))
    (tmp_path / "report.html").write_text(render_html(data), "utf-8")
    browser.open(tmp_path / "report.html", 390)

    visible = "[...document.querySelectorAll('.tree .node')].filter(n => n.checkVisibility()).length"
    assert browser.run(visible) <= 120
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.run(visible) == 599
    assert browser.run("document.documentElement.scrollWidth") <= 390
    browser.open(tmp_path / "report.html", 718, media="print")
    pdf = base64.b64decode(browser.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"])
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 7
    assert "are in the certificate file" in browser.run("document.querySelector('#cells').innerText")
