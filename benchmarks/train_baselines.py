"""Train the published methods' grids on a GPU and evaluate them there.

PyTorch, NumPy and (for the adversary) scikit-learn are all that is needed there.

Here:           python benchmarks/train_baselines.py prepare --out dist/arrays ca health
On the GPU:     export PYTHONPATH=src:research/src
                python3 benchmarks/train_baselines.py run --arrays dist/arrays --out $OUT ca health
Back here:      python benchmarks/train_baselines.py gather --out baselines.csv results.jsonl
                certifare reproduce comparison --baselines baselines.csv

Every method of a data set is one job, all its settings one stack; jobs share the GPU by streams of their own. Results
are JSON lines that hold counts of (group, label, prediction) on the test records, so that every figure can be
computed from them.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "4")

import numpy as np

PARTS = {"ca": "acs", "us": "acs", "health": "health", "transfer": "transfer", "adult": "acs"}


def prepare(names: list[str], out: Path) -> None:
    from certifare_research.experiments.arrays import prepared

    out.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = out / f"{name}.npz"
        prepared(name).save(path)
        print(f"{path}: {path.stat().st_size / 2**20:.1f} MiB")


class Results:
    """JSON lines, written as they come."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("a")
        self.lock = threading.Lock()

    def add(self, **record: object) -> None:
        """Write one line."""
        with self.lock:
            self.file.write(json.dumps(record) + "\n")
            self.file.flush()


def counts(s: np.ndarray, y: np.ndarray, predicted: np.ndarray) -> list[int]:
    return np.bincount(s * 4 + y * 2 + predicted, minlength=8).tolist()


def run_job(name: str, method: str, arrays, matrix, args, results: Results, forests: ThreadPoolExecutor) -> None:
    import torch

    from certifare_research.baselines.grids import describe, encode_grid, grid, spread
    from certifare_research.evaluation.stacked import predict_stacked

    started = time.time()
    metrics = ["demographic_parity"]
    if method == "FNF" and name == "health":
        metrics = args.flow_metrics.split(",")
    for metric, seed in product(metrics, range(args.seeds)):
        settings = grid(method, arrays.family, args.thin)
        begun = time.time()
        z = encode_grid(method, arrays, settings, effort=args.effort, seed=seed, metric=metric, matrix=matrix)
        seconds = time.time() - begun
        bad = ~np.isfinite(z).all(axis=(1, 2))
        z[bad] = 0.0
        at, test = arrays.train, ~arrays.train
        s = arrays.s.astype(np.int64)
        base = {"data": name, "method": method, "metric": metric, "effort": args.effort, "seconds": seconds}
        if args.seeds > 1:
            base["seed"] = seed
        tasks = {"y": arrays.y, **{t: arrays.tasks[:, i] for i, t in enumerate(arrays.task_names)}}
        downstream = [("mlp50", (50,), 5)]
        if name == "ca" and not args.only_mlp:
            downstream += [("logistic", (), 1), ("mlp50-50", (50, 50), 1)]
        chosen = spread(range(len(settings)), args.adversaries)
        futures = []
        for task, label in tasks.items():
            label = label.astype(np.int64)
            for kind, hidden, repeats in downstream if task == "y" else downstream[:1]:
                begun = time.time()
                predicted = predict_stacked(
                    z[:, at],
                    label[at],
                    z[:, test],
                    hidden=hidden,
                    repeats=repeats,
                    max_epochs=args.max_epochs,
                    **({"alpha": 0.1, "tol": 1e-3} if method == "identity" else {}),
                )
                for i, setting in enumerate(settings):
                    results.add(
                        **base,
                        setting=describe(setting),
                        task=task,
                        classifier=kind,
                        target="y",
                        finite=not bad[i],
                        counts=[counts(s[test], label[test], p.astype(np.int64)) for p in predicted[i]],
                    )
                print(f"{name} {method} {metric} {task} {kind}: {time.time() - begun:.1f} s", flush=True)
        for i in chosen:
            futures += [
                forests.submit(
                    trees, base, settings[i], z[i], arrays, name, method, results, not args.only_mlp, args.fresh_only
                )
            ]
        torch.cuda.empty_cache() if torch.cuda.is_available() else None
        print(
            f"{time.time() - args.began:4.0f} s: {name} {method} {metric}: "
            f"trained {len(settings)} settings in {seconds:.1f} s, "
            f"all {time.time() - started:.0f} s, {int(bad.sum())} not finite",
            flush=True,
        )
        for future in futures:
            future.result()


