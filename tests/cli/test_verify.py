"""The auditor's command: what passes, what is refused with status 1, what cannot be read with status 2."""

import base64
import json

import pandas as pd
import pytest

from certifare import load_encoder
from certifare.document import read_document


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
    }


def rewrite(path, change):
    """Change the statement inside an envelope, and leave the signature as it was."""
    envelope = json.loads(path.read_bytes())
    statement = json.loads(base64.b64decode(envelope["payload"]))
    change(statement)
    envelope["payload"] = base64.b64encode(json.dumps(statement).encode()).decode()
    path.write_text(json.dumps(envelope))


def one_count(statement):
    statement["predicate"]["certificate"]["counts"]["table"][0][0] += 1


def older(statement):
    statement["predicateType"] = statement["predicateType"].replace("/v1", "/v0")


def newer(statement):
    statement["predicateType"] = statement["predicateType"].replace("/v1", "/v2")


def test_each_way_of_tampering_has_its_message_and_status_1(cli, bundle):
    certificate, encoder, key = bundle / "certificate.json", bundle / "encoder.json", bundle / "producer.pub.pem"
    original, arguments = certificate.read_bytes(), ("verify", certificate, "--key", key, "--encoder", encoder)
    cli("key", "new", bundle / "other")
    messages = {}

    rewrite(certificate, one_count)
    messages["count"] = cli(*arguments)
    rewrite(certificate, older)
    messages["version"] = cli(*arguments)
    certificate.write_bytes(original)
    messages["key"] = cli("verify", certificate, "--key", bundle / "other.pub.pem")
    content = bytearray(encoder.read_bytes())
    content[len(content) // 2] ^= 1
    encoder.write_bytes(content)
    messages["encoder"] = cli(*arguments)

    assert {name: result.status for name, result in messages.items()} == dict.fromkeys(messages, 1)
    assert "altered after signing" in said(messages["count"])
    assert "its counts give" in said(messages["count"])
    assert "has expired" in said(messages["version"])
    assert "signed with another key" in said(messages["key"])
    assert "not the certified one" in said(messages["encoder"])
    assert all(result.stdout.rstrip().endswith("FAIL") for result in messages.values())


def test_a_newer_version_cannot_be_read(cli, bundle):
    rewrite(bundle / "certificate.json", newer)

    result = cli("verify", bundle)

    assert result.status == 2
    assert "install a newer certifare" in result.stderr


@pytest.mark.parametrize("content", [b"", b"not JSON", b"\x00\x01", b"[]", b'{"payload": 1}', b"[" * 100_000])
def test_files_that_are_no_certificates(cli, tmp_path, content):
    path = tmp_path / "certificate.json"
    path.write_bytes(content)

    result = cli("verify", path)

    assert result.status == 2
    assert result.stderr.startswith("error:")
    assert cli("verify", path, "--json").json.keys() == {"error"}


def test_files_that_are_not_there(cli, bundle, tmp_path):
    assert cli("verify", tmp_path / "absent.json").status == 2
    assert cli("verify", bundle, "--key", tmp_path / "absent.pem").status == 2
    assert cli("verify", bundle, "--encoder", tmp_path / "absent.json").status == 2
    assert cli("verify", bundle, "--data", tmp_path / "absent.csv", "--sensitive", "sex").status == 2
    assert cli("verify", bundle, "--max", "2").status == 2


def test_the_largest_bound(cli, bundle):
    bound = read_document(bundle / "certificate.json").certificate.bound

    assert cli("verify", bundle, "--max", bound).status == 0
    result = cli("verify", bundle, "--max", bound / 2)
    assert result.status == 1
    assert "above the" in said(result)


# -- records of one's own -----------------------------------------------------------------------------------------


def test_records_of_the_same_kind_agree(cli, files, bundle):
    result = cli("verify", bundle, "--data", files / "fresh.csv", "--sensitive", "sex", "--max", "0.9")

    assert result.status == 0, result.stdout + result.stderr
    assert "do not contradict the certificate" in said(result)
    assert "A certificate on" in said(result)


def test_records_that_contradict_the_certificate(cli, files, bundle):
    """On a population in which the cell gives the group away, the claim does not hold."""
    fresh = pd.read_csv(files / "fresh.csv")
    cells = load_encoder(bundle / "encoder.json").apply(fresh)
    fresh["sex"] = ["f" if cell < cells.max() / 2 else "m" for cell in cells]
    fresh.to_csv(bundle / "other.csv", index=False)

    result = cli("verify", bundle, "--data", bundle / "other.csv", "--sensitive", "sex")

    assert result.status == 1
    assert "some classifier exceeds the certificate's" in said(result)


def test_too_few_records_do_not_confirm_a_small_bound(cli, files, bundle):
    pd.read_csv(files / "fresh.csv").head(150).to_csv(bundle / "few.csv", index=False)
    bound = read_document(bundle / "certificate.json").certificate.bound

    assert cli("verify", bundle, "--data", bundle / "few.csv", "--sensitive", "sex").status == 0
    result = cli("verify", bundle, "--data", bundle / "few.csv", "--sensitive", "sex", "--max", bound)
    assert result.status == 1
    assert "do not contradict" in said(result)
    assert "records of your own bounds" in said(result)


def test_other_groups(cli, files, bundle):
    fresh = pd.read_csv(files / "fresh.csv")
    fresh["sex"] = fresh["sex"].replace({"f": "woman", "m": "man"})
    fresh.to_csv(bundle / "other.csv", index=False)

    result = cli("verify", bundle, "--data", bundle / "other.csv", "--sensitive", "sex")

    assert result.status == 1
    assert "Your records have the groups man, woman" in said(result)


def test_records_need_an_encoder_and_a_group(cli, files, bundle):
    alone = cli("verify", bundle / "certificate.json", "--data", files / "fresh.csv", "--sensitive", "sex")
    assert alone.status == 2
    assert "only with the encoder" in alone.stderr
    nameless = cli("verify", bundle, "--data", files / "fresh.csv", "--sensitive", "gender")
    assert nameless.status == 2
    assert "gender" in nameless.stderr


# -- a classifier of one's own ------------------------------------------------------------------------------------


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
        ("cell,prediction\n0,1\n", "one entry for each"),
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
    from certifare import CellCounts, certify_counts
    from certifare.document import write_document

    counts = CellCounts([[400, 300], [300, 400]], groups=["\x1b[2J\x1b]0;title\x07", "[bold red]m[/]"])
    write_document(tmp_path / "certificate.json", certify_counts(counts))

    result = cli("verify", tmp_path / "certificate.json")

    assert result.status == 0
    assert "\x1b[2J" not in result.stdout
    assert "\x07" not in result.stdout
    assert "[bold red]m[/]" in said(result)
