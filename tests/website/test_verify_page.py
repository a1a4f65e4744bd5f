"""``docs/verify.html`` agrees with the package: on figures, on what it refuses, on signatures and encoders.

``CERTIFARE_FULL=1`` compares 10,000 random tables and 5,000 damaged documents instead of some hundreds.
"""

import base64
import hashlib
import json
import os
import re
import shutil
import unicodedata
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import numpy as np
import pytest
from tests.cli.test_fuzz_documents import Damage, dumped, shape
from tests.document import documents
from tests.report.browser import CHROMIUM, Browser

from certifare import CellCounts, certify_counts
from certifare.certificates.bounding import Evidence
from certifare.certificates.calibrated import CALIBRATED_METRICS
from certifare.certificates.claims import Claim
from certifare.certificates.issuing import issue
from certifare.certificates.looks import Look, confidence_of_look
from certifare.certificates.sequence import FixedSequence
from certifare.certificates.tail import Tail
from certifare.document import make_statement, new_key, sign, verify_document, write_document
from certifare.drawing.palette import PALETTE
from certifare.encoders.format import EncoderFile, digest_of
from certifare.errors import CertifareError
from certifare.foundation.formatting import unseen

from .serving import ROOT

FULL = os.environ.get("CERTIFARE_FULL") == "1"
PAGE = ROOT / "docs" / "verify.html"
GOLDEN = sorted((ROOT / "tests" / "document" / "golden").glob("*.json"))
#: The page's names of the checks of ``verify``.
NAMES = {"version": "form"}
TERMS = {"producer": "Bank of Ghent", "purpose": "Credit scoring", "valid_until": "2999-12-31"}

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: install the Debian package chromium")


@pytest.fixture(scope="module")
def browser():
    running = Browser()
    running.open(PAGE, 1280)
    yield running
    running.close()


@pytest.fixture
def page(browser):
    """The page, just opened."""
    browser.open(PAGE, 1280)
    return browser


def in_page(browser, function, *arguments):
    """Call a function of the page; bytes go as base64."""

    def plain(value):
        if isinstance(value, bytes):
            return f"Uint8Array.from(atob('{base64.b64encode(value).decode()}'), c => c.charCodeAt(0))"
        if isinstance(value, dict):
            return "({" + ",".join(f"{key}: {plain(entry)}" for key, entry in value.items()) + "})"
        return json.dumps(value)

    return browser.run(f"({function})({', '.join(map(plain, arguments))})")


VERIFY = (
    "async files => { const v = await verify(files); return [v.outcome, v.steps.map(s => [s.name, s.ok, s.words])]; }"
)


def verified(browser, **files):
    """The page's outcome, and its steps by name."""
    outcome, steps = in_page(browser, VERIFY, files)
    return outcome, {name: ok for name, ok, _ in steps}


def by_package(content, **options):
    """What ``verify`` finds, in the page's names; a file that it refuses fails."""
    try:
        verdict = verify_document(content, **options)
    except (CertifareError, ArithmeticError):
        return "FAIL", {"form": False}
    return verdict.outcome, {NAMES.get(check.name, check.name): check.ok for check in verdict.checks}


# -- figures ------------------------------------------------------------------------------------------------------


def random_counts(rng, groups, labels=None, cells=None):
    k = cells or int(rng.integers(1, 25))
    sizes = np.exp(rng.uniform(np.log(30), np.log(6_000), (len(groups), len(labels or [0])))).astype(int)
    base = rng.dirichlet(np.full(k, 2.0))
    table = np.zeros((k, len(groups), len(labels or [0])), dtype=int)
    for (g, y), n in np.ndenumerate(sizes):
        own = rng.dirichlet(np.full(k, 1.0))
        table[:, g, y] = rng.multinomial(n, (1 - (mix := rng.beta(1, 6))) * base + mix * own)
    return CellCounts(table if labels else table[:, :, 0], groups, labels)


