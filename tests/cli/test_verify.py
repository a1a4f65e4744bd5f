"""The auditor's command: what passes, what is refused with status 1, what cannot be read with status 2."""

import pandas as pd
import pytest

from certifare import CellCounts, FairTreeEncoder, certify_counts, load_encoder
from certifare.document import read_document, verify_document, write_document
from certifare.encoders.records import read_records
from certifare.tables.reading import Reading


def said(result):
    """What was printed, however the terminal broke its lines."""
    return " ".join(result.stdout.split())


@pytest.fixture
def bundle(cli, files, tmp_path):
    """What a producer hands on: an encoder, a signed certificate, a public key."""
    assert cli("key", "new", tmp_path / "producer").status == 0
    (tmp_path / "encoder.json").write_bytes((files / "encoder.json").read_bytes())
    certified = cli(
        "certify", tmp_path / "encoder.json", files / "fresh.csv", "--sensitive", "sex",
        "--output", tmp_path / "certificate.json", "--key", tmp_path / "producer.pem",
    )  # fmt: skip
    assert certified.status == 0, certified.stderr
    return tmp_path


def test_everything_in_order(cli, bundle):
    result = cli(
        "verify", bundle / "certificate.json", "--key", bundle / "producer.pub.pem",
        "--encoder", bundle / "encoder.json", "--max", "0.9",
    )  # fmt: skip

    assert result.status == 0, result.stdout
    assert "PASS With 95 % confidence, no classifier" in said(result)
    assert "✗" not in said(result)


def test_a_folder_will_do(cli, bundle):
    result = cli("verify", bundle, "--key", bundle / "producer.pub.pem", "--json")

    assert result.status == 0
    assert result.json["passed"] is True
    assert {check["name"]: check["ok"] for check in result.json["checks"]} == {
        "version": True,
        "signature": True,
        "statement": True,
        "figures": True,
        "validity": True,
        "encoder": True,
        "confidence": True,
        "data": None,
    }
    assert result.json["unchecked"] == ["data"]


@pytest.mark.parametrize("content", [b"", b"not JSON", b"\x00\x01", b"[]", b'{"payload": 1}', b"[" * 100_000])
def test_files_that_are_no_certificates(cli, tmp_path, content):
    path = tmp_path / "certificate.json"
    path.write_bytes(content)

    result = cli("verify", path)

    assert result.status == 2
    assert result.stderr.startswith("Error:")
    assert cli("verify", path, "--json").json["outcome"] == "ERROR"


def test_files_that_are_not_there(cli, bundle, tmp_path):
    assert cli("verify", tmp_path / "absent.json").status == 2
    assert cli("verify", bundle, "--key", tmp_path / "absent.pem").status == 2
    assert cli("verify", bundle, "--encoder", tmp_path / "absent.json").status == 2
    assert cli("verify", bundle, "--data", tmp_path / "absent.csv").status == 2
    assert "Did you mean 0.05?" in cli("verify", bundle, "--max", "5").stderr


def test_the_largest_bound(cli, bundle):
    bound = read_document(bundle / "certificate.json").certificate.bound

    assert cli("verify", bundle, "--max", bound).status == 0
    result = cli("verify", bundle, "--max", bound / 2)
    assert result.status == 1
    assert "above the" in said(result)


# -- What is required -------------------------------------------------------------------------------------------------


def test_less_confidence_than_asked_for_fails(cli, tmp_path):
    sloppy = certify_counts(CellCounts([[600, 590], [400, 410]], groups=["f", "m"]), confidence=0.5)
    write_document(tmp_path / "certificate.json", sloppy)

    result = cli("verify", tmp_path / "certificate.json", "--max", "0.03")

    assert result.status == 1
    assert "holds with 50 % confidence, less than the 95 % asked for" in said(result)
    assert cli("verify", tmp_path / "certificate.json", "--max", "0.03", "--confidence", "0").status == 0


@pytest.mark.parametrize(
    ("options", "status"),
    [
        (("--metric", "demographic_parity", "--metric", "equalized_odds"), 0),
        (("--metric", "equalized_odds"), 1),
        (("--metric", "luck"), 2),
        (("--max-looks", "5"), 1),  # they were not counted
        (("--confidence", "0.96"), 1),
        (("--confidence", "95"), 2),
    ],
)
def test_each_requirement_has_an_option(cli, bundle, options, status):
    result = cli("verify", bundle / "certificate.json", *options)

    assert result.status == status, result.stdout + result.stderr
    assert len(result.stdout if status < 2 else result.stderr) > 0


