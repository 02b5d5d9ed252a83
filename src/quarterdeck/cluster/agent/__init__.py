"""This machine as a node: pods that run. See docs/node.md."""
