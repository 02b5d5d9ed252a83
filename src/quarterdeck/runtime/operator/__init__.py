"""Operators as programs run them: what one consists of, what it installs, which permissions it needs."""
