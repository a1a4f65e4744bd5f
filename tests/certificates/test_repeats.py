"""Copies of records are found, whatever their numbers; records that are equal by chance are not taken for copies."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import binom
from tests.conftest import FULL, shared

from certifare.certificates import repeats
from certifare.certificates.repeats import Grouping, Repeats, blocks_of, copied_share, repeats_of_multiplicities
from certifare.data import adult as load_adult
from certifare.encoders import hashes
from certifare.encoders.hashes import GroupSample, HashSample, RepeatSample, count_repeats
from certifare.errors import RepeatedRecordsError
from certifare.tables.frames import Field, Frame

NUMBERS: dict[str, Callable[[np.random.Generator, int], NDArray[np.int64]]] = {
    "two": lambda _, n: np.full(n, 2),
    "uniform": lambda rng, n: rng.integers(1, 6, n),
    "geometric": lambda rng, n: rng.geometric(0.5, n),
    "poisson": lambda rng, n: 1 + rng.poisson(0.5, n),
    "some": lambda rng, n: np.where(rng.random(n) < 0.3, rng.integers(2, 5, n), 1),
    "many": lambda rng, n: 1 + rng.poisson(20.0, n),
}
"""How many records people have."""


def people_of(kind: str, n: int, rng: np.random.Generator) -> NDArray[Any]:
    """Different people in tables of several kinds."""
    precise, two, few = (lambda: rng.normal(size=n)), (lambda: rng.integers(0, 2, n)), (lambda: rng.integers(0, 3, n))
    columns = {
        "three precise": [precise() for _ in range(3)],
        "one precise, two of two values": [precise(), two(), two()],
        "one precise, eleven of two values": [precise(), *(two() for _ in range(11))],
        "twelve precise": [precise() for _ in range(12)],
        "three of a hundred values": [rng.integers(0, 100, n) for _ in range(3)],
        "twelve of three values": [few() for _ in range(12)],
    }
    return np.column_stack(columns[kind])


def judge(table: Any) -> Repeats:
    return count_repeats(Frame(table).fields())


def copy(table: NDArray[Any], numbers: str, rng: np.random.Generator) -> NDArray[Any]:
    copied: NDArray[Any] = np.repeat(table, NUMBERS[numbers](rng, len(table)), axis=0)
    return copied


class TestCopies:
    """Several records of one person."""

    @pytest.mark.parametrize("numbers", NUMBERS)
    @pytest.mark.parametrize(
        "kind",
        [
            "three precise",
            "one precise, two of two values",
            "one precise, eleven of two values",
            "twelve precise",
            "three of a hundred values",
            "twelve of three values",
        ],
    )
    def test_are_found_whatever_their_numbers(self, kind: str, numbers: str) -> None:
        for seed in range(3):
            rng = np.random.default_rng(seed)
            visits = copy(people_of(kind, 2000, rng), numbers, rng)
            found = judge(visits[rng.permutation(len(visits))])
            assert found.copied > 0.5 * found.records
            with pytest.raises(RepeatedRecordsError, match="--cluster; in Python clusters="):
                found.check()

    @pytest.mark.parametrize("numbers", ["geometric", "poisson", "some"])
    def test_are_found_among_real_people_who_are_equal_by_chance(self, adult: pd.DataFrame, numbers: str) -> None:
        rng = np.random.default_rng(0)
        people = adult.drop(columns=["fnlwgt", "split"])
        assert 0.1 < judge(people).repeated / len(people) < 0.3
        visits = people.iloc[np.repeat(np.arange(len(people)), NUMBERS[numbers](rng, len(people)))]
        found = judge(visits)
        assert found.copied >= 0.5 * found.records

    @pytest.mark.parametrize("numbers", ["two", "uniform", "some"])
    def test_of_one_column_are_found_if_their_numbers_are_like_nothing_that_chance_gives(self, numbers: str) -> None:
        rng = np.random.default_rng(0)
        assert judge(copy(rng.normal(size=(2000, 1)), numbers, rng)).excessive

    @pytest.mark.parametrize("copies", [2, 3, 10])
    @pytest.mark.parametrize("n", [100, 3000])
    def test_of_every_record_are_found(self, copies: int, n: int, adult: pd.DataFrame) -> None:
        found = judge(pd.concat([adult.sample(n, random_state=0)] * copies))
        assert found.copied == found.repeated == found.records == n * copies

    def test_of_some_records_are_said(self, adult: pd.DataFrame) -> None:
        people = adult.sample(5000, random_state=0)
        found = judge(pd.concat([people, people.iloc[:1000]]))
        assert 1900 < found.copied < 2100
        (said,) = found.check("certification records")
        assert said.startswith("2,0")
        assert "certification records equal another one" in said

    def test_in_a_part_of_a_table_whose_other_records_are_equal_by_chance_are_said_and_not_refused(self) -> None:
        rng = np.random.default_rng(0)
        chance = people_of("twelve of three values", 20_000, rng)
        chance[:, 3:] = 0  # 27 different records
        panel = np.repeat(rng.integers(3, 13, size=(4000, 12)), 1 + (rng.random(4000) < 0.1), axis=0)
        found = judge(np.concatenate([chance, panel]))
        assert found.repeated > 0.8 * found.records
        assert 0.1 * found.records < found.copied < 0.3 * found.records
        assert len(found.check()) == 1


def chance_table(rng: np.random.Generator) -> NDArray[Any]:
    """Draw independent records of a random population of few values."""
    n, d = int(rng.choice([100, 300, 1000, 3000])), int(rng.integers(1, 9))
    kind = rng.integers(0, 9)
    if kind == 0:  # few values
        return np.column_stack([rng.integers(0, rng.integers(2, 12), n) for _ in range(d)])
    if kind == 1:  # few and many values
        return np.column_stack([rng.integers(0, int(10 ** rng.uniform(0.3, 3)), n) for _ in range(d)])
    if kind == 2:  # popular values
        return np.column_stack([np.minimum(rng.zipf(rng.uniform(1.3, 3), n), 10**6) for _ in range(d)])
    if kind == 3:  # many columns that are nearly constant
        return (rng.random((n, 40)) < 10 ** rng.uniform(-2.5, -0.5, 40)).astype(int)
    if kind == 4:  # people of several kinds
        of, columns = rng.choice(20, n, p=rng.dirichlet(np.full(20, 0.5))), []
        for _ in range(d + 3):
            thresholds = rng.dirichlet(np.full(int(rng.integers(2, 10)), 0.5), 20).cumsum(axis=1)
            columns.append((rng.random(n)[:, None] > thresholds[of]).sum(axis=1))
        return np.column_stack(columns)
    if kind == 5:  # a one-hot code and a rare label
        columns = []
        for _ in range(rng.integers(2, 6)):
            k = int(rng.integers(2, 8))
            columns += list(np.eye(k, dtype=int)[rng.choice(k, n, p=rng.dirichlet(np.ones(k)))].T)
        return np.column_stack([*columns, rng.random(n) < rng.uniform(0.01, 0.5)])
    if kind == 6:  # a record that many share
        table = np.column_stack([rng.integers(0, rng.integers(2, 30), n) for _ in range(d)])
        table[rng.random(n) < rng.uniform(0.1, 0.8)] = 0
        return table
    if kind == 7:  # a label that follows from the rest
        table = np.column_stack([rng.integers(0, rng.integers(2, 60), n) for _ in range(d)])
        score = table @ rng.normal(size=d)
        return np.column_stack([table, score > np.median(score)])
    # columns that follow from each other, a constant one, one without values
    school, age = rng.integers(0, rng.integers(3, 30), n), rng.integers(18, 90, n)
    columns = [school, rng.permutation(40)[school], age, age // 10, np.zeros(n), np.full(n, np.nan)]
    columns += [rng.integers(0, rng.integers(2, 10), n) for _ in range(rng.integers(1, 5))]
    columns.append(rng.random(n) < rng.uniform(0.02, 0.5))
    return np.column_stack([columns[i] for i in rng.permutation(len(columns))])


class TestChance:
    """Independent records of one population."""

    def test_is_not_taken_for_copies(self) -> None:
        found = [judge(chance_table(np.random.default_rng(seed))) for seed in range(2000 if FULL else 400)]
        assert sum(own.excessive for own in found) <= len(found) / 1000
        assert sum(own.repeated > 0.2 * own.records for own in found) > len(found) / 2

    @pytest.mark.parametrize("values", [2, 3, 5, 10, 100])
    @pytest.mark.parametrize("n", [200, 3000, 30_000])
    def test_is_not_taken_for_copies_however_many_records_there_are(self, values: int, n: int) -> None:
        for seed in range(5):
            rng = np.random.default_rng(seed)
            assert not judge(rng.integers(0, values, size=(n, 5))).excessive

    def test_of_equal_records_all_over_is_no_copy(self) -> None:
        assert judge(np.ones((1000, 4))) == Repeats(1000, 1000, 0)

    def test_among_real_people(self, adult: pd.DataFrame, acs: pd.DataFrame) -> None:
        for people in (adult, acs, acs[["AGEP", "SEX", "MAR", "SCHL"]], acs[["AGEP", "WKHP"]], adult[["age"]]):
            for n in (500, 5000, len(people)):
                assert not judge(people.sample(n, random_state=n)).excessive

    def test_among_the_people_that_come_with_the_package(self) -> None:
        table = load_adult()
        roles = [Field(f"role {i}", own.codes, "number", False) for i, own in enumerate(table.labels)]
        assert not count_repeats([*Frame(table.features).fields(), *roles]).excessive

    @pytest.mark.parametrize(
        ("name", "left_out", "at_least"),
        [
            ("compas", [], 0.1),
            ("german_credit", [], 0.0),
            ("law_school", ["zfygpa", "zgpa"], 0.05),
            ("health", ["MemberID"], 0.005),
            ("health", ["MemberID", "Year"], 0.02),
            ("acs_employment_ma_2015_2018", ["year"], 0.6),
            ("acs_income_dollars_2018", [], 0.005),
        ],
    )
    def test_in_data_sets_that_others_use(self, name: str, left_out: list[str], at_least: float) -> None:
        people = shared(name).drop(columns=left_out)
        found = judge(people)
        assert found.repeated >= at_least * found.records
        assert not found.excessive

    def test_in_columns_of_a_one_hot_code_alone(self) -> None:
        people = shared("health")
        found = judge(people[[name for name in people if "=" in name]])
        assert found.repeated > 0.15 * found.records
        assert not found.excessive


class TestSamples:
    """Samples of parts of a table."""

    @pytest.mark.parametrize("copied", [False, True])
    @pytest.mark.parametrize("most", [500, 1 << 14])
    def test_of_parts_add_up_to_that_of_the_whole(
        self, monkeypatch: pytest.MonkeyPatch, most: int, copied: bool
    ) -> None:
        monkeypatch.setattr(hashes, "MOST_GROUPED", most)
        rng = np.random.default_rng(0)
        people = rng.integers(0, 6, size=(6000, 7))
        table = pd.DataFrame(copy(people, "poisson", rng) if copied else people, columns=list("abcdefg"))
        table["f"] = table["f"].map(str)
        table = table.sample(frac=1.0, random_state=0)
        whole = RepeatSample.of(Frame(table).fields(), b"salt")
        parts = [RepeatSample.of(Frame(table[i : i + 900]).fields(), b"salt") for i in range(0, len(table), 900)]
        in_turn = parts[0]
        for part in parts[1:]:
            in_turn = RepeatSample.merge([in_turn, part])
        for merged in (RepeatSample.merge(parts), in_turn):
            found = merged.judge()
            assert found.excessive == copied
            assert (found.records, found.repeated) == (whole.judge().records, whole.judge().repeated)
            for own, expected in zip(merged.left_out, whole.left_out, strict=True):
                assert len(own.sorted().hashes) <= most
                assert_same_grouping(own, expected)

    def test_of_many_records_say_the_same_of_them(self) -> None:
        """More records than are kept, and more than a kernel is worth compiling for."""
        rng = np.random.default_rng(0)
        people = rng.integers(0, 12, size=(100_000, 7))
        found = judge(people)
        assert found.records == len(people)
        assert not found.excessive
        visits = copy(people, "poisson", rng)
        found = judge(visits)
        assert found.repeated == judge_exactly(visits)
        assert 0.5 * found.records < found.copied < 0.7 * found.records

    def test_hold_whole_groups(self) -> None:
        rng = np.random.default_rng(1)
        sums = rng.integers(0, 2**63, 300_000).astype(np.uint64)
        rests = np.repeat(rng.integers(0, 2**63, 100_000).astype(np.uint64) * np.uint64(2), 3)
        grouping = GroupSample.of(sums, rests, len(sums)).grouping()
        assert grouping.mixed[3] == grouping.mixed.sum() > 3000
        assert not grouping.alike.any()

    def test_of_no_records(self) -> None:
        assert RepeatSample.of([Field("a", np.zeros(0), "number", False)]).judge() == Repeats(0, 0, 0)

    def test_tell_the_same_of_equal_tables(self) -> None:
        table = chance_table(np.random.default_rng(3))
        assert judge(table) == judge(table[::-1])


def assert_same_grouping(one: GroupSample, two: GroupSample) -> None:
    """Compare what two samples show, of the groups that both hold."""
    halvings = max(one.sorted().halvings, two.sorted().halvings)
    found = [own.sorted()._up_to(halvings).grouping() for own in (one, two)]
    for name in ("alike", "mixed", "beside"):
        assert np.array_equal(getattr(found[0], name), getattr(found[1], name))
    assert found[0].agreement == pytest.approx(found[1].agreement)


def judge_exactly(table: NDArray[Any]) -> int:
    _, times = np.unique(table, axis=0, return_counts=True)
    return int(times[times > 1].sum())


class TestGroupings:
    """What leaving out columns shows."""

    def test_counts_groups_as_by_hand(self) -> None:
        rng = np.random.default_rng(0)
        table = pd.DataFrame(rng.integers(0, [3, 40, 50], size=(900, 3)), columns=list("abc"))
        sample = RepeatSample.of(Frame(table).fields())
        for name, own in zip(table, sample.left_out, strict=True):
            found = own.grouping()
            groups = table.groupby([other for other in table if other != name])[name]
            sizes, kinds = groups.size(), groups.nunique()
            assert np.array_equal(found.alike, repeats.frequencies(sizes[kinds == 1].to_numpy()))
            assert np.array_equal(found.mixed, repeats.frequencies(sizes[kinds > 1].to_numpy()))
            times = table.groupby(list(table)).size()
            assert np.array_equal(found.alike + found.beside, repeats.frequencies(times.to_numpy()))
            expected = []
            for records in (table, table.drop_duplicates()):
                number = records.groupby([other for other in table if other != name]).ngroup().to_numpy()
                values = records[name].to_numpy()
                apart = number[:, None] != number[None, :]
                expected.append((values[:, None] == values[None, :])[apart].mean())
            assert found.agreement == pytest.approx(max(expected))

    @staticmethod
    def of(alike: dict[int, int], mixed: dict[int, int], agreement: float) -> Grouping:
        counts = [np.zeros(repeats.MOST_TIMES + 3, dtype=np.int64) for _ in range(3)]
        for array, given in zip(counts, (alike, mixed), strict=False):
            for size, n in given.items():
                array[size] = n
        return Grouping(*counts, agreement)

    def test_mixed_groups_at_the_odds_of_chance_are_chance(self) -> None:
        copies = [self.of({1: 700, 2: 200}, {2: 5}, 0.5)] * 4
        assert copied_share(copies) == pytest.approx(400 / 1100)
        assert not copied_share([*copies, self.of({1: 700, 2: 200}, {2: 190}, 0.5)])

    def test_columns_of_one_value_say_nothing(self) -> None:
        constant = self.of({1: 700, 2: 200}, {}, 1.0)
        assert not copied_share([constant] * 4)
        assert copied_share([self.of({1: 700, 2: 200}, {}, 0.01)] * 3 + [constant]) > 0

    def test_two_columns_that_follow_from_each_other_are_not_enough(self) -> None:
        tied = self.of({1: 700, 2: 200}, {}, 0.1)
        assert not copied_share([tied, tied, self.of({1: 700, 2: 200}, {2: 2}, 0.99), self.of({}, {}, 0.1)])

    def test_few_copies_are_no_concern(self) -> None:
        assert not copied_share([self.of({1: 100_000, 2: 200}, {}, 0.01)] * 4)

    @pytest.mark.parametrize("chance", [0.01, 0.2, 0.66])
    def test_the_tail_is_bounded(self, chance: float) -> None:
        for n in (1, 20, 300):
            for found in range(n + 1):
                assert repeats._tail(found, n, chance) >= binom.cdf(found, n, chance) * (1 - 1e-9)

    @pytest.mark.parametrize("n", [1, 7, 8, 9, 100])
    def test_blocks_hold_every_column_once(self, n: int) -> None:
        blocks = blocks_of(n)
        assert [i for block in blocks for i in block] == list(range(n))
        assert len(blocks) == min(n, repeats.MOST_BLOCKS)


def test_no_repeats() -> None:
    assert Repeats.of(np.ones(1000, dtype=np.int64)) == Repeats(1000, 0, 0)
    assert Repeats.of(np.ones(1000, dtype=np.int64)).check() == ()
    assert HashSample.of(np.arange(5, dtype=np.uint64), 5).sorted().counts.tolist() == [1] * 5


def test_multiplicities_say_what_times_say() -> None:
    times = np.random.default_rng(0).poisson(3.0, 1000)
    values, counts = np.unique(times[times > 0], return_counts=True)
    assert repeats_of_multiplicities(zip(values.tolist(), counts.tolist(), strict=True)) == Repeats.of(times)
    assert repeats_of_multiplicities([]) == Repeats(0, 0, 0)
