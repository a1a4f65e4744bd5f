"""What can be had: the frontier.

A sweep tries many trees and certifies those on the predicted front together, each at its share of ε. Any of them may
be chosen with all bounds in sight.
"""

from certifare import Grid, sweep
from certifare.data import adult

frontier = sweep(
    adult(), Grid(kinds=["tree"], gammas=[0.5, 0.8, 0.9, 0.98], cells=[2, 4, 8, 16, 32]), seed=0, ledger=False
)
certified = [point for point in frontier.points if point.certified]
print(f"{len(frontier.points)} encoders tried, {len(certified)} certified together")
for limit in (0.05, 0.1, 0.2):
    best = frontier.best(max_bound=limit)
    print(f"T* at most {limit}: " + ("none" if best is None else f"{best.cells} cells, {frontier.certificate(best)}"))

chart = frontier.plot()
