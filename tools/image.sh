#!/bin/sh
# Builds the image with buildah, as an OCI archive in dist/image.tar, and prints its size.
#
#   tools/image.sh                    on the base that the Containerfile names
#   BASE=debootstrap tools/image.sh   on a base made here from Debian's packages, where no registry can be reached (root)
#
# Further words are options of `buildah build`, such as --platform linux/amd64,linux/arm64.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' "$here/src/quarterdeck/__init__.py")
name=quarterdeck:$version

made_base() {
    root=$(mktemp -d)
    trap 'rm -rf "$root"' EXIT
    debootstrap --variant=minbase trixie "$root" http://deb.debian.org/debian >&2
    rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root"/usr/share/doc "$root"/usr/share/locale "$root"/usr/share/man
    container=$(buildah from scratch)
    buildah copy --quiet "$container" "$root" / >&2
    buildah commit --quiet --rm "$container" localhost/debian:trixie-slim >&2
    echo localhost/debian:trixie-slim
}

base=${BASE:-}
[ "$base" = debootstrap ] && base=$(made_base)
mkdir -p "$here/dist"
buildah build ${base:+--build-arg "BASE=$base"} --tag "localhost/$name" "$@" "$here"
rm -f "$here/dist/image.tar"
buildah push --quiet "localhost/$name" "oci-archive:$here/dist/image.tar:$name"
echo "$name: $(buildah images --format "{{.Size}}" "localhost/$name"), packed $(($(stat -c %s "$here/dist/image.tar") / 1000000)) MB in dist/image.tar"
