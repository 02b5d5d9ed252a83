"""A network of the pods' own, not routed to any other. For root alone.

    netlink   links, addresses and routes, as the kernel is asked for them
    holder    processes that do nothing but keep namespaces alive
    fabric    the bridge that pods hang on, in a namespace of the agent's own, and the pods' ends
    dial      connections into it from outside
    dns       names of Services and pods, for resolvers in it

The machine's own interfaces, routes and rules are neither changed nor used: nothing leads in or out but what
the agent passes on itself.
"""
