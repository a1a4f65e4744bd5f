"""The experiments by name."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from certifare_research.errors import ExperimentError
from certifare_research.experiments.framework import Page, Run, write_page


@dataclass(frozen=True)
class Experiment:
    """One table or figure: where it is made, and what it shows."""

    module: str
    words: str
    function: str = "run"

    def __call__(self, run: Run) -> Page:
        """Make the page."""
        page: Page = getattr(import_module(f"certifare_research.experiments.{self.module}"), self.function)(run)
        return page


EXPERIMENTS = {
    "adult": Experiment(
        "adult_table", "frontier, sizes of certificates, ablation on Adult, which comes with certifare"
    ),
    "comparison": Experiment(
        "comparison", "main comparison on ACSIncome-CA, ACSIncome-US and Health (figures 3, 4, 10)"
    ),
    "learning": Experiment("learning", "published methods along their fairness knobs (Adult, ACSIncome-CA)"),
    "size": Experiment("size", "data size M (figure 5)"),
    "classifiers24": Experiment("classifiers24", "24 classifiers, half of them adversarial (figure 6)"),
    "interpretability": Experiment("interpretability", "cells of a small tree in words (section 7)"),
    "transfer": Experiment("transfer", "five unseen conditions of Health (tables 1 and 3)"),
    "kmeans": Experiment("kmeans", "k-means encoders (figure 7)"),
    "multi": Experiment("multi", "four labels and three groups (figure 8)"),
    "opportunity": Experiment("metrics", "equal opportunity on Health (figure 9, left)", "opportunity"),
    "odds": Experiment("metrics", "equalized odds on Health (figure 9, right)", "odds"),
    "efficiency": Experiment("efficiency", "time and memory of all methods (table 4)"),
    "downstream": Experiment("downstream", "other downstream classifiers (figure 12)"),
    "ablation": Experiment("ablation", "ablation of k (table 5)"),
    "years": Experiment("years", "one year and two (figure 13)"),
    "shift": Experiment("shift", "distribution shift (figure 11, left)", "shift"),
    "imputation": Experiment("shift", "missing values (figure 11, right)", "imputation"),
    "imbalance": Experiment("imbalance", "imbalance of the groups (figure 14)"),
    "audit": Experiment("audit", "measured distances against certificates, over all results so far"),
}


def reproduce(run: Run) -> list[Path]:
    """Run an experiment and write its page; return the files."""
    if run.name not in EXPERIMENTS:
        near = difflib.get_close_matches(run.name, EXPERIMENTS, 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ExperimentError(f"There is no experiment {run.name!r}.{hint} They are: {', '.join(EXPERIMENTS)}.")
    return write_page(EXPERIMENTS[run.name](run), run)