def random_certificate(rng):
    """A certificate of a random claim by random evidence."""
    metric = str(rng.choice(["demographic_parity"] * 3 + ["equal_opportunity", "equalized_odds", "equalized_odds_max"]))
    options = {"metric": metric, "confidence": float(rng.choice([0.95, 0.9, 0.99, 0.9999, 0.5]))}
    groups = ["f", "m", "x"][: int(rng.choice([2, 2, 2, 3]))]
    labels = None if metric == "demographic_parity" else ["no", "yes", "perhaps"][: int(rng.integers(2, 4))]
    if metric == "equal_opportunity":
        options["positive"] = "yes"
    if metric == "demographic_parity" and rng.random() < 0.25:
        options["given"], labels = "product", ["loan", "card"]
    if rng.random() < 0.2:
        groups, options["each"] = ["f × a", "f × b", "m × a", "m × b"], ("sex", "race")
    if rng.random() < 0.3:
        options["candidates"] = int(rng.integers(1, 50))
    claim = Claim(**options)
    counts = random_counts(rng, groups, labels)
    evidence = Evidence(counts)
    if rng.random() < 0.4:
        evidence = replace(evidence, witness=CellCounts(rng.poisson(counts.table + 1), groups, labels))
    if rng.random() < 0.2:
        kept = counts.table.sum(axis=0).reshape(len(groups), -1)
        beyond = tuple(map(tuple, rng.binomial(kept, 0.02).tolist()))
        evidence = replace(evidence, tail=Tail(cap=2.0, largest=float(rng.uniform(2.5, 9)), beyond=beyond))
    if rng.random() < 0.2:
        alone = replace(claim, candidates=1)
        rows = rng.permutation(counts.n_cells)
        bold = CellCounts(counts.table[rows], groups, labels)  # the same records in other cells
        own = FixedSequence.walk([counts], 1.0, alone, tail=evidence.tail).steps[0].limit
        walked = FixedSequence.walk([bold, counts], min(1.0, own * 1.1), alone, tail=evidence.tail)
        if walked.passed == 2:
            evidence = replace(evidence, sequence=walked)
    certificate = issue(evidence, claim)
    if rng.random() < 0.3:
        number, planned = int(rng.integers(1, 6)), 5 if rng.random() < 0.3 else None
        spent = (number - 1) * float(rng.choice([0.05, 0.013, 1e-5, rng.random()]))
        certificate = certificate.at_look(Look(number=number, spent=spent, planned=planned))
    return certificate


FIGURES = """async texts => {
  const found = [];
  for (const text of texts) {
    const certificate = CERTIFICATE(readJson(utf8(text)), "the certificate");
    checkForm(certificate);
    const { bound, estimate, lower, parts } = await computeFigures(certificate);
    found.push([bound, estimate, lower, parts.map(p => [p.bound, p.estimate, ...p.records]), wording(certificate)]);
  }
  return found;
}"""


@pytest.mark.slow
def test_the_page_agrees_with_the_package_on_random_tables(browser):
    """Every figure to 10⁻⁹, for every metric, each, given, witnesses, caps, sequences, looks; and the claim's words."""
    from certifare.document.statement import claim_of

    rng = np.random.default_rng(20)
    methods, left, worst = set(), 10_000 if FULL else 200, 0.0
    while left:
        batch = []
        while len(batch) < min(left, 50):
            try:
                batch.append(random_certificate(rng))
            except CertifareError:  # a group is too small, or samples happen to differ too much
                continue
        left -= len(batch)
        found = in_page(browser, FIGURES, [json.dumps(certificate.to_dict()) for certificate in batch])
        for certificate, (bound, estimate, lower, parts, words) in zip(batch, found, strict=True):
            methods.add((certificate.method, certificate.metric))
            ours = [certificate.bound, certificate.estimate, certificate.lower]
            ours += [x for p in certificate.parts for x in (p.bound, p.estimate, *p.records)]
            theirs = [bound, estimate, lower, *(x for part in parts for x in part)]
            worst = max(worst, float(np.abs(np.subtract(ours, theirs)).max()))
            assert worst <= 1e-9, certificate.to_dict()
            assert words == msgspec.to_builtins(claim_of(certificate))
    assert len(methods) == 4
    print(f"largest difference {worst:.1e}")


