"""KAI: queues, gangs of pods, and the scheduler that starts a gang as a whole or not at all.

The kinds are KAI-Scheduler's. ``types`` declares them; ``logic`` holds admission, pod grouping and the
arithmetic of statuses, without I/O; ``controllers`` group pods, bind them, keep statuses and run the
scheduling cycle, whose decisions come from ``quarterdeck.scheduler``; ``webhooks`` answer the API server.
What others rely on by name is in ``names``.
"""
