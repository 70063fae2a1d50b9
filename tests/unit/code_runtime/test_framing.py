from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from dsh_tools.code_runtime.framing import LineCutter

PREFIX = b"N0nce:"


def cut(data: bytes, sizes: list[int], limit: int = 1000) -> list[bytes]:
    lines: list[bytes] = []
    cutter = LineCutter(PREFIX, limit, lines.append)
    at = 0
    for size in [*sizes, len(data)]:
        cutter.feed(data[at : at + size])
        at += size
    return lines


@given(st.lists(st.integers(1, 9), max_size=30))
def test_only_prefixed_lines_come_through_however_the_bytes_arrive(sizes: list[int]):
    # CODE-181
    data = b"noise\nN0nce:{1}\nN0nce\n\nN0ncX:{2}\nN0nce:{3}\n N0nce:{4}\nN0nce:half"
    assert cut(data, sizes) == [b"{1}", b"{3}"]


@given(st.lists(st.binary(max_size=20), max_size=20), st.lists(st.integers(1, 30), max_size=20))
def test_any_bytes_are_borne(chunks: list[bytes], sizes: list[int]):
    # CODE-179, 181
    data = b"".join(chunks)
    expected = [line[len(PREFIX) :] for line in data.split(b"\n")[:-1] if line.startswith(PREFIX) and len(line) <= 1000]
    assert cut(data, sizes) == expected


def test_a_line_beyond_the_limit_is_dropped_and_the_next_one_is_not():
    # CODE-181
    data = PREFIX + b"x" * 100 + b"\n" + PREFIX + b"ok\n"
    assert cut(data, [7] * 20, limit=50) == [b"ok"]
    assert cut(data, [], limit=50) == [b"ok"]


def test_noise_costs_no_memory():
    # CODE-155, 181
    cutter = LineCutter(PREFIX, 1 << 20, lambda line: None)
    chunk = b"x" * 65536
    tracemalloc.start()
    for _ in range(2000):
        cutter.feed(chunk)
    for _ in range(2000):
        cutter.feed(PREFIX + chunk)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert cutter.held == 0
    assert peak < 4 << 20
