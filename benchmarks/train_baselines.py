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
takes all others with it. Trees, forests and boosting are trained on the codes by further processes, one core each,
while the next jobs use the GPU. What has not ended after --limit seconds is ended and said, with what it had found so
far.
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
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

PARTS = {"ca": "acs", "us": "acs", "health": "health", "transfer": "transfer", "adult": "acs"}
FARE = "FARE as published"
#: Hidden layers of the downstream networks. The last is given records as they are, not standardised: one-hot columns
#: of rare categories become so large when standardised that the network overfits them.
NETWORKS = {"mlp50": (50,), "logistic": (), "mlp50-50": (50, 50), "mlp50-raw": (50,)}
REPEATS = 5
#: Trees, forests and boosting, without standardisation: as the authors' code, the paper and scikit-learn have them.
BY_CPU = ("gbm", "tree100", "tree2500", "forest100")
#: Trees of FARE whose networks are trained at once.
AT_ONCE = 72
#: LAFTR's published sizes; without --thin, both are trained on either.
LAFTR_SIZES = {"us": 32, "health": 8}
#: How often records are repeated to measure times.
TIMES = (1, 4, 16)
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
    changes: dict[str, Any] = field(default_factory=dict)
    settings: list[Any] | None = None
    #: How long it will take, compared with others of its split: the longest begin first.
    weight: float = 0.0

    @property
    def name(self) -> str:
        """Name it in messages."""
        splits = "+".join(map(str, self.splits))
        return f"{self.data}-{splits}@{self.effort:g} {self.method} {self.metric} {self.changes}"


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
            job = Job(data, splits, method, effort=effort)
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
                    for size in ((8, 32) if not args.thin else (LAFTR_SIZES[data],))
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


@dataclass(frozen=True)
class Task:
    """What is left to do on the CPU with the codes of one setting: ``kinds`` of classifiers, and what is known."""

    kinds: list[str]
    codes: Path
    known: dict[str, Any]


def run_job(job: Job, args: argparse.Namespace, tasks: Any, path: Path) -> None:
    """Train and evaluate, in a process of its own; hand the tasks of the CPU on."""
    import torch

    from certifare_research.baselines.grids import arguments, describe, encode_grids, grid
    from certifare_research.evenly import evenly

    if args.tf32:
        torch.set_float32_matmul_precision("high")
    splits = [read(f"{job.data}-{split}", args) for split in job.splits]
    results = Results(path)
    if job.method == FARE:
        run_fare(job, splits[0], args, results, tasks)
        return
    family = splits[0].family
    settings = evenly(job.settings or grid(job.method, family), args.thin)
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
            fuse=args.fuse or job.method == "LAFTR",
            **job.changes,
        )
    )
    memory = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0.0
    say(args, f"{job.name}: {len(settings)} settings trained in {seconds[1.0]:.0f} s, {memory:.1f} GiB at most so far")
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
            evaluate(job, [known | {"setting": describe(s)} for s in settings], z, arrays, args, results, tasks)
            say(args, f"{job.name}, split {split}, effort {base['effort']}: evaluated")