# -- records of one's own ---------------------------------------------------------------------------------------------


def test_records_of_the_same_kind_agree(cli, files, bundle):
    result = cli("verify", bundle, "--data", files / "fresh.csv", "--max", "0.9")

    assert result.status == 0, result.stdout + result.stderr
    assert "the certificate is not refuted" in said(result)
    assert "A certificate on" in said(result)


def test_records_that_contradict_the_certificate(cli, files, bundle):
    """On a population in which the cell gives the group away, the claim does not hold."""
    fresh = pd.read_csv(files / "fresh.csv")
    cells = load_encoder(bundle / "encoder.json").apply(fresh)
    fresh["sex"] = ["f" if cell < cells.max() / 2 else "m" for cell in cells]
    fresh.to_csv(bundle / "other.csv", index=False)

    result = cli("verify", bundle, "--data", bundle / "other.csv")

    assert result.status == 1
    assert "some classifier exceeds the certificate's" in said(result)


def test_too_few_records_are_inconclusive(cli, files, bundle):
    """299 records do not contradict a good certificate, and do not suffice to confirm it: that is no failure."""
    pd.read_csv(files / "fresh.csv").head(299).to_csv(bundle / "few.csv", index=False)
    bound = read_document(bundle / "certificate.json").certificate.bound
    arguments = ("verify", bundle, "--data", bundle / "few.csv")

    assert cli(*arguments).status == 0
    result = cli(*arguments, "--max", bound)
    assert result.status == 3
    assert "is not refuted" in said(result)
    assert "records would confirm" in said(result)
    assert result.stdout.rstrip().endswith("INCONCLUSIVE")
    assert cli(*arguments, "--max", bound, "--json").json["outcome"] == "INCONCLUSIVE"
    # What fails comes before what is undecided.
    assert cli(*arguments, "--max", bound, "--confidence", "0.99").status == 1


def test_a_group_of_a_few_records_is_inconclusive(cli, files, bundle):
    fresh = pd.read_csv(files / "fresh.csv")
    fresh[(fresh["sex"] == "f") | (fresh.index < 12)].to_csv(bundle / "few.csv", index=False)
    bound = read_document(bundle / "certificate.json").certificate.bound

    assert cli("verify", bundle, "--data", bundle / "few.csv", "--max", bound).status == 3


def test_other_groups_are_inconclusive(cli, files, bundle):
    fresh = pd.read_csv(files / "fresh.csv")
    fresh["sex"] = fresh["sex"].replace({"f": "woman", "m": "man"})
    fresh.to_csv(bundle / "other.csv", index=False)

    result = cli("verify", bundle, "--data", bundle / "other.csv")

    assert result.status == 3
    assert "Your records have the groups man, woman; the certificate is about f, m" in said(result)


@pytest.mark.parametrize("metric", ["equal_opportunity", "equalized_odds"])
def test_other_labels_are_inconclusive(cli, files, bundle, metric):
    """A mean over other labels is another distance; so is one among records of another label."""
    fresh = pd.read_csv(files / "fresh.csv")
    certificate, arguments = bundle / "other.json", ("--sensitive", "sex", "--label", "approved", "--metric", metric)
    assert cli("certify", bundle / "encoder.json", files / "fresh.csv", *arguments, "-o", certificate).status == 0
    fresh["approved"] = fresh["approved"].replace({0: "no", 1: "yes"})
    fresh.to_csv(bundle / "other.csv", index=False)
    paths = ("verify", certificate, "--encoder", bundle / "encoder.json", "--data")

    assert cli(*paths, files / "fresh.csv").status == 0
    result = cli(*paths, bundle / "other.csv")
    assert result.status == 3
    assert "Your records have the labels no, yes; the certificate is about" in said(result)
    # No woman among those with the label: nothing can be said about her group there.
    fresh = pd.read_csv(files / "fresh.csv")
    fresh[(fresh["sex"] == "m") | (fresh["approved"] == 0)].to_csv(bundle / "other.csv", index=False)
    result = cli(*paths, bundle / "other.csv")
    assert result.status == 3
    assert "do not suffice" in said(result)


