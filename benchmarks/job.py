"""The whole job beside one gradient boosting model: seconds of processor time, in one run.

    python benchmarks/job.py [--data PATH] [--tables german compas adult ca health us] [--write docs/boosted.md]

For each table: ``fit`` of a boosted encoder, first in a process of its own (which loads libraries and compiled
kernels), then again; ``produce`` for T* ≤ 0.1, and group-aware; beside them one fit of scikit-learn's
HistGradientBoostingClassifier and of LightGBM (100 trees each, one thread) on the same columns as numbers. Then how
many million records a processor second ``apply`` encodes, and that LightGBM model predicts. ``--write`` puts the table
into a page, behind its marker.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

MARKER, END = "<!-- made by benchmarks/job.py -->", "<!-- end -->"
TABLES = {
    "german": ("German credit", "german_credit", "y", "female"),
    "compas": ("COMPAS", "compas", "two_year_recid", "sex"),
    "adult": ("Adult", "adult", "income", "sex"),
    "ca": ("ACSIncome, California", "acs_income_2018", "PINCP_GT50K", "SEX"),
    "health": ("Health", "health", "max_CharlsonIndex", "age 60"),
    "us": ("ACSIncome, all states", "acs_income_2018", "PINCP_GT50K", "SEX"),
}
CODES = ("COW", "MAR", "OCCP", "POBP", "RELP", "RAC1P")
"""Categories that are numbers in the file."""


def read(name: str, folder: Path) -> pd.DataFrame:
    """Read a table; categories are marked as such."""
    table = pd.read_parquet(folder / f"{TABLES[name][1]}.parquet")
    if name == "ca":
        table = table[table["ST"] == 6].reset_index(drop=True)
    if name == "german":
        table["female"] = table.pop("A9") == "A92"
    if name == "health":
        ages = [column for column in table.columns if column.startswith("AgeAtFirstClaim=")]
        table["age 60"] = table[[f"AgeAtFirstClaim={band}" for band in ("60-69", "70-79", "80+")]].sum(axis=1)
        table["max_CharlsonIndex"] = (table["max_CharlsonIndex"] != 1).astype(int)
        table = table.drop(columns=[*ages, "Year", "MemberID"])
    table = table.drop(columns=[column for column in ("ST", "split") if column in table.columns])
    return table.astype({column: "category" for column in CODES if column in table.columns})


def spent(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds of some work, and what it gives."""
    begun = time.process_time()
    found = work()
    return time.process_time() - begun, found


def measure(name: str, folder: Path) -> dict[str, float]:
    """Measure one table in this process; the first fit comes first."""
    table = read(name, folder)
    _, _, label, group = TABLES[name]
    X, y, s = table.drop(columns=[label, group]), table[label], table[group]

    def fit() -> Any:
        from certifare import BoostedEncoder

        return BoostedEncoder(max_cells=20, n_jobs=1).fit(X, y, sensitive_features=s)

    found = {"rows": len(table), "columns": X.shape[1], "first": spent(fit)[0]}
    found["fit"], encoder = spent(fit)
    encoder.apply(X.head(100))
    found["apply"], _ = spent(lambda: encoder.apply(X))

    from lightgbm import LGBMClassifier
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    numbers = X.apply(lambda column: column.cat.codes if column.dtype == "category" else column).to_numpy(dtype=float)
    light = LGBMClassifier(n_estimators=100, n_jobs=1, verbose=-1)
    with threadpool_limits(1):
        found["scikit-learn"], _ = spent(lambda: HistGradientBoostingClassifier(early_stopping=False).fit(numbers, y))
        found["LightGBM"], _ = spent(lambda: light.fit(numbers, y))
        found["predict"], _ = spent(lambda: light.predict(numbers, num_threads=1))

    from certifare import produce

    for kind, aware in (("produce", False), ("aware", True)):
        roles = {"label": label, "sensitive": group, "group_aware": aware}
        found[kind], _ = spent(lambda r=roles: produce(table, target=0.1, ledger=False, n_jobs=1, **r))
    return found


def page(measured: dict[str, dict[str, float]]) -> str:
    """Give the figures as a Markdown table."""
    lines = [
        "| table | rows × columns | first fit | fit | produce | group-aware | scikit-learn fit | LightGBM fit "
        "| produce ÷ LightGBM | `apply`, million records/s | LightGBM predicts | ratio |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, m in measured.items():
        encoded, predicted = (m["rows"] / m[key] / 1e6 for key in ("apply", "predict"))
        lines.append(
            f"| {TABLES[name][0]} | {m['rows']:,.0f} × {m['columns']:.0f} | {m['first']:.1f} | {m['fit']:.1f} "
            f"| {m['produce']:.1f} | {m['aware']:.1f} | {m['scikit-learn']:.2f} | {m['LightGBM']:.2f} "
            f"| {m['produce'] / m['LightGBM']:.1f} | {encoded:.2f} | {predicted:.2f} | {encoded / predicted:.1f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--write", type=Path, help="write the table into this page, behind its marker")
    parser.add_argument("--one", choices=TABLES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments.data)))
        return
    measured = {}
    for name in arguments.tables:
        command = [sys.executable, __file__, "--one", name, "--data", str(arguments.data)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
        measured[name] = json.loads(done.stdout.splitlines()[-1])
        print(page({name: measured[name]}).splitlines()[-1], file=sys.stderr, flush=True)
    print(page(measured))
    if arguments.write:
        before, _, rest = arguments.write.read_text().partition(MARKER)
        text = f"{before}{MARKER}\n\n{page(measured)}\n\n{END}{rest.partition(END)[2]}"
        arguments.write.write_text(text)


if __name__ == "__main__":
    main()
