"""The site as its readers meet it: built strictly, every link followed, in a browser, on a phone and in the dark."""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import numpy as np
import pytest
from spellchecker import SpellChecker

from .serving import ROOT, Served, build

pytest.importorskip("mkdocs", reason="mkdocs (the extra 'docs') is not installed")

#: Pages of every kind, on which axe-core runs.
MAIN = (
    *("", "quickstart/", "producer/", "auditor/", "tables/", "theory/", "cli/", "results/comparison/", "gallery/"),
    *("api/", "api/FairTreeEncoder/"),
)
#: Elements that hide a part of their content, or stand out of the page, with how much.
CLIPPED = """
[...document.querySelectorAll("article :is(pre > code, table, img, .katex-display, h1)")].flatMap(e => {
  const box = e.closest(".md-typeset__scrollwrap, .katex-display");
  const hidden = PHONE && box ? 0 : Math.max(e.scrollWidth - e.clientWidth, box && box.scrollWidth - box.clientWidth);
  const out = box && PHONE ? 0 : e.getBoundingClientRect().right - document.documentElement.clientWidth;
  return hidden > 1 || out > 1 ? [[e.tagName, hidden, out, e.textContent.slice(0, 80)]] : [];
})
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    status, said = build(folder)
    assert status == 0, said
    return folder


@pytest.fixture(scope="module")
def served(site):
    running = Served(site)
    yield running
    running.close()


class Page(HTMLParser):
    """Ids, links and text of a page; code has a text of its own."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.words, self._open = set(), [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids |= {attrs[name] for name in ("id", "name") if attrs.get(name)}
        self.links += [attrs[name] for name in ("href", "src") if attrs.get(name)]
        if tag in ("code", "pre", "script", "style"):
            self._open.append(tag)

    def handle_endtag(self, tag):
        if self._open and tag == self._open[-1]:
            self._open.pop()

    def handle_data(self, data):
        if not self._open:
            self.words.append(data)


@pytest.fixture(scope="module")
def pages(site):
    return {p.relative_to(site).as_posix(): Page(p.read_text("utf-8")) for p in sorted(site.rglob("*.html"))}


# -- without a browser --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_stars_are_stars(pages):
    """As many T* are shown on a page as its source has, outside of code."""
    for source in sorted((ROOT / "docs").rglob("*.md")):
        place = source.relative_to(ROOT / "docs")
        if place.as_posix() == "api.md" or place.parent.name == "results":  # shown on several pages, or with others
            continue
        page = place.with_name("index.html") if place.name == "index.md" else place.with_suffix("") / "index.html"
        text = re.sub(r"^```.*?^```", "", source.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        text = re.sub(r"`[^`]*`|!\[[^\]]*\]", "", text)
        wanted = len(re.findall(r"(?<!\w)T\\?\*", text))
        assert "".join(pages[page.as_posix()].words).count("T*") >= wanted, source


@pytest.mark.slow
def test_a_swallowed_star_fails_the_build(tmp_path):
    """``make docs`` fails where emphasis is left in a T*."""
    for name in ("mkdocs.yml", "CHANGELOG.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, tmp_path)
    foundation = Path("src") / "certifare" / "foundation"
    (tmp_path / foundation).mkdir(parents=True)
    shutil.copy(ROOT / foundation / "version.py", tmp_path / foundation)
    shutil.copytree(ROOT / "docs" / "theme", tmp_path / "docs" / "theme")
    text = (tmp_path / "mkdocs.yml").read_text()
    text = text[: text.index("\nnav:")].replace("omitted_files: warn", "omitted_files: ignore")
    text = re.sub(r"  - mkdocstrings:.*?(?=^\w)", "", text, flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "mkdocs.yml").write_text(text.replace("links: {not_found: warn,", "links: {not_found: ignore,"))
    page = tmp_path / "docs" / "index.md"
    page.write_text("# A page\n\nTighter than T*. It holds, and T*(M) ≥ T*(M').\n")
    assert build(tmp_path / "site", tmp_path / "mkdocs.yml")[0] == 0
    page.write_text("# A page\n\nTighter than T<em>. It holds, and T</em>.\n")
    status, said = build(tmp_path / "site", tmp_path / "mkdocs.yml")
    assert status == 1
    assert "emphasis swallows a T*" in said
    page.write_text("# A page\n\n[Nowhere](#nowhere).\n")
    status, said = build(tmp_path / "site", tmp_path / "mkdocs.yml")
    assert (status, "no such anchor" in said) == (1, True)


@pytest.mark.slow
def test_links_and_anchors_lead_somewhere(pages, site):
    broken = []
    for place, page in pages.items():
        if place == "404.html":  # its links begin at the site's address
            continue
        for link in page.links:
            parts = urlsplit(urljoin(f"https://site/{place}", link))
            if parts.netloc != "site" or parts.scheme != "https":
                continue
            target = unquote(parts.path).lstrip("/")
            target = f"{target}index.html" if target.endswith("/") or not target else target
            anchors = pages[target].ids if target in pages else {unquote(parts.fragment)}
            if not (site / target).is_file() or (parts.fragment and unquote(parts.fragment) not in anchors):
                broken.append((place, link))
    assert broken == []


def test_the_readmes_links_lead_somewhere():
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"):
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / name).read_text("utf-8")):
            assert (ROOT / link).exists(), f"{name}: {link}"


