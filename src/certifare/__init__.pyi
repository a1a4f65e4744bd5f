from .bundle import Bundle as Bundle
from .bundle import produce as produce
from .certificates import CellCounts as CellCounts
from .certificates import Certificate as Certificate
from .certificates import certify_counts as certify_counts
from .certificates import joint_cells as joint_cells
from .certificates import one_per_cluster as one_per_cluster
from .certificates import thin as thin
from .certification import certify as certify
from .certification import certify_column as certify_column
from .certification import certify_records as certify_records
from .certification import count_records as count_records
from .encoders import BoostedEncoder as BoostedEncoder
from .encoders import FairTreeEncoder as FairTreeEncoder
from .encoders import KMeansEncoder as KMeansEncoder
from .encoders import load_encoder as load_encoder
from .errors import CertifareError as CertifareError
from .frontier.settings import Grid as Grid
from .frontier.sweeping import Frontier as Frontier
from .frontier.sweeping import sweep as sweep
from .monitoring import History as History
from .policy import Policy as Policy
from .reading import Reading as Reading
from .table import Table as Table
from .table import read_table as read_table

__version__: str
