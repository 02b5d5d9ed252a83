"""Variables by which pods find each other."""

from __future__ import annotations

from collections.abc import Sequence

from quarterdeck.api.k8s import Container, EnvVar, EnvVarSource, ObjectFieldSelector, PodSpec
from quarterdeck.operators.grove import names

from . import naming


def pod_variables(pcs: str, replica: int, clique: str, namespace: str) -> list[EnvVar]:
    """For every pod; ``clique`` is the full name."""
    return [
        EnvVar(name="GROVE_PCS_NAME", value=pcs),
        EnvVar(name="GROVE_PCS_INDEX", value=str(replica)),
        EnvVar(name="GROVE_PCLQ_NAME", value=clique),
        EnvVar(name="GROVE_HEADLESS_SERVICE", value=naming.headless_address(pcs, replica, namespace)),
        _of_label("GROVE_PCLQ_POD_INDEX", names.POD_INDEX),
    ]


def group_variables(template_pods: int) -> list[EnvVar]:
    """For pods of a scaling group; ``template_pods`` is what one replica of it has."""
    return [
        _of_label("GROVE_PCSG_NAME", names.SCALING_GROUP),
        EnvVar(name="GROVE_PCSG_TEMPLATE_NUM_PODS", value=str(template_pods)),
        _of_label("GROVE_PCSG_INDEX", names.SCALING_GROUP_INDEX),
    ]


def _of_label(name: str, label: str) -> EnvVar:
    # the version is what the server would fill in: leaving it out would look like a change
    selector = ObjectFieldSelector(api_version="v1", field_path=f"metadata.labels['{label}']")
    return EnvVar(name=name, value_from=EnvVarSource(field_ref=selector))


def with_variables(pods: PodSpec, variables: Sequence[EnvVar]) -> PodSpec:
    """A pod spec with variables before those of each container; of the same name there is one."""
    return pods.evolve(
        containers=tuple(_extended(each, variables) for each in pods.containers),
        init_containers=tuple(_extended(each, variables) for each in pods.init_containers),
    )


def _extended(container: Container, variables: Sequence[EnvVar]) -> Container:
    ours = {variable.name for variable in variables}
    return container.evolve(env=(*variables, *(each for each in container.env if each.name not in ours)))
