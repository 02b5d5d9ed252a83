"""Address ranges as areas of a square. Pure.

Halving a range halves its area, left and right first, then top and bottom: so every block of a pool is a
rectangle, blocks that are near in number are near on the map, and nothing overlaps that does not overlap in
numbers.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_network


def area(pool: str, block: str) -> tuple[float, float, float, float] | None:
    """Where in a square of side 1 the block is: x, y, width, height; ``None`` if it is not in the pool."""
    whole, part = _network(pool), _network(block)
    if whole is None or part is None or whole.version != part.version or part.prefixlen < whole.prefixlen:
        return None
    first, size = int(part.network_address), whole.max_prefixlen
    if first >> (size - whole.prefixlen) != int(whole.network_address) >> (size - whole.prefixlen):
        return None
    x = y = 0.0
    width = height = 1.0
    for depth in range(part.prefixlen - whole.prefixlen):
        second_half = first >> (size - whole.prefixlen - depth - 1) & 1
        if depth % 2 == 0:
            width /= 2
            x += width * second_half
        else:
            height /= 2
            y += height * second_half
    return x, y, width, height


def share(pool: str, block: str) -> float:
    """Which part of the pool the block is."""
    whole, part = _network(pool), _network(block)
    if whole is None or part is None:
        return 0.0
    return float(2.0 ** (whole.prefixlen - part.prefixlen))


def sort_key(block: str) -> tuple[int, int, str]:
    """Blocks in the order of their addresses; what is none comes first."""
    network = _network(block)
    return (network.version, int(network.network_address), block) if network is not None else (0, 0, block)


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None
