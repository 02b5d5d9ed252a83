"""The decisions of the operator as pure functions: no I/O, no clock.

Objects are plain JSON documents here, not typed models: conversion and validation must tell absent fields
from zero values, in objects of any version and from any client.

``conversion`` (on ``mapping``, ``roundtrip``, ``shape``, ``validity``) translates between versions;
``policy`` and ``simple`` are the two validations; ``clusterstate`` reads the documents they depend on;
``status`` computes the status of a group.
"""
