"""Benchmarks: each measures Quarterdeck and its peer in the same run and prints the ratio.

    python -m benchmarks              # all of them
    python -m benchmarks apiserver    # one

CPU time of the measured processes is the measure, because wall time on shared machines is noise.
"""
