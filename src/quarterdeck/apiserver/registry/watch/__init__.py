"""Streams of changes: who watches, in which form, and what is not sent yet."""
