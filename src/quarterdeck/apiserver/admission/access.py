"""The `authorizer` of admission expressions, answered by the server's own authorizer."""

from __future__ import annotations

from quarterdeck.apiserver.auth.attributes import AccessAttributes, path_attributes
from quarterdeck.apiserver.auth.user import UserInfo, service_account_groups, service_account_username
from quarterdeck.cel.library.authorizer import AccessError, AuthorizerValue, ResourceCheck
from quarterdeck.cel.library.authorizer import Attributes as CheckAttributes
from quarterdeck.wire.turn import ask

from .attributes import Attributes, Host


class Access:
    """Checks on behalf of the user of one request, or of a service account the expression names."""

    def __init__(self, attributes: Attributes, host: Host) -> None:
        self._attributes = attributes
        self._host = host

    def check(self, attributes: CheckAttributes) -> tuple[bool, str]:
        """Decide; an error of the authorizer is raised and shows as `errored()`."""
        question = self._question(attributes)
        decision = ask(lambda: self._host.authorize(question))
        if decision.error:
            raise AccessError(decision.error)
        return decision.allowed, decision.reason

    def authorizer(self) -> AuthorizerValue:
        return AuthorizerValue(self)

    def request_resource(self) -> ResourceCheck:
        """`authorizer.requestResource`: what the request under admission is about."""
        request = self._attributes
        return ResourceCheck(
            self,
            CheckAttributes(
                is_resource_request=True,
                group=request.group,
                resource=request.resource,
                subresource=request.subresource,
                namespace=request.namespace,
                name=request.name,
            ),
        )

    def _question(self, attributes: CheckAttributes) -> AccessAttributes:
        user = self._user(attributes.service_account)
        if not attributes.is_resource_request:
            return path_attributes(user, attributes.verb, attributes.path)
        return AccessAttributes(
            user=user,
            verb=attributes.verb,
            group=attributes.group,
            version="*",
            resource=attributes.resource,
            subresource=attributes.subresource,
            namespace=attributes.namespace,
            name=attributes.name,
            field_selector=attributes.field_selector,
            label_selector=attributes.label_selector,
        )

    def _user(self, account: tuple[str, str] | None) -> UserInfo:
        if account is None:
            return self._attributes.user
        user = UserInfo(name=service_account_username(*account), groups=service_account_groups(account[0]))
        return user.authenticated()
