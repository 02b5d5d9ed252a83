"""Claims for devices (dynamic resource allocation).

    controller  claims made from templates of pods, and claims that nobody uses any more
    devices     devices of simulated nodes

Which device a claim gets is decided by the scheduler.
"""
