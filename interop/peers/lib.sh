# Sourced by every peer's `install` and `run`: the peer's directory, its installation directory, and helpers.
# shellcheck shell=sh

peer=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
name=${peer##*/}
peers=${FATHOM_PEERS:-$peer/../../../target/peers}
case $peers in
    /*) home=$peers/$name ;;
    *) home=$PWD/$peers/$name ;;
esac
# Python must not write into the source directory.
export PYTHONDONTWRITEBYTECODE=1

# refuse WHY: prints the reason as the last line and exits with 127 (unsupported).
refuse() {
    echo "$name: $*"
    exit 127
}

# Checksum of the files that an installation depends on. If they change, the peer is installed again.
made_from() {
    find "$peer" -type f ! -name peer.toml ! -name run ! -name '*.py' -exec cksum {} + | cut -d ' ' -f 1,2 | LC_ALL=C sort | cksum
}

# Ends `install` at once if the peer is already installed.
unless_installed() {
    if [ -f "$home/VERSION" ] && [ "$(made_from)" = "$(cat "$home/made-from" 2>/dev/null)" ]; then
        cat "$home/VERSION"
        exit 0
    fi
    # Keep compiled files, so that the next installation is faster.
    mkdir -p -- "$home"
    rm -rf -- "$home/VERSION" "$home/venv" "$home/root"
}

# The last step of `install`.
installed() {
    made_from > "$home/made-from"
    echo "$1" > "$home/VERSION"
    cat "$home/VERSION"
}

# The first step of `run`.
must_be_installed() {
    [ -f "$home/VERSION" ] || refuse "not installed: run $peer/install"
}

# wants COMMAND PACKAGE: refuses if a required tool is missing.
wants() {
    command -v "$1" >/dev/null 2>&1 || refuse "wants $1 ($2)"
}

# debian PACKAGE...: unpacks Debian packages and their missing dependencies below $home/root. Needs no root and does not change the system.
debian() {
    wants apt-get "Debian or one of its kind"
    wants dpkg-deb "Debian or one of its kind"
    mkdir -p -- "$home/archives/partial"
    apt-get install --yes --download-only --no-install-recommends --reinstall -o Debug::NoLocking=1 \
        -o Dir::Cache::archives="$home/archives" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
        "$@" > "$home/apt.log" 2>&1 || refuse "apt-get has no $* (as root: apt-get update): $(tail -n 1 "$home/apt.log")"
    for archive in "$home"/archives/*.deb; do
        [ -f "$archive" ] || refuse "apt-get downloaded nothing for $*"
        dpkg-deb --extract "$archive" "$home/root" || refuse "dpkg-deb cannot unpack ${archive##*/}"
    done
    for archive in "$home"/archives/*.deb; do
        dpkg-deb --field "$archive" Package Version
        echo
    done > "$home/root/packages"
    rm -r -- "$home/archives"
}

# Library path of those packages.
debian_libraries() {
    find "$home/root" -name '*.so*' -exec dirname {} \; | sort -u | paste -s -d : -
}

# python MINOR: sets $python to a Python of at least 3.MINOR.
python() {
    for python in python3 python3.14 python3.13 python3.12 python3.11 "$HOME"/.pyenv/versions/3.*/bin/python; do
        if "$python" -c "import sys, venv; sys.exit(sys.version_info < (3, $1))" 2>/dev/null; then return; fi
    done
    refuse "wants Python 3.$1 or newer, with venv"
}

# venv MINOR: creates a virtual environment with the peer's requirements.txt. Only wheels with known hashes are installed, and nothing is
# compiled. To update versions: uv pip compile --universal --generate-hashes --no-header --no-annotate.
venv() {
    python "$1"
    "$python" -m venv "$home/venv" > "$home/pip.log" 2>&1 || refuse "$python makes no virtual environment: $(tail -n 1 "$home/pip.log")"
    "$home/venv/bin/python" -m pip install --quiet --only-binary :all: --require-hashes -r "$peer/requirements.txt" >> "$home/pip.log" 2>&1 \
        || refuse "pip cannot install $peer/requirements.txt: $(grep ERROR "$home/pip.log" | tail -n 1)"
}

# until_sigterm COMMAND...: runs a server; on SIGTERM exits with 0, as the contract requires, whatever the server's exit code.
until_sigterm() {
    "$@" &
    server=$!
    trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; exit 0' TERM INT
    wait "$server"
}

# The port of the first URL of REQUESTS.
first_port() {
    port=${REQUESTS#*://}
    port=${port%%/*}
    case $port in
        *:*) echo "${port##*:}" ;;
        *) echo 443 ;;
    esac
}

# Whether every URL of REQUESTS was downloaded.
downloaded() {
    for url in $REQUESTS; do
        [ -f "${DOWNLOADS:-/downloads}/${url##*/}" ] || { echo "$name: no response: $url"; return 1; }
    done
}

# rust VERSION: requires this Rust version or newer.
rust() {
    wants cargo "Rust $1 or newer"
    found=$(rustc --version | cut -d ' ' -f 2)
    [ "$(printf '%s\n' "$1" "$found" | sort -V | head -n 1)" = "$1" ] || refuse "wants Rust $1 or newer: this is $found"
}

# Builds the peer's own package, outside the workspace, in its own target directory.
cargo_build() {
    CARGO_TARGET_DIR=$home/target cargo build --manifest-path "$peer/Cargo.toml" --locked --jobs "${FATHOM_PEERS_JOBS:-1}" \
        > "$home/cargo.log" 2>&1 || refuse "cargo build: $(grep -m 1 '^error' "$home/cargo.log" || tail -n 1 "$home/cargo.log")"
}