def test_large_samples_agree(browser):
    """Sums of tails, the closed form beyond 2³¹ records, and products beyond 64 bits."""
    from certifare.certificates.exact import difference_limit

    cases = [
        *((20, 300, 900, 0.05), (1, 1, 0, 0.05), (5_000, 7, 12_345, 1e-6), (300_000, 200_000, 10**9, 0.05)),
        *((2**33, 2**34, 2**60, 0.05), (2**40, 12_345, -(2**45), 0.01), (50, 50, 2_500, 0.05), (40, 60, -2_400, 0.5)),
    ]
    function = "cases => cases.map(([n0, n1, m, e]) => differenceLimit(n0, n1, BigInt(m), e))"
    found = in_page(browser, function, [[n0, n1, str(m), e] for n0, n1, m, e in cases])
    assert found == pytest.approx([difference_limit(*case) for case in cases], abs=1e-12)


SUPPORTED = "async (gaps, epsilon, limits) => await unsupported(gaps, epsilon, limits, async () => {})"


@pytest.mark.slow
def test_calibrated_bounds_are_supported_and_smaller_ones_are_not(browser):
    """By the integral for two cells, by random tables of the page's own otherwise."""
    from certifare.certificates.calibrated import CalibratedLimits

    rng = np.random.default_rng(5)
    plans = [rng.integers(1, int(10 ** rng.uniform(1, 4)), (2, 2)) for _ in range(400 if FULL else 15)]
    plans += [rng.integers(20, 400, (3, 2)), rng.integers(20, 400, (8, 2)), rng.integers(50, 300, (4, 3))]
    for gaps in plans:
        epsilon = float(rng.choice([0.05, 0.01, 0.1]))
        limits = CalibratedLimits.of(gaps, epsilon)
        stated = {"bound": limits.bound, "lower": limits.lower, "pairs": list(limits.pairs)}
        assert in_page(browser, SUPPORTED, gaps.tolist(), epsilon, stated) is None, gaps.tolist()
        for factor, field in ((0.95, "bound"), (1.1, "bound"), (0.9, "pairs")):
            if factor * limits.bound > 1:
                continue
            scaled = [factor * pair for pair in limits.pairs]
            changed = {"bound": {"bound": factor * limits.bound, "pairs": scaled}, "pairs": {"pairs": scaled}}[field]
            assert in_page(browser, SUPPORTED, gaps.tolist(), epsilon, {**stated, **changed}) == field


def test_calibrated_metrics_are_those_of_the_package():
    assert CALIBRATED_METRICS == ("demographic_parity", "equal_opportunity")


# -- what is refused ----------------------------------------------------------------------------------------------


def last_day(days):
    """A day so many days from today (UTC)."""
    return str(datetime.now(UTC).date() + timedelta(days=days))


def sound_documents():
    """Documents of many kinds that pass, as bytes."""
    found = {path.stem: path.read_bytes() for path in GOLDEN}
    found["with terms"] = documents.plain(terms=TERMS)
    found["with a producer"] = documents.signed(terms={"producer": "شرکت\u200cها"})
    found["with empty terms"] = documents.changed(documents.plain(terms=TERMS), "predicate", "terms", to={})
    rng = np.random.default_rng(3)
    wanted = len(found) + (60 if FULL else 15)
    while len(found) < wanted:
        try:
            certificate = random_certificate(rng)
            if certificate.tail is None:  # a cap needs words on the draw, as capped.json has
                terms = TERMS if rng.random() < 0.3 else None
                found[f"random {len(found)}"] = sign(make_statement(certificate, terms=terms), None).to_bytes()
        except CertifareError:
            continue
    return found


def test_sound_documents_have_the_same_checks(browser):
    for name, content in sound_documents().items():
        outcome, checks = verified(browser, certificate=content)
        assert (outcome, checks) == by_package(content), name
        assert checks["figures"], name


