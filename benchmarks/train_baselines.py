"""Train the published methods' grids on a GPU and evaluate them there.

PyTorch, NumPy and (for trees, forests and adversaries) scikit-learn are all that is needed there.

Here:           python benchmarks/train_baselines.py prepare --out dist/arrays ca-0 ca-1 health-0
On the GPU:     export PYTHONPATH=src:research/src
                python3 benchmarks/train_baselines.py run --arrays dist/arrays --out $OUT ca-0 ca-1 health-0
Back here:      python benchmarks/train_baselines.py gather --out baselines.csv results.jsonl
                certifare reproduce comparison --baselines baselines.csv

A name is a data set and the seed of its split. Every method of a data set is one job in a process of its own, all its
settings one stack; methods that can train several splits (health-3+4) in one stack do. Processes share the GPU best
under NVIDIA's multi-process service (nvidia-cuda-mps-control -d), some eight of them; there, a process that is killed
takes all others with it. What has not ended after --limit seconds is ended and said, with what it had found so far.
Results are JSON lines: counts of (group, label, prediction) on the test records, so that every figure can be computed
from them, with every argument of the training.

Alone on the GPU (or, with --one-core, beside others on one core each): how long one setting takes, on M-fold records:
                python3 benchmarks/train_baselines.py time --arrays dist/arrays --out $OUT ca-0
Back here:      cat times.jsonl >> research/src/certifare_research/experiments/times.jsonl
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import resource
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "2")

import numpy as np

PARTS = {"ca": "acs", "us": "acs", "health": "health", "transfer": "transfer", "adult": "acs"}
FARE = "FARE as published"
#: Hidden layers of the downstream networks. The last is given records as they are, not standardised: one-hot columns
#: of rare categories become so large when standardised that the network overfits them.
NETWORKS = {"mlp50": (50,), "logistic": (), "mlp50-50": (50, 50), "mlp50-raw": (50,)}
REPEATS = 5
#: Trees of FARE whose networks are trained at once.
AT_ONCE = 72
#: How often records are repeated to measure times.
TIMES = (1, 4, 16)
#: Settings per method that trees and forests are trained on.
TREES = 6
#: Training records of the attack; more take longer and find no more.
ATTACK_RECORDS = 100_000


@dataclass
class Job:
    """One method on one split of one data set, or on several in one stack."""

    data: str
    splits: tuple[int, ...]
    method: str
    metric: str = "demographic_parity"
    effort: float = 1.0
    shorter: tuple[float, ...] = ()
    networks: tuple[str, ...] = ("mlp50",)
    trees: bool = False
    changes: dict[str, Any] = field(default_factory=dict)
    settings: list[Any] | None = None
    #: How long it will take, compared with others of its split: the longest begin first.
    weight: float = 0.0

    @property
    def name(self) -> str:
        """Name it in messages."""
        return f"{self.data}-{'+'.join(map(str, self.splits))} {self.method} {self.metric} {self.changes}"


def plan(names: list[str], args: argparse.Namespace) -> list[Job]:
    """List the jobs for some splits of data sets, as published: splits in the order given, the longest job first."""
    from certifare_research.baselines.grids import METHODS, grid, stacks

    everything = args.methods.split(",") if args.methods else [FARE, *METHODS, "identity"]
    jobs: list[Job] = []
    for name in names:
        own: list[Job] = []
        data, splits = _split(name)
        methods = name.partition("=")[2].split(",") if "=" in name else everything
        effort = float(name.partition("=")[0].partition("@")[2] or args.effort)
        family = PARTS[data]
        for method in methods:
            first = data == "ca" and splits == (0,)
            job = Job(data, splits, method, effort=effort, networks=tuple(NETWORKS)[:3] if first else ("mlp50",))
            job.trees = first
            if method == "identity":
                job.networks = ("mlp50", "mlp50-raw", "logistic", *(("mlp50-50",) if first else ()))
            if method in ("FairPath", "identity", FARE):
                job.effort = 1.0  # nothing to scale
            if method in ("CVIB", "FCRL", "LAFTR", "sIPM-LFR"):
                job.shorter = tuple(share / effort for share in args.shorter if share < effort)
            job.weight = {"LAFTR": 9, "CVIB": 5, "FCRL": 4, "sIPM-LFR": 4, "FNF": 2}.get(method, 1) * effort
            if method == "LAFTR" and data in ("us", "health"):
                settings = grid(method, family)
                if data == "us":
                    settings = [s for s in settings if s.g <= 4 or s.g in (10.0, 50.0)]
                own += [
                    replace(job, splits=(split,), changes={"size": size}, settings=settings)
                    for size in (8, 32)
                    for split in splits
                ]
                continue
            metrics = args.metrics.split(",") if method in ("FNF", FARE) and data == "health" else [job.metric]
            stacked = [splits] if stacks(method, family) else [(split,) for split in splits]
            own += [replace(job, splits=own_splits, metric=metric) for metric in metrics for own_splits in stacked]
        jobs += sorted(own, key=lambda job: -job.weight)
    return jobs


def prepare(names: list[str], out: Path) -> None:
    from certifare_research.baselines.cells import save
    from certifare_research.experiments import as_published
    from certifare_research.experiments.arrays import load, prepared

    out.mkdir(parents=True, exist_ok=True)
    parts = [(_split(name)[0], split, name.partition("=")[2]) for name in names for split in _split(name)[1]]
    for data, split, methods in parts:
        name = f"{data}-{split}"
        prepared(data, seed=split).save(out / f"{name}.npz")
        if data in as_published.SWEEPS and (not methods or FARE in methods.split(",")):
            for metric in ("demographic_parity", *(as_published.OTHER_METRICS if data == "health" else ())):
                grown = list(as_published.growths(load(data), data, split, metric=metric))
                save(out / _fare_file(data, split, metric), grown)
        print(f"{name}: {(out / f'{name}.npz').stat().st_size / 2**20:.1f} MiB")


def _fare_file(data: str, split: int, metric: str) -> str:
    return f"{data}-{split}-fare{'' if metric == 'demographic_parity' else f'-{metric}'}.npz"


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


def labels_of(arrays) -> dict[str, np.ndarray]:
    """Return what networks are to predict: the other tasks where a data set has some, else its label."""
    return {t: arrays.tasks[:, i] for i, t in enumerate(arrays.task_names)} or {"y": arrays.y}


def counts(s: np.ndarray, y: np.ndarray, predicted: np.ndarray) -> list[int]:
    return np.bincount(s * 4 + y * 2 + predicted, minlength=8).tolist()


def words(arguments: dict[str, Any]) -> str:
    def shown(value: Any) -> str:
        if isinstance(value, tuple):
            return "x".join(map(str, value))
        return f"{value:g}" if isinstance(value, float) else str(value)

    return " ".join(f"{name}={shown(value)}" for name, value in arguments.items())


def run_job(job: Job, args: argparse.Namespace, path: Path) -> None:
    """Train and evaluate, in a process of its own."""
    import torch

    from certifare_research.baselines.arrays import Arrays
    from certifare_research.baselines.grids import arguments, describe, encode_grids, grid

    if args.tf32:
        torch.set_float32_matmul_precision("high")
    splits = [Arrays.load(Path(args.arrays) / f"{job.data}-{split}.npz") for split in job.splits]
    splits = [subset(arrays, args.rows) for arrays in splits] if args.rows else splits
    results = Results(path)
    if job.method == FARE:
        run_fare(job, splits[0], args, results)
        return
    family = splits[0].family
    settings = job.settings or grid(job.method, family, args.thin)
    settings = settings[:: max(1, -(-len(settings) // args.thin))] if args.thin else settings
    trained: dict[float, list[np.ndarray]] = {}
    seconds: dict[float, float] = {}
    begun = time.time()

    def keep(share: float):
        def use(z: list[np.ndarray]) -> None:
            trained[share], seconds[share] = z, time.time() - begun

        return use

    tenths = 0

    def progress(done: int, total: int) -> None:
        nonlocal tenths
        before, tenths = tenths, 10 * done // max(1, total)
        if tenths not in (0, before):
            say(args, f"{job.name}: {10 * tenths} % of {total:,} steps")

    keep(1.0)(
        encode_grids(
            job.method,
            splits,
            settings,
            effort=job.effort,
            seed=args.seed,
            metric=job.metric,
            progress=progress,
            shorter={share: keep(share) for share in job.shorter},
            fuse=args.fuse,
            **job.changes,
        )
    )
    memory = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0.0
    say(args, f"{job.name}: {len(settings)} settings trained in {seconds[1.0]:.0f} s, {memory:.1f} GiB at most so far")
    tasks: list[Any] = []
    for share in sorted(trained, reverse=True):
        own = arguments(job.method, family, job.effort * share, **job.changes)
        base = {
            "data": job.data,
            "method": job.method,
            "metric": job.metric,
            "effort": round(job.effort * share, 4),
            "seed": args.seed,
            "arguments": words(own),
            "seconds": round(seconds[share], 1),
        }
        for split, arrays in zip(job.splits, splits, strict=True):
            z = trained[share].pop(0)
            known = base | {"split": split}
            tasks += evaluate(job, known, [describe(s) for s in settings], z, arrays, args, results)
            say(args, f"{job.name}, split {split}, effort {base['effort']}: evaluated")
    torch.cuda.empty_cache()
    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(*task) for task in tasks]:
            future.result()
    say(args, f"{job.name}: attacked")


def evaluate(job, base, settings, z, arrays, args, results) -> list[Any]:
    """Train the networks on all representations; return what is left to do on the CPU."""
    from certifare_research.evaluation.stacked import predict_stacked
    from certifare_research.evenly import evenly

    bad = ~np.isfinite(z).all(axis=(1, 2))
    z[bad] = 0.0
    at, test = arrays.train, ~arrays.train
    s = arrays.s.astype(np.int64)
    tasks = labels_of(arrays)
    known, fresh = z[:, at], z[:, test]
    left: list[Any] = []
    full, first, every = base["effort"] == job.effort, base["split"] == 0, range(len(settings))
    if full or (job.data == "ca" and first):
        many = evenly(every, args.adversaries if first else args.adversaries // 2)
        left += [
            (attack, "boosting-fresh", base, settings[i], z[i], arrays, results)
            for i in (every if job.data == "ca" and first and full else many)
        ]
        left += [(attack, "boosting", base, settings[i], z[i], arrays, results) for i in many if first]
    if args.boosted:
        left += [(boosted, base, settings[i], z[i], arrays, results) for i in every]
    if job.trees and args.trees and job.method not in ("FairPath", "LAFTR") and base["effort"] != 0.3:
        left += [(trees, base, settings[i], z[i], arrays, results) for i in evenly(every, TREES)]
    for task, label in tasks.items():
        label = label.astype(np.int64)
        for kind in job.networks if task == "y" else job.networks[: 2 if job.method == "identity" else 1]:
            predicted = predict_stacked(
                known,
                label[at],
                fresh,
                hidden=NETWORKS[kind],
                repeats=REPEATS,
                max_epochs=args.max_epochs,
                fuse=args.fuse,
                standardise=kind != "mlp50-raw",
                **({"alpha": 0.1, "tol": 1e-3} if job.method == "identity" else {}),
            )
            for i, setting in enumerate(settings):
                results.add(
                    **base,
                    setting=setting,
                    task=task,
                    classifier=kind,
                    target="y",
                    finite=not bad[i],
                    counts=[counts(s[test], label[test], p.astype(np.int64)) for p in predicted[i]],
                )
    return left


def run_fare(job: Job, arrays, args, results: Results) -> None:
    """Train the paper's network on the medians of each cell of the paper's trees."""
    from certifare_research.baselines.cells import load
    from certifare_research.evaluation.stacked import predict_stacked

    encoders = load(Path(args.arrays) / _fare_file(job.data, job.splits[0], job.metric))
    s, at = arrays.s.astype(np.int64), arrays.train
    labels = labels_of(arrays)
    base = {"data": job.data, "split": job.splits[0], "method": FARE, "metric": job.metric, "effort": 1.0, "seed": 0}
    done = 0
    while chunk := list(itertools.islice(encoders, AT_ONCE if not args.thin else 2 * (not done))):
        known, fresh = (np.stack([e[2][part] for e in chunk]) for part in (at, ~at))
        done += len(chunk)
        for task, label in labels.items():
            y = label.astype(np.int64)
            predicted = predict_stacked(known, y[at], fresh, repeats=REPEATS, max_epochs=args.max_epochs)
            for (setting, bound, _), own in zip(chunk, predicted, strict=True):
                results.add(
                    **base,
                    arguments="",
                    bound=bound,
                    setting=setting,
                    task=task,
                    classifier="mlp50",
                    target="y",
                    finite=True,
                    counts=[counts(s[~at], y[~at], p.astype(np.int64)) for p in own],
                )
            say(args, f"{job.name}: {done} encoders, {task}")


def attack(kind, base, setting, z, arrays, results: Results) -> None:
    """Gradient boosting that predicts the group: trained on training records, or on records never seen before."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    s, y = arrays.s.astype(np.int64), arrays.y.astype(np.int64)
    test = np.flatnonzero(~arrays.train)
    if kind == "boosting":
        known = np.random.default_rng(0).permutation(np.flatnonzero(arrays.train))[:ATTACK_RECORDS]
        fresh = test
    else:  # half of the test records to train on, judged on the other half
        rows = np.random.default_rng(0).permutation(test)
        known, fresh = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    model = HistGradientBoostingClassifier(max_iter=100, early_stopping=False, random_state=0)
    guess = model.fit(z[known], s[known]).predict_proba(z[fresh])[:, 1] > s[arrays.train].mean()
    found = [counts(s[fresh], y[fresh], guess.astype(np.int64))]
    results.add(**base, setting=setting, task="y", classifier=kind, target="s", finite=True, counts=found)


