"""Makes the keys of pods that reach each other: SSH for MPI, curve for Flux. Each TrainJob has its own."""

from __future__ import annotations

from typing import Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, x25519

from quarterdeck.api import ObjectMeta, owner_reference
from quarterdeck.api.k8s import Secret
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.types import MLPolicy, TrainJob

_Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_CERTIFICATE: Final = """\
# of TrainJob {job}, for Flux

metadata
    name = "{job}"
curve
    public-key = "{public}"
    secret-key = "{secret}"
"""


def new_secret(policy: MLPolicy, job: TrainJob) -> Secret | None:
    """A Secret with a new key, if the pods of a TrainJob of this policy need one."""
    if policy.mpi:
        return ssh_secret(job)
    return curve_secret(job) if policy.flux else None


def ssh_secret(job: TrainJob) -> Secret:
    """A new ECDSA P-521 pair: the private key as PEM, the public one as a line of authorized_keys."""
    key = ec.generate_private_key(ec.SECP521R1())
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return Secret(
        metadata=_metadata(job, names.ssh_secret_name(job.metadata.name)),
        type=names.SSH_SECRET_TYPE,
        immutable=True,
        data={names.SSH_PRIVATE_KEY: private, names.SSH_PUBLIC_KEY: public + b"\n"},
    )


def curve_secret(job: TrainJob) -> Secret:
    """A new CURVE25519 pair, as the certificate that Flux reads."""
    key = x25519.X25519PrivateKey.generate()
    text = _CERTIFICATE.format(
        job=job.metadata.name,
        public=z85(key.public_key().public_bytes_raw()),
        secret=z85(key.private_bytes_raw()),
    )
    return Secret(
        metadata=_metadata(job, names.curve_secret_name(job.metadata.name)),
        immutable=True,
        data={names.CURVE_CERTIFICATE: text.encode()},
    )


def z85(data: bytes) -> str:
    """Bytes as ZeroMQ writes keys, five characters for four of them.

    >>> z85(bytes.fromhex("864fd26fb559f75b"))
    'HelloWorld'
    """
    made = ""
    for start in range(0, len(data), 4):
        number = int.from_bytes(data[start : start + 4], "big")
        digits = [number // 85**power % 85 for power in (4, 3, 2, 1, 0)]
        made += "".join(_Z85[digit] for digit in digits)
    return made


def _metadata(job: TrainJob, name: str) -> ObjectMeta:
    owner = owner_reference(job, controller=True)
    return ObjectMeta(name=name, namespace=job.metadata.namespace, owner_references=(owner,))