def trees(base, setting, z, arrays, name, method, results, others, fresh_only) -> None:
    from certifare_research.baselines.grids import describe

    at, test, s, y = arrays.train, ~arrays.train, arrays.s.astype(np.int64), arrays.y.astype(np.int64)

    def note(kind: str, target: str, predicted) -> None:
        results.add(
            **base,
            setting=describe(setting),
            task="y",
            classifier=kind,
            target=target,
            finite=True,
            counts=[counts(s[test], y[test], np.asarray(predicted).astype(np.int64))],
        )

    try:
        from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
        from sklearn.tree import DecisionTreeClassifier
    except ImportError:
        from certifare_research.evaluation.stacked import predict_stacked

        note(
            "mlp200-100", "s", predict_stacked(z[at], s[at], z[test], hidden=(200, 100), repeats=1, max_epochs=50)[0, 0]
        )
        return
    boosting = HistGradientBoostingClassifier(max_iter=100, early_stopping=False, random_state=0)
    # An adversary that trains on records which the encoder never saw: half of the test records, judged on the other
    # half.
    rows = np.random.default_rng(0).permutation(np.flatnonzero(test))
    seen, fresh = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    guess = boosting.fit(z[seen], s[seen]).predict_proba(z[fresh])[:, 1] > s[at].mean()
    results.add(
        **base,
        setting=describe(setting),
        task="y",
        classifier="boosting-fresh",
        target="s",
        finite=True,
        counts=[counts(s[fresh], y[fresh], guess.astype(np.int64))],
    )
    if fresh_only:
        return
    scores = boosting.fit(z[at], s[at]).predict_proba(z[test])[:, 1]
    note("boosting", "s", scores > s[at].mean())
    if others and name == "ca" and method in ("CVIB", "FCRL", "FNF", "sIPM-LFR", "identity"):
        tree = DecisionTreeClassifier(max_leaf_nodes=100, random_state=0).fit(z[at], y[at])
        note("tree100", "y", tree.predict(z[test]))
        forest = RandomForestClassifier(100, n_jobs=4, random_state=0).fit(z[at], y[at])
        note("forest100", "y", forest.predict(z[test]))


def run(names: list[str], args) -> None:
    import torch

    from certifare_research.baselines.arrays import Arrays
    from certifare_research.baselines.grids import IDENTITY, METHODS, VARIANTS

    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    results = Results(out / "results.jsonl")
    loaded = {name: Arrays.load(Path(args.arrays) / f"{name}.npz") for name in names}
    if args.rows:
        for name, arrays in loaded.items():
            loaded[name] = subset(arrays, args.rows)
    matrices = {name: arrays.matrix() for name, arrays in loaded.items()}
    methods = args.methods.split(",") if args.methods else [*METHODS, *VARIANTS, IDENTITY]
    jobs = queue.SimpleQueue()
    longest_first = ["CVIB", "FCRL", "sIPM-LFR", "LAFTR", *VARIANTS, "FNF", "FairPath", IDENTITY]
    for method in sorted(methods, key=longest_first.index):
        for name in names:
            jobs.put((name, method))
    failures = []
    started = time.time()

    def work(forests: ThreadPoolExecutor) -> None:
        while True:
            try:
                name, method = jobs.get_nowait()
            except queue.Empty:
                return
            try:
                if torch.cuda.is_available():
                    with torch.cuda.stream(torch.cuda.Stream()):
                        run_job(name, method, loaded[name], matrices[name], args, results, forests)
                else:
                    run_job(name, method, loaded[name], matrices[name], args, results, forests)
            except Exception:
                failures.append((name, method))
                traceback.print_exc()

    with ThreadPoolExecutor(4) as forests:
        workers = [threading.Thread(target=work, args=(forests,)) for _ in range(args.workers)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    print(f"all in {time.time() - started:.0f} s; failed: {failures}")
    sys.exit(1 if failures else 0)


def subset(arrays, rows: int):
    from dataclasses import replace

    keep = np.sort(np.random.default_rng(0).choice(len(arrays.y), min(rows, len(arrays.y)), replace=False))
    fields = {n: getattr(arrays, n)[keep] for n in ("numbers", "codes", "y", "s", "train")}
    fields["discrete"] = None if arrays.discrete is None else arrays.discrete[keep]
    fields["tasks"] = arrays.tasks[keep] if arrays.tasks.size else arrays.tasks
    return replace(arrays, **fields)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["prepare", "run", "gather"])
    parser.add_argument("names", nargs="+", help=f"data sets ({', '.join(PARTS)}); for gather: files of JSON lines")
    parser.add_argument("--arrays", default="dist/arrays")
    parser.add_argument("--out", default="dist/baselines")
    parser.add_argument("--methods", help="comma-separated; all unless given")
    parser.add_argument(
        "--flow-metrics", default="demographic_parity,equal_opportunity,equalized_odds", help="FNF on Health"
    )
    parser.add_argument("--effort", type=float, default=1.0, help="share of the published epochs")
    parser.add_argument("--seeds", type=int, default=1, help="train every setting so many times")
    parser.add_argument("--thin", type=int, help="at most so many settings per method")
    parser.add_argument("--adversaries", type=int, default=12, help="settings per method that are attacked")
    parser.add_argument("--max-epochs", type=int, default=200, help="of the downstream networks")
    parser.add_argument("--rows", type=int, help="a random sample of the records")
    parser.add_argument("--only-mlp", action="store_true", help="no other downstream classifiers")
    parser.add_argument("--fresh-only", action="store_true", help="only the adversary that trains on fresh records")
    parser.add_argument("--workers", type=int, default=6, help="jobs side by side")
    args = parser.parse_args()
    args.began = time.time()
    if args.command == "gather":
        from certifare_research.experiments.published import gather

        print(f"{args.out}: {gather([(Path(name), args.effort) for name in args.names], Path(args.out))} rows")
        return
    if unknown := set(args.names) - PARTS.keys():
        parser.error(f"no data set {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}")
    if args.command == "prepare":
        prepare(args.names, Path(args.out))
    else:
        run(args.names, args)


if __name__ == "__main__":
    main()
