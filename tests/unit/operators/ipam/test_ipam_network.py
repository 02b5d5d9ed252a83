"""CIDRs: read strictly, written canonically, compared as integers."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.operators.ipam.logic.network import (
    InvalidCidr,
    Network,
    canonical,
    last_address,
    overlaps,
    parse,
)

networks = st.one_of(
    st.builds(lambda a, p: Network(a, 32, 32).at(p), st.integers(0, 2**32 - 1), st.integers(0, 32)),
    st.builds(lambda a, p: Network(a, 128, 128).at(p), st.integers(0, 2**128 - 1), st.integers(0, 128)),
)


def theirs(network: Network) -> IPv4Network | IPv6Network:
    kind = IPv4Network if network.width == 32 else IPv6Network
    return kind((network.address, network.prefix))


@given(networks)
def test_a_text_reads_back_as_the_same_network(network: Network) -> None:
    assert parse(str(network)) == network
    assert ip_network(str(network)) == theirs(network)


@given(networks, networks)
def test_overlap_and_containment_agree_with_the_standard_library(one: Network, other: Network) -> None:
    same_family = one.width == other.width
    assert one.overlaps(other) == (same_family and theirs(one).overlaps(theirs(other)))
    assert one.contains(other) == (same_family and theirs(other).subnet_of(theirs(one)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        *("10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/08", "10.0.0/24", "/24", ""),
        *("10.0.00.0/16", "010.0.0.0/8", "2001:db8::/129", "fe80::1%eth0/64", "x/24", "10.0.0.0/24/1"),
        *("10.0.0.0/२४", "10.0.0.0/1e1", " 10.0.0.0/8"),
    ],
)
def test_what_is_no_cidr_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(InvalidCidr, match="invalid CIDR address"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("10.0.1.5/24", "10.0.1.0/24"),
        ("2001:DB8:0:0:1::5/80", "2001:db8:0:0:1::/80"),
        ("2001:db8:0:1:0:0:0:1/128", "2001:db8:0:1::1/128"),
        ("1:0:0:2:0:0:0:3/128", "1:0:0:2::3/128"),
        ("::/0", "::/0"),
        ("1:2:3:4:5:6:0:8/128", "1:2:3:4:5:6:0:8/128"),
        ("::ffff:10.0.0.0/120", "::ffff:10.0.0.0/120"),
        ("0.0.0.0/0", "0.0.0.0/0"),
    ],
)
def test_texts_are_written_canonically(text: str, wanted: str) -> None:
    assert canonical(text) == wanted


def test_last_address() -> None:
    assert [last_address(text) for text in ("10.0.0.0/30", "2001:db8::/127")] == ["10.0.0.3", "2001:db8::1"]


def test_families_never_overlap() -> None:
    assert not overlaps("::ffff:10.0.0.0/120", "10.0.0.0/24")
    assert not overlaps("::/0", "0.0.0.0/0")
    assert not overlaps("10.0.0.0/8", "nonsense")
