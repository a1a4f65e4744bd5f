"""Trees from tables larger than memory: time and memory by rows, columns, cells and workers.

    python benchmarks/scale.py                        # 1, 10 and 100 million rows, and all curves: about half an hour
    python benchmarks/scale.py --rows 1e6 1e7         # other numbers of rows
    python benchmarks/scale.py --only rows others     # some parts only: rows, others, columns, cells, workers, blocks

ACSIncome's nine columns, drawn with replacement from the shared file where it is present, else made up with as many
values per column, are written as Parquet in row groups of a million. Each measurement is a process of its own; memory
is its peak resident set, mapped files included. ``anonymous`` leaves out mapped pages, which the system can write away.
Core time counts what all threads worked, so it depends little on what else the machine does.
LightGBM (bins and one tree, same leaves) and scikit-learn's DecisionTreeClassifier read the same files; they need the
table in memory, and run where it takes no more than a third of the machine's.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = ["AGEP", "SCHL", "WKHP", "COW", "MAR", "OCCP", "POBP", "RELP", "RAC1P"]
CATEGORICAL = COLUMNS[3:]
SIZES = {"AGEP": 79, "SCHL": 24, "WKHP": 99, "COW": 8, "MAR": 5, "OCCP": 530, "POBP": 220, "RELP": 18, "RAC1P": 9}
DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "acs_income_2018.parquet"
GAMMA, CELLS, MIN_CELL_SIZE = 0.5, 50, 100
CHUNK = 1_000_000
PARTS = ("rows", "others", "columns", "cells", "workers", "blocks")


# -- data -------------------------------------------------------------------------------------------------------------


def make_chunk(n: int, n_columns: int, rng: np.random.Generator) -> pa.Table:
    """People like those of the ACS; columns beyond nine repeat the nine with other people's values."""
    if DATA.exists():
        people = pq.read_table(DATA, columns=[*COLUMNS, "PINCP_GT50K", "SEX"])
        rows = rng.integers(0, people.num_rows, n)
        values = {name: people[name].to_numpy()[rows].astype(np.int16) for name in people.column_names}
    else:
        fixed = np.random.default_rng(0)
        effects = {name: fixed.normal(size=(size, 2)) for name, size in SIZES.items()}
        shares = {name: fixed.dirichlet(np.ones(size)) for name, size in SIZES.items()}
        values = {name: rng.choice(size, n, p=shares[name]).astype(np.int16) for name, size in SIZES.items()}
        pull = sum(effects[name][values[name]] for name in COLUMNS) + 2 * rng.normal(size=(n, 2))
        values["PINCP_GT50K"] = (pull[:, 0] > 1).astype(np.int16)
        values["SEX"] = (pull[:, 1] > 0).astype(np.int16)
    columns = {name: values[name] for name in COLUMNS}
    for i in range(len(COLUMNS), n_columns):
        columns[f"{COLUMNS[i % 9]}_{i // 9}"] = values[COLUMNS[i % 9]][rng.permutation(n)]
    columns = dict(list(columns.items())[:n_columns])
    return pa.table(columns | {"SEX": values["SEX"], "label": values["PINCP_GT50K"]})


def make_file(folder: Path, n_rows: int, n_columns: int = 9, seed: int = 0) -> Path:
    path = folder / f"people_{n_rows}_{n_columns}_{seed}.parquet"
    if not path.exists():
        rng = np.random.default_rng(seed)
        writer = None
        for start in range(0, n_rows, CHUNK):
            table = make_chunk(min(CHUNK, n_rows - start), n_columns, rng)
            writer = writer or pq.ParquetWriter(path, table.schema)
            writer.write_table(table, row_group_size=CHUNK)
        if writer is not None:
            writer.close()
    return path


def names_of(path: Path) -> tuple[list[str], list[str]]:
    names = [name for name in pq.read_schema(path).names if name not in ("SEX", "label")]
    return names, [name for name in names if name.split("_")[0] in CATEGORICAL]


# -- what is measured, each in a process of its own -------------------------------------------------------------------


