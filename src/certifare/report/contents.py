"""Collect the content of a report as plain data, the same for the page, for paper and for programs."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

import msgspec

from certifare.certificates import Certificate, FixedSequence, difference_limit
from certifare.certificates.chance import distance_by_chance
from certifare.certificates.claims import gaps_of, pair_of, stratum
from certifare.certificates.rounding import percent, percent_up, round_down, round_up
from certifare.certificates.tail import distance_level, raised
from certifare.certificates.wording import plain_claim
from certifare.document import Document, Selection, Verdict, make_statement, sign, verify_document
from certifare.document.verification import ANY
from certifare.errors import ArgumentError
from certifare.foundation.version import VERIFY_PAGE
from certifare.report.guidance import actions, confidence_words, example_rules, scope_of

#: Number of cells that are listed one by one in the explanation of T*; the others are added up.
MOST_CELLS = 24
#: Selection rates at which ratios of rates are listed.
RATES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
FOUR_FIFTHS = 0.8
#: Limit of the number of figures on a page: more would be useless, and need gigabytes.
MOST_SHARES = 100_000
#: Figures of an encoder that was tried.
POINT = ("bound", "accuracy", "auc", "explained", "cells", "gamma", "retained", "step")
METHODS = {
    "exact": "exact bound for a difference of two binomial proportions",
    "calibrated": "quantile of the distance between Dirichlet shares (statistically equivalent blocks)",
}
CORRECTIONS = {
    "none": "One encoder was tried.",
    "holdout": (
        "{tried:,} encoders were tried. The choice was made on other records, and only the chosen encoder was "
        "certified, once."
    ),
    "holdout, several": (
        "{tried:,} encoders were tried. {candidates:,} of them were chosen on other records and then certified "
        "together, so all their certificates hold together and any may be used."
    ),
    "sequence": (
        "{tried:,} encoders were tried. {candidates:,} of them were ordered on other records, from safe to bold, and "
        "tested against the target in that order until one failed; {passed:,} passed. All that passed meet the target "
        "together, so the last of them may be used, and the target is its bound."
    ),
    "simultaneous": (
        "{tried:,} encoders were certified together on the same records, so all their certificates hold together "
        "and any may be chosen."
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
    measured: Mapping[str, Any] | None = None,
    boosting: Mapping[str, Any] | None = None,
    evaluation: Mapping[str, Any] | None = None,
    files: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Collect the content of a report.

    The certificate is verified first, and the report shows the result. If its texts or figures do not follow from its
    counts, the report only shows what failed.

    Parameters
    ----------
    certificate : Document or Certificate
        A document has more information: its signatures, how many encoders were tried, which cells were pooled.
    verdict : Verdict, optional
        The result of :func:`certifare.document.verify_document`; by default the certificate is verified here, without
        key and encoder.
    encoder : mapping, optional
        The result of :func:`certifare.report.describe_encoder`.
    frontier : sequence of mappings, optional
        One entry for each encoder tried, with ``bound``, ``utility`` (or ``accuracy``), whether the bound is
        ``certified`` (by default it is predicted), and, if known, ``accuracy``, ``auc``, ``explained``, ``kind``,
        ``gamma``, ``cells``, ``retained``, ``step`` (its place in the sequence).
    chosen : int, optional
        Position in ``frontier`` of the certified encoder.
    target : float, optional
        The required bound.
    measured, boosting : mapping, optional
        Performance of the cells' majority votes, and of gradient boosting on the table itself, on the certification
        records (:class:`certifare.bundle.Measured`).
    evaluation : mapping, optional
        Feature importance and calibration (:func:`certifare.report.evaluation.evaluate`).
    files : mapping, optional
        Names of the files in the commands that verify them: ``certificate``, ``encoder``, ``key``.

    Returns
    -------
    dict
        Only strings, numbers, lists and dictionaries.

    Examples
    --------
    >>> from certifare import CellCounts, certify_counts
    >>> c = certify_counts(CellCounts([[1200, 800], [300, 600]], groups=["f", "m"]))
    >>> data = report_data(c, target=0.3)
    >>> data["target"]["met"], [group["records"] for group in data["groups"]]
    (True, [1500, 1400])
    """
    if target is not None and not 0.0 <= target <= 1.0:
        raise ArgumentError(f"target={target}: give a distance in [0, 1].")
    document = certificate if isinstance(certificate, Document) else sign(make_statement(certificate), None)
    if verdict is None:
        verdict = verify_document(document, ANY)
    stated, found = document.statement.predicate, document.certificate
    about = {
        "format": "certifare/report",
        "version": 3,
        "id": document.id,
        "verification": {**verdict.to_dict(), "words": _verification(verdict)},
        **_signed_by(document, verdict),
        "look": {
            "number": found.look,
            "spent": found.spent,
            "joint_confidence": found.joint_confidence,
            "words": found.look_words,
            "short": _look(found),
        },
        "dataset": stated.dataset,
        "scope": scope_of(document),
        "created": stated.created,
        "tool": f"{stated.tool.name} {stated.tool.version}",
    }
    if not verdict.figures_hold:
        return {**about, "figures": None}
    if encoder is not None and len(encoder["cells"]) != found.counts.n_cells:
        raise ArgumentError(
            f"The encoder has {len(encoder['cells']):,} cells, but the certificate has {found.counts.n_cells:,}."
        )
    shown = found.counts.n_cells * len(found.counts.groups)
    if shown > MOST_SHARES:
        raise ArgumentError(
            f"A report shows the share of each group in each cell, but {shown:,} shares are too many (at most "
            f"{MOST_SHARES:,}). Use `certifare verify` and `certifare show`, which need no report."
        )
    sizes = found.counts.group_sizes
    # The worst first: in a sequence all bounds are the target, and estimates decide.
    worst = sorted(found.parts, key=lambda part: (part.bound, part.estimate), reverse=True)
    order = [part.attribute for part in worst]
    of_each: list[tuple[str | None, float]] = [*found.of_each.items()] or [(None, found.bound)]
    cells = _cells(found, found.pools, encoder)
    four_fifths = _four_fifths(found)
    little = bool(measured and measured.get("little", measured["worthless"]))
    return {
        **about,
        "headline": plain_claim(found),
        "claim": {"words": stated.claim.words, "formula": stated.claim.formula},
        "metric": found.claim.distance.words,
        "figures": {
            "bound": found.bound,
            "bound_text": round_up(found.bound),
            "estimate": found.estimate,
            **_reading_the_estimate(found),
            "lower": found.lower,
            "lower_text": round_down(found.lower),
            "confidence": found.confidence,
            "confidence_text": percent(found.joint_confidence),
            "confidence_words": confidence_words(found),
            "epsilon_used": found.epsilon_used,
            "epsilon_words": _epsilon_words(found, stated.epsilon),
            "method": METHODS[found.method],
            "cells": found.counts.n_cells,
            "records": found.counts.n_records,
        },
        "target": None if target is None else {"value": float(target), "met": verdict.passed and found.bound <= target},
        "groups": [{"name": name, "records": n, "share": n / sum(sizes.values())} for name, n in sizes.items()],
        "pairs": [
            {"attribute": None, **msgspec.to_builtins(part), "groups": list(part.groups), "records": list(part.records)}
            for part in worst
        ],
        "attributes": [
            {"name": name, "bound": bound}
            for name, bound in sorted(of_each, key=lambda entry: (-entry[1], order.index(entry[0])))
        ],
        "given": found.claim.given,
        "intersection": found.intersection,
        "left_out": list(found.claim.left_out),
        "meaning": _meaning(found),
        "follows": list(found.what_follows()),
        "cells": cells,
        "plan": _plan(found),
        "frontier": _frontier(frontier, chosen),
        "encoder": None if encoder is None else {**encoder, "nodes": _nodes(encoder["nodes"], cells["rows"])},
        "four_fifths": four_fifths,
        "example": example_rules(cells, encoder, stated.reading.positive if stated.reading else None),
        "actions": actions(document, verdict, four_fifths, little),
        "measured": [
            {"name": name, "little": figures["worthless"], **figures}
            for name, figures in (("the cells' majority votes", measured), ("gradient boosting on the table", boosting))
            if figures is not None
        ],
        **{name: (evaluation or {}).get(name) for name in ("importances", "retained", "calibration")},
        "sequence": _sequence(found.sequence),
        "selection": _selection(stated.selection, found),
        "suppression": None
        if stated.suppression is None
        else {
            "below": stated.suppression.below,
            "pooled": [list(pool) for pool in found.pools],
            "still_small": list(stated.suppression.still_small),
        },
        "columns": {
            "sensitive": list(stated.reading.sensitive) if stated.reading else [],
            "label": stated.reading.label if stated.reading else None,
        },
        "population": list(found.population),
        "weights": list(found.cap_words),
        "exclusions": [msgspec.to_builtins(exclusion) for exclusion in found.exclusions],
        "assumptions": list(found.assumptions),
        "not_claimed": list(found.not_claimed),
        "verify": _verify(document, {"certificate": "certificate.json", **(files or {})}),
        "verify_page": VERIFY_PAGE,
        "subjects": [{"name": s.name, "sha256": s.digest.sha256} for s in document.statement.subject],
        "command": stated.command,
    }


