"""Doing the same to many objects, under the name that the cluster's controllers know."""

from quarterdeck.runtime.reconcile.attempt import attempt_all

__all__ = ["attempt_all"]
