"""The mutation run (benchmarks/mutation.py): the changes it makes, and how it knows those that change nothing."""

import importlib.util
import sys
import textwrap
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "mutation.py"
specification = importlib.util.spec_from_file_location("mutation", BENCHMARK)
mutation = sys.modules["mutation"] = importlib.util.module_from_spec(specification)
specification.loader.exec_module(mutation)

SOURCE = '''
def limit(a: float, b: int = 2, *, strict: bool = False) -> float:
    """Words that say 1 + 1."""
    if a < 0.5 and not b:
        raise ValueError(f"{a + 1} is too small")
    μ = math.nextafter(max(a, 1.0), 2.0)
    rows = list(zip(values[1:], names, strict=True))
    return -μ if b in rows else math.floor(a)
'''


@pytest.fixture
def lines(tmp_path, monkeypatch):
    """What becomes of the lines of a source."""
    monkeypatch.setattr(mutation, "REPOSITORY", tmp_path)
    path = tmp_path / mutation.PACKAGE / "m.py"
    path.parent.mkdir(parents=True)
    path.write_text(SOURCE, encoding="utf-8")
    mutants = mutation.mutants_of("m.py")
    for mutant in mutants:
        changed = mutation.mutated(path.read_bytes(), mutant).decode().split("\n")
        original = SOURCE.split("\n")
        differing = [i for i, pair in enumerate(zip(original, changed, strict=True), 1) if pair[0] != pair[1]]
        assert differing == [mutant.number]
        assert changed[mutant.number - 1].strip() == mutant.becomes
        assert original[mutant.number - 1].strip() == mutant.line
    return {(mutant.number, mutant.becomes) for mutant in mutants}


def test_changes_that_a_slip_of_the_hand_could_make(lines):
    expected = {
        2: ["b: int = 3", "b: int = 1", "strict: bool = True"],
        4: ["a <= 0.5 and", "a >= 0.5 and", "a < 0.55", "a < 0.45454545", "a < 0.5 or", "and (b)"],
        6: ["-(2.0)", "min(a, 1.0)", "max(a, 1.1)", "max(a, 0.909", ", 2.2)", ", 1.818"],
        7: ["values[2:]", "values[0:]", "values[(1) + 1:]", "values[1:-1]"],
        8: ["return (μ)", "b not in rows", "math.ceil(a)", ") * 1.1", ") * 0.9"],
    }
    for number, texts in expected.items():
        for text in texts:
            assert any(n == number and text in becomes for n, becomes in lines), (number, text)
    assert len(lines) == sum(map(len, expected.values()))


def test_words_types_and_guards_stay_as_they_are(lines):
    assert not {number for number, _ in lines} & {3, 5}
    assert not any("strict=False" in becomes or "a: int" in becomes for _, becomes in lines)


def test_equivalent_mutants_are_known_by_module_line_and_change(tmp_path):
    path = tmp_path / "equivalent.toml"
    entry = """
        [[equivalent]]
        module = "m.py"
        line = "a < 0.5"
        becomes = ["a <= 0.5", "a < 0.55"]
        reason = "{}"
        """
    path.write_text(textwrap.dedent(entry.format("No share is exactly one half.")))
    assert mutation.equivalents(path) == dict.fromkeys(
        [("m.py", "a < 0.5", "a <= 0.5"), ("m.py", "a < 0.5", "a < 0.55")], "No share is exactly one half."
    )
    path.write_text(textwrap.dedent(entry.format(" ")))
    with pytest.raises(SystemExit, match="no reason"):
        mutation.equivalents(path)


def test_every_module_has_tests_and_every_equivalent_mutant_a_module():
    for module, tests in mutation.TESTS.items():
        assert (mutation.REPOSITORY / mutation.PACKAGE / module).is_file()
        for name in tests:
            assert (mutation.REPOSITORY / mutation.CERTIFICATES / name).is_file(), name
    assert {module for module, _, _ in mutation.equivalents()} <= set(mutation.TESTS)
