import sys

import numpy as np
import pytest

from certifare.foundation import memory
from certifare.foundation.memory import give_back


@pytest.mark.skipif(sys.platform != "linux", reason="the memory that a process holds is read from /proc")
def test_freed_memory_is_given_back():
    def held():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    # Arrays of 64 kB come from the heap, which cannot shrink while the last of them is in use.
    arrays = [np.ones(8_192) for _ in range(2_000)]
    kept = arrays[::200]
    del arrays
    before = held()
    give_back()
    assert held() < before - 50 * 2**20
    assert len(kept) == 10


def test_other_systems_give_back_by_themselves(monkeypatch):
    monkeypatch.setattr(memory.sys, "platform", "win32")
    monkeypatch.setattr(memory.ctypes, "CDLL", None)
    give_back()
