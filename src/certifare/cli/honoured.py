"""Which options each command honours, and under which conditions: the one declaration of it.

An option is honoured or refused, never ignored. What is not declared here is refused, so that a new option cannot be
forgotten; ``tests/cli/test_honoured.py`` walks every command, every way of calling it, and every option.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certifare.errors import ArgumentError

if TYPE_CHECKING:
    import typer

    from certifare.foundation.storage import FilePath

ALWAYS = "always"

#: Conditions that a command states, and what they are called in messages. An option that was given is a condition too.
CONDITIONS = {
    # Where the records are.
    "records": "a file of records",
    "csv": "a CSV file",
    "binary": "a Parquet or Arrow file",
    "sql": "a database (--sql)",
    "counts": "counts files",
    "memory": "a table that fits into memory",
    "large": "a Parquet file too large for memory, or on a cluster",
    "certificate": "a certificate alone",
    "encoder": "an encoder",
    "stated": "a certificate that says how records are read",
    "unread": "records, and no certificate that says how they are read",
    "undrawn": "a file of records, and no certificate that says how to draw them",
    "unread_csv": "a CSV file, and no certificate that says how it is read",
    # What else was asked for.
    "relabelled": "records with --label",
    "drawn": "--weight or --cluster",
    "clustered": "--cluster",
    "thinned": "--weight, or --cluster with --population records",
    "capped": "a file of records with weights, and without clusters",
    "equal_opportunity": "--metric equal_opportunity",
    "together": "the records of two groups together (--records 800)",
    "positives": "a table with --metric equal_opportunity",
    "group_aware": "--group-aware",
    "unlabelled": "no --label",
    "grown": "--kind boosted or tree",
    "listed": "the cells of an encoder in words (no --json)",
    "certified": "a certificate",
    "printed": "a result that is printed (no --json)",
    "written": "a report that is written (no --json)",
    "as_csv": "an output that ends in .csv",
}


def _when(**options: str) -> dict[str, frozenset[str]]:
    """Turn conditions with the options that need them into options with what they need, one of which must hold."""
    needs: dict[str, frozenset[str]] = {}
    for condition, names in options.items():
        for name in names.split():
            needs[name] = needs.get(name, frozenset()) | {condition}
    return needs


_FILE = "delimiter encoding names"
_CSV = f"{_FILE} missing decimal"
_SEARCH = _when(
    always="output as_json label sensitive categorical drop feature seed kind max_cells split metric confidence "
    "utility min_group_size looks pool_groups label_cuts ledger each given",
    sensitive_file="on",
    memory="sensitive_file weight cluster unknown_groups",
    csv=_CSV,
    cluster="population",
    equal_opportunity="positive",
    grown="gamma min_cell_size group_aware",
    group_aware="tie_column",
)

#: For each command: its options, with the conditions of which one must hold for the option to matter.
HONOURED: Mapping[str, Mapping[str, frozenset[str]]] = {
    "studio": _when(always="folder port browser"),
    "demo": _when(always="output replace target audit_kit seed as_json", printed="verbose"),
    "plan": _when(
        always="stated_records metric target confidence cells as_json",
        together="share",
        records="sensitive",
        positives="label positive",
        csv=_CSV,
    ),
    "check": {**{name: needs for name, needs in _SEARCH.items() if name != "output"}, **_when(always="target")},
    "fit": {
        **_SEARCH,
        **_when(
            always="replace key suppress dataset producer purpose valid_until target min_ratio min_rate",
            binary="engine",
            printed="verbose",
        ),
    },
    "sweep": {**_SEARCH, **_when(always="max_bound")},
    "calibrate": _when(
        always="score sensitive target max_cells label tie_column metric each confidence looks ledger min_group_size "
        "weight cluster unknown_groups seed output replace key dataset producer purpose valid_until as_json",
        unlabelled="select",
        cluster="population",
        equal_opportunity="positive",
        csv=_CSV,
    ),
    "encode": _when(
        always="form keep replace as_json",
        csv=_FILE,
        unread_csv="missing decimal",
        as_csv="spreadsheet_safe",
    ),
    "certify": _when(
        always="metric positive confidence min_group_size looks ledger sql output max_bound as_json column each",
        sensitive_file="on",
        records="sensitive sensitive_file label seed given",
        sql="sensitive label table given",
        # Counts files say which columns they are about; what is asked for must be that.
        counts="sensitive label given",
        unread="label_cuts unknown_groups",
        relabelled="label_cuts",
        undrawn="weight cluster",
        unread_csv="missing decimal",
        clustered="population",
        capped="cap",
        csv=_FILE,
        column="cuts encoder_output",
        output="key suppress dataset producer purpose valid_until",
    ),
    "count": _when(
        always="output sensitive label given sql as_json",
        sql="table",
        unread="unknown_groups",
        undrawn="weight cluster",
        unread_csv="missing decimal",
        clustered="population",
        drawn="seed",
        thinned="max_weight",
        capped="cap",
        csv=_FILE,
    ),
    "verify": _when(
        always="key encoder data certified_on predictions as_json confidence max_bound metric group max_age max_looks"
    ),
    "monitor": _when(
        always="history target confidence periods min_group_size output key sql as_json",
        records="period",
        sql="period table",
        counts="period",
        csv=_FILE,
    ),
    "sign": _when(always="key producer purpose valid_until as_json"),
    "show": _when(always="as_json", listed="cells", certified="key"),
    "explain": _when(always="as_json", csv=_FILE, unread_csv="missing decimal"),
    "sql": _when(always="dialect table as_json"),
    "report": _when(always="key as_json", written="output"),
    "key new": _when(always="passphrase as_json"),
    "key show": _when(always="as_json"),
}

_MEMORY = "Fit on a sample of the records."
_EXTRACT = "A database counts all of its records: export an extract, and run certifare count with {} on the file."
_DRAWN = {option: _EXTRACT.format(f"--{option}") for option in ("weight", "cluster")}
_STATED = dict.fromkeys(
    ("weight", "cluster", "population", "unknown_groups", "label_cuts", "missing", "decimal"),
    "The certificate beside the encoder says how records are read.",
)
#: What to do instead, by command and where its records are.
REMEDIES: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("certify", "counts"): {
        "weight": "The holder of the records thins them: certifare count --weight.",
        "cluster": "The holder of the records draws one of each cluster: certifare count --cluster.",
        "population": "The holder of the records says so: certifare count --cluster --population.",
        "seed": "The holder of the records draws: certifare count --seed.",
        "unknown_groups": "The holder of the records says so: certifare count --unknown-groups.",
        "cap": "Counts of thinned records are by whole weights.",
        "label_cuts": "The holder of the records counts by the bands of the bundle's certificate.",
    },
    ("certify", "sql"): {**_DRAWN, "cap": "A database counts all of its records: leave it out, or certify a file."},
    ("count", "sql"): _DRAWN,
    **{(command, "stated"): _STATED for command in ("certify", "count", "encode", "explain")},
    ("fit", "large"): {
        **dict.fromkeys(("weight", "cluster", "unknown_groups"), _MEMORY),
        "sensitive_file": "Join the files first, in a database for instance (DuckDB reads and writes Parquet).",
    },
}


def refuse_ignored(context: typer.Context, *conditions: str) -> None:
    """Refuse options that were given and would do nothing.

    - ``*conditions``: what holds here, of :data:`CONDITIONS`: first where the records are, which the message names.
    """
    command = _command(context)
    given = {str(p.name): max(p.opts, key=len) for p in context.command.params if _given(context, p)}
    options = {str(p.name): max(p.opts, key=len) for p in context.command.params if p.param_type_name == "option"}
    holds = {ALWAYS, *conditions, *given}
    for name in given:
        if name not in options or holds & HONOURED[command].get(name, frozenset()):
            continue
        needs = sorted(HONOURED[command].get(name, ()))
        words = " or ".join(CONDITIONS.get(need, options.get(need, need)) for need in needs) or "another command"
        where = f" with {CONDITIONS[conditions[0]]}" if conditions else ""
        remedies = [REMEDIES.get((command, condition), {}).get(name) for condition in conditions]
        remedy = next((text for text in remedies if text), "Leave it out.")
        raise ArgumentError(f"{options[name]} would be ignored{where}: it needs {words}. {remedy}")


def of_file(*paths: FilePath) -> tuple[str, ...]:
    """Conditions that files of records bring along."""
    from certifare.tables.files import kind_of

    return ("records", "csv") if any(kind_of(path) == "csv" for path in paths) else ("binary", "records")


def printed(as_json: bool) -> tuple[str, ...]:
    """Conditions of a result that is printed for people."""
    return () if as_json else ("printed",)


def of_records(*paths: FilePath, stated: bool) -> tuple[str, ...]:
    """Conditions of files of records, or of a database's, that a certificate says how to read, or not."""
    where = of_file(*paths) if paths else ("sql",)
    if stated:
        return *where, "stated"
    return *where, "unread", *(("unread_csv",) if "csv" in where else ())


def of_search(path: Path, metric: str, kinds: Sequence[str] | None, *, large: bool = False) -> tuple[str, ...]:
    """Conditions of a search for encoders: where its table is, what is tried, and what is claimed."""
    grown = not kinds or bool({"boosted", "tree"}.intersection(kinds))
    holds = {
        "memory": not large,
        "grown": grown,
        "equal_opportunity": metric == "equal_opportunity",
    }
    return (*(("large",) if large else ()), *of_file(path), *(name for name, true in holds.items() if true))


def _command(context: typer.Context) -> str:
    """Name of the command, below the application's."""
    names: list[str] = []
    level: Any = context
    while level.parent is not None:
        names.insert(0, str(level.info_name))
        level = level.parent
    return " ".join(names)


def _given(context: typer.Context, parameter: Any) -> bool:
    """Whether the user named a parameter, rather than leaving it at its default."""
    source = context.get_parameter_source(parameter.name)
    return source is not None and source.name in ("COMMANDLINE", "ENVIRONMENT", "PROMPT")