def boosted(base, setting, z, arrays, results: Results) -> None:
    """Gradient boosting that predicts the label, as a consumer of the representation."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    at, s, y = arrays.train, arrays.s.astype(np.int64), arrays.y.astype(np.int64)
    model = HistGradientBoostingClassifier(max_iter=100, early_stopping=False, random_state=0)
    guess = model.fit(z[at], y[at]).predict(z[~at]).astype(np.int64)
    found = [counts(s[~at], y[~at], guess)]
    results.add(**base, setting=setting, task="y", classifier="gbm", target="y", finite=True, counts=found)


def trees(base, setting, z, arrays, results: Results) -> None:
    """Train the authors' tree (100 leaves), the paper's (2,500), and the forest of 100, five times."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier

    at, test, s, y = arrays.train, ~arrays.train, arrays.s.astype(np.int64), arrays.y.astype(np.int64)
    for kind, make in (
        ("tree100", lambda seed: DecisionTreeClassifier(max_leaf_nodes=100, random_state=seed)),
        ("tree2500", lambda seed: DecisionTreeClassifier(max_leaf_nodes=2500, random_state=seed)),
        ("forest100", lambda seed: RandomForestClassifier(100, n_jobs=2, random_state=seed)),
    ):
        guesses = [make(seed).fit(z[at], y[at]).predict(z[test]) for seed in range(REPEATS)]
        found = [counts(s[test], y[test], guess.astype(np.int64)) for guess in guesses]
        results.add(**base, setting=setting, task="y", classifier=kind, target="y", finite=True, counts=found)