def _signed_by(document: Document, verdict: Verdict) -> dict[str, Any]:
    """Return who made the certificate, and whether the signatures were checked: a name in a file proves nothing."""
    name, keys = document.statement.predicate.stated_terms.producer, [each.keyid for each in document.signatures]
    checked = next((check.ok for check in verdict.checks if check.name == "signature"), None)
    words = {True: "checked", False: "does not hold", None: "not checked"}[checked] if keys else "not signed"
    producer = f"{name}, by an unsigned statement" if name else "not known"
    if keys:
        holder = f"holder of {' and '.join(f'key {key[:16]}…' for key in keys)}"
        producer = (f"{name}, " if name else "") + holder + ("" if checked else ", by its own account")
    return {"producer": producer, "signature": {"keys": keys, "checked": checked, "words": words}}


def _look(certificate: Certificate) -> str:
    """Describe in a few words which look at the certification records this is; the claim has a full sentence."""
    if certificate.look is None:
        return "not counted"
    planned = "" if certificate.planned_looks is None else f" of {certificate.planned_looks:,} planned"
    return f"number {certificate.look:,}{planned}, by the producer's ledger"


def _verification(verdict: Verdict) -> str:
    """Summarise the verification in a few words."""
    if verdict.failures:
        return f"fails: {', '.join(check.name for check in verdict.failures)}"
    unchecked = f"; not checked: {', '.join(check.name for check in verdict.unchecked)}" if verdict.unchecked else ""
    return f"{sum(check.ok is True for check in verdict.checks)} checks hold{unchecked}"


