"""MatchingEncoder: find the columns and groups of a fitted encoder in the tables that it is given later."""

import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from certifare.encoders.cellscores import score_names
from certifare.encoders.fingerprint import Overlap
from certifare.encoders.fitting import FittingEncoder
from certifare.encoders.training import GroupValue, as_list, read_groups, sensitive_positions
from certifare.errors import EncoderError, GroupError, MissingColumnError
from certifare.foundation.formatting import listing
from certifare.foundation.levels import INTERSECTION, UNKNOWN, name_of
from certifare.growth import Dictionary
from certifare.tables.frames import Field, Frame, check_lengths


class MatchingEncoder(FittingEncoder):
    """Read features by name or position, and groups if cells depend on them."""

    @property
    def reads_groups(self) -> bool:
        """Whether a record's cell also depends on its group, so that encoding needs it."""
        return False

    @property
    def other_group(self) -> str | None:
        """The group that pools all groups without a name of their own, if there is one."""
        return None

    @property
    def is_column(self) -> bool:
        """Whether the cells are the values or bins of one existing column, and nothing was fitted."""
        return False

    def read_fields(self, frame: Frame) -> tuple[Field, ...]:
        """Read the features from a table, matched by name or position."""
        check_is_fitted(self)
        wanted = [column.name for column in self.columns_]
        named = hasattr(self, "feature_names_in_")
        if named and frame.named:
            there = set(frame.names)
            missing = [name for name in wanted if name not in there]
            if missing:
                raise MissingColumnError(
                    f"The table lacks columns that the encoder was fitted with: {listing(missing)}. "
                    f"It has {listing(frame.names)}."
                )
            positions = [frame.position(name) for name in wanted]
        else:
            if named != frame.named:
                words = ("does not have valid", "with") if named else ("has", "without")
                warnings.warn(
                    f"X {words[0]} feature names, but {type(self).__name__} was fitted {words[1]} feature names",
                    UserWarning,
                    stacklevel=3,
                )
            positions = self._positions(frame)
        return tuple(frame.read(i).as_type(column.type) for i, column in zip(positions, self.columns_, strict=True))

    def _positions(self, frame: Frame) -> list[int]:
        """Match columns by position; sensitive columns given by position may be present or not."""
        positions = list(range(len(frame.names)))
        sensitive = as_list(self.sensitive)
        if len(positions) == self.n_features_in_ + len(sensitive) and not any(isinstance(s, str) for s in sensitive):
            taken = {frame.position(int(s)) for s in sensitive}
            positions = [i for i in positions if i not in taken]
        if len(positions) != self.n_features_in_:
            raise MissingColumnError(
                f"X has {len(frame.names)} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input."
            )
        return positions

    def group_codes(self, fields: Sequence[Field]) -> NDArray[np.uint16] | None:
        """Find the groups of records among those of the encoder, from the sensitive columns, if it reads them."""
        return None

    def read_group_codes(self, frame: Frame, sensitive_features: Any) -> NDArray[np.uint16] | None:
        """Read the groups of records that are to be encoded; None if cells do not depend on them."""
        if not self.reads_groups:
            if sensitive_features is not None:
                raise GroupError(
                    "sensitive_features was given, but the cells do not depend on the group: leave it out."
                )
            return None
        if sensitive_features is None and self.sensitive is None:
            raise GroupError(
                "The encoder is group-aware, so a record's cell depends on its group: give sensitive_features=, or fit "
                'with the name of a column, sensitive="sex".'
            )
        fields, _ = read_groups(frame, sensitive_features, self.sensitive)
        check_lengths({"X": len(frame)} | {f"sensitive {field.name!r}": len(field) for field in fields})
        return self.group_codes(fields)

    def sensitive_features_in(self, X: Any) -> NDArray[Any] | dict[str, NDArray[Any]]:
        """Take the groups from a table, if ``sensitive=`` named their columns.

        Returns
        -------
        ndarray, or dict of str to ndarray
            The sensitive column; several by name. Missing values are None in text and NaN in numbers.
        """
        if self.sensitive is None:
            raise GroupError("The encoder does not know which column is sensitive: pass sensitive_features=.")
        frame = Frame(X)
        found = {
            frame.names[i]: frame.rebuild(_as_table(frame.read(i)), np.arange(len(frame)), "numpy")[:, 0]
            for i in sensitive_positions(frame, self.sensitive)
        }
        return next(iter(found.values())) if len(found) == 1 else found

    def training_overlap(self, X: Any) -> Overlap | None:
        """Count the records that were used to fit; None if this encoder does not know (it was read from a file)."""
        check_is_fitted(self)
        if self.fingerprint_ is None:
            return None
        if self.fingerprint_.names != tuple(column.name for column in self.columns_):
            raise EncoderError(
                f"The fingerprint belongs to another encoder: it covers {listing(self.fingerprint_.names)}."
            )
        return self.fingerprint_.overlap(self.read_fields(Frame(X)))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns that ``transform`` makes."""
        check_is_fitted(self)
        names = np.array([column.name for column in self.columns_], dtype=object)
        if input_features is not None:
            names = self._without_sensitive(np.asarray(input_features, dtype=object))
            if hasattr(self, "feature_names_in_") and not np.array_equal(names, self.feature_names_in_):
                raise ValueError("input_features is not equal to feature_names_in_")
            if len(names) != self.n_features_in_:
                raise ValueError(
                    f"input_features should have length equal to number of features ({self.n_features_in_}), "
                    f"got {len(names)}"
                )
        made: dict[str, Any] = {
            "cells": lambda: ["cell"],
            "onehot": lambda: [f"cell_{i}" for i in range(self.n_cells_)],
            "score": lambda: [name for name, _, _ in score_names(self.labels_)],
        }
        return np.array(made[self.output](), dtype=object) if self.output in made else names

    def _without_sensitive(self, names: NDArray[Any]) -> NDArray[Any]:
        """Leave the sensitive columns out of the names of columns that ``fit`` was given."""
        if len(names) == self.n_features_in_:
            return names
        taken = as_list(self.sensitive)
        places = {place % len(names) for place in taken if isinstance(place, int | np.integer)}
        return names[[i not in places and name not in taken for i, name in enumerate(names)]]

    def _get_metadata_request(self) -> Any:
        """Let the methods that encode ask for the groups that ``fit`` asks for, if cells depend on the group."""
        request = super()._get_metadata_request()
        of_fit = request.fit.requests.get("sensitive_features")
        for method in (request.transform, request.predict, request.predict_proba):
            if not self.reads_groups:
                method.requests.pop("sensitive_features", None)
            elif method.requests.get("sensitive_features") is None and of_fit is not None:
                method.add_request(param="sensitive_features", alias=of_fit)
        return request

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.target_tags.required = self._needs_labels
        tags.target_tags.multi_output = True
        tags.transformer_tags.preserves_dtype = []
        return tags


def _as_table(field: Field) -> dict[str, Any]:
    if isinstance(field.column, Dictionary):
        return {field.name: ("text", np.array([*field.column.values, None], dtype=object)[field.column.indices])}
    return {field.name: (field.type, field.column)}


def group_codes(
    fields: Sequence[Field], known: Sequence[GroupValue], column: str, other: str | None = None
) -> NDArray[np.uint16]:
    """Find each record's group among the known ones, by its name; refuse records of another group, or of none.

    A file may hold as numbers what was text when the encoder was fitted: ``1`` and ``"1"`` are one group.

    - ``other``: the known group that pools all others; records of none are refused all the same.
    """
    n_columns = len(known[0]) if isinstance(known[0], tuple) else column.count(INTERSECTION) + 1
    if len(fields) not in (1, n_columns):  # they may come in one, by their joint names
        raise GroupError(
            f"The encoder reads the group from {n_columns} columns ({column!r}), and {len(fields)} were given."
        )
    place_of = {name_of(group): place for place, group in enumerate(known)}
    parts = [field.levels() for field in fields]
    shape = tuple(len(part.values) + 1 for part in parts)  # missing values come last
    joint = np.ravel_multi_index([part.codes % (len(part.values) + 1) for part in parts], shape)
    table = np.full(int(np.prod(shape)), len(known), dtype=np.uint16)
    others: Counter[str] = Counter()
    counts = np.bincount(joint, minlength=len(table))
    for i in np.flatnonzero(counts).tolist():
        found = [(*part.values, None)[j] for part, j in zip(parts, np.unravel_index(i, shape), strict=True)]
        # If missing values were counted as a group, it has this name.
        name = name_of(tuple(UNKNOWN if value is None else value for value in found))
        if name in place_of:
            table[i] = place_of[name]
        elif other is not None and None not in found:
            table[i] = place_of[other]
        else:
            others["missing" if None in found else repr(tuple(found) if len(found) > 1 else found[0])] += int(counts[i])
    if others:
        raise GroupError(
            f"{others.total():,} of {len(joint):,} records have a group that the encoder was not fitted with "
            f"({column!r}: {', '.join(f'{n:,} {name}' for name, n in others.most_common(5))}); it knows "
            f"{listing(known)}. Only these have thresholds: leave the other records out."
        )
    groups: NDArray[np.uint16] = table[joint]
    return groups
