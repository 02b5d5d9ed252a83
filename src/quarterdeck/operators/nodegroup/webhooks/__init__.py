"""Answers to the API server: conversion and the two validations."""

from quarterdeck.operators.nodegroup.webhooks.conversion import NodeGroupConverter
from quarterdeck.operators.nodegroup.webhooks.state import ClusterReader, LiveReader, Reader, SyncedReader
from quarterdeck.operators.nodegroup.webhooks.validation import policy_webhook, simple_webhook

__all__ = [
    "ClusterReader",
    "LiveReader",
    "NodeGroupConverter",
    "Reader",
    "SyncedReader",
    "policy_webhook",
    "simple_webhook",
]
