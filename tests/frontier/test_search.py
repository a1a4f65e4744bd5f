from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from certifare.certificates import CellCounts, Claim, certify_counts
from certifare.errors import ArgumentError, GroupError, RoleError
from certifare.frontier import Grid
from certifare.frontier.search import Search
from certifare.tables.table import Table


@pytest.fixture(scope="module")
def search(small, grid):
    return Search(small, grid).run()


def test_certificates_are_those_of_untouched_records(small, grid):
    search = Search(small, grid).run()
    numbers = [0, len(search.candidates) - 1]
    rows = search.rows["certify"]
    results = search.certify(numbers)
    for number, (encoder, certificate) in zip(numbers, results, strict=True):
        part = small.take(rows)
        counts = CellCounts.from_cells(
            encoder.apply(part.features), part.sensitive, n_cells=search.candidates[number].cells
        )
        assert certificate.counts == counts
        assert certificate.bound == certify_counts(counts, candidates=2).bound
        assert certificate.candidates == 2
        assert certificate.witnesses
        certificate.verify()


def test_records_are_certified_on_once(small, grid):
    search = Search(small, grid).run()
    search.certify([0])
    with pytest.raises(ArgumentError, match="have been used"):
        search.certify([1])


def test_fitting_and_choosing_never_look_at_certification_records(small, grid):
    """They may hold anything: the order stays."""
    search = Search(small, grid).run()
    rng = np.random.default_rng(0)
    rows = search.rows["certify"]
    age = small.features["age"].to_numpy().copy()
    age[rows] = rng.permutation(age[rows]) * 100
    position = small.features.column_names.index("age")
    garbled = replace(small, features=small.features.set_column(position, "age", [age]))
    other = Search(garbled, grid).run()
    assert [c.accuracy for c in other.candidates] == [c.accuracy for c in search.candidates]
    assert [c.prediction for c in other.candidates] == [c.prediction for c in search.candidates]
    assert other.chain() == search.chain()
    assert other.knee() == search.knee()


def test_a_chain_goes_from_safe_to_bold_among_useful_encoders(search):
    order = search.chain()
    for values in (
        [search.candidates[i].prediction.bound for i in order],
        [search.candidates[i].utility for i in order],
    ):
        assert values == sorted(values)
    assert set(order) <= set(search.useful())
    assert all(search.candidates[i].cells >= 8 for i in search.chain(min_cells=8))
    (knee,) = search.knee()
    assert knee in search.useful()
    assert search.chain(min_cells=1000) == search.knee(min_cells=1000) == []


