"""Tables that nobody would write on purpose, through every command that reads one.

Each gives a result, or one line and status 2.
"""

import gzip
import io
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CELLS = [
    "", " ", "?", "NA", "nan", "inf", "-inf", "0", "-0", "1", "1.5", "1e160", "-1e308", "1e-320", "1e400", "9" * 40,
    "true", "False", "f", "m", "x", "é", "\u202e", "\x1b[31m", "=1+1", "[/]", "2020-01-31", "12:30", "0x10", "١٢", "'",
    "a\x00b", '"', '""', '"x"', '"a,b"', '"a\nb"', "a;b", "\t", "x" * 300,
]  # fmt: skip
NAMES = [
    "",
    " sex ",
    "x",
    "[/]",
    "\x1b]0;",
    "a,b",
    '"q"',
    "cell",
    "é",
    "sex\u200b",
    "=x",
    "age",
    "x" * 140_000,
    "\ufeff",
]
ENCODINGS = ["utf-8", "latin-1", "utf-16", "cp037", "hex", "utf-7", "shift_jis"]
#: What is put into a binary file: bytes, and numbers that are hardly right anywhere.
PIECES = [*(bytes([b]) for b in (0, 1, 127, 128, 255)), *(n.to_bytes(8, "little") for n in (2**31, 2**40, 2**63 - 1))]
ROLES = ["--sensitive", "sex", "--label", "approved"]
SEARCH = ["--kind", "tree", "--max-cells", "4"]


def rarely(strategy, otherwise):
    return st.integers(0, 4).flatmap(lambda number: strategy if number == 3 else st.just(otherwise))


@st.composite
def tables(draw, people):
    """Bytes of a table, mostly whole, but with strange cells in one column, or strange names, line ends and bytes."""
    header, *rows = [list(row) for row in people]
    rows = rows[: draw(rarely(st.integers(0, 60), None))]
    odd, cells = draw(st.integers(0, len(header))), draw(st.lists(st.sampled_from(CELLS), min_size=1, max_size=4))
    every = draw(st.sampled_from([1, 2, 50]))
    for i, row in enumerate(rows):
        row.append("1")
        row[odd] = cells[i // every % len(cells)] if i % every == 0 else row[odd]
    header.append("more")
    named = draw(st.integers(0, len(header) - 1))
    header[named] = draw(rarely(st.sampled_from(NAMES), header[named]))
    delimiter, end = draw(rarely(st.sampled_from(";\t|"), ",")), draw(rarely(st.sampled_from(["\r\n", "\r"]), "\n"))
    text = end.join(delimiter.join(row) for row in [header, *rows]) + draw(rarely(st.just(""), end))
    content = text.encode(draw(rarely(st.sampled_from(["utf-16", "cp1252", "utf-8-sig"]), "utf-8")), "replace")
    for position, piece in draw(rarely(st.lists(st.tuples(st.integers(0, 20_000), st.binary(max_size=3))), [])):
        at = position % (len(content) + 1)
        content = content[:at] + piece + content[at + len(piece) :]
    return draw(rarely(st.sampled_from([gzip.compress(content), gzip.compress(content)[:-9]]), content))


@pytest.mark.parametrize(
    "command", [pytest.param("fit", marks=pytest.mark.slow), "sweep", "encode", "certify", "count"]
)
def test_any_table_gives_a_result_or_one_line(cli, files, make_people, tmp_path, command):
    source, target = tmp_path / "people.csv", tmp_path / "out.csv"
    people = [line.split(",") for line in make_people(400, 5).to_csv(index=False).splitlines()]
    arguments = {
        "fit": ["fit", source, *ROLES, *SEARCH, "--target", "0.0001", "-o", tmp_path / "bundle"],
        "sweep": ["sweep", source, *ROLES, *SEARCH, "-o", target],
        "encode": ["encode", files / "encoder.json", source, target, "--keep", "approved", "--spreadsheet-safe"],
        "certify": ["certify", files / "encoder.json", source, *ROLES, "-o", target],
        "count": ["count", files / "encoder.json", source, *ROLES, "-o", target],
    }[command]

    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(content=tables(people), encoding=rarely(st.sampled_from(ENCODINGS), None))
    def run(content, encoding):
        source.write_bytes(content)
        check(cli(*arguments, *([] if encoding is None else ["--encoding", encoding])))
        assert {path.name for path in tmp_path.iterdir()} <= {"people.csv", "out.csv"}

    run()


def check(result):
    assert result.status in (0, 1, 2), result
    assert "\x1b" not in result.stderr + result.stdout
    if result.status == 2:
        # What had been done before is told as well, a phase a line.
        told = re.sub(r"^ *\d+\.\d s  .*\n", "", result.stderr, flags=re.M)
        assert told.startswith("Error: ")
        assert told.count("\n") == 1, result.stderr


def arrow(make):
    def write(table):
        with io.BytesIO() as sink:
            with make(sink, table.schema) as writer:
                writer.write_table(table)
            return sink.getvalue()

    return write


def parquet(table):
    with io.BytesIO() as sink:
        pq.write_table(table, sink)
        return sink.getvalue()


@pytest.mark.parametrize("write", [arrow(pa.ipc.new_file), arrow(pa.ipc.new_stream), parquet])
def test_any_damage_to_a_binary_table_gives_a_result_or_one_line(cli, files, make_people, tmp_path, write):
    source = tmp_path / "people.table"
    frame = make_people(200, 5).astype({"job": "category"})
    whole = write(pa.Table.from_pandas(frame, preserve_index=False))

    # The same examples each time: what ends the process would end the other tests with it.
    @settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.tuples(st.integers(0, len(whole) - 1), st.sampled_from(PIECES)), min_size=1, max_size=4))
    def run(pieces):
        damaged = whole
        for at, piece in pieces:
            damaged = damaged[:at] + piece + damaged[at + len(piece) :]
        source.write_bytes(damaged)
        check(cli("encode", files / "encoder.json", source, tmp_path / "out.csv", "--keep", "approved"))
        check(cli("certify", files / "encoder.json", source, "--sensitive", "sex"))

    run()