def say(args, text: str) -> None:
    print(f"{time.time() - args.began:4.0f} s: {text}", flush=True)


def run(names: list[str], args: argparse.Namespace) -> None:
    """Start the jobs, so many side by side; collect what they write."""
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    waiting = list(enumerate(plan(names, args)))
    running: dict[int, tuple[Job, Any]] = {}
    failed: list[str] = []
    files = {i: Path(args.scratch) / f"job-{os.getpid()}-{i}.jsonl" for i, _ in waiting}
    while (waiting or running) and time.time() - args.began < args.limit:
        while waiting and len(running) < args.workers:
            i, job = waiting.pop(0)
            running[i] = job, context.Process(target=run_job, args=(job, args, files[i]))
            running[i][1].start()
        time.sleep(0.2)
        for i, (job, process) in list(running.items()):
            if process.exitcode is not None:
                del running[i]
                if process.exitcode:
                    failed.append(job.name)
    cut = [job.name for job, _ in running.values()] + [job.name for _, job in waiting]
    for _, process in running.values():
        process.kill()
        process.join()
    with (out / "results.jsonl").open("a") as file:
        for path in files.values():
            if path.is_file():
                file.writelines(line + "\n" for line in path.read_text().splitlines() if line.endswith("}"))
    say(args, f"done; failed: {failed}; cut short or not begun: {cut}")
    sys.exit(1 if failed else 0)


