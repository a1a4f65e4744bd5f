"""The published methods as scikit-learn transformers: ``fit(X, y, sensitive_features=…)``, ``transform(X)``.

X is a table (pandas, polars, pyarrow) or an array; numbers are scaled and categories become bits, from training
records alone (:class:`~certifare_research.datasets.Design`). None of these methods bounds what a classifier can do with
its representation: their distances are measured, not certified.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from certifare.foundation.formatting import listing
from certifare.tables.frames import check_lengths, read_values
from certifare_research.baselines.adversarial import LAFTRSetting, OpponentName, SIPMSetting, train_laftr, train_sipm
from certifare_research.baselines.discrete import Discretiser
from certifare_research.baselines.fairpath import FairPathSetting, train_fairpath
from certifare_research.baselines.fnf_continuous import FlowSetting, train_fnf_continuous
from certifare_research.baselines.fnf_discrete import MOST_CONFIGURATIONS, MatchingSetting, train_fnf_discrete
from certifare_research.baselines.grids import Trained
from certifare_research.baselines.variational import CVIBSetting, FCRLSetting, train_cvib, train_fcrl
from certifare_research.datasets.design import Design, Scaling
from certifare_research.errors import BaselineError


@dataclass(eq=False, repr=False, kw_only=True)
class Baseline(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the published methods: tables into arrays, labels and groups into 0 and 1.

    Parameters that all methods share:

    categorical_features : sequence of str
        Columns that hold categories, besides text columns.
    scaling : mapping of column name to {"unit", "standard", "none"}, optional
        How numbers are scaled; "unit" unless given.
    seed : int
        Same records and seed, same representation (on the same kind of device).
    device : str, optional
        "cpu" or "cuda"; a GPU where there is one unless given.
    """

    categorical_features: Sequence[str] = ()
    scaling: Mapping[str, Scaling] | None = None
    seed: int = 0
    device: str | None = None

    @property
    def needs_group(self) -> bool:
        """Whether ``transform`` needs the group of each record."""
        return False

    def fit(self, X: Any, y: Any, sensitive_features: Any = None) -> Self:
        """Train on records with a label and a group, two of each."""
        if sensitive_features is None:
            raise BaselineError("Pass the group of each record: fit(X, y, sensitive_features=…).")
        labels, self.labels_ = _binary(y, "label")
        groups, self.groups_ = _binary(sensitive_features, "group")
        inputs = self._fit_inputs(X)
        check_lengths({"X": len(inputs), "y": len(labels), "sensitive_features": len(groups)})
        self.trained_ = self._train(inputs, labels, groups, seed=self.seed, device=self.device)
        return self

    def transform(self, X: Any, sensitive_features: Any = None) -> NDArray[np.float32]:
        """Representation of each record. FNF's encoders take the group as well, LAFTR's unless told otherwise."""
        check_is_fitted(self, "trained_")
        inputs = self._inputs(X)
        groups = None
        if self.needs_group:
            if sensitive_features is None:
                raise BaselineError(
                    f"{type(self).__name__} encodes a record differently for each group: transform(X, "
                    f"sensitive_features=…)."
                )
            groups = _known(sensitive_features, self.groups_)
            check_lengths({"X": len(inputs), "sensitive_features": len(groups)})
        return self.trained_.encode(inputs, groups)[0]

    def fit_transform(self, X: Any, y: Any = None, sensitive_features: Any = None, **_: Any) -> NDArray[np.float32]:
        """Train and encode the same records."""
        return self.fit(X, y, sensitive_features).transform(X, sensitive_features)

    def _fit_inputs(self, X: Any) -> NDArray[Any]:
        self.design_ = Design(self.categorical_features, self.scaling).fit(X)
        return self._inputs(X)

    def _inputs(self, X: Any) -> NDArray[Any]:
        return self.design_.transform(X)

    def _train(self, x: NDArray[Any], y: NDArray[np.float32], s: NDArray[np.float32], **common: Any) -> Trained:
        options = {name: getattr(self, name) for name in self._options}
        return self._trainer(x, y, s, [self._setting()], **options, **common)

    #: Trains encoders for a list of settings; the parameters that it takes besides.
    _trainer: ClassVar[Callable[..., Trained]]
    _options: ClassVar[tuple[str, ...]] = ()

    def _setting(self) -> Any:
        raise NotImplementedError


@dataclass(eq=False, repr=False)
class CVIB(Baseline):
    """Conditional variational information bottleneck, with a predictor (Moyer et al. 2018).

    Parameters
    ----------
    lambda_, beta : float
        Weights of reconstruction and divergence, and of divergence again.
    hidden, epochs, batch_size : int
    categorical_features, scaling, seed, device
        See :class:`Baseline`.
    """

    lambda_: float = 0.05
    beta: float = 0.01
    _: KW_ONLY
    hidden: int = 50
    epochs: int = 200
    batch_size: int = 128

    _trainer = staticmethod(train_cvib)
    _options = ("hidden", "epochs", "batch_size")

    def _setting(self) -> Any:
        return CVIBSetting(self.lambda_, self.beta)


