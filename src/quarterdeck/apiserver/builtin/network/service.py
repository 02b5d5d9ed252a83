"""Services: defaults and the life of their addresses and ports."""

from __future__ import annotations

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.kind import BuiltinStrategy, section, text_at
from quarterdeck.apiserver.metadata import (
    IMMUTABLE,
    label_errors,
)
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, forbidden, invalid

from .serviceaddress import validate_address_changes, validate_balancer, validate_family_changes
from .serviceallocation import allocate, drop_type_dependent, keep_allocated, normalize_addresses
from .servicekind import is_external_name, is_externally_accessible, needs_health_check
from .servicevalidation import validate_service
from .servicewarning import service_warnings


class ServiceStrategy(BuiltinStrategy):
    has_status = True
    allows_create_on_update = True
    selectable_fields = {  # noqa: RUF012 # never changed
        "spec.clusterIP": text_at("spec", "clusterIP"),
        "spec.type": text_at("spec", "type"),
    }

    def name_errors(self, name: str, *, prefix: bool = False) -> list[str]:
        return label_errors(name, prefix=prefix)

    def default(self, obj: Json) -> None:
        spec = section(obj, "spec")
        get = spec.get
        affinity = get("sessionAffinity")
        if not affinity:
            affinity = spec["sessionAffinity"] = "None"
        if affinity == "None":
            spec.pop("sessionAffinityConfig", None)
        elif affinity == "ClientIP":
            client = (get("sessionAffinityConfig") or {}).get("clientIP") or {}
            if client.get("timeoutSeconds") is None:
                spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
        if not get("type"):
            spec["type"] = "ClusterIP"
        for port in get("ports") or ():
            if not port.get("protocol"):
                port["protocol"] = "TCP"
            if not port.get("targetPort") and "port" in port:
                port["targetPort"] = port["port"]
        if is_externally_accessible(spec) and not get("externalTrafficPolicy"):
            spec["externalTrafficPolicy"] = "Cluster"
        if get("internalTrafficPolicy") is None and not is_external_name(spec):
            spec["internalTrafficPolicy"] = "Cluster"
        status = section(obj, "status")
        balancer = section(status, "loadBalancer")
        if get("type") == "LoadBalancer":
            if get("allocateLoadBalancerNodePorts") is None:
                spec["allocateLoadBalancerNodePorts"] = True
            for ingress in balancer.get("ingress") or ():
                if ingress.get("ip") and ingress.get("ipMode") is None:
                    ingress["ipMode"] = "VIP"

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        obj["status"] = {"loadBalancer": {}}
        spec = section(obj, "spec")
        normalize_addresses(spec, None)
        allocate(obj, None, ctx)

    def prepare_update(self, obj: Json, old: Json, ctx: WriteContext) -> None:
        spec, before = section(obj, "spec"), old.get("spec") or {}
        drop_type_dependent(spec, before)
        if spec.get("type") != "LoadBalancer":
            section(obj, "status")["loadBalancer"] = {}
        keep_allocated(spec, before)
        normalize_addresses(spec, before)
        allocate(obj, old, ctx)

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        return validate_service(obj)

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        errors: list[FieldError] = []
        if not is_external_name(spec) and not is_external_name(before):
            errors += validate_address_changes(spec, before)
            errors += validate_family_changes(spec, before)
        if spec.get("type") == before.get("type") == "LoadBalancer":
            name = spec.get("loadBalancerClass")
            if name != before.get("loadBalancerClass"):
                errors.append(invalid("spec.loadBalancerClass", name, "may not change once set"))
        both_checked = needs_health_check(spec) and needs_health_check(before)
        if both_checked and spec.get("healthCheckNodePort") != before.get("healthCheckNodePort"):
            errors.append(forbidden("spec.healthCheckNodePort", IMMUTABLE))
        return errors + validate_service(obj)

    def validate_status_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        balancer = (obj.get("status") or {}).get("loadBalancer") or {}
        return validate_balancer(balancer, obj.get("spec") or {})

    def warnings(self, obj: Json, old: Json | None) -> list[str]:
        return service_warnings(obj)
