"""The studio, the command that it shows and the function give the same certificate."""

import io
import json
import shlex
import shutil
import subprocess
import sys
import zipfile

import pytest

from certifare import produce
from certifare.document import Policy, read_document, verify_document
from certifare.studio.projects import AWARE_PARTS
from certifare.tables.splitting import PARTS, split

from .conftest import ROLES, SCRIPT, wait


@pytest.mark.slow
@pytest.mark.parametrize("aware", [False, True])
def test_the_certificate_is_the_one_that_fit_gives_and_the_look_is_counted(
    server, project, aware, tmp_path, monkeypatch
):
    client = server.client
    body = {"target": 0.35, "aware": aware}
    assert client.post(f"{project}/issue", json=body).status_code == 200
    assert wait(server, project)["kind"] == "finished"
    result = client.get(f"{project}/state").json()["issued"][0]
    assert result["verdict"] == "PASS"
    assert result["look"] == 1
    # What certifare fit does, counted in a ledger of its own.
    monkeypatch.setenv("CERTIFARE_STATE", str(tmp_path / "other"))
    source = server.folder / project.rpartition("/")[2] / "table"
    roles = {"label": ("hired",), "sensitive": ("Sex",), "drop": ("id",)}
    own = produce(source, **roles, target=0.35, group_aware=aware, parts=AWARE_PARTS if aware else None)
    packed = zipfile.ZipFile(io.BytesIO(client.get(f"{project}/files/bundle.zip").content))
    assert "bundle/producer.pub.pem" in packed.namelist()
    assert not any("private" in name for name in packed.namelist())
    packed.extractall(tmp_path / "taken")
    folder = tmp_path / "taken" / "bundle"
    verdict = verify_document(folder, Policy(max_bound=0.35), key=folder / "producer.pub.pem")
    assert verdict.outcome == "PASS"
    assert verdict.bound == own.certificate.bound
    written = json.loads((server.folder / project.rpartition("/")[2] / "issue-1" / "private" / "run.json").read_text())
    explored = server.studio.project(project.rpartition("/")[2])._read()  # what certified is kept aside while exploring
    kept_aside = explored.take(split(explored, PARTS)["certify"])
    assert written["certify_digest"] == own.run["certify_digest"] == kept_aside.digest
    assert written["encoder"] == own.point.to_dict()
    # What the page shows to type gives the same certificate, in a folder with the table.
    shutil.copyfile(source, tmp_path / "people.csv")
    monkeypatch.setenv("CERTIFARE_STATE", str(tmp_path / "third"))
    program, *words = shlex.split(result["command"])
    typed = [sys.executable, *([] if program == "python" else ["-m", program]), *words]
    subprocess.run(typed, cwd=tmp_path, check=True, capture_output=True)
    typed_bundle = tmp_path / ("bundle" if aware else "certifare-bundle")
    assert read_document(typed_bundle / "certificate.json").certificate.counts == own.certificate.counts
    rows = client.get(f"{project}/files/encoded.csv").text.splitlines()
    assert len(rows) == (1485 if aware else 1501)  # of those without a group, nothing is known
    assert rows[0].startswith('"cell","typical_income k€",')
    assert rows[0].endswith(',"hired"')
    report = client.get(f"{project}/files/report.html")
    assert "sandbox" in report.headers["content-security-policy"]
    assert SCRIPT not in report.text
    assert client.post(f"{project}/roles", json={**ROLES, "sensitive": [f"note {SCRIPT}"]}).status_code == 200
    assert client.get(f"{project}/explain?record=2").status_code == 200  # by the roles that it has