def test_damaged_documents_are_accepted_and_refused_as_by_the_package(browser):
    """The damage of the fuzz tests: keys, values, types, numbers, bytes; most of it with digests put right."""
    sources = list(sound_documents().values())
    contents = []
    for seed in range(5_000 if FULL else 250):
        damage = Damage(seed)
        content = damage.random.choice(sources)
        if damage.random.random() < 0.15:
            contents.append(damage.bytes(content))
            continue
        document = json.loads(content)
        if "payload" in document:
            if damage.random.random() < 0.5:
                contents.append(dumped(damage.document(content, 1)))
                continue
            document = json.loads(base64.b64decode(document["payload"]))
        predicate = document["predicate"]
        part = damage.random.choice([document, predicate, predicate["certificate"], predicate.get("terms", predicate)])
        for _ in range(damage.random.choice([1, 1, 1, 2, 4])):
            damage.change(part)
        contents.append(dumped(shape(document, None)))
    passed = 0
    for i, content in enumerate(contents):
        outcome, _ = verified(browser, certificate=content)
        expected, checks = by_package(content)
        assert outcome == expected, (i, checks, content[:3_000])
        passed += outcome == "PASS"
    assert 0 < passed < len(contents) / 2


@pytest.mark.parametrize(
    "content",
    [
        *(
            b"",
            b" ",
            b"\xef\xbb\xbf{}",
            b"\xff\xfe",
            b"null",
            b"[]",
            b"{}",
            b"NaN",
            b"01",
            b"1e999",
            b"[1,]",
            b"{'a': 1}",
        ),
        *(b'{"a": 1, "a": 2}', b'{"a": 1} x', b'"\\ud800"', b'"\x01"', b"[" * 100_000, b'{"a":[' * 30_000, b"-"),
        *(b"9" * 5_000, b'{"predicateType": "https://certifare.readthedocs.io/certificate/v99"}'),
        b'{"predicateType": "https://certifare.readthedocs.io/certificate/v1"}',
        b'{"payload": "!", "signatures": [{"sig": ""}]}',
        b'{"__proto__": {"predicateType": "x"}}',
    ],
)
def test_what_is_no_certificate_is_refused(browser, content):
    assert verified(browser, certificate=content) == ("FAIL", {"form": False})


@pytest.mark.parametrize(
    "terms",
    [
        *(None, [], "Bank", {"owner": "Bank"}, {"constructor": "Bank"}, {"__proto__": {}}, {"producer": 3}),
        *({"producer": ""}, {"producer": " "}, {"producer": " Bank"}, {"purpose": "scoring\u00a0"}),
        *({"producer": "x" * 201}, {"purpose": "x" * 501}, {"producer": "\U0001f3e6" * 201}),
        *({"producer": "Bank\nof Ghent"}, {"purpose": "scoring\u202e gnirocs"}, {"producer": "Bank\u200b"}),
        *({"producer": "Bank\u2028of Ghent"}, {"producer": "Bank\ue000"}, {"producer": "Bank\U000e0041"}),
        *({"valid_until": day} for day in ("", "31.12.2030", "2030-02-30", "20301231", "2030-12-31\n", "0000-01-01")),
        *({"valid_until": day} for day in ("2030-13-01", "2030-00-10", "+12030-01-01", "2030-12-31T00:00:00Z", 2030)),
    ],
)
def test_malformed_terms_are_refused(browser, terms):
    content = documents.changed(documents.plain(terms=TERMS), "predicate", "terms", to=terms)
    assert verified(browser, certificate=content) == by_package(content) == ("FAIL", {"form": False})


@pytest.mark.parametrize(
    "terms",
    [
        *({}, {"producer": None, "purpose": None, "valid_until": None}, {"producer": "\U0001f3e6" * 200}),
        *(
            {"purpose": "x" * 500},
            {"producer": "बैंक\u200d"},
            {"producer": "株式\u3000会社"},
            {"valid_until": "9999-12-31"},
        ),
    ],
)
def test_unusual_terms_are_read_and_need_the_version_that_has_them(browser, terms):
    content = documents.changed(documents.plain(terms=TERMS), "predicate", "terms", to=terms)
    assert verified(browser, certificate=content) == by_package(content)
    assert verified(browser, certificate=content)[0] == "PASS"
    older = documents.changed(content, "predicateType", to="https://certifare.readthedocs.io/certificate/v3")
    outcome, checks = verified(browser, certificate=older)
    assert (outcome, checks) == by_package(older)
    assert checks["statement"] is False
    without = documents.changed(
        documents.plain(), "predicateType", to="https://certifare.readthedocs.io/certificate/v4"
    )
    assert verified(browser, certificate=without)[1]["statement"] is False


