import gzip
import os
import stat
import sys

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certifare import files
from certifare.errors import (
    ColumnTypeError,
    DuplicateColumnError,
    EmptyFileError,
    EncodingError,
    FileError,
    FileFormatError,
    OutputError,
    RaggedFileError,
)
from certifare.files import TEXT, atomic_file, atomic_folder, open_batches, read_file

PEOPLE = "age,job,paid\n30,nurse,1.5\n41,?,\n"


def write(folder, content, name="people.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def rows(path, **options):
    return read_file(path, **options)[0].to_pylist()


EXPECTED = [{"age": 30, "job": "nurse", "paid": 1.5}, {"age": 41, "job": None, "paid": None}]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_recognised(tmp_path, delimiter):
    assert rows(write(tmp_path, PEOPLE.replace(",", delimiter))) == EXPECTED


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
def test_the_encoding_is_recognised(tmp_path, encoding):
    table, notes = read_file(write(tmp_path, "âge,job\n30,garçon\n".encode(encoding)))
    assert table.to_pylist() == [{"âge": 30, "job": "garçon"}]
    assert bool(notes) == (encoding in ("latin-1", "cp1252"))


def test_a_byte_far_into_the_file_decides_the_encoding(tmp_path):
    path = write(tmp_path, b"a,b\n" + b"1,x\n" * 500_000 + "2,é\n".encode("latin-1"))
    table, notes = read_file(path)
    assert table["b"][-1].as_py() == "é"
    assert "not UTF-8" in notes[0]
    batches = list(open_batches(path, {"b": None}))
    assert batches[-1].column(0)[-1].as_py() == "é"


def test_a_wrong_or_unknown_encoding_is_refused(tmp_path):
    path = write(tmp_path, "a,b\n1,é\n".encode("latin-1"))
    with pytest.raises(EncodingError, match="0xe9 does not fit"):
        read_file(path, encoding="utf-8")
    with pytest.raises(EncodingError, match="unknown"):
        read_file(path, encoding="klingon")
    assert rows(path, encoding="latin-1") == [{"a": 1, "b": "é"}]


def test_compressed_csv(tmp_path):
    assert rows(write(tmp_path, gzip.compress(PEOPLE.encode()), "people.csv.gz")) == EXPECTED
    with pa.CompressedOutputStream(str(tmp_path / "people.csv.zst"), "zstd") as sink:
        sink.write(PEOPLE.encode())
    assert rows(tmp_path / "people.csv.zst") == EXPECTED
    batches = open_batches(tmp_path / "people.csv.gz", {"job": TEXT})
    assert [batch.to_pylist() for batch in batches] == [[{"job": "nurse"}, {"job": None}]]


def test_windows_lines_blank_lines_and_spaces(tmp_path):
    assert rows(write(tmp_path, "\r\n age , job\r\n30, nurse \r\n\r\n41, ?\r\n")) == [
        {"age": 30, "job": "nurse"},
        {"age": 41, "job": None},
    ]


def test_quotes_hold_delimiters_and_line_ends(tmp_path):
    assert rows(write(tmp_path, 'a,"b, c"\n1,"x\ny"\n2,"say ""hi"""\n')) == [
        {"a": 1, "b, c": "x\ny"},
        {"a": 2, "b, c": 'say "hi"'},
    ]


def test_missing_markers_can_be_named(tmp_path):
    path = write(tmp_path, "a,b\n-9,x\n4,none of these\n")
    assert rows(path, missing=["-9", "none of these"]) == [{"a": None, "b": "x"}, {"a": 4, "b": None}]
    assert rows(path)[0] == {"a": -9, "b": "x"}


def test_unnamed_columns_are_left_out_and_noted(tmp_path):
    table, notes = read_file(write(tmp_path, ",a,b\n0,1,x\n1,2,y\n"))
    assert table.column_names == ["a", "b"]
    assert "no name" in notes[0]


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"", EmptyFileError, "is empty"),
        (b"\n\n", EmptyFileError, "is empty"),
        (b"a,b\n", EmptyFileError, "no records"),
        (b"a,b,c\n1,2,3\n4,5\n6,7,8,9\n", RaggedFileError, r"2 rows .* 3 columns .*record 3\) has 2: '4,5'"),
        (b'a,b\n1,"x\n2,y\n3,z\n', RaggedFileError, "never closed"),
        (b"a,b,a\n1,2,3\n", DuplicateColumnError, "'a'"),
        (bytes(range(256)) * 10, FileFormatError, "binary"),
        (b"PK\x03\x04 workbook", FileFormatError, "Excel"),
        (b"PAR1 not parquet", FileFormatError, "damaged|cannot be read"),
        (b"ARROW1\0\0 not arrow", FileFormatError, "damaged|cannot be read"),
        (b"\xff\xff\xff\xff not arrow", FileFormatError, "damaged|cannot be read"),
        (b"FEA1....", FileFormatError, "Feather"),
        (b",,\n1,2,3\n", FileFormatError, "name the columns"),
    ],
)
def test_bad_files(tmp_path, content, error, message):
    path = write(tmp_path, content)
    with pytest.raises(error, match=message):
        read_file(path)
    with pytest.raises(error, match=message.replace(r" .*record 3\)", ".*")):
        for _ in open_batches(path, {"a": TEXT, "b": TEXT}):
            pass


