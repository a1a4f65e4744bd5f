"""A studio without a network, and small tables to open in it."""

import time
from types import SimpleNamespace

import numpy as np
import pytest
from starlette.testclient import TestClient

from certifare.studio.server import Studio, make_app

from .served import TOKEN

PORT = 8765
ADDRESS = f"http://127.0.0.1:{PORT}"
SCRIPT = "<script>document.title='owned'</script>"
#: The roles of the messy table's columns, as they are guessed.
ROLES = {"label": ["hired"], "sensitive": ["Sex"], "cluster": [], "drop": ["id"]}


def messy_csv(n=1500, seed=0):
    """A table as people have them: semicolons, decimal commas, a name with a script, empty values, spaces."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["w", "m", SCRIPT], n, p=[0.45, 0.45, 0.1])
    income = rng.normal(30, 8, n) + 3 * (sex == "m")
    hired = (income + rng.normal(0, 6, n) > 31).astype(int)
    lines = ["id;Sex ;income k€;" + f"note {SCRIPT}" + ";hired"]
    for i in range(n):
        group = "" if i % 97 == 0 else sex[i]
        note = "" if i % 5 == 0 else ["a", "b", "<b>c</b>"][i % 3]
        lines.append(f"{i};{group};{str(round(income[i], 1)).replace('.', ',')};{note};{'ja' if hired[i] else 'nein'}")
    return "\n".join(lines).encode()


@pytest.fixture
def server(tmp_path):
    """A studio whose user has opened the address that it printed."""
    studio = Studio(tmp_path / "studio", most=1 << 20)
    with TestClient(make_app(studio, TOKEN, PORT), base_url=ADDRESS, headers={"Origin": ADDRESS}) as client:
        client.get(f"/?token={TOKEN}")
        yield SimpleNamespace(client=client, studio=studio, folder=tmp_path / "studio")


@pytest.fixture
def project(server):
    """The address of a project with the messy table."""
    own = own_project(server.client)
    answer = server.client.put(f"{own}/table?name=people.csv", content=messy_csv())
    assert answer.status_code == 200, answer.text
    return own


def own_project(client):
    return client.get("/", follow_redirects=False).headers["location"]


def wait(server, own, patience=60):
    """Wait for the end of what is running; give the last event."""
    found = server.studio.project(own.rpartition("/")[2])
    ends = ("finished", "failed", "cancelled")  # told a moment after nothing is running
    wait_until(lambda: found.running is None and found.events[-1]["kind"] in ends, patience)
    return found.events[-1]


def wait_until(condition, patience=60):
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