@pytest.mark.slow
def test_every_page_has_search_neighbours_version_and_contents(pages, site):
    for place in pages:
        if place in ("404.html", "verify.html"):  # the latter is one file that works alone
            continue
        text = (site / place).read_text("utf-8")
        assert 'data-md-component="search"' in text
        assert re.search(r"certifare \d+\.\d+\.\d+", text)
        if place != "index.html":
            assert 'rel="prev"' in text, place
        # Contents: nobody scrolls through much more than three screens without a heading.
        body = text[text.index("<article") : text.index("</article")]
        parts = re.split(r"<h[1-3]\b", body)
        for part in parts:
            assert len(re.findall(r"<tr>|<li>|<p>", part)) <= 100, f"{place}: a heading is missing\n{part[:300]}"


def test_the_spelling_is_right():
    """Of pages, README and the texts of the package, with the project's own words."""
    words = Path(__file__).with_name("words.txt")
    names = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "mkdocs.yml", "docs", "src/certifare", "examples"]
    places = [str(ROOT / name) for name in names if (ROOT / name).exists()]
    skip = "*.svg,*.png,*.csv,*.json,*.parquet,__pycache__,katex"
    command = [sys.executable, "-m", "codespell_lib", "--ignore-words", str(words), "--skip", skip, *places]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


#: A word, with a genitive or a contraction.
WORD = re.compile(r"[A-Za-zÀ-ÖØ-öø-ž]+(?:['’][a-z]+)?")
#: What no dictionary knows: code, addresses, tags, comments.
NO_PROSE = re.compile(
    r"^```.*?^```|\$\$.*?\$\$|<!--.*?-->|(`+).*?\1|<[^>]+>|\]\([^)\s]*\)|https?://\S+", re.MULTILINE | re.DOTALL
)


def unknown_words(text, own, dictionary):
    """Words of a page that are neither in the dictionary nor the project's own."""
    words = {re.sub(r"['’]s?$", "", word.lower()) for word in WORD.findall(NO_PROSE.sub(" ", text))}
    return sorted(dictionary.unknown(word for word in words - own if len(word) > 2))


def test_every_word_is_in_the_dictionary_or_the_projects_own():
    """Of the pages and the README; ``dictionary.txt`` has the project's words."""
    own = set(Path(__file__).with_name("dictionary.txt").read_text("utf-8").split())
    dictionary = SpellChecker()
    assert unknown_words("A clasifier of `unwrd` groups' rates, it's fine.", own, dictionary) == ["clasifier"]
    names = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "research/README.md")
    pages = [*(ROOT / name for name in names), *sorted((ROOT / "docs").rglob("*.md"))]
    found = {
        page.relative_to(ROOT).as_posix(): unknown_words(page.read_text("utf-8"), own, dictionary) for page in pages
    }
    assert not {page: words for page, words in found.items() if words}


