"""What a report shows beside the certificate: written, read back, and hostile files refused."""

import json

import pytest

from certifare.errors import FileError
from certifare.report.findings import Findings

from .samples import performance


def findings():
    evaluation = {
        "importances": {
            "explained": 0.3,
            "distance": 0.01,
            "columns": [{"column": "age", "explained": 0.1, "distance": -0.01}],
            "records": 500,
        },
        "retained": {"records": 500, "mean": 0.1, "columns": [{"column": "age", "share": 0.1}]},
        "calibration": [
            {"label": "paid", "value": "yes", "error": 0.01,
             "cells": [{"cell": 0, "score": 0.2, "records": 0, "share": None}]}
        ],
    }  # fmt: skip
    return {"target": 0.1, "measured": performance(0.8), "boosting": None, "evaluation": evaluation}


def test_findings_are_read_back_as_they_were_written(tmp_path):
    given = findings()
    (tmp_path / "findings.json").write_bytes(Findings.of(**given).to_bytes())
    assert json.loads(json.dumps(Findings.read(tmp_path / "findings.json").shown())) == given


@pytest.mark.parametrize(
    "change",
    [
        {"target": 2.0},
        {"target": "0.1"},
        {"version": 2},
        {"format": "certifare/report"},
        {"more": 1},
        {"measured": {"records": -1}},
        {"evaluation": []},
    ],
)
def test_files_that_are_no_findings_are_refused_by_name(tmp_path, change):
    path = tmp_path / "findings.json"
    path.write_text(json.dumps({**json.loads(Findings.of(**findings()).to_bytes()), **change}))
    with pytest.raises(FileError, match=r"findings\.json"):
        Findings.read(path)


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b'{"target": NaN}', b"\xff"])
def test_hostile_bytes_are_refused(tmp_path, content):
    path = tmp_path / "findings.json"
    path.write_bytes(content)
    with pytest.raises(FileError, match=r"findings\.json"):
        Findings.read(path)
    with pytest.raises(FileError, match="cannot be read"):
        Findings.read(tmp_path / "absent.json")
