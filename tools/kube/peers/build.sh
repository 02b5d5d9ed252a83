#!/bin/sh
# Builds the Go programs our benchmarks are compared with, on controller-runtime, once, into the cache that
# tools/kube/build.sh uses. One folder is one program; a folder whose sources are unchanged is not built again.
# Without Go it says so and succeeds: benchmarks then print our figures only.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
version=$(sed -n 's/^\tk8s.io\/kubernetes //p' "$here/../go.mod")
cache=${QUARTERDECK_CACHE:-$HOME/.cache/quarterdeck}/kube/$version/peers

if ! command -v go >/dev/null 2>&1; then
    echo "peers: Go is not installed; skipping the build of the peers"
    exit 0
fi

# The committed go.sum vouches for every module; the checksum service would only slow down the first build.
export CGO_ENABLED=0 GOFLAGS=-mod=readonly GOSUMDB=off

mkdir -p "$cache"
for folder in "$here"/*/; do
    name=$(basename "$folder")
    stamp=$cache/.$name.stamp
    sources=$(cd "$here" && cat go.mod go.sum build.sh "$name"/*.go | sha256sum | cut -d' ' -f1)
    if [ "$(cat "$stamp" 2>/dev/null)" = "$sources" ]; then
        echo "peers: $name is up to date in $cache"
        continue
    fi
    echo "peers: building $name ..."
    (cd "$here" && go build -trimpath -ldflags "-s -w" -o "$cache/$name.new" "./$name")
    # Replaced in one step: the old file may be running.
    mv "$cache/$name.new" "$cache/$name"
    echo "$sources" >"$stamp"
done