class Watch:
    """The peak of resident memory, and of its part that is not mapped from files."""

    def __init__(self) -> None:
        self.resident = self.anonymous = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.02):
            status = dict(
                line.split(":", 1)
                for line in Path("/proc/self/status").read_text().splitlines()
                if line[:3] in ("VmH", "Rss")
            )
            self.resident = max(self.resident, 1024 * int(status["VmHWM"].split()[0]))
            self.anonymous = max(self.anonymous, 1024 * int(status["RssAnon"].split()[0]))


def run_ours(path: Path, fresh: str = "", n_jobs: int = 2, cells: int = CELLS, folder: str = "") -> dict[str, Any]:
    """Fit from Parquet, step by step; then certify on fresh records, also from Parquet."""
    from certifare import FairTreeEncoder
    from certifare.engines.streaming import certify_parquet

    _, categorical = names_of(path)
    encoder = FairTreeEncoder(GAMMA, cells, MIN_CELL_SIZE, categorical_features=categorical, n_jobs=n_jobs)
    warm_up(encoder)
    ends: dict[str, tuple[float, float]] = {}
    begun, core = time.perf_counter(), time.process_time()
    encoder.fit_parquet(
        path,
        label="label",
        sensitive="SEX",
        folder=folder or None,
        progress=lambda step, share: ends.update({step: (time.perf_counter(), time.process_time())}),
    )
    result: dict[str, Any] = {"seconds": time.perf_counter() - begun, "core_seconds": time.process_time() - core}
    steps, core_steps, last = {}, {}, (begun, core)
    for step, end in ends.items():
        steps[step], core_steps[step], last = end[0] - last[0], end[1] - last[1], end
    result |= {"steps": steps, "core_steps": core_steps, "cells": encoder.n_cells_}
    if fresh:
        begun = time.perf_counter()
        certificate = certify_parquet(encoder, Path(fresh), sensitive="SEX", allow_training_records=True)
        result |= {"certify_seconds": time.perf_counter() - begun, "bound": certificate.bound}
    return result


def warm_up(encoder: Any) -> None:
    """Load compiled kernels, which take seconds once and are no matter of scale."""
    from sklearn.base import clone

    rng = np.random.default_rng(0)
    X = rng.integers(0, 300, (3000, 2)).astype(float)
    small = clone(encoder).set_params(categorical_features=[1])
    small.fit(X, X[:, 0] > 150, sensitive_features=rng.integers(0, 2, 3000)).apply(X)


def run_memory(path: Path) -> dict[str, Any]:
    """Fit the same encoder to a table in memory."""
    from certifare import FairTreeEncoder

    _, categorical = names_of(path)
    encoder = FairTreeEncoder(GAMMA, CELLS, MIN_CELL_SIZE, categorical_features=categorical, n_jobs=2)
    warm_up(encoder)
    begun = time.perf_counter()
    table = pq.read_table(path)
    encoder.fit(table.drop_columns(["SEX", "label"]), table["label"], sensitive_features=table["SEX"])
    return {"seconds": time.perf_counter() - begun, "cells": encoder.n_cells_}


def run_lightgbm(path: Path) -> dict[str, Any]:
    import lightgbm

    names, categorical = names_of(path)
    begun = time.perf_counter()
    X, y = read_matrix(path, names)
    data = lightgbm.Dataset(
        X, y, feature_name=names, categorical_feature=categorical, params={"verbose": -1, "num_threads": 2}
    )
    options = {"num_leaves": CELLS, "min_data_in_leaf": MIN_CELL_SIZE, "verbose": -1, "num_threads": 2}
    lightgbm.train({"objective": "binary", **options}, data, num_boost_round=1)
    return {"seconds": time.perf_counter() - begun}


def run_sklearn(path: Path) -> dict[str, Any]:
    from sklearn.tree import DecisionTreeClassifier

    begun = time.perf_counter()
    X, y = read_matrix(path, names_of(path)[0])
    DecisionTreeClassifier(max_leaf_nodes=CELLS, min_samples_leaf=MIN_CELL_SIZE).fit(X, y)
    return {"seconds": time.perf_counter() - begun}


