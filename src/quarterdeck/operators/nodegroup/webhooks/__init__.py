"""Answers to the API server: conversion, the two validations, and how they are registered."""

from quarterdeck.operators.nodegroup.webhooks.conversion import NodeGroupConverter
from quarterdeck.operators.nodegroup.webhooks.registration import (
    Endpoint,
    conversion_stanza,
    validating_configuration,
)
from quarterdeck.operators.nodegroup.webhooks.state import ClusterReader, LiveReader, Reader, SyncedReader
from quarterdeck.operators.nodegroup.webhooks.validation import policy_webhook, simple_webhook

__all__ = [
    "ClusterReader",
    "Endpoint",
    "LiveReader",
    "NodeGroupConverter",
    "Reader",
    "SyncedReader",
    "conversion_stanza",
    "policy_webhook",
    "simple_webhook",
    "validating_configuration",
]
