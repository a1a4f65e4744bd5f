"""A verifier's own records: certified at the certificate's confidence, and against it only where that says so.

In each of two groups all records are in a cell of their own. Whatever half of them a coin chooses, then, the limits
depend on the numbers of records alone.
"""

import json

import numpy as np
import pandas as pd
import pytest

from certifare import CalibratedEncoder, CellCounts, Policy, certify_counts
from certifare.certificates import Claim, difference_limit
from certifare.certificates.bounding import Evidence
from certifare.certificates.issuing import issue
from certifare.document import verify_document, write_document
from certifare.errors import ArgumentError
from certifare.tables.table import Table

from .documents import encoder_of

GROUPS = ["f", "m"]


@pytest.fixture
def written(tmp_path):
    """Write a certificate about an encoder of two cells; return how one's own records are held against it."""
    encoder = tmp_path / "encoder.json"
    encoder_of([0.0, 1.0]).save(encoder)
    # The cells of 0 and 1 have no fixed order, and need none.
    path = tmp_path / "certificate.json"

    def write(counts, labels=None, **options):
        table = CellCounts(counts, GROUPS, labels)
        write_document(path, certify_counts(table, **options), encoder=encoder)

        def verified(data, policy=None, **roles):
            table = Table.from_frame(data, **{"sensitive": "s", **roles})
            verdict = verify_document(path, policy or Policy(min_confidence=0.5), encoder=encoder, data=table)
            return {check.name: check for check in verdict.checks}, verdict

        return verified

    return write


def apart(n, m=None):
    """Records whose groups are in different cells."""
    m = n if m is None else m
    return pd.DataFrame({"x": [0.0] * n + [1.0] * m, "s": ["f"] * n + ["m"] * m})


def alike(n, share=0.5):
    """Records of which both groups have the same share in the first cell."""
    first = round(share * n)
    return pd.DataFrame({"x": ([0.0] * first + [1.0] * (n - first)) * 2, "s": ["f"] * n + ["m"] * n})


@pytest.mark.parametrize(("confidence", "contradicted"), [(0.8, True), (0.95, False)])
def test_own_records_contradict_at_the_certificates_confidence(written, confidence, contradicted):
    """About 200 + 200 records are tested on. The lower limit is 2·ε^(1/400) − 1, on either side of T* = .9884."""
    n = 10**8
    apart_by = 0.98835
    counts = [[n, round((1 - apart_by) * n)], [0, round(apart_by * n)]]
    verified = written(counts, confidence=confidence)
    limits = [-difference_limit(half, half, -half * half, 1 - confidence) for half in (160, 240)]
    checks, verdict = verified(apart(400))
    assert verdict.bound == pytest.approx(0.98836, abs=2e-5)
    assert all((limit > verdict.bound) is contradicted for limit in limits)
    assert checks["data"].ok is not contradicted
    assert verdict.outcome == ("FAIL" if contradicted else "PASS")


def test_a_file_is_read_as_the_certificate_says_and_a_table_has_its_roles(written, tmp_path):
    verified = written([[500, 480], [500, 520]])
    apart(400).to_csv(tmp_path / "own.csv", index=False)
    with pytest.raises(ArgumentError, match="does not state its sensitive column. Give your records as a table"):
        verify_document(tmp_path / "certificate.json", encoder=tmp_path / "encoder.json", data=tmp_path / "own.csv")
    assert verified(apart(400))[0]["data"].ok is False


