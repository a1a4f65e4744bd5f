"""Cards of notebooks."""

from certifare.drawing.card import MOST_ROWS, html_card
from certifare.drawing.palette import PALETTE


def test_a_card_escapes_everything_and_has_both_modes():
    card = html_card("<a>", "<b>", [("<c>", "<d>")], head=("<e>", "<f>"))
    assert not any(f"<{letter}>" in card for letter in "abcdef")
    for mode in (0, 1):
        assert PALETTE["ink"][mode] in card


def test_long_tables_are_cut_and_facts_are_not():
    rows = [(i, "x") for i in range(MOST_ROWS + 5)]
    assert "and 5 more" in html_card("k", "h", rows, head=("a", "b"))
    assert html_card("k", "h", rows).count("<tr>") == len(rows)