def test_a_walk_tests_encoders_on_untouched_records_until_one_fails(small, grid):
    search = Search(small, grid).run()
    order = search.chain()
    limits = [certify_counts(_counted(search, small, number)).bound for number in order]
    target = sorted(limits)[len(limits) // 2]
    walked, found = search.walk(order, target)
    expected = next((i for i, limit in enumerate(limits) if limit > target), len(limits))
    assert walked.passed == expected
    assert [step.limit for step in walked.steps] == limits[: len(walked.steps)]
    encoder, certificate = found
    assert certificate.verify().sequence == walked
    assert certificate.bound == target
    assert certificate.counts == _counted(search, small, order[expected - 1])
    assert encoder.n_cells_ == certificate.counts.n_cells
    with pytest.raises(ArgumentError, match="have been used"):
        search.walk(order, target)


def _counted(search, table, number):
    part = table.take(search.rows["certify"])
    encoder = search.encoder(number)
    return CellCounts.from_cells(encoder.apply(part.features), part.sensitive, n_cells=encoder.n_cells_)


def test_a_walk_on_which_the_first_fails_finds_nothing(small, grid):
    search = Search(small, grid).run()
    walked, found = search.walk(search.chain(), 0.001)
    assert (walked.passed, len(walked.steps), found) == (0, 1, None)
    with pytest.raises(ArgumentError, match="no encoder to certify"):
        Search(small, grid).run().walk([], 0.1)


def test_searches_repeat_themselves(small, grid, search):
    again = Search(small, grid, n_jobs=1).run()
    assert [c.prediction for c in again.candidates] == [c.prediction for c in search.candidates]
    assert [c.retained for c in again.candidates] == [c.retained for c in search.candidates]


def test_progress_is_told(small, grid):
    told = []
    Search(small, grid).run(progress=lambda *stage: told.append(stage))
    assert told[0] == ("preparing tree encoders", 0, 3)
    assert told[-1] == ("growing tree encoders", 3, 3)


def test_weights_and_clusters_leave_independent_records(make_table, grid):
    weighted = Search(make_table(weight="weight", drop=("promoted", "home", "region")), grid).run()
    _, certificate = weighted.certify([0])[0]
    assert certificate.counts.n_records < len(weighted.rows["certify"])
    assert certificate.effective_size is not None
    assert any("thinning" in e.reason for e in certificate.exclusions)
    clustered = Search(make_table(cluster="home", drop=("promoted", "weight", "region")), grid).run()
    _, certificate = clustered.certify([0])[0]
    homes = clustered.table.clusters[clustered.rows["certify"]]
    assert certificate.counts.n_records == len(np.unique(homes))
    assert "Clusters are independent of one another." in certificate.assumptions


@pytest.mark.parametrize("metric", ["equal_opportunity", "equalized_odds", "equalized_odds_max"])
def test_other_metrics(make_table, grid, metric):
    search = Search(
        make_table(label="paid", sensitive="region", drop=("promoted", "weight", "home")), grid, Claim(metric=metric)
    )
    _, certificate = search.run().certify([2])[0]
    assert certificate.metric == metric
    assert len(certificate.parts) == (3 if metric == "equal_opportunity" else 6)
    certificate.verify()


def test_the_positive_label(make_table, grid):
    expression = Search(make_table(label="hours<38"), grid, Claim(metric="equal_opportunity"))
    assert expression.claim.positive == "hours < 38"
    assert expression.explorer.common["positive_label"] == "hours < 38"
    numeric = Search(make_table(), grid, Claim(metric="equal_opportunity", positive="0"))
    assert numeric.explorer.common["positive_label"] == 0
    assert numeric.run().certify([0])[0][1].positive == "0"
    with pytest.raises(ArgumentError, match="'2' is not among"):
        Search(make_table(), grid, Claim(metric="equal_opportunity", positive="2"))
    with pytest.raises(ArgumentError, match="Which label"):
        Search(make_table(label="region", drop=("promoted", "weight", "home")), grid, Claim(metric="equal_opportunity"))


def test_exclusions_of_the_table_are_in_the_certificate(make_people, grid):
    from certifare.tables.table import Table

    frame = make_people(6000, 0)
    frame.loc[:99, "sex"] = None
    table = Table.from_frame(frame, label="paid", sensitive="sex", drop=["promoted", "weight", "home", "region"])
    _, certificate = Search(table, grid).run().certify([0])[0]
    assert [(e.reason, e.records) for e in certificate.exclusions] == [
        ("group missing (of all records, before the split)", 100)
    ]


def test_tables_and_arguments_that_cannot_be_searched(make_table, grid):
    with pytest.raises(RoleError, match="no label"):
        Search(make_table(label=None), grid)
    with pytest.raises(GroupError, match="no groups"):
        Search(make_table(sensitive=None), grid)
    with pytest.raises(ArgumentError):
        Search(make_table(), grid, Claim(confidence=95))
    with pytest.raises(ArgumentError, match="must be train"):
        Search(make_table(), grid, parts={"train": 0.5, "certify": 0.5})
    with pytest.raises(GroupError, match="at least 2000 are asked for"):
        Search(make_table(), grid, Claim(min_group_size=2000))
    with pytest.raises(GroupError):
        Search(make_table(sensitive="age>=80"), grid)
    for population in ("records", "people"):
        with pytest.raises(ArgumentError, match="population"):
            Search(make_table(), grid, Claim(population=population))


def test_columns_that_tell_nothing(make_table, grid):
    with pytest.raises(ArgumentError, match="No encoder found more than one cell"):
        Search(make_table(), Grid(kinds=["tree"], gammas=[1.0], min_cell_sizes=[1400], cells=[2])).run()


def test_a_kind_that_cannot_be_fitted_is_noted(make_people):
    from certifare.tables.table import Table

    frame = make_people(3000, 0)
    frame["paid"] = frame["paid"].astype(str)
    frame.loc[:3, "paid"] = "rarely"
    table = Table.from_frame(frame, label="paid", sensitive="sex", drop=["promoted", "weight", "home", "region"])
    search = Search(table, Grid(gammas=[0.5], min_cell_sizes=[40], cells=[4]), seed=1).run()
    kinds = {candidate.setting.kind for candidate in search.candidates}
    if kinds == {"tree"}:
        assert any("no boosted encoders" in note for note in search.notes)
    else:
        assert kinds == {"tree", "boosted"}


def visits(n_persons, rules, rng):
    """Persons with five visits each. A column for each rule: in one group it holds at 3 of the visits, else at 2."""
    sex = np.repeat(np.repeat(["f", "m"], n_persons // 2), 5)
    visit = np.tile(np.arange(5), n_persons)
    columns = {f"x{j}": rule[(sex == "m").astype(int), visit].astype(int) for j, rule in enumerate(rules)}
    label = rng.integers(0, 2, len(sex))
    return pd.DataFrame({**columns, "sex": sex, "paid": label, "person": np.repeat(np.arange(n_persons), 5)})


def test_select_and_certify_parts_are_drawn_independently():
    """The rule that looks best on the select part keeps its bound on the certify part.

    Were the i-th persons of both parts to keep the same visit, the error of the choice would come again.
    """
    rng = np.random.default_rng(0)
    rules = [np.array([rng.permutation(5) < 3, rng.permutation(5) < 2]) for _ in range(30)]
    misses = 0
    for seed in range(30):
        table = Table.from_frame(visits(600, rules, rng), label="paid", sensitive="sex", cluster="person")
        parts = {"train": 0.3, "select": 0.35, "certify": 0.35}
        search = Search(table, Grid(kinds=["tree"], gammas=[0.5]), parts=parts, seed=seed)
        select, certify = search.select, search.certify_sample.table

        def count(part, j):
            return part.count(part.features[f"x{j}"].to_numpy(), 2)

        chosen = min(range(len(rules)), key=lambda j: certify_counts(count(select, j)).estimate)
        misses += certify_counts(count(certify, chosen)).bound < 0.2
    assert misses <= 5  # of 30 at ε = .05


def test_a_rare_label_is_not_given_up_because_few_select_records_have_it(grid):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=6000), "sex": rng.choice(["f", "m"], 6000)})
    frame["ill"] = (rng.random(6000) < np.where(frame["x"] > 1.5, 0.08, 0.001)).astype(int)
    search = Search(
        Table.from_frame(frame, label="ill", sensitive="sex"),
        grid,
        parts={"train": 0.57, "select": 0.03, "certify": 0.4},
    ).run()
    assert search.select.labels[0].codes.sum() <= 3
    assert search.chain()


