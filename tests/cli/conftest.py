import contextlib
import json
import sys
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from certifare import FairTreeEncoder
from certifare.cli import main


@dataclass(frozen=True)
class Result:
    status: int
    stdout: str
    stderr: str

    @property
    def json(self):
        return json.loads(self.stdout)


@pytest.fixture(autouse=True, scope="module")
def few_settings(few_draws):
    """Try few settings and draws: fits are fast, and what commands do with them is the same."""
    with pytest.MonkeyPatch.context() as patch:
        for name, values in (("GAMMAS", (0.5, 0.9, 0.97)), ("GAMMAS_BESIDE", (0.85,)), ("CELL_SHARES", (0.01,))):
            patch.setattr(f"certifare.frontier.settings.{name}", values)
        yield


@pytest.fixture(autouse=True)
def ledger(request, state_folder, monkeypatch):
    """Count looks only where a test module says so (``LEDGER = True``)."""
    if not getattr(request.module, "LEDGER", False):
        monkeypatch.setenv("CERTIFARE_STATE", "off")


@pytest.fixture
def cli(capsys, monkeypatch):
    """Run the command as the shell would: arguments in, exit status and both outputs back."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["certifare", *map(str, arguments)])
        status = None
        with contextlib.ExitStack():
            try:
                main()
            except SystemExit as end:
                status = end.code
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        assert status != 70, captured.err
        return Result(status, captured.out, captured.err)

    return run


def people(n, seed):
    """A made-up table about people, with missing values and a label that depends on sex and age."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    age = rng.normal(40, 12, n).round(1)
    job = rng.choice(["nurse", "clerk", "smith", "cook"], n, p=[0.3, 0.3, 0.2, 0.2]).astype(object)
    job[rng.random(n) < 0.05] = None
    label = (age + 6 * (sex == "m") + 5 * (job == "smith") + rng.normal(0, 8, n) > 44).astype(int)
    age[rng.random(n) < 0.03] = np.nan
    return pd.DataFrame({"sex": sex, "age": age, "job": job, "approved": label})


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Fresh records as CSV, and an encoder fitted to others."""
    folder = tmp_path_factory.mktemp("cli")
    people(3_000, 1).to_csv(folder / "fresh.csv", index=False)
    train = people(3_000, 0)
    encoder = FairTreeEncoder(sensitive="sex", max_cells=8, min_cell_size=50)
    encoder.fit(train.drop(columns="approved"), train["approved"]).save(folder / "encoder.json")
    return folder


@pytest.fixture(scope="session")
def make_people():
    return people
