import json
import os
import re
import signal
import subprocess
import sys

import pytest

from certifare import Policy, load_encoder
from certifare.document import new_key, verify_document

QUICK = ["--kind", "tree"]
ROLES = ["--label", "approved", "--sensitive", "sex"]


@pytest.fixture(scope="session")
def table(tmp_path_factory, make_people):
    path = tmp_path_factory.mktemp("fit") / "people.csv"
    make_people(6_000, 5).to_csv(path, index=False)
    return path


def test_fit_writes_a_bundle_that_verifies(cli, table, tmp_path):
    private, public = new_key(tmp_path / "producer")
    folder = tmp_path / "bundle"
    arguments = ("fit", table, *ROLES, *QUICK, "--target", "0.2", "--key", private, "-o")
    brief = cli(*arguments, tmp_path / "brief")
    lines = brief.stdout.splitlines()
    assert len(lines) == 4
    claim = "Selection rates of 'f' and 'm' differ by at most 20 percentage points with any classifier on the cells"
    assert lines[0] == f"PASS  {claim} (95 % confidence)."
    assert re.match(r"price   accuracy \d\d\.\d%, AUC 0\.\d{3}", lines[1])
    assert lines[2].startswith("next    certifare verify ")
    assert lines[3] == f"report  {tmp_path / 'brief' / 'report.html'}"
    result = cli(*arguments, folder, "--verbose")
    assert result.status == 0
    assert "PASS" in result.stdout
    assert str(folder / "report.html") in result.stdout
    assert "not signed" not in result.stdout
    assert "it was chosen after testing, so the claim is the target" in " ".join(result.stdout.split())
    assert re.search(r"tried \d+ encoders, shortlisted \d+; \d+ met the target", " ".join(result.stdout.split()))
    assert "majority votes accuracy" in " ".join(result.stdout.split())
    assert "balanced accuracy above 0.6000" in " ".join(result.stdout.split())
    verdict = verify_document(folder, Policy(max_bound=0.2), key=public)
    assert verdict.passed, verdict
    assert verify_document(folder / "certificate.json", key=public).bound <= 0.2
    assert load_encoder(folder / "encoder.json").n_cells_ >= 2


def test_no_solution_does_not_advise_what_was_asked_for(cli, table, tmp_path):
    result = cli("fit", table, *ROLES, "--group-aware", "--target", "0.01", "-o", tmp_path / "bundle")
    assert result.status == 1
    assert "Cells that read the group: With" in " ".join(result.stdout.split())
    assert "--group-aware" not in result.stdout


def test_fit_without_a_target_takes_the_knee(cli, table, tmp_path):
    result = cli("fit", table, *ROLES, *QUICK, "-o", tmp_path / "bundle", "--json")
    assert result.status == 0
    assert result.json["verdict"] == "DONE"
    assert result.json["encoder"]["certified"]
    assert result.json["bundle"] == str(tmp_path / "bundle")
    assert result.stderr == ""


def test_no_solution_has_status_1_says_what_would_help_and_writes_nothing(cli, table, tmp_path):
    result = cli("fit", table, *ROLES, *QUICK, "--target", "0.02", "-o", tmp_path / "bundle")
    assert result.status == 1
    assert "NO SOLUTION" in result.stdout
    assert "What would help" in result.stdout
    assert "No encoder met the target 0.02." in result.stdout
    assert re.search("records instead of 6,000|No number of records would do", " ".join(result.stdout.split()))
    assert "A target of" in result.stdout
    assert list(tmp_path.iterdir()) == []
    plain = cli("fit", table, *ROLES, *QUICK, "--target", "0.02", "-o", tmp_path / "bundle", "--json")
    assert plain.status == 1
    assert plain.json["verdict"] == "NO SOLUTION"
    assert plain.json["advice"]
    assert plain.json["bundle"] is None


