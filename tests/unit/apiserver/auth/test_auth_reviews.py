"""Reviews and token requests, in the words of a real server."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from quarterdeck.apiserver.auth.authenticate import Authenticator
from quarterdeck.apiserver.auth.jwt import SigningKey
from quarterdeck.apiserver.auth.rbac import Authorizer
from quarterdeck.apiserver.auth.reviews import (
    local_subject_access_review,
    self_subject_access_review,
    self_subject_review,
    self_subject_rules_review,
    subject_access_review,
    token_review,
)
from quarterdeck.apiserver.auth.serviceaccount import ServiceAccountTokens
from quarterdeck.apiserver.auth.tokenrequest import token_request
from quarterdeck.apiserver.auth.user import UserInfo
from quarterdeck.apiserver.status import StatusError

Json = dict[str, Any]
ISSUER = "https://kubernetes.default.svc.cluster.local"
NOW = 1_800_000_000.5
PODS = {"verb": "list", "resource": "pods", "namespace": "ns"}


@pytest.fixture
def authorizer() -> Authorizer:
    authorizer = Authorizer()
    authorizer.apply_change(
        "clusterroles",
        "",
        "r",
        {
            "rules": [
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"], "resourceNames": ["a"]},
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
                {"nonResourceURLs": ["/x"], "verbs": ["get"]},
            ]
        },
    )
    subjects = [{"kind": "User", "name": "bob"}, {"kind": "Group", "name": "g"}]
    reference = {"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": subjects}
    authorizer.apply_change("clusterrolebindings", "", "b", reference)
    return authorizer


def refusal(call: Any, *arguments: Any, **named: Any) -> StatusError:
    with pytest.raises(StatusError) as caught:
        call(*arguments, **named)
    error: StatusError = caught.value
    return error


def test_a_subject_is_told_yes_with_the_reason(authorizer: Authorizer) -> None:
    spec = {"user": "bob", "resourceAttributes": PODS}
    assert subject_access_review({"metadata": {"creationTimestamp": None}, "spec": spec}, authorizer) == {
        "kind": "SubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": spec,
        "status": {
            "allowed": True,
            "reason": 'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to User "bob"',
        },
    }


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({"groups": ["g"], "resourceAttributes": PODS}, True),
        ({"groups": ["h"], "resourceAttributes": PODS}, False),
        ({"user": "bob", "resourceAttributes": {**PODS, "subresource": "log"}}, False),
        ({"user": "bob", "resourceAttributes": {**PODS, "group": "apps"}}, False),
        ({"user": "bob", "nonResourceAttributes": {"path": "/x", "verb": "get"}}, True),
        ({"user": "bob", "nonResourceAttributes": {"path": "/y", "verb": "get"}}, False),
        ({"user": "bob", "nonResourceAttributes": {}}, False),
        ({"user": "x", "groups": ["system:masters"], "resourceAttributes": {}}, True),
    ],
)
def test_subjects(authorizer: Authorizer, spec: Json, allowed: bool) -> None:
    answer = subject_access_review({"spec": spec}, authorizer)
    assert answer["status"]["allowed"] is allowed
    assert answer["status"].get("denied") is None


NOT_BOTH = "cannot be specified in combination with resourceAttributes"
ONE = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
WHO = 'spec.user: Invalid value: "": at least one of user or group must be specified'
FIELD, LABEL = "spec.resourceAttributes.fieldSelector", "spec.resourceAttributes.labelSelector"


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (None, f"[spec.resourceAttributes: Invalid value: null: {ONE}, {WHO}]"),
        ({"resourceAttributes": PODS}, WHO),
        (
            {"user": "b", "resourceAttributes": {}, "nonResourceAttributes": {"path": "/x", "verb": "get"}},
            f'spec.nonResourceAttributes: Invalid value: {{"Path":"/x","Verb":"get"}}: {NOT_BOTH}',
        ),
        (
            {"user": "b", "resourceAttributes": {"fieldSelector": {}, "labelSelector": {}}},
            (
                f"[{FIELD}.requirements: Required value: when {FIELD} is specified, "
                "requirements or rawSelector is required, "
                f"{LABEL}.requirements: Required value: when {LABEL} is specified, "
                "requirements or rawSelector is required]"
            ),
        ),
        (
            {
                "user": "b",
                "resourceAttributes": {
                    "fieldSelector": {"rawSelector": "a=b", "requirements": [{"key": "", "operator": "In"}]}
                },
            },
            (
                f'[{FIELD}.rawSelector: Invalid value: "a=b": '
                "may not specified at the same time as requirements, "
                f"{FIELD}.requirements[0].key: Required value: must be specified, "
                f"{FIELD}.requirements[0].values: Required value: "
                "must be specified when `operator` is 'In' or 'NotIn']"
            ),
        ),
    ],
)
def test_badly_put_questions(authorizer: Authorizer, spec: Json | None, text: str) -> None:
    error = refusal(subject_access_review, {"spec": spec}, authorizer)
    assert (error.code, error.message) == (422, f'.authorization.k8s.io "" is invalid: {text}')
    assert error.details is not None
    assert error.details["group"] == "authorization.k8s.io"
    assert "kind" not in error.details


def test_label_requirements_are_validated(authorizer: Authorizer) -> None:
    requirement = {"key": "-", "operator": "Exists", "values": ["a b"]}
    spec = {"user": "b", "resourceAttributes": {"labelSelector": {"requirements": [requirement]}}}
    error = refusal(subject_access_review, {"spec": spec}, authorizer)
    assert error.details is not None
    at = f"{LABEL}.requirements[0]"
    assert [cause["field"] for cause in error.details["causes"]] == [
        f"{at}.values",
        f"{at}.key",
        f"{at}.values[0]",
    ]


@pytest.mark.parametrize(
    ("selectors", "text"),
    [
        ({"fieldSelector": {"rawSelector": "a=b"}, "labelSelector": {"rawSelector": "a in (b)"}}, None),
        ({"fieldSelector": {"rawSelector": "a b"}}, f"{FIELD} ignored due to parse error"),
        (
            {
                "fieldSelector": {
                    "requirements": [
                        {"key": "a", "operator": "Foo", "values": ["v"]},
                        {"key": "b", "operator": "In", "values": ["v"]},
                    ]
                },
                "labelSelector": {"requirements": [{"key": "a", "operator": "Foo", "values": ["v"]}]},
            },
            f"{FIELD} partially ignored due to parse error; {LABEL} ignored due to parse error",
        ),
        ({"labelSelector": {"rawSelector": "a in b"}}, f"{LABEL} ignored due to parse error"),
    ],
)
def test_selectors_that_cannot_be_read_are_reported(
    authorizer: Authorizer, selectors: Json, text: str | None
) -> None:
    spec = {"user": "bob", "resourceAttributes": {**PODS, **selectors}}
    answer = subject_access_review({"spec": spec}, authorizer)["status"]
    assert answer["allowed"]
    assert answer.get("evaluationError") == text


def test_a_review_has_no_metadata(authorizer: Authorizer) -> None:
    document = {"metadata": {"name": "x", "uid": "u"}, "spec": {"resourceAttributes": PODS}}
    error = refusal(self_subject_access_review, document, UserInfo("bob"), authorizer)
    text = 'metadata: Invalid value: {"name":"x"}: must be empty'
    assert error.message == f'.authorization.k8s.io "" is invalid: {text}'


def test_a_cluster_wide_review_forgets_a_namespace(authorizer: Authorizer) -> None:
    document = {"metadata": {"namespace": "x"}, "spec": {"resourceAttributes": PODS}}
    assert self_subject_access_review(document, UserInfo("bob"), authorizer)["metadata"] == {}


def test_managed_fields_pass_through(authorizer: Authorizer) -> None:
    document = {"metadata": {"managedFields": [{}]}, "spec": {"resourceAttributes": PODS}}
    answer = self_subject_access_review(document, UserInfo("bob"), authorizer)
    assert answer["metadata"] == {"managedFields": [{}]}


def test_one_may_ask_about_oneself_without_a_name(authorizer: Authorizer) -> None:
    answer = self_subject_access_review({"spec": {"resourceAttributes": PODS}}, UserInfo("bob"), authorizer)
    assert answer["kind"] == "SelfSubjectAccessReview"
    assert answer["status"]["allowed"]
    error = refusal(self_subject_access_review, {}, UserInfo("bob"), authorizer)
    assert error.message.endswith(f"spec.resourceAttributes: Invalid value: null: {ONE}")


def test_a_local_review_is_about_its_namespace(authorizer: Authorizer) -> None:
    document = {"spec": {"user": "bob", "resourceAttributes": PODS}}
    answer = local_subject_access_review(document, "ns", authorizer)
    assert answer["metadata"] == {"namespace": "ns"}
    assert answer["status"]["allowed"]


@pytest.mark.parametrize(
    ("metadata", "spec", "code", "text"),
    [
        (
            {},
            {"user": "bob", "resourceAttributes": {"verb": "list"}},
            422,
            'spec.resourceAttributes.namespace: Invalid value: "": must match metadata.namespace',
        ),
        (
            {},
            {"user": "bob", "nonResourceAttributes": {"verb": "list", "path": "/a"}},
            422,
            (
                'spec.nonResourceAttributes: Invalid value: {"Path":"/a","Verb":"list"}: '
                "disallowed on this kind of request"
            ),
        ),
        (
            {"name": "x", "namespace": "ns"},
            {"user": "bob", "resourceAttributes": PODS},
            422,
            'metadata: Invalid value: {"name":"x","namespace":"ns"}: must be empty except for namespace',
        ),
        (
            {"namespace": "other"},
            {"user": "bob", "resourceAttributes": PODS},
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ],
)
def test_local_reviews_that_are_not_local(
    authorizer: Authorizer, metadata: Json, spec: Json, code: int, text: str
) -> None:
    document = {"metadata": metadata, "spec": spec}
    error = refusal(local_subject_access_review, document, "ns", authorizer)
    assert error.code == code
    assert error.message.endswith(text)


def test_a_rules_review_lists_everything(authorizer: Authorizer) -> None:
    authorizer.apply_change(
        "clusterrolebindings",
        "",
        "c",
        {"roleRef": {"kind": "ClusterRole", "name": "no"}, "subjects": [{"kind": "User", "name": "bob"}]},
    )
    document = {"metadata": {"name": "x"}, "spec": {"namespace": "ns"}}
    assert self_subject_rules_review(document, UserInfo("bob"), authorizer) == {
        "kind": "SelfSubjectRulesReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": {},
        "status": {
            "resourceRules": [
                {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]},
                {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]},
            ],
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}],
            "incomplete": False,
            "evaluationError": 'clusterrole.rbac.authorization.k8s.io "no" not found',
        },
    }


def test_a_rules_review_needs_a_namespace(authorizer: Authorizer) -> None:
    error = refusal(self_subject_rules_review, {"spec": {}}, UserInfo("bob"), authorizer)
    assert (error.code, error.message) == (400, "no namespace on request")


def test_whoami() -> None:
    user = UserInfo("bob", "7", ("g",), {"k": ("v",)})
    assert self_subject_review(user, "2027-01-15T08:00:00Z") == {
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"creationTimestamp": "2027-01-15T08:00:00Z"},
        "status": {"userInfo": {"username": "bob", "uid": "7", "groups": ["g"], "extra": {"k": ["v"]}}},
    }


class World:
    """A service account, a pod, a node and a secret, and a server that issues and takes tokens."""

    def __init__(self) -> None:
        self.now = NOW
        self.objects: dict[tuple[str, str, str], Json] = {
            ("serviceaccounts", "ns", "sa"): {"metadata": {"uid": "uid-sa"}},
            ("secrets", "ns", "s"): {"metadata": {"uid": "uid-s"}},
            ("nodes", "", "n"): {"metadata": {"uid": "uid-n"}},
            ("pods", "ns", "p"): {
                "metadata": {"uid": "uid-p"},
                "spec": {"serviceAccountName": "sa", "nodeName": "n"},
            },
            ("pods", "ns", "q"): {"metadata": {"uid": "uid-q"}, "spec": {"serviceAccountName": "other"}},
        }
        self.tokens = ServiceAccountTokens(SigningKey.generate())
        self.authenticator = Authenticator(
            self, service_accounts=self.tokens, clock=lambda: self.now, static_tokens={"t": UserInfo("bob")}
        )

    def get(self, group: str, resource: str, namespace: str, name: str) -> Json | None:
        return self.objects.get((resource, namespace, name))

    def request(self, spec: Json | None = None, metadata: Json | None = None, name: str = "sa") -> Json:
        document = {"metadata": metadata, "spec": spec}
        return token_request(document, "ns", name, reads=self, tokens=self.tokens, now=self.now)

    def claims(self, spec: Json) -> Json:
        payload = self.request(spec)["status"]["token"].split(".")[1]
        claims: Json = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return claims


@pytest.fixture
def world() -> World:
    return World()


def test_a_token_request_is_answered_with_a_token_that_works(world: World) -> None:
    answer = world.request(metadata={"labels": {"x": "y"}})
    token = answer["status"]["token"]
    assert answer == {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            "labels": {"x": "y"},
            "name": "sa",
            "namespace": "ns",
            "uid": "uid-sa",
            "creationTimestamp": "2027-01-15T08:00:00Z",
        },
        "spec": {"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": None},
        "status": {"token": token, "expirationTimestamp": "2027-01-15T09:00:00Z"},
    }
    assert world.authenticator.authenticate(None, f"Bearer {token}").name == "system:serviceaccount:ns:sa"


def test_claims_are_upstreams(world: World) -> None:
    claims = world.claims({"audiences": ["a", "b"], "expirationSeconds": 700})
    jti = claims.pop("jti")
    assert len(jti) == 36
    assert claims == {
        "aud": ["a", "b"],
        "exp": 1_800_000_700,
        "iat": 1_800_000_000,
        "iss": ISSUER,
        "kubernetes.io": {"namespace": "ns", "serviceaccount": {"name": "sa", "uid": "uid-sa"}},
        "nbf": 1_800_000_000,
        "sub": "system:serviceaccount:ns:sa",
    }


@pytest.mark.parametrize(
    ("reference", "bound"),
    [
        ({"kind": "Secret", "apiVersion": "v1", "name": "s"}, {"secret": {"name": "s", "uid": "uid-s"}}),
        (
            {"kind": "Secret", "apiVersion": "v1", "name": "s", "uid": "uid-s"},
            {"secret": {"name": "s", "uid": "uid-s"}},
        ),
        ({"kind": "Node", "apiVersion": "v1", "name": "n"}, {"node": {"name": "n", "uid": "uid-n"}}),
        (
            {"kind": "Pod", "apiVersion": "v1", "name": "p"},
            {"pod": {"name": "p", "uid": "uid-p"}, "node": {"name": "n", "uid": "uid-n"}},
        ),
    ],
)
def test_bound_tokens_name_the_object(world: World, reference: Json, bound: Json) -> None:
    binding = world.claims({"boundObjectRef": reference})["kubernetes.io"]
    assert {
        key: value for key, value in binding.items() if key not in ("namespace", "serviceaccount")
    } == bound
    answer = world.request({"boundObjectRef": reference})
    assert answer["spec"]["boundObjectRef"] == reference
    assert world.authenticator.authenticate_token(answer["status"]["token"])


def test_a_pods_node_may_be_missing(world: World) -> None:
    del world.objects["nodes", "", "n"]
    spec = {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p"}}
    assert world.claims(spec)["kubernetes.io"]["node"] == {"name": "n"}
    del world.objects["pods", "ns", "p"]["spec"]["nodeName"]
    assert "node" not in world.claims(spec)["kubernetes.io"]


def test_projected_tokens_live_longer_than_they_say(world: World) -> None:
    spec = {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p"}, "expirationSeconds": 3607}
    claims = world.claims(spec)
    assert claims["exp"] == 1_800_000_000 + 365 * 24 * 3600
    assert claims["kubernetes.io"]["warnafter"] == 1_800_003_607
    assert world.request(spec)["status"]["expirationTimestamp"] == "2027-01-15T09:00:07Z"
    assert "warnafter" not in world.claims({**spec, "audiences": ["x"]})["kubernetes.io"]


UNLIKE = (
    "the UID in the bound object reference (bad) does not match the UID in record. "
    "The object might have been deleted and then recreated"
)


@pytest.mark.parametrize(
    ("spec", "code", "text"),
    [
        (
            {"expirationSeconds": 599},
            422,
            (
                'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: '
                "Invalid value: 599: may not specify a duration less than 10 minutes"
            ),
        ),
        (
            {"expirationSeconds": 0},
            422,
            (
                'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 0: '
                "may not specify a duration less than 10 minutes"
            ),
        ),
        (
            {"expirationSeconds": 1 << 33},
            422,
            (
                'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: '
                "Invalid value: 8589934592: may not specify a duration larger than 2^32 seconds"
            ),
        ),
        (
            {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "x"}},
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap",
        ),
        (
            {"boundObjectRef": {"kind": "Pod", "apiVersion": "apps/v1", "name": "p"}},
            400,
            "cannot bind token to object of type apps/v1, Kind=Pod",
        ),
        ({"boundObjectRef": {}}, 400, "cannot bind token to object of type /, Kind="),
        ({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "x"}}, 404, 'pods "x" not found'),
        (
            {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "x"}},
            404,
            'secrets "x" not found',
        ),
        ({"boundObjectRef": {"kind": "Node", "apiVersion": "v1", "name": "x"}}, 404, 'nodes "x" not found'),
        (
            {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "q"}},
            400,
            'cannot bind token for serviceaccount "sa" to pod running with different serviceaccount name.',
        ),
        (
            {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "s", "uid": "bad"}},
            409,
            f'Operation cannot be fulfilled on Secret "s": {UNLIKE}',
        ),
    ],
)
def test_token_requests_that_make_no_sense(world: World, spec: Json, code: int, text: str) -> None:
    error = refusal(world.request, spec)
    assert (error.code, error.message) == (code, text)


@pytest.mark.parametrize(
    ("metadata", "code", "text"),
    [
        (
            {"name": "other"},
            422,
            (
                'TokenRequest.authentication.k8s.io "sa" is invalid: metadata.name: Invalid value: "other": '
                "must match the service account name if specified"
            ),
        ),
        (
            {"namespace": "other"},
            422,
            (
                'TokenRequest.authentication.k8s.io "sa" is invalid: metadata.namespace: '
                'Invalid value: "other": '
                "must match the service account namespace if specified"
            ),
        ),
        (
            {"uid": "abc"},
            409,
            (
                'Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "sa": '
                "the UID in the token request (abc) does not match the UID of the service account (uid-sa)"
            ),
        ),
    ],
)
def test_token_requests_for_somebody_else(world: World, metadata: Json, code: int, text: str) -> None:
    error = refusal(world.request, {}, metadata)
    assert (error.code, error.message) == (code, text)
    assert world.request({}, {"name": "sa", "namespace": "ns", "uid": "uid-sa"})


def test_a_token_for_nobody_is_not_found(world: World) -> None:
    error = refusal(world.request, {}, name="nope")
    assert (error.code, error.message) == (404, 'serviceaccounts "nope" not found')


def review(world: World, token: str, *audiences: str) -> Json:
    spec = {"token": token, "audiences": list(audiences)} if audiences else {"token": token}
    answer = token_review({"spec": spec}, world.authenticator)
    assert answer["kind"] == "TokenReview"
    assert answer["spec"] == spec
    status: Json = answer["status"]
    return status


def test_a_token_review_tells_whose_token_it_is(world: World) -> None:
    status = review(world, world.request()["status"]["token"])
    (credential,) = status["user"]["extra"].pop("authentication.kubernetes.io/credential-id")
    assert credential.startswith("JTI=")
    assert status == {
        "authenticated": True,
        "user": {
            "username": "system:serviceaccount:ns:sa",
            "uid": "uid-sa",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"],
            "extra": {},
        },
        "audiences": [ISSUER],
    }


def test_a_token_review_explains_a_refusal(world: World) -> None:
    token = world.request({"audiences": ["a", "b"]})["status"]["token"]
    assert review(world, token, "b", "z")["audiences"] == ["b"]
    assert review(world, token) == {
        "user": {},
        "error": '[invalid bearer token, token audiences ["a" "b"] is invalid for the target audiences '
        f'["{ISSUER}"]]',
    }
    assert review(world, "garbage") == {"user": {}, "error": "invalid bearer token"}
    world.now += 4000
    assert review(world, token, "a") == {
        "user": {},
        "error": "[invalid bearer token, service account token has expired]",
    }


def test_a_token_review_knows_static_tokens(world: World) -> None:
    assert review(world, "t") == {
        "authenticated": True,
        "user": {"username": "bob", "groups": ["system:authenticated"]},
        "audiences": [ISSUER],
    }


def test_a_token_review_needs_a_token(world: World) -> None:
    error = refusal(token_review, {"spec": {}}, world.authenticator)
    assert (error.code, error.message) == (400, "token is required for TokenReview in authentication")