def test_a_pass_says_what_was_not_checked(cli, files, bundle):
    assert said(cli("verify", bundle / "certificate.json")).endswith("Not checked: signature, encoder, data.")
    assert said(cli("verify", bundle)).endswith("Not checked: signature, data.")
    everything = cli("verify", bundle, "--key", bundle / "producer.pub.pem", "--data", files / "fresh.csv")
    assert said(everything).endswith("Not checked: training records.")
    assert "it was not checked whether" in said(everything)


def test_the_training_table_confirms_nothing(cli, bundle, make_people):
    train = make_people(3_000, 0)
    train.to_csv(bundle / "train.csv", index=False)
    fitted = FairTreeEncoder(sensitive="sex", max_cells=8, min_cell_size=50)
    fitted.fit(train.drop(columns="approved"), train["approved"])
    (bundle / "private").mkdir()
    fitted.fingerprint_.save(bundle / "private" / "fingerprint.npz")

    result = cli("verify", bundle, "--data", bundle / "train.csv", "--max", "0.9")

    assert result.status == 1
    assert "The encoder was fitted on your records" in said(result)
    make_people(3_000, 2).to_csv(bundle / "others.csv", index=False)
    others = cli("verify", bundle, "--data", bundle / "others.csv", "--max", "0.9")
    assert others.status == 0, others.stdout
    assert "was not fitted on your records" in said(others)


def test_any_column_can_be_sensitive_as_in_certify(cli, files, bundle):
    """A column that is a feature, a comparison, or one that the encoder never saw."""
    fresh = pd.read_csv(files / "fresh.csv").dropna()
    fresh["race"] = [("a", "b", "c")[i % 3] for i in range(len(fresh))]
    fresh.to_csv(bundle / "wide.csv", index=False)
    for sensitive in ("race", "age>=60", "job"):
        certificate = bundle / "other.json"
        certified = cli(
            "certify", bundle / "encoder.json", bundle / "wide.csv", "--sensitive", sensitive, "-o", certificate,
        )  # fmt: skip
        assert certified.status == 0, certified.stderr
        files_of = ("verify", certificate, "--encoder", bundle / "encoder.json", "--data", bundle / "wide.csv")

        result = cli(*files_of)

        assert result.status == 0, result.stdout + result.stderr
        assert "is not refuted" in said(result)


def test_a_file_is_read_as_by_certify(cli, bundle):
    """A column that held text holds numbers here: certify reads it as text, and so does verify."""
    train = pd.DataFrame({"code": ["007", "08", "x", "07"] * 500, "sex": ["f", "m"] * 1000, "y": [0, 1, 1, 0] * 500})
    encoder = FairTreeEncoder(max_cells=3, min_cell_size=10)
    encoder.fit(train[["code"]], train["y"], sensitive_features=train["sex"]).save(bundle / "codes.json")
    train[train["code"] != "x"].to_csv(bundle / "codes.csv", index=False)
    paths = (bundle / "codes.json", bundle / "codes.csv")
    assert cli("certify", *paths, "--sensitive", "sex", "-o", bundle / "other.json").status == 0

    result = cli("verify", bundle / "other.json", "--encoder", paths[0], "--data", paths[1])

    assert result.status == 0, result.stdout + result.stderr


def test_records_need_an_encoder_and_a_group(cli, files, bundle):
    alone = cli("verify", bundle / "certificate.json", "--data", files / "fresh.csv")
    assert alone.status == 2
    assert "only be looked at with the encoder" in alone.stderr
    pd.read_csv(files / "fresh.csv").rename(columns={"sex": "gender"}).to_csv(bundle / "renamed.csv", index=False)
    nameless = cli("verify", bundle, "--data", bundle / "renamed.csv")
    assert nameless.status == 2
    assert "No column 'sex'" in nameless.stderr


# -- a classifier of one's own ----------------------------------------------------------------------------------------


def predictions(path, n_cells, positive):
    pd.DataFrame({"cell": range(n_cells), "prediction": [int(c in positive) for c in range(n_cells)]}).to_csv(
        path, index=False
    )
    return path


