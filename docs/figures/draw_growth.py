"""Draw the figures of growth.md: ``python docs/figures/draw_growth.py`` writes two SVG files beside itself."""

from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from certifare.growth import Criterion, Dictionary, Growth, MemorySource, Targets, encode, fit_bins, grow

FOLDER = Path(__file__).parent
LEFT, RIGHT, INK, PALE = "#00796b", "#ef6c00", "#263238", "#cfd8dc"

# occupation: records, share with the label (high income), share of women
OCCUPATIONS = {
    "nurse": (420, 0.42, 0.88),
    "teacher": (480, 0.37, 0.76),
    "clerk": (520, 0.17, 0.72),
    "carer": (360, 0.06, 0.86),
    "cashier": (340, 0.05, 0.62),
    "cook": (300, 0.12, 0.40),
    "lawyer": (180, 0.86, 0.46),
    "engineer": (380, 0.76, 0.16),
    "manager": (460, 0.64, 0.36),
    "driver": (400, 0.34, 0.10),
    "builder": (420, 0.44, 0.06),
    "analyst": (260, 0.56, 0.52),
}


def people() -> tuple[Dictionary, NDArray[np.int64], NDArray[np.int64]]:
    """Occupation, label and group of a made-up workforce."""
    rng = np.random.default_rng(5)
    sizes, p_y, p_s = np.array(list(OCCUPATIONS.values())).T
    occupation = np.repeat(np.arange(len(sizes)), sizes.astype(int))
    label, woman = (rng.random(len(occupation)) < shares[occupation] for shares in (p_y, p_s))
    return Dictionary(occupation, tuple(OCCUPATIONS)), label.astype(np.int64), woman.astype(np.int64)


def grown(gamma: float, max_cells: int) -> tuple[Growth, list[str]]:
    """Grow a tree of the example; give its categories, too."""
    occupation, label, woman = people()
    bins = fit_bins([occupation], ["occupation"], [True])
    source = MemorySource(encode(bins, [occupation]), Targets.from_columns([label], woman, (2,), 2))
    criterion = Criterion(gamma, "demographic_parity", (2,), 2)
    growth = grow(source, bins, criterion, max_cells=max_cells, min_cell_size=100, orderings="directional")
    return growth, sorted(OCCUPATIONS)


def shares(growth: Growth, node: int) -> tuple[float, float]:
    """Of a node's records, the share with the label and the share of women."""
    counts = growth.node_counts[node].reshape(2, 2)
    return counts[1].sum() / counts.sum(), counts[:, 1].sum() / counts.sum()


def text(
    x: float, y: float, words: str, size: int = 12, anchor: str = "middle", colour: str = INK, bold: bool = False
) -> str:
    """Words at a place."""
    weight = "bold" if bold else "normal"
    style = f'font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" fill="{colour}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{words}</text>'


