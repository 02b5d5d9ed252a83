"""Decisions without I/O: merging, rendering, judging, comparing.

``info`` is a TrainJob merged with its runtime, which the plugins in ``plugins`` complete; ``framework``
holds them in their order and renders objects; ``audit`` compares what is there with what should be.
"""
