import gzip
import os

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certifare.errors import CertifareError, FileError, TableError
from certifare.tables import files
from certifare.tables.files import TEXT, open_batches, read_file

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
    with pytest.raises(FileError, match="0xe9 does not fit"):
        read_file(path, encoding="utf-8")
    with pytest.raises(FileError, match="not a known"):
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
        (b"", FileError, "is empty"),
        (b"\n\n", FileError, "is empty"),
        (b"a,b\n", FileError, "no records"),
        (
            b"a,b,c\n1,2,3\n4,5\n6,7,8,9\n",
            FileError,
            r"2 rows .* 3 columns .*row 3 of the file\) has 2\.",
        ),
        (b'a,b\n1,"x\n2,y\n3,z\n', FileError, "never closed"),
        (b"a,b,a\n1,2,3\n", TableError, "'a'"),
        (bytes(range(256)) * 10, FileError, "binary"),
        (b"PK\x03\x04 workbook", FileError, "Excel"),
        (b"PAR1 not parquet", FileError, "damaged|cannot be read"),
        (b"ARROW1\0\0 not arrow", FileError, "damaged|cannot be read"),
        (b"\xff\xff\xff\xff not arrow", FileError, "damaged|cannot be read"),
        (b"FEA1....", FileError, "Feather"),
        (b",,\n1,2,3\n", FileError, "name the columns"),
    ],
)
def test_bad_files_are_refused(tmp_path, content, error, message):
    path = write(tmp_path, content)
    with pytest.raises(error, match=message):
        read_file(path)
    with pytest.raises(error, match=message):
        for _ in open_batches(path, {"a": TEXT, "b": TEXT}):
            pass


RECORD = "Ada Lovelace"
ABOUT = f"name,age,ill\n{RECORD},36,no\n"


@pytest.mark.parametrize(
    ("content", "reading", "row"),
    [
        (ABOUT + f"{RECORD},37\n", {}, 3),
        (ABOUT * 3, {"header": False, "names": ("name", "age")}, None),
        (ABOUT + f'"{RECORD}\nGreen",38,no\n' + f"{RECORD},37,no,no\n", {}, 4),
        (f"{RECORD},36,no\n{RECORD},37\n", {"names": ("name", "age", "ill")}, 2),
        (ABOUT + f'{RECORD},37,"no\n{RECORD},38,no\n', {}, None),
        (ABOUT + "x" * 10 + f'"{RECORD}","37,no\n{RECORD},38,no\n', {}, None),
        (ABOUT.replace(",", ";"), {"delimiter": "|"}, None),
        (f"{RECORD};36;no\n" * 3, {"delimiter": ",", "header": False}, None),
    ],
)
def test_errors_about_a_csv_file_repeat_no_record(tmp_path, content, reading, row):
    path = write(tmp_path, content)
    for read in (lambda: read_file(path, **reading), lambda: list(open_batches(path, **reading))):
        with pytest.raises(CertifareError) as caught:
            read()
        told = str(caught.value)
        assert str(path) in told
        told = told.replace(str(path), "people.csv")
        assert "Ada" not in told
        assert "36" not in told
        assert row is None or f"(row {row}" in told, told


def test_the_number_of_a_row_is_that_in_the_file_however_it_is_read(tmp_path, monkeypatch):
    """A block of a few rows is read at a time: the row is counted from the beginning of the file."""
    monkeypatch.setattr(files, "BLOCK", 1 << 10)
    path = write(tmp_path, "a,b\n" + "1,2\n" * 5_000 + "1\n" + "1,2\n" * 5_000 + "1,2,3\n")
    for read in (lambda: read_file(path), lambda: list(open_batches(path))):
        with pytest.raises(FileError, match=r"\(row 5,002 of the file\) has 1\."):
            read()


