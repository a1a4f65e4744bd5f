"""What the page can ask for, and what it cannot: files elsewhere, too much, and certificates by accident."""

import io
import re
from http.client import HTTPConnection

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from certifare.data import adult
from certifare.errors import FileError
from certifare.foundation.version import VERIFY_PAGE
from certifare.frontier.search import Search
from certifare.studio.projects import AWARE_PARTS, Cancelled
from certifare.studio.server import Studio, make_app
from certifare.tables.splitting import PARTS, split

from .conftest import ADDRESS, PORT, ROLES, SCRIPT, messy_csv, own_project, wait, wait_until
from .served import TOKEN, Served

pytestmark = pytest.mark.usefixtures("few_draws")

TRAVERSALS = [
    "../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "/etc/passwd",
    "..\\..\\secret",
    "producer.pem",
    "project.json",
    "a%00b",
]


def test_a_messy_table_is_read_and_its_roles_are_guessed(server, project):
    state = server.client.get(f"{project}/state").json()
    assert state["name"] == "people.csv"
    assert state["table"]["columns"][1] == "Sex"
    assert state["roles"] == ROLES
    found = state["found"]
    assert found["ready"]
    assert set(found["groups"]) == {"m", "w", SCRIPT}
    assert "left out: 16 records (group missing)" in [finding["text"] for finding in found["findings"]]
    assert sum(found["labels"]["hired"].values()) == found["records"] == 1484
    assert 0 < found["least_bound"] < 1
    assert [row["cells"] for row in found["plans"]] == [2, 4, 8]
    assert set(found["certification"]) == {"m", "w", SCRIPT}


def test_what_check_finds_is_shown_and_a_column_can_be_left_out(server):
    own = own_project(server.client)
    lines = ["day;sex;x;granted"]
    lines += [f"2024-01-{1 + i % 28:02};{'fm'[i % 2]};{i % 13};{'ny'[i % 7 < 3]}" for i in range(600)]
    state = server.client.put(f"{own}/table?name=days.csv", content="\n".join(lines).encode()).json()
    (error,) = (finding for finding in state["found"]["findings"] if finding["severity"] == "error")
    assert (error["column"], state["found"]["ready"]) == ("day", False)
    roles = {**state["roles"], "drop": ["day"]}
    assert server.client.post(f"{own}/roles", json=roles).json()["found"]["ready"]


def test_a_table_without_a_likely_label_is_opened_and_its_user_asked(server):
    own = own_project(server.client)
    content = "\n".join(["a,b", *(f"{i},{i * i}" for i in range(200))]).encode()
    state = server.client.put(f"{own}/table?name=squares.csv", content=content).json()
    assert "Which column" in state["problem"]
    assert state["roles"]["label"] == []
    assert state["table"]["records"] == 200


def test_a_table_with_lists_is_opened_and_said_to_be_unreadable(server):
    own, content = own_project(server.client), io.BytesIO()
    lists = pa.table({"sex": ["f", "m"] * 200, "tags": [["a"]] * 400, "granted": [i % 3 for i in range(400)]})
    pq.write_table(lists, content)
    state = server.client.put(f"{own}/table?name=lists.parquet", content=content.getvalue()).json()
    assert state["roles"]["sensitive"] == ["sex"]
    (error,) = (finding for finding in state["found"]["findings"] if finding["severity"] == "error")
    assert "'tags'" in error["text"]


def test_roles_are_corrected_and_wrong_ones_refused_in_words(server, project):
    roles = {"label": ["hired"], "sensitive": [f"note {SCRIPT}"], "drop": ["id"]}
    assert server.client.post(f"{project}/roles", json=roles).json()["found"]["groups"]["a"] > 0
    for wrong, words in (
        ({"label": ["absent"]}, "absent"),
        ({"sensitive": []}, "Choose a label"),
        ({"drop": "id"}, "Expected `array`"),
    ):
        answer = server.client.post(f"{project}/roles", json={**roles, **wrong})
        assert answer.status_code == 400
        assert words in answer.json()["error"]


@pytest.mark.parametrize(
    "content", [b"", b"\x00\x01\x02" * 50, b"a,b\n1,2\n3\n", b"PAR1 nonsense PAR1", b"\xff\xfe\x00"]
)
def test_a_malformed_file_is_an_error_in_words(server, content):
    own = own_project(server.client)
    answer = server.client.put(f"{own}/table?name=people.csv", content=content)
    assert answer.status_code == 400
    assert len(answer.json()["error"]) > 20
    assert str(server.folder) not in answer.json()["error"]
    assert server.client.get(f"{own}/state").json()["name"] is None


