"""The whole job beside one gradient boosting model: seconds of processor time, in one run.

    python benchmarks/job.py [--data PATH] [--tables adult ca health us] [--rows 1000 … 433000] [--write docs/scale.md]

For each table and number of records, in a process of its own on one thread: ``produce`` for T* ≤ 0.05, and group-aware;
beside them one fit of scikit-learn's HistGradientBoostingClassifier and of LightGBM (100 trees each) on the same
columns as numbers. At each table's largest size also the first ``fit`` of the process, the report, how many million
records a second ``apply`` encodes and that LightGBM model predicts; and, in a process for each kind of job, the peak of
memory while ``produce`` reads and works on a Parquet file, or on a dataframe: beyond what the process held before it
had the table, by the table's size at eight bytes a value. ``--write`` puts the tables into a page, behind its marker,
and draws docs/figures/job.svg.
"""

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from certifare.foundation.memory import give_back

MARKER, END = "<!-- made by benchmarks/job.py -->", "<!-- end -->"
TABLES = {
    "adult": ("Adult", "adult", "income", "sex"),
    "ca": ("ACSIncome, California", "acs_income_2018", "PINCP_GT50K", "SEX"),
    "health": ("Health", "health", "max_CharlsonIndex", "age 60"),
    "us": ("ACSIncome, all states", "acs_income_2018", "PINCP_GT50K", "SEX"),
}
ROWS = (1_000, 3_000, 10_000, 30_000, 100_000, 200_000, 433_000)
TARGET = 0.05
MEMORY = tuple(f"memory {kind} {of}" for kind in ("produce", "aware") for of in ("file", "frame"))
CODES = ("COW", "MAR", "OCCP", "POBP", "RELP", "RAC1P")
"""Categories that are numbers in the file."""


def read(name: str, folder: Path) -> pd.DataFrame:
    """Read a table; categories are marked as such."""
    table = pd.read_parquet(folder / f"{TABLES[name][1]}.parquet")
    if name == "ca":
        table = table[table["ST"] == 6].reset_index(drop=True)
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


def measure(name: str, folder: Path, n_rows: int, whole: bool) -> dict[str, float]:
    """Measure one table in this process; ``whole`` adds what is measured once for each table."""
    table = read(name, folder)
    table = table.sample(min(n_rows, len(table)), random_state=0).reset_index(drop=True)
    _, _, label, group = TABLES[name]
    X, y, s = table.drop(columns=[label, group]), table[label], table[group]
    found: dict[str, float] = {"rows": len(table), "columns": X.shape[1]}

    def fit() -> Any:
        from certifare import BoostedEncoder

        return BoostedEncoder(max_cells=20, n_jobs=1).fit(X, y, sensitive_features=s)

    found["first"], encoder = spent(fit)
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
        roles = {"label": label, "sensitive": group, "group_aware": aware, "target": TARGET, "ledger": False}
        # Once before, so that every kernel is loaded.
        produce(table.head(min(len(table), 2_000)), **{**roles, "target": 0.5}, n_jobs=1)
        found[kind], bundle = spent(lambda r=roles: produce(table, n_jobs=1, **r))
        if whole and not aware and bundle.verdict == "PASS":
            with tempfile.TemporaryDirectory() as folder_name:
                found["save"], _ = spent(lambda b=bundle, f=folder_name: b.save(Path(f) / "bundle"))
    return found


def measure_memory(name: str, folder: Path, n_rows: int, aware: bool, from_file: bool) -> dict[str, float]:
    """Measure the most memory that a job holds, by that of the table; where the system tells (Linux)."""
    from certifare import produce

    table = read(name, folder)
    table = table.sample(min(n_rows, len(table)), random_state=0).reset_index(drop=True)
    _, _, label, group = TABLES[name]
    roles = {"label": label, "sensitive": group, "ledger": False, "n_jobs": 1, "group_aware": aware}
    produce(table.head(2_000), **{**roles, "target": 0.5})
    size = 8 * table.size
    with tempfile.TemporaryDirectory() as folder_name:
        path = Path(folder_name) / "people.parquet"
        table.to_parquet(path)
        del table
        gc.collect()
        give_back()
        held, done = [held_bytes()], threading.Event()

        def watch() -> None:
            while not done.wait(0.005):
                held.append(held_bytes())

        watching = threading.Thread(target=watch)
        watching.start()
        produce(path if from_file else pd.read_parquet(path), target=TARGET, **roles)
        done.set()
        watching.join()
    what = f"memory {'aware' if aware else 'produce'} {'file' if from_file else 'frame'}"
    return {what: (max(held) - held[0]) / size, "bytes": size}


