"""The admission checks that are always on, with what they need from the server around them."""

from __future__ import annotations

from .admission.attributes import Attributes
from .auth import Authorizer, escalation_error
from .builtin import admission as builtin

_RBAC = "rbac.authorization.k8s.io"


class ServerChecks:
    """See admission.chain.BuiltinChecks. Privilege escalation is checked where roles are written."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def covers(self, group: str, resource: str, subresource: str, operation: str) -> bool:
        if group == _RBAC and operation in ("CREATE", "UPDATE"):
            return True
        return builtin.covers(group, resource, subresource, operation)

    def mutate(self, attributes: Attributes) -> None:
        builtin.mutate(
            attributes.group,
            attributes.resource,
            attributes.subresource,
            attributes.operation,
            attributes.object,
            attributes.old_object,
            attributes.context,
        )

    def validate(self, attributes: Attributes) -> None:
        if attributes.group == _RBAC:
            self._check_escalation(attributes)
            return
        builtin.validate(
            attributes.group,
            attributes.resource,
            attributes.subresource,
            attributes.operation,
            attributes.object,
            attributes.old_object,
            attributes.context,
        )

    def _check_escalation(self, attributes: Attributes) -> None:
        if attributes.object is None or attributes.user.is_master:
            return
        error = escalation_error(
            self._authorizer,
            attributes.user,
            attributes.resource,
            attributes.namespace,
            attributes.object,
            attributes.old_object,
            request_name="" if attributes.operation == "CREATE" else attributes.name,
        )
        if error is not None:
            raise error