@pytest.mark.slow
def test_the_same_characters_are_refused_in_terms(browser):
    """Every code point, at the edge and inside; but for those of which Unicode versions disagree whether they exist."""
    function = """() => {
      const accepted = text => { try { visible(9)(text, ""); return true; } catch { return false; } }, found = [];
      for (let code = 0; code < 0x110000; code++) {
        const character = String.fromCodePoint(code);
        if (accepted(`a${character}b`)) found.push(code);
        if (accepted(`a${character}`)) found.push(-code);
      }
      return found;
    }"""
    found, wanted = set(in_page(browser, function)), set()
    for code in range(0x110000):
        character = chr(code)
        if unseen(character) is None:
            wanted |= {code} if character.isspace() else {code, -code}
    different = {chr(abs(code)) for code in found ^ wanted}
    assert {unicodedata.category(character) for character in different} <= {"Cn"}
    assert len(wanted) > 200_000


@pytest.mark.parametrize("days", [1, 0, -1, -400, -3_000])
def test_a_certificate_is_refused_after_its_last_day_in_the_words_of_the_package(browser, days):
    content = documents.plain(terms={"valid_until": last_day(days)})
    outcome, steps = in_page(browser, VERIFY, {"certificate": content})
    (check,) = (check for check in verify_document(content).checks if check.name == "valid until")
    assert ["valid until", check.ok, check.message] in steps
    assert check.ok == (days >= 0)
    assert outcome == ("PASS" if days >= 0 else "FAIL")


@pytest.mark.parametrize(
    ("look", "confidence", "holds"),
    [
        (Look(number=2, spent=0.05), 0.95, False),  # each look at 95 %, both together at 90 %
        (Look(number=2, spent=0.01), 0.96, True),
        (Look(number=2, spent=0.05), 0.99, False),
        (Look(number=2, spent=0.025, planned=2), confidence_of_look(0.95, 2), True),
        (Look(number=1, planned=3), confidence_of_look(0.95, 3), True),
        (Look(number=3, spent=2 * (1 - confidence_of_look(0.9, 7)), planned=7), confidence_of_look(0.9, 7), False),
    ],
)
def test_the_confidence_is_that_of_all_looks_together(browser, look, confidence, holds):
    certificate = documents.certificate(confidence=confidence).at_look(look)
    content = sign(make_statement(certificate), None).to_bytes()
    outcome, checks = verified(browser, certificate=content)
    assert (outcome, checks) == by_package(content)
    assert (checks["confidence"], checks["statement"]) == (holds, True)
    function = "file => jointConfidence(readCertificate(file).certificate)"
    assert in_page(browser, function, content) == certificate.joint_confidence


def test_a_digest_with_a_line_break_is_refused(browser):
    content = documents.changed(documents.plain(), "subject", 1, "digest", "sha256", to="1b" * 32 + "\n")
    assert verified(browser, certificate=content) == by_package(content) == ("FAIL", {"form": False})


def test_every_figure_that_is_changed_is_noticed(browser):
    content = documents.plain()
    certificate = ("predicate", "certificate")
    for place, to in (
        *(((*certificate, "bound"), 0.1), ((*certificate, "estimate"), 0.1), ((*certificate, "lower"), 0.12)),
        *(((*certificate, "parts", 0, "bound"), 0.1), ((*certificate, "counts", "table", 0, 0), 401)),
        *(((*certificate, "assumptions"), []), (("predicate", "claim", "words"), "All is well.")),
        *(((*certificate, "candidates"), 2), (("predicate", "epsilon"), 0.01), (("extra",), 1)),
    ):
        assert verified(browser, certificate=documents.changed(content, *place, to=to))[0] == "FAIL", place


# -- signature and encoder ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    return [new_key(folder / name) for name in ("producer", "stranger")]


