"""Sets of pods made from a template: what the controllers of such sets have in common.

``podview`` is a pod as its controller sees it, ``claim`` finds out whose an object is, ``podwriter`` makes
and removes pods, ``source`` says whom a change concerns, ``templatehash`` names a template.
"""
