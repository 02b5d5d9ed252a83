"""Pure logic: no I/O, no clock.

network     CIDRs as integers
freespace   what is free in a pool, as maximal aligned blocks
blockset    a few blocks, asked for overlaps
occupancy   who covers what in a pool, also where blocks overlap
table      all pools: members, children, reservations
waiting     claims that wait for space, oldest first
statuscalc  the status of a pool
claim       what a claim asks for, and the texts of refusals
naming      names of Subnets and of what belongs to a SubnetPoolClaim
audit       the table against a list of what exists
tree        pools as a picture of text
state        one pool: its members, children, reservations
facts       what is kept of an object
"""
