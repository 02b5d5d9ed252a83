"""Address ranges as areas of a square."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from quarterdeck.dashboard.addressmap import area, share, sort_key


def test_halves_are_left_and_right_then_top_and_bottom() -> None:
    assert area("10.0.0.0/16", "10.0.0.0/16") == (0, 0, 1, 1)
    assert area("10.0.0.0/16", "10.0.128.0/17") == (0.5, 0, 0.5, 1)
    assert area("10.0.0.0/16", "10.0.64.0/18") == (0, 0.5, 0.5, 0.5)
    assert area("2001:db8::/48", "2001:db8:0:8000::/49") == (0.5, 0, 0.5, 1)


def test_what_is_not_in_the_pool_is_nowhere() -> None:
    assert area("10.0.0.0/16", "10.1.0.0/24") is None
    assert area("10.0.0.0/16", "10.0.0.0/8") is None
    assert area("10.0.0.0/16", "2001:db8::/64") is None
    assert area("10.0.0.0/16", "nonsense") is None


@given(some.lists(some.tuples(some.integers(0, 255), some.integers(17, 24)), max_size=12))
def test_blocks_that_do_not_overlap_do_not_overlap_on_the_map(blocks: list[tuple[int, int]]) -> None:
    def cells(block: tuple[int, int]) -> set[int]:
        width = 1 << (24 - block[1])
        first = block[0] // width * width
        return set(range(first, first + width))

    for one in blocks:
        for other in blocks:
            x, y, w, h = area("10.0.0.0/16", f"10.0.{one[0]}.0/{one[1]}") or (0, 0, 0, 0)
            u, v, s, t = area("10.0.0.0/16", f"10.0.{other[0]}.0/{other[1]}") or (0, 0, 0, 0)
            overlaps = x < u + s and u < x + w and y < v + t and v < y + h
            assert overlaps == bool(cells(one) & cells(other))
        assert w * h == share("10.0.0.0/16", f"10.0.{one[0]}.0/{one[1]}")


def test_blocks_are_sorted_by_number() -> None:
    assert sorted(["10.0.100.0/24", "10.0.20.0/24"], key=sort_key) == ["10.0.20.0/24", "10.0.100.0/24"]