@dataclass(eq=False, repr=False)
class FCRL(Baseline):
    """Fair contrastive representation learning (Gupta et al. 2021).

    Parameters
    ----------
    lambda_ : float
        Weight of the contrastive estimate.
    beta : float, optional
        Weight of the divergence from the prior; ``lambda_`` unless given.
    hidden, epochs, batch_size : int
    categorical_features, scaling, seed, device
        See :class:`Baseline`.
    """

    lambda_: float = 0.1
    beta: float | None = None
    _: KW_ONLY
    hidden: int = 50
    epochs: int = 200
    batch_size: int = 128

    _trainer = staticmethod(train_fcrl)
    _options = ("hidden", "epochs", "batch_size")

    def _setting(self) -> Any:
        return FCRLSetting(self.lambda_, self.lambda_ if self.beta is None else self.beta)


@dataclass(eq=False, repr=False)
class LAFTR(Baseline):
    """Learning adversarially fair and transferable representations (Madras et al. 2018).

    Parameters
    ----------
    g : float
        Weight of the auditor.
    reconstruction : float
    size, epochs, batch_size : int
    hidden : pair of int
        Width of encoder and decoder, and of classifier and auditor.
    sees_group : bool
        Whether the encoder takes the group beside the record, as published.
    opponent : {"published", "steady"}
        The published auditor stops learning once it is sure and wrong; a steady one does not. With
        ``sees_group=False, opponent="steady", size=8, batch_size=512, epochs=100`` the group is hidden far better.
    categorical_features, scaling, seed, device
        See :class:`Baseline`.
    """

    g: float = 1.0
    reconstruction: float = 0.0
    _: KW_ONLY
    size: int = 32
    hidden: tuple[int, int] = (100, 50)
    sees_group: bool = True
    opponent: OpponentName = "published"
    epochs: int = 500
    batch_size: int = 64

    @property
    def needs_group(self) -> bool:
        """The published encoder takes the group as an input."""
        return self.sees_group

    _trainer = staticmethod(train_laftr)
    _options = ("size", "hidden", "sees_group", "opponent", "epochs", "batch_size")

    def _setting(self) -> Any:
        _check_opponent(self.opponent)
        return LAFTRSetting(self.g, self.reconstruction)


@dataclass(eq=False, repr=False)
class SIPMLFR(Baseline):
    """Representations by a sigmoid integral probability metric (Kim et al. 2022).

    Parameters
    ----------
    fairness, task, reconstruction : float
        Weights λ_F, λ and λ_R.
    size : int
        Of the representation.
    opponent : {"published", "steady"}
        One sigmoid unit as published, or a network that goes on learning. With
        ``opponent="steady", size=8, lr=1e-3, epochs=100`` the group is hidden far better.
    epochs, batch_size : int
    lr : float
        Learning rate of the encoder.
    categorical_features, scaling, seed, device
        See :class:`Baseline`.
    """

    fairness: float = 1.0
    task: float = 1.0
    reconstruction: float = 0.0
    _: KW_ONLY
    size: int = 60
    opponent: OpponentName = "published"
    epochs: int = 300
    batch_size: int = 512
    lr: float = 0.02
    seed: int = 100

    _trainer = staticmethod(train_sipm)
    _options = ("size", "opponent", "epochs", "batch_size", "lr")

    def _setting(self) -> Any:
        _check_opponent(self.opponent)
        return SIPMSetting(self.task, self.fairness, self.reconstruction)


@dataclass(eq=False, repr=False)
class FairPath(Baseline):
    """Fair representations by implicit path alignment (Shui et al. 2022), which aims at sufficiency.

    Parameters
    ----------
    kappa : float
        Weight of the distance between the two groups' heads.
    size, iterations, batch_size : int
    categorical_features, scaling, seed, device
        See :class:`Baseline`.
    """

    kappa: float = 0.1
    _: KW_ONLY
    size: int = 200
    iterations: int = 1000
    batch_size: int = 128

    _trainer = staticmethod(train_fairpath)
    _options = ("size", "iterations", "batch_size")

    def _setting(self) -> Any:
        return FairPathSetting(self.kappa)


