"""Charts as SVG: of reports, notebooks, examples and pages."""

from certifare.drawing.figure import Panel, Scale, Series, draw_panels

__all__ = ["Panel", "Scale", "Series", "draw_panels"]
