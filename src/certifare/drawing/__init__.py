"""Charts as SVG: of reports, notebooks, examples and pages."""

from certifare.drawing.figure import Figure, Panel, Scale, Series, draw_figures, draw_panels
from certifare.drawing.svg import Plane

__all__ = ["Figure", "Panel", "Plane", "Scale", "Series", "draw_figures", "draw_panels"]
