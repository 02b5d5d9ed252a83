"""Claims for storage and the volumes they get.

names      annotations and the provisioner's name
match      which volume suits a claim: pure
binder     claims and volumes find each other; volumes that nobody needs any more are given up
provisioner volumes that exist on paper only, for classes of the simulated provisioner
ephemeral  claims of pods that bring their own
expand     claims that grow
"""
