"""Colours of charts and pages, in light and in dark."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

#: Name → colour in light, colour in dark.
PALETTE = {
    "ink": ("#1c2530", "#e8ebee"),
    "muted": ("#566270", "#a5afba"),
    "line": ("#c9d0d8", "#454f5a"),
    "grid": ("#e6eaee", "#2c343d"),
    "paper": ("#ffffff", "#151a20"),
    "panel": ("#f5f7f9", "#1d242c"),
    "accent": ("#15578f", "#7db8ea"),
    "band": ("#b8d2ea", "#2c5478"),
    "warm": ("#a8480f", "#f2a26b"),
    "good": ("#1d6b45", "#74c79c"),
    "bad": ("#a32020", "#f28b82"),
    # Groups and kinds, told apart also without colour vision.
    "series-1": ("#16588e", "#7ab6e8"),
    "series-2": ("#b34a0a", "#f4a56c"),
    "series-3": ("#1b6c49", "#71c59d"),
    "series-4": ("#7b3f8c", "#cf9bdd"),
    "series-5": ("#7a5c00", "#dcbc5c"),
    "series-6": ("#9a2855", "#ef92b4"),
    "series-7": ("#555d66", "#b6bec7"),
    # Which group visits a cell more often: from the first over neither to the second.
    "lean-1": ("#6aa5d4", "#2a689e"),
    "lean-2": ("#9cc2e1", "#2a5375"),
    "lean-3": ("#cfe1f0", "#284258"),
    "lean-4": ("#eceef0", "#343c45"),
    "lean-5": ("#f8e0ce", "#553f2e"),
    "lean-6": ("#efbd98", "#7a4b29"),
    "lean-7": ("#e0955a", "#964f18"),
}
SERIES = tuple(name for name in PALETTE if name.startswith("series-"))
LEANS = tuple(name for name in PALETTE if name.startswith("lean-"))
SHADES = (*SERIES, *LEANS)


#: The font of drawings that stand alone.
FONT = "system-ui, -apple-system, Roboto, Arial, sans-serif"


def variables(dark: bool) -> str:
    """Return the style sheet's variables for one of the two modes."""
    return " ".join(f"--{name}: {pair[dark]};" for name, pair in PALETTE.items())


@cache
def plane_style() -> str:
    """Return the rules of :class:`~certifare.drawing.svg.Plane`, by the variables of the palette."""
    classes = (f".{name} {{ --colour: var(--{name}); }} .plane .{name} {{ color: var(--{name}); }}" for name in SHADES)
    return files("certifare.drawing").joinpath("plane.css").read_text("utf-8") + "\n".join(classes)


@cache
def alone_style() -> str:
    """Return the same rules without variables and relative sizes, which few programs but browsers know."""
    sheet = re.sub(r"\.[\w-]+ \{ --colour[^}]*\}", "", plane_style())
    sheet = re.sub(r"([\d.]+)rem", lambda found: f"{16 * float(found[1]):g}px", sheet)

    def mode(dark: bool) -> str:
        return re.sub(
            r"var\(--([\w-]+)\)", lambda found: FONT if found[1] == "body" else PALETTE[found[1]][dark], sheet
        )

    coloured = "\n".join(rule for rule in mode(dark=True).splitlines() if "#" in rule)
    return f"{mode(dark=False)}\n@media screen and (prefers-color-scheme: dark) {{\n{coloured}\n}}"