def _selection(selection: Selection, certificate: Certificate) -> str:
    """Describe how many encoders were tried, and how the confidence accounts for it."""
    several = selection.correction == "holdout" and certificate.candidates > 1
    words = CORRECTIONS["holdout, several" if several else selection.correction]
    passed = 0 if certificate.sequence is None else certificate.sequence.passed
    return words.format(tried=selection.tried, candidates=certificate.candidates, passed=passed)


def _sequence(sequence: FixedSequence | None) -> dict[str, Any] | None:
    """Return the tests against the target, with each encoder's own bound, which is not claimed."""
    if sequence is None:
        return None
    steps = [
        {"step": i, "cells": step.cells, "limit": step.limit, "met": step.limit <= sequence.target}
        for i, step in enumerate(sequence.steps, 1)
    ]
    return {"target": sequence.target, "length": sequence.length, "passed": sequence.passed, "steps": steps}


def _epsilon_words(certificate: Certificate, epsilon: float) -> str:
    """Explain ε, and the part of it that each bound used."""
    words = (
        f"ε\u00a0=\u00a0{epsilon:.6g} is the probability, over samples, that T* is below the distance that it bounds: "
        f"the confidence is 1\u00a0−\u00a0ε = {percent(certificate.confidence)}."
    )
    used = certificate.epsilon_used
    if certificate.tail is not None:
        words = f"{words} A tenth of each bound's share of ε is for the weight above the cap."
    if certificate.sequence is not None:
        words = (
            f"{words} Each encoder was tested with all of ε; L, and bounds for single classifiers, use ε divided by "
            f"{certificate.candidates:,}, because the encoder was chosen on these records."
        )
    elif math.isclose(used, epsilon):
        return f"{words} All of ε was used for this encoder."
    several = certificate.candidates > 1 and certificate.sequence is None
    shared = [f"{certificate.candidates:,} encoders"] if several else []
    if certificate.claim.distance.combine == "mean":
        shared.append(f"{len(certificate.counts.labels or ()):,} labels")
    if not shared:
        return words
    return f"{words} {' and '.join(shared)} share ε, so each bound was computed with ε\u00a0=\u00a0{used:.6g}."


