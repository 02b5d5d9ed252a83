"""Whom to evict so that somebody else can run: the search, its rules and its words."""
