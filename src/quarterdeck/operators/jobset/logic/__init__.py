"""Decisions without I/O.

defaults    what admission fills in
validation  what admission refuses
child       Jobs, Services and claims of a JobSet
state       its Jobs sorted by what became of them, and what the status says of them
failure     what is done about Jobs that failed
exclusive   one Job for each domain of a topology
"""
