"""Pooling small cells by pattern leaves every figure exactly as it was."""

import copy
import json
import pickle

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certifare import CellCounts, certify_counts
from certifare.certificates import METRICS, Certificate, Witness
from certifare.certificates.claims import statistic
from certifare.certificates.looks import Look
from certifare.document import make_statement, read_document, sign, suppress, write_document
from certifare.errors import DocumentError, UnprovedClaimError

FIGURES = ("bound", "estimate", "lower", "parts", "confidence", "metric")


def tables(groups, labels):
    """Tables with many small counts, ties and empty cells, in which no group is empty."""
    count = st.sampled_from([0, 0, 1, 2, 3, 5, 8, 13, 40, 90])
    size = groups * (labels or 1)
    rows = st.lists(st.lists(count, min_size=size, max_size=size), min_size=1, max_size=12)
    shape = (-1, groups) if labels is None else (-1, groups, labels)
    return rows.map(lambda r: np.vstack([r, np.full(size, 7)]).reshape(shape))


@st.composite
def certificates(draw):
    groups, labels = draw(st.integers(2, 4)), draw(st.sampled_from([None, 2, 3]))
    names = ["f", "m", "x", "y"][:groups]
    counts = CellCounts(draw(tables(groups, labels)), names, None if labels is None else range(labels))
    metric = "demographic_parity" if labels is None else draw(st.sampled_from(sorted(METRICS)))
    witness = None
    if draw(st.booleans()):
        label = None if metric == "demographic_parity" else "1"
        cells = draw(st.sets(st.integers(0, counts.n_cells - 1)))
        witness = [Witness(groups=("f", "m"), label=label, cells=tuple(sorted(cells)))]
    return certify_counts(
        counts,
        metric,
        positive=1,
        witness=witness,
        min_group_size=1,
    )


@given(certificates(), st.sampled_from([2, 5, 10, 60]))
def test_no_figure_changes(certificate, n):
    pooled, _ = suppress(certificate, n)

    pooled.verify()  # every figure follows from the pooled table
    for name in FIGURES:
        assert getattr(pooled, name) == getattr(certificate, name)
    assert pooled.counts.group_sizes == certificate.counts.group_sizes
    assert pooled.counts.table.sum() == certificate.counts.table.sum()
    assert pooled.counts.n_cells == certificate.counts.n_cells
    for witness in certificate.witnesses:
        for pool in pooled.pools:
            assert len({cell in witness.cells for cell in pool}) == 1


@given(certificates(), st.sampled_from([2, 5, 10, 60]))
def test_what_is_shown_small_is_named(certificate, n):
    pooled, what = suppress(certificate, n)

    table = pooled.counts.table.reshape(pooled.counts.n_cells, -1)
    hidden = {cell for pool in pooled.pools for cell in pool[1:]}
    assert not table[sorted(hidden)].any()
    small = [cell for cell in range(len(table)) if cell not in hidden and table[cell].min() < n]
    assert small == list(what.still_small)


@given(tables(2, None), st.sampled_from([3, 10]))
def test_two_groups_without_witness_leave_at_most_two_small_rows(table, n):
    counts = CellCounts(table, ["f", "m"])
    pooled, what = suppress(certify_counts(counts, min_group_size=1), n)

    assert len(pooled.pools) <= 2
    assert len(what.still_small) <= 2
    assert statistic(pooled.counts.table) == statistic(counts.table)


def test_pooling_by_anything_else_would_change_the_bound():
    table = [[400, 300], [9, 1], [1, 9], [290, 390]]
    certificate = certify_counts(CellCounts(table, ["f", "m"]))
    merged = certify_counts(CellCounts([[400, 300], [10, 10], [290, 390]], ["f", "m"]))

    assert merged.bound < certificate.bound
    assert suppress(certificate, 10)[0].verify().bound == certificate.bound


def test_a_pool_too_small_takes_in_the_smallest_cell_of_its_pattern():
    certificate = certify_counts(CellCounts([[900, 100], [60, 30], [2, 0], [40, 870]], ["f", "m"]))

    pooled, what = suppress(certificate, 10)

    assert pooled.pools == ((1, 2),)
    assert what.still_small == ()
    assert pooled.counts.table.tolist() == [[900, 100], [62, 30], [0, 0], [40, 870]]


def test_one_classifier_has_an_interval_only_if_it_keeps_to_the_pools(tmp_path):
    """Read from a file, the certificate has the counts of a pool in one row: what splits it cannot be judged."""
    certificate = certify_counts(CellCounts([[5100, 5000], [2500, 5], [2400, 4995]], ["f", "m"]))
    write_document(tmp_path / "certificate.json", certificate, suppress_below=10)
    published = read_document(tmp_path / "certificate.json").certificate

    assert published.pools == ((0, 1),)
    assert published.for_classifier([1, 1, 0]) == certificate.for_classifier([1, 1, 0])
    for classifier in ([0, 1, 0], [0.0, 0.9, 0.1], [0, 1, 2]):
        with pytest.raises(UnprovedClaimError, match=r"one pool \(cells 0, 1\)"):
            published.for_classifier(classifier)


