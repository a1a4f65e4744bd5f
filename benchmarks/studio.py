"""How long the studio lets its user wait: ``python -m benchmarks.studio`` (needs Chromium and the extra ``studio``).

Prints the time from pressing *start* to the first point of the frontier on Adult, as the page measures it, cold and
warm, and the time that the page takes to redraw when the slider of the target moves.
"""

import os
import statistics
import tempfile
from pathlib import Path

from tests.studio.served import Served
from tests.studio.window import Window

RUNS, MOVES = 3, 100
#: Moves the slider through its range; entries are the page's own time, and the time until the next frame.
REDRAW = """(async () => {
  const slider = document.querySelector("#target"), found = [];
  for (let i = 0; i < %d; i++) {
    slider.value = 0.02 + 0.002 * i;
    const begun = performance.now();
    slider.dispatchEvent(new Event("input"));
    document.querySelector("#plane").getBoundingClientRect();
    const drawn = performance.now() - begun;
    await new Promise(requestAnimationFrame);
    found.push([drawn, performance.now() - begun]);
  }
  return found;
})()"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CERTIFARE_STATE"] = str(Path(folder, "state"))
        served = Served(Path(folder, "studio"))
        window = Window(served.entrance)
        try:
            window.click("#example")
            window.wait("state.found")
            window.go("explore")
            for run in range(1 + RUNS):
                window.run("void (orders = {})")
                window.click("#start")
                window.wait(f"performance.getEntriesByName('first point').length > {run}")
                window.wait("state.running === null && orders.aware", patience=300)
            first = window.run("performance.getEntriesByName('first point').map(entry => entry.duration)")
            moves = window.run(REDRAW % MOVES)
        finally:
            window.close()
            served.close()
    warm = [f"{ms / 1000:.2f}" for ms in first[1:]]
    print(f"first point of the frontier on Adult: {first[0] / 1000:.2f} s cold; warm {', '.join(warm)} s (goal 3 s)")
    for what, times in zip(("drawn and laid out", "until the next frame"), zip(*moves, strict=True), strict=True):
        print(f"slider, {what}: median {statistics.median(times):.1f} ms, largest of {MOVES} {max(times):.1f} ms")
    print("(goal 100 ms)")


if __name__ == "__main__":
    main()
