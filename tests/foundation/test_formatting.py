"""Text depends on the number and on the word."""

import pytest

from certifare.certificates.claims import METRICS
from certifare.foundation.formatting import amount, one


@pytest.mark.parametrize("metric", METRICS.values())
def test_the_article_goes_by_the_metric(metric):
    assert one(metric.words).startswith("an e" if metric.words.startswith("e") else "a d")


def test_one_record_is_written_in_the_singular():
    assert [amount(n, "cell") for n in (0, 1, 2, 1000)] == ["0 cells", "1 cell", "2 cells", "1,000 cells"]
