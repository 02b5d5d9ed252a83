"""This machine as a node: the agent's process, and what starts it.

settings   arguments and the ``node`` part of the configuration file
credential who the agent is, and what it may do
message    what the agent's process is told
process    the agent's process itself
link       the other end, in `quarterdeck up`
command    `quarterdeck node`
"""
