import http.server
import threading
import zipfile

import pytest

from certifare_research.datasets import (
    acs,
    load_acs_employment,
    load_acs_income,
    load_german_credit,
    load_health,
    sources,
)
from certifare_research.errors import DataFileError

HEADER = "RT,ST,AGEP,COW,SCHL,MAR,OCCP,POBP,RELP,WKHP,SEX,RAC1P,PINCP,PWGTP,ESR"
PEOPLE = [
    "P,6,30,1,21,1,0010,6,0,40,1,1,60000,10,1",
    "P,6,45,1,16,1,0020,6,1,20,2,6,20000,5,1",
    "P,6,15,,9,5,,6,2,,1,1,,7,",  # too young
    "P,6,50,1,21,1,0010,6,0,0,2,1,90000,10,6",  # no hours
    "P,6,50,1,21,1,0010,6,0,38,2,1,50,10,1",  # no income to speak of
]


@pytest.fixture
def census(tmp_path, monkeypatch):
    """A server on this machine with one state's records, and an empty cache."""
    folder = tmp_path / "served" / "2014" / "1-Year"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "csv_pca.zip", "w") as archive:
        archive.writestr("ss14pca.csv", "\n".join([HEADER, *PEOPLE]) + "\n")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, directory=str(tmp_path / "served"), **kwargs)

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(acs, "CENSUS", address)
    monkeypatch.setenv("CERTIFARE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CERTIFARE_DATA", raising=False)
    yield address
    server.shutdown()
    thread.join()
    server.server_close()


def test_downloaded_filtered_and_cached(census, tmp_path):
    data = load_acs_income("CA", 2014)
    assert len(data) == 2
    assert data.y.tolist() == [1, 0]
    assert data.s.tolist() == [1, 0]
    assert data.X["OCCP"].to_pylist() == [10, 20]
    names = {path.name for path in (tmp_path / "cache").iterdir()}
    assert names == {"csv_pca_2014.zip", "csv_pca_2014.zip.sha256", "acs_income_ca_2014.parquet"}
    assert len(load_acs_income("CA", 2014)) == 2


def test_missing_file_says_what_to_do(census, tmp_path):
    with pytest.raises(DataFileError, match="CERTIFARE_DATA is not set"):
        load_acs_income("NV", 2014)
    with pytest.raises(DataFileError, match=r"acs_income_2014\.parquet was not found in .*nowhere, which is no folder"):
        load_acs_income("NV", 2014, data=tmp_path / "nowhere")
    with pytest.raises(DataFileError, match=r"acs_employment_nv_2015_2018\.parquet was not found in"):
        load_acs_employment("NV", [2015], data=tmp_path)
    with pytest.raises(DataFileError, match=r"german_credit\.parquet"):
        load_german_credit()
    with pytest.raises(DataFileError, match="Heritage Health Prize"):
        load_health()


def test_checksums(census, tmp_path):
    url = f"{census}/2014/1-Year/csv_pca.zip"
    with pytest.raises(DataFileError, match="SHA-256"):
        sources.download(url, "x.zip", sha256="0" * 64)
    assert not list((tmp_path / "cache").glob("*x.zip*"))
    path = sources.download(url, "x.zip")
    path.write_bytes(b"something else")
    with pytest.raises(DataFileError, match="delete both"):
        sources.download(url, "x.zip")


def test_not_an_address():
    with pytest.raises(DataFileError, match="not an address"):
        sources.download("file:///etc/passwd", "x")


def test_damaged_archive(tmp_path):
    path = tmp_path / "x.zip"
    path.write_bytes(b"PK no zip")
    with pytest.raises(DataFileError, match="not a ZIP"):
        acs.read_person_records(path, "income")


def test_unknown_state_is_refused():
    with pytest.raises(DataFileError, match="no state"):
        load_acs_income("XX")