@pytest.mark.parametrize("value", [f"{RECORD} of London and elsewhere", f"{RECORD};36;no", RECORD + "\n36"])
def test_a_value_of_the_wrong_type_is_told_only_where_it_is_a_word(tmp_path, value):
    path = write(tmp_path, f'age,sex\n36,f\n"{value}",f\n')
    for wanted, shown in ((value, "something else"), ("n.a.", "'n.a.'")):
        path.write_text(f'age,sex\n36,f\n"{wanted}",f\n')
        with pytest.raises(TableError, match="where numbers are expected") as caught:
            list(open_batches(path, {"age": pa.float64()}, delimiter=","))
        assert "Ada" not in str(caught.value)
        assert f"holds {shown} where" in str(caught.value)


def test_a_wrong_delimiter_is_refused(tmp_path):
    with pytest.raises(FileError, match="delimiter seems to be ','"):
        read_file(write(tmp_path, PEOPLE), delimiter=";")
    with pytest.raises(FileError, match="one character"):
        read_file(write(tmp_path, PEOPLE), delimiter=";;")


def test_absent_files_and_folders(tmp_path):
    write(tmp_path, PEOPLE, "people.csv")
    with pytest.raises(FileError, match=r"There is no file '.*'\. Did you mean '.*people.csv'\?$"):
        read_file(tmp_path / "peple.csv")
    with pytest.raises(FileError, match="is a folder"):
        read_file(tmp_path)


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
    with pytest.raises(FileError, match="damaged|cannot be read"):
        read_file(write(tmp_path, content[:-100], "b.parquet"))


def test_batches_read_types_as_told_and_keep_other_text_as_it_is(tmp_path):
    path = write(tmp_path, "id,age,job,flag\n007, 30 ,  nurse,true\nNA,?,NA,FALSE\n")
    types = {"age": pa.float64(), "flag": pa.bool_(), "job": TEXT, "id": None}
    batch = next(iter(open_batches(path, types)))
    assert batch.to_pylist() == [
        {"age": 30.0, "flag": True, "job": "nurse", "id": "007"},
        {"age": None, "flag": False, "job": None, "id": "NA"},
    ]
    with pytest.raises(TableError, match="'job' .* holds '  nurse'|'job' .* holds 'nurse'"):
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


# -- files from strangers -----------------------------------------------------------------------------------------


def strings(offsets, data):
    buffers = [None, pa.py_buffer(np.array(offsets, dtype=np.int32).tobytes()), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers)


DAMAGED = {
    "offset beyond the data": lambda: strings([0, 1 << 20, 3], b"abc"),
    "offset far beyond the data": lambda: strings([0, 1 << 30, 3], b"abc"),
    "offsets that go back": lambda: strings([0, 3, 1, 3], b"abc"),
    "text that is not UTF-8": lambda: strings([0, 2, 3], b"\xff\xfea"),
    "index beyond the dictionary": lambda: pa.DictionaryArray.from_arrays(
        pa.array([0, 9], pa.int32()), pa.array(["x"]), safe=False
    ),
    "negative index": lambda: pa.DictionaryArray.from_arrays(
        pa.array([0, -7], pa.int32()), pa.array(["x"]), safe=False
    ),
    "dictionary that is not UTF-8": lambda: pa.DictionaryArray.from_arrays(
        pa.array([0, 1], pa.int32()), strings([0, 1, 2], b"\xffa"), safe=False
    ),
}


