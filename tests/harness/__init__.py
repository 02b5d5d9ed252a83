"""Runs case files over the wire: `python -m tests.harness [options] FILE...`.

A case file says what a system must answer; this package sends the requests and compares. It knows
nothing about the server behind the kubeconfig, so the same run judges the embedded server and a
real kube-apiserver. What it cannot understand (an unknown kind, step key or matcher) is a failure,
never a skip.

Kinds of cases live in modules of their own and are found through `registry`.
"""