def held_bytes() -> int:
    """Return how much memory this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def growth_table(measured: Sequence[dict[str, Any]]) -> list[str]:
    """Give what jobs cost, by table and number of records."""
    lines = [
        "| table | rows × columns | `produce` | group-aware | scikit-learn fit | LightGBM fit | `produce` ÷ LightGBM "
        "| group-aware ÷ LightGBM |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for m in measured:
        ratios = " | ".join(f"{m[kind] / m['LightGBM']:.1f}" for kind in ("produce", "aware"))
        lines.append(
            f"| {TABLES[m['table']][0]} | {m['rows']:,.0f} × {m['columns']:.0f} | {m['produce']:.2f} "
            f"| {m['aware']:.2f} | {m['scikit-learn']:.2f} | {m['LightGBM']:.2f} | {ratios} |"
        )
    return lines


def table_of_ends(measured: Sequence[dict[str, Any]]) -> list[str]:
    """Give what is measured once for each table."""
    lines = [
        "| table | rows × columns | first `fit` of a process | files and report | `apply`, million records/s "
        "| LightGBM predicts | ratio | table, MB | peak memory ÷ table, file (group-aware) | dataframe (group-aware) |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for m in measured:
        if "save" in m:
            encoded, predicted = (m["rows"] / m[key] / 1e6 for key in ("apply", "predict"))
            memory = " | ".join(
                f"{m[f'memory produce {of}']:.1f} ({m[f'memory aware {of}']:.1f})" for of in ("file", "frame")
            )
            lines.append(
                f"| {TABLES[m['table']][0]} | {m['rows']:,.0f} × {m['columns']:.0f} | {m['first']:.1f} "
                f"| {m['save']:.2f} | {encoded:.2f} | {predicted:.2f} | {encoded / predicted:.1f} "
                f"| {m['bytes'] / 2**20:.0f} | {memory} |"
            )
    return lines


def draw(measured: Sequence[dict[str, Any]]) -> str:
    """Draw processor seconds by the number of records, a panel for each table."""
    from certifare.drawing import Panel, Scale, Series, draw_panels

    kinds = {"produce": "produce", "group-aware": "aware", "scikit-learn": "scikit-learn", "LightGBM": "LightGBM"}
    panels = [
        Panel(
            [
                Series(title, [(m["rows"], max(m[key], 0.01)) for m in measured if m["table"] == name])
                for title, key in kinds.items()
            ],
            Scale("records", log=True),
            Scale("processor seconds", log=True),
            TABLES[name][0],
        )
        for name in dict.fromkeys(m["table"] for m in measured)
    ]
    return draw_panels("The whole job beside one gradient boosting model", panels).svg()


def page(measured: Sequence[dict[str, Any]]) -> str:
    """Give the figures as Markdown."""
    return "\n".join([*growth_table(measured), "", *table_of_ends(measured)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--rows", nargs="+", type=int, default=list(ROWS), help="numbers of records")
    parser.add_argument("--write", type=Path, help="write the tables into this page, behind its marker")
    parser.add_argument("--one", nargs=3, metavar=("TABLE", "ROWS", "WHAT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        name, n_rows, what = arguments.one
        rows = name, arguments.data, int(n_rows)
        if what.startswith("memory"):
            print(json.dumps(measure_memory(*rows, "aware" in what, "file" in what)))
        else:
            print(json.dumps(measure(*rows, what == "whole")))
        return
    measured: list[dict[str, Any]] = []
    for name in arguments.tables:
        n_all = len(read(name, arguments.data))
        sizes = sorted({min(n_rows, n_all) for n_rows in arguments.rows})
        for n_rows in sizes:
            measured.append({"table": name})
            for what in ("whole", *MEMORY) if n_rows == sizes[-1] else ("part",):
                one = [name, str(n_rows), what]
                command = [sys.executable, __file__, "--data", str(arguments.data), "--one", *one]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
                measured[-1] |= json.loads(done.stdout.splitlines()[-1])
            print(growth_table(measured[-1:])[-1], file=sys.stderr, flush=True)
    print(page(measured))
    if arguments.write:
        before, _, rest = arguments.write.read_text().partition(MARKER)
        text = f"{before}{MARKER}\n\n{page(measured)}\n\n{END}{rest.partition(END)[2]}"
        arguments.write.write_text(text)
        (arguments.write.parent / "figures" / "job.svg").write_text(draw(measured) + "\n")


if __name__ == "__main__":
    main()
