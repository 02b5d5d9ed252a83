"""The parts of ``tools/mutants.py``: what can be changed in a file, and which tests reach it."""
