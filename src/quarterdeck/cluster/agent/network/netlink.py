"""Links, addresses and routes of the network namespace that the calling thread is in. Blocking.

As much of rtnetlink as a bridge with pods needs; constants carry the kernel's names.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import Final

_RTM_NEWLINK, _RTM_DELLINK, _RTM_NEWADDR, _RTM_NEWROUTE, _RTM_DELROUTE = 16, 17, 20, 24, 25
_NLM_F_REQUEST, _NLM_F_ACK, _NLM_F_EXCL, _NLM_F_CREATE = 1, 4, 0x200, 0x400
_NLMSG_ERROR: Final = 2
_IFLA_IFNAME, _IFLA_MASTER, _IFLA_LINKINFO, _IFLA_NET_NS_FD = 3, 10, 18, 28
_IFLA_INFO_KIND, _IFLA_INFO_DATA, _VETH_INFO_PEER = 1, 2, 1
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_RTA_DST, _RTA_OIF, _RTA_GATEWAY = 1, 4, 5
_RT_TABLE_MAIN, _RT_TABLE_LOCAL = 254, 255
_RT_SCOPE_UNIVERSE, _RT_SCOPE_HOST = 0, 254
_RTN_UNICAST, _RTN_LOCAL, _RTPROT_STATIC = 1, 2, 4
_IFF_UP: Final = 1
_ROOM: Final = 16 * 1024


def add_bridge(name: str) -> None:
    """Make a bridge."""
    info = _attribute(_IFLA_LINKINFO, _text(_IFLA_INFO_KIND, "bridge"))
    _ask(_RTM_NEWLINK, _link() + _text(_IFLA_IFNAME, name) + info, create=True)


def add_pair(name: str, bridge: str, peer: str, namespace: int) -> None:
    """Make a pair of links: one on the bridge here, its peer in the namespace of a descriptor."""
    other = _link() + _text(_IFLA_IFNAME, peer) + _attribute(_IFLA_NET_NS_FD, struct.pack("=I", namespace))
    data = _attribute(_IFLA_INFO_DATA, _attribute(_VETH_INFO_PEER, other))
    info = _attribute(_IFLA_LINKINFO, _text(_IFLA_INFO_KIND, "veth") + data)
    master = _attribute(_IFLA_MASTER, struct.pack("=I", socket.if_nametoindex(bridge)))
    _ask(_RTM_NEWLINK, _link(is_up=True) + _text(_IFLA_IFNAME, name) + master + info, create=True)


def remove_link(name: str) -> None:
    """Remove a link; its peer goes with it. Raises ``OSError`` if there is none."""
    _ask(_RTM_DELLINK, _link(socket.if_nametoindex(name)))


def set_up(name: str) -> None:
    """Let a link carry packets."""
    _ask(_RTM_NEWLINK, _link(socket.if_nametoindex(name), is_up=True))


def add_address(name: str, address: str, prefix: int) -> None:
    """Give a link an address."""
    raw = socket.inet_aton(address)
    head = struct.pack("=BBBBi", socket.AF_INET, prefix, 0, 0, socket.if_nametoindex(name))
    _ask(_RTM_NEWADDR, head + _attribute(_IFA_LOCAL, raw) + _attribute(_IFA_ADDRESS, raw), create=True)


def add_default_route(gateway: str) -> None:
    """Send everything that is not known otherwise to a neighbour."""
    head = _route(0, _RT_TABLE_MAIN, _RT_SCOPE_UNIVERSE, _RTN_UNICAST)
    _ask(_RTM_NEWROUTE, head + _attribute(_RTA_GATEWAY, socket.inet_aton(gateway)), create=True)


def add_local_address(address: str) -> None:
    """Take what is sent to an address for ours, without a link that has it."""
    _ask(_RTM_NEWROUTE, _local_route(address), create=True)


def remove_local_address(address: str) -> None:
    """Undo ``add_local_address``."""
    _ask(_RTM_DELROUTE, _local_route(address))


def _local_route(address: str) -> bytes:
    head = _route(32, _RT_TABLE_LOCAL, _RT_SCOPE_HOST, _RTN_LOCAL)
    loopback = struct.pack("=I", socket.if_nametoindex("lo"))
    return head + _attribute(_RTA_DST, socket.inet_aton(address)) + _attribute(_RTA_OIF, loopback)


def _link(index: int = 0, *, is_up: bool = False) -> bytes:
    flags = _IFF_UP if is_up else 0
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, flags, flags)


def _route(prefix: int, table: int, scope: int, kind: int) -> bytes:
    return struct.pack("=BBBBBBBBI", socket.AF_INET, prefix, 0, 0, table, _RTPROT_STATIC, scope, kind, 0)


def _attribute(kind: int, data: bytes) -> bytes:
    size = 4 + len(data)
    return struct.pack("=HH", size, kind) + data + b"\0" * (-size % 4)


def _text(kind: int, text: str) -> bytes:
    return _attribute(kind, text.encode() + b"\0")


def _ask(kind: int, body: bytes, *, create: bool = False) -> None:
    flags = _NLM_F_REQUEST | _NLM_F_ACK | (_NLM_F_CREATE | _NLM_F_EXCL if create else 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.bind((0, 0))
        kernel.send(struct.pack("=IHHII", 16 + len(body), kind, flags, 1, 0) + body)
        answer = kernel.recv(_ROOM)
    _, what = struct.unpack_from("=IH", answer)
    number = -struct.unpack_from("=i", answer, 16)[0] if what == _NLMSG_ERROR else 0
    if number:
        raise OSError(number, os.strerror(number))