def read_matrix(path: Path, names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Read the table as float32, batch by batch, so that reading itself takes little memory."""
    file = pq.ParquetFile(path)
    X = np.empty((file.metadata.num_rows, len(names)), dtype=np.float32)
    y = np.empty(len(X), dtype=np.int8)
    start = 0
    for batch in file.iter_batches(1 << 18):
        rows = slice(start, start + batch.num_rows)
        for i, name in enumerate(names):
            X[rows, i] = batch.column(name).to_numpy()
        y[rows] = batch.column("label").to_numpy()
        start = rows.stop
    return X, y


def run_dask(path: Path, n_workers: int = 2, ahead: int = 16, n_blocks: int = 0) -> dict[str, Any]:
    """Fit on a local cluster; codes first, then the growth by itself."""
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    from certifare import FairTreeEncoder
    from certifare.engines import dask as engine

    _, categorical = names_of(path)
    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,
        Client(cluster),
    ):
        frame = dd.read_parquet(path, split_row_groups=True)
        if n_blocks:
            engine.BLOCKS_PER_THREAD = n_blocks
            frame = frame.repartition(npartitions=n_blocks)
        X, y, s = frame.drop(columns=["SEX", "label"]), frame["label"], frame["SEX"]
        encoder = FairTreeEncoder(GAMMA, CELLS, MIN_CELL_SIZE, categorical_features=categorical)
        encoder.prepare(X.partitions[:1], y.partitions[:1], sensitive_features=s.partitions[:1])
        begun = time.perf_counter()
        training = encoder.prepare(X, y, sensitive_features=s)
        prepared = time.perf_counter() - begun
        training.records.ahead = ahead
        encoder.fit_from(training)
        training.records.rounds = training.records.bytes = 0
        begun = time.perf_counter()
        encoder.fit_from(training)
        grown = time.perf_counter() - begun
        return {
            "prepare_seconds": prepared,
            "grow_seconds": grown,
            "rounds": training.records.rounds,
            "bytes": training.records.bytes,
            "cells": encoder.n_cells_,
        }


RUNS = {"ours": run_ours, "memory": run_memory, "lightgbm": run_lightgbm, "sklearn": run_sklearn, "dask": run_dask}


def measure(name: str, path: Path, **options: Any) -> dict[str, Any]:
    command = [sys.executable, __file__, "--measure", name, str(path), json.dumps(options)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
    if done.returncode:
        return {"failed": done.returncode}
    return json.loads(done.stdout.splitlines()[-1])


# -- tables ------------------------------------------------------------------------------------------------------------


def gigabytes(n: float) -> str:
    return f"{n / 2**30:.2f}"


def by_rows(folder: Path, rows: list[int]) -> None:
    print(
        "\n## rows: fit from Parquet, 9 columns, 50 cells, 2 threads; then certify on a tenth as many other records\n"
    )
    print(
        "| rows | file GB | seconds | core µs a row | survey | code | grow | peak GB | anonymous GB | certify: rows/s |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for n in rows:
        path, fresh = make_file(folder, n), make_file(folder, max(n // 10, 1000), seed=1)
        r = measure("ours", path, fresh=str(fresh), folder=str(folder))
        steps = " | ".join(f"{r['steps'].get(step, 0):.1f}" for step in ("survey", "code", "grow"))
        print(
            f"| {n:,} | {gigabytes(path.stat().st_size)} | {r['seconds']:.1f} | {1e6 * r['core_seconds'] / n:.2f} | "
            f"{steps} | {gigabytes(r['resident'])} | {gigabytes(r['anonymous'])} | "
            f"{max(n // 10, 1000) / r['certify_seconds']:,.0f} |",
            flush=True,
        )


def by_others(folder: Path, rows: list[int]) -> None:
    print("\n## others: the same files, read into memory; seconds (with reading) and peak GB\n")
    print("| rows | certifare, streamed | certifare, in memory | LightGBM, one tree | DecisionTreeClassifier |")
    print("|---|---|---|---|---|")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # Peak bytes for each row, as measured at a million; and no more than some minutes of waiting.
    needs = {"ours": 0, "memory": 200, "lightgbm": 60, "sklearn": 120}
    most_rows = {"ours": 10**12, "memory": 10**12, "lightgbm": 10**12, "sklearn": 2 * 10**7}
    for n in rows:
        cells = []
        for name in ("ours", "memory", "lightgbm", "sklearn"):
            if n * needs[name] > memory / 3:
                cells.append("table too large for memory")
            elif n > most_rows[name]:
                cells.append("too slow to wait for")
            else:
                options = {"folder": str(folder)} if name == "ours" else {}
                r = measure(name, make_file(folder, n), **options)
                cells.append("failed" if "failed" in r else f"{r['seconds']:.1f} s, {gigabytes(r['resident'])} GB")
        print(f"| {n:,} | {' | '.join(cells)} |", flush=True)


def by_columns(folder: Path) -> None:
    print("\n## columns: 1 million rows, 50 cells, 2 threads; microseconds of one core for each row\n")
    print("| columns | seconds | core µs a row | survey | code | grow | peak GB |\n|---|---|---|---|---|---|---|")
    for n_columns in (9, 18, 36, 50):
        r = measure("ours", make_file(folder, 10**6, n_columns), folder=str(folder))
        steps = " | ".join(f"{r['core_steps'].get(step, 0):.2f}" for step in ("survey", "code", "grow"))
        print(
            f"| {n_columns} | {r['seconds']:.2f} | {r['core_seconds']:.2f} | {steps} | {gigabytes(r['resident'])} |",
            flush=True,
        )


def by_cells(folder: Path) -> None:
    print("\n## cells: 1 million rows, 9 columns, 2 threads\n")
    print("| cells asked for | cells | grow, seconds | grow, core µs a row |\n|---|---|---|---|")
    for cells in (2, 10, 50, 200, 1000):
        r = measure("ours", make_file(folder, 10**6), cells=cells, folder=str(folder))
        grow, core = r["steps"].get("grow", 0), r["core_steps"].get("grow", 0)
        print(f"| {cells} | {r['cells']} | {grow:.2f} | {core:.2f} |", flush=True)


def by_workers(folder: Path, n: int) -> None:
    print(f"\n## workers: Dask, {n:,} rows, 9 columns, 50 cells, processes of one thread on this machine\n")
    print(
        "| workers | splits a round | prepare, s | grow, s | rounds | kB of counts to the client |\n"
        "|---|---|---|---|---|---|"
    )
    path = make_file(folder, n)
    for n_workers, ahead in ((1, 16), (2, 16), (2, 0), (2, 64)):
        r = measure("dask", path, n_workers=n_workers, ahead=ahead)
        print(
            f"| {n_workers} | {ahead + 1} | {r['prepare_seconds']:.1f} | {r['grow_seconds']:.2f} | {r['rounds']} | "
            f"{r['bytes'] / 1000:,.0f} |",
            flush=True,
        )


def by_blocks(folder: Path) -> None:
    print("\n## blocks: what a round costs beside counting; 100,000 rows, 2 workers\n")
    print("| blocks | rounds | ms a round | ms a block and round |\n|---|---|---|---|")
    for n_blocks in (4, 64, 512):
        r = measure("dask", make_file(folder, 10**5), n_blocks=n_blocks)
        a_round = 1000 * r["grow_seconds"] / r["rounds"]
        print(f"| {n_blocks} | {r['rounds']} | {a_round:.0f} | {a_round / n_blocks:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6, 1e7, 1e8])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument(
        "--folder", type=Path, help="where files are written, and kept; a temporary folder unless given"
    )
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        name, path, arguments = options.measure
        with Watch() as watch:
            result = RUNS[name](Path(path), **json.loads(arguments))
        print(json.dumps(result | {"resident": watch.resident, "anonymous": watch.anonymous}))
        return
    rows = [int(n) for n in options.rows]
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        print(
            f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; "
            f"{'real' if DATA.exists() else 'made-up'} values"
        )
        if "rows" in options.only:
            by_rows(folder, rows)
        if "others" in options.only:
            by_others(folder, rows)
        if "columns" in options.only:
            by_columns(folder)
        if "cells" in options.only:
            by_cells(folder)
        if "workers" in options.only:
            by_workers(folder, 10**6)
        if "blocks" in options.only:
            by_blocks(folder)


if __name__ == "__main__":
    main()
