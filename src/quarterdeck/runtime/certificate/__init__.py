"""Serving certificates: from files, or made by ourselves and kept in a Secret.

``FileCertificates`` (a mounted Secret, filled by whoever you like), ``SelfSigned`` and
``EphemeralCertificates`` are sources; ``ServingContext`` is the TLS context that a source keeps
supplied. Replacing a certificate never closes a connection.
"""

from quarterdeck.runtime.certificate.bundle import BundlePublisher, BundleTarget
from quarterdeck.runtime.certificate.ephemeral import EphemeralCertificates
from quarterdeck.runtime.certificate.files import DEFAULT_DIRECTORY, FileCertificates
from quarterdeck.runtime.certificate.material import Life, Material
from quarterdeck.runtime.certificate.pair import CertificateSource, KeyPair, ServingContext, UsePair
from quarterdeck.runtime.certificate.selfsigned import Publish, SelfSigned, service_names

__all__ = [
    "DEFAULT_DIRECTORY",
    "BundlePublisher",
    "BundleTarget",
    "CertificateSource",
    "EphemeralCertificates",
    "FileCertificates",
    "KeyPair",
    "Life",
    "Material",
    "Publish",
    "SelfSigned",
    "ServingContext",
    "UsePair",
    "service_names",
]