def evaluate(job, known, z, arrays, args, results, tasks) -> None:
    """Train the networks on all representations, and hand on what is left to do on the CPU."""
    from certifare_research.evenly import evenly

    first, full, every = known[0]["split"] == 0, known[0]["effort"] == job.effort, range(len(known))
    attacked = evenly(every, args.adversaries if first else args.adversaries // 2) if args.adversaries else []
    fresh = every if attacked and job.data == "ca" and first and full else attacked
    finite = np.isfinite(z).all(axis=(1, 2))
    z[~finite] = 0.0
    for i in every:
        kinds = ["boosting-fresh"] if i in fresh and (full or (job.data == "ca" and first)) else []
        kinds += ["boosting"] if i in attacked and first else []
        hand_on(kinds, known[i] | {"finite": bool(finite[i])}, z[i], args, tasks)
    networks([k | {"finite": bool(f)} for k, f in zip(known, finite, strict=True)], z, arrays, args, results)


def hand_on(attacks: list[str], known: dict[str, Any], z, args, tasks) -> None:
    """Keep one setting's codes for the processes that classify."""
    kinds = [*(kind for kind in BY_CPU if kind in args.classifiers), *attacks]
    if kinds:
        codes = Path(args.scratch) / f"codes-{uuid.uuid4()}.npy"
        np.save(codes, z)
        tasks.put(Task(kinds, codes, known))


def networks(known: list[dict[str, Any]], z, arrays, args, results: Results) -> None:
    """Train the networks that were asked for on all representations."""
    from certifare_research.evaluation.stacked import predict_stacked

    at, test = arrays.train, ~arrays.train
    s = arrays.s.astype(np.int64)
    options = {"alpha": 0.1, "tol": 1e-3} if known[0]["method"] == "identity" else {}
    for kind in [kind for kind in NETWORKS if kind in args.classifiers]:
        for task, label in labels_of(arrays).items():
            y = label.astype(np.int64)
            predicted = predict_stacked(
                z[:, at],
                y[at],
                z[:, test],
                hidden=NETWORKS[kind],
                repeats=REPEATS,
                max_epochs=args.max_epochs,
                fuse=args.fuse,
                standardise=kind != "mlp50-raw",
                **options,
            )
            for own, guesses in zip(known, predicted, strict=True):
                found = [counts(s[test], y[test], guess.astype(np.int64)) for guess in guesses]
                results.add(**own, task=task, classifier=kind, target="y", counts=found)


def run_fare(job: Job, arrays, args, results: Results, tasks) -> None:
    """Classify by the medians of each cell of the paper's trees."""
    from certifare_research.baselines.cells import load
    from certifare_research.evenly import evenly

    path = Path(args.arrays) / _fare_file(job.data, job.splits[0], job.metric)
    order = sorted(tuple(setting.items()) for setting, _, _ in load(path))
    wanted = set(evenly(order, args.thin))
    encoders = (e for e in load(path) if tuple(e[0].items()) in wanted)
    base = {"data": job.data, "split": job.splits[0], "method": FARE, "metric": job.metric, "effort": 1.0, "seed": 0}
    base |= {"arguments": "", "finite": True}
    done = 0
    while chunk := list(itertools.islice(encoders, AT_ONCE)):
        known = [base | {"bound": bound, "setting": setting} for setting, bound, _ in chunk]
        z = np.stack([representation for _, _, representation in chunk])
        for own, codes in zip(known, z, strict=True):
            hand_on([], own, codes, args, tasks)
        networks(known, z, arrays, args, results)
        done += len(chunk)
        say(args, f"{job.name}: {done} encoders")


def classify(tasks: Any, args: argparse.Namespace, path: Path) -> None:
    """Train classifiers on one setting's codes after the other, until there are no more; in a process of its own."""
    os.nice(19)  # the processes that train go first
    results = Results(path)
    name, arrays = "", None
    while (task := tasks.get()) is not None:
        own = f"{task.known['data']}-{task.known['split']}"
        if own != name:
            name, arrays = own, read(own, args)
        z = np.load(task.codes)
        task.codes.unlink()
        for kind in task.kinds:
            (predict_label if kind in BY_CPU else predict_group)(kind, task.known, z, arrays, results)


def predict_group(kind: str, known: dict[str, Any], z, arrays, results: Results) -> None:
    """Attack by gradient boosting: trained on training records, or on records never seen before."""
    s, y = arrays.s.astype(np.int64), arrays.y.astype(np.int64)
    test = np.flatnonzero(~arrays.train)
    if kind == "boosting":
        seen = np.random.default_rng(0).permutation(np.flatnonzero(arrays.train))[:ATTACK_RECORDS]
        fresh = test
    else:  # half of the test records to train on, judged on the other half
        rows = np.random.default_rng(0).permutation(test)
        seen, fresh = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    guess = model("gbm").fit(z[seen], s[seen]).predict_proba(z[fresh])[:, 1] > s[arrays.train].mean()
    found = [counts(s[fresh], y[fresh], guess.astype(np.int64))]
    results.add(**known, task="y", classifier=kind, target="s", counts=found)


def predict_label(kind: str, known: dict[str, Any], z, arrays, results: Results) -> None:
    """Train a classifier as a consumer of the representation would."""
    at, s, y = arrays.train, arrays.s.astype(np.int64), arrays.y.astype(np.int64)
    guess = model(kind).fit(z[at], y[at]).predict(z[~at]).astype(np.int64)
    results.add(**known, task="y", classifier=kind, target="y", counts=[counts(s[~at], y[~at], guess)])


def model(kind: str) -> Any:
    """Return boosting, the authors' tree (100 leaves), the paper's (2,500) or the forest of 100."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier

    if kind == "gbm":
        return HistGradientBoostingClassifier(max_iter=100, early_stopping=False, random_state=0)
    if kind == "forest100":
        return RandomForestClassifier(100, random_state=0)
    return DecisionTreeClassifier(max_leaf_nodes=int(kind.removeprefix("tree")), random_state=0)


def say(args, text: str) -> None:
    print(f"{time.time() - args.began:4.0f} s: {text}", flush=True)


def run(names: list[str], args: argparse.Namespace) -> None:
    """Start the jobs, so many side by side, and the processes that classify; collect what they write."""
    out, scratch = Path(args.out), Path(args.scratch)
    out.mkdir(parents=True, exist_ok=True)
    scratch.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    tasks = context.Manager().Queue()
    files = (scratch / f"part-{os.getpid()}-{i}.jsonl" for i in itertools.count())
    used: list[Path] = []
    running: dict[str, Any] = {}
    failed: list[str] = []

    def start(name: str, target: Any, *arguments: Any) -> None:
        used.append(next(files))
        running[name] = context.Process(target=target, args=(*arguments, used[-1]))
        running[name].start()

    classifying = [f"classify {i}" for i in range(args.cores)]
    for name in classifying:
        start(name, classify, tasks, args)
    waiting = plan(names, args)
    ending = False
    while running and time.time() - args.began < args.limit:
        training = len(running.keys() - set(classifying))
        if waiting and training < args.workers:
            job = waiting.pop(0)
            start(job.name, run_job, job, args, tasks)
            continue
        if not waiting and not training and not ending:
            ending = True
            for _ in classifying:
                tasks.put(None)
        time.sleep(0.2)
        for name, process in list(running.items()):
            if process.exitcode is not None:
                del running[name]
                if process.exitcode:
                    failed.append(name)
    cut = [*running, *(job.name for job in waiting)]
    for process in running.values():
        process.kill()
        process.join()
    with (out / "results.jsonl").open("a") as file:
        for path in used:
            if path.is_file():
                file.writelines(line + "\n" for line in path.read_text().splitlines() if line.endswith("}"))
    say(args, f"done; failed: {failed}; cut short or not begun: {cut}")
    sys.exit(1 if failed else 0)


def clock(names: list[str], args: argparse.Namespace) -> None:
    """Time one setting from the middle of each grid, on the training records repeated M times.

    M = 1 runs to its end. A larger M does if M = 1 is not asked for; else it runs on as many of its epochs as --each
    seconds are expected to allow.
    """
    import torch

    from certifare_research.baselines.grids import METHODS, encode_grid, grid

    Path(args.out).mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    device = "cpu" if args.one_core else "cuda"
    methods = args.methods.split(",") if args.methods else METHODS
    results = Results(Path(args.out) / f"times{'-' + methods[0] if args.one_core else ''}.jsonl")
    once = read(names[0], args)
    whole: dict[str, float] = {}
    for method in methods if not args.one_core else ():  # starts the libraries
        encode_grid(method, subset(once, 2000), grid(method, once.family, 3)[1:2], effort=0.02, device=device)
    for times in args.times[:1] if args.one_core else args.times:
        fields = ("numbers", "codes", "y", "s", "train", "discrete")
        arrays = replace(once, **{name: np.repeat(getattr(once, name), times, axis=0) for name in fields})
        for method in methods:
            share = args.effort
            if method in whole and method != "FairPath":  # which has as many batches whatever the number of records
                share = min(1.0, args.each / (whole[method] * times))
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


def read(name: str, args: argparse.Namespace) -> Any:
    """Read a prepared split, or as many of its records as --rows says."""
    from certifare_research.baselines.arrays import Arrays

    arrays = Arrays.load(Path(args.arrays) / f"{name}.npz")
    return subset(arrays, args.rows) if args.rows else arrays


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
    parser.add_argument("--adversaries", type=int, default=8, help="settings per method that are attacked; 0: none")
    parser.add_argument("--max-epochs", type=int, default=200, help="of the downstream networks")
    parser.add_argument("--rows", type=int, help="a random sample of the records")
    parser.add_argument(
        "--classifiers",
        type=lambda text: text.split(","),
        default=["mlp50"],
        help=f"comma-separated, trained on every code: {', '.join((*NETWORKS, *BY_CPU))}; mlp50 unless given",
    )
    parser.add_argument("--tf32", action="store_true", help="matrix products in TensorFloat-32")
    parser.add_argument("--fuse", action="store_true", help="compile the losses; takes a minute, then saves time")
    parser.add_argument("--each", type=float, default=20, help="time: seconds for a setting on repeated records")
    parser.add_argument("--one-core", action="store_true", help="time: on one core, M = 1 alone")
    parser.add_argument("--times", type=int, nargs="+", default=TIMES, help="time: how often records are repeated")
    parser.add_argument("--workers", type=int, default=12, help="jobs side by side")
    parser.add_argument("--cores", type=int, default=os.cpu_count(), help="processes that classify on the CPU")
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
    if unknown := set(args.classifiers) - {*NETWORKS, *BY_CPU}:
        parser.error(f"no classifiers {', '.join(unknown)}: choose from {', '.join((*NETWORKS, *BY_CPU))}")
    if args.command == "prepare":
        prepare(args.names, Path(args.out))
    elif args.command == "time":
        clock(args.names, args)
    else:
        run(args.names, args)


if __name__ == "__main__":
    main()