def test_a_wrong_delimiter_is_refused(tmp_path):
    with pytest.raises(FileFormatError, match="',' seems to be the delimiter"):
        read_file(write(tmp_path, PEOPLE), delimiter=";")
    with pytest.raises(FileFormatError, match="one character"):
        read_file(write(tmp_path, PEOPLE), delimiter=";;")


def test_absent_files_and_folders(tmp_path):
    write(tmp_path, PEOPLE, "people.csv")
    with pytest.raises(FileError, match="did you mean .*people.csv"):
        read_file(tmp_path / "peple.csv")
    with pytest.raises(FileError, match="is a folder"):
        read_file(tmp_path)


def test_ten_thousand_columns(tmp_path):
    names = [f"column_{i}" for i in range(10_000)]
    body = "\n".join(",".join(["1"] * 10_000) for _ in range(50))
    table, _ = read_file(write(tmp_path, ",".join(names) + "\n" + body + "\n"))
    assert table.shape == (50, 10_000)


def test_parquet_arrow_and_feather(tmp_path):
    table = pa.table({"a": [1, 2, None], "b": ["x", None, "z"]})
    pq.write_table(table, tmp_path / "a.parquet")
    pyarrow.feather.write_feather(table, tmp_path / "a.feather")
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    for name in ("a.parquet", "a.feather", "a.arrow"):
        assert rows(tmp_path / name) == table.to_pylist()
        batches = open_batches(tmp_path / name, {"b": TEXT, "absent": TEXT})
        assert batches.names == ("a", "b")
        assert [batch.to_pylist() for batch in batches] == [[{"b": "x"}, {"b": None}, {"b": "z"}]]


def test_a_folder_named_like_a_partition_adds_no_column(tmp_path):
    (tmp_path / "year=2018").mkdir()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "year=2018" / "a.parquet")
    assert rows(tmp_path / "year=2018" / "a.parquet") == [{"a": 1}]


def test_a_truncated_parquet_file_is_refused(tmp_path):
    pq.write_table(pa.table({"a": np.arange(10_000)}), tmp_path / "a.parquet")
    content = (tmp_path / "a.parquet").read_bytes()
    with pytest.raises(FileFormatError, match="damaged|cannot be read"):
        read_file(write(tmp_path, content[:-100], "b.parquet"))


