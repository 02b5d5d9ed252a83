"""IPAM: SubnetPools, the Subnets cut from them, and the claims that ask for both.

The kinds are plexaubnet's. ``types`` declares them; ``logic`` holds the arithmetic, the free-space index and
the table of all pools, without I/O; ``controllers`` keep status, phases and claims; ``webhooks`` guard
Subnets that people write by hand. What others rely on by name is in ``names``.
"""
