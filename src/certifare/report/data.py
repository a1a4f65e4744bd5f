"""The dictionary that a report is made from: plain data, the same for HTML, Markdown and JSON."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certifare.certificates import CellCounts, Certificate
from certifare.certificates.certificate import WHOLE_GROUPS, percent, percent_up, round_down, round_up
from certifare.certificates.claims import metric_of, stratum
from certifare.certificates.lemmas import clopper_pearson
from certifare.document import Document, Selection, Verdict, sign, statement, verify_document
from certifare.document.policy import ANY
from certifare.errors import ArgumentError

#: Selection rates at which ratios of rates are spelled out.
RATES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
FOUR_FIFTHS = 0.8
METHODS = {
    "exact": "exact bound for a difference of two binomial proportions",
    "mcdiarmid": "closed form (McDiarmid's inequality)",
    "lemmas": "bound of the FARE paper (three lemmas)",
}
CORRECTIONS = {
    "none": "One encoder was tried.",
    "holdout": (
        "{tried:,} encoders were tried. The choice among them was made on other records, and the chosen one alone was "
        "certified, once."
    ),
    "holdout, several": (
        "{tried:,} encoders were tried. {candidates:,} of them were chosen on other records and then certified "
        "together, each with a {candidates:,}th of ε, so that their certificates hold together and any may be taken."
    ),
    "simultaneous": (
        "{tried:,} encoders were certified on the same records, each with a {tried:,}th of ε, so that all their "
        "certificates hold together and any may be chosen."
    ),
}


def report_data(
    certificate: Document | Certificate,
    *,
    verdict: Verdict | None = None,
    encoder: Mapping[str, Any] | None = None,
    frontier: Sequence[Mapping[str, Any]] | None = None,
    chosen: int | None = None,
    target: float | None = None,
    files: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Gather what a report says.

    The certificate is verified first, and the report says what was found. One whose words or figures do not follow from
    its counts is not described at all: its report says what fails, and nothing else.

    Parameters
    ----------
    certificate : Document or Certificate
        A document knows more: who signed it, how many encoders were tried, what was pooled.
    verdict : Verdict, optional
        What :func:`certifare.document.verify_document` found; unless given, the certificate is verified here, without
        key and encoder.
    encoder : mapping, optional
        What :func:`certifare.report.describe_encoder` found in the encoder's file.
    frontier : sequence of mappings, optional
        One entry for each encoder tried, with ``bound``, ``accuracy`` and, where known, ``kind``, ``gamma``,
        ``min_cell_size``, ``cells``, ``retained``, ``estimate``.
    chosen : int, optional
        The position in ``frontier`` of the encoder that was certified.
    target : float, optional
        The bound that was asked for.
    files : mapping, optional
        Names of the files for the commands that verify them: ``certificate``, ``encoder``, ``key``.

    Returns
    -------
    dict
        Strings, numbers, lists and dictionaries only.

    Examples
    --------
    >>> from certifare import CellCounts, certify_counts
    >>> c = certify_counts(CellCounts([[1200, 800], [300, 600]], groups=["f", "m"]))
    >>> data = report_data(c, target=0.3)
    >>> data["target"]["met"], [group["records"] for group in data["groups"]]
    (True, [1500, 1400])
    """
    document = certificate if isinstance(certificate, Document) else sign(statement(certificate), None)
    if verdict is None:
        verdict = verify_document(document, ANY)
    stated = document.statement.predicate
    about = {
        "format": "certifare/report",
        "version": 1,
        "verification": verdict.to_dict(),
        "signature": _signature(document, verdict),
        "created": stated.created,
        "tool": f"{stated.tool.name} {stated.tool.version}",
    }
    if not verdict.figures_hold:
        return {**about, "figures": None}
    found = document.certificate
    if encoder is not None and len(encoder["cells"]) != found.counts.n_cells:
        raise ArgumentError(
            f"The encoder has {len(encoder['cells']):,} cells, and the certificate counts {found.counts.n_cells:,}."
        )
    sizes = found.counts.group_sizes
    return {
        **about,
        "claim": {"words": stated.claim.words, "formula": stated.claim.formula},
        "metric": metric_of(found.metric).words,
        "figures": {
            "bound": found.bound,
            "bound_text": round_up(found.bound),
            "estimate": found.estimate,
            "estimate_text": f"{found.estimate:.4f}",
            "lower": found.lower,
            "lower_text": round_down(found.lower),
            "confidence": found.confidence,
            "confidence_text": percent(found.confidence),
            "epsilon": stated.epsilon,
            "method": METHODS[found.method],
            "cells": found.counts.n_cells,
            "records": found.counts.n_records,
            "effective_size": found.effective_size,
        },
        "target": None if target is None else {"value": float(target), "met": verdict.passed and found.bound <= target},
        "groups": [{"name": name, "records": n, "share": n / sum(sizes.values())} for name, n in sizes.items()],
        "pairs": [
            {
                "groups": list(part.groups),
                "label": part.label,
                "records": list(part.records),
                "estimate": part.estimate,
                "estimate_text": f"{part.estimate:.4f}",
                "bound": part.bound,
                "bound_text": round_up(part.bound),
            }
            for part in found.parts
        ],
        "cells": _cells(found, stated.suppression.pooled if stated.suppression else (), encoder),
        "frontier": _frontier(frontier, chosen),
        "encoder": None if encoder is None else dict(encoder),
        "four_fifths": _four_fifths(found),
        "selection": _selection(stated.selection, found.candidates),
        "suppression": None
        if stated.suppression is None
        else {
            "below": stated.suppression.below,
            "pooled": [list(pool) for pool in stated.suppression.pooled],
            "still_small": list(stated.suppression.still_small),
        },
        "columns": {
            "sensitive": list(stated.columns.sensitive) if stated.columns else [],
            "label": stated.columns.label if stated.columns else None,
        },
        "population": list(found.population),
        "exclusions": [{"reason": e.reason, "records": e.records} for e in found.exclusions],
        "assumptions": list(found.assumptions),
        "not_claimed": list(found.not_claimed),
        "verify": _verify(document, {"certificate": "certificate.json", **(files or {})}),
        "subjects": [{"name": s.name, "sha256": s.digest.sha256} for s in document.statement.subject],
        "command": stated.command,
    }