def _meaning(certificate: Certificate) -> str | None:
    """Illustrate the bound for one selection rate, if it is about whole groups."""
    metric = certificate.claim.distance
    if metric.labelled or certificate.bound >= 1.0:
        return None
    # In percent, from the rounded bound, so that the limits are exact and rounded outwards.
    rate, shift, digit = Decimal(30), 100 * Decimal(round_up(certificate.bound)), Decimal("0.1")
    low = max(Decimal(0), rate - shift).quantize(digit, ROUND_FLOOR)
    high = min(Decimal(100), rate + shift).quantize(digit, ROUND_CEILING)
    return (
        f"With the stated confidence, a classifier that selects {rate} % of one group selects between {low} % and "
        f"{high} % of any other."
    )


def _cells(
    certificate: Certificate, pooled: Sequence[Sequence[int]], encoder: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return each cell's share of each group in the stratum of the worst pair, and how its bound is composed."""
    worst = certificate.worst
    counts = stratum(certificate.claim.counts_of(certificate.counts, worst.attribute), worst.label)
    first, second = (counts.groups.index(group) for group in worst.groups)
    sizes = [max(1, int(size)) for size in counts.table.sum(axis=0)]
    rules = {int(entry["cell"]): list(entry["rules"]) for entry in encoder["cells"]} if encoder else {}
    shown_in = {cell: pool[0] for pool in pooled for cell in pool}
    names = {pool[0]: f"{pool[0]} +{len(pool) - 1}" for pool in pooled}
    rows = []
    for cell, records in enumerate(counts.table.tolist()):
        shares = [n / size for n, size in zip(records, sizes, strict=True)]
        rows.append(
            {
                "cell": cell,
                "name": names.get(cell, str(cell)),
                "rules": rules.get(cell, []),
                "pool": shown_in.get(cell),
                "groups": [{"records": n, "share": share} for n, share in zip(records, shares, strict=True)],
                "difference": shares[first] - shares[second],
            }
        )
    own, tail = worst.bound, certificate.tail
    pair = pair_of(certificate.claim, certificate.counts, worst)
    above = 0.0 if tail is None else tail.share(certificate.counts, pair, certificate.epsilon_used)
    if certificate.sequence is not None:
        n0, n1, m = certificate.sequence.steps[certificate.sequence.passed - 1].statistics[
            certificate.parts.index(worst)
        ]
        level = distance_level(certificate.epsilon_used, capped=certificate.tail is not None)
        own = raised(max(0.0, difference_limit(n0, n1, m, level)), above)
    # With capped weights: before the weight above the cap is added.
    by_chance = own if certificate.tail is None else max(worst.estimate, (own - above) / max(1.0 - above, 1e-9))
    return {
        "groups": list(counts.groups),
        "pair": list(worst.groups),
        "label": worst.label,
        "rows": rows,
        "estimate": worst.estimate,
        "bound": worst.bound,
        # After a sequence the claim is the target; the pair's own bound is below it.
        "own": own,
        "by_chance": by_chance,
        "whole": worst.bound == certificate.bound,
        "steps": _steps(rows, (first, second)),
    }


def _reading_the_estimate(certificate: Certificate) -> dict[str, Any]:
    """Name the plug-in distance, and say what of it chance alone gives."""
    if certificate.method == "calibrated":
        return {
            "estimate_name": "in the plan",
            "estimate_words": "The dot is the distance of the planned shares; true shares differ by chance.",
            "by_chance_text": None,
        }
    return {
        "estimate_name": "in the sample",
        "estimate_words": "The dot is the distance in the sample.",
        "by_chance_text": f"{distance_by_chance(certificate):.4f}",
    }


def _plan(certificate: Certificate) -> dict[str, Any] | None:
    """Return the share of each group that each cell was given, if the certification records set the thresholds."""
    if certificate.method != "calibrated":
        return None
    gaps = gaps_of(certificate.counts, certificate.positive)
    among = "" if certificate.positive is None else f" with label {certificate.positive!r}"
    cap = "" if certificate.tail is None else " (and of those above the cap)"
    return {
        "words": (
            f"The certification records{among} set the thresholds of each group. The plan gives each cell a share of "
            "every group, and was fixed before any of these records was looked at. T* follows from the planned shares "
            f"and the numbers of records{cap} alone: how far true shares lie from planned ones is known, whatever the "
            "records are like (they are Dirichlet variables), and a distance between two groups is above T* in at most "
            f"{percent_up(certificate.epsilon_used)} of all samples."
        ),
        "rows": [
            {"cell": cell, "shares": shares.tolist()}
            for cell, shares in enumerate(gaps / gaps.sum(axis=0, keepdims=True))
        ],
    }


def _steps(rows: Sequence[Mapping[str, Any]], pair: tuple[int, int]) -> list[dict[str, Any]]:
    """Return the differences from the largest to the smallest, with their running sum.

    The sum rises over the cells with more of the first group, up to the distance in the sample, and falls back to 0
    over the others. If there are many cells, those that differ least are added up.
    """
    shown = sorted((row for row in rows if row["pool"] in (None, row["cell"])), key=lambda row: -row["difference"])
    least = sorted(shown, key=lambda row: abs(row["difference"]))[: max(0, len(shown) - MOST_CELLS)]
    together = {row["cell"] for row in least}
    # In sorted order, those that differ least are in the middle, on both sides of 0.
    parts: dict[Any, list[Mapping[str, Any]]] = {}
    for row in shown:
        more = int(row["difference"] < 0.0)
        parts.setdefault((more, None if row["cell"] in together else row["cell"]), []).append(row)
    steps: list[dict[str, Any]] = []
    total = 0.0
    for (more, cell), members in parts.items():
        difference = math.fsum(row["difference"] for row in members)
        steps.append(
            {
                "name": f"{len(members):,} others" if cell is None else members[0]["name"],
                "more": more,
                "shares": [math.fsum(row["groups"][g]["share"] for row in members) for g in pair],
                "difference": difference,
                "start": total,
                "end": total + difference,
            }
        )
        total += difference
    return steps


def _nodes(nodes: Sequence[Mapping[str, Any]] | None, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]] | None:
    """Add the number of certification records, and the difference of shares, to a tree's nodes.

    Both are None if a pool is partly inside a node, so that they are not published.
    """
    if nodes is None:
        return None
    described: list[dict[str, Any]] = []
    path: list[dict[str, Any]] = []
    for node in nodes:
        entry = {**node, "cells": []}
        del path[node["depth"] :]
        path.append(entry)
        described.append(entry)
        if node["cell"] is not None:
            for ancestor in path:
                ancestor["cells"].append(node["cell"])
    for entry in described:
        inside = set(entry.pop("cells"))
        pools = {rows[cell]["pool"] for cell in inside} - {None}
        known = not any(row["pool"] in pools and row["cell"] not in inside for row in rows)
        entry["records"] = sum(g["records"] for cell in inside for g in rows[cell]["groups"]) if known else None
        entry["difference"] = math.fsum(rows[cell]["difference"] for cell in inside) if known else None
    return described


