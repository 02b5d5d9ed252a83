"""Drives a stock kubectl through one script of commands on two servers and compares the words on the screen.

``script`` reads the steps from ``steps/*.yaml``, ``runner`` executes them, ``normal`` takes out what may
differ from run to run (ids, times, ports), ``golden`` keeps outcomes of the real server in a file, and the
commands ``compare`` and ``record`` put these together. Nothing here knows what a right answer is: the real
kube-apiserver does.
"""
