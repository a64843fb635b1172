#!/usr/bin/env bash
# Makes the base images of the Containerfile if no image registry can be reached: Debian with
# debootstrap, and this machine's Rust on top. As root:
#   apt-get install buildah debootstrap
#   deploy/bases.sh target/bases
#   buildah build --isolation chroot -f deploy/Containerfile -t fathom .
set -euo pipefail
into=$(realpath -m "${1:?name a folder, such as target/bases}")
# Uses the mirror from which this machine was installed.
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' | awk '!/security/ && !seen++')}
[ -n "$mirror" ] || { echo "apt names no mirror of Debian: apt-get update, or set DEBIAN_MIRROR to the address of one"; exit 1; }

mkdir -p "$into"
if [ ! -e "$into/ready" ]; then
  rm -rf "$into/slim"
  debootstrap --variant=minbase --include ca-certificates bookworm "$into/slim" "$mirror"
  touch "$into/ready"
fi

slim=$(buildah from scratch)
buildah add --quiet "$slim" "$into/slim" /
buildah commit --quiet --rm "$slim" docker.io/library/debian:bookworm-slim

rust=$(buildah from docker.io/library/debian:bookworm-slim)
buildah run --isolation chroot "$rust" -- sh -c 'apt-get update && apt-get install -y --no-install-recommends gcc g++ libc6-dev make pkg-config'
for part in bin lib; do
  buildah add --quiet "$rust" "$(rustc --print sysroot)/$part" "/usr/local/rust/$part"
done
buildah config --env PATH=/usr/local/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$rust"
buildah commit --quiet --rm "$rust" docker.io/library/rust:1-bookworm
