"""Examples run, and print what their pages say."""

import pytest

from .make_gallery import EXAMPLES, GALLERY, run


def test_there_are_enough_and_every_one_is_kept():
    assert 8 <= len(EXAMPLES) <= 12
    kept = {path.stem for path in GALLERY.iterdir()}
    assert kept == {path.stem for path in EXAMPLES}


@pytest.mark.parametrize(
    "example",
    [pytest.param(path, marks=[pytest.mark.slow] * (path.stem == "4_group_aware"), id=path.stem) for path in EXAMPLES],
)
def test_an_example_prints_and_draws_what_its_page_shows(example):
    printed, chart = run(example)
    assert printed == (GALLERY / f"{example.stem}.txt").read_text("utf-8")
    assert chart.svg() == (GALLERY / f"{example.stem}.svg").read_text("utf-8")
