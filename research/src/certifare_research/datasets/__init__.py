"""Data sets of the experiments: loaders, splits and design matrices.

Files come from the folder that ``CERTIFARE_DATA`` names, or from the cache; ACS data are downloaded where there is a
network; Adult ships with certifare.
"""

from certifare_research.datasets.acs import load_acs_employment, load_acs_income, load_acs_income_classes
from certifare_research.datasets.classic import load_adult, load_compas, load_german_credit, load_law_school
from certifare_research.datasets.dataset import Dataset
from certifare_research.datasets.design import Design
from certifare_research.datasets.health import load_health

__all__ = [
    "Dataset",
    "Design",
    "load_acs_employment",
    "load_acs_income",
    "load_acs_income_classes",
    "load_adult",
    "load_compas",
    "load_german_credit",
    "load_health",
    "load_law_school",
]
