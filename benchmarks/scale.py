"""Trees from tables larger than memory: time and memory by rows, columns, cells and workers.

    python benchmarks/scale.py                        # 1, 10 and 100 million rows, and all curves: an hour or two
    python benchmarks/scale.py --rows 1e6 1e7         # other numbers of rows
    python benchmarks/scale.py --only rows others     # some parts only; also columns, cells, workers, blocks, job
    python benchmarks/scale.py --results scale.json   # also keep the figures; parts measured before stay in the file
    python benchmarks/scale.py --only job --rows 1e6 1e7 --write                 # the whole job, into docs/scale.md
    python benchmarks/scale.py --only job --rows 1e8 --engines parquet --write   # … one more of its rows

ACSIncome's nine columns, drawn with replacement from the shared file where it is present, else made up with as many
values per column, are written as Parquet in row groups of a million. Each measurement is a process of its own; memory
is its peak resident set, mapped files included. ``anonymous`` leaves out mapped pages, which the system can write away.
Core time counts what all threads worked, so it depends little on what else the machine does.
LightGBM (bins and one tree, same leaves) and scikit-learn's DecisionTreeClassifier read the same files; they need the
table in memory, and run where that takes no more than half of the machine's. ``job`` is the whole job, plain and
group-aware, by each engine; memory is then that of all processes together. ``--write`` keeps its rows in
``docs/figures/scale.json``, beside those of other sizes, and writes them and the model into ``docs/scale.md``.
"""

import argparse
import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = ["AGEP", "SCHL", "WKHP", "COW", "MAR", "OCCP", "POBP", "RELP", "RAC1P"]
CATEGORICAL = COLUMNS[3:]
SIZES = {"AGEP": 79, "SCHL": 24, "WKHP": 99, "COW": 8, "MAR": 5, "OCCP": 530, "POBP": 220, "RELP": 18, "RAC1P": 9}
DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "acs_income_2018.parquet"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "scale.md"
GAMMA, CELLS, MIN_CELL_SIZE = 0.5, 50, 100
CHUNK = 1_000_000
MANY = 5_000_000


# -- data -------------------------------------------------------------------------------------------------------------


def make_chunk(n: int, n_columns: int, rng: np.random.Generator, made_up: bool) -> pa.Table:
    """People like those of the ACS; columns beyond nine repeat the nine with other people's values."""
    if DATA.exists() and not made_up:
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


def make_file(folder: Path, n_rows: int, n_columns: int = 9, seed: int = 0, made_up: bool = False) -> Path:
    path = folder / f"people_{n_rows}_{n_columns}_{seed}{'_made_up' if made_up else ''}.parquet"
    if not path.exists():
        rng = np.random.default_rng(seed)
        writer = None
        for start in range(0, n_rows, CHUNK):
            table = make_chunk(min(CHUNK, n_rows - start), n_columns, rng, made_up)
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
    """The peak of resident memory, and of its part that is not mapped from files; of workers, too, if asked for."""

    def __init__(self, descendants: bool = False) -> None:
        self.descendants = descendants
        self.core_seconds: dict[int, float] = {}
        self.resident = self.anonymous = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _of_all(self) -> int:
        """Return the resident memory of this process and of all that it started, and note what they have worked."""
        import psutil

        own, total = psutil.Process(), 0
        for process in (own, *own.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                total += process.memory_info().rss
                times = process.cpu_times()
                self.core_seconds[process.pid] = times.user + times.system
        return total

    def _watch(self) -> None:
        while not self._stop.wait(0.2 if self.descendants else 0.02):
            if self.descendants:
                self.resident = max(self.resident, self._of_all())
                continue
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
    from certifare.certification.certifying import certify_records
    from certifare.engines.counting import PieceRecords
    from certifare.growth.histograms import Layout
    from certifare.tables.reading import Reading

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
    n_codes = [bins.n_codes for bins in encoder.bins_]
    result |= {"steps": steps, "core_steps": core_steps, "cells": encoder.n_cells_, "codes": sum(n_codes)}
    result["bytes_a_row"] = 4 * Layout(tuple(n_codes), n_classes=4).width
    if fresh:
        begun = time.perf_counter()
        certificate = certify_records(
            encoder, PieceRecords.of(Path(fresh)), Reading(sensitive=("SEX",)), allow_training_records=True
        )
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
    from certifare.engines.dask import growing as engine

    _, categorical = names_of(path)
    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,
        Client(cluster),
    ):
        frame = dd.read_parquet(path, split_row_groups=True)
        if n_blocks:
            engine.BLOCKS_PER_THREAD, engine.BLOCK_COST = n_blocks, 1
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