@pytest.mark.parametrize(
    "travelled",
    [
        copy.copy,
        copy.deepcopy,
        lambda c: pickle.loads(pickle.dumps(c)),  # noqa: S301  (our own)
        lambda c: Certificate.from_dict(c.to_dict()),
        lambda c: Certificate.from_dict(json.loads(json.dumps(c.to_dict()))),
        lambda c: c.at_look(Look(number=2, spent=0.05, planned=None)),
        lambda c: msgspec.structs.replace(c, seed=3),
        lambda c: sign(make_statement(c), None).certificate,
    ],
)
def test_pools_are_not_lost_on_the_way(travelled):
    certificate = certify_counts(CellCounts([[5100, 5000], [2500, 5], [2400, 4995]], ["f", "m"]))
    found = travelled(suppress(certificate, 10)[0])

    assert found.pools == ((0, 1),)
    assert found.for_classifier([1, 1, 0]) == certificate.for_classifier([1, 1, 0])
    with pytest.raises(UnprovedClaimError, match=r"one pool \(cells 0, 1\)"):
        found.for_classifier([0, 1, 0])


@pytest.mark.parametrize(
    ("pools", "message"),
    [
        (((0,),), "two cells"),
        (((),), "two cells"),
        (((1, 0),), "in order"),
        (((0, 1), (1, 2)), "no cell twice"),
        (((0, 0),), "no cell twice"),
        (((3, 4), (0, 1)), "in order"),
        (((0, 99),), "cells of the counts"),
        (((-1, 1),), "cells of the counts"),
        (((0, 2),), "the row of its first cell"),
        (((1, 4),), "a part of a pool"),
    ],
)
def test_pools_that_cannot_be(pools, message):
    counts = CellCounts([[510, 500], [0, 0], [250, 5], [240, 495], [0, 0]], ["f", "m"])
    witness = [Witness(groups=("f", "m"), label=None, cells=(0, 1, 2))]
    certificate = certify_counts(counts, witness=witness)

    assert msgspec.structs.replace(certificate, pools=((0, 1), (3, 4))).verify()
    with pytest.raises(DocumentError, match=message):
        msgspec.structs.replace(certificate, pools=pools)
    with pytest.raises(DocumentError, match=message):
        Certificate.from_dict({**certificate.to_dict(), "pools": pools})


def test_cells_that_are_pooled_cannot_be_pooled_again():
    """Nobody knows their own counts: which cells favour whom cannot be told."""
    pooled, _ = suppress(certify_counts(CellCounts([[5100, 5000], [2500, 5], [2400, 4995]], ["f", "m"])), 10)

    with pytest.raises(DocumentError, match="already pooled"):
        suppress(pooled, 20)


def test_a_row_without_company_stays_and_is_named():
    certificate = certify_counts(CellCounts([[3, 0], [500, 500], [497, 500]], ["f", "m"]))

    pooled, what = suppress(certificate, 10)

    assert what.still_small == (0,)
    assert pooled.pools == ()
    assert pooled == certificate


def test_nothing_small_changes_nothing():
    certificate = certify_counts(CellCounts([[300, 200], [200, 300]], ["f", "m"]))

    pooled, what = suppress(certificate, 10)

    assert pooled == certificate
    assert (pooled.pools, what.still_small) == ((), ())


def test_products_beyond_64_bits_keep_their_signs():
    big = 2**50
    counts = CellCounts([[big + 1, big], [3, 4], [4, 3], [big - 1, big]], ["f", "m"])
    certificate = certify_counts(counts)

    pooled, _ = suppress(certificate, 10)

    assert pooled.verify().bound == certificate.bound
    assert pooled.pools == ((0, 2), (1, 3))


@pytest.mark.parametrize("n", [1, 0, -3, 2.5, True, "ten"])
def test_thresholds_that_make_no_sense(n):
    certificate = certify_counts(CellCounts([[300, 200], [200, 300]], ["f", "m"]))

    with pytest.raises(DocumentError, match="integer of at least 2"):
        suppress(certificate, n)


def test_a_count_of_just_the_smallest_that_may_be_shown_is_shown():
    certificate = certify_counts(CellCounts([[500, 480], [10, 15], [490, 505]], ["f", "m"]))
    assert suppress(certificate, 10)[0].pools == ()
    assert suppress(certificate, 11)[0].pools == ((1, 2),)
    # Nor are two of them pooled.
    certificate = certify_counts(CellCounts([[500, 480], [10, 15], [11, 16], [479, 489]], ["f", "m"]))
    assert suppress(certificate, 10)[0].pools == ()
    assert suppress(certificate, 11)[0].pools == ((1, 2),)
    # A pool that has just so many takes in no other cell.
    certificate = certify_counts(CellCounts([[500, 480], [6, 9], [4, 6], [490, 505]], ["f", "m"]))
    assert suppress(certificate, 10)[0].pools == ((1, 2),)
    assert suppress(certificate, 11)[0].pools == ((1, 2, 3),)


def test_cells_that_favour_nobody_are_pooled_with_those_that_favour_the_second_group():
    """Their difference is nought, so that either pool would do; files of one table are to be the same."""
    certificate = certify_counts(CellCounts([[2, 2], [1, 3], [3, 1], [94, 94]], ["f", "m"]))
    assert suppress(certificate, 3)[0].pools == ((0, 1),)
