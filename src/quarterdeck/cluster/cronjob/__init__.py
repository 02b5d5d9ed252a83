"""CronJobs: Jobs by the calendar.

``schedule`` says when, ``decision`` which start is due, both without I/O; ``controller`` makes and removes
the Jobs.
"""
