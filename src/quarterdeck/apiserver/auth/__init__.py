"""Who may do what: certificates and tokens, users, impersonation, RBAC, and the reviews about them.

user, attributes     the values: who asks, and for what
certificates         the server's CA, certificates and token key; kubeconfig writes what clients need
authenticate         credentials -> user (jwt, serviceaccount: the tokens we issue)
impersonation        Impersonate-* headers -> user
rbac, escalation     user and request -> allowed or not (rule: what one rule says)
nodeauthorizer       the same for kubelets, by the pods that are bound to their node
bootstrap            the roles of a fresh server; aggregation
discovery            how others verify the tokens we issue
reviews              the review resources; tokenrequest issues tokens
"""

from .attributes import AccessAttributes, forbidden_error, path_attributes, request_attributes
from .authenticate import Authenticator, load_token_file, parse_token_file
from .bootstrap import BootstrapObject, bootstrap_objects
from .certificates import ADMIN, Authority, CertificateError, Credentials, KeyPair, open_credentials
from .escalation import escalation_error
from .impersonation import Impersonator
from .jwt import SigningKey, TokenError, VerificationKey
from .kubeconfig import build_kubeconfig, write_kubeconfig
from .nodeauthorizer import NodeAuthorizer, NodeRelations
from .rbac import AccessDecision, Authorizer
from .reviews import (
    local_subject_access_review,
    self_subject_access_review,
    self_subject_review,
    self_subject_rules_review,
    subject_access_review,
    token_review,
)
from .serviceaccount import ClusterReads, ServiceAccountTokens
from .tokenrequest import token_request
from .user import UserInfo

__all__ = [
    "ADMIN",
    "AccessAttributes",
    "AccessDecision",
    "Authenticator",
    "Authority",
    "Authorizer",
    "BootstrapObject",
    "CertificateError",
    "ClusterReads",
    "Credentials",
    "Impersonator",
    "KeyPair",
    "NodeAuthorizer",
    "NodeRelations",
    "ServiceAccountTokens",
    "SigningKey",
    "TokenError",
    "UserInfo",
    "VerificationKey",
    "bootstrap_objects",
    "build_kubeconfig",
    "escalation_error",
    "forbidden_error",
    "load_token_file",
    "local_subject_access_review",
    "open_credentials",
    "parse_token_file",
    "path_attributes",
    "request_attributes",
    "self_subject_access_review",
    "self_subject_review",
    "self_subject_rules_review",
    "subject_access_review",
    "token_request",
    "token_review",
    "write_kubeconfig",
]
