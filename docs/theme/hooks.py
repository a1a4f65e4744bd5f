"""Build the site: pages made from other files, links to moved pages, and the name T*."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from typing import Any

from markdown import Extension, Markdown
from markdown.inlinepatterns import SimpleTextInlineProcessor
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: Files of the repository that are pages of the site as well.
PAGES = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
EXAMPLES = sorted((ROOT / "examples").glob("*.py"), key=lambda path: int(path.name.split("_")[0]))
GALLERY = """# Examples with pictures

Each example runs in seconds, on the Adult table inside the package or on counts alone. The sources are in `examples/`.
The tests run them and compare the output with this page.
"""
#: The page that shows all experiments, and the order of its first ones.
EXPERIMENTS = "results/experiments.md"
FIRST = (
    *("fidelity", "adult", "learning", "size", "classifiers24", "interpretability"),
    *("transfer", "kmeans", "downstream", "efficiency", "ablation"),
)
#: A link to a page of these sources: the page, and the anchor.
LINK = re.compile(r"\]\(([\w./-]+\.md)(#[\w-]+)?\)")
#: Emphasis that begins or ends in the star of a T*.
SWALLOWED = re.compile(r"\bT</?(?:em|strong)>[^<]{0,40}")
#: A name in a docstring, as Sphinx marks it: ``:func:`produce```.
ROLE = re.compile(r":(?:func|class|meth|attr|data|mod|exc|obj):<code>~?(?:[^<]*\.)?([^<.]+)</code>")


class Stars(Extension):
    """``T*`` is a name: its star neither begins nor ends emphasis."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        """Look for it after code (190) and before escapes (180) and emphasis (60)."""
        md.inlinePatterns.register(SimpleTextInlineProcessor(r"(?<![\w\\])(T\*)"), "stars", 185)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Show the version in the name of the site, list the pages of the API, and read T* as it is meant."""
    text = (ROOT / "src" / "certifare" / "foundation" / "version.py").read_text("utf-8")
    (version,) = re.findall(r'^__version__ = "(.*)"$', text, flags=re.MULTILINE)
    config.site_name = f"{config.site_name} {version}"
    config.markdown_extensions.append(Stars())
    for section in config.nav or []:
        for entry in section.get("Reference", []):
            if "API" in entry:
                entry["API"] = list(api_pages())
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace sources by the pages that are made from them."""
    made = {page: re.sub(r"\]\(docs/", "](", (ROOT / source).read_text("utf-8")) for page, source in PAGES.items()}
    made |= gallery_page()
    config.extra["moved"] = moved = {source: (page, "") for page, source in PAGES.items()}
    if files.get_file_from_path("results/index.md"):
        made[EXPERIMENTS], names = experiments_page()
        moved |= {f"results/{name}.md": (EXPERIMENTS, f"#{name}") for name in names}
    if files.get_file_from_path("api.md"):
        made |= api_pages()
        moved["api.md"] = ("api/index.md", "")
    for source in moved:
        file = files.get_file_from_path(source)
        if file is not None:
            files.remove(file)
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    return files


def gallery_page() -> dict[str, str]:
    """Make one page of all examples: their words, their picture, their code and what they print."""
    parts = [GALLERY]
    for path in EXAMPLES:
        source = path.read_text("utf-8")
        first = ast.parse(source).body[0]
        title, _, words = (ast.get_docstring(ast.parse(source)) or "").partition("\n\n")
        code = "\n".join(source.splitlines()[first.end_lineno or 0 :]).strip("\n")
        printed = (DOCS / "gallery" / f"{path.stem}.txt").read_text("utf-8")
        title = title.removesuffix(".")
        shown = f"```python\n{code}\n```\n\nprints\n\n```text\n{printed}```\n"
        parts.append(f"## {title}\n\n{words}\n\n![{title}]({path.stem}.svg)\n\n{shown}")
    return {"gallery/index.md": "\n".join(parts)}


def experiments_page() -> tuple[str, list[str]]:
    """Join the pages of single experiments into one; each gets its file's name as anchor. Also return these names."""
    found = sorted(path.stem for path in (DOCS / "results").glob("*.md"))
    others = [name for name in found if name not in (*FIRST, "index", "comparison")]
    names = [name for name in (*FIRST, *others) if name in found]
    parts = [demote((DOCS / "results" / f"{name}.md").read_text("utf-8"), name) for name in names]
    title = "# Experiments: the paper's, other metrics, distribution shift, missing values, imbalance"
    return "\n\n".join([title, *parts]), names


def demote(text: str, name: str) -> str:
    """Lower the headings of a page by one level, outside of code."""
    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    parts[::2] = [re.sub(r"^#", "##", part, flags=re.MULTILINE) for part in parts[::2]]
    return re.sub(r"^(## .*)$", rf"\1 {{ #{name} }}", "".join(parts), count=1, flags=re.MULTILINE)


def api_pages() -> dict[str, str]:
    """Split ``docs/api.md`` into one page for each of its sections, and a page that lists them."""
    source = DOCS / "api.md"
    if not source.exists():
        return {}
    head, *sections = re.split(r"^## ", source.read_text("utf-8"), flags=re.MULTILINE)
    pages, rows = {"api/index.md": ""}, ["| page | what it does |", "|---|---|"]
    for section in sections:
        name, _, text = section.partition("\n")
        page = re.sub(r"\W+", "-", name).strip("-")
        pages[f"api/{page}.md"] = f"# {name}\n{text}"
        first = next(line for line in text.splitlines() if line and not line.startswith("Imported from"))
        rows.append(f"| [{name}]({page}.md) | {first} |")
    pages["api/index.md"] = head + "\n".join(rows) + "\n"
    return pages


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Turn links to sources into links to the pages that are made from them."""
    folder = dirname(page.file.src_uri)

    def follow(match: re.Match[str]) -> str:
        target = config.extra["moved"].get(normpath(join(folder, match[1])))
        return match[0] if target is None else f"]({relpath(target[0], folder or '.')}{match[2] or target[1]})"

    return LINK.sub(follow, markdown)


def on_page_content(text: str, page: Page, **_: Any) -> str:
    """Show the roles of docstrings as code, and refuse a page that lost the star of a T*."""
    found = SWALLOWED.search(text)
    if found:
        raise PluginError(f"{page.file.src_uri}: emphasis swallows a T*: {found.group()!r}. Write T\\* there.")
    return ROLE.sub(r"<code>\1</code>", text)
