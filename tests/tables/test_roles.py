import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certifare.errors import ArgumentError, MissingColumnError, RoleError, TableError
from certifare.tables.roles import Comparison, Roles, parse_role

NAMES = ["age", "income", "job title", "a>=b", "race"]


@pytest.mark.parametrize(
    ("text", "column", "operator", "value"),
    [
        ("age>=60", "age", ">=", "60"),
        ("age ≥ 60", "age", ">=", "60"),
        (" age < -1.5e3 ", "age", "<", "-1.5e3"),
        ("income>50000", "income", ">", "50000"),
        ("race = White", "race", "==", "White"),
        ("race == '>50K'", "race", "==", ">50K"),
        ("income=>50K", "income", "==", ">50K"),
        ("`job title` != cook", "job title", "!=", "cook"),
        ("a>=b>=3", "a>=b", ">=", "3"),
    ],
)
def test_comparisons_are_parsed(text, column, operator, value):
    assert parse_role(text, NAMES) == Comparison(column, operator, value)


def test_a_column_whose_name_looks_like_a_comparison_comes_first():
    assert parse_role("a>=b", NAMES) == "a>=b"


@pytest.mark.parametrize("text", ["age>=", "age >= old", "age > nan", "age > 1_000", "age > 0x10"])
def test_broken_comparisons_are_refused(text):
    with pytest.raises(RoleError, match="age"):
        parse_role(text, NAMES)


@pytest.mark.parametrize(
    ("text", "meant"), [("Age", "age"), ("incme", "income"), ("agee >= 60", "age"), ("rac=x", "race")]
)
def test_an_absent_column_is_named_with_the_one_that_was_meant(text, meant):
    with pytest.raises(MissingColumnError, match=f"Did you mean .*{meant!r}"):
        parse_role(text, NAMES, "label")


def test_an_absent_column_without_a_similar_one_lists_the_columns():
    with pytest.raises(MissingColumnError, match="The table has 'age', 'income'"):
        parse_role("zzzzzz", NAMES)


def test_code_is_never_run():
    with pytest.raises(MissingColumnError):
        parse_role("__import__('os').system('true')", NAMES)


@given(
    st.lists(st.none() | st.integers(-100, 100), min_size=1),
    st.integers(-100, 100),
    st.sampled_from([">=", ">", "<=", "<", "==", "!="]),
)
def test_evaluation_agrees_with_python(values, threshold, operator):
    role = parse_role(f"age{operator}{threshold}", ["age"])
    holds = {
        ">=": int.__ge__, ">": int.__gt__, "<=": int.__le__, "<": int.__lt__, "==": int.__eq__, "!=": int.__ne__,
    }[operator]  # fmt: skip
    expected = [None if v is None else role.true if holds(v, threshold) else role.false for v in values]
    assert role.evaluate(pa.array(values, pa.int8())).to_pylist() == expected
    assert role.evaluate(pa.chunked_array([pa.array(values, pa.float64())])).to_pylist() == expected


def test_nan_is_missing():
    assert parse_role("age<3", ["age"]).evaluate(pa.array([float("nan"), 1.0])).to_pylist() == [None, "age < 3"]


def test_text_and_booleans_compare_by_equality_only():
    text = pa.array(["x", None, "y"]).dictionary_encode()
    assert parse_role("race=x", NAMES).evaluate(text).to_pylist() == ["race == x", None, "race != x"]
    assert parse_role("age=TRUE", NAMES).evaluate(pa.array([True, False])).to_pylist() == ["age == TRUE", "age != TRUE"]
    with pytest.raises(RoleError, match="which has no order"):
        parse_role("race>3", NAMES).evaluate(text)
    with pytest.raises(RoleError, match="holds numbers"):
        parse_role("age==x", NAMES).evaluate(pa.array([1]))
    with pytest.raises(RoleError, match="true and false"):
        parse_role("age==1", NAMES).evaluate(pa.array([True]))


def test_roles_are_made_of_keywords():
    roles = Roles.of(label="paid", sensitive=["sex", "age>=60"], weight=None, drop=None)
    assert roles == Roles(label=("paid",), sensitive=("sex", "age>=60"))
    assert Roles.of(roles, features=["job"], missing_groups="unknown").features == ("job",)
    assert roles.named() == {"label": ("paid",), "sensitive": ("sex", "age>=60")}
    with pytest.raises(ArgumentError, match="Unknown role lable. Choose from label, sensitive"):
        Roles.of(lable="paid")


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"label": "paid", "sensitive": "paid"}, RoleError, "'paid' is named as both label and sensitive"),
        ({"missing_groups": "keep"}, RoleError, "missing_groups='keep'"),
        ({"weight": "age>3"}, RoleError, "weight must be a column"),
        ({"sensitive": "age", "categorical": "age"}, RoleError, "'age' is the sensitive"),
        ({"sensitive": "age", "feature": "age"}, RoleError, "'age' is named as both sensitive and feature"),
        ({"categorical": "height"}, MissingColumnError, "'height' .--categorical"),
        ({"features": ["height"]}, MissingColumnError, "'height' .--feature"),
        ({"drop": "*"}, TableError, "No feature is left"),
    ],
)
def test_roles_that_a_table_cannot_have_are_refused(keywords, error, message):
    with pytest.raises(error, match=message):
        Roles.of(**keywords).find(["age", "job", "paid"])


def test_features_are_what_has_no_role():
    found = Roles.of(label="paid", sensitive="age>=60", drop="z*").find(["age", "job", "paid", "zip"])
    assert found.features == ("job",)
    assert found.sensitive == (Comparison("age", ">=", "60"),)
    assert Roles.of(sensitive="age", features=["job", "age"]).find(["age", "job"]).features == ("job", "age")


@pytest.mark.parametrize("role", ["weight", "cluster", "given"])
def test_roles_of_one_column_take_no_list(role):
    with pytest.raises(RoleError, match="name one column"):
        Roles.of(label="paid", sensitive="sex", **{role: ("id",)})
