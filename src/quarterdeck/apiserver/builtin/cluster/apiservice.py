"""APIService: names and priorities; nothing is proxied."""

from __future__ import annotations

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.kind import BuiltinStrategy, section
from quarterdeck.apiserver.metadata import dns1035_errors, path_segment_errors, subdomain_errors
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, forbidden, invalid, required


class APIServiceStrategy(BuiltinStrategy):
    has_status = True
    allows_unconditional_update = False

    def name_errors(self, name: str, *, prefix: bool = False) -> list[str]:
        return path_segment_errors(name, prefix=prefix)

    def default(self, obj: Json) -> None:
        service = section(obj, "spec").get("service")
        if service is not None and service.get("port") is None:
            service["port"] = 443
        section(obj, "status")

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        obj["status"] = {}
        if (obj.get("spec") or {}).get("service") is None:
            obj["status"] = {
                "conditions": [
                    {
                        "type": "Available",
                        "status": "True",
                        "lastTransitionTime": ctx.now,
                        "reason": "Local",
                        "message": "Local APIServices are always available",
                    }
                ]
            }

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        spec = obj.get("spec") or {}
        group, version = spec.get("group") or "", spec.get("version") or ""
        name = (obj.get("metadata") or {}).get("name") or ""
        wanted = f"{version}.{group}"
        errors: list[FieldError] = []
        if name != wanted:
            text = f'must be `spec.version+"."+spec.group`: "{wanted}"'
            errors.append(invalid("metadata.name", name, text))
        if not group:
            errors.append(
                required("spec.group", "only v1 may have an empty group and it better be legacy kube")
            )
        else:
            errors += [invalid("spec.group", group, text) for text in subdomain_errors(group)]
        errors += [invalid("spec.version", version, text) for text in dns1035_errors(version)]
        least = spec.get("groupPriorityMinimum") or 0
        if not 0 < least <= 20000:
            text = "must be positive and less than 20000"
            errors.append(invalid("spec.groupPriorityMinimum", least, text))
        priority = spec.get("versionPriority") or 0
        if not 0 < priority <= 1000:
            text = "must be positive and less than 1000"
            errors.append(invalid("spec.versionPriority", priority, text))
        service = spec.get("service")
        if service is None:
            if spec.get("caBundle"):
                text = "local APIServices may not have a caBundle"
                errors.append(invalid("spec.caBundle", f"{len(spec['caBundle'])} bytes", text))
            if spec.get("insecureSkipTLSVerify"):
                text = "local APIServices may not have insecureSkipTLSVerify"
                errors.append(invalid("spec.insecureSkipTLSVerify", True, text))
            return errors
        errors += [required(f"spec.service.{key}") for key in ("namespace", "name") if not service.get(key)]
        if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
            text = "may not be true if caBundle is present"
            errors.append(forbidden("spec.insecureSkipTLSVerify", text))
        return errors

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return self.validate_create(obj, ctx)
