"""The parts of ``tools/mutants.py``: what can be changed in a file, which tests reach it, and trying it."""