def save(name: str, width: int, height: int, parts: list[str], description: str) -> None:
    """Write a figure on white ground, so that it can be read on any page."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'font-family="Helvetica, Arial, sans-serif"><title>{description}</title>'
        f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>'
    )
    (FOLDER / name).write_text(head + "\n".join(parts) + "</svg>\n", encoding="utf-8")


def draw_plane() -> None:
    """Draw categories as points (share with the label, share of women), and the best cut for two values of gamma."""
    occupation, label, woman = people()
    parts: list[str] = []
    for panel, gamma in enumerate((0.0, 0.85)):
        growth, names = grown(gamma, 2)
        goes_left = growth.splits[0].goes_left[: len(names)]
        rows = [occupation.indices == occupation.values.index(name) for name in names]
        p_y, p_s = (np.array([values[r].mean() for r in rows]) for values in (label, woman))
        x0, y0, side = 70 + 400 * panel, 50, 310

        def px(p: float, x0: float = x0, side: float = side) -> float:
            return x0 + side * p

        def py(p: float, y0: float = y0, side: float = side) -> float:
            return y0 + side * (1 - p)

        parts.append(f'<rect x="{x0}" y="{y0}" width="{side}" height="{side}" fill="none" stroke="{PALE}"/>')
        parts.append(text(x0 + side / 2, 30, f"γ = {gamma:g}", 15, bold=True))
        parts.append(text(x0 + side / 2, y0 + side + 34, "p_y: share with the label →"))
        if panel == 0:
            parts.append(
                f'<g transform="rotate(-90 24 {y0 + side / 2})">{text(24, y0 + side / 2, "p_s: share of women →")}</g>'
            )
        angles = np.zeros(1) if gamma == 0 else np.linspace(-np.pi / 2, np.pi / 2, 721)[:-1]
        line = separating_line(p_y, p_s, goes_left, angles)
        parts.append(
            f'<clipPath id="panel{panel}"><rect x="{x0}" y="{y0}" width="{side}" height="{side}"/></clipPath>'
            f'<line x1="{px(line[0]):.1f}" y1="{py(line[1]):.1f}" x2="{px(line[2]):.1f}" y2="{py(line[3]):.1f}" '
            f'stroke="{INK}" stroke-width="2" stroke-dasharray="6 4" clip-path="url(#panel{panel})"/>'
        )
        for name, y, s, r, left in zip(names, p_y, p_s, rows, goes_left, strict=True):
            radius = np.sqrt(r.sum()) / 1.9
            colour = LEFT if left == goes_left[np.argmax(p_y)] else RIGHT
            parts.append(
                f'<circle cx="{px(y):.1f}" cy="{py(s):.1f}" r="{radius:.1f}" fill="{colour}" fill-opacity="0.75"/>'
            )
            parts.append(text(px(y), py(s) - radius - 3, name, 11))
        by_label = sorted((1, 2), key=partial(shares, growth))
        for colour, node, where in zip((RIGHT, LEFT), by_label, (1, 3), strict=True):
            words = "label {:.0%}, women {:.0%}".format(*shares(growth, node))
            parts.append(text(x0 + side * where / 4, y0 + side + 56, words, 12, colour=colour, bold=True))
    save(
        "growth-plane.svg", 820, 425, parts,
        "Occupations by share with the label and share of women; the best cut is vertical at gamma 0, slanted at 0.85",
    )  # fmt: skip


def separating_line(
    p_y: NDArray[np.float64], p_s: NDArray[np.float64], side: NDArray[np.bool_], angles: NDArray[np.float64]
) -> tuple[float, ...]:
    """Two points of the straight line, at one of the angles, that parts the categories with the widest gap."""
    best = (-np.inf, 0.0, 0.0)
    for angle in angles:
        along = np.cos(angle) * p_y + np.sin(angle) * p_s
        for low, high in ((along[side], along[~side]), (along[~side], along[side])):
            gap = high.min() - low.max()
            if gap > best[0]:
                best = (gap, angle, (high.min() + low.max()) / 2)
    _, angle, middle = best
    x, y = middle * np.cos(angle), middle * np.sin(angle)
    return tuple(
        float(v) for v in (x - 3 * np.sin(angle), y + 3 * np.cos(angle), x + 3 * np.sin(angle), y - 3 * np.cos(angle))
    )


def draw_tree() -> None:
    """Draw a tree with five cells, its splits numbered in the order they were made."""
    growth, names = grown(0.5, 5)
    children = {split.node: (2 * j + 1, 2 * j + 2) for j, split in enumerate(growth.splits)}
    leaves = growth.leaves().tolist()
    box, gap, level = 146, 16, 128
    place: dict[int, tuple[float, int]] = {}

    def put(node: int, depth: int) -> float:
        if node in children:
            left, right = (put(child, depth + 1) for child in children[node])
            x = (left + right) / 2
        else:
            x = 20 + box / 2 + leaves.index(node) * (box + gap)
        place[node] = (x, depth)
        return x

    put(0, 0)
    height = 20 + level * max(depth for _, depth in place.values()) + 62 + 20
    parts: list[str] = []
    for j, split in enumerate(growth.splits):
        x, depth = place[split.node]
        y = 20 + level * depth + 62
        for child in children[split.node]:
            cx, cdepth = place[child]
            ends = f'x1="{x:.1f}" y1="{y}" x2="{cx:.1f}" y2="{20 + level * cdepth}"'
            parts.append(f'<line {ends} stroke="{PALE}" stroke-width="2"/>')
        y += 16
        inside = [name for name, left in zip(names, split.goes_left, strict=False) if left]
        outside = [name for name in names if name not in inside]
        few, word = (inside, "in") if len(inside) <= len(outside) else (outside, "not in")
        rule = f"{word} " + ", ".join(few[:3]) + (f" + {len(few) - 3}" if len(few) > 3 else "")
        parts.append(f'<circle cx="{x:.1f}" cy="{y - 4}" r="10" fill="{INK}"/>')
        parts.append(text(x, y, str(j + 1), 12, colour="#ffffff", bold=True))
        parts.append(f'<rect x="{x - 92:.1f}" y="{y + 9}" width="184" height="17" fill="#ffffff"/>')
        parts.append(text(x, y + 22, rule, 11))
    for node, (x, depth) in place.items():
        y = 20 + level * depth
        n, is_leaf = growth.node_counts[node].sum(), node in leaves
        fill, stroke = ("#e0f2f1", LEFT) if is_leaf else ("#ffffff", PALE)
        parts.append(
            f'<rect x="{x - box / 2:.1f}" y="{y}" width="{box}" height="62" rx="6" fill="{fill}" stroke="{stroke}"/>'
        )
        title = f"cell {leaves.index(node)}: {n:,}" if is_leaf else f"{n:,} records"
        parts.append(text(x, y + 16, title, 12, bold=is_leaf))
        bars = zip(shares(growth, node), (LEFT, RIGHT), ("label", "women"), strict=True)
        for row, (share, colour, word) in enumerate(bars):
            top = y + 24 + 18 * row
            parts.append(f'<rect x="{x - 26:.1f}" y="{top}" width="60" height="11" fill="{PALE}"/>')
            parts.append(f'<rect x="{x - 26:.1f}" y="{top}" width="{60 * share:.1f}" height="11" fill="{colour}"/>')
            parts.append(text(x - 32, top + 10, word, 10, "end"))
            parts.append(text(x + 38, top + 10, f"{share:.0%}", 10, "start"))
    save(
        "growth-tree.svg", 40 + len(leaves) * (box + gap) - gap, height, parts,
        "A tree with five cells; its four splits are numbered in the order they were made",
    )  # fmt: skip


if __name__ == "__main__":
    draw_plane()
    draw_tree()