def test_a_classifier_has_an_interval_of_its_own(cli, bundle):
    certificate = read_document(bundle / "certificate.json").certificate
    path = predictions(bundle / "predictions.csv", certificate.counts.n_cells, {0})

    result = cli("verify", bundle, "--predictions", path)

    assert result.status == 0
    expected = certificate.for_classifier([1] + [0] * (certificate.counts.n_cells - 1))
    assert str(expected) in said(result)
    assert cli("verify", bundle, "--predictions", path, "--max", expected.upper).status == 0
    assert cli("verify", bundle, "--predictions", path, "--max", expected.upper / 2).status == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("cell,guess\n0,1\n", "no column 'prediction'"),
        ("cell,prediction\n0,1\n0,1\n", "each cell 0, 1, 2"),
        ("cell,prediction\n1,1\n2,1\n", "each cell 0, 1, 2"),
        ("cell,prediction\n0,1\n1,\n", "no prediction"),
        ("cell,prediction\n0,1\n", "one for each cell"),
        ("", "empty"),
    ],
)
def test_predictions_that_cannot_be_used(cli, bundle, content, message):
    path = bundle / "predictions.csv"
    path.write_text(content)

    result = cli("verify", bundle, "--predictions", path)

    assert result.status == 2
    assert message in result.stderr


def test_names_do_not_steer_the_terminal(cli, tmp_path):
    counts = CellCounts([[400, 300], [300, 400]], groups=["\x1b[2J\x1b]0;title\x07", "[bold red]m[/]"])
    write_document(tmp_path / "certificate.json", certify_counts(counts))

    result = cli("verify", tmp_path / "certificate.json")

    assert result.status == 0
    assert "\x1b[2J" not in result.stdout
    assert "\x07" not in result.stdout
    assert "[bold red]m[/]" in said(result)


def test_own_records_of_another_population_decide_nothing(cli, files, tmp_path):
    """A claim about a random record of a random cluster is not contradicted by all records, nor confirmed."""
    homes = pd.read_csv(files / "fresh.csv").assign(home=lambda table: table.index // 2)
    homes.to_csv(tmp_path / "homes.csv", index=False)
    certified = cli(
        "certify", files / "encoder.json", tmp_path / "homes.csv", "--sensitive", "sex", "--cluster", "home",
        "--output", tmp_path / "certificate.json",
    )  # fmt: skip
    assert "among records drawn one at random from each cluster" in certified.stdout
    verify = ("verify", tmp_path / "certificate.json", "--encoder", files / "encoder.json", "--data")

    # The certificate says by which column: one record of each home is drawn, unless a table has no such column.
    assert cli(*verify, tmp_path / "homes.csv").status == 0
    result = cli(*verify, files / "fresh.csv")
    assert (result.status, "No column 'home' (--cluster)" in result.stderr) == (2, True)
    document, encoder = tmp_path / "certificate.json", files / "encoder.json"
    table = read_records(load_encoder(encoder), files / "fresh.csv", Reading(sensitive=("sex",)))
    undecided = verify_document(document, encoder=encoder, data=table)
    assert undecided.outcome == "INCONCLUSIVE"
    assert "drawn one at random from each cluster; your records stand for all records" in str(undecided)


def test_an_own_record_without_a_label_is_left_out_where_the_metric_looks_at_labels(cli, files, tmp_path):
    partly = pd.read_csv(files / "fresh.csv")
    partly["approved"] = partly["approved"].where(partly.index % 3 > 0)
    partly.to_csv(tmp_path / "partly.csv", index=False)
    labelled = ("--sensitive", "sex", "--label", "approved", "--metric", "equalized_odds")
    certified = cli(
        "certify", files / "encoder.json", tmp_path / "partly.csv", *labelled, "-o", tmp_path / "certificate.json"
    )
    assert "among records with a known label" in certified.stdout
    assert "(label missing)" in certified.stderr
    result = cli(
        "verify", tmp_path / "certificate.json", "--encoder", files / "encoder.json", "--data", tmp_path / "partly.csv"
    )
    assert result.status == 0, result.stdout
    shown = cli("show", tmp_path / "certificate.json")
    assert "among records with a known label" in said(shown)


def test_a_bundle_that_does_not_exist_is_named(cli, tmp_path):
    result = cli("verify", tmp_path / "absent", "--data", tmp_path / "people.csv")
    assert result.status == 2
    assert "There is no certificate or bundle" in result.stderr
