#!/bin/sh
# Builds the real Kubernetes programs that the embedded server is compared with, once, into a cache
# outside the repository.
#
#   build.sh               kube-apiserver, kube-controller-manager, kube-scheduler, etcd and kubectl (one
#                          binary with links), the client-go test program and the peers of the benchmarks
#   build.sh conformance   also Kubernetes' own e2e suite (several minutes more)
#   build.sh suites        also controller-runtime's pkg/client and pkg/cache test suites
#
# A part whose sources are unchanged is not built again. Without Go it says so and succeeds: everything
# that needs these programs is optional and skips without them.
set -eu

version=$(sed -n 's/^\tk8s.io\/kubernetes //p' "$(dirname "$0")/go.mod")
minor=$(echo "$version" | cut -d. -f2)
controller_runtime=v0.24.1
controller_runtime_sum=h1:miPEwrmirImAvgME1L9qebGHrOnGJoVmVdtOU9fRfo4=
here=$(cd "$(dirname "$0")" && pwd)
cache=${QUARTERDECK_CACHE:-$HOME/.cache/quarterdeck}/kube/$version
package=k8s.io/component-base/version
ldflags="-s -w -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=$minor"

if ! command -v go >/dev/null 2>&1; then
    echo "kube: Go is not installed; skipping the build of the real Kubernetes programs"
    exit 0
fi

# The committed go.sum vouches for every module; the checksum service would only slow down the first build.
export CGO_ENABLED=0 GOFLAGS=-mod=readonly GOSUMDB=off

# The hash covers everything that decides what comes out.
sources=$(cd "$here" && cat go.mod go.sum build.sh main.go clientgo/*.go | sha256sum | cut -d' ' -f1)

# build NAME FUNCTION: run FUNCTION unless the stamp says that NAME is up to date.
build() {
    stamp=$cache/.$1.stamp
    if [ "$(cat "$stamp" 2>/dev/null)" = "$sources" ]; then
        echo "kube: $1 is up to date in $cache"
        return
    fi
    echo "kube: building $1 ..."
    started=$(date +%s)
    "$2"
    echo "$sources" >"$stamp"
    echo "kube: built $1 in $(($(date +%s) - started)) s"
}

programs() {
    (cd "$here" && go build -trimpath -ldflags "$ldflags" -o "$cache/kube.new" .)
    # Replaced in one step: the old file may be running.
    mv "$cache/kube.new" "$cache/kube"
    for name in kube-apiserver kube-controller-manager kube-scheduler etcd kubectl; do
        ln -sf kube "$cache/$name"
    done
}

clientgo() {
    (cd "$here" && go build -trimpath -ldflags "$ldflags" -o "$cache/clientgo.new" ./clientgo)
    mv "$cache/clientgo.new" "$cache/clientgo"
}

conformance() {
    (cd "$here" && go test -c -trimpath -ldflags "$ldflags" -o "$cache/e2e.test.new" k8s.io/kubernetes/test/e2e)
    mv "$cache/e2e.test.new" "$cache/e2e.test"
}

suites() {
    # Not a dependency of our module, so its checksum stands here and not in go.sum.
    download=$(cd / && go mod download -json "sigs.k8s.io/controller-runtime@$controller_runtime")
    case $download in
    *"$controller_runtime_sum"*) ;;
    *)
        echo "kube: controller-runtime $controller_runtime has an unexpected checksum" >&2
        exit 1
        ;;
    esac
    module=$(echo "$download" | sed -n 's/^[[:space:]]*"Dir": "\(.*\)",$/\1/p')
    mkdir -p "$cache/suites"
    for name in client cache; do
        (cd "$module" && go test -c -o "$cache/suites/$name.test.new" "./pkg/$name")
        mv "$cache/suites/$name.test.new" "$cache/suites/$name.test"
        # The suites read fixtures relative to their own folder and must be run there.
        ln -sfn "$module/pkg/$name" "$cache/suites/$name"
    done
}

for target in "$@"; do
    case $target in
    conformance | suites) ;;
    *)
        echo "kube: unknown target $target (there are conformance and suites)" >&2
        exit 2
        ;;
    esac
done
mkdir -p "$cache"
build programs programs
build clientgo clientgo
sh "$here/peers/build.sh"
for target in "$@"; do
    build "$target" "$target"
done
