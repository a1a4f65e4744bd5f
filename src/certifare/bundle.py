"""The whole job: a table goes in; an encoder, its certificate and a report come out.

Candidates are fitted on the train part and compared on the select part. A shortlist is chosen there, and only then are
the certification records looked at: all encoders of the shortlist are certified on them together, each at ε divided by
their number, so that the best one that meets the target may be taken. ``docs/producer.md`` shows why that is sound.
"""

from __future__ import annotations

import csv
import json
import math
import os
import platform
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from certifare.certificates import CellCounts, Certificate, Exclusion, Interval, certify_counts
from certifare.certificates.certificate import percent
from certifare.certificates.claims import metric_of
from certifare.engines.large import is_large, search_large
from certifare.errors import ArgumentError, CandidateError, OutputError
from certifare.frontier.pareto import knee
from certifare.frontier.search import Progress, Search
from certifare.frontier.settings import Grid
from certifare.frontier.sweep import Frontier, Point
from certifare.frontier.target import CHANCES, records_needed, shortlist
from certifare.ledger import open_ledger
from certifare.split import PARTS
from certifare.storage import atomic_folder, check_folder, write_private
from certifare.table import Table, read_table

Verdict = Literal["PASS", "NO SOLUTION", "DONE"]
#: Files of a bundle, and of its private folder; a folder with anything else in it is not replaced.
BUNDLE_FILES = frozenset({"encoder.json", "certificate.json", "report.html", "frontier.csv"})
PRIVATE_FILES = frozenset({"README.txt", "fingerprint.npz", "run.json"})
PRIVATE_NOTE = """\
Nothing in this folder may be handed on.

fingerprint.npz  tells whoever holds it whether a given record was among the training records.
                 `certifare certify` reads it, to refuse records that the encoder was fitted on.
run.json         how the bundle was made: parts, seed, encoders certified, results on the test records.
"""


@dataclass(frozen=True, slots=True)
class Certified:
    """One encoder of the shortlist, and what its certificate says."""

    point: Point
    certificate: Certificate
    met: bool


@dataclass(frozen=True, slots=True)
class Test:
    """What the chosen encoder does on records that played no part in anything.

    Attributes
    ----------
    records : int
    accuracy : float
        Of the cells' majority votes (votes from training records), among records with a label; the mean over several
        labels.
    baseline : float
        Accuracy of always guessing the most common label.
    distance : float
        Plug-in distance of the worst classifier on the test records; biased upwards.
    classifier : Interval
        Distance of the majority vote itself.
    retained : float
        Retained information.
    """

    records: int
    accuracy: float
    baseline: float
    distance: float
    classifier: Interval
    retained: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        return document


@dataclass(frozen=True, slots=True)
class Advice:
    """What would help where no encoder met the target.

    Attributes
    ----------
    text : str
    records : int or None
        How many records in all would do, at this estimate.
    target : float or None
        Which target would probably be met.
    """

    text: str
    records: int | None = None
    target: float | None = None


