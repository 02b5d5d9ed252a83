"""The scripts that set up Flux in the pods of a TrainJob.

``init.sh`` runs in the image that has Flux and copies it to a volume, with the settings of the cluster.
``entrypoint.sh`` runs in the image of the training: it completes the set-up and joins the cluster; the first
pod starts the training in it.
"""

from __future__ import annotations

from typing import Final

import msgspec

_INIT: Final = """\
#!/bin/bash
# Copies Flux and its settings to the volume that the training mounts.
set -eu
target=/mnt/flux
settings=$target/config
mkdir -p "$target/view" "$settings/etc/curve" "$settings/etc/flux/config" \\
    "$settings/etc/flux/system/cron.d" "$settings/run/flux" "$settings/var/lib/flux"
printf '%s\\n' '@HOSTS@' > "$settings/etc/flux/system/hostlist"
cat > "$settings/etc/flux/config/broker.toml" <<'BROKER'
@BROKER@
BROKER
# What Flux is linked against has its full path under /opt/software.
cp -R /opt/views/._view/*/. "$target/view"
cp -R /opt/software "$target/"
"""

_BROKER: Final = """\
[access]
allow-guest-user = true
allow-root-owner = true

[resource]
path = "/mnt/flux/config/etc/flux/system/R"

[bootstrap]
curve_cert = "/mnt/flux/config/etc/curve/curve.cert"
default_port = 8050
default_bind = "tcp://@DEVICE@:%p"
default_connect = "tcp://%h.@DOMAIN@:%p"
hosts = [{ host = "@HOSTS@" }]

[archive]
dbpath = "/mnt/flux/config/var/lib/flux/job-archive.sqlite"
period = "1m"
busytimeout = "50s"

[sched-fluxion-qmanager]
queue-policy = "@QUEUE@"
"""

_ENTRYPOINT: Final = """\
#!/bin/bash
# Joins the Flux cluster of the TrainJob; its first argument is what the first pod runs there.
root=/mnt/flux
view=$root/view
settings=$root/config
cp -R "$root/software/." /opt/software/
python=$(find "$view/lib" -maxdepth 1 -type d -name 'python3*' | head -n 1)
if [ -x "$view/bin/$(basename "$python")" ]; then
    ln -sfn "$view/bin/$(basename "$python")" "$view/bin/python3"
fi
# Behind what the image of the training has, so that its own Python wins.
export PATH="$PATH:$view/bin"
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$python/site-packages"
export FLUX_RC_EXTRA=$view/etc/flux/rc1.d
export FLUX_OUTPUT_DIR=/tmp/fluxout
mkdir -p "$FLUX_OUTPUT_DIR" "$settings/var/lib/flux"
install -m 0600 /curve/curve.cert "$settings/etc/curve/curve.cert"
hosts=$(cat "$settings/etc/flux/system/hostlist")
flux R encode --hosts="$hosts" @RESOURCES@ > "$settings/etc/flux/system/R"
broker() {
    flux broker --config-path="$settings/etc/flux/config" \\
        -Scron.directory="$settings/etc/flux/system/cron.d" \\
        -Srundir="$settings/run/flux" -Sstatedir="$settings/var/lib/flux" \\
        -Slocal-uri="local://$settings/run/flux/local" \\
        -Stbon.fanout=256 -Slog-stderr-level=0 -Slog-stderr-mode=local "$@"
}
if [ "$(hostname)" = '@FIRST@' ]; then
    eval "set -- $1"
    if [ $# -eq 0 ]; then
        broker
    else
        broker flux run @FLAGS@ "$@"
    fi
    exit $?
fi
# The first pod may come later than this one.
until broker; do
    sleep 15
done
"""


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """What the scripts have to know."""

    hosts: str
    """The host names without their numbers."""
    domain: str
    nodes: int
    processes: int
    """On each node."""
    gpus: int
    """On each node."""
    device: str
    """The network that the pods reach each other by."""
    queue_policy: str

    @property
    def host_list(self) -> str:
        """All hosts, as Flux writes them."""
        return f"{self.hosts}[{_range(self.nodes)}]"


def init_script(cluster: Cluster) -> str:
    """For the init container."""
    broker = _fill(
        _BROKER,
        DEVICE=cluster.device,
        DOMAIN=cluster.domain,
        HOSTS=cluster.host_list,
        QUEUE=cluster.queue_policy,
    )
    return _fill(_INIT, HOSTS=cluster.host_list, BROKER=broker.rstrip("\n"))


def entrypoint_script(cluster: Cluster) -> str:
    """For the container that trains."""
    resources = f"--cores={_range(cluster.processes)}"
    flags = f"-N {cluster.nodes} -n {cluster.nodes * cluster.processes}"
    if cluster.gpus > 0:
        resources += f" --gpu={_range(cluster.gpus)}"
        flags += f" -g {max(1, cluster.gpus // cluster.processes)}"  # for each process
    return _fill(_ENTRYPOINT, RESOURCES=resources, FIRST=f"{cluster.hosts}0", FLAGS=flags)


def _fill(text: str, **values: str) -> str:
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def _range(count: int) -> str:
    """The first numbers.

    >>> _range(1), _range(4)
    ('0', '0-3')
    """
    return "0" if count == 1 else f"0-{count - 1}"
