"""Heritage Health Prize: one record per patient and year, prepared as in Balunović et al. (2022).

What the published preparation does otherwise, and why not here:

- It splits by record, so that years of one patient lie on both sides. Here ``clusters`` holds the patient, and
  :meth:`~certifare_research.datasets.Dataset.parts` keeps patients whole.
- It computes means and deviations on validation records too. :meth:`~certifare_research.datasets.Dataset.design` sees
  training records only.
- Its label, ``bool(1 - Charlson)``, is *false* for band 1 (index 1-2) alone and true for bands 0, 2 and 3. That is
  kept as
  ``label="paper"``, so that figures compare; ``label="charlson>0"`` is what was meant.
"""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from certifare_research.datasets import sources
from certifare_research.datasets.dataset import Dataset
from certifare_research.datasets.design import Scaling
from certifare_research.errors import DataFileError

ORIGIN = (
    "It is made from the Heritage Health Prize data (Kaggle, research use only): one row per patient and year "
    "with counts, "
    "max_CharlsonIndex, MemberID, Year, and the one-hot columns AgeAtFirstClaim=* and Sex=*."
)
CONDITION = "PrimaryConditionGroup="
#: The paper's five unseen tasks.
TRANSFER_TASKS = ("MISCHRT", "NEUMENT", "ARTHSPIN", "METAB3", "MSC2a3")
OLD = ("60-69", "70-79", "80+")


def load_health(*, transfer: bool = False, label: str = "paper", data: str | os.PathLike[str] | None = None) -> Dataset:
    """Health: predict the Charlson comorbidity index of a patient; groups: age below 60, or 60 and more.

    Parameters
    ----------
    transfer : bool
        Leave the condition columns out of the features and offer them as ``tasks`` ("count > 0").
    label : {"paper", "charlson>0"}
    data : path, optional
        Folder with ``health.parquet``; the folder that ``CERTIFARE_DATA`` names unless given.
    """
    table = pq.read_table(sources.require("health.parquet", ORIGIN, data))
    charlson = table["max_CharlsonIndex"].to_numpy()
    if label not in ("paper", "charlson>0"):
        raise DataFileError(f'label={label!r}: choose "paper" or "charlson>0".')
    y = (charlson != 1) if label == "paper" else (charlson > 0)
    old = sum(table[f"AgeAtFirstClaim={band}"].to_numpy().astype(np.int64) for band in OLD)
    sexes = [name for name in table.column_names if name.startswith("Sex=")]
    sex = np.argmax(np.stack([table[name].to_numpy() for name in sexes], axis=1), axis=1)
    left_out = {"max_CharlsonIndex", "MemberID", "Year", *sexes}
    names = [n for n in table.column_names if n not in left_out and not n.startswith("AgeAtFirstClaim=")]
    tasks = {}
    if transfer:
        tasks = {n: (table[CONDITION + n].to_numpy() > 0).astype(np.int64) for n in TRANSFER_TASKS}
        names = [n for n in names if not n.startswith(CONDITION)]
    values = pa.DictionaryArray.from_arrays(pa.array(sex.astype(np.int8)), [n.removeprefix("Sex=") for n in sexes])
    scaling: dict[str, Scaling] = {name: "none" if "=" in name else "standard" for name in names}
    return Dataset(
        name="Health-transfer" if transfer else "Health",
        X=table.select(names).append_column("Sex", values).combine_chunks(),
        y=np.asarray(y).astype(np.int64),
        s=(np.asarray(old) > 0).astype(np.int64),
        label_names=("no", "yes"),
        group_names=("below 60", "60 and more"),
        categorical=("Sex",),
        clusters=table["MemberID"].to_numpy().astype(np.int64),
        tasks=tasks,
        scaling=scaling,
    )