def run_job(path: Path, engine: str = "parquet", group_aware: bool = False) -> dict[str, Any]:
    """Do the whole job with every default, as ``certifare fit`` does, on files that are left where they are."""
    from certifare.bundle import produce
    from certifare.frontier import large

    large.LARGE = 2**62 if engine == "memory" else 0
    with opened(engine, path) as table, Watch(descendants=True) as watch:
        begun = time.perf_counter()
        steps: dict[str, float] = {}
        last = [begun]

        def progress(step: str, *_: int) -> None:
            now = time.perf_counter()
            steps[step] = steps.get(step, 0.0) + now - last[0]
            last[0] = now

        bundle = produce(
            table,
            label="label",
            sensitive="SEX",
            target=0.05,
            ledger=False,
            group_aware=group_aware,
            progress=progress,
        )
        seconds = time.perf_counter() - begun
    return {
        "seconds": seconds,
        "core_seconds": sum(watch.core_seconds.values()),
        "memory": watch.resident,
        "steps": steps,
        "kind": bundle.point.kind,
        "accuracy": bundle.measured.performance.accuracy.estimate,
        "cells": bundle.encoder.n_cells_,
        "bound": bundle.certificate.bound,
        "certified": bundle.certificate.counts.n_records,
    }


@contextlib.contextmanager
def opened(engine: str, path: Path) -> Iterator[Any]:
    """Open a file as a stream, or on a cluster of two workers, as ``certifare fit --engine`` does."""
    from certifare.engines.clusters import open_on

    if engine in ("memory", "parquet"):
        yield path
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        "--master local[2] --driver-memory 4g --conf spark.ui.enabled=false pyspark-shell"
    )
    with open_on(f"{engine}:", path) as worker:
        yield worker


RUNS = {
    "ours": run_ours,
    "memory": run_memory,
    "lightgbm": run_lightgbm,
    "sklearn": run_sklearn,
    "dask": run_dask,
    "job": run_job,
}