def test_batches_read_types_as_told_and_keep_other_text_as_it_is(tmp_path):
    path = write(tmp_path, "id,age,job,flag\n007, 30 ,  nurse,true\nNA,?,NA,FALSE\n")
    types = {"age": pa.float64(), "flag": pa.bool_(), "job": TEXT, "id": None}
    batch = next(iter(open_batches(path, types)))
    assert batch.to_pylist() == [
        {"age": 30.0, "flag": True, "job": "nurse", "id": "007"},
        {"age": None, "flag": False, "job": None, "id": "NA"},
    ]
    with pytest.raises(ColumnTypeError, match="'job' .* holds '  nurse'|'job' .* holds 'nurse'"):
        list(open_batches(path, {"job": pa.float64()}))


def test_batches_add_up_to_the_whole_file(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "BLOCK", 1 << 12)
    path = write(tmp_path, "a,b\n" + "".join(f"{i},t{i % 7}\n" for i in range(5000)))
    batches = open_batches(path, {"b": TEXT, "a": pa.float64()})
    read = list(batches)
    assert len(read) > 5
    assert batches.position == batches.size
    assert pa.Table.from_batches([b.set_column(0, "b", b.column(0).dictionary_decode()) for b in read]).to_pylist() == [
        {"b": f"t{i % 7}", "a": float(i)} for i in range(5000)
    ]


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.text(st.characters(codec="utf-8", exclude_characters='\r\n\0"'), max_size=8)),
        min_size=1,
        max_size=30,
    )
)
def test_text_goes_through_csv_as_clean_text_says(tmp_path_factory, records):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_text("n,t\n" + "".join(f'{i},"{text}"\n' for i, (text,) in enumerate(records)), encoding="utf-8")
    stripped = pa.compute.utf8_trim_whitespace(pa.array([text for (text,) in records])).to_pylist()
    expected = [None if text in files.MISSING else text for text in stripped]
    batches = [batch.column(0).dictionary_decode() for batch in open_batches(path, {"t": TEXT})]
    assert [value for batch in batches for value in batch.to_pylist()] == expected


# -- writing ------------------------------------------------------------------------------------------------------


def interrupted_while_writing(path):
    path.write_text("half")
    raise KeyboardInterrupt


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "result.txt"
    with pytest.raises(KeyboardInterrupt), atomic_file(target) as name:
        interrupted_while_writing(name)
    assert list(tmp_path.iterdir()) == []
    target.write_text("old")
    with atomic_file(target) as name:
        name.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["result.txt"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~files._umask()


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "bundle"
    with pytest.raises(KeyboardInterrupt), atomic_folder(target) as name:
        interrupted_while_writing(name / "a.txt")
    assert list(tmp_path.iterdir()) == []
    with atomic_folder(target) as name:
        (name / "a.txt").write_text("1")
    assert (target / "a.txt").read_text() == "1"
    with pytest.raises(OutputError, match="holds other files"), atomic_folder(target):
        pass
    with atomic_folder(target, replace=lambda path: (path / "a.txt").exists()) as name:
        (name / "b.txt").write_text("2")
    assert [p.name for p in target.iterdir()] == ["b.txt"]
    assert [p.name for p in tmp_path.iterdir()] == ["bundle"]


def test_places_that_cannot_be_written_are_refused(tmp_path):
    write(tmp_path, "x", "file")
    with pytest.raises(OutputError, match="is a file"), atomic_folder(tmp_path / "file"):
        pass
    with pytest.raises(OutputError, match="There is no folder"), atomic_folder(tmp_path / "no" / "bundle"):
        pass
    with pytest.raises(OutputError, match="folder does not exist"), atomic_file(tmp_path / "no" / "a.txt"):
        pass
    with pytest.raises(OutputError, match="is a folder"), atomic_file(tmp_path):
        pass


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="the superuser may write anywhere")
def test_read_only_folders_are_refused(tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    with pytest.raises(OutputError, match="no permission"), atomic_file(folder / "a.txt"):
        pass
    with pytest.raises(OutputError, match="no permission"), atomic_folder(folder / "bundle"):
        pass


def test_a_read_only_file_system_is_refused():
    if not os.path.isdir("/proc/self"):
        pytest.skip("no /proc here")
    with pytest.raises(OutputError, match="cannot be written"), atomic_folder("/proc/self/bundle"):
        pass