def _signature(document: Document, verdict: Verdict) -> dict[str, Any]:
    """Say whose signature there is, and whether it was checked: a name in a file proves nothing."""
    checked = next((check.ok for check in verdict.checks if check.name == "signature"), None)
    words = {True: "checked", False: "does not hold", None: "not checked"}[checked]
    return {
        "keys": [signature.keyid for signature in document.signatures],
        "checked": checked,
        "words": words if document.signatures else "not signed",
    }


def _selection(selection: Selection, candidates: int) -> str:
    """Say how many encoders were tried, and how that was paid for."""
    several = selection.correction == "holdout" and candidates > 1
    words = CORRECTIONS["holdout, several" if several else selection.correction]
    return words.format(tried=selection.tried, candidates=candidates)


def _cells(
    certificate: Certificate, pooled: Sequence[Sequence[int]], encoder: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return each cell's share of each group, with limits, in the stratum of the worst pair."""
    worst = certificate.worst
    counts = stratum(certificate.counts, worst.label)
    first, second = (counts.groups.index(group) for group in worst.groups)
    shares, low, high = _shares(counts, 1.0 - certificate.confidence)
    rules = {int(entry["cell"]): list(entry["rules"]) for entry in encoder["cells"]} if encoder else {}
    shown_in = {cell: pool[0] for pool in pooled for cell in pool}
    names = {pool[0]: f"{pool[0]} +{len(pool) - 1}" for pool in pooled}
    rows = []
    for cell in range(counts.n_cells):
        groups = [
            {
                "records": int(counts.table[cell, g]),
                "share": float(shares[cell, g]),
                "low": float(low[cell, g]),
                "high": float(high[cell, g]),
            }
            for g in range(len(counts.groups))
        ]
        rows.append(
            {
                "cell": cell,
                "name": names.get(cell, str(cell)),
                "rules": rules.get(cell, []),
                "pool": shown_in.get(cell),
                "groups": groups,
                "difference": float(shares[cell, first] - shares[cell, second]),
            }
        )
    return {"groups": list(counts.groups), "pair": list(worst.groups), "label": worst.label, "rows": rows}


def _shares(counts: CellCounts, epsilon: float) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the share of each group that falls into each cell, with Clopper–Pearson limits for each by itself."""
    sizes = counts.table.sum(axis=0)
    trials = np.broadcast_to(sizes, counts.table.shape)
    low, high = clopper_pearson(counts.table.ravel(), trials.ravel(), epsilon)
    shape = counts.table.shape
    return counts.table / np.maximum(sizes, 1), np.reshape(low, shape), np.reshape(high, shape)


def _frontier(frontier: Sequence[Mapping[str, Any]] | None, chosen: int | None) -> dict[str, Any] | None:
    if not frontier:
        return None
    points: list[dict[str, Any]] = [
        {
            "position": i,
            "kind": str(point.get("kind") or "encoder"),
            "chosen": i == chosen,
            **{name: _number(point.get(name)) for name in ("bound", "accuracy", "cells", "gamma", "retained")},
        }
        for i, point in enumerate(frontier)
        if _number(point.get("bound")) is not None
    ]
    from certifare.frontier.pareto import pareto

    known = [point for point in points if point["accuracy"] is not None]
    best = {known[i]["position"] for i in pareto([p["bound"] for p in known], [p["accuracy"] for p in known])}
    for point in points:
        point["best"] = point["position"] in best
    return {"points": points, "chosen": chosen}


def _number(value: Any) -> float | int | None:
    """Return a number that may be written as JSON; None where there is none."""
    if value is None or not math.isfinite(value):
        return None
    return int(value) if float(value).is_integer() and not isinstance(value, float) else float(value)


def _four_fifths(certificate: Certificate) -> dict[str, Any]:
    """Say from which selection rates on a ratio of 0.8 follows, in the form that is proved for the metric."""
    limits: list[dict[str, Any]] = []
    for label, among in certificate.cases("impact_ratio"):
        rate = certificate.rate_for_impact_ratio(FOUR_FIFTHS, label=label)
        bound = certificate.bound if label is None else certificate.within(label)
        ratios = {r: certificate.impact_ratio(r, label=label) for r in RATES}
        limits.append(
            {
                "label": label,
                "among": among,
                "bound": bound,
                "bound_text": round_up(bound),
                "rate": rate,
                "rate_text": None if rate is None else percent_up(rate),
                "words": _ratio_in_words(rate, among, percent(certificate.confidence)),
                "ratios": [
                    {
                        "rate": r,
                        "rate_text": f"{100 * r:g} %",
                        "ratio": ratio,
                        "ratio_text": round_down(ratio, 3),
                        "holds": ratio >= FOUR_FIFTHS,
                    }
                    for r, ratio in ratios.items()
                ],
            }
        )
    whole = metric_of(certificate.metric).strata == "all"
    return {
        "title": "What follows for the four-fifths rule"
        if whole
        else "What follows for ratios of rates within a label",
        "whole_groups": None if whole else WHOLE_GROUPS.format(metric=metric_of(certificate.metric).words),
        "limits": limits,
        # What is drawn and listed is the largest limit; the others are better.
        "largest": max(range(len(limits)), key=lambda i: limits[i]["bound"]),
    }


def _ratio_in_words(rate: float | None, among: str, confidence: str) -> str:
    within = f" {among}" if among else ""
    if rate is None:
        return f"The bound is too large for a ratio of 0.8 to follow from it at any selection rate{within}."
    if among:
        words = (
            f"{among[0].upper()}{among[1:]}, any classifier on these cells that selects at least {percent_up(rate)} of "
            "the group it selects most has a ratio of selection rates of at least 0.8"
        )
    else:
        words = (
            f"Any classifier on these cells that selects at least {percent_up(rate)} of the group it selects most has "
            "an impact ratio of at least 0.8"
        )
    return f"{words}, with {confidence} confidence. Below that rate the certificate does not guarantee it."


def _verify(document: Document, files: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the commands that check the certificate, each with what it does."""
    base = f"certifare verify {shlex.quote(files['certificate'])}"
    encoder = f" --encoder {shlex.quote(files.get('encoder', 'encoder.json'))}"
    columns = document.statement.predicate.columns
    sensitive = "".join(f" --sensitive {shlex.quote(name)}" for name in (columns.sensitive if columns else ()))
    commands = [{"what": "Recompute every figure from the counts in the certificate.", "command": base}]
    if document.signatures:
        key = f" --key {shlex.quote(files.get('key', 'producer.pub.pem'))}"
        commands.append({"what": "Check who signed it as well. Get the key from the producer.", "command": base + key})
        base += key
    if document.statement.digest_of("encoder") is not None:
        commands += [
            {"what": "Check that your encoder is the certified one, byte by byte.", "command": base + encoder},
            {
                "what": "Certify the encoder anew on records of your own.",
                "command": f"{base}{encoder} --data fresh.csv{sensitive or ' --sensitive COLUMN'}",
            },
        ]
    return commands
