"""A frontier as a small chart of characters."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from certifare.frontier.sweeping import Point

#: Mark and colour of each kind of encoder on the front. The mark alone tells them apart.
MARKS = {"boosted": ("o", "cyan"), "tree": ("+", "green"), "calibrated": ("c", "blue")}
OTHER = ("*", "")
#: Lines of the drawing, without its axes.
HEIGHT = 12


def draw_points(
    points: Sequence[Point],
    front: Sequence[Point],
    chosen: Point | None = None,
    target: float | None = None,
    *,
    utility: str = "utility",
    width: int = 60,
) -> Text:
    """Draw utility (upwards) against the bound (to the right).

    All ``points`` are dots, those of the ``front`` have the mark of their kind, the chosen one is a diamond and the
    target a vertical line. The width is that of the drawing in characters, without its axes.
    """
    # A point that is beaten by everything would press the front into a corner.
    shown = [*front, *([] if chosen is None else [chosen])]
    high_x = 1.05 * max([point.bound for point in shown] + ([] if target is None else [target]))
    low_y, high_y = (pick(point.utility for point in shown) for pick in (min, max))
    margin = max(0.05 * (high_y - low_y), 0.002)
    low_y, high_y = low_y - margin, high_y + margin

    canvas: list[list[tuple[str, str]]] = [[(" ", "")] * width for _ in range(HEIGHT)]

    def column(bound: float) -> int:
        return min(width - 1, int(bound / high_x * width))

    def row(value: float) -> int:
        return HEIGHT - 1 - min(HEIGHT - 1, int((value - low_y) / (high_y - low_y) * HEIGHT))

    if target is not None:
        for line in canvas:
            line[column(target)] = ("│", "dim")
    for point in points:
        if point.bound <= high_x and low_y <= point.utility <= high_y:
            canvas[row(point.utility)][column(point.bound)] = ("·", "dim")
    for point in front:
        canvas[row(point.utility)][column(point.bound)] = MARKS.get(point.kind, OTHER)
    if chosen is not None:
        canvas[row(chosen.utility)][column(chosen.bound)] = ("◆", "bold magenta")

    text = Text(no_wrap=True)
    for i, line in enumerate(canvas):
        label = f"{high_y:.1%}" if i == 0 else f"{low_y:.1%}" if i == HEIGHT - 1 else ""
        text.append(f"{label:>7} ┤" if label else "        │")
        for character, style in line:
            text.append(character, style)
        text.append("\n")
    text.append("        └" + "─" * width + "\n")
    right = f"{high_x:.3f}"
    text.append(" " * 9 + "0" + right.rjust(width - 1) + "\n")
    kinds = list(dict.fromkeys(point.kind for point in front))
    text.append("        ")
    for kind in kinds:
        mark, style = MARKS.get(kind, OTHER)
        text.append(f" {mark}", style)
        text.append(f" {kind}")
    if chosen is not None:
        text.append(" ◆", "bold magenta")
        text.append(" chosen")
    if target is not None:
        text.append(" │", "dim")
        text.append(" target")
    text.append(f"   ↑ {utility}  → bound T*", "dim")
    return text