def test_a_project_keeps_its_table_and_another_one_begins_a_project_of_its_own(server, project):
    for answer in (
        server.client.put(f"{project}/table?name=broken.parquet", content=b"PAR1 nonsense PAR1"),
        server.client.put(f"{project}/table?name=b.csv", content=messy_csv(300)),
        server.client.post(f"{project}/example"),
    ):
        assert answer.status_code == 400
        assert "has its table already" in answer.json()["error"]
    again = TestClient(make_app(Studio(server.folder), TOKEN, PORT), base_url=ADDRESS, cookies=server.client.cookies)
    assert again.get(f"{project}/state").json()["found"]["records"] == 1484
    assert len(list((server.folder / project.rpartition("/")[2]).glob("table*"))) == 1
    other = server.client.get("/new", follow_redirects=False).headers["location"]
    assert server.client.get(f"{other}/state").json()["name"] is None


def test_a_table_that_fit_would_leave_where_it_lies_is_refused(server, monkeypatch):
    """Its records are split in another way there: some that were explored would certify."""
    monkeypatch.setattr("certifare.frontier.large.LARGE", 1000)
    content = io.BytesIO()
    pq.write_table(adult().select(["age", "sex"]).slice(0, 500), content)
    answer = server.client.put(f"{own_project(server.client)}/table?name=a.parquet", content=content.getvalue())
    assert answer.status_code == 400
    assert "too large for memory" in answer.json()["error"]


def test_several_rows_of_a_person_are_split_and_counted_by_person(server):
    own = own_project(server.client)
    lines = ["person;sex;x;granted"]
    lines += [f"p{i % 600};{'fm'[i % 600 % 2]};{i % 13};{'ny'[i % 7 < 3]}" for i in range(1800)]
    state = server.client.put(f"{own}/table?name=visits.csv", content="\n".join(lines).encode()).json()
    assert sum(state["found"]["certification"].values()) == 720
    found = server.client.post(f"{own}/roles", json={**state["roles"], "cluster": ["person"]}).json()["found"]
    assert sum(found["certification"].values()) == 240


def test_an_upload_that_is_too_large_is_refused_and_leaves_nothing(server):
    own = own_project(server.client)
    folder = server.folder / own.rpartition("/")[2]
    stated = server.client.put(f"{own}/table?name=big.csv", content=b"x" * ((1 << 20) + 1))
    pieces = server.client.put(f"{own}/table?name=big.csv", content=(b"x" * 65536 for _ in range(40)))
    for answer in (stated, pieces):
        assert answer.status_code == 413
        assert "larger than 1 MB" in answer.json()["error"]
    assert not folder.exists() or not any(folder.iterdir())
    answer = server.client.post(f"{own}/roles", content=b" " * (2 << 20))
    assert answer.status_code == 413


def test_an_upload_that_is_interrupted_leaves_nothing(tmp_path):
    served = Served(tmp_path / "studio")
    asked = {"Cookie": f"certifare-studio-{served.port}={TOKEN}", "Origin": served.address}
    connection = HTTPConnection("127.0.0.1", served.port)
    try:
        connection.request("GET", "/", headers=asked)
        answer = connection.getresponse()
        answer.read()
        own = answer.headers["Location"]
        folder = tmp_path / "studio" / own.rpartition("/")[2]
        connection.request("PUT", f"{own}/table?name=a.csv", b"a,b\n", {**asked, "Content-Length": "100000"})
        wait_until(lambda: list(folder.glob("upload-*")))
        connection.close()
        wait_until(lambda: not list(folder.iterdir()))
    finally:
        connection.close()
        served.close()


def test_no_parameter_leads_out_of_the_folder(server, project):
    client, folder = server.client, server.folder
    (folder.parent / "secret.csv").write_bytes(messy_csv(50))
    client.post(f"{project}/issue", json={"target": 0.35, "aware": True})
    wait(server, project)
    for name in TRAVERSALS:
        before = set(folder.parent.rglob("*"))
        for path in (
            f"/projects/{name}", f"/projects/{name}/state", f"{project}/files/{name}", f"/static/{name}",
            f"{project}/understand?number={name}", f"{project}/explain?number={name}&record=1",
            f"{project}/explain?record={name}",
        ):  # fmt: skip
            answer = client.get(path)
            assert answer.status_code in (400, 404)
            assert "root:" not in answer.text
            assert "PRIVATE KEY" not in answer.text
        assert client.post(f"{project}/roles", json={"label": [name], "sensitive": [name]}).status_code == 400
        assert client.post(f"{project}/choice", json={"target": name, "aware": name}).status_code == 400
        assert client.post(f"{project}/issue", json={"target": 0.3, "aware": name}).status_code == 400
        assert set(folder.parent.rglob("*")) == before
        new = own_project(client)
        client.put(f"{new}/table", params={"name": name}, content=messy_csv(60))
        stored = set(folder.parent.rglob("*")) - before
        assert {path.parent for path in stored} == {folder, folder / new.rpartition("/")[2]}
        assert {path.name for path in stored if path.is_file()} == {"table", "project.json"}
    before = {path for path in folder.parent.rglob("*") if path.is_file()}
    for i, name in enumerate(TRAVERSALS):
        fresh = {"params": {"name": f"{name}.csv", "period": name}, "content": messy_csv(600, seed=20 + i)}
        assert client.put(f"{project}/fresh", **fresh).status_code == 200
    written = {path for path in folder.parent.rglob("*") if path.is_file()} - before
    assert written == {folder / project.rpartition("/")[2] / f"issue-1-history.{form}" for form in ("json", "html")}


