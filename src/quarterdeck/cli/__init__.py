"""The `quarterdeck` command. Nothing is imported here: ``__main__`` is the way in, also for Ctrl-C."""