def measure(name: str, path: Path, **options: Any) -> dict[str, Any]:
    command = [sys.executable, __file__, "--measure", name, str(path), json.dumps(options)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
    if done.returncode:
        return {"failed": done.returncode}
    return json.loads(done.stdout.splitlines()[-1])


# -- parts: each measures something at several sizes, and prints a table ----------------------------------------------

Row = dict[str, Any]


def gigabytes(n: float) -> str:
    return f"{n / 2**30:.2f}"


def show(title: str, names: list[str], lines: Iterator[tuple[Row, list[str]]]) -> list[Row]:
    """Print a table line by line as it is measured; gives what was measured."""
    print(f"\n## {title}\n\n| {' | '.join(names)} |\n|{'---|' * len(names)}", flush=True)
    rows = []
    for row, cells in lines:
        print(f"| {' | '.join(cells)} |", flush=True)
        rows.append(row)
    return rows


def by_rows(folder: Path, sizes: list[int]) -> list[Row]:
    def lines() -> Iterator[tuple[Row, list[str]]]:
        for n in sizes:
            n_fresh = max(n // 10, 1000)
            path, fresh = make_file(folder, n), make_file(folder, n_fresh, seed=1)
            r = {"rows": n} | measure("ours", path, fresh=str(fresh), folder=str(folder))
            steps = [f"{r['steps'].get(step, 0):.1f}" for step in ("survey", "code", "grow")]
            cells = [f"{n:,}", gigabytes(path.stat().st_size), f"{r['seconds']:.1f}", *steps]
            cells += [f"{1e6 * r['core_seconds'] / n:.2f}", gigabytes(r["resident"]), gigabytes(r["anonymous"])]
            yield r, [*cells, f"{n_fresh / r['certify_seconds'] / 1e6:.1f}"]

    names = ["rows", "file GB", "seconds", "survey", "code", "grow", "core µs a row", "peak GB", "of it anonymous"]
    title = "rows: fit from Parquet, 9 columns, 50 cells, 2 threads; then certify on a tenth as many other records"
    return show(title, [*names, "certify: million rows/s"], lines())


def by_others(folder: Path, sizes: list[int]) -> list[Row]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # Peak bytes for each row, as measured at ten million; and no more than some minutes of waiting.
    needs = {"memory": 90, "lightgbm": 110, "sklearn": 80}
    most_rows = {"memory": 10**12, "lightgbm": 10**12, "sklearn": 2 * 10**7}

    def lines() -> Iterator[tuple[Row, list[str]]]:
        for n in sizes:
            row: Row = {"rows": n}
            cells = [f"{n:,}"]
            for name in needs:
                if n * needs[name] > memory / 2:
                    cells.append("too large for memory")
                elif n > most_rows[name]:
                    cells.append("too slow to wait for")
                else:
                    row[name] = r = measure(name, make_file(folder, n))
                    cells.append("failed" if "failed" in r else f"{r['seconds']:.1f} s, {gigabytes(r['resident'])} GB")
            yield row, cells

    title = "others: the same files, read into memory; seconds (with reading) and peak GB"
    names = ["rows", "certifare, in memory", "LightGBM, one tree", "DecisionTreeClassifier"]
    return show(title, names, lines())


def by_columns(folder: Path) -> list[Row]:
    def lines() -> Iterator[tuple[Row, list[str]]]:
        for n_columns in (9, 18, 36, 50):
            r = {"columns": n_columns} | measure("ours", make_file(folder, MANY, n_columns), folder=str(folder))
            steps = [f"{1e6 * r['core_steps'].get(step, 0) / MANY:.2f}" for step in ("survey", "code", "grow")]
            cells = [f"{n_columns}", f"{r['seconds']:.2f}", f"{1e6 * r['core_seconds'] / MANY:.2f}", *steps]
            yield r, [*cells, gigabytes(r["resident"])]

    title = "columns: 5 million rows, 50 cells, 2 threads; steps in microseconds of one core for each row"
    return show(title, ["columns", "seconds", "core µs a row", "survey", "code", "grow", "peak GB"], lines())


def by_cells(folder: Path) -> list[Row]:
    def lines() -> Iterator[tuple[Row, list[str]]]:
        for asked in (2, 10, 50, 200, 1000):
            r = {"asked": asked} | measure("ours", make_file(folder, MANY), cells=asked, folder=str(folder))
            grow, core = r["steps"].get("grow", 0), 1e6 * r["core_steps"].get("grow", 0) / MANY
            yield r, [f"{asked}", f"{r['cells']}", f"{grow:.2f}", f"{core:.2f}"]

    title = "cells: 5 million rows, 9 columns, 2 threads"
    return show(title, ["cells asked for", "cells", "grow, seconds", "grow, core µs a row"], lines())


def by_workers(folder: Path) -> list[Row]:
    def lines() -> Iterator[tuple[Row, list[str]]]:
        path = make_file(folder, 10**7)
        for n_jobs in (1, 2):
            r = {"threads": n_jobs} | measure("ours", path, n_jobs=n_jobs, folder=str(folder))
            prepare, grow = sum(r["steps"].get(step, 0) for step in ("survey", "code")), r["steps"]["grow"]
            yield r, [f"{n_jobs} threads" if n_jobs > 1 else "1 thread", f"{prepare:.1f}", f"{grow:.2f}", "", "", ""]
        for n_workers, ahead in ((1, 16), (2, 16), (2, 0), (2, 64)):
            r = {"workers": n_workers, "ahead": ahead} | measure("dask", path, n_workers=n_workers, ahead=ahead)
            cells = [f"Dask, {n_workers} worker{'s' if n_workers > 1 else ''}", f"{r['prepare_seconds']:.1f}"]
            cells += [f"{r['grow_seconds']:.2f}", f"{ahead + 1}", f"{r['rounds']}", f"{r['bytes'] / 1000:,.0f}"]
            yield r, cells

    title = "workers: 10 million rows, 9 columns, 50 cells; threads, and worker processes of one thread"
    names = ["", "prepare, s", "grow, s", "splits a round", "rounds", "kB of counts to the client"]
    return show(title, names, lines())


def by_blocks(folder: Path) -> list[Row]:
    def lines() -> Iterator[tuple[Row, list[str]]]:
        for n_blocks in (4, 64, 512):
            r = {"blocks": n_blocks} | measure("dask", make_file(folder, 10**5), n_blocks=n_blocks)
            a_round = 1000 * r["grow_seconds"] / r["rounds"]
            yield r, [f"{n_blocks}", f"{r['rounds']}", f"{a_round:.0f}", f"{a_round / n_blocks:.2f}"]

    title = "blocks: what a round costs beside counting; 100,000 rows, 2 workers"
    return show(title, ["blocks", "rounds", "ms a round", "ms a block and round"], lines())


ENGINES = {"memory": "memory", "parquet": "Parquet stream", "dask": "Dask", "spark": "Spark"}
#: In memory, encoders are fitted to all training records, which takes too long for more.
MOST_IN_MEMORY = 10**6
JOB = ["rows", "engine", "group-aware", "seconds", "core seconds", "peak GB", "cells", "T\\*"]
JOB += ["certified on", "accuracy"]
MODEL = ["engine", "group-aware", "fixed, s", "core µs a row", "1 machine, s", "10 machines, s", "100 machines, s"]


def by_job(folder: Path, sizes: list[int], engines: list[str]) -> list[Row]:
    def lines() -> Iterator[tuple[Row, list[str]]]:
        for n in sizes:
            # People drawn with replacement are refused: too many records are equal.
            path = make_file(folder, n, made_up=True)
            for engine in engines if n <= MOST_IN_MEMORY else [name for name in engines if name != "memory"]:
                for group_aware in (False, True):
                    asked = {"engine": engine, "group_aware": group_aware}
                    row = {"rows": n} | asked | measure("job", path, **asked)
                    yield row, job_cells(row)

    return show("job: produce with every default and the target 0.05, two workers or threads", JOB, lines())


def job_cells(r: Row) -> list[str]:
    cells = [f"{r['rows']:,}", ENGINES[r["engine"]], "yes" if r["group_aware"] else "no"]
    if "failed" in r:
        return [*cells, "failed", *[""] * 6]
    cells += [f"{r['seconds']:.0f}", f"{r['core_seconds']:.0f}", gigabytes(r["memory"]), f"{r['cells']}"]
    return [*cells, f"{r['bound']:.4f}", f"{r['certified']:,}", f"{r['accuracy']:.3f}"]


def job_model(jobs: list[Row]) -> list[list[str]]:
    """Work out from two sizes what the whole job would take for a billion rows of these columns on a cluster."""
    n, cores, lines = 10**9, 16, []
    for engine, group_aware in dict.fromkeys((r["engine"], r["group_aware"]) for r in jobs if r["engine"] != "memory"):
        own = [r for r in jobs if (r["engine"], r["group_aware"]) == (engine, group_aware) and "seconds" in r]
        own.sort(key=lambda r: r["rows"])
        if len(own) < 2:
            continue
        first, last = own[0], own[-1]
        # What a row costs is spread over all cores; all else is done by one, on the client.
        a_row = max(last["core_seconds"] - first["core_seconds"], 0.0) / (last["rows"] - first["rows"])
        fixed = first["core_seconds"] - a_row * first["rows"]
        cells = [ENGINES[engine], "yes" if group_aware else "no", f"{fixed:.0f}", f"{1e6 * a_row:.1f}"]
        machines = (1,) if engine == "parquet" else (1, 10, 100)
        seconds = [f"{fixed + a_row * n / (cores * m):,.0f}" for m in machines]
        lines.append([*cells, *seconds, *[""] * (3 - len(seconds))])
    return lines


def write_job(jobs: list[Row]) -> None:
    """Write the rows and the model into the page, each behind its marker."""
    text = PAGE.read_text()
    for part, names, lines in (("job", JOB, map(job_cells, jobs)), ("model of the job", MODEL, job_model(jobs))):
        start = f"<!-- made by benchmarks/scale.py: {part} -->\n\n"
        before, _, rest = text.partition(start)
        rows = [names, ["--:" if i > 2 else "---" for i in range(len(names))], *lines]
        table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
        text = before + start + table + "\n<!-- end -->" + rest.partition("<!-- end -->")[2]
    PAGE.write_text(text)


def joined(jobs: list[Row], measured: list[Row]) -> list[Row]:
    """Put rows in the place of earlier ones of the same size, engine and kind of encoder."""
    of = {(r["rows"], r["engine"], r["group_aware"]): r for r in (*jobs, *measured)}
    order = list(ENGINES)
    return [of[key] for key in sorted(of, key=lambda key: (key[0], order.index(key[1]), key[2]))]


def by_model(measured: dict[str, list[Row]]) -> None:
    """Work out from the figures what a billion rows of fifty columns would take on a cluster."""
    wide = next(r for r in measured["columns"] if r["columns"] == 50)
    thread = next(r for r in measured["workers"] if r.get("threads") == 1)
    worker = next(r for r in measured["workers"] if r.get("workers") == 1)
    slower = worker["prepare_seconds"] / (thread["steps"]["survey"] + thread["steps"]["code"])
    prepare = slower * (wide["core_steps"]["survey"] + wide["core_steps"]["code"]) / MANY
    many = measured["blocks"][-1]
    a_block = many["grow_seconds"] / many["rounds"] / many["blocks"]
    n, cores, network = 10**9, 16, 1.25e9
    a_round = 17 * 4 * wide["codes"] * 8
    names = ["machines", "codes, GB each", "prepare, s", "blocks", "count, s", "ask, s", "move counts, s", "grow, s"]

    def lines() -> Iterator[tuple[Row, list[str]]]:
        for machines in (1, 10, 100):
            threads = machines * cores
            blocks = max(machines, min(2 * threads, math.isqrt(n * wide["bytes_a_row"] // (4 << 20))))
            count = n * wide["core_steps"]["grow"] / MANY / min(blocks, threads)
            ask = worker["rounds"] * blocks * a_block
            levels = math.ceil(math.log(machines, 8)) if machines > 1 else 0
            move = worker["rounds"] * (7 * levels + 1) * a_round / network
            cells = [f"{machines}", f"{n * wide['bytes_a_row'] / machines / 2**30:.1f}", f"{n * prepare / threads:.0f}"]
            seconds = (count, ask, move, count + ask + move)
            yield {}, [*cells, f"{blocks}", *(f"{part:.1f}" for part in seconds)]

    title = f"model: 1 billion rows × 50 columns, {wide['codes']:,} codes, machines of 16 cores on 10 Gbit/s"
    show(title, names, lines())
    print(f"\n{1e6 * prepare:.1f} µs to prepare a row, {1000 * a_block:.2f} ms for a block in a round, ", end="")
    print(f"{worker['rounds']} rounds, at most {a_round / 1e6:.1f} MB of counts in a round")


PARTS: dict[str, Callable[..., list[Row]]] = {
    "rows": by_rows,
    "others": by_others,
    "columns": by_columns,
    "cells": by_cells,
    "workers": by_workers,
    "blocks": by_blocks,
    "job": by_job,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6, 1e7, 1e8])
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--engines", nargs="*", choices=ENGINES, default=list(ENGINES), help="of the whole job")
    parser.add_argument("--results", type=Path, help="JSON file that figures are written into")
    parser.add_argument("--write", action="store_true", help="write the whole job into docs/scale.md")
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
    sizes = [int(n) for n in options.rows]
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        print(
            f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; "
            f"{'real' if DATA.exists() else 'made-up'} values"
        )
        results = options.results or (PAGE.parent / "figures" / "scale.json" if options.write else None)
        known = results is not None and results.exists()
        measured: dict[str, list[Row]] = json.loads(results.read_text()) if known else {}
        for name in options.only:
            if name == "job":
                measured[name] = joined(measured.get(name, []), by_job(folder, sizes, options.engines))
            else:
                measured[name] = PARTS[name](folder, *([sizes] if name in ("rows", "others") else []))
            if results is not None:
                results.write_text(json.dumps(measured, indent=1) + "\n")
        if {"columns", "workers", "blocks"} <= measured.keys():
            by_model(measured)
        if "job" in measured:
            title = "model: the whole job for a billion rows × 9 columns, machines of 16 cores"
            show(title, MODEL, (({}, cells) for cells in job_model(measured["job"])))
            if options.write:
                write_job(measured["job"])


if __name__ == "__main__":
    main()
