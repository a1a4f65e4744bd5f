import json
import stat

import numpy as np
import pytest
from tests.bundle.conftest import people

from certifare import Policy, load_encoder
from certifare.document import new_key, read_document, verify_document
from certifare.encoders import Fingerprint
from certifare.errors import FileError
from certifare.tables.files import read_file


@pytest.fixture(scope="module")
def saved(bundle, tmp_path_factory):
    folder = tmp_path_factory.mktemp("produce")
    private, public = new_key(folder / "producer")
    bundle.save(folder / "bundle", key=private, command="certifare fit people.csv")
    return folder / "bundle", public


def test_a_bundle_holds_what_may_be_published_and_what_may_not(saved, bundle):
    folder, _ = saved
    assert sorted(path.name for path in folder.iterdir()) == [
        "certificate.json",
        "encoder.json",
        "findings.json",
        "frontier.csv",
        "private",
        "report.html",
    ]
    assert sorted(path.name for path in (folder / "private").iterdir()) == ["README.txt", "fingerprint.npz", "run.json"]
    assert stat.S_IMODE((folder / "private").stat().st_mode) == 0o700
    encoder = load_encoder(folder / "encoder.json")
    fresh = people(500, 9)
    assert np.array_equal(encoder.apply(fresh), bundle.encoder.apply(fresh))
    run = json.loads((folder / "private" / "run.json").read_text())
    assert run["verdict"] == "PASS"
    assert run["command"] == "certifare fit people.csv"
    assert sum(run["parts"].values()) == 8000
    fingerprint = Fingerprint.load(folder / "private" / "fingerprint.npz")
    assert fingerprint.records == run["parts"]["train"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in (folder / "private").iterdir()} == {0o600}
    published = "".join((folder / name).read_text() for name in ("encoder.json", "certificate.json", "frontier.csv"))
    assert fingerprint.salt.hex() not in published


def test_the_certificate_of_a_bundle_is_signed_and_says_how_it_came_about(saved, bundle):
    folder, public = saved
    document = read_document(folder / "certificate.json")
    assert document.certificate == bundle.certificate
    assert document.statement.predicate.selection.tried == bundle.tried
    assert document.statement.predicate.selection.correction == "sequence"
    assert document.statement.predicate.reading.sensitive == ("sex",)
    verdict = verify_document(folder, Policy(max_bound=0.12), key=public)
    assert verdict.passed, verdict


def test_the_frontier_of_a_bundle_marks_the_chosen_encoder(saved, bundle):
    rows = read_file(saved[0] / "frontier.csv")[0].to_pylist()
    assert len(rows) == bundle.tried
    (chosen,) = [row for row in rows if row["chosen"]]
    assert chosen["bound"] == pytest.approx(bundle.certificate.bound)
    assert sum(row["certified"] for row in rows) == 1
    steps = sorted((row for row in rows if row["step"] is not None), key=lambda row: row["step"])
    assert [row["number"] for row in steps] == [point.number for point in bundle.order]


def test_the_report_of_a_bundle(saved, bundle):
    page = (saved[0] / "report.html").read_text()
    assert page.startswith("<!")
    assert "T* = 0.1200" in page
    assert "their own bounds are not claimed" in page
    assert "Predictive performance" in page


def test_suppression_hides_cells_and_keeps_the_bound(bundle, tmp_path):
    bundle.save(tmp_path / "bundle", suppress=5000)
    document = read_document(tmp_path / "bundle" / "certificate.json")
    assert document.certificate.bound == bundle.certificate.bound
    assert document.statement.predicate.suppression.below == 5000
    assert load_encoder(tmp_path / "bundle" / "encoder.json").describe()[0].records is None


def test_only_bundles_are_replaced(bundle, tmp_path):
    folder = tmp_path / "bundle"
    bundle.save(folder)
    with pytest.raises(FileError, match="holds a bundle already.*--replace"):
        bundle.save(folder)
    bundle.save(folder, replace=True)
    (folder / "letters.txt").write_text("dear")
    with pytest.raises(FileError, match="holds other files"):
        bundle.save(folder, replace=True)
    assert (folder / "letters.txt").read_text() == "dear"
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def test_nothing_is_left_where_saving_fails(bundle, tmp_path, monkeypatch):
    import certifare.report

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(certifare.report, "render_html", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bundle.save(tmp_path / "bundle")
    assert list(tmp_path.iterdir()) == []