@dataclass(eq=False, repr=False)
class DiscreteFNF(Baseline):
    """Fair normalizing flows on categories (Balunović et al. 2022). Encodes with the group.

    Parameters
    ----------
    gamma : float
        Probability that a record of the first group is mapped regardless of the label.
    drop : sequence of str
        Columns to leave out, so that all combinations of the others can be listed.
    epochs : int
    categorical_features, scaling, seed, device
        See :class:`Baseline`. Numbers are cut at the median; scaling plays no part.
    """

    gamma: float = 0.5
    _: KW_ONLY
    drop: Sequence[str] = ()
    epochs: int = 100

    @property
    def needs_group(self) -> bool:
        """Each group has a map of its own."""
        return True

    def _fit_inputs(self, X: Any) -> NDArray[Any]:
        self.discretiser_ = Discretiser(self.categorical_features, self.drop).fit(X)
        total = float(np.prod([float(n) for n in self.discretiser_.sizes_]))
        if total > MOST_CONFIGURATIONS:
            names = [n for n in self.discretiser_.design_.names_ if n not in self.drop]
            sizes = [f"{n} ({size})" for n, size in zip(names, self.discretiser_.sizes_, strict=True)]
            raise BaselineError(
                f"The columns have {total:,.0f} combinations of categories, more than {MOST_CONFIGURATIONS:,}: "
                f"name some in drop=. Categories: {listing(sizes)}."
            )
        return self._inputs(X)

    def _inputs(self, X: Any) -> NDArray[Any]:
        return self.discretiser_.transform(X)

    _trainer = staticmethod(train_fnf_discrete)
    _options = ("epochs",)

    def _setting(self) -> Any:
        return MatchingSetting(self.gamma)

    def _train(self, *data: Any, **common: Any) -> Trained:
        return super()._train(*data, sizes=self.discretiser_.sizes_, **common)


@dataclass(eq=False, repr=False)
class ContinuousFNF(Baseline):
    """Fair normalizing flows on numbers (Balunović et al. 2022). Encodes with the group.

    Parameters
    ----------
    gamma : float
        Weight of the divergence between the groups; 1 − γ is the label's.
    metric : {"demographic_parity", "equal_opportunity", "equalized_odds"}
    columns : sequence of str, optional
        Columns of the design matrix to use; all unless given.
    prior_epochs, epochs, batch_size : int
    categorical_features, scaling, seed, device
        See :class:`Baseline`.
    """

    gamma: float = 0.5
    _: KW_ONLY
    metric: str = "demographic_parity"
    columns: Sequence[str] | None = None
    prior_epochs: int = 80
    epochs: int = 80
    batch_size: int = 256
    seed: int = 100

    @property
    def needs_group(self) -> bool:
        """Each group has a map of its own."""
        return True

    def _inputs(self, X: Any) -> NDArray[Any]:
        matrix = self.design_.transform(X)
        if self.columns is None:
            return matrix
        names = self.design_.column_names()
        for column in self.columns:
            if column not in names:
                raise BaselineError(f"The design matrix has no column {column!r}; it has {listing(names)}.")
        return matrix[:, [names.index(column) for column in self.columns]]

    _trainer = staticmethod(train_fnf_continuous)
    _options = ("metric", "prior_epochs", "epochs", "batch_size")

    def _setting(self) -> Any:
        metrics = ("demographic_parity", "equal_opportunity", "equalized_odds")
        if self.metric not in metrics:
            raise BaselineError(f"Unknown metric {self.metric!r}: choose one of {', '.join(metrics)}.")
        return FlowSetting(self.gamma)


@dataclass(eq=False, repr=False)
class Identity(Baseline):
    """The unfair baseline: records as they are, as numbers.

    Examples
    --------
    >>> import pandas as pd
    >>> from certifare_research.baselines import Identity
    >>> X = pd.DataFrame({"age": [20, 40, 60]})
    >>> Identity().fit(X, [0, 1, 1], [0, 1, 0]).transform(X).ravel().tolist()
    [0.0, 0.5, 1.0]
    """

    def _train(self, x: NDArray[Any], y: NDArray[np.float32], s: NDArray[np.float32], **common: Any) -> Trained:
        return _Unchanged()


class _Unchanged:
    """Encodes a record as itself."""

    def encode(self, x: NDArray[np.float32], s: Any) -> NDArray[np.float32]:
        return x[None]


def _check_opponent(name: str) -> None:
    if name not in get_args(OpponentName):
        raise BaselineError(f"opponent is {name!r}; give {' or '.join(map(repr, get_args(OpponentName)))}.")


def _binary(values: Any, what: str) -> tuple[NDArray[np.float32], tuple[Any, ...]]:
    fields = read_values(values, what)
    if len(fields) != 1:
        raise BaselineError(f"These methods take one {what} column; {len(fields)} were given.")
    found = fields[0].levels().complete(what)
    names = found.values
    if len(names) != 2:
        raise BaselineError(
            f"These methods are made for two {what}s; column {fields[0].name!r} has {len(names)}: {listing(names)}."
        )
    return found.codes.astype(np.float32), names


def _known(values: Any, names: tuple[Any, ...]) -> NDArray[np.float32]:
    found = read_values(values, "group")[0].levels().complete("group")
    for name in found.values:
        if name not in names:
            raise BaselineError(f"The group {name!r} was not among the training records' {listing(names)}.")
    return found.places(names)[found.codes].astype(np.float32)