def test_a_signature_is_checked_by_webcrypto_and_by_plain_arithmetic(browser, keys):
    (private, public), (_, stranger) = keys
    content = sign(make_statement(documents.certificate(confidence=0.95)), private).to_bytes()
    envelope = json.loads(content)
    payload = base64.b64decode(envelope["payload"])
    altered = documents.changed(content, "payload", to=base64.b64encode(payload + b" ").decode())
    for broken in (False, True):
        # Without WebCrypto the page computes by itself.
        browser.open(PAGE, 1280)
        if broken:
            browser.run("Object.defineProperty(crypto, 'subtle', {value: undefined}); 0")
        assert browser.run("crypto.subtle === undefined") == broken
        for file, key, holds in (
            *((content, public, True), (content, stranger, False), (altered, public, False)),
            (documents.plain(), public, False),
        ):
            outcome, checks = verified(browser, certificate=file, key=key.read_bytes())
            assert checks["signature"] is holds
            assert checks["signature"] == by_package(file, key=key)[1]["signature"]
            assert (outcome == "PASS") == holds
    browser.open(PAGE, 1280)
    assert verified(browser, certificate=content, key=private.read_bytes())[1]["signature"] is False
    assert verified(browser, certificate=content)[1]["signature"] is None


def test_digests_in_plain_arithmetic_are_right(browser):
    function = "texts => texts.map(t => [hex(plainDigest(utf8(t), 256)), hex(plainDigest(utf8(t), 512))])"
    texts = ["", "abc", "x" * 55, "x" * 56, "x" * 111, "x" * 112, "ü" * 200]
    wanted = [[hashlib.new(name, text.encode()).hexdigest() for name in ("sha256", "sha512")] for text in texts]
    assert in_page(browser, function, texts) == wanted


def test_the_encoder_is_the_certified_one_or_another(browser, tmp_path):
    encoder = documents.encoder_file(tmp_path / "encoder.json")
    own = digest_of(EncoderFile.of(encoder).document)
    for certificate, holds in (
        *((documents.certificate(confidence=0.95), True), (documents.in_sequence(own), True)),
        (documents.in_sequence("3d" * 32), False),
    ):
        write_document(tmp_path / "certificate.json", certificate, encoder=encoder)
        content = (tmp_path / "certificate.json").read_bytes()
        outcome, checks = verified(browser, certificate=content, encoder=encoder.read_bytes())
        assert (checks["encoder"], outcome) == (holds, "PASS" if holds else "FAIL")
        assert (outcome, checks) == by_package(content, encoder=encoder)
        assert verified(browser, certificate=content, encoder=encoder.read_bytes() + b" ")[1]["encoder"] is False
    assert verified(browser, certificate=documents.plain(), encoder=encoder.read_bytes())[1]["encoder"] is False


# -- the page -----------------------------------------------------------------------------------------------------


def drop(page, *paths):
    """Choose files as a person does, and wait for the result."""
    node = page.call("Runtime.evaluate", expression="document.getElementById('input')")["result"]["objectId"]
    page.call("DOM.setFileInputFiles", files=[str(path) for path in paths], objectId=node)
    page.run(
        "(async () => { for (let i = 0; i < 600; i++) { await new Promise(r => setTimeout(r, 50));"
        "const words = document.getElementById('verdict').textContent;"
        "if (words && !words.startsWith('Checking') && !document.getElementById('result').hidden) return; } })()"
    )
    return page.run("document.querySelector('#verdict strong').textContent")


@pytest.fixture
def bundle(tmp_path, keys):
    """Files that a producer gives away, with names that try to be more than text."""
    (private, public), _ = keys
    groups = ["<img src=x onerror=alert(1)>", "\u202egroup</script>"]
    certificate = certify_counts(CellCounts([[400, 300], [290, 402], [30, 28]], groups))
    encoder = documents.encoder_file(tmp_path / "encoder.json", 3)
    terms = {**TERMS, "purpose": "<b>Credit</b> scoring"}
    write_document(tmp_path / "certificate.json", certificate, private, encoder=encoder, terms=terms)
    shutil.copy(public, tmp_path / "producer.pub.pem")
    return tmp_path


def test_it_works_from_a_disk_and_asks_for_nothing(page, bundle):
    assert drop(page, *sorted(bundle.iterdir())) == "Every check made here holds"
    steps = page.run("[...document.querySelectorAll('#steps li')].map(e => e.className)")
    assert steps == ["good"] * 8 + ["open"]
    text = page.run("document.body.innerText")
    assert "differ by at most" in text
    assert "percentage points" in text
    assert "<img src=x onerror=alert(1)>" in text  # as text
    assert page.run("document.querySelectorAll('img').length") == 0
    assert "\u202e" not in text
    assert page.requests() == [PAGE.as_uri()]
    assert page.complaints() == []


