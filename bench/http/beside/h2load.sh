#!/usr/bin/env bash
# Builds h2load with HTTP/3. Debian's own has none (bookworm, trixie and sid: its nghttp2-client is not linked with ngtcp2), but sid has its
# sources and every library it needs: so a small sid is put into a folder, and h2load is built there from Debian's sources.
# Usage: h2load.sh FOLDER. Writes FOLDER/h2load, which runs anywhere on this machine. Root and some 900 MB of disk.
set -euo pipefail

into=$(realpath -m "${1:?name a folder, such as target/h2load}")
root=$into/sid
# From where this machine has its own Debian.
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' | awk '!/security/ && !seen++')}
[ -n "$mirror" ] || { echo "apt names no mirror of Debian: apt-get update, or set DEBIAN_MIRROR to the address of one"; exit 1; }

if [ ! -x "$into/h2load" ]; then
  [ "$(id -u)" = 0 ] || { echo "h2load with HTTP/3 is built in a Debian sid of its own, which wants root"; exit 1; }
  command -v debootstrap >/dev/null || { apt-get update && apt-get install -y --no-install-recommends debootstrap; }
  mkdir -p "$into"
  if [ ! -e "$root/ready" ]; then
    needs=g++,make,pkgconf,dpkg-dev,zlib1g-dev,libev-dev,libc-ares-dev,libssl-dev,libnghttp3-dev,libngtcp2-dev,libngtcp2-crypto-ossl-dev
    rm -rf "$root"
    debootstrap --variant=minbase sid "$root" "$mirror"
    echo "deb-src $mirror sid main" >>"$root/etc/apt/sources.list"
    # A mirror may lag behind; what it holds is signed all the same.
    echo 'Acquire::Check-Valid-Until "false";' >"$root/etc/apt/apt.conf.d/90lag"
    chroot "$root" apt-get update
    chroot "$root" apt-get install -y --no-install-recommends ${needs//,/ }
    touch "$root/ready"
  fi
  chroot "$root" bash -euc '
    mkdir -p /build && cd /build
    # The upstream sources as Debian has them, without its patches; apt checks them against the signed index.
    apt-get source --tar-only --only-source nghttp2
    mkdir -p nghttp2
    tar -xzf nghttp2_*.orig.tar.gz -C nghttp2 --strip-components=1
    cd nghttp2
    ./configure --quiet --enable-app --enable-http3 --disable-shared --disable-examples --disable-hpack-tools \
      --disable-python-bindings --without-jansson --without-jemalloc --without-libxml2 --without-systemd --without-mruby
    make -s -j"$(nproc)" -C lib
    make -s -j"$(nproc)" -C third-party
    make -s -j"$(nproc)" -C src h2load'
  # With its own libraries, as those of this machine may be older.
  cat >"$into/h2load" <<RUN
#!/bin/sh
exec "$root/usr/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu" "$root/build/nghttp2/src/h2load" "\$@"
RUN
  chmod +x "$into/h2load"
fi
"$into/h2load" --version
