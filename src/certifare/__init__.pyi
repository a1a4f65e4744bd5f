from .bundle import Bundle as Bundle
from .bundle import produce as produce
from .certificates import CellCounts as CellCounts
from .certificates import Certificate as Certificate
from .certificates import certify_counts as certify_counts
from .certificates import joint_cells as joint_cells
from .certificates import one_per_cluster as one_per_cluster
from .certificates import thin as thin
from .certification.certifying import certify as certify
from .certification.certifying import certify_column as certify_column
from .certification.certifying import certify_records as certify_records
from .certification.certifying import count_records as count_records
from .certification.monitoring import History as History
from .document.policy import Policy as Policy
from .encoders import BoostedEncoder as BoostedEncoder
from .encoders import CalibratedEncoder as CalibratedEncoder
from .encoders import FairTreeEncoder as FairTreeEncoder
from .encoders import KMeansEncoder as KMeansEncoder
from .encoders import load_encoder as load_encoder
from .errors import CertifareError as CertifareError
from .frontier.settings import Grid as Grid
from .frontier.sweeping import Frontier as Frontier
from .frontier.sweeping import sweep as sweep
from .tables.reading import Reading as Reading
from .tables.table import Table as Table
from .tables.table import read_table as read_table

__version__: str
