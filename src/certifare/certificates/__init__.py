"""Certificates: bounds on distances between groups, as functions of counts alone.

Nothing here looks at a record. :mod:`~certifare.certificates.counts` holds the table that everything is computed
from; :mod:`~certifare.certificates.exact` bounds the distance of two groups, :mod:`~certifare.certificates.calibrated`
that of calibrated cells; :mod:`~certifare.certificates.claims` makes metrics of such distances;
:mod:`~certifare.certificates.sequence` tests several encoders against a target;
:mod:`~certifare.certificates.bounding` computes all figures of a certificate, by method; and
:mod:`~certifare.certificates.issuing` puts a :class:`Certificate` together.
"""

from certifare.certificates.certificate import Certificate
from certifare.certificates.claims import METRICS, Claim, Part, Witness
from certifare.certificates.classifier import Interval
from certifare.certificates.counts import CellCounts, Exclusion, joint_cells
from certifare.certificates.exact import difference_limit, hoeffding_radius
from certifare.certificates.issuing import certify_counts
from certifare.certificates.sampling import Subsample, one_per_cluster, thin
from certifare.certificates.sequence import FixedSequence, Step
from certifare.certificates.tail import Tail

__all__ = [
    "METRICS",
    "CellCounts",
    "Certificate",
    "Claim",
    "Exclusion",
    "FixedSequence",
    "Interval",
    "Part",
    "Step",
    "Subsample",
    "Tail",
    "Witness",
    "certify_counts",
    "difference_limit",
    "hoeffding_radius",
    "joint_cells",
    "one_per_cluster",
    "thin",
]
