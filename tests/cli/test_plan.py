"""``certifare plan``: T* by the number of cells, and the records that a target needs."""

import pandas as pd
import pytest


def test_a_plan_for_two_groups_is_a_table(cli):
    result = cli("plan", "--records", "f=320", "--records", "m=480", "--target", 0.05)
    assert result.status == 0, result.stderr
    assert "f: 320, m: 480" in result.stdout
    rows = [line.split() for line in result.stdout.splitlines() if "about" in line]
    assert rows[0][:2] == ["2", "0.071"]
    assert rows[1][0] == "3"
    assert 0.081 <= float(rows[1][1]) < 0.085  # a little more with few draws
    same = cli("plan", "--records", "a=480", "--records", "b=320", "--target", 0.05, "--json")
    assert same.json["records"] == {"a": 480, "b": 320}
    assert [row["records_needed"] for row in same.json["plans"]] == [int(row[-1].replace(",", "")) for row in rows]


def test_a_number_of_records_is_that_of_two_equal_groups(cli):
    assert cli("plan", "--records", 801, "--json").json["records"] == {"one group": 400, "the other": 401}
    shared = cli("plan", "--records", 800, "--share", 0.4, "--json").json["records"]
    assert shared == {"one group": 320, "the other": 480}


def test_a_plan_counts_the_groups_of_a_table(cli, files):
    people = pd.read_csv(files / "fresh.csv")
    sizes = people["sex"].value_counts()
    result = cli("plan", files / "fresh.csv", "--sensitive", "sex", "--json")
    assert result.json["records"] == {str(group): 6 * n // 10 for group, n in sorted(sizes.items())}
    label = ["--label", "approved", "--metric", "equal_opportunity", "--positive", "1"]
    result = cli("plan", files / "fresh.csv", "--sensitive", "sex", *label, "--json")
    assert result.status == 0, result.stderr
    positives = people[people["approved"].astype(str) == "1"]["sex"].value_counts()
    assert result.json["records"] == {str(group): 6 * n // 10 for group, n in sorted(positives.items())}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "How many records?"),
        (["{fresh}", "--records", "800"], "How many records?"),
        (["--records", "800", "--records", "f=3"], "each group once"),
        (["--records", "f"], "f=320"),
        (["--records", "f=3", "--records", "f=4"], "each group once"),
        (["--records", "f=3"], "at least two groups"),
        (["--records", "800", "--metric", "equalized_odds"], "of one label"),
        (["--records", "800", "--target", "0"], "between 0 and 1"),
        (["--records", "800", "--label", "approved"], "would be ignored"),
        (["{fresh}"], "--sensitive"),
        (["{fresh}", "--sensitive", "sex", "--metric", "equal_opportunity"], "--label"),
        (["--records", "1"], "leaves records in both groups"),
        (["--records", "800", "--share", "1.5"], "leaves records in both groups"),
        (["--records", "f=320", "--records", "m=480", "--share", "0.4"], "--share would be ignored"),
        (["--records", "800", "--target", "1e-9"], "more records than can be planned for"),
    ],
)
def test_a_plan_without_what_it_needs_is_refused(cli, files, arguments, words):
    result = cli("plan", *(part.format(fresh=files / "fresh.csv") for part in arguments))
    assert result.status == 2
    assert words in " ".join(result.stderr.split())
