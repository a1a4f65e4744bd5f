"""Roles are guessed from names and values."""

import pyarrow as pa

from certifare.data import adult
from certifare.studio.guessing import guess_roles


def test_roles_of_adult_are_those_of_the_example():
    table = adult()
    whole = table.select(table.column_names)
    assert guess_roles(whole) == {"label": ["income"], "sensitive": ["sex"], "drop": ["fnlwgt", "split"]}


def test_without_a_likely_name_the_last_column_of_two_values_is_the_label_and_no_group_is_guessed():
    table = pa.table({"a": [1, 2, 3], "b": ["x", "y", "x"], "c": [0, 1, 1], "d": [[1], [2], [3]], "e": [None] * 3})
    assert guess_roles(table) == {"label": ["c"], "sensitive": [], "drop": []}


def test_a_word_is_a_word_and_not_a_part_of_one():
    table = pa.table({"essex": ["a", "b"], "message": ["a", "b"], "Age group": ["a", "b"]})
    assert guess_roles(table)["sensitive"] == ["Age group"]
