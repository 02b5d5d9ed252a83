"""Schemas of custom resources: what a CRD version says its objects look like, at work.

The server asks `resource.ResourceSchema`. Below it, `structural` compiles a schema once into a tree that the
passes walk: `pruning`, `defaulting`, `objectmeta` (embedded resources), `validation` (`quick` says yes or no,
`explain` says why not), `keyedlist` (sets and maps) and `celrules`. `definition` judges the schemas of CRDs
themselves (`rules`, `noderules`, `defaultrules`); `openapi` publishes them.

Everything here is pure and takes any JSON: wrong input gives errors, never exceptions.
"""
