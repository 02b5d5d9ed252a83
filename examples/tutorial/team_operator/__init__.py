"""Teams: a namespace with a quota of GPUs for each. The operator of docs/tutorial.md."""