@pytest.mark.parametrize(("confidence", "enough"), [(0.8, True), (0.95, False)])
def test_own_records_confirm_a_bound_at_the_certificates_confidence(written, confidence, enough):
    """The limit of all 500 + 500 records, at the certificate's ε and not at any other."""
    verified = written([[50_000, 50_000], [50_000, 50_000]], confidence=confidence)
    limits = [difference_limit(500, 500, 0, epsilon) for epsilon in (0.2, 0.05)]
    between = sum(limits) / 2
    assert limits[0] + 0.01 < between < limits[1] - 0.01
    checks, verdict = verified(alike(500), Policy(min_confidence=0.5, max_bound=between))
    assert checks["data"].ok is True
    assert checks["data bound"].undecided is not enough
    assert verdict.outcome == ("PASS" if enough else "INCONCLUSIVE")
    # Just the limit is enough, and a hair less is not.
    own = difference_limit(500, 500, 0, 0.2 if enough else 0.05)
    for bound, outcome in ((own + 1e-9, "PASS"), (own - 1e-9, "INCONCLUSIVE")):
        assert verified(alike(500), Policy(min_confidence=0.5, max_bound=bound))[1].outcome == outcome


def test_own_records_are_certified_for_the_same_metric_and_label(written):
    """Groups differ among the records with label yes alone: a claim about no is not contradicted by them."""
    records = pd.concat([apart(300).assign(y="yes"), alike(300).assign(y="no")], ignore_index=True)
    counts = np.full((2, 2, 2), 50_000)
    for positive, contradicted in (("no", False), ("yes", True)):
        verified = written(counts, ["no", "yes"], metric="equal_opportunity", positive=positive)
        checks, _ = verified(records, label="y")
        assert checks["data"].ok is not contradicted
    for metric, contradicted in (("equalized_odds", True), ("equalized_odds_max", True)):
        checks, _ = written(counts, ["no", "yes"], metric=metric)(records, label="y")
        assert checks["data"].ok is not contradicted
    with pytest.raises(ArgumentError, match="label"):
        written(counts, ["no", "yes"], metric="equalized_odds")(records)


def test_other_records_with_the_same_counts_are_halved_independently(written):
    """One stream for all would let the same coins decide for every verifier, and FAIL far more often than 5 %."""
    verified = written([[50_000, 50_000], [50_000, 50_000]])
    told = {
        verified(pd.concat([apart(100), alike(100)]).assign(x=lambda f, i=i: f["x"] - i * 1e-6))[0]["data"].message
        for i in range(5)
    }
    assert len(told) == 5
    assert all("T* = 0." in words and "lower limit 0." in words for words in told)
    assert len({words.partition("; lower")[0] for words in told}) == 1


def test_own_records_of_a_single_person_in_a_group_contradict_nothing(written):
    """Of one record no two halves can be made: nothing is shown, and nothing breaks."""
    verified = written([[50_000, 50_000], [50_000, 50_000]])
    for n in range(40, 52):  # it is in either half
        checks, verdict = verified(apart(n, 1))
        assert checks["data"].ok is not False
        assert verdict.outcome != "FAIL"


def test_own_records_contradict_a_certificate_though_a_cell_is_empty(tmp_path):
    encoder = tmp_path / "encoder.json"
    encoder_of([0.0, 1.0, 2.0]).save(encoder)
    certificate = certify_counts(CellCounts(np.full((3, 2), 50_000), GROUPS))
    write_document(tmp_path / "certificate.json", certificate, encoder=encoder)
    table = Table.from_frame(apart(400), sensitive="s")
    verdict = verify_document(tmp_path / "certificate.json", encoder=encoder, data=table)
    assert [check.name for check in verdict.failures] == ["data"]


def test_own_records_are_not_looked_at_where_the_encoder_is_another(written, tmp_path):
    verified = written([[50_000, 50_000], [50_000, 50_000]])
    assert verified(alike(500))[1].outcome == "PASS"
    encoder_of([0.0, 3.0]).save(tmp_path / "encoder.json")
    checks, verdict = verified(apart(500))
    assert [name for name, check in checks.items() if check.ok is False] == ["encoder"]
    assert checks["data"].ok is None
    assert "training records" not in checks
    assert verdict.outcome == "FAIL"