def clock(names: list[str], args: argparse.Namespace) -> None:
    """Time one setting from the middle of each grid, on the training records repeated M times.

    M = 1 runs to its end. A larger M runs on as many of its epochs as --each seconds are expected to allow.
    """
    import torch

    from certifare_research.baselines.arrays import Arrays
    from certifare_research.baselines.grids import METHODS, encode_grid, grid

    Path(args.out).mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    device = "cpu" if args.one_core else "cuda"
    methods = args.methods.split(",") if args.methods else METHODS
    results = Results(Path(args.out) / f"times{'-' + methods[0] if args.one_core else ''}.jsonl")
    once = Arrays.load(Path(args.arrays) / f"{names[0]}.npz")
    whole: dict[str, float] = {}
    for method in methods if not args.one_core else ():  # starts the libraries
        encode_grid(method, subset(once, 2000), grid(method, once.family, 3)[1:2], effort=0.02, device=device)
    for times in TIMES[:1] if args.one_core else TIMES:
        arrays = subset(once, args.rows) if args.rows else once
        fields = ("numbers", "codes", "y", "s", "train", "discrete")
        arrays = replace(arrays, **{name: np.repeat(getattr(arrays, name), times, axis=0) for name in fields})
        for method in methods:
            scaled = method != "FairPath"  # as many batches whatever the number of records
            share = min(1.0, args.each / (whole[method] * times)) if times > 1 and scaled else args.effort
            if not args.one_core:
                torch.cuda.reset_peak_memory_stats()
            begun, used = time.time(), time.process_time()
            # LAFTR in one kernel, since it has ten times as many steps as others
            fuse = method == "LAFTR" and not args.one_core
            encode_grid(method, arrays, grid(method, arrays.family, 3)[1:2], effort=share, device=device, fuse=fuse)
            seconds = (time.process_time() - used) if args.one_core else time.time() - begun
            if times == 1:
                whole[method] = seconds
            results.add(
                method=method,
                M=times,
                place="one core" if args.one_core else "GPU",
                records=len(arrays.y),
                share=share,
                seconds=round(seconds, 2),
                peak_gb=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)
                if args.one_core
                else round(torch.cuda.max_memory_allocated() / 2**30, 2),
            )
            say(args, f"{method}, M = {times}, {100 * share:.0f} % of the epochs: {seconds:.1f} s")


