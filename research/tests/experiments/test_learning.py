import pytest

from certifare_research.experiments.learning import KNOBS, USEFUL, along_the_knob
from certifare_research.experiments.published import read_runs


@pytest.fixture(scope="module")
def runs():
    return read_runs()


@pytest.mark.parametrize("data", ["adult", "ca"])
@pytest.mark.parametrize("method", list(KNOBS))
def test_settings_from_mild_to_strict_are_treated_alike(runs, data, method):
    path = along_the_knob(runs, data, method)
    assert len(path) >= 4
    assert [r["knob"] for r in path] == sorted(r["knob"] for r in path)
    assert len({(r["effort"], r["attack"]) for r in path}) == 1
    assert all(0.5 <= r["adversary"] <= 1.0 for r in path)
    # The label is learnt at the mildest setting.
    assert path[0]["accuracy"] > path[0]["majority"] + 0.05


@pytest.mark.parametrize("data", ["adult", "ca"])
@pytest.mark.parametrize("method", ["CVIB", "FCRL", "FNF", "sIPM-LFR steady", "FairPath narrow", "LAFTR steady"])
def test_the_adversary_gets_weaker_along_the_knob_and_the_label_stays(runs, data, method):
    path = along_the_knob(runs, data, method)
    if (data, method) == ("ca", "CVIB"):
        # There is hardly anything to find at any setting: what is left is chance.
        assert max(r["adversary"] for r in path) < 0.53
    else:
        useful = [r["adversary"] for r in path if r["accuracy"] > r["majority"] + USEFUL]
        assert min(useful) < path[0]["adversary"] - 0.01
        if method in ("CVIB", "FCRL", "FNF"):
            assert path[-1]["adversary"] < path[0]["adversary"]
    if method in ("CVIB", "FCRL", "FNF"):
        assert path[-1]["distance"] < path[0]["distance"] / 3