@pytest.mark.parametrize(
    ("column", "values", "error", "words"),
    [
        ("paid", [1] * 40, RoleError, "one value only, '1'"),
        ("paid", [None] * 40, RoleError, "no value in any record"),
        ("sex", ["f"] * 40, GroupError, "one group only, 'f'"),
    ],
)
def test_a_table_with_nothing_to_predict_or_to_compare_is_refused(column, values, error, words):
    frame = {"age": list(range(40)), "sex": ["f", "m"] * 20, "paid": [0, 1] * 20, column: values}
    table = Table.from_frame(pa.table(frame), label="paid", sensitive="sex")
    with pytest.raises(error, match=words):
        Search(table, Grid(kinds=["tree"]))


def test_encoders_are_told_as_soon_as_their_growth_is_counted(small, grid):
    told, steps = [], []
    search = Search(small, grid)
    search.run(progress=lambda stage, *_: steps.append((stage, len(told))), found=told.append)
    assert sum(map(len, told)) == len(search.candidates)
    assert {id(candidate) for some in told for candidate in some} == set(map(id, search.candidates))
    growing = [known for stage, known in steps if stage.startswith("growing")]
    assert growing == list(range(1, len(told) + 1))


def test_the_utility_of_gradient_boosting_is_measured_on_select_records(make_table):
    search = Search(make_table(6000), Grid(gammas=[0.5], cells=[4, 50])).run()
    (predicted,) = search.boosting(search.select)
    y = search.select.labels[0].codes
    rates = np.bincount(search.explorer.train.labels[0].codes) / len(search.explorer.train)
    lost, without = -np.log(predicted[np.arange(len(y)), y]).sum(), -np.log(rates[y]).sum()
    assert search.boosting_utility() == pytest.approx(1.0 - lost / without, abs=1e-3)
    assert search.boosting_utility() > 0.0
    assert Search(make_table(2000), Grid(kinds=["tree"], gammas=[0.5], cells=[4])).run().boosting_utility() is None