def stated(page):
    """What the page shows of the producer's terms; None if nothing."""
    return page.run(
        "(e => e.hidden ? null : e.innerText.replace(/[\u2068\u2069]/g, ''))(document.getElementById('terms'))"
    )


def test_what_the_producer_states_is_shown_with_who_signed_it(page, bundle, tmp_path):
    drop(page, bundle / "certificate.json")
    words = stated(page)
    for shown in ("Bank of Ghent", "<b>Credit</b> scoring", "Until 2999-12-31 (UTC)", "anyone may have written this"):
        assert shown in words
    drop(page, bundle / "producer.pub.pem")
    assert "Signed with the key that you gave." in stated(page)
    assert "anyone" not in stated(page)
    plain = tmp_path / "certificate.json"
    plain.write_bytes(documents.plain(terms={"producer": "Bank of Ghent"}))
    drop(page, plain)
    assert "No last day is stated." in stated(page)
    assert "Purpose" not in stated(page)
    plain.write_bytes(documents.plain())
    drop(page, plain)
    assert stated(page) is None


def test_an_expired_certificate_is_shown_red_with_its_date(page, tmp_path):
    expired, day = tmp_path / "certificate.json", last_day(-5)
    expired.write_bytes(documents.plain(terms={**TERMS, "valid_until": day}))
    assert drop(page, expired) == f"Expired on {day}"
    red = page.run("getComputedStyle(document.querySelector('#verdict strong')).color")
    assert page.run("getComputedStyle(document.querySelector('#stated .bad')).color") == red
    assert f"It expired on {day}" in stated(page)
    assert page.run("document.querySelectorAll('#steps .bad').length") == 1
    assert (
        page.run("document.getElementById('claim').className") == "claim"
    )  # it was true, and is no longer answered for
    wrong = documents.changed(expired.read_bytes(), "predicate", "certificate", "bound", to=0.01)
    expired.write_bytes(wrong)
    assert drop(page, expired) == "Do not rely on this certificate"


def test_a_wrong_certificate_is_shown_red_and_its_claim_struck_out(page, bundle, tmp_path):
    wrong = tmp_path / "wrong.json"
    wrong.write_bytes(documents.changed(documents.plain(), "predicate", "certificate", "bound", to=0.01))
    assert drop(page, wrong) == "Do not rely on this certificate"
    assert page.run("document.querySelectorAll('#steps .bad').length") >= 1
    assert "line-through" in page.run("getComputedStyle(document.getElementById('claim')).textDecoration")
    wrong.write_bytes(b"{")
    assert drop(page, wrong) == "Do not rely on this certificate"
    assert page.run("document.getElementById('claim').textContent") == ""


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False), (390, True)])
def test_no_serious_violation_and_nothing_wider_than_the_page(browser, bundle, width, dark):
    browser.open(PAGE, width, dark=dark)
    for _ in range(2):
        assert [v for v in browser.violations() if v[0] in ("serious", "critical")] == []
        assert browser.run("document.documentElement.scrollWidth") <= width
        drop(browser, *bundle.iterdir())


def test_it_can_be_used_with_the_keyboard_alone(page, bundle):
    drop(page, *bundle.iterdir())
    reached = []
    page.run("document.activeElement.blur(); 0")
    for _ in range(5):
        for kind in ("keyDown", "keyUp"):
            page.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
        reached.append(page.run("document.activeElement.id || document.activeElement.tagName"))
    assert {"input", "figures", "again"} <= set(reached)


def test_its_policy_allows_its_own_script_and_style_alone():
    text = PAGE.read_text("utf-8")
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    for tag in ("script", "style"):
        (body,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        own = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{own}'" in policy, f"Put this into the policy: {tag}-src 'sha256-{own}'"
    assert "default-src 'none'" in policy
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|outerHTML", text)


def test_its_colours_are_those_of_the_palette():
    text = PAGE.read_text("utf-8")
    for mode, style in enumerate(re.findall(r":root \{([^}]*)\}", text)):
        for name, colour in re.findall(r"--(\w+): (#\w+);", style):
            assert PALETTE[name][mode] == colour, name
