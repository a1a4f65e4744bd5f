"""Whether a table is ready for ``fit``: roles, groups, findings, the T* within reach and the time, without a look.

The table is read, split and checked exactly as ``fit`` does it (:func:`~certifare.frontier.sweeping.open_search`), and
nothing is fitted.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from certifare.certificates.bounding import Evidence
from certifare.certificates.calibrated import CALIBRATED_METRICS
from certifare.certificates.claims import Claim
from certifare.certificates.counts import CellCounts
from certifare.certificates.exact import epsilon_at
from certifare.certificates.issuing import issue
from certifare.certificates.planning import PlanRow, plan_table
from certifare.errors import ArgumentError, CertifareError, FileError, RoleError
from certifare.foundation.formatting import amount, listing
from certifare.foundation.levels import Levels
from certifare.frontier.calibrating import CalibratedSearch
from certifare.frontier.large import is_large
from certifare.frontier.search import Search
from certifare.frontier.settings import Grid
from certifare.frontier.sweeping import SEARCH_KEYWORDS, default_parts, open_search
from certifare.tables.files import CsvDialect, read_file
from certifare.tables.frames import is_categorical, single_array
from certifare.tables.quality import TableFinding, as_notes
from certifare.tables.roles import Roles, as_names
from certifare.tables.splitting import CERTIFY
from certifare.tables.table import Table, arrow_table, table_of

#: Words in the names of columns that are often sensitive, and often labels, the likeliest first.
SENSITIVE_WORDS = (
    "sex", "gender", "race", "ethnicity", "ethnic", "religion", "disability", "nationality", "origin", "age",
)  # fmt: skip
LABEL_WORDS = (
    "label", "target", "outcome", "y", "approved", "accepted", "granted", "admitted", "hired", "income", "default",
    "readmitted", "recidivism", "recid", "churn", "passed", "class",
)  # fmt: skip
#: The most values of a column that is guessed to be the label, or sensitive.
FEW_LABELS, FEW_GROUPS = 10, 30
#: Numbers of cells whose calibrated T* is shown.
SHOWN_CELLS = (2, 4, 8)
#: Seconds of a run at its start and end, and for a million values of training records: fitting scores, and each growth.
START, SCORES, GROWTH = 4.0, 4.0, 0.1
ROLE_NAMES = frozenset(field.name for field in fields(Roles))


@dataclass(frozen=True, kw_only=True)
class Readiness:
    """What was found about a table before an encoder is fitted to it.

    Attributes
    ----------
    records : int
    label, sensitive : tuple of str
        The columns of these roles.
    guessed : tuple of str
        Roles that were guessed from names and values: ``label``, ``sensitive``.
    columns : tuple of dict
        Name, role, kind and number of missing values of each column (:meth:`Table.summary`).
    labels : dict
        For each label, its values with their numbers of records.
    groups : dict
        The groups with their numbers of records.
    certification : dict
        The groups with their numbers of certification records that the metric is about; empty if ``fit`` would stop.
    least_bound : float or None
        T* of two cells that hold equal shares of every group: no encoder that does not read the group gets below it.
    plans : tuple of PlanRow
        T* of calibrated cells (``group_aware``), by their number.
    seconds : float or None
        About how long ``fit`` takes with two cores.
    findings : tuple of TableFinding
        What is wrong or odd, errors first.
    """

    records: int
    label: tuple[str, ...]
    sensitive: tuple[str, ...]
    guessed: tuple[str, ...] = ()
    columns: tuple[dict[str, Any], ...] = ()
    labels: Mapping[str, Mapping[str, int]]
    groups: Mapping[str, int]
    certification: Mapping[str, int]
    least_bound: float | None = None
    plans: tuple[PlanRow, ...] = ()
    seconds: float | None = None
    findings: tuple[TableFinding, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether ``fit`` would run."""
        return not any(finding.severity == "error" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {"ready": self.ready, **msgspec.to_builtins(self)}


def check_table(
    table: Any,
    *,
    label: str | Sequence[str] = (),
    sensitive: str | Sequence[str] = (),
    target: float | None = None,
    grid: Grid | None = None,
    **keywords: Any,
) -> Readiness:
    """Check a table as :func:`certifare.produce` would before it fits anything; no look is spent.

    Parameters
    ----------
    table : dataframe or path
    label, sensitive : str or sequence of str
        Guessed from the names and values of columns if left out.
    target : float, optional
        The T* that ``fit`` would be asked for.
    grid : Grid, optional
    **keywords
        All others of :func:`certifare.produce`, except ``progress``.

    Returns
    -------
    Readiness

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from certifare import check_table
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"x": rng.normal(size=4000), "age": rng.integers(20, 80, 4000)})
    >>> people["paid"] = (people["x"] > 0).astype(int)
    >>> found = check_table(people, label="paid", sensitive="age")
    >>> found.ready, found.findings[0].column
    (False, 'age')
    >>> found = check_table(people, label="paid", sensitive="age>=60")
    >>> found.ready, [finding.text for finding in found.findings]
    (True, ["'x' alone predicts 'paid' almost without error: it may be a copy of the label, or be known only after it"])
    """
    if isinstance(table, Table):
        raise ArgumentError("Give the dataframe or the file: a Table has its roles already.")
    if is_large(table):
        raise ArgumentError("The table is too large for memory: check a sample of its records.")
    source, columns, findings = _opened(table, keywords)
    named = {"label": as_names(label), "sensitive": as_names(sensitive)}
    guessed = tuple(role for role, names in named.items() if not names)
    if guessed:
        named |= _guess(columns, named, guessed)
    dates = _dates(columns, keywords, named)
    findings += dates
    keywords["drop"] = (*as_names(keywords.get("drop")), *(str(finding.column) for finding in dates))
    search = {name: keywords.pop(name) for name in SEARCH_KEYWORDS if name in keywords}
    read = job = None
    try:
        if search.get("label_quantiles") is None:
            read = table_of(source, **named, **keywords)
            job = open_search(read, grid, **search)
        else:
            job = open_search(source, grid, **search, **named, **keywords)
        read = job.table
    except FileError:
        raise
    except CertifareError as error:
        findings.append(_refusal(str(error), (*named["label"], *named["sensitive"])))
    if read is not None:
        left_out = (f"left out: {amount(e.records, 'record')} ({e.reason})" for e in read.exclusions)
        findings += [*(TableFinding("note", None, text) for text in left_out), *read.findings]
    certification: dict[str, int] = {}
    if job is not None:
        findings += [*job.findings, *_besides(job)]
        names = job.table.groups.names  # type: ignore[union-attr]  # a job has groups
        certification = dict(zip(names, job.counted_sizes().tolist(), strict=True))
    least, plans = (None, ()) if job is None else _within_reach(job, search.get("parts") is None)
    if target is not None and least is not None and target < least and not isinstance(job, CalibratedSearch):
        remedy = "ask for a larger target, add records, or let cells read the group (--group-aware)"
        text = f"no encoder can meet the target {target:g}: with these records T* is at least {least:.4f}"
        findings.append(TableFinding("warning", None, text, remedy))
    order = ("error", "warning", "note")
    return Readiness(
        records=0 if read is None else len(read),
        label=named["label"],
        sensitive=named["sensitive"],
        guessed=guessed,
        columns=() if read is None else tuple(read.summary()),
        labels={} if read is None else {levels.name: _counted(levels) for levels in read.labels},
        groups={} if read is None or read.groups is None else _counted(read.groups),
        certification=certification,
        least_bound=least,
        plans=plans,
        seconds=None if job is None else _seconds(job),
        findings=tuple(sorted(findings, key=lambda finding: order.index(finding.severity))),
    )


def _opened(table: Any, keywords: dict[str, Any]) -> tuple[Any, pa.Table, list[TableFinding]]:
    """Return what a table is made from, its columns, and notes on how it was read."""
    if not isinstance(table, str | os.PathLike):
        columns = arrow_table(table)
        return columns, columns, []
    csv = CsvDialect.extract(dict(keywords))
    columns, notes = read_file(table, **csv)
    if keywords.get("sensitive_file") is not None:
        return table, columns, []
    CsvDialect.extract(keywords)
    keywords.pop("sensitive_file", None), keywords.pop("on", None)
    return columns, columns, list(as_notes(notes))


def _dates(columns: pa.Table, keywords: Mapping[str, Any], named: Mapping[str, tuple[str, ...]]) -> list[TableFinding]:
    """Find columns of dates or times without a role, which no encoder reads; the others are checked without them."""
    dates = [field for field in columns.schema if pa.types.is_temporal(field.type)]
    if not dates:
        return []
    roles = Roles.of(None, **named, **{k: v for k, v in keywords.items() if k in ROLE_NAMES})
    used = set(roles.find(columns.column_names).features)
    return [
        TableFinding(
            "error",
            field.name,
            f"{field.name!r} holds dates or times ({field.type})",
            f"leave it out (--drop {shlex.quote(field.name)}), or convert it to numbers, such as the year",
        )
        for field in dates
        if field.name in used
    ]


def _guess(columns: pa.Table, named: Mapping[str, tuple[str, ...]], roles: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Guess the label or the sensitive column from names and numbers of values."""
    taken = {re.split(r"[<>=!]", name)[0].strip() for names in named.values() for name in names}
    values = {
        name: len(column.unique().drop_null())
        for name, column in zip(columns.column_names, columns.columns, strict=True)
        if name not in taken and not pa.types.is_nested(column.type)  # a list is no label, and no group
    }
    found: dict[str, tuple[str, ...]] = {}
    for role, words, most in (("sensitive", SENSITIVE_WORDS, FEW_GROUPS), ("label", LABEL_WORDS, FEW_LABELS)):
        if role not in roles:
            continue
        few = [name for name, n in values.items() if 2 <= n <= most and (name,) not in found.values()]
        ranked = [(words.index(word), name) for name in few for word in _words(name) if word in words]
        # The last column of two values is the label in most tables.
        last = [name for name in few if values[name] == 2 and role == "label"][-1:]
        chosen = min(ranked)[1] if ranked else next(iter(last), None)
        if chosen is None:
            some = f" Columns of few values: {listing(few)}." if few else ""
            raise RoleError(
                f"Which column is the {'label' if role == 'label' else 'sensitive one'}? Name it: --{role}.{some}"
            )
        found[role] = (chosen,)
    return found


def _words(name: str) -> list[str]:
    """Return the words of a column's name, in lower case.

    >>> _words("applicantSex_code")
    ['applicant', 'sex', 'code']
    """
    return re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())


def _refusal(message: str, roles: Sequence[str]) -> TableFinding:
    """Return an error, and the column with a role that it names."""
    return TableFinding("error", next((name for name in roles if repr(name) in message), None), message)


def _besides(job: Search | CalibratedSearch) -> list[TableFinding]:
    """Return the notes of a job that are no findings already: repeated records, pooled groups, missing labels."""
    known = {str(finding) for finding in job.findings}
    return [TableFinding("note", None, note) for note in job.notes if note not in known]


def _counted(levels: Levels) -> dict[str, int]:
    return dict(zip(levels.names, levels.counts().tolist(), strict=True))


def _within_reach(job: Search | CalibratedSearch, usual: bool) -> tuple[float | None, tuple[PlanRow, ...]]:
    """Return the least T* of cells that do not read the group, and T* of calibrated cells."""
    claim, records = job.claim, job.counted_sizes()
    if claim.metric not in CALIBRATED_METRICS or claim.each or claim.given is not None or records.min() < 2:
        return None, ()
    names = job.table.groups.names  # type: ignore[union-attr]  # a job has groups
    even = CellCounts(np.stack([records - records // 2, records // 2]), names)
    least = issue(Evidence(even), Claim(confidence=claim.confidence, min_group_size=1)).bound
    share = default_parts(group_aware=True)[CERTIFY] if usual and isinstance(job, Search) else job.parts[CERTIFY]
    setting = (records * (share / job.parts[CERTIFY])).astype(int).tolist()  # they set thresholds
    return least, plan_table(dict(zip(names, setting, strict=True)), SHOWN_CELLS, epsilon_at(claim.confidence))


def _seconds(job: Search | CalibratedSearch) -> float:
    """Estimate how long a search takes, by the values of its training records and the growths of its grid."""
    table = job.train
    columns = sum(4 if is_categorical(single_array(c).type) else 1 for c in table.features.columns)
    millions = min(len(table), 1_000_000) * columns / 1e6
    growths = 0 if isinstance(job, CalibratedSearch) else len(job.explorer.settings)
    return START + millions * (SCORES + GROWTH * growths)