def write_arrow(path, columns, make):
    batch = pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])
    with pa.OSFile(str(path), "wb") as sink, make(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return path


@pytest.mark.parametrize("make", [pa.ipc.new_file, pa.ipc.new_stream])
@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_arrow_files_are_refused_before_they_are_used(tmp_path, name, make):
    column = DAMAGED[name]()
    path = write_arrow(tmp_path / "a.arrow", [pa.array(range(len(column))), column], make)
    with pytest.raises(FileError, match="cannot be read as a table|is damaged"):
        read_file(path)
    with pytest.raises(FileError, match="cannot be read as a table|is damaged"):
        list(open_batches(path, {"c1": TEXT}))
    # A column that nobody asks for does no harm.
    assert [batch.num_rows for batch in open_batches(path, {"c0": None})] == [len(column)]


def test_parquet_text_that_is_not_utf8_is_refused(tmp_path):
    pq.write_table(pa.table({"a": strings([0, 2, 3], b"\xff\xfea")}), tmp_path / "a.parquet")
    with pytest.raises(FileError, match="UTF8"):
        read_file(tmp_path / "a.parquet")
    with pytest.raises(FileError, match="UTF8"):
        list(open_batches(tmp_path / "a.parquet"))


@pytest.mark.parametrize("make", [pa.ipc.new_file, pa.ipc.new_stream])
def test_a_small_arrow_file_does_not_claim_a_billion_rows(tmp_path, make):
    path = write_arrow(tmp_path / "a.arrow", [pa.Array.from_buffers(pa.null(), 2**31 - 1, [None])], make)
    assert path.stat().st_size < 10_000
    with pytest.raises(FileError, match="claims to hold more than"):
        read_file(path)
    with pytest.raises(FileError, match="claims to hold more than"):
        next(iter(open_batches(path)))


def test_large_arrow_batches_are_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "BATCH_ROWS", 100)
    path = write_arrow(tmp_path / "a.arrow", [pa.array(range(250))], pa.ipc.new_file)
    assert [batch.num_rows for batch in open_batches(path)] == [100, 100, 50]


def test_a_table_larger_than_memory_is_not_read_as_a_whole(tmp_path, monkeypatch):
    table = pa.table({"a": [1.5] * 1000, "b": ["x"] * 1000})
    pq.write_table(table, tmp_path / "a.parquet")
    write_arrow(tmp_path / "a.arrow", [column.combine_chunks() for column in table.columns], pa.ipc.new_stream)
    monkeypatch.setattr(os, "sysconf", lambda name: {"SC_PAGE_SIZE": 1024, "SC_PHYS_PAGES": 10}[name])
    for name in ("a.parquet", "a.arrow"):
        with pytest.raises(FileError, match="of memory. Select fewer"):
            read_file(tmp_path / name)
        assert sum(batch.num_rows for batch in open_batches(tmp_path / name)) == 1000


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_what_compressed_text_unpacks_to_is_bounded(tmp_path, monkeypatch, codec):
    with pa.CompressedOutputStream(str(tmp_path / "bomb.csv"), codec) as sink:
        sink.write(b"a,b\n" + b"1,2\n" * 1_000_000)
    assert read_file(tmp_path / "bomb.csv")[0].num_rows == 1_000_000
    monkeypatch.setattr(files, "UNPACKED", 1 << 20)
    monkeypatch.setattr(files, "UNPACKED_RATIO", 10)
    with pytest.raises(FileError, match="decompresses to more than"):
        read_file(tmp_path / "bomb.csv")


def test_a_line_without_end_is_not_read_to_its_end(tmp_path):
    with gzip.open(tmp_path / "zeros.csv", "wb", compresslevel=1) as file:
        file.write(b"a,b\n1," + b"0" * (files.BLOCK * 3))
    with pytest.raises(FileError, match="a record is longer than 8 MB"):
        read_file(tmp_path / "zeros.csv")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_pipes_and_devices_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(FileError, match="it is a pipe; save the data to a file"):
        read_file(tmp_path / "pipe.csv")
    with pytest.raises(FileError, match="it is a device"):
        open_batches("/dev/zero")


def test_a_file_that_is_replaced_while_it_is_opened_is_refused(tmp_path, monkeypatch):
    path, other = write(tmp_path, PEOPLE), write(tmp_path, PEOPLE, "other.csv")
    original = files.open_regular

    def replacing(name):
        found = original(name)
        os.replace(other, path)
        return found

    monkeypatch.setattr(files, "open_regular", replacing)
    with pytest.raises(FileError, match="it was replaced while it was opened"):
        read_file(path)


