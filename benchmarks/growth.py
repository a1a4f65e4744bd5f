"""How fast a fair tree grows, beside scikit-learn's DecisionTreeClassifier and LightGBM, in one run.

    python benchmarks/growth.py            # about ten minutes
    python benchmarks/growth.py --quick    # small tables only, under a minute
    python benchmarks/growth.py --cpu      # processor time instead, of one thread: for machines that are not idle

Data: ACSIncome's nine columns, drawn with replacement from the shared file where it is present, else made up with as
many values per column. Every tree has the same number of leaves and the same smallest leaf. LightGBM bins and grows
one tree with the same columns declared categorical; DecisionTreeClassifier takes category numbers as quantities and
has no threads. Times are the best of some repetitions. Memory is the peak of the process beyond what it held before.
"""

import argparse
import ctypes
import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

COLUMNS = ["AGEP", "SCHL", "WKHP", "COW", "MAR", "OCCP", "POBP", "RELP", "RAC1P"]
CATEGORICAL = [name not in ("AGEP", "SCHL", "WKHP") for name in COLUMNS]
DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "acs_income_2018.parquet"
ROWS = 165_546
MIN_CELL_SIZE = 100
GAMMA = 0.5

# The paper's grid for ACSIncome: (gamma, smallest cell), and the numbers of cells that one growth serves.
SWEEP = [(g, 100) for g in (0.1, 0.3, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 0.99, 0.999)] + [
    (g, 1000) for g in (0.8, 0.85, 0.9, 0.95, 0.96, 0.97, 0.98, 0.99, 0.999)
]
SWEEP_CELLS = (2, 4, 6, 8, 10, 20, 50, 100, 200)

LEARNERS = ("DecisionTree", "LightGBM")
SECTIONS = ("fit", "apply", "encoder", "boosted", "sweep", "first")

clock: Callable[[], float] = time.perf_counter


@dataclass
class People:
    """Features (rows × columns), label and group."""

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    s: NDArray[np.int64]


@dataclass
class Cost:
    """Best time in seconds, peak memory in bytes, and what was made."""

    seconds: float
    memory: int
    result: Any


def load(n_rows: int) -> People:
    rng = np.random.default_rng(0)
    if DATA.exists():
        import pyarrow.parquet as pq

        table = pq.read_table(DATA, columns=[*COLUMNS, "PINCP_GT50K", "SEX"])
        rows = rng.integers(0, table.num_rows, n_rows)
        columns = {name: table[name].to_numpy()[rows] for name in table.column_names}
        X = np.column_stack([columns[name] for name in COLUMNS]).astype(np.float64)
        return People(X, columns["PINCP_GT50K"].astype(np.int64), (columns["SEX"] == 1).astype(np.int64))
    sizes = {"AGEP": 79, "SCHL": 24, "WKHP": 99, "COW": 8, "MAR": 5, "OCCP": 530, "POBP": 220, "RELP": 18, "RAC1P": 9}
    effects = {name: rng.normal(size=(size, 2)) for name, size in sizes.items()}
    values = {name: rng.choice(size, n_rows, p=rng.dirichlet(np.ones(size))) for name, size in sizes.items()}
    pull = sum(effects[name][values[name]] for name in COLUMNS) + 2 * rng.normal(size=(n_rows, 2))
    X = np.column_stack([values[name] for name in COLUMNS]).astype(np.float64)
    return People(X, (pull[:, 0] > 1).astype(np.int64), (pull[:, 1] > 0).astype(np.int64))


def measure(work: Callable[[], Any], repeats: int) -> Cost:
    """Time some runs, after one that measures memory."""
    before = reset_peak()
    work()
    memory = peak() - before
    seconds, result = np.inf, None
    for _ in range(repeats):
        result = None
        gc.collect()
        start = clock()
        result = work()
        seconds = min(seconds, clock() - start)
    return Cost(seconds, memory, result)


def reset_peak() -> int:
    """Give freed memory back, forget the peak, and return what the process holds (0 where Linux does not tell)."""
    gc.collect()
    if not Path("/proc/self/clear_refs").exists():
        return 0
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")


def peak() -> int:
    return status("VmHWM") if Path("/proc/self/status").exists() else 0


def status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


def bins_and_codes(people: People, n_threads: int) -> Any:
    from certifare.growth import encode, fit_bins

    columns = [people.X[:, c] for c in range(len(COLUMNS))]
    bins = fit_bins(columns, COLUMNS, CATEGORICAL, n_threads=n_threads)
    return bins, encode(bins, columns, n_threads=n_threads)


def grow_tree(people: People, bins: Any, codes: Any, k: int, n_threads: int) -> Any:
    from certifare.growth import Criterion, MemorySource, Targets, grow

    source = MemorySource(codes, Targets.from_columns([people.y], people.s, (2,), 2), n_threads)
    criterion = Criterion(GAMMA, "demographic_parity", (2,), 2)
    return grow(source, bins, criterion, max_cells=k, min_cell_size=MIN_CELL_SIZE)


