"""What a producer cannot state is refused before any work is done, by the name of the option."""

import pytest

from certifare.cli.options import TermsOptions
from certifare.document import Terms
from certifare.errors import ArgumentError


def test_nothing_given_states_nothing():
    assert TermsOptions().terms() == Terms()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"producer": ""}, "--producer: give a text of 1 to 200 characters, not of 0"),
        ({"purpose": "x" * 501}, "--purpose: give a text of 1 to 500 characters, not of 501"),
        ({"producer": "Bank \u202eof"}, r"--producer: .*U\+202E RIGHT-TO-LEFT OVERRIDE"),
        ({"purpose": "a\tb"}, r"--purpose: .*U\+0009"),
        ({"valid_until": "soon"}, "--valid-until soon: give a day, such as 2030-12-31"),
        ({"valid_until": "29991231"}, "--valid-until 29991231: write the day as 2999-12-31"),
        ({"valid_until": "2020-01-01"}, "--valid-until 2020-01-01: this day has passed"),
    ],
)
def test_what_a_certificate_cannot_hold_is_refused_with_the_remedy(given, words):
    with pytest.raises(ArgumentError, match=words):
        TermsOptions(**given).terms()


def test_fit_and_certify_refuse_before_they_read(cli, tmp_path):
    for command in (
        ("fit", tmp_path / "absent.csv", "--label", "y", "--sensitive", "s"),
        ("sign", tmp_path / "absent", "--key", tmp_path / "absent.pem"),
    ):
        result = cli(*command, "--valid-until", "2020-01-01")
        assert result.status == 2
        assert "--valid-until 2020-01-01" in result.stderr
