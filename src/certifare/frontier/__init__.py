"""Frontiers: try many encoders at once, and choose among them.

:mod:`~certifare.frontier.settings` defines what is tried; :mod:`~certifare.frontier.paths` fits and counts;
:mod:`~certifare.frontier.target` predicts certificates; :mod:`~certifare.frontier.utility` measures predictive power;
:mod:`~certifare.frontier.fronts` finds fronts and knees, :mod:`~certifare.frontier.ordering` the order in which
encoders are tested; :mod:`~certifare.frontier.search` keeps the parts of the table separate;
:mod:`~certifare.frontier.sweeping` makes the frontier.
"""

from certifare.frontier.fronts import knee, pareto
from certifare.frontier.settings import Grid, Setting
from certifare.frontier.sweeping import Frontier, Point, sweep

__all__ = ["Frontier", "Grid", "Point", "Setting", "knee", "pareto", "sweep"]