def bin_and_grow(people: People, k: int, n_threads: int) -> Any:
    return grow_tree(people, *bins_and_codes(people, n_threads), k, n_threads)


def lightgbm_tree(people: People, k: int, n_threads: int) -> Any:
    import lightgbm

    settings = {
        "objective": "binary",
        "num_leaves": k,
        "min_data_in_leaf": MIN_CELL_SIZE,
        "max_bin": 255,
        "num_threads": n_threads,
        "verbosity": -1,
    }
    categorical = [c for c, is_categorical in enumerate(CATEGORICAL) if is_categorical]
    data = lightgbm.Dataset(people.X, people.y, categorical_feature=categorical, params=settings)
    return lightgbm.train(settings, data, num_boost_round=1)


def sklearn_tree(people: People, k: int) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier(max_leaf_nodes=k, min_samples_leaf=MIN_CELL_SIZE, random_state=0)
    return tree.fit(people.X, people.y)


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[c]) for row in [header, *rows]) for c in range(len(header))]
    print(f"\n{title}\n")
    for row in [header, ["-" * width for width in widths], *rows]:
        print("| " + " | ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) + " |", flush=True)


def compare_fits(sizes: Sequence[int], cells: Sequence[int], threads: Sequence[int], repeats: int) -> None:
    rows = []
    few = load(5_000)
    for n_threads in threads:  # so that neither compiling nor starting threads is measured
        bin_and_grow(few, 5, n_threads)
        lightgbm_tree(few, 5, n_threads)
        sklearn_tree(few, 5)
    for n_rows in sizes:
        people = load(n_rows)
        for k in cells:
            sklearn = measure(partial(sklearn_tree, people, k), 1)
            for n_threads in threads:
                whole = measure(partial(bin_and_grow, people, k, n_threads), repeats)
                binning = measure(partial(bins_and_codes, people, n_threads), repeats)
                growth = measure(partial(grow_tree, people, *binning.result, k, n_threads), repeats)
                del binning.result
                lightgbm = measure(partial(lightgbm_tree, people, k, n_threads), max(1, repeats // 2))
                rows.append(
                    [
                        f"{n_rows:,}",
                        f"{k}",
                        f"{n_threads}",
                        f"{binning.seconds:.3f}",
                        f"{growth.seconds:.3f}",
                        f"{whole.seconds:.3f}",
                        f"{sklearn.seconds:.2f} ({sklearn.seconds / whole.seconds:.0f}×)",
                        f"{lightgbm.seconds:.2f} ({lightgbm.seconds / whole.seconds:.1f}×)",
                        *(f"{cost.memory / people.X.size:.1f}" for cost in (whole, sklearn, lightgbm)),
                    ]
                )
    print_table(
        "Fit from a numeric array, seconds; in brackets, how many times longer than ours. Memory beyond the input, "
        "bytes per value.",
        ["rows", "k", "threads", "bins, codes", "growth", "both", *LEARNERS, "memory", *LEARNERS],
        rows,
    )


def compare_applies(sizes: Sequence[int], cells: Sequence[int], threads: Sequence[int], repeats: int) -> None:
    rows = []
    for n_rows in sizes:
        people = load(n_rows)
        for k in cells:
            sklearn = measure(partial(sklearn_tree(people, k).apply, people.X), 1)
            for n_threads in threads:
                bins, codes = bins_and_codes(people, n_threads)
                growth = grow_tree(people, bins, codes, k, n_threads)
                ours = measure(partial(growth.apply, codes, n_threads=n_threads), repeats)
                booster = lightgbm_tree(people, k, n_threads)
                lightgbm = measure(partial(booster.predict, people.X, pred_leaf=True, num_threads=n_threads), 1)
                speeds = [f"{n_rows / cost.seconds / 1e6:.1f}" for cost in (ours, sklearn, lightgbm)]
                rows.append([f"{n_rows:,}", f"{k}", f"{n_threads}", *speeds])
    print_table(
        "Leaf of each record, million records a second: ours from codes, the others from the numeric array.",
        ["rows", "k", "threads", "codes", *LEARNERS],
        rows,
    )


def measure_encoder(sizes: Sequence[int], cells: Sequence[int], threads: Sequence[int], repeats: int) -> None:
    import pandas as pd

    from certifare import FairTreeEncoder

    rows = []
    for n_rows in sizes:
        people = load(n_rows)
        numbers = pd.DataFrame(people.X.astype(np.int64), columns=COLUMNS)
        text = numbers.astype({name: "str" for name, is_text in zip(COLUMNS, CATEGORICAL, strict=True) if is_text})
        for k, n_threads in product(cells, threads):
            for name, table in (("array", people.X), ("pandas, numbers", numbers), ("pandas, text", text)):
                encoder = FairTreeEncoder(GAMMA, k, MIN_CELL_SIZE, categorical_features=CATEGORICAL, n_jobs=n_threads)
                fit = measure(partial(encoder.fit, table, people.y, sensitive_features=people.s), max(1, repeats // 2))
                apply = measure(partial(encoder.apply, table), repeats)
                rows.append(
                    [
                        f"{n_rows:,}",
                        f"{k}",
                        f"{n_threads}",
                        name,
                        f"{fit.seconds:.2f}",
                        f"{fit.memory / people.X.size:.1f}",
                        f"{n_rows / apply.seconds / 1e6:.1f}",
                    ]
                )
    print_table(
        "FairTreeEncoder from a table: seconds of fit (growth, representatives, fingerprint), memory in bytes per "
        "value, million records a second of apply.",
        ["rows", "k", "threads", "table", "fit", "memory", "apply"],
        rows,
    )


def measure_boosted(n_rows: int, threads: Sequence[int]) -> None:
    from certifare import BoostedEncoder

    people = load(n_rows)
    rows = []
    for n_threads in threads:
        encoder = BoostedEncoder(GAMMA, 50, MIN_CELL_SIZE, categorical_features=CATEGORICAL, n_jobs=n_threads)
        fit = measure(partial(encoder.fit, people.X, people.y, sensitive_features=people.s), 1)
        apply = measure(partial(encoder.apply, people.X), 1)
        rows.append([f"{n_rows:,}", f"{n_threads}", f"{fit.seconds:.1f}", f"{n_rows / apply.seconds / 1e6:.2f}"])
    print_table(
        "BoostedEncoder from a numeric array: seconds of fit (two scores, five folds each), million records a second "
        "of apply.",
        ["rows", "threads", "fit", "apply"],
        rows,
    )


def sweep(people: People, n_threads: int) -> int:
    """Grow every setting, apply every k; return how many trees that makes."""
    from certifare.growth import Criterion, MemorySource, Targets, grow

    bins, codes = bins_and_codes(people, n_threads)
    source = MemorySource(codes, Targets.from_columns([people.y], people.s, (2,), 2), n_threads)
    trees = 0
    for gamma, min_cell_size in SWEEP:
        criterion = Criterion(gamma, "demographic_parity", (2,), 2)
        growth = grow(source, bins, criterion, max_cells=max(SWEEP_CELLS), min_cell_size=min_cell_size)
        for k in SWEEP_CELLS:
            if k <= growth.n_cells:
                growth.apply(codes, k, n_threads=n_threads)
                trees += 1
    return trees


def measure_sweep(n_rows: int, threads: Sequence[int]) -> None:
    people = load(n_rows)
    rows = []
    for n_threads in threads:
        cost = measure(partial(sweep, people, n_threads), 1)
        rows.append([f"{n_rows:,}", f"{n_threads}", f"{len(SWEEP)}", f"{cost.result}", f"{cost.seconds:.2f}"])
    print_table(
        "Sweep: every (gamma, smallest cell) of the paper's grid, every k, cells of all records.",
        ["rows", "threads", "growths", "trees", "seconds"],
        rows,
    )


def measure_first_fit() -> None:
    """In a process of its own, with nothing compiled yet, and again with everything compiled."""
    program = f"""
from time import {clock.__name__} as clock
start = clock()
import numpy as np
from certifare import FairTreeEncoder
rng = np.random.default_rng(0)
X, s = rng.integers(0, 9, (1000, 3)).astype(float), rng.integers(0, 2, 1000)
encoder = FairTreeEncoder(min_cell_size=20, categorical_features=[0])
encoder.fit(X, X[:, 1] > 4, sensitive_features=s).apply(X)
print(clock() - start)
"""
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            done = subprocess.run(  # noqa: S603
                [sys.executable, "-c", program],
                env=os.environ | {"NUMBA_CACHE_DIR": folder},
                capture_output=True,
                check=True,
            )
            seconds.append(float(done.stdout))
    print_table(
        "First fit and apply of a process, imports included.",
        ["nothing compiled yet", "compiled before"],
        [[f"{seconds[0]:.1f} s", f"{seconds[1]:.1f} s"]],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small tables only")
    parser.add_argument("--only", choices=SECTIONS, help="one section")
    parser.add_argument("--cpu", action="store_true", help="processor time, one thread")
    arguments = parser.parse_args()
    sizes = [ROWS // 4, ROWS] if arguments.quick else [ROWS, 4 * ROWS, 16 * ROWS]
    cells = [50] if arguments.quick else [50, 200]
    threads, repeats = [1] if arguments.cpu else [1, 2], 3 if arguments.quick else 5
    if arguments.cpu:
        global clock
        clock = time.process_time
    data = "Shared ACSIncome data" if DATA.exists() else "Made-up data"
    print(f"{data}; {os.cpu_count()} processors; {'processor' if arguments.cpu else 'wall-clock'} time")
    sections: dict[str, Callable[[], None]] = {
        "fit": lambda: compare_fits(sizes, cells, threads, repeats),
        "apply": lambda: compare_applies(sizes, cells, threads, repeats),
        "encoder": lambda: measure_encoder(sizes[-1:], cells[:1], threads, repeats),
        "boosted": lambda: measure_boosted(sizes[0], threads),
        "sweep": lambda: measure_sweep(ROWS, threads),
        "first": measure_first_fit,
    }
    for name, section in sections.items():
        if arguments.only in (None, name):
            section()


if __name__ == "__main__":
    main()