def _frontier(frontier: Sequence[Mapping[str, Any]] | None, chosen: int | None) -> dict[str, Any] | None:
    """Return the encoders tried, marking those that no other certified (or predicted) one beats."""
    if not frontier:
        return None
    points: list[dict[str, Any]] = [
        {
            "position": i,
            "kind": str(point.get("kind") or "encoder"),
            "chosen": i == chosen,
            "certified": i == chosen or bool(point.get("certified")),
            "best": False,
            **{name: _number(point.get(name)) for name in POINT},
            # The utility by which encoders were compared; other tables may only have the accuracy.
            "utility": _number(point.get("utility", point.get("accuracy"))),
        }
        for i, point in enumerate(frontier)
        if _number(point.get("bound")) is not None
    ]
    for certified in (True, False):
        highest = -math.inf
        of_sort = [p for p in points if p["certified"] is certified and p["utility"] is not None]
        for point in sorted(of_sort, key=lambda p: (p["bound"], -p["utility"])):
            point["best"] = point["utility"] > highest
            highest = max(highest, point["utility"])
    return {"points": points, "chosen": chosen, "certified": sum(point["certified"] for point in points)}


def _number(value: Any) -> float | int | None:
    """Return a number that JSON can represent, or None."""
    if value is None or not math.isfinite(value):
        return None
    return int(value) if float(value).is_integer() and not isinstance(value, float) else float(value)


