"""Each attribute and parity given a column: the same certificate from every place where records may be."""

import duckdb
import numpy as np
import pandas as pd
import pytest

from certifare import Certificate
from certifare.document import read_document

GIVEN = ("--sensitive", "sex", "--given", "product")
EACH = ("--sensitive", "sex", "--sensitive", "old", "--each")


def people(n, seed):
    rng = np.random.default_rng(seed)
    sex, old = rng.choice(["f", "m"], n), rng.choice(["no", "yes"], n, p=[0.7, 0.3])
    product = rng.choice(["car", "home", "boat"], n, p=[0.6, 0.395, 0.005])
    x, z = rng.normal(size=n) + 0.1 * (sex == "f"), rng.normal(size=n)
    lone = np.where(sex == "f", "a", rng.choice(["a", "b"], n))  # nobody of 'f' has "b"
    approved = x + z + rng.normal(size=n) > 0
    columns = {"x": x, "z": z, "sex": sex, "old": old, "product": product, "lone": lone}
    return pd.DataFrame({**columns, "approved": approved.astype(int)})


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A table, fresh records in every form, and a bundle of each claim."""
    folder = tmp_path_factory.mktemp("scope")
    people(6_000, 1).to_csv(folder / "people.csv", index=False)
    fresh = people(4_000, 2)
    fresh.loc[:4, "product"] = None
    fresh.to_csv(folder / "fresh.csv", index=False)
    fresh.to_parquet(folder / "fresh.parquet")
    with duckdb.connect(str(folder / "fresh.db")) as connection:
        connection.register("records", fresh)
        connection.execute("CREATE TABLE people AS SELECT * FROM records")
    return folder


@pytest.fixture(params=[GIVEN, EACH], ids=["given", "each"])
def bundle(request, cli, place):
    folder = place / f"bundle{len(request.param)}"
    if not folder.exists():
        result = cli(
            "fit", place / "people.csv", "--label", "approved", *request.param, "--kind", "tree", "--target",
            0.3, "-o", folder,
        )  # fmt: skip
        assert result.status == 0, result.stderr
    return request.param, folder


def certificate_of(result):
    assert result.status == 0, result.stderr
    skipped = ("schema_version", "outcome", "exit_status")
    return Certificate.from_dict({name: value for name, value in result.json.items() if name not in skipped})


def test_a_bundle_states_its_claim(cli, bundle):
    options, folder = bundle
    document = read_document(folder / "certificate.json")
    certificate = document.certificate.verify()
    assert certificate.bound == 0.3
    if options == EACH:
        assert certificate.scope.each == ("sex", "old")
        assert set(certificate.of_each) == {"sex", "old"}
        assert "of 'old': 'no' and 'yes'" in document.statement.predicate.claim.words
    else:
        assert (certificate.scope.given, certificate.scope.left_out) == ("product", ("boat",))
        assert document.statement.predicate.reading.given == "product"
    verdict = cli("verify", folder, "--data", folder.parent / "fresh.csv")
    assert verdict.status == 0, verdict.stdout + verdict.stderr
    assert "product" not in (folder / "encoder.json").read_text() or options == EACH
    page = (folder / "report.html").read_text()
    assert ("Each attribute" in page) == (options == EACH)
    assert ("Nothing is claimed within these values of product" in page) == (options == GIVEN)


def test_every_place_gives_the_same_certificate(cli, bundle, monkeypatch, tmp_path):
    _, folder = bundle
    place = folder.parent
    certify = ("certify", folder, "--json")
    found = [
        certificate_of(cli(*certify, place / "fresh.csv")),
        certificate_of(cli(*certify, place / "fresh.parquet")),
        certificate_of(cli(*certify, "--sql", f"duckdb:///{place}/fresh.db", "--table", "people")),
    ]
    assert cli("count", folder, place / "fresh.csv", "-o", tmp_path / "counts.json").status == 0
    found.append(certificate_of(cli(*certify, tmp_path / "counts.json")))
    monkeypatch.setattr("certifare.frontier.large.LARGE", 0)
    found.append(certificate_of(cli(*certify, place / "fresh.parquet")))
    assert len({c.bound for c in found}) == 1
    assert len({str(c.scope) for c in found}) == 1
    assert all(c.counts.table.tolist() == found[0].counts.table.tolist() for c in found)
    assert len({c.population for c in found}) == 1
    for certificate in found:
        certificate.verify()


def test_each_attribute_and_value_is_monitored_by_itself(cli, bundle, tmp_path):
    options, folder = bundle
    fresh = folder.parent / "fresh.csv"
    by_file = cli("monitor", folder, fresh, "--history", tmp_path / "a.json", "-o", tmp_path / "page.html", "--json")
    assert by_file.status == 0, by_file.stderr
    courses = [period["course"] for period in by_file.json["periods"]]
    assert courses == (["sex", "old"] if options == EACH else ["product 'car'", "product 'home'"])
    assert (tmp_path / "page.html").read_text().count("Distance between the groups of") == 2
    assert cli("count", folder, fresh, "-o", tmp_path / "counts.json").status == 0
    by_counts = cli("monitor", folder, tmp_path / "counts.json", "--history", tmp_path / "b.json", "--json")
    place = ("--sql", f"duckdb:///{folder.parent}/fresh.db", "--table", "people", "--period", "fresh")
    by_sql = cli("monitor", folder, *place, "--history", tmp_path / "c.json", "--json")
    for other in (by_counts, by_sql):
        assert other.status == 0, other.stderr
        assert [p["bound"] for p in other.json["periods"]] == [p["bound"] for p in by_file.json["periods"]]
    shown = cli("monitor", folder, "--history", tmp_path / "a.json")
    assert courses[-1].split()[0] in shown.stdout


@pytest.mark.parametrize("options", [GIVEN, EACH], ids=["given", "each"])
def test_an_existing_column_has_the_claim_as_well(cli, place, options):
    result = cli("certify", place / "fresh.csv", "--column", "approved", *options, "--json")
    certificate = certificate_of(result).verify()
    assert certificate.claim.given == ("product" if options == GIVEN else None)
    assert certificate.claim.each == (() if options == GIVEN else ("sex", "old"))


def test_a_table_beyond_memory_is_searched_for_the_claim(cli, place, monkeypatch, tmp_path):
    people(6_000, 1).to_parquet(tmp_path / "people.parquet")
    monkeypatch.setattr("certifare.frontier.large.LARGE", 0)
    monkeypatch.setattr("certifare.frontier.large.SAMPLE_RECORDS", 4_000)
    result = cli(
        "fit", tmp_path / "people.parquet", "--label", "approved", *GIVEN, "--kind", "tree", "--target", 0.3,
        "-o", tmp_path / "bundle",
    )  # fmt: skip
    assert result.status == 0, result.stdout + result.stderr
    assert read_document(tmp_path / "bundle" / "certificate.json").certificate.verify().scope.given == "product"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--sensitive", "sex", "--sensitive", "sex", "--each"), "named twice"),
        (("--sensitive", "sex", "--each"), "several sensitive columns"),
        (("--sensitive", "sex", "--given", "approved"), "both label and given"),
        ((*GIVEN, "--given", "lone"), "--given is given twice, and takes one value"),
        (("--sensitive", "sex", "--given", "sex"), "both sensitive and given"),
        (("--sensitive", "sex", "--given", "x"), "values; at most 50"),
        ((*EACH, "--pool-groups", 50), "--pool-groups pools intersections"),
        ((*GIVEN, "--metric", "equal_opportunity"), "demographic parity"),
        ((*GIVEN, "--group-aware"), "--group-aware"),
        (("--sensitive", "sex", "--given", "lone"), "No record of group 'f'"),
    ],
)
def test_bad_claims_are_refused_with_a_reason(cli, place, tmp_path, options, message):
    result = cli("fit", place / "people.csv", "--label", "approved", *options, "-o", tmp_path / "out")
    assert result.status == 2
    assert message in " ".join(result.stderr.split())


@pytest.mark.parametrize("bundle", [GIVEN], indirect=True)
def test_values_with_few_records_of_ones_own_are_named_and_confirm_nothing(cli, bundle, tmp_path):
    _, folder = bundle
    fresh = pd.read_csv(folder.parent / "fresh.csv")
    home = fresh["product"] == "home"
    path = tmp_path / "few.csv"
    pd.concat([fresh[~home], fresh[home].head(20)]).to_csv(path, index=False)
    assert "nothing is claimed within product 'home'" in cli("certify", folder, path).stderr
    watched = cli("monitor", folder, path, "--history", tmp_path / "history.json")
    assert "too few records of product 'home' in this period" in watched.stderr
    pd.concat([fresh[~home], fresh[home].head(1)]).to_csv(path, index=False)
    verdict = cli("verify", folder, "--data", path, "--max", 0.3)
    assert verdict.status == 3
    assert "A group has no record with product 'home'" in " ".join(verdict.stdout.split())
