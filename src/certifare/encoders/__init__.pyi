from .base import RestrictedEncoder as RestrictedEncoder
from .boosted import BoostedEncoder as BoostedEncoder
from .calibrated_cells import CalibratedEncoder as CalibratedEncoder
from .existing import column_encoder as column_encoder
from .fingerprint import Fingerprint as Fingerprint
from .fingerprint import Overlap as Overlap
from .loading import load_encoder as load_encoder
from .tree import FairTreeEncoder as FairTreeEncoder
