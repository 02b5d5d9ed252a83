"""KWOK's Stage objects: what becomes of pods on simulated nodes, said by the user.

    types       the kind, as KWOK has it
    jq          the part of jq that selectors and delays are written in
    template    the part of Go's templates that patches are written in
    function    the functions that templates may call
    rule        a Stage, compiled: whom it concerns, when, and what it does
    follower    pods that do what Stages say
    teller      the controller that says which Stages are not carried out

Whatever is not understood is refused by name, never passed over.
"""