def _four_fifths(certificate: Certificate) -> dict[str, Any]:
    """Return the selection rates from which a ratio of 0.8 follows, in the form that is proved for the metric."""
    limits: list[dict[str, Any]] = []
    for label, among in certificate.cases("impact_ratio"):
        rate = certificate.rate_for_impact_ratio(FOUR_FIFTHS, label=label)
        ratios = {r: certificate.impact_ratio(r, label=label) for r in RATES}
        limits.append(
            {
                "label": label,
                "among": among,
                "bound": certificate.bound if label is None else certificate.within(label),
                "rate": rate,
                "words": _ratio_in_words(rate, among, percent(certificate.confidence)),
                "ratios": [{"rate": r, "ratio": ratio, "holds": ratio >= FOUR_FIFTHS} for r, ratio in ratios.items()],
            }
        )
    whole, stratum = not certificate.claim.labelled, certificate.claim.stratum
    return {
        "title": "Four-fifths rule" if whole else f"Ratios of selection rates within a {stratum}",
        "limits": limits,
        # The chart and the table show the largest bound; the others are better.
        "largest": max(range(len(limits)), key=lambda i: limits[i]["bound"]),
    }


def _ratio_in_words(rate: float | None, among: str, confidence: str) -> str:
    within = f" {among}" if among else ""
    if rate is None:
        return f"The bound is too large for a ratio of 0.8 to follow from it at any selection rate{within}."
    words = (
        f"ny classifier on these cells that selects at least {percent_up(rate)} of the group it selects most has "
        f"{'a ratio of selection rates' if among else 'an impact ratio'} of at least 0.8"
    )
    words = f"{among[0].upper()}{among[1:]}, a{words}" if among else f"A{words}"
    return f"{words}, with {confidence} confidence. Below that rate the certificate does not guarantee it."


def _verify(document: Document, files: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the commands that verify the certificate, each with a description."""
    base = f"certifare verify {shlex.quote(files['certificate'])}"
    encoder = f" --encoder {shlex.quote(files.get('encoder', 'encoder.json'))}"
    commands = [{"what": "Recompute every figure from the counts in the certificate.", "command": base}]
    if document.signatures:
        key = f" --key {shlex.quote(files.get('key', 'producer.pub.pem'))}"
        commands.append({"what": "Check the signature, too. Get the key from the producer.", "command": base + key})
        base += key
    if document.statement.digest_of("encoder") is not None:
        base += encoder
        commands.append({"what": "Check that your encoder is the certified one, byte by byte.", "command": base})
        if document.statement.predicate.reading is not None:
            own = f"{base} --data fresh.csv"
            commands.append({"what": "Certify the encoder again on your own records.", "command": own})
    return commands