def test_a_file_whose_name_is_no_text_is_read(tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff\xfe.csv"
    try:
        with open(path, "w") as file:
            file.write(PEOPLE)
    except OSError:
        pytest.skip("this file system knows text only")
    assert rows(os.fsdecode(path)) == EXPECTED


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_every_kind_of_line_end_is_read(tmp_path, end):
    path = write(tmp_path, PEOPLE.replace("\n", end))
    assert rows(path) == EXPECTED
    assert [batch.num_rows for batch in open_batches(path, {"job": TEXT})] == [2]


def test_a_header_may_be_long_but_not_a_name(tmp_path):
    names = [f"{i}" + "x" * 100 for i in range(5000)]
    table, _ = read_file(write(tmp_path, ",".join(names) + "\n" + ",".join(["1"] * 5000) + "\n"))
    assert table.column_names == names
    with pytest.raises(FileError, match="field larger than field limit"):
        read_file(write(tmp_path, "a," + "x" * 140_000 + "\n1,2\n"))


@pytest.mark.parametrize(
    "name", ["rot13", "hex", "base64", "zlib", "uu", "undefined", "idna", "punycode", "a\0b", "", "x" * 999]
)
def test_codecs_that_are_no_text_encodings_are_refused(tmp_path, name):
    with pytest.raises(FileError, match="not a known text encoding"):
        read_file(write(tmp_path, PEOPLE), encoding=name)


def test_utf16_without_its_mark_is_refused(tmp_path):
    with pytest.raises(FileError, match="is not utf-16: UTF-16 stream does not start with BOM"):
        read_file(write(tmp_path, PEOPLE), encoding="utf-16")


def test_pyarrow_reads_through_no_python_object(tmp_path, monkeypatch):
    """Its threads must not call Python when the interpreter is gone: that is SIGABRT, once in ten."""
    given = []
    for module, name in ((files.pacsv, "read_csv"), (files.pacsv, "open_csv"), (pq, "read_table"), (pq, "ParquetFile")):
        real = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda source, *a, real=real, **k: given.append(source) or real(source, *a, **k)
        )
    pq.write_table(pa.table({"a": [1], "b": ["x"]}), tmp_path / "a.parquet")
    paths = [write(tmp_path, "a,b\n1,é\n".encode(e), f"{e}.csv") for e in ("utf-8", "latin-1", "utf-16")]
    paths.append(write(tmp_path, gzip.compress(b"a,b\n1,x\n"), "a.csv.gz"))
    for path in (*paths, tmp_path / "a.parquet"):
        read_file(path)
        list(open_batches(path))
    assert len(given) >= 10
    assert all(isinstance(source, pa.OSFile | pa.CompressedInputStream) for source in given)


@pytest.mark.parametrize(
    ("lines", "given", "expected"),
    [
        (["0,219;12", "7;1000,5", ";3"], None, [0.219, 7.0, None]),
        (["0,219;12.5", "7;1", ";3"], None, ["0,219", "7", None]),
        (["1,234;12", "999;1", ";3"], None, ["1,234", "999", None]),
        (["1,234;12", "999;1", ";3"], ",", [1.234, 999.0, None]),
        (["0,21;12", "7;1", ";3"], ".", ["0,21", "7", None]),
    ],
    ids=["commas", "points as well", "perhaps thousands", "said", "denied"],
)
def test_decimal_commas(tmp_path, lines, given, expected):
    path = write(tmp_path, "\n".join(["x;y", *lines]) + "\n")
    table, notes = read_file(path, decimal=given)
    assert table.column("x").to_pylist() == expected
    assert any("decimal commas" in note for note in notes) == (given is None and isinstance(expected[0], float))
    if isinstance(expected[0], float):
        (batch,) = open_batches(path, {"x": pa.float64()}, decimal=given)
        assert batch.column("x").to_pylist() == expected


def test_a_decimal_point_that_is_none_is_refused(tmp_path):
    for delimiter, decimal in ((";", "x"), (",", ",")):
        with pytest.raises(FileError, match="decimal="):
            read_file(write(tmp_path, "x;y\n1;2\n"), delimiter=delimiter, decimal=decimal)
