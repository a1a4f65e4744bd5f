"""Reports that several tests use: made from real certificates and real encoders."""

from functools import cache

import numpy as np

from certifare import CellCounts, certify, certify_counts
from certifare.certificates import Exclusion
from certifare.document import make_statement, sign, write_document
from certifare.encoders import BoostedEncoder, CalibratedEncoder, FairTreeEncoder
from certifare.report import describe_encoder, report_data
from certifare.tables.table import Table

SCRIPT = '<script>document.title = "taken over"</script>'
HOSTILE = [SCRIPT, '"><img src=x onerror=alert(1)>', "'}</style></svg>", "datum.x + [0]", "long " * 60]


def people(n=3000, seed=0):
    """Records of people in which group and label hang together a little."""
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    group = rng.random(n) < 0.4
    age = rng.integers(18, 80, n)
    job = rng.choice(["cook", "nurse", "clerk", "driver"], n, p=[0.3, 0.2, 0.3, 0.2])
    hours = np.clip(rng.normal(38, 9, n) + 3 * group, 1, 90).round()
    label = (age / 80 + hours / 90 + 0.2 * (job == "nurse") + rng.normal(0, 0.3, n)) > 1.0
    return pa.table(
        {
            "age": age,
            "job": job,
            "hours": hours,
            "sex": np.where(group, "m", "f"),
            "paid": np.where(label, "yes", "no"),
        }
    )


def table(n=3000, seed=0):
    return Table.from_frame(people(n, seed), label="paid", sensitive="sex")


ENCODERS = {
    "tree": lambda: FairTreeEncoder(gamma=0.5, max_cells=9, min_cell_size=40),
    "calibrated": lambda: CalibratedEncoder(target=0.2, max_cells=5, folds=2),
    "boosted": lambda: BoostedEncoder(gamma=0.5, max_cells=7, grid=10, folds=2),
}


@cache
def fitted(kind):
    """An encoder, and its certificate on other records."""
    train, fresh = table(seed=0), table(seed=1)
    encoder = ENCODERS[kind]().fit(train.features, train.y, sensitive_features=train.sensitive)
    return encoder, certify(encoder, fresh.features, sensitive_features=fresh.sensitive)


def bundle(folder, kind="tree", **context):
    """Save an encoder and its certificate; the path of the encoder's file, and the document."""
    encoder, certificate = fitted(kind)
    path = folder / "encoder.json"
    encoder.save(path)
    context = {"reading": {"sensitive": ["sex"], "label": "paid"}, "created": "2030-01-31T12:00:00Z", **context}
    return path, write_document(folder / "certificate.json", certificate, encoder=path, **context)


def frontier(bound, n=20, seed=3):
    rng = np.random.default_rng(seed)
    bounds = rng.uniform(0.02, 0.4, n)
    points = [
        {
            "kind": ("tree", "boosted")[i % 2],
            "gamma": 0.5,
            "cells": int(rng.integers(2, 40)),
            "bound": float(b),
            "accuracy": float(0.7 + 0.3 * b - rng.uniform(0, 0.05)),
            "retained": 0.2,
        }
        for i, b in enumerate(bounds)
    ]
    return [*points, {"kind": "tree", "gamma": 0.9, "cells": 9, "bound": bound, "accuracy": 0.8, "retained": None}]


def encoder_report(folder, kind="tree", **context):
    path, document = bundle(folder, kind, **context)
    points = frontier(document.certificate.bound)
    return report_data(document, encoder=describe_encoder(path), frontier=points, chosen=len(points) - 1, target=0.3)


def performance(accuracy):
    def interval(value):
        return {"lower": value - 0.01, "estimate": value, "upper": value + 0.01, "confidence": 0.95}

    figures = {"accuracy": accuracy, "auc": 0.812, "explained": 0.341, "distance": 0.012}
    return {name: interval(value) for name, value in figures.items()} | {
        "records": 3000,
        "baseline": 0.6,
        "worthless": False,
        "little": False,
    }


def whole_report(folder):
    """A report with all sections, as a bundle has them: measured, compared, and chosen among many encoders."""
    from certifare.encoders import load_encoder
    from certifare.report.evaluation import evaluate

    path, document = bundle(
        folder,
        "boosted",
        dataset="Applicants of 2029",
        terms={
            "producer": "Bank of Ghent",
            "purpose": "Credit scoring of private customers",
            "valid_until": "2999-12-31",
        },
    )
    points = frontier(document.certificate.bound, n=120)
    return report_data(
        document,
        encoder=describe_encoder(path),
        frontier=points,
        chosen=len(points) - 1,
        target=0.3,
        measured=performance(0.84),
        boosting=performance(0.86),
        evaluation=evaluate(load_encoder(path), table(seed=1)),
    )


def hostile_report():
    """A report in which every name tries to be markup, with several groups and labels."""
    rng = np.random.default_rng(0)
    shares = [rng.multinomial(3000, rng.dirichlet(np.ones(40) * 5)) for _ in range(10)]
    counts = CellCounts(
        np.stack(shares, axis=1).reshape(40, 5, 2), HOSTILE, ["no", "</svg>" + SCRIPT], [Exclusion(SCRIPT, 12)]
    )
    certificate = certify_counts(counts, "equalized_odds_max")
    columns = {"sensitive": [SCRIPT, "a b"], "label": SCRIPT}
    document = sign(make_statement(certificate, suppress_below=20, command=SCRIPT, reading=columns), None)
    points = [{"kind": SCRIPT, "bound": 0.1, "accuracy": 0.8}, {"kind": "b", "bound": 0.2, "accuracy": 0.9}]
    encoder = {
        "kind": SCRIPT,
        "reads_groups": False,
        "cells": [{"cell": cell, "rules": [SCRIPT, HOSTILE[1]]} for cell in range(40)],
        "nodes": None,
        "map": {
            "x": {"name": SCRIPT, "places": [0.1, 0.5]},
            "y": {"name": HOSTILE[2], "places": [0.1, 0.9]},
            "cells": [[0, 1], [2, 3]],
            "flattened": True,
        },
    }
    return report_data(document, encoder=encoder, frontier=points, chosen=0, target=0.9, files={"certificate": SCRIPT})


def balanced(n_cells):
    """A tree of so many cells, described: each question parts the cells in halves."""
    nodes = []

    def grow(cells, depth, answer):
        if len(cells) == 1:
            nodes.append({"depth": depth, "answer": answer, "question": None, "cell": cells[0]})
            return
        half = len(cells) // 2
        nodes.append({"depth": depth, "answer": answer, "question": f"age ≤ {cells[half]}", "cell": None})
        grow(cells[:half], depth + 1, "yes")
        grow(cells[half:], depth + 1, "no")

    grow(range(n_cells), 0, "")
    return {
        "kind": "fair tree",
        "reads_groups": False,
        "cells": [{"cell": cell, "rules": [f"age is {cell}"]} for cell in range(n_cells)],
        "nodes": nodes,
        "map": None,
    }