# -- in a browser -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("place", MAIN)
def test_no_serious_violation(browser, served, place):
    for width, dark in ((1280, False), (390, True)):
        browser.open(served.page(place), width, dark=dark)
        assert [v for v in browser.violations() if v[0] in ("serious", "critical")] == []


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark", "media"), [(1280, False, ""), (390, True, ""), (794, False, "print")])
def test_nothing_is_clipped_on_any_page(browser, served, pages, width, dark, media):
    """No table, code, formula or picture; on a phone, tables and formulas scroll in a box of their own."""
    found = {}
    for place in pages:
        browser.open(served.page(place.removesuffix("index.html")), width, dark=dark, media=media)
        clipped = browser.run(CLIPPED.replace("PHONE", str(width < 600).lower()))
        if clipped or browser.run("document.documentElement.scrollWidth") > width:
            found[place] = clipped or "wider than the page"
        # Shipped, without a network.
        assert all(url.startswith((served.address, "data:")) for url in browser.requests())
        assert browser.run("[...document.querySelectorAll('.arithmatex')].every(e => e.querySelector('.katex'))"), place
        if place != "404.html":  # it asks for files below the site's address
            assert browser.complaints() == [], place
    assert found == {}


@pytest.mark.slow
def test_the_producers_page_fits_one_screen(browser, served):
    browser.open(served.page("producer/"), 1280, 900)
    assert browser.run("document.querySelector('article').getBoundingClientRect().bottom") <= 900


def test_what_is_clipped_is_found(browser, tmp_path):
    """The check above can fail: code that scrolls, and a table that is wider than the page."""
    page = tmp_path / "wide.html"
    wide = "x" * 400
    code = f"<pre><code style='display: block; overflow: auto'>{wide}</code></pre>"
    page.write_text(f"<article>{code}<table><td>{wide}</table></article>")
    browser.open(page, 1280)
    found = browser.run(CLIPPED.replace("PHONE", "false"))
    assert [tag for tag, *_ in found] == ["CODE", "TABLE"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("spreadsheet", "/meaning/"),
        ("quickstart", "/quickstart/"),
        ("installation", "/installation/"),
        ("disparate impact", "/meaning/"),
        ("four-fifths", "/meaning/"),
        ("bias", "/meaning/"),
        ("fairness metrics", "/alternatives/"),
        ("feature importance", "/explain/"),
    ],
)
def test_search_finds_the_words_that_readers_use(browser, served, words, page):
    browser.open(served.page(""), 1280)
    found = browser.run(
        """(async () => {
            const query = document.querySelector("[data-md-component=search-query]");
            query.focus();
            query.value = "WORDS";
            query.dispatchEvent(new Event("input", {bubbles: true}));
            query.dispatchEvent(new KeyboardEvent("keyup", {bubbles: true}));
            for (let i = 0; i < 200; i++) {
                const links = [...document.querySelectorAll(".md-search-result__link")].map(a => a.pathname);
                if (links.length) return links;
                await new Promise(resolve => setTimeout(resolve, 50));
            }
            return [];
        })()""".replace("WORDS", words)
    )
    assert page in found


@pytest.mark.slow
def test_no_role_of_a_docstring_is_left(pages):
    role = re.compile(r":(func|class|meth|attr|data):")
    assert [place for place, page in pages.items() if role.search("".join(page.words))] == []


@pytest.mark.slow
def test_the_picture_of_the_first_page_follows_the_dark_mode(browser, served):
    """One of two pictures is shown, whole."""
    for dark, name in ((False, "report.png"), (True, "report-first-dark.png")):
        browser.open(served.page(""), 1280, dark=dark)
        shown = browser.run(
            "[...document.querySelectorAll('article img')].filter(e => e.offsetWidth).map(e => "
            "[new URL(e.src).pathname.split('/').pop(), e.width / e.height / e.naturalWidth * e.naturalHeight])"
        )
        assert [shown_name for shown_name, _ in shown] == [name]
        assert shown[0][1] == pytest.approx(1.0, abs=0.01)


@pytest.mark.slow
def test_charts_follow_the_dark_mode(browser, served):
    medians = []
    for dark in (False, True):
        browser.open(served.page("gallery/"), 1280, dark=dark)
        medians.append(np.median(browser.picture("article img")[:, :, :3]))
    assert medians[0] > 230
    assert medians[1] < 60
