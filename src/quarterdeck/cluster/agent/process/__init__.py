"""The runtime ``process``: programs of this machine, and what images mean to it."""