@dataclass(frozen=True, eq=False)
class Bundle:
    """The result of :func:`produce`.

    Attributes
    ----------
    verdict : {"PASS", "NO SOLUTION", "DONE"}
        Whether the target was met; DONE where there was none.
    encoder : RestrictedEncoder
        The chosen encoder; without a solution, the one that came closest.
    certificate : Certificate
        Its certificate, valid in any case.
    point : Point
        Its place on the frontier.
    frontier : Frontier
        Every encoder that was tried.
    certified : tuple of Certified
        The shortlist, from bold to safe.
    target : float or None
    test : Test
    advice : tuple of Advice
        What would help where there is no solution.
    exclusions : tuple of Exclusion
    notes : tuple of str
    run : dict
        How it was made, as plain data.
    """

    verdict: Verdict
    encoder: Any
    certificate: Certificate
    point: Point
    frontier: Frontier
    certified: tuple[Certified, ...]
    target: float | None
    test: Test
    advice: tuple[Advice, ...]
    exclusions: tuple[Exclusion, ...]
    notes: tuple[str, ...]
    run: dict[str, Any]

    @property
    def tried(self) -> int:
        """How many encoders the choice was made from."""
        return len(self.frontier)

    def rows(self) -> list[dict[str, Any]]:
        """Return the frontier as plain data, with the chosen encoder marked and the certified ones at their bounds."""
        rows = self.frontier.rows()
        for row in rows:
            row["chosen"] = row["number"] == self.point.number
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON: the result without the frontier."""
        return {
            "verdict": self.verdict,
            "target": self.target,
            "bound": self.certificate.bound,
            "estimate": self.certificate.estimate,
            "lower": self.certificate.lower,
            "confidence": self.certificate.confidence,
            "metric": self.certificate.metric,
            "look": self.run["look"],
            "encoder": self.point.to_dict(),
            "tried": self.tried,
            "certified": [{**c.point.to_dict(), "bound": c.certificate.bound, "met": c.met} for c in self.certified],
            "test": self.test.to_dict(),
            "advice": [msgspec.to_builtins(advice) for advice in self.advice],
            "exclusions": [msgspec.to_builtins(exclusion) for exclusion in self.exclusions],
            "notes": list(self.notes),
        }

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        key: Any = None,
        suppress: int | None = None,
        dataset: str | None = None,
        command: str | None = None,
        replace: bool = False,
    ) -> Path:
        """Write the bundle: a folder that appears as a whole or not at all.

        ``encoder.json``, ``certificate.json``, ``report.html`` and ``frontier.csv`` may be published; what is in
        ``private/`` may not.

        Parameters
        ----------
        folder : path
            Must not exist, or be empty.
        key : path or signer, optional
            Private key that signs the certificate.
        suppress : int, optional
            Pool cells with a count below this in the certificate, and leave the cells' statistics out of the encoder.
        dataset : str, optional
            What the data are called in the certificate and the report.
        command : str, optional
            The command that made the bundle, to be recorded.
        replace : bool
            Replace the folder if it is a bundle.

        Returns
        -------
        Path
        """
        from certifare.document import load_private_key, verify_document, write_document
        from certifare.document.policy import ANY
        from certifare.report import describe_encoder, render_html, report_data

        check_output(folder, replace=replace)
        signer = load_private_key(key) if isinstance(key, str | os.PathLike) else key
        with atomic_folder(folder, replace=is_bundle if replace else None) as temporary:
            encoder_file = temporary / "encoder.json"
            self.encoder.save(encoder_file, statistics=suppress is None)
            document = write_document(
                temporary / "certificate.json",
                self.certificate,
                signer,
                encoder=encoder_file,
                data_digest=self.run["certify_digest"],
                selection={"tried": self.tried, "correction": "holdout"},
                suppress_below=suppress,
                columns={
                    "sensitive": list(self.run["roles"]["sensitive"]),
                    "label": self.run["roles"]["label"][0],
                },
                dataset=dataset,
                command=command,
            )
            rows = self.rows()
            write_rows(temporary / "frontier.csv", rows)
            chosen = next(i for i, row in enumerate(rows) if row["chosen"])
            public = None if signer is None else signer.public_key
            data = report_data(
                document,
                verdict=verify_document(document, ANY, key=public, encoder=encoder_file),
                encoder=describe_encoder(self.encoder),
                frontier=rows,
                chosen=chosen,
                target=self.target,
            )
            (temporary / "report.html").write_text(render_html(data), encoding="utf-8")
            self._save_private(temporary / "private", command)
        return Path(folder)

    def _save_private(self, folder: Path, command: str | None) -> None:
        folder.mkdir(mode=0o700)
        write_private(folder / "README.txt", PRIVATE_NOTE.encode())
        if self.encoder.fingerprint_ is not None:
            self.encoder.fingerprint_.save(folder / "fingerprint.npz")
        log = {**self.run, **self.to_dict(), "command": command}
        write_private(folder / "run.json", (json.dumps(log, ensure_ascii=False, indent=2) + "\n").encode())

    def __str__(self) -> str:
        asked = "" if self.target is None else f" (target {self.target:g})"
        return f"{self.verdict}{asked}: {self.certificate}"


def produce(
    table: Any,
    *,
    target: float | None = None,
    min_cells: int = 2,
    grid: Grid | None = None,
    metric: str = "demographic_parity",
    confidence: float = 0.95,
    positive: str | None = None,
    retain: float = 0.0,
    parts: Mapping[str, float] = PARTS,
    population: str = "clusters",
    min_group_size: int = 30,
    chances: Sequence[float] = CHANCES,
    seed: int = 0,
    n_jobs: int = 2,
    progress: Progress | None = None,
    ledger: bool = True,
    looks: int | None = None,
    **roles: Any,
) -> Bundle:
    """Find, certify and describe an encoder for a table.

    Parameters
    ----------
    table : Table, dataframe or path
        A dataframe or a file needs ``label`` and ``sensitive`` as well.
    target : float, optional
        The largest T* to be accepted. Without it the knee of the frontier is taken.
    min_cells : int
        The fewest cells that the encoder may have.
    grid : Grid, optional
        What to try.
    metric, confidence, positive, min_group_size
        Of the certificate (:func:`certifare.certify_counts`).
    retain : float
        As in :class:`~certifare.FairTreeEncoder`.
    parts : mapping of str to float
        Shares of train, select, certify and test.
    population : {"clusters", "records"}
        With clusters: what the claim is about.
    chances : sequence of float
        With a target: one encoder is certified for each of these probabilities of meeting it. One number means a
        single encoder, at full ε.
    seed : int
    n_jobs : int
        How many growths are fitted at a time.
    progress : callable, optional
        Told what is being done, how much is done and how much there is.
    ledger : bool
        Whether looks at the certification records are counted (:mod:`certifare.ledger`).
    looks : int, optional
        How many looks are planned: each has its share of ε, and all of them hold together with ``confidence``.
    **roles
        ``label``, ``sensitive``, ``weight``, ``cluster``, ``categorical``, ``continuous``, ``drop`` …: for a dataframe
        as in :meth:`Table.from_frame`, for a file as in :func:`read_table`.

    Returns
    -------
    Bundle

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from certifare.frontier import Grid
    >>> from certifare.bundle import produce
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"x": rng.normal(size=6000), "s": rng.integers(0, 2, 6000)})
    >>> people["y"] = (people["x"] + rng.normal(size=6000) > 0).astype(int)
    >>> bundle = produce(people, label="y", sensitive="s", target=0.15, grid=Grid(kinds=["tree"], gammas=[0.5, 0.9]))
    >>> bundle.verdict, bundle.certificate.bound <= 0.15
    ('PASS', True)
    """
    if target is not None and not 0.0 < target <= 1.0:
        raise ArgumentError(f"target={target}: a distance between groups lies in (0, 1].")
    if not chances or not all(0.0 < chance < 1.0 for chance in chances):
        raise ArgumentError(f"chances={tuple(chances)}: give probabilities between 0 and 1.")
    options: dict[str, Any] = {
        "metric": metric,
        "confidence": confidence,
        "positive": positive,
        "retain": retain,
        "parts": parts,
        "population": population,
        "min_group_size": min_group_size,
        "seed": seed,
        "n_jobs": n_jobs,
        "ledger": open_ledger(ledger),
        "looks": looks,
    }
    if isinstance(table, str | os.PathLike) and is_large(table):
        return _choose(search_large(table, grid or Grid(), roles, **options), target, min_cells, chances, progress)
    if isinstance(table, str | os.PathLike):
        table = read_table(table, **roles)
    elif not isinstance(table, Table):
        table = Table.from_frame(table, **roles)
    elif roles:
        raise ArgumentError(f"{', '.join(roles)}: this table has its roles already.")
    return _choose(Search(table, grid or Grid(), **options), target, min_cells, chances, progress)


def _choose(
    search: Search, target: float | None, min_cells: int, chances: Sequence[float], progress: Progress | None
) -> Bundle:
    """Run a search, choose a shortlist, and certify it."""
    search.run(progress=progress)
    allowed = [i for i, candidate in enumerate(search.candidates) if candidate.cells >= min_cells]
    if not allowed:
        most = max(candidate.cells for candidate in search.candidates)
        raise CandidateError(f"No encoder has {min_cells} cells or more; the largest has {most}. Ask for fewer.")
    numbers = _knee(search, allowed) if target is None else _shortlist(search, allowed, target, chances)
    results = search.certify(numbers, progress=progress)
    frontier = Frontier(search, "holdout", dict(zip(numbers, results, strict=True)))
    certified = tuple(
        Certified(frontier.points[number], certificate, target is None or certificate.bound <= target)
        for number, (_, certificate) in zip(numbers, results, strict=True)
    )
    met = [number for number, entry in zip(numbers, certified, strict=True) if entry.met]
    verdict: Verdict = "DONE" if target is None else "PASS" if met else "NO SOLUTION"
    chosen = search.best(met) if met else min(numbers, key=lambda i: frontier.points[i].bound)
    encoder, certificate = results[numbers.index(chosen)]
    if progress is not None:
        progress("testing", 0, 1)
    return Bundle(
        verdict=verdict,
        encoder=encoder,
        certificate=certificate,
        point=frontier.points[chosen],
        frontier=frontier,
        certified=certified,
        target=target,
        test=_test(search, chosen, encoder),
        advice=(*_advice(search, allowed, target), _next_look(search)) if verdict == "NO SOLUTION" and target else (),
        exclusions=certificate.exclusions,
        notes=frontier.notes,
        run=_run(search),
    )


def is_bundle(folder: Path) -> bool:
    """Whether a folder is a bundle and nothing else, its private folder included, so that it may be replaced."""
    private = folder / "private"
    return (
        (folder / "certificate.json").exists()
        and _holds_only(folder, BUNDLE_FILES, {"private"})
        and (not private.exists() or _holds_only(private, PRIVATE_FILES))
    )


def _holds_only(folder: Path, files: Set[str], folders: Set[str] = frozenset()) -> bool:
    with os.scandir(folder) as entries:
        return all(
            (entry.name in files and entry.is_file(follow_symlinks=False))
            or (entry.name in folders and entry.is_dir(follow_symlinks=False))
            for entry in entries
        )


def check_output(folder: str | os.PathLike[str], *, replace: bool = False) -> None:
    """Refuse a folder that a bundle could not be saved in, before any work is done."""
    if not replace and Path(folder).is_dir() and is_bundle(Path(folder)):
        raise OutputError(
            f"{str(folder)!r} holds a bundle already: name another folder, or replace it (--replace; in Python "
            "replace=True)."
        )
    check_folder(folder, replace=is_bundle if replace else None)


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write plain rows as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        for row in rows:
            writer.writerow({k: str(v).lower() if isinstance(v, bool) else v for k, v in row.items()})


def _knee(search: Search, allowed: Sequence[int]) -> list[int]:
    """Choose the knee of the frontier, or what is as accurate within its bound and retains more."""
    bounds = [search.candidates[i].prediction.bound for i in allowed]
    bend = bounds[knee(bounds, [search.candidates[i].accuracy for i in allowed])]
    return [search.best([i for i, bound in zip(allowed, bounds, strict=True) if bound <= bend])]


def _shortlist(search: Search, allowed: Sequence[int], target: float, chances: Sequence[float]) -> list[int]:
    chosen = shortlist(
        [search.candidates[i].outlook for i in allowed],
        target,
        1.0 - search.confidence,
        lambda positions: allowed.index(search.best([allowed[p] for p in positions])),
        chances,
    )
    return [allowed[position] for position in chosen]


def _test(search: Search, number: int, encoder: Any) -> Test:
    candidate = search.candidates[number]
    table = search.test_table()
    cells = np.asarray(encoder.apply(table.features)).astype(np.int64)
    votes = candidate.path.votes(candidate.cells)
    labelled = table.labelled
    right = [float((vote[cells] == y.codes)[labelled].mean()) for vote, y in zip(votes, table.labels, strict=True)]
    common = [np.bincount(y.codes).argmax() for y in search.explorer.train.labels]
    baseline = [float((y.codes == value)[labelled].mean()) for y, value in zip(table.labels, common, strict=True)]
    counts: CellCounts = table.count(cells, candidate.cells, labels=metric_of(search.metric).strata != "all")
    measured = certify_counts(
        counts, search.metric, search.confidence, "mcdiarmid", positive=search.positive, min_group_size=1
    )
    return Test(
        records=len(table),
        accuracy=float(np.mean(right)),
        baseline=float(np.mean(baseline)),
        distance=measured.estimate,
        classifier=measured.for_classifier(votes[0]),
        retained=encoder.retained_information(table.features).mean,
    )


def _advice(search: Search, allowed: Sequence[int], target: float) -> tuple[Advice, ...]:
    """Say what would help: more records, or a larger target."""
    epsilon = 1.0 - search.confidence
    candidates = [search.candidates[i] for i in allowed]
    advice = []
    factors = [records_needed(candidate.outlook, target, epsilon) for candidate in candidates]
    known = [factor for factor in factors if factor is not None]
    certify_records = len(search.certify_sample.table)
    if known and min(known) > 1.0:
        factor = min(known)
        total = _round_up(factor * len(search.table))
        advice.append(
            Advice(
                f"About {total:,} records instead of {len(search.table):,} would do, at this estimate of the distance: "
                f"{_round_up(factor * certify_records):,} of them to certify on, instead of {certify_records:,}.",
                records=total,
            )
        )
    elif not known:
        advice.append(
            Advice("No number of records would do for the encoders that were tried: their distances are too large. "
                   "Values of gamma closer to 1 make them smaller.")
        )  # fmt: skip
    within_reach = min(candidate.prediction.bound + 0.8416 * candidate.prediction.spread for candidate in candidates)
    reachable = math.ceil(1000 * max(within_reach, target + 0.001)) / 1000
    if reachable < 1.0:
        advice.append(Advice(f"A target of {reachable:g} would probably be met with these records.", target=reachable))
    return tuple(advice)


def _next_look(search: Search) -> Advice:
    """Say what another look at the same certification records costs, or how many fresh ones would do."""
    look, confidence = search.look, search.confidence
    n = int(search._certify_sizes().sum())
    fresh = f"As many fresh records ({n:,}) to certify on would keep {percent(confidence)}."
    if look is None:
        return Advice(f"Another run on these records is another look at them, and looks are not counted here. {fresh}")
    if look.planned is not None and look.number < look.planned:
        return Advice(f"This was look {look.number} of {look.planned} that are planned: the next one is paid for.")
    after = look.next(confidence)
    return Advice(
        f"Another run on these records would be look {after.number} at them: all looks would then hold together with "
        f"{percent(after.joint(confidence))} confidence. {fresh}"
    )


def _round_up(number: float) -> int:
    """Two significant digits are enough for a forecast."""
    digits = max(0, math.floor(math.log10(max(number, 1.0))) - 1)
    return math.ceil(number / 10**digits) * 10**digits


def _run(search: Search) -> dict[str, Any]:
    from certifare import __version__

    table = search.table
    return {
        "version": __version__,
        "python": platform.python_version(),
        "source": None if table.source is None else table.source.name,
        "records": search.sizes["all"],
        "roles": {role: list(texts) for role, texts in (table.roles or {}).items()},
        "columns": table.summary(),
        "parts": {name: size for name, size in search.sizes.items() if name != "all"},
        "certification_records": int(search._certify_sizes().sum()),
        "certify_digest": search.certify_digest,
        "look": None
        if search.look is None
        else {**msgspec.to_builtins(search.look), "joint_confidence": search.look.joint(search.confidence)},
        "table_digest": table.digest,
        "seed": search.seed,
        "retain": search.retain,
        "growths": len(search.paths),
    }
