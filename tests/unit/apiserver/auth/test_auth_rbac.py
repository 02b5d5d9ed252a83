"""The authorizer: bindings, reasons, changes, and agreement with a plain reading of the rules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.apiserver.auth.attributes import AccessAttributes, path_attributes
from quarterdeck.apiserver.auth.rbac import Authorizer
from quarterdeck.apiserver.auth.rule import parse_rules
from quarterdeck.apiserver.auth.user import UserInfo
from quarterdeck.apiserver.status import StatusError

Json = dict[str, Any]
BOB = UserInfo("bob", groups=("devs", "system:authenticated"))


def binding(role: str, *subjects: Json, kind: str = "ClusterRole") -> Json:
    return {"roleRef": {"kind": kind, "name": role}, "subjects": list(subjects)}


def user(name: str) -> Json:
    return {"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}


def group(name: str) -> Json:
    return {"kind": "Group", "name": name, "apiGroup": "rbac.authorization.k8s.io"}


def rules(*entries: tuple[str, str, str] | tuple[str, str, str, str]) -> Json:
    return {
        "rules": [
            {
                "apiGroups": [api_group],
                "resources": resources.split("|"),
                "verbs": verbs.split("|"),
                **({"resourceNames": names[0].split("|")} if names else {}),
            }
            for api_group, resources, verbs, *names in entries
        ]
    }


def ask(
    verb: str, resource: str, namespace: str = "", name: str = "", who: UserInfo = BOB
) -> AccessAttributes:
    resource, _, subresource = resource.partition("/")
    return AccessAttributes(
        user=who, verb=verb, resource=resource, subresource=subresource, namespace=namespace, name=name
    )


@pytest.fixture
def authorizer() -> Authorizer:
    """bob reads pods in ns through a Role; devs read nodes everywhere."""
    authorizer = Authorizer()
    pods = rules(("", "pods|pods/log", "get|list"), ("", "configmaps", "*", "one"))
    authorizer.apply_change("roles", "ns", "r", pods)
    authorizer.apply_change("rolebindings", "ns", "b", binding("r", user("bob"), kind="Role"))
    authorizer.apply_change("clusterroles", "", "nodes", rules(("", "nodes", "get|list|watch")))
    authorizer.apply_change("clusterrolebindings", "", "devs", binding("nodes", group("devs")))
    return authorizer


def test_a_role_binding_allows_in_its_namespace_only(authorizer: Authorizer) -> None:
    assert authorizer.authorize(ask("get", "pods", "ns")).allowed
    assert not authorizer.authorize(ask("get", "pods", "other")).allowed
    assert not authorizer.authorize(ask("get", "pods")).allowed


def test_reasons_name_binding_role_and_subject(authorizer: Authorizer) -> None:
    role = authorizer.authorize(ask("get", "pods", "ns")).reason
    assert role == 'RBAC: allowed by RoleBinding "b/ns" of Role "r" to User "bob"'
    cluster = authorizer.authorize(ask("get", "nodes", "ns")).reason
    assert cluster == 'RBAC: allowed by ClusterRoleBinding "devs" of ClusterRole "nodes" to Group "devs"'


def test_the_first_matching_subject_is_named() -> None:
    authorizer = Authorizer()
    authorizer.apply_change("clusterroles", "", "c", rules(("", "pods", "get")))
    subjects = (user("alice"), group("devs"), user("bob"))
    authorizer.apply_change("clusterrolebindings", "", "b", binding("c", *subjects))
    assert authorizer.authorize(ask("get", "pods")).reason.endswith('to Group "devs"')
    authorizer.apply_change("clusterrolebindings", "", "b", binding("c", *reversed(subjects)))
    assert authorizer.authorize(ask("get", "pods")).reason.endswith('to User "bob"')


def test_verbs_and_subresources_must_be_listed(authorizer: Authorizer) -> None:
    assert authorizer.authorize(ask("get", "pods/log", "ns")).allowed
    assert not authorizer.authorize(ask("delete", "pods", "ns")).allowed
    assert not authorizer.authorize(ask("get", "pods/exec", "ns")).allowed


def test_a_names_rule_needs_the_name(authorizer: Authorizer) -> None:
    assert authorizer.authorize(ask("update", "configmaps", "ns", "one")).allowed
    assert not authorizer.authorize(ask("update", "configmaps", "ns", "two")).allowed
    for verb in ("create", "list", "deletecollection"):
        assert not authorizer.authorize(ask(verb, "configmaps", "ns")).allowed


def test_a_names_rule_covers_a_list_narrowed_to_the_name(authorizer: Authorizer) -> None:
    def narrowed(verb: str, selector: str) -> bool:
        question = AccessAttributes(
            user=BOB, verb=verb, resource="configmaps", namespace="ns", field_selector=selector
        )
        return authorizer.authorize(question).allowed

    assert narrowed("list", "metadata.name=one")
    assert narrowed("watch", "metadata.name=one")
    assert not narrowed("list", "metadata.name=two")
    assert not narrowed("deletecollection", "metadata.name=one")


def test_a_rule_without_names_wins_over_later_ones_with() -> None:
    authorizer = Authorizer()
    authorizer.apply_change(
        "clusterroles", "", "c", rules(("", "pods", "get", "a"), ("", "pods", "get"), ("", "pods", "*", "b"))
    )
    authorizer.apply_change("clusterrolebindings", "", "b", binding("c", user("bob")))
    assert authorizer.authorize(ask("get", "pods", name="zzz")).allowed
    assert not authorizer.authorize(ask("delete", "pods", name="a")).allowed
    assert authorizer.authorize(ask("delete", "pods", name="b")).allowed


@pytest.mark.parametrize(
    ("namespace", "subject", "bound", "reason"),
    [
        ("ns", {"kind": "ServiceAccount", "name": "s"}, "ns", 'RoleBinding "b/ns" of ClusterRole "c"'),
        (
            "ns",
            {"kind": "ServiceAccount", "name": "s", "namespace": "ns"},
            "ns",
            'to ServiceAccount "s/ns"',
        ),
        ("", {"kind": "ServiceAccount", "name": "s", "namespace": "ns"}, "", 'to ServiceAccount "s/ns"'),
    ],
)
def test_service_accounts_are_subjects(namespace: str, subject: Json, bound: str, reason: str) -> None:
    authorizer = Authorizer()
    authorizer.apply_change("clusterroles", "", "c", rules(("", "pods", "list")))
    resource = "rolebindings" if namespace else "clusterrolebindings"
    authorizer.apply_change(resource, namespace, "b", binding("c", subject))
    who = UserInfo("system:serviceaccount:ns:s")
    decision = authorizer.authorize(ask("list", "pods", bound, who=who))
    assert decision.allowed
    assert reason in decision.reason
    assert not authorizer.authorize(ask("list", "secrets", bound, who=who)).allowed


def test_a_cluster_binding_to_an_account_without_namespace_binds_nobody() -> None:
    authorizer = Authorizer()
    authorizer.apply_change("clusterroles", "", "c", rules(("", "pods", "list")))
    subject = {"kind": "ServiceAccount", "name": "s"}
    authorizer.apply_change(
        "clusterrolebindings", "", "b", binding("c", subject, {"kind": "Robot", "name": "s"})
    )
    assert not authorizer.authorize(ask("list", "pods", who=UserInfo("system:serviceaccount::s"))).allowed


def test_paths_need_a_cluster_binding() -> None:
    authorizer = Authorizer()
    urls = {"rules": [{"nonResourceURLs": ["/healthz", "/logs/*"], "verbs": ["get"]}]}
    authorizer.apply_change("clusterroles", "", "c", urls)
    authorizer.apply_change("rolebindings", "ns", "b", binding("c", user("bob")))
    assert not authorizer.authorize(path_attributes(BOB, "get", "/healthz")).allowed
    authorizer.apply_change("clusterrolebindings", "", "b", binding("c", user("bob")))
    assert authorizer.authorize(path_attributes(BOB, "get", "/healthz")).allowed
    assert authorizer.authorize(path_attributes(BOB, "get", "/logs/x")).allowed
    assert not authorizer.authorize(path_attributes(BOB, "post", "/healthz")).allowed
    assert not authorizer.authorize(path_attributes(BOB, "get", "/metrics")).allowed


def test_system_masters_may_do_everything() -> None:
    master = UserInfo("x", groups=("system:masters",))
    decision = Authorizer().authorize(ask("delete", "nodes", who=master))
    assert (decision.allowed, decision.reason) == (True, "")
    assert Authorizer().authorize(path_attributes(master, "get", "/x")).allowed


def test_allow_all_allows_everyone() -> None:
    authorizer = Authorizer(allow_all=True)
    assert authorizer.authorize(ask("delete", "nodes", who=UserInfo("nobody"))).allowed
    authorizer.allow_all = False
    assert not authorizer.authorize(ask("delete", "nodes", who=UserInfo("nobody"))).allowed


def test_missing_roles_are_named_in_a_refusal_and_do_not_hide_others(authorizer: Authorizer) -> None:
    for name in ("x1", "x2"):
        authorizer.apply_change("clusterrolebindings", "", name, binding("nosuch", user("bob")))
    authorizer.apply_change("rolebindings", "ns", "x", binding("nosuch", user("bob"), kind="Role"))
    assert authorizer.authorize(ask("get", "pods", "ns")).allowed
    reason = authorizer.authorize(ask("get", "secrets", "ns")).reason
    assert reason == (
        'RBAC: [clusterrole.rbac.authorization.k8s.io "nosuch" not found, '
        'role.rbac.authorization.k8s.io "nosuch" not found]'
    )
    assert authorizer.authorize(ask("get", "secrets")).reason == (
        'RBAC: clusterrole.rbac.authorization.k8s.io "nosuch" not found'
    )
    message = authorizer.forbidden_error(ask("get", "secrets")).message
    assert message == (
        'secrets is forbidden: User "bob" cannot get resource "secrets" in API group "" '
        'at the cluster scope: RBAC: clusterrole.rbac.authorization.k8s.io "nosuch" not found'
    )


def test_check_raises_the_refusal(authorizer: Authorizer) -> None:
    authorizer.check(ask("get", "pods", "ns"))
    with pytest.raises(StatusError, match='cannot delete resource "pods"') as caught:
        authorizer.check(ask("delete", "pods", "ns"))
    assert caught.value.code == 403


def test_every_change_takes_effect_at_once(authorizer: Authorizer) -> None:
    question = ask("get", "pods", "ns")
    assert authorizer.authorize(question).allowed
    authorizer.apply_change("roles", "ns", "r", rules(("", "pods", "list")))
    assert not authorizer.authorize(question).allowed
    authorizer.apply_change("roles", "ns", "r", rules(("", "pods", "get")))
    assert authorizer.authorize(question).allowed
    authorizer.apply_change("rolebindings", "ns", "b", binding("r", user("alice"), kind="Role"))
    assert not authorizer.authorize(question).allowed
    authorizer.apply_change("rolebindings", "ns", "b", binding("r", group("devs"), kind="Role"))
    assert authorizer.authorize(question).allowed
    authorizer.apply_change("roles", "ns", "r", None)
    assert not authorizer.authorize(question).allowed
    authorizer.apply_change("rolebindings", "ns", "b", None)
    assert authorizer.authorize(question).reason == ""


def test_deleting_what_is_not_there_is_fine(authorizer: Authorizer) -> None:
    authorizer.apply_change("roles", "ns", "never", None)
    authorizer.apply_change("clusterrolebindings", "", "never", None)
    assert authorizer.authorize(ask("get", "pods", "ns")).allowed


def test_other_resources_are_refused(authorizer: Authorizer) -> None:
    with pytest.raises(ValueError, match="pods"):
        authorizer.apply_change("pods", "ns", "x", {})


def test_rules_of_a_user_are_cluster_wide_ones_first(authorizer: Authorizer) -> None:
    held = authorizer.rules_for(BOB, "ns")
    assert [rule.resources for rule in held.rules] == [("nodes",), ("pods", "pods/log"), ("configmaps",)]
    assert held.error == ""
    assert [rule.resources for rule in authorizer.rules_for(BOB, "").rules] == [("nodes",)]


def test_many_users_and_questions_do_not_pile_up(authorizer: Authorizer) -> None:
    for number in range(5000):
        authorizer.authorize(ask("get", f"r{number}", who=BOB))
        authorizer.authorize(ask("get", "pods", f"n{number}", who=BOB))
        authorizer.authorize(path_attributes(BOB, "get", f"/{number}"))
        authorizer.authorize(ask("get", "pods", who=UserInfo(f"u{number}")))
    assert len(authorizer._grants) <= 4096
    assert authorizer.authorize(ask("get", "pods", "ns")).allowed


NAMES = ["a", "b"]
NAMESPACES = ["ns1", "ns2"]


def _some(*words: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(words), max_size=2, unique=True)


rule_documents = st.fixed_dictionaries(
    {
        "verbs": _some("get", "list", "*"),
        "apiGroups": _some("", "apps", "*"),
        "resources": _some("pods", "pods/log", "*/log", "*"),
        "resourceNames": _some("x", "y"),
        "nonResourceURLs": _some("/a", "/a/*", "*"),
    }
)
role_documents = st.one_of(st.none(), st.fixed_dictionaries({"rules": st.lists(rule_documents, max_size=2)}))
subject_documents = st.one_of(
    st.sampled_from(["bob", "alice", "system:serviceaccount:ns1:s"]).map(user),
    st.sampled_from(["devs", "ops"]).map(group),
    st.sampled_from(
        [{"kind": "ServiceAccount", "name": "s"}, {"kind": "ServiceAccount", "name": "s", "namespace": "ns1"}]
    ),
)
binding_documents = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {
            "roleRef": st.fixed_dictionaries(
                {"kind": st.sampled_from(["Role", "ClusterRole"]), "name": st.sampled_from(NAMES)}
            ),
            "subjects": st.lists(subject_documents, max_size=2),
        }
    ),
)
changes = st.one_of(
    st.tuples(st.just("clusterroles"), st.just(""), st.sampled_from(NAMES), role_documents),
    st.tuples(st.just("clusterrolebindings"), st.just(""), st.sampled_from(NAMES), binding_documents),
    st.tuples(st.just("roles"), st.sampled_from(NAMESPACES), st.sampled_from(NAMES), role_documents),
    st.tuples(
        st.just("rolebindings"), st.sampled_from(NAMESPACES), st.sampled_from(NAMES), binding_documents
    ),
)
users = st.builds(
    UserInfo,
    name=st.sampled_from(["bob", "alice", "system:serviceaccount:ns1:s"]),
    groups=_some("devs", "ops").map(tuple),
)
questions = st.one_of(
    st.builds(
        AccessAttributes,
        user=users,
        verb=st.sampled_from(["get", "list", "create"]),
        group=st.sampled_from(["", "apps"]),
        resource=st.sampled_from(["pods", "nodes"]),
        subresource=st.sampled_from(["", "log"]),
        namespace=st.sampled_from(["", *NAMESPACES]),
        name=st.sampled_from(["", "x", "z"]),
    ),
    st.builds(path_attributes, user=users, verb=st.just("get"), path=st.sampled_from(["/a", "/a/b", "/c"])),
)


def _plainly_allowed(state: dict[tuple[str, str, str], Json], question: AccessAttributes) -> bool:
    for (resource, namespace, _), document in state.items():
        if not resource.endswith("bindings") or namespace not in ("", question.namespace):
            continue
        if not any(_plainly_applies(subject, namespace, question.user) for subject in document["subjects"]):
            continue
        reference = document["roleRef"]
        key = ("clusterroles", "", reference["name"])
        if reference["kind"] == "Role":
            key = ("roles", namespace, reference["name"])
        for rule in parse_rules(state.get(key, {}).get("rules")):
            if not rule.allows_verb(question.verb):
                continue
            if question.is_resource:
                asked = (question.group, question.resource, question.subresource)
                if rule.allows_resource(*asked) and rule.allows_name(question.name):
                    return True
            elif rule.allows_path(question.path):
                return True
    return False


def _plainly_applies(subject: Json, namespace: str, who: UserInfo) -> bool:
    if subject["kind"] == "User":
        return bool(subject["name"] == who.name)
    if subject["kind"] == "Group":
        return subject["name"] in who.groups
    account = f"system:serviceaccount:{subject.get('namespace') or namespace}:{subject['name']}"
    return bool(subject.get("namespace") or namespace) and account == who.name


@settings(max_examples=300)
@given(st.lists(st.one_of(changes, questions), max_size=30))
def test_answers_follow_the_rules_through_any_history(history: list[Any]) -> None:
    authorizer = Authorizer()
    state: dict[tuple[str, str, str], Json] = {}
    asked: list[AccessAttributes] = []
    for step in history:
        if isinstance(step, AccessAttributes):
            asked.append(step)
        else:
            resource, namespace, name, document = step
            authorizer.apply_change(resource, namespace, name, document)
            if document is None:
                state.pop((resource, namespace, name), None)
            else:
                state[resource, namespace, name] = document
        for question in asked[-3:]:  # again after every change: nothing stale may be answered
            assert authorizer.authorize(question).allowed is _plainly_allowed(state, question)
