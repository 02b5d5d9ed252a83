"""CertificateSigningRequest: who asked, for what; approval and signing happen elsewhere."""

from __future__ import annotations

import base64
import binascii
from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.kind import BuiltinStrategy, section
from quarterdeck.apiserver.metadata import path_segment_errors, subdomain_errors
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, duplicate, forbidden, invalid, not_supported, required

from .certificateapproval import condition_errors, keep_decisions, stamp_conditions

_USAGES: Final = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)


class CertificateSigningRequestStrategy(BuiltinStrategy):
    has_status = True
    selectable_fields = {  # noqa: RUF012 # never changed
        "spec.signerName": lambda obj: (obj.get("spec") or {}).get("signerName") or ""
    }

    def name_errors(self, name: str, *, prefix: bool = False) -> list[str]:
        return path_segment_errors(name, prefix=prefix)

    def default(self, obj: Json) -> None:
        section(obj, "spec")
        section(obj, "status")

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        spec = section(obj, "spec")
        for key in ("username", "uid", "groups", "extra"):
            spec.pop(key, None)
        spec |= ctx.requester
        obj["status"] = {}

    def prepare_update(self, obj: Json, old: Json, ctx: WriteContext) -> None:
        obj["spec"] = old.get("spec") or {}

    def prepare_status_update(self, obj: Json, old: Json, ctx: WriteContext) -> None:
        keep_decisions(obj, old)
        stamp_conditions(obj, old, ctx.now)

    def validate_status_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        errors = condition_errors(obj, old, may_decide=False)
        before = (old.get("status") or {}).get("certificate")
        if before and (obj.get("status") or {}).get("certificate") != before:
            errors.append(
                forbidden("status.certificate", "updates may not modify existing certificate content")
            )
        return errors

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors: list[FieldError] = []
        request = spec.get("request") or ""
        if not _is_request(request):
            text = "PEM block type must be CERTIFICATE REQUEST"
            errors.append(invalid("spec.request", request, text))
        usages = spec.get("usages") or ()
        if not usages:
            errors.append(required("spec.usages", "usages must contain at least one item"))
        seen: set[str] = set()
        for index, usage in enumerate(usages):
            if usage not in _USAGES:
                errors.append(not_supported(f"spec.usages[{index}]", usage, _USAGES))
            if usage in seen:
                errors.append(duplicate(f"spec.usages[{index}]", usage))
            seen.add(usage)
        name = spec.get("signerName") or ""
        if not name:
            errors.append(required("spec.signerName"))
        else:
            domain, slash, path = name.partition("/")
            if not slash or not path:
                text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
                errors.append(invalid("spec.signerName", name, text))
            else:
                errors += [
                    invalid("spec.signerName", domain, f'validating label "{domain}": {text}')
                    for text in subdomain_errors(domain)
                ]
        seconds = spec.get("expirationSeconds")
        if seconds is not None and seconds < 600:
            text = "may not specify a duration less than 600 seconds (10 minutes)"
            errors.append(invalid("spec.expirationSeconds", seconds, text))
        return errors


def _is_request(encoded: str) -> bool:
    try:
        text = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return False
    return b"-----BEGIN CERTIFICATE REQUEST-----" in text