def test_both_kinds_of_cells_keep_the_same_records_aside():
    table = adult()
    blind, aware = split(table, PARTS), split(table, AWARE_PARTS)
    assert np.array_equal(blind["certify"], aware["certify"])


def test_exploring_looks_at_no_certification_record(server, project, monkeypatch):
    looked = []
    monkeypatch.setattr(Search, "certify_cells", lambda *_: looked.append("cells"))
    monkeypatch.setattr("certifare.frontier.job.Job._use", lambda *_: looked.append("use"))
    server.client.post(f"{project}/explore")
    assert wait(server, project)["kind"] == "finished"
    found = server.studio.project(project.rpartition("/")[2])
    events = {event["kind"] for event in found.events}
    assert {"points", "order"} <= events
    orders = {event["family"]: event["order"] for event in found.events if event["kind"] == "order"}
    assert orders["blind"]
    assert orders["aware"]
    number = orders["blind"][0]["number"]
    page = server.client.get(f"{project}/understand?number={number}")
    assert "select records" in page.text
    assert "certification records" not in page.text
    assert SCRIPT not in page.text
    assert "sandbox" in page.headers["content-security-policy"]
    explained = server.client.get(f"{project}/explain?number={number}&record=1").json()
    assert "cell" in explained["text"]
    refused = server.client.get(f"{project}/explain?number={number}&record=999999")
    assert "There is no record" in refused.json()["error"]
    assert looked == []


@pytest.mark.slow
def test_another_look_has_to_be_confirmed_is_counted_and_is_worth_less(server, project):
    client = server.client

    def issue(own, **asked):
        assert client.post(f"{own}/issue", json={"aware": True, **asked}).status_code == 200
        return wait(server, own), client.get(f"{own}/state").json()

    issue(project, target=0.35)
    refused, state = issue(project, target=0.3)
    assert state["again"] == pytest.approx(0.9)
    assert refused["kind"] == "failed"
    assert "were looked at before" in refused["text"]
    assert len(state["issued"]) == 1
    _, state = issue(project, target=0.3, again=True)
    first, second = state["issued"]
    assert (first["look"], second["look"]) == (1, 2)
    assert "90 % confidence" in second["words"]
    assert "confidence=0.9" in second["command"]
    checks = client.get(f"{project}/check").json()
    assert checks["outcome"] == "PASS"
    assert "90 % confidence" in next(check["message"] for check in checks["checks"] if check["name"] == "confidence")
    # The same records in another project: its user did not know, and is told before anything is looked at.
    other = own_project(client)
    client.put(f"{other}/table?name=copy.csv", content=messy_csv())
    refused, state = issue(other, target=0.25)
    assert "in another" in refused["text"]
    assert (state["issued"], state["again"]) == ([], pytest.approx(0.85))
    _, state = issue(other, target=0.25, again=True)
    assert state["issued"][0]["look"] == 3


def test_a_table_can_be_explored_after_its_certificate(server, project):
    server.client.post(f"{project}/issue", json={"target": 0.35, "aware": True})
    wait(server, project)
    server.client.post(f"{project}/explore")
    assert wait(server, project)["kind"] == "finished"


def test_a_certificate_is_checked_on_fresh_records_and_over_time(server, project):
    client = server.client
    client.post(f"{project}/issue", json={"target": 0.35, "aware": False})
    wait(server, project)
    checks = {check["name"]: check["ok"] for check in client.get(f"{project}/check").json()["checks"]}
    assert checks["signature"]
    assert checks["figures"]
    assert checks["encoder"]
    fresh = client.put(f"{project}/fresh?name=new.csv", content=messy_csv(900, seed=5)).json()
    assert "data" in {check["name"] for check in fresh["checks"]}
    for i, month in enumerate(("January", SCRIPT)):
        answer = client.put(
            f"{project}/fresh", params={"name": "m.csv", "period": month}, content=messy_csv(900, seed=7 + i)
        )
        assert answer.status_code == 200, answer.text
    again = client.put(f"{project}/fresh", params={"name": "m.csv", "period": "March"}, content=messy_csv(900, seed=7))
    assert again.status_code == 400
    page = client.get(f"{project}/files/history.html").text
    assert "January" in page
    assert SCRIPT not in page
    assert not list(server.folder.rglob("fresh*"))


