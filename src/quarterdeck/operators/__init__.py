"""The operators: one package each, with the same rooms in all (``names``, ``types``, ``logic``, ...)."""
