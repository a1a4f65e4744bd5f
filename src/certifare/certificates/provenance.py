"""Provenance of counted records: what a certificate states about them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from certifare.certificates.assumptions import NOT_LOOKED_UP, READS_GROUP, VOID, assumed
from certifare.certificates.population import Phrase
from certifare.certificates.sampling import Subsample
from certifare.errors import TrainingOverlapError


class LookedUp(Protocol):
    """The result of looking records up among the training records."""

    @property
    def excessive(self) -> bool:
        """Whether more of them were found than chance explains."""


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """The provenance of counted records."""

    void: str | None = None
    looked_up: str = NOT_LOOKED_UP
    besides: tuple[str, ...] = ()
    seed: int | None = None
    effective_size: float | None = None
    population: tuple[Phrase, ...] = ()

    def assumptions(self, method: str, of_bound: Iterable[str] = ()) -> tuple[str, ...]:
        """Return all assumptions of a certificate by a method, including those of its bound."""
        first, *others = assumed(method)
        return tuple(dict.fromkeys((self.void or first, *others, *of_bound, self.looked_up, *self.besides)))

    def assuming(self, *words: str) -> Provenance:
        """Return the same with more assumptions."""
        return replace(self, besides=(*self.besides, *words))

    def drawn(self, sample: Subsample) -> Provenance:
        """Return the same for sampled records."""
        return replace(
            self,
            besides=(*self.besides, *sample.assumptions),
            seed=sample.seed,
            effective_size=sample.effective_size,
            population=sample.population,
        )


def provenance_of(overlap: LookedUp | None, *, reads_groups: bool, allow_training_records: bool = False) -> Provenance:
    """Raise if records were used to fit; otherwise return their provenance."""
    besides = (READS_GROUP,) if reads_groups else ()
    if overlap is None:
        return Provenance(besides=besides)
    if not overlap.excessive:
        return Provenance(looked_up=f"The certification records were looked up: {overlap}.", besides=besides)
    if not allow_training_records:
        raise TrainingOverlapError(
            f"Of the certification records, {overlap}. A certificate needs records that played no part in fitting: "
            "hold some out. (In Python, allow_training_records=True overrides this; the result is then no valid "
            "certificate.)"
        )
    words = f"{VOID}: of the certification records, {overlap}."
    return Provenance(void=words, looked_up=f"The certification records were looked up: {overlap}.", besides=besides)
