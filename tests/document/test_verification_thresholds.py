"""With the certification records at hand: are the thresholds of calibrated cells the ones that they set?"""

import json

import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from tests.engines.conftest import make_people

from certifare import CellCounts, certify_counts
from certifare.bundle import produce
from certifare.certificates import Certificate
from certifare.cli.verify import STATUS
from certifare.document import Policy, read_document, verify_document, write_document
from certifare.errors import ArgumentError
from certifare.frontier.settings import Grid

#: Options of jobs, and whether random numbers put equal scores in order.
JOBS = {
    "one score": ({"drop": ["id"]}, True),
    "a column breaks ties": ({"tie_column": "id"}, False),
    "a score of few values": ({"score_column": "age", "drop": ["id"]}, True),
    "opportunity": ({"metric": "equal_opportunity", "drop": ["id"]}, True),
    "several directions": ({"retain": 0.2, "drop": ["id"]}, True),
}


@pytest.fixture(scope="module", params=JOBS)
def job(request, tmp_path_factory):
    """A bundle, its certification records in another order, and whether equal scores are parted at random."""
    folder = tmp_path_factory.mktemp("thresholds")
    people = make_people(4000, seed=6).assign(id=lambda t: t.index + 10**6, age=lambda t: t["age"] // 10)
    options, at_random = JOBS[request.param]
    bundle = produce(
        people, label="paid", sensitive="sex", target=0.3, grid=Grid(cells=[2, 3, 4, 6]), group_aware=True, **options
    )
    records = bundle.certification_records().to_pandas().sample(frac=1.0, random_state=0)
    bundle.save(folder / "bundle")
    return folder / "bundle", records, at_random


def finding(folder, records, tmp_path):
    """What the check says of records in a file, and the whole verdict."""
    records.to_parquet(tmp_path / "records.parquet")
    verdict = verify_document(folder, certified_on=tmp_path / "records.parquet")
    (check,) = [check for check in verdict.checks if check.name == "thresholds"]
    return check, verdict


def altered(folder, tmp_path, change):
    """A bundle whose encoder was changed, by a producer who certifies the changed one."""
    document = json.loads((folder / "encoder.json").read_text("utf-8"))
    change(document)
    other = tmp_path / "altered"
    other.mkdir()
    (other / "encoder.json").write_text(json.dumps(document), "utf-8")
    stated = read_document(folder / "certificate.json")
    assert isinstance(stated.certificate, Certificate)
    write_document(
        other / "certificate.json",
        stated.certificate,
        encoder=other / "encoder.json",
        reading=stated.statement.predicate.reading,
    )
    return other


def test_the_records_that_set_the_thresholds_are_confirmed(job, tmp_path):
    folder, records, at_random = job
    check, verdict = finding(folder, records, tmp_path)
    assert check.ok, check.message
    assert verdict.passed
    assert ("random numbers" in check.message) == at_random
    pacsv.write_csv(pa.Table.from_pandas(records, preserve_index=False), tmp_path / "records.csv")
    assert verify_document(folder, certified_on=tmp_path / "records.csv").passed


@pytest.mark.parametrize("step", [-1, 1])
def test_an_altered_threshold_is_found(job, tmp_path, step):
    """Any threshold, moved beyond a few records."""
    folder, records, _ = job

    def move(document):
        # By less than cells are wide, and more than scores are close to each other.
        document["splits"][-1]["at"][1] += step * (1.0 if document["models"] == [] else 0.05)

    check, verdict = finding(altered(folder, tmp_path, move), records, tmp_path)
    assert check.ok is False
    assert "not the order statistics of these records" in check.message
    assert STATUS[verdict.outcome] == 1


def test_an_altered_tie_is_found_if_a_column_breaks_ties(job, tmp_path):
    folder, records, at_random = job

    def move(document):
        document["splits"][0]["ties"][0] /= 2.0

    check, _ = finding(altered(folder, tmp_path, move), records, tmp_path)
    assert check.ok is at_random


def test_other_records_are_not_the_ones_that_set_the_thresholds(job, tmp_path):
    folder, records, _ = job
    check, verdict = finding(folder, records.iloc[1:], tmp_path)
    assert check.ok is False
    assert "The plan is for" in check.message
    fresh = make_people(len(records) * 3, seed=7).assign(id=lambda t: t.index, age=lambda t: t["age"] // 10)
    fresh = fresh.sort_values("age")  # younger people: of others like these, few values may have the same thresholds
    kinds = records.groupby(["sex", "paid"]).size()
    parts = [fresh[(fresh["sex"] == sex) & (fresh["paid"] == paid)].head(n) for (sex, paid), n in kinds.items()]
    check, _ = finding(folder, pd.concat(parts), tmp_path)
    assert check.ok is False
    assert verdict.outcome == "FAIL"


def test_the_plan_of_the_encoder_is_the_one_that_the_certificate_counts(job, tmp_path):
    folder, records, _ = job
    stated = read_document(folder / "certificate.json")
    certificate, counts = stated.certificate, stated.certificate.counts
    other = CellCounts(counts.table[::-1], counts.groups, counts.labels)
    write_document(
        tmp_path / "certificate.json",
        certify_counts(other, certificate.metric, positive=certificate.positive, method="calibrated"),
        encoder=folder / "encoder.json",
        reading=stated.statement.predicate.reading,
    )
    (tmp_path / "encoder.json").write_bytes((folder / "encoder.json").read_bytes())
    check, verdict = finding(tmp_path, records, tmp_path)
    (failed,) = verdict.failures
    assert failed.name == "encoder"
    assert "another plan" in failed.message
    assert check.ok is None


def test_an_encoder_whose_thresholds_no_record_has_set_is_not_the_one_of_the_certificate(job, tmp_path):
    folder, records, _ = job

    def forget(document):
        document["calibrated"] = False

    _, verdict = finding(altered(folder, tmp_path, forget), records, tmp_path)
    assert [check.name for check in verdict.failures] == ["encoder"]


def test_the_records_that_set_the_thresholds_decide_nothing_as_own_records(job, tmp_path):
    """Whatever puts equal scores in order: on them the exact bound would come out too low."""
    folder, records, _ = job
    other = tmp_path / "published"
    other.mkdir()
    for name in ("certificate.json", "encoder.json"):
        (other / name).write_bytes((folder / name).read_bytes())
    records.to_parquet(tmp_path / "records.parquet")
    verdict = verify_document(other, Policy(max_bound=0.5), data=tmp_path / "records.parquet")
    assert verdict.outcome == "INCONCLUSIVE"
    (check,) = [check for check in verdict.checks if check.undecided]
    assert "set the thresholds" in check.message


def test_thresholds_are_of_calibrated_cells_alone(tmp_path):
    people = make_people(3000, seed=6)
    grid = Grid(kinds=["tree"], gammas=[0.9], min_cell_sizes=[50], cells=[2, 4])
    produce(people, label="paid", sensitive="sex", grid=grid).save(tmp_path / "bundle")
    people.to_parquet(tmp_path / "people.parquet")
    with pytest.raises(ArgumentError, match="only thresholds of cells that read the group"):
        verify_document(tmp_path / "bundle", certified_on=tmp_path / "people.parquet")
    with pytest.raises(ArgumentError, match="with the encoder"):
        verify_document(tmp_path / "bundle" / "certificate.json", certified_on=tmp_path / "people.parquet")
