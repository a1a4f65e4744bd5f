"""The README's commands and code run as printed."""

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

from certifare.data import adult

README = (Path(__file__).parents[1] / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_code_of_the_readme_prints_what_it_says(capsys):
    (block,) = blocks("python")
    exec(compile(block, "README.md", "exec"), {})  # noqa: S102  (our own document)
    said = re.search(r"# (demographic parity distance .*)", block)
    assert said is not None
    assert capsys.readouterr().out.strip() == said.group(1)


@pytest.fixture
def people(tmp_path):
    """A file as the README's commands expect it: a label ``approved`` and the column ``sex``."""
    table = adult().take(range(20_000))
    columns = {"approved": table.y, "sex": table.sensitive.column("sex")}
    columns |= {name: table.features.column(name) for name in ("age", "education_num", "hours_per_week")}
    pacsv.write_csv(
        pa.table({name: pa.array(column.to_pylist()) for name, column in columns.items()}), tmp_path / "people.csv"
    )
    return tmp_path


def test_the_commands_of_the_readme_run(people):
    commands = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("certifare ")]
    assert [command.split()[1] for command in commands] == ["fit", "encode", "verify", "sql"]
    for command in commands:
        words = command.split("#")[0].split()
        # The last of them needs a tree, as its comment says.
        words += ["--kind", "tree"] if words[1] == "fit" else []
        done = subprocess.run([sys.executable, "-m", *words], cwd=people, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
