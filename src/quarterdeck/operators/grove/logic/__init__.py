"""The decisions, without I/O and without a clock.

Admission: ``defaulting``, ``validation``, ``authorization``.
Children: ``naming``, ``templatehash``, ``startup``, ``cliqueplan``, ``gangplan``, ``childplan``, ``podplan``.
Running: ``podstate``, ``podchoice``, ``gate``, ``breach``, ``termination``, ``cliqueupdate``,
``groupupdate``, ``setupdate``, ``status``. Schedulers: ``kaiqueue``, ``kaigroup``.
"""