def test_roles_by_comparison_and_overrides(cli, table, tmp_path):
    folder = tmp_path / "bundle"
    result = cli(
        "fit", table, "--label", "approved", "--sensitive", "age>=40", "--sensitive", "sex", *QUICK,
        "--drop", "job", "-o", folder, "--target", "0.9", "--json",
    )  # fmt: skip
    # Every column has a role or was dropped.
    assert result.status == 2
    assert "No feature is left" in result.stderr
    result = cli(
        "fit", table, "--label", "approved", "--sensitive", "age>=40", *QUICK, "--drop", "sex", "-o", folder,
        "--target", "0.9", "--json",
    )  # fmt: skip
    assert result.status == 0
    groups = json.loads((folder / "certificate.json").read_text())["predicate"]["groups"]
    assert [group["name"] for group in groups] == ["age < 40", "age >= 40"]
    assert [column.name for column in load_encoder(folder / "encoder.json").columns_] == ["job"]


def test_a_seed_repeats_a_fit(cli, table, tmp_path):
    # Without a solution no report is drawn, which would take most of the time.
    first, again, other = (
        cli("fit", table, *ROLES, *QUICK, "-o", tmp_path / "bundle", "--target", "0.02", "--seed", seed, "--json").json
        for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other


def test_a_bundle_is_replaced_only_if_asked(cli, table, tmp_path):
    folder = tmp_path / "bundle"
    assert cli("fit", table, *ROLES, *QUICK, "-o", folder).status == 0
    before = (folder / "certificate.json").read_bytes()
    refused = cli("fit", table, *ROLES, *QUICK, "-o", folder, "--seed", "2")
    assert refused.status == 2
    assert "--replace" in refused.stderr
    assert (folder / "certificate.json").read_bytes() == before
    again = cli("fit", table, *ROLES, *QUICK, "-o", folder, "--seed", "2", "--replace")
    assert again.status == 0
    assert (folder / "certificate.json").read_bytes() != before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sensitive", "sex"], "--label"),
        (["--label", "approved"], "--sensitive"),
        (["--label", "aproved", "--sensitive", "sex"], "Did you mean 'approved'"),
        (["--label", "approved", "--sensitive", "Sex"], "Did you mean 'sex'"),
        (["--label", "approved>5", "--sensitive", "sex"], "one value only"),
        (["--label", "age", "--sensitive", "sex"], 'such as "age>='),
        ([*ROLES, "--target", "7"], "Did you mean 0.07?"),
        ([*ROLES, "--confidence", "95"], "Did you mean 0.95?"),
        ([*ROLES, "--kind", "forest"], "Unknown kind"),
        ([*ROLES, "--metric", "justice"], "justice"),
        ([*ROLES, "--utility", "fame"], "choose one of information, explained, accuracy"),
        ([*ROLES, "--key", "absent.pem"], "absent.pem"),
        ([*ROLES, "--min-group-size", "100000"], "min_group_size"),
        ([*ROLES, "--population", "towns", "--cluster", "age"], "population"),
        ([*ROLES, "--positive", "perhaps", "--metric", "equal_opportunity"], "perhaps"),
    ],
)
def test_bad_options_have_status_2_and_one_message(cli, table, tmp_path, options, message):
    result = cli("fit", table, *options, "-o", tmp_path / "bundle")
    assert result.status == 2
    assert message in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_error_is_also_told_to_machines(cli, table, tmp_path):
    result = cli("fit", table, "--label", "aproved", "--sensitive", "sex", "-o", tmp_path / "b", "--json")
    assert result.status == 2
    assert "Did you mean" in result.json["error"]


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="there is no SIGINT for one process")
def test_an_interrupt_leaves_nothing(table, tmp_path):
    code = f"""
import sys, time
from certifare.cli import main
from certifare.frontier.paths import Explorer
def wait(self, kind):
    print("ready", flush=True)
    while True:
        time.sleep(0.01)
Explorer.prepare = wait
sys.argv = ["certifare", "fit", {str(table)!r}, *{ROLES!r}, "-o", {str(tmp_path / "bundle")!r}]
main()
"""
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert "interrupted" in errors
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_read_only_folder_is_refused_before_any_work(cli, table, tmp_path):
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    result = cli("fit", table, *ROLES, "-o", locked / "bundle")
    assert result.status == 2
    assert "no permission" in result.stderr


def test_folders_that_cannot_be_written_are_refused_before_any_work(cli, table, tmp_path):
    for folder in (tmp_path / "absent" / "bundle", "/proc/self/bundle", table):
        result = cli("fit", table, *ROLES, "-o", folder)
        assert result.status == 2
        assert "Error:" in result.stderr