def test_a_look_counts_even_if_its_certificate_cannot_be_written(server, project, monkeypatch):
    def full(*_, **__):
        raise FileError("The disk is full.")

    monkeypatch.setattr("certifare.bundle.Bundle.save", full)
    server.client.post(f"{project}/issue", json={"target": 0.35, "aware": True})
    assert wait(server, project)["text"] == "The disk is full."
    (result,) = server.client.get(f"{project}/state").json()["issued"]
    assert result["verdict"] == "NOT WRITTEN"
    assert result["look"] == 1


def test_a_job_cannot_be_cancelled_once_it_looks_and_does_not_show_how_far_the_tests_went(server, project):
    found = server.studio.project(project.rpartition("/")[2])
    found.running = "issue"
    found.cancelled.set()
    with pytest.raises(Cancelled):
        found._progress("growing boosted encoders", 1, 5)
    found._progress("certifying", 3, 12)
    assert found.events[-1]["done"] == 0


def test_a_target_out_of_reach_is_no_certificate_but_advice(server, project):
    server.client.post(f"{project}/issue", json={"target": 0.001, "aware": True})
    wait(server, project)
    (result,) = server.client.get(f"{project}/state").json()["issued"]
    assert result["verdict"] == "NO SOLUTION"
    assert result["advice"]
    assert server.client.get(f"{project}/files/bundle.zip").status_code == 400


def test_a_search_is_cancelled_and_two_projects_do_not_mix(server, project):
    other = own_project(server.client)
    assert other != project
    server.client.post(f"{project}/explore")
    busy = server.client.post(f"{project}/explore")
    server.client.post(f"{project}/cancel")
    assert wait(server, project)["kind"] in ("cancelled", "finished")
    assert busy.status_code == 400
    assert server.client.get(f"{other}/state").json()["name"] is None
    assert server.studio.project(other.rpartition("/")[2]).events == []
    assert server.client.get(f"{project}/state").json()["name"] == "people.csv"


def test_after_a_restart_projects_are_opened_again_and_the_old_token_is_refused_in_words(server, project):
    server.client.post(f"{project}/choice", json={"target": 0.2, "aware": True})
    again = make_app(Studio(server.folder), "another token", PORT)
    with TestClient(again, base_url=ADDRESS, headers={"Origin": ADDRESS}, cookies=server.client.cookies) as client:
        refused = client.get(f"{project}/state")
        assert refused.status_code == 403
        assert "after a restart it prints a new one" in refused.text
        client.cookies.clear()
        client.get("/?token=another token")
        state = client.get(f"{project}/state").json()
        assert state["choice"] == {"target": 0.2, "aware": True}
        assert state["found"]["records"] == 1484
        assert [other["id"] for other in state["earlier"]] == [project.rpartition("/")[2]]
        lost = client.get("/projects/0123456789abcdef/state")
        assert lost.status_code == 404
        assert "does not know this project" in lost.json()["error"]


def test_the_file_of_the_command_line_is_open_at_once_and_copied(tmp_path):
    """If it changed after exploring, it would be split anew, and records that were explored would certify."""
    path = tmp_path / "mine.csv"
    path.write_bytes(messy_csv(200))
    studio = Studio(tmp_path / "s", path)
    with TestClient(make_app(studio, TOKEN, PORT), base_url=ADDRESS) as client:
        client.get(f"/?token={TOKEN}")
        own = own_project(client)
        assert client.get(f"{own}/state").json()["name"] == "mine.csv"
        path.write_bytes(b"a,b\n")
        assert client.get(f"{own}/state").json()["found"]["records"] == 197
        again = Studio(tmp_path / "s").project(own.rpartition("/")[2])
        assert again.state()["found"]["records"] == 197
        events = studio.project(own_project(client).rpartition("/")[2]).events
        assert [event["kind"] for event in events] == ["failed"]  # the page says why


def test_nothing_comes_from_the_network(server):
    own = own_project(server.client)
    for path in (own, "/static/studio.js", "/static/studio.css", "/static/report.css"):
        text = server.client.get(path).text
        text = re.sub(r'"http://www\.w3\.org/(2000/svg|1999/xhtml)"', "", text)
        text = text.replace(f'<a href="{VERIFY_PAGE}"', "")  # a link for others
        assert not re.search(r"https?://|//cdn|@import", text)
        assert "innerHTML" not in text