def test_own_records_are_not_looked_at_where_the_statement_contradicts_itself(written, tmp_path):
    verified = written([[50_000, 50_000], [50_000, 50_000]])
    path = tmp_path / "certificate.json"
    document = json.loads(path.read_text("utf-8"))
    document["predicate"]["claim"]["words"] = "Nobody is ever treated differently."
    path.write_text(json.dumps(document), encoding="utf-8")
    checks, verdict = verified(apart(500))
    assert [name for name, check in checks.items() if check.ok is False] == ["statement"]
    assert checks["data"].ok is None
    assert verdict.outcome == "FAIL"


def test_whether_the_encoder_saw_own_records_is_said_before_what_they_show(written):
    """Whatever they show: nothing against the certificate, something, records of other groups, or of too few."""
    verified = written(np.full((2, 2, 2), 50_000), ["no", "yes"], metric="equal_opportunity", positive="yes")
    labels = ["no", "yes"] * 500
    policy = Policy(min_confidence=0.5, max_bound=0.5)
    for data, ok in (
        (alike(500).assign(y=labels), True),
        (apart(500).assign(y=labels), False),
        (alike(500).assign(y=labels, s=["f", "x"] * 500), None),
        (alike(500).assign(y=labels, s="f"), None),
        (alike(500).assign(y=["yes"] * 500 + ["no"] * 500), None),
    ):
        checks, _ = verified(data, policy, label="y")
        assert [name for name in checks if name in ("training records", "data")] == ["training records", "data"]
        assert checks["data"].ok is ok
        assert checks["data"].undecided is (ok is None)
        assert ("data bound" in checks) is (ok is True)


@pytest.mark.parametrize("values", [10**6, 8], ids=["scores differ", "scores of few values"])
def test_the_records_that_set_the_thresholds_are_not_fresh(tmp_path, values):
    rng = np.random.default_rng(0)

    def people(n):
        return pd.DataFrame({"x": rng.integers(0, values, n), "s": rng.choice(GROUPS, n)})

    def verified(data):
        table = Table.from_frame(data, sensitive="s")
        return verify_document(path, Policy(max_bound=0.5), encoder=tmp_path / "encoder.json", data=table)

    setting = people(300)
    encoder = CalibratedEncoder(target=0.3, max_cells=3, score_column="x")
    encoder.fit(setting[["x"]], sensitive_features=setting["s"])
    certificate = encoder.calibrate(setting[["x"]], sensitive_features=setting["s"])
    path = tmp_path / "certificate.json"
    encoder.save(tmp_path / "encoder.json")
    write_document(path, certificate, encoder=tmp_path / "encoder.json")
    verdict = verified(setting)
    assert verdict.outcome == "INCONCLUSIVE"
    assert "set the thresholds" in next(check.message for check in verdict.checks if check.name == "data")
    assert verified(people(310)).outcome == "PASS"


def test_each_attribute_is_compared_whatever_intersections_are_among_ones_own_records(tmp_path):
    """A small intersection that a verifier happens not to have does not matter; an attribute's group does."""
    encoder, path = tmp_path / "encoder.json", tmp_path / "certificate.json"
    encoder_of([0.0, 1.0]).save(encoder)
    groups = ["f × a", "f × b", "m × a", "m × b"]
    counts = CellCounts([[900, 900, 900, 20], [900, 900, 900, 20]], groups)
    write_document(path, issue(Evidence(counts), Claim(each=("sex", "race"))), encoder=encoder)

    def verified(sex, race):
        n = 200
        data = pd.DataFrame({"x": [0.0, 1.0] * (n * len(sex) // 2), "sex": list(sex) * n, "race": list(race) * n})
        table = Table.from_frame(data.sort_values(["sex", "race"]), sensitive=["sex", "race"], each=True)
        return verify_document(path, Policy(), encoder=encoder, data=table)

    assert verified("ffm", "aba").outcome == "PASS"
    without = verified("fmm", "aaa")
    assert without.outcome == "INCONCLUSIVE"
    assert "Your records have the groups of 'race' a; the certificate is about a, b." in str(without)
