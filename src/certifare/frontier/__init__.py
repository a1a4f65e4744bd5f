"""Frontiers: many encoders tried at once, and the choice among them.

:mod:`~certifare.frontier.settings` says what is tried; :mod:`~certifare.frontier.paths` fits it and counts;
:mod:`~certifare.frontier.target` predicts certificates; :mod:`~certifare.frontier.utility` says what encoders are
worth; :mod:`~certifare.frontier.fronts` finds fronts and knees, :mod:`~certifare.frontier.ordering` the order in which
encoders are tested; :mod:`~certifare.frontier.search` keeps the parts of the table apart;
:mod:`~certifare.frontier.sweeping` makes the frontier.
"""

from certifare.frontier.fronts import knee, pareto
from certifare.frontier.settings import Grid, Setting
from certifare.frontier.sweeping import Frontier, Point, sweep

__all__ = ["Frontier", "Grid", "Point", "Setting", "knee", "pareto", "sweep"]
