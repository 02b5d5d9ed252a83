#!/bin/sh
# Runs a command in a fresh network namespace in which only loopback exists, so that nothing it starts
# can reach an address off the machine: netns.sh COMMAND [ARGUMENT ...]
# Needs root (or unprivileged user namespaces) and the tools unshare and ip.
set -eu

if [ $# -eq 0 ]; then
    echo "usage: netns.sh COMMAND [ARGUMENT ...]" >&2
    exit 2
fi
if [ "$(id -u)" -eq 0 ]; then
    set -- unshare --net -- sh -c 'ip link set lo up && exec "$@"' netns "$@"
else
    set -- unshare --net --map-root-user -- sh -c 'ip link set lo up && exec "$@"' netns "$@"
fi
exec "$@"
