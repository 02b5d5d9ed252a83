"""Secrets with the keys of pods that reach each other: SSH for MPI, curve for Flux."""

from __future__ import annotations

import hashlib

from quarterdeck.api.k8s import Secret
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.types import MLPolicy


def secret_name(policy: MLPolicy, job: str) -> str:
    """The Secret that a TrainJob of a policy has; empty if it needs none."""
    if policy.mpi:
        return names.ssh_secret_name(job)
    return names.curve_secret_name(job) if policy.flux else ""


def key_digest(secret: Secret) -> str:
    """What a key is recognized by: the SHA-256 of its public part, or of the certificate."""
    key = names.SSH_PUBLIC_KEY if secret.type == names.SSH_SECRET_TYPE else names.CURVE_CERTIFICATE
    return hashlib.sha256(secret.data.get(key, b"")).hexdigest()
