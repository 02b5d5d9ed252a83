"""JobSets: groups of Jobs that start, fail and finish together (jobset.x-k8s.io).

    defaults    what admission fills in
    validation  what admission refuses
    webhook     both, as handlers for a webhook server
    child       Jobs, Services and claims of a JobSet
    state       its Jobs sorted by what became of them, and what the status says of them
    failure     what is done about Jobs that failed
    controller  the controller

The kind itself is in ``quarterdeck.api.jobset``.
"""
