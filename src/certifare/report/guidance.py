"""What a reader takes from a certificate: examples, its scope, and recommended actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from certifare.certificates.population import whom
from certifare.certificates.rounding import percent, percent_up

if TYPE_CHECKING:
    from certifare.certificates import Certificate
    from certifare.document import Document, Verdict

#: Share of certification records that were left out from which a reader should ask why.
MANY_LEFT_OUT = 0.05


def example_rules(cells: Mapping[str, Any], encoder: Mapping[str, Any] | None, positive: str | None) -> dict[str, Any]:
    """Return the selection rate of each group under example rules, among the certification records.

    - ``encoder``: its cells have the shares of labels among training records, unless it was saved without statistics.
    - ``positive``: the label to select; by default the rarer of two, or the rarest.
    """
    pair = cells["pair"]
    rules = [
        {
            "words": f"the cells with more of {pair[0]} than of {pair[1]}: no rule has a larger difference there",
            "cells": {row["cell"] for row in cells["rows"] if row["difference"] > 0.0},
        }
    ]
    likely = _most_likely(encoder, positive)
    if likely is not None and all(row["pool"] is None for row in cells["rows"]):
        rules.insert(0, likely)
    rates = [
        [sum(row["groups"][g]["share"] for row in cells["rows"] if row["cell"] in rule["cells"]) for rule in rules]
        for g in range(len(cells["groups"]))
    ]
    return {
        "rules": [{"words": rule["words"], "cells": len(rule["cells"])} for rule in rules],
        "label": cells["label"],
        "groups": [
            {"name": name, "rates": [min(1.0, rate) for rate in of_group]}
            for name, of_group in zip(cells["groups"], rates, strict=True)
        ],
    }


def _most_likely(encoder: Mapping[str, Any] | None, positive: str | None) -> dict[str, Any] | None:
    """Return the rule that selects the cells in which most training records have a label; at least the best cell."""
    described = [] if encoder is None else encoder["cells"]
    if not described or any(not cell.get("labels") or not cell.get("records") for cell in described):
        return None
    label, values = next(iter(described[0]["labels"].items()))
    whole = {v: sum(cell["records"] * cell["labels"][label].get(v, 0.0) for cell in described) for v in values}
    if len(whole) < 2:
        return None
    value = positive if positive in whole else min(whole, key=lambda v: whole[v])
    shares = {cell["cell"]: cell["labels"][label].get(value, 0.0) for cell in described}
    least = min(0.5, max(shares.values()))
    words = f"the cells in which at least {percent_up(least)} of the training records have {label} = {value}"
    return {"words": words, "cells": {cell for cell, share in shares.items() if share >= least}}


def scope_of(document: Document) -> dict[str, Any]:
    """Say who answers for the certificate, what it is for, for whom it holds, and until when."""
    stated, found = document.statement.predicate, document.certificate
    terms = stated.stated_terms
    named = "the certification records" if stated.dataset is None else f"the certification records of {stated.dataset}"
    return {
        "producer": terms.producer,
        "purpose": terms.purpose,
        "valid_until": terms.valid_until,
        "validity": (
            "No last day is stated. It holds while new records come from the same population."
            if terms.valid_until is None
            else f"until {terms.valid_until}, while new records come from the same population"
        ),
        "population": f"{whom(found.population)} of the population that {named} were drawn from at random",
    }


def actions(document: Document, verdict: Verdict, four_fifths: Mapping[str, Any], little: bool) -> list[str]:
    """Recommend what to do next, the most urgent first."""
    found, terms = document.certificate, document.statement.predicate.stated_terms
    checks = {check.name: check.ok for check in verdict.checks}
    todo = [] if verdict.passed else ["Do not rely on this certificate: verification failed, as said at the top."]
    if not document.signatures:
        todo.append("Producer: sign it with `certifare sign`, so that readers can check who made it.")
    elif checks.get("signature") is not True:
        todo.append("Get the producer's public key by another way, and check the signature.")
    if little:
        todo.append(
            "Do not expect useful predictions: on the certification records, the cells do no better than chance."
        )
    todo.append("Give models the cells alone. A joined column, or a threshold for each group, is not covered.")
    largest = four_fifths["limits"][four_fifths["largest"]]
    if largest["rate"] is None:
        todo.append("If the four-fifths rule applies to you, check your model's own selection rates: T* is too large.")
    elif largest["rate"] > 0.0:
        todo.append(
            f"If your model selects less than {percent_up(largest['rate'])} of every group and the four-fifths rule "
            "applies to you, check its own rates with `certifare verify --predictions`."
        )
    if _left_out(found) >= MANY_LEFT_OUT:
        todo.append(
            f"Ask why {percent_up(_left_out(found))} of the certification records were left out: the claim is not "
            "about people like them."
        )
    if terms.valid_until is None:
        todo.append("Certify again when the population changes; `certifare monitor` shows when it does.")
    else:
        todo.append(
            f"Certify again on new records before {terms.valid_until}; `certifare monitor` shows earlier changes."
        )
    return todo


def _left_out(certificate: Certificate) -> float:
    """Return the share of certification records that were left out for want of a value."""
    missing = sum(e.records for e in certificate.exclusions if "missing" in e.reason)
    return missing / max(1, missing + certificate.counts.n_records)


def confidence_words(certificate: Certificate) -> str:
    """Return the confidence with which the claim holds, together with those of other looks at the same records."""
    joint = percent(certificate.joint_confidence)
    return f"{joint} confidence" + (", all looks together" if certificate.several_looks else "")
