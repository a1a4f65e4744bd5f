from importlib import import_module

from certifare.data import adult


def test_the_demonstration_ends_with_pass_and_a_report(cli, tmp_path):
    demo = import_module("certifare.cli.demo")
    folder = tmp_path / "demo"
    result = cli("demo", "-o", folder)
    assert result.status == 0, result.stderr
    assert "PASS" in result.stdout
    assert demo._made_here(folder)  # so that it is replaced the next time
    assert str(folder / "report.html") in result.stdout
    assert (folder / "report.html").stat().st_size > 10_000
    shown = cli("show", folder)
    assert shown.status == 0
    assert "boosted" in shown.stdout
    assert cli("verify", folder, "--encoder", folder / "encoder.json", "--max", "0.08").status == 0


def test_adult_is_inside_the_package():
    table = adult()
    assert len(table) == 48_842
    assert table.groups.names == ("Female", "Male")
    assert table.labels[0].names == ("<=50K", ">50K")
    assert "fnlwgt" not in table.features.column_names
