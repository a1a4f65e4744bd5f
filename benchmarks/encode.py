"""Encoding a large CSV file: records a second and peak memory, beside pandas reading the same file.

    python benchmarks/encode.py [--rows 5000000] [--kind tree] [--folder /tmp]
    python benchmarks/encode.py --in-memory [--rows 500000]

The records are those of Adult, drawn with replacement. Each job runs in a process of its own; its peak memory is what
the kernel says of that process. ``--in-memory`` compares ways to the same cells instead, on records that were read
already: Python, scores, SQL in DuckDB, and ONNX in onnxruntime, each on one thread, in processor seconds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from certifare import BoostedEncoder, FairTreeEncoder
from certifare.data import adult

CHUNK = 250_000


def write_csv(path: Path, rows: int) -> None:
    """Write records of Adult, drawn with replacement."""
    table = adult()
    whole = table.features.append_column("income", table.y)
    plain = pa.table(
        {
            name: column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
            for name, column in zip(whole.column_names, whole.columns, strict=True)
        }
    )
    rng = np.random.default_rng(0)
    with pacsv.CSVWriter(path, plain.schema) as writer:
        for start in range(0, rows, CHUNK):
            chosen = rng.integers(0, plain.num_rows, min(CHUNK, rows - start))
            writer.write_table(plain.take(pa.array(chosen)))


#: Runs a command from a small process: the kernel counts what a child's parent held when it was forked.
OBSERVER = """
import json, resource, subprocess, sys, time
begun = time.perf_counter()
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([time.perf_counter() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
sys.stderr.write(done.stderr.decode())
sys.exit(done.returncode)
"""


def measure(command: list[str]) -> tuple[float, float, float]:
    """Seconds, seconds of processor time, and peak megabytes of a command."""
    found = subprocess.run([sys.executable, "-S", "-c", OBSERVER, *command], capture_output=True, text=True)  # noqa: S603
    if found.returncode:
        raise SystemExit(f"{' '.join(command)}\n{found.stderr}")
    seconds, processor, memory = json.loads(found.stdout)
    return seconds, processor, memory


def in_memory(rows: int) -> None:
    """Compare ways to the same cells; each must find the same ones."""
    import duckdb
    import onnxruntime

    table = adult()
    features = table.features.take(pa.array(np.random.default_rng(0).integers(0, len(table), rows)))
    flat = pa.table(
        {
            name: column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
            for name, column in zip(features.column_names, features.columns, strict=True)
        }
    )
    print(f"{rows:,} records in memory, one thread")
    print(f"{'':52}{'processor':>9}{'records/s':>12}")

    def timed(title: str, work: Callable[[], Any], expected: Any = None) -> Any:
        work()  # compiled, and read into caches
        begun = time.process_time()
        found = work()
        seconds = time.process_time() - begun
        assert expected is None or np.array_equal(found, expected), title
        print(f"{title:52}{seconds:9.2f}{rows / seconds:12,.0f}", flush=True)
        return found

    for kind in (FairTreeEncoder, BoostedEncoder):
        encoder = kind(max_cells=50).fit(table.features, table.labels, sensitive_features=table.sensitive)
        name = f"{kind.__name__}, {encoder.n_cells_} cells"
        cells = timed(f"{name}: apply", lambda e=encoder: e.apply(features))
        timed(f"{name}: predict_proba", lambda e=encoder: e.predict_proba(features))
        with duckdb.connect(config={"threads": 1}) as database:
            database.register("people", flat.append_column("position", pa.array(np.arange(rows))))
            database.execute("CREATE TABLE stored AS SELECT * FROM people")
            expression = encoder.to_sql("duckdb")
            query = f"SELECT position, {expression} AS cell FROM stored"  # noqa: S608

            def asked(database: Any = database, query: str = query) -> Any:
                found = database.execute(query).fetchnumpy()
                return found["cell"][np.argsort(found["position"])]  # a database gives rows in any order

            timed(f"{name}: SQL in DuckDB, {len(expression) / 1000:,.0f} kB", asked, cells)
        if kind is BoostedEncoder:
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            session = onnxruntime.InferenceSession(encoder.to_onnx().SerializeToString(), options)
            feed = {}
            for column in encoder.columns_:
                values = flat.column(column.name).to_pandas()
                if column.type == "text":
                    feed[column.name] = values.astype(object).where(values.notna(), "").to_numpy(dtype=object)[:, None]
                else:
                    feed[column.name] = values.to_numpy(dtype=np.float64)[:, None]
            timed(f"{name}: ONNX", lambda s=session, f=feed: s.run(["cell"], f)[0], cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--in-memory", action="store_true", help="compare Python, scores, SQL and ONNX in memory")
    parser.add_argument("--kind", choices=["tree", "boosted"], default="tree")
    parser.add_argument("--folder", type=Path, default=None)
    arguments = parser.parse_args()
    if arguments.in_memory:
        in_memory(arguments.rows or 500_000)
        return
    arguments.rows = arguments.rows or 5_000_000
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        source = folder / "people.csv"
        write_csv(source, arguments.rows)
        table = adult()
        kind = {"tree": FairTreeEncoder, "boosted": BoostedEncoder}[arguments.kind]
        encoder = kind(max_cells=50).fit(table.features, table.labels, sensitive_features=table.sensitive)
        encoder.save(folder / "encoder.json")
        size = source.stat().st_size / 1e6
        print(f"{arguments.rows:,} records, {size:,.0f} MB of CSV; {arguments.kind}, {encoder.n_cells_} cells")
        print(f"{'':40}{'seconds':>9}{'processor':>11}{'records/s':>12}{'peak MB':>9}")
        base = [sys.executable, "-m", "certifare", "encode", str(folder / "encoder.json"), str(source)]
        jobs = {
            "pandas.read_csv": [sys.executable, "-c", f"import pandas; pandas.read_csv({str(source)!r})"],
            "certifare encode, CSV to CSV": [*base, str(folder / "encoded.csv")],
            "certifare encode, CSV to Parquet": [*base, str(folder / "encoded.parquet")],
            "certifare encode --as cells, to Parquet": [*base, str(folder / "cells.parquet"), "--as", "cells"],
            "certifare encode --as score, to Parquet": [*base, str(folder / "scores.parquet"), "--as", "score"],
        }
        for title, command in jobs.items():
            seconds, processor, memory = measure(command)
            rate = arguments.rows / seconds
            print(f"{title:40}{seconds:9.1f}{processor:11.1f}{rate:12,.0f}{memory:9,.0f}", flush=True)


if __name__ == "__main__":
    main()
