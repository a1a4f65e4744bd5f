"""What building the site does besides: T* stays T*, the version is shown, files and examples become pages."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from markdown import Extension, Markdown
from markdown.inlinepatterns import SimpleTextInlineProcessor
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
#: Files of the repository that are pages of the site as well.
PAGES = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
#: Examples are pages too: their words, their code, what they print and what they draw. The tests run them.
EXAMPLES = sorted((ROOT / "examples").glob("*.py"), key=lambda path: int(path.name.split("_")[0]))
INDEX = """# Gallery

Examples that run in seconds, on the Adult table inside the package or on counts alone. Their sources are in
`examples/`; the tests run them, and compare what they print with what stands here.
"""
#: Emphasis that begins or ends in the star of a T*.
SWALLOWED = re.compile(r"\bT</?(?:em|strong)>[^<]{0,40}")


class Stars(Extension):
    """``T*`` is a name: its star neither begins nor ends emphasis."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        """Look for it after code (190) and before escapes (180) and emphasis (60)."""
        md.inlinePatterns.register(SimpleTextInlineProcessor(r"(?<![\w\\])(T\*)"), "stars", 185)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Show the version in the name of the site, and read T* as it is meant."""
    text = (ROOT / "src" / "certifare" / "foundation" / "version.py").read_text("utf-8")
    (version,) = re.findall(r'^__version__ = "(.*)"$', text, flags=re.MULTILINE)
    config.site_name = f"{config.site_name} {version}"
    config.markdown_extensions.append(Stars())
    for entry in config.nav or []:
        if "Gallery" in entry:
            entry["Gallery"] = ["gallery/index.md", *(f"gallery/{path.stem}.md" for path in EXAMPLES)]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files of the repository; their links to ``docs/`` are links within the site."""
    for page, source in PAGES.items():
        text = (ROOT / source).read_text("utf-8")
        text = re.sub(r"\]\(docs/", "](", text)
        for name, other in PAGES.items():
            text = text.replace(f"]({other})", f"]({name})")
        files.append(File.generated(config, page, content=text))
    cards = []
    for path in EXAMPLES:
        title, words, code = read_example(path)
        printed = (ROOT / "docs" / "gallery" / f"{path.stem}.txt").read_text("utf-8")
        picture = f"![{title}]({path.stem}.svg)"
        text = f"# {title}\n\n{words}\n\n{picture}\n\n```python\n{code}```\n\nprints\n\n```text\n{printed}```\n"
        files.append(File.generated(config, f"gallery/{path.stem}.md", content=text))
        cards.append(f"<div markdown>\n[{picture}]({path.stem}.md)\n\n[{title}]({path.stem}.md)\n</div>\n")
    text = f'{INDEX}\n<div class="cards" markdown>\n\n{chr(10).join(cards)}\n</div>\n'
    files.append(File.generated(config, "gallery/index.md", content=text))
    return files


def read_example(path: Path) -> tuple[str, str, str]:
    """Give the title, the words and the code of an example."""
    source = path.read_text("utf-8")
    first = ast.parse(source).body[0]
    title, _, words = (ast.get_docstring(ast.parse(source)) or "").partition("\n\n")
    code = "\n".join(source.splitlines()[first.end_lineno or 0 :]).strip("\n")
    return title.removesuffix("."), words, f"{code}\n"


def on_page_content(html: str, page: Page, **_: Any) -> str:
    """Refuse a page on which Markdown has swallowed the star of a T*."""
    found = SWALLOWED.search(html)
    if found:
        raise PluginError(f"{page.file.src_uri}: emphasis swallows a T*: {found.group()!r}. Write T\\* there.")
    return html
