"""Names of a pod: its hostname, its hosts file, its resolver. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from quarterdeck.api.k8s import EndpointSlice, Pod, Service

DOMAIN: Final = "cluster.local"
_HOSTNAME_LIMIT: Final = 63


def hostname(pod: Pod) -> str:
    """What the pod calls itself."""
    if isinstance(pod.spec.hostname_override, str):
        return pod.spec.hostname_override[:64]
    name = pod.spec.hostname or pod.metadata.name
    return name[:_HOSTNAME_LIMIT].rstrip("-.")


def fqdn(pod: Pod) -> str:
    """The whole name of a pod with a subdomain; empty for others."""
    if not pod.spec.subdomain:
        return ""
    return f"{hostname(pod)}.{pod.spec.subdomain}.{pod.metadata.namespace}.svc.{DOMAIN}"


def system_name(pod: Pod) -> str:
    """What the pod's machine is called, as its programs see it."""
    return (fqdn(pod) if pod.spec.set_hostname_as_fqdn is True else "") or hostname(pod)


def namespace_names(
    services: Iterable[Service],
    slices: Iterable[EndpointSlice],
    addresses: Mapping[tuple[str, str], str],
) -> list[tuple[str, str, str]]:
    """Address, name and namespace for everything that can be found by name.

    Headless Services give the names of their pods, and their own for the first of them; others that of the
    address at which the node serves them.
    """
    made: list[tuple[str, str, str]] = []
    headless = {
        (each.metadata.namespace, each.metadata.name): each
        for each in services
        if each.spec.cluster_ip == "None"
    }
    for (namespace, name), address in sorted(addresses.items()):
        made.append((address, name, namespace))
    own: dict[tuple[str, str], str] = {}
    for each in slices:
        service = each.metadata.labels.get("kubernetes.io/service-name", "")
        namespace = each.metadata.namespace
        found = headless.get((namespace, service))
        if found is None:
            continue
        for endpoint in each.endpoints:
            is_ready = (
                endpoint.conditions.ready is not False or found.spec.publish_not_ready_addresses is True
            )
            if not endpoint.addresses or not is_ready:
                continue
            address = endpoint.addresses[0]
            own.setdefault((namespace, service), address)
            if isinstance(endpoint.hostname, str) and endpoint.hostname:
                made.append((address, f"{endpoint.hostname}.{service}", namespace))
    made += [(address, name, namespace) for (namespace, name), address in sorted(own.items())]
    return made


def hosts_file(pod: Pod, ip: str, names: Iterable[tuple[str, str, str]]) -> bytes:
    """The pod's ``/etc/hosts``; short names are those of its own namespace."""
    tab = "\t"
    name, namespace = hostname(pod), pod.metadata.namespace
    subdomain = pod.spec.subdomain
    me = " ".join((*_forms(f"{name}.{subdomain}", namespace, namespace), name)) if subdomain else name
    lines = [
        f"# Kubernetes-managed hosts file{' (host network)' if pod.spec.host_network is True else ''}.",
        "127.0.0.1\tlocalhost",
        "::1\tlocalhost ip6-localhost ip6-loopback",
    ]
    if ip:
        lines.append(f"{ip}\t{me}")
    for address, name, namespace in names:
        lines.append(f"{address}\t{' '.join(_forms(name, namespace, pod.metadata.namespace))}")
    if pod.spec.host_aliases:
        lines += ["", "# Entries added by HostAliases."]
        lines += [f"{alias.ip}\t{tab.join(alias.hostnames)}" for alias in pod.spec.host_aliases]
    return ("\n".join(lines) + "\n").encode()


def _forms(name: str, namespace: str, own: str) -> list[str]:
    """How a name of a namespace may be written in the namespace ``own``."""
    forms = [f"{name}.{namespace}.svc.{DOMAIN}", f"{name}.{namespace}.svc", f"{name}.{namespace}"]
    return [*forms, name] if namespace == own else forms


def resolver_file(pod: Pod, resolver: str = "") -> bytes:
    """The pod's ``/etc/resolv.conf``; without a resolver everything that has a name is in its hosts file."""
    namespace = pod.metadata.namespace
    searches = [f"{namespace}.svc.{DOMAIN}", f"svc.{DOMAIN}", DOMAIN]
    options = ["ndots:5"]
    servers = [resolver] if resolver and pod.spec.dns_policy != "None" else []
    config = pod.spec.dns_config
    if pod.spec.dns_policy == "None":
        searches, options = [], []
    if config:
        servers += config.nameservers
        searches += config.searches
        options += [
            f"{each.name}:{each.value}" if isinstance(each.value, str) else each.name
            for each in config.options
        ]
    lines = [f"nameserver {server}" for server in servers]
    if searches:
        lines.append(f"search {' '.join(searches)}")
    if options:
        lines.append(f"options {' '.join(options)}")
    return ("\n".join(lines) + "\n").encode()