def _split(name: str) -> tuple[str, tuple[int, ...]]:
    """``ca-0``, or ``ca-0+1@0.3=CVIB,FCRL`` with two splits, the effort and the methods."""
    data, _, splits = name.partition("=")[0].partition("@")[0].rpartition("-")
    return data, tuple(map(int, splits.split("+")))


def subset(arrays, rows: int):
    keep = np.sort(np.random.default_rng(0).choice(len(arrays.y), min(rows, len(arrays.y)), replace=False))
    fields = {n: getattr(arrays, n)[keep] for n in ("numbers", "codes", "y", "s", "train")}
    fields["discrete"] = None if arrays.discrete is None else arrays.discrete[keep]
    fields["tasks"] = arrays.tasks[keep] if arrays.tasks.size else arrays.tasks
    return replace(arrays, **fields)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["prepare", "run", "gather", "time"])
    parser.add_argument(
        "names",
        nargs="+",
        help=f"data sets ({', '.join(PARTS)}) with a split or several, and where wanted an effort and methods "
        "(ca-0, health-3+4, us-0@0.25=CVIB,FCRL); for gather: files",
    )
    parser.add_argument("--arrays", default="dist/arrays")
    parser.add_argument("--out", default="dist/baselines")
    parser.add_argument("--methods", help="comma-separated; all unless given")
    parser.add_argument(
        "--metrics",
        default="demographic_parity,equal_opportunity,equalized_odds",
        help="that FNF and FARE are trained for on Health",
    )
    parser.add_argument("--effort", type=float, default=1.0, help="share of the published epochs")
    parser.add_argument(
        "--shorter",
        type=float,
        nargs="*",
        default=(),
        help="shares of the published epochs that are looked at as well, for methods without a plan for their "
        "learning rate",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the training")
    parser.add_argument("--thin", type=int, help="at most so many settings per method")
    parser.add_argument("--adversaries", type=int, default=8, help="settings per method that are attacked")
    parser.add_argument("--max-epochs", type=int, default=200, help="of the downstream networks")
    parser.add_argument("--rows", type=int, help="a random sample of the records")
    parser.add_argument("--boosted", action="store_true", help="gradient boosting as a consumer of every code")
    parser.add_argument("--trees", action="store_true", help="trees and forests on the first split of CA")
    parser.add_argument("--tf32", action="store_true", help="matrix products in TensorFloat-32")
    parser.add_argument("--fuse", action="store_true", help="compile the losses; takes a minute, then saves time")
    parser.add_argument("--each", type=float, default=20, help="time: seconds for a setting on repeated records")
    parser.add_argument("--one-core", action="store_true", help="time: on one core, M = 1 alone")
    parser.add_argument("--workers", type=int, default=12, help="jobs side by side")
    parser.add_argument("--scratch", default=".", help="folder for files of single jobs")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which all jobs are ended")
    args = parser.parse_args()
    args.began = time.time()
    if args.command == "gather":
        from certifare_research.experiments.published import gather

        print(f"{args.out}: {gather(map(Path, args.names), Path(args.out))} rows")
        return
    for name in args.names:
        try:
            known = _split(name)[0] in PARTS
        except ValueError:
            known = False
        if not known:
            parser.error(f"no data set {name!r}: choose from {', '.join(PARTS)}, with a split (ca-0)")
    if args.command == "prepare":
        prepare(args.names, Path(args.out))
    elif args.command == "time":
        clock(args.names, args)
    else:
        run(args.names, args)


if __name__ == "__main__":
    main()
