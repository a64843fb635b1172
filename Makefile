# `make demo` builds Fathom and compares controllers; `make test` runs the tests. Both first install
# what is missing. CONTRIBUTING.md describes every target.
.PHONY: bbr rmcat demo test check setup uml readers backends sensitivity league lint format doc site deny fuzz bench test-quiche test-tokio-quiche test-packages test-packages-tokio-quiche test-packages-frameworks test-results semver msrv chromium soak interop h2load stock proxy judge-cross-check sweeps ns2 linux-tcp overload studies

CARGO ?= cargo
# A separate workspace in the same target directory, so that shared crates are built once.
TOKIO_QUICHE = --manifest-path cc/quiche/tokio/Cargo.toml --target-dir target --locked
# Modules that `cargo fmt` does not find, because a macro declares them.
IN_LISTS = $(wildcard cc/src/algorithms/*.rs cc/src/algorithms/*/*.rs bench/netsim/src/queue/*.rs bench/experiments/src/scenario/workload/*.rs)
# Cases per property in `make fuzz`; `make test` runs fewer.
FUZZ_CASES ?= 100000
# Tests that `make interop` runs in parallel.
JOBS ?= 6

# Builds the laboratory alone and prints a first table for one stack, then builds the whole program
# and compares all stacks.
demo: setup
	$(CARGO) run --release --locked -p fathom-experiments --features quiche --bin first-look
	$(CARGO) build --release --locked --features quiche
	target/release/fathom compare --stack all --seeds 3 --responses 2000 --report fathom.html

# Compiles nothing again that `make demo` has compiled (checked by tests/build.rs).
test: setup uml
	$(CARGO) test --release --workspace --features quiche --locked --no-fail-fast

# Runs the examples of docs/results.md with pandas, polars and R. Installs these first: in target/,
# or from Debian as root.
test-results: setup readers
	FATHOM_READERS="$(CURDIR)/target/readers/bin" \
	  $(CARGO) test --release --workspace --features quiche --locked --tests results::pandas -- --ignored

# Runs one plan on the three backends at full length. Needs a machine that does nothing else.
backends: setup uml
	$(CARGO) run --release --locked --features quiche -- compare bench/plans/backends.toml --backend all --report backends.html

# Checks that `fathom judge` finds controllers that are broken on purpose, and only these. Writes
# docs/judge-sensitivity.md. Stored scorecards are not made again; without any, it takes about 40
# min of CPU time.
sensitivity: setup
	$(CARGO) build --release --locked --features quiche --example broken
	bench/judge/cards.sh target/release/examples/broken sensitivity
	FATHOM_WRITE=1 $(CARGO) test --release --locked -p fathom-judge --features quiche --test judge-tests sensitivity::

# Judges the controllers of every stack, and ours on quinn. Writes docs/league.md. Stored
# scorecards are not made again; without any, it takes about 3 h of CPU time.
league: setup
	$(CARGO) build --release --locked --features quiche
	bench/judge/cards.sh target/release/fathom league
	FATHOM_WRITE=1 $(CARGO) test --release --locked -p fathom-judge --features quiche --test judge-tests stored::

# Judges the BBRs of all stacks by the test cases of the BBR draft. Writes bench/results/bbr and
# docs/bbr.md; takes about 2 min of CPU time.
bbr: setup
	$(CARGO) build --release --locked --features quiche
	bench/judge/cards.sh target/release/fathom bbr
	$(MAKE) studies STUDY=bbr

# Judges controllers for live media by the test cases of RFC 8867. Writes bench/results/rmcat and
# docs/rmcat.md; takes about 5 min of CPU time.
rmcat: setup
	$(CARGO) build --release --locked --features quiche
	bench/judge/cards.sh target/release/fathom rmcat
	FATHOM_WRITE=1 $(CARGO) test --release --locked -p fathom-judge --features quiche --test judge-tests rmcat_shows

# Compares the laboratory's TCP with ns-2 in the same scenario. Writes bench/results/ns2 and
# docs/ns2.md; takes about 45 min of CPU time. Needs ns-2, and Python 3.11 or newer.
ns2:
	python3 bench/ns2/run.py
	$(MAKE) setup
	$(CARGO) test --release --locked -p fathom-papers --test reference whole_plans_of_ns2 -- --ignored --nocapture
	FATHOM_WRITE=1 $(CARGO) test --release --locked -p fathom-papers --test reference

# Compares the laboratory's TCP with Linux's in the same scenario. Writes bench/results/linux and
# docs/linux-tcp.md; takes about 30 min, in which nothing else should use the processors. Needs
# User-Mode Linux, and Python 3.11 or newer.
linux-tcp: setup uml
	$(CARGO) test --release --locked -p fathom-papers --test reference linux_runs -- --ignored --nocapture
	$(CARGO) test --release --locked -p fathom-papers --test reference whole_plans_of_linux -- --ignored --nocapture
	FATHOM_WRITE=1 $(CARGO) test --release --locked -p fathom-papers --test reference

# Runs short QUIC connections at loads up to 105 %, with the stacks' own number of packets per probe
# timeout and with one. Writes bench/results/overload and docs/collapse.md; takes about 3 h of CPU
# time. Runs that exist in target/overload are not repeated. Needs Python 3.11 or newer.
overload: setup
	python3 bench/overload/stacks.py
	python3 bench/overload/run.py
	FATHOM_WRITE=1 $(CARGO) test --release --locked -p fathom-papers --test overload

# Runs the studies behind docs/bbr.md, docs/l4s.md, docs/media.md, docs/one-way-delay.md and
# docs/start-up.md, and writes these pages; takes about 80 min of CPU time. STUDY=start-up selects
# one.
studies: setup
	$(CARGO) test --release --locked --features quiche -p fathom-papers --test studies studies_run -- --ignored --nocapture
	FATHOM_WRITE=1 $(CARGO) test --release --locked --features quiche -p fathom-papers --test studies

# Runs a study on a real Slurm, against an S3 server and as a Kubernetes job (docs/sweeps.md). Needs
# root: installs Slurm, munge and Python packages.
sweeps: setup
	@command -v slurmctld >/dev/null && command -v munged >/dev/null || { apt-get update && \
	  apt-get install -y --no-install-recommends slurm-wlm slurm-wlm-basic-plugins munge; }
	$(CARGO) test --release --locked -p fathom-experiments --features quiche,object-store --lib store
	$(CARGO) build --release --locked --features quiche,object-store
	for of in slurm s3 k8s; do bench/plans/cluster/$$of.sh target/release/fathom target/sweeps/$$of || exit 1; done

# Runs stock quiche's unit tests on the derived crate, and checks that both crates send the same
# packets. `make test` includes these tests.
test-quiche: setup
	$(CARGO) test --release --locked -p quiche@0.30.1 --lib
	$(CARGO) test --release --workspace --features quiche --locked --test same_trace

# Tests unmodified tokio-quiche on the derived quiche. CI runs this; `make test` does not, because
# tokio-quiche's telemetry alone adds two hundred crates.
test-tokio-quiche: setup
	$(CARGO) test --release $(TOKIO_QUICHE)

# Builds servers from quinn's and noq's own examples with the packaged crates, in a separate
# workspace, with ring and with AWS-LC. `cargo package` includes uncommitted changes.
test-packages: setup
	$(CARGO) test --release --locked --features quiche --test fathom-tests -- --include-ignored --nocapture --test-threads 1 packages::crates packages::packaged

# Builds servers on frameworks that accept connections themselves with the packaged crates: salvo,
# and iroh, which adds three hundred crates.
test-packages-frameworks: setup
	$(CARGO) test --release --locked --features quiche --test fathom-tests -- --include-ignored --nocapture packages::frameworks

# Builds tokio-quiche's own server example with the derived quiche.
test-packages-tokio-quiche: setup
	$(CARGO) test --release $(TOKIO_QUICHE) --no-run
	$(CARGO) test --release --locked --features quiche --test fathom-tests -- --include-ignored --nocapture packages::tokio

# Builds the published crates with the oldest Rust that Cargo.toml names. Installs this Rust.
MSRV = $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
msrv: setup
	rustup toolchain install $(MSRV) --profile minimal --no-self-update
	cargo +$(MSRV) check --locked --target-dir target/msrv -p fathom-units -p fathom-cc -p fathom-frames -p fathom-netsim -p fathom-plugin -p fathom-quinn \
	  -p fathom-noq -p h3-noq --all-features

# Checks the published crates for breaking changes since the commit BASE, by default the newest
# release. Installs cargo-semver-checks in target/.
BASE ?= $(shell git describe --tags --abbrev=0 --match 'v*' 2>/dev/null)
semver: setup
	@test -n "$(BASE)" || { echo "there is no release yet; name a commit: make semver BASE=COMMIT"; exit 2; }
	@command -v cargo-semver-checks >/dev/null || test -x target/tools/bin/cargo-semver-checks \
	  || $(CARGO) install --locked --root target/tools cargo-semver-checks
	PATH="$$PATH:$(CURDIR)/target/tools/bin" $(CARGO) semver-checks --default-features --baseline-rev $(BASE) -p fathom-units -p fathom-cc -p fathom-frames -p fathom-netsim \
	  -p fathom-plugin -p fathom-quinn -p fathom-noq -p h3-noq

# Run this before you propose a change. CI (.ci/run) runs the same, and also test-results,
# test-packages, a short fuzz, and one comparison twice.
check: setup lint doc test test-tokio-quiche

# Uses the release profile, in which the outputs of build scripts already exist.
lint: setup
	$(CARGO) fmt --all --check
	rustfmt --edition 2024 --check $(IN_LISTS)
	$(CARGO) fmt --manifest-path cc/quiche/tokio/Cargo.toml --check
	$(CARGO) clippy --release --workspace --all-targets --features quiche,object-store --locked -- -D warnings

format: setup
	$(CARGO) fmt --all
	rustfmt --edition 2024 $(IN_LISTS)
	$(CARGO) fmt --manifest-path cc/quiche/tokio/Cargo.toml

doc: setup
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --release --workspace --features quiche --no-deps --locked

# Builds the documentation site in target/site/book: the pages and the API documentation. Installs
# mdBook in target/.
MDBOOK_VERSION = 0.5.4
site: doc
	@command -v mdbook >/dev/null || test -x target/mdbook/bin/mdbook \
	  || $(CARGO) install --locked --root target/mdbook --version $(MDBOOK_VERSION) --no-default-features --features search mdbook
	PATH="$$PATH:$(CURDIR)/target/mdbook/bin" docs/site/build.sh

# Checks licences, banned crates and sources, as `make test` also does (tests/dependencies.rs), and
# known vulnerabilities if the network has their list.
deny:
	@command -v cargo-deny >/dev/null || { echo "cargo-deny is missing: cargo install --locked cargo-deny"; exit 1; }
	cargo-deny check bans licenses sources
	cargo-deny check advisories

# Tests codec, frame walker, transport parameters, estimator and HTTP/3 with arbitrary input, and runs
# the tests of the plug-in and the controllers. The profile panics if a number overflows; release would
# wrap it.
fuzz: setup
	FATHOM_FUZZ_CASES=$(FUZZ_CASES) $(CARGO) test --profile checked --locked -p fathom-frames -p fathom-plugin -p fathom-cc -p fathom-http3

# Measures the cost of a controller per ACK frame, beside quinn's own controllers, and the cost of
# the timestamp frame in a bulk transfer.
bench: setup
	$(CARGO) bench --locked -p fathom-ack-cost
	$(CARGO) bench --locked -p fathom-experiments --bench frame_cost

# Chromium loads a page from `fathom serve` on quinn and noq; every part has to arrive over HTTP/3.
# Needs the network only to install Chromium.
chromium: setup
	@if ! command -v chromium-headless-shell >/dev/null && ! command -v chromium >/dev/null && ! command -v google-chrome >/dev/null; then \
	  if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	    apt-get update && { apt-get install -y --no-install-recommends chromium-headless-shell \
	      || apt-get install -y --no-install-recommends chromium; }; \
	  else echo "Chromium is missing: install chromium-headless-shell or chromium"; exit 1; fi; fi
	$(CARGO) test --release --workspace --features quiche --locked --test fathom-tests browser:: -- --ignored --nocapture

# Loads each stack for a minute over a path with every kind of fault, then attacks it for a minute.
# Prints the measurements.
soak: setup
	$(CARGO) test --release --workspace --features quiche --locked --test fathom-tests -- --ignored --nocapture --test-threads 1 soak:: attack:: attack_proxy::

# Tests our endpoints and other projects' against each other, in every test of the
# quic-interop-runner that needs no container (docs/interop.md). Installs the peers from their
# registries in target/peers. Tests mostly wait, so several run at once.
interop: setup
	$(CARGO) build --release --locked -p fathom-interop --features quiche
	target/release/fathom-interop --install --jobs $(JOBS) --json target/interop.json

# Compares `fathom load` with h2load. First builds h2load with HTTP/3 from Debian's sources: needs
# root and about 900 MB in target/.
h2load: setup
	$(CARGO) build --release --locked
	bench/http/beside/h2load.sh target/h2load
	python3 bench/http/beside/beside.py --fathom target/release/fathom --h2load target/h2load/h2load

# Compares the cost of `fathom serve` with that of the smallest server on the unmodified stack.
# Needs a quiet machine. The minimal servers get the optimisation that `fathom serve` has.
stock: setup
	$(CARGO) build --release --locked --features quiche
	$(CARGO) build --release --locked -p fathom-http --example stock_quinn --example stock_noq $(foreach \
	  package,fathom-http h3 h3-quinn h3-noq,--config profile.release.package.$(package).codegen-units=1)
	$(CARGO) build --release --locked -p fathom-quiche-stock --example stock_quiche \
	  --config profile.release.package.fathom-quiche-stock.opt-level=3
	for stack in quinn noq quiche; do python3 bench/http/beside/stock.py --fathom target/release/fathom \
	  --stock target/release/examples/stock_$$stack --stack $$stack || exit 1; done

# Tests `fathom serve` in front of nginx and a Python application: correct bytes, certificates
# replaced under load, Chromium over TCP and HTTP/3. Compares its requests per second with Caddy's
# HTTP/3 proxy. Needs root: installs these programs.
proxy: setup
	@for program in nginx:nginx-light caddy:caddy certutil:libnss3-tools chromium:chromium openssl:openssl curl:curl; do \
	  command -v $${program%%:*} >/dev/null || apt-get install -y --no-install-recommends $${program##*:} || exit 1; done
	$(CARGO) build --release --locked --features quiche
	python3 bench/http/beside/site.py --fathom target/release/fathom

# Compares `fathom judge` in virtual time with the kernel's queues and with other projects' servers
# (docs/judge-evidence.md). Needs root, and 1.5 h on a machine that does nothing else.
judge-cross-check: setup uml
	$(CARGO) build --release --locked --features quiche
	python3 bench/judge/beside/cross_check.py
	interop/peers/quic-go/install && interop/peers/ngtcp2/install
	python3 bench/judge/beside/foreign.py

# ring's assembly needs a C compiler; quiche's BoringSSL needs C++, CMake and libclang's headers. As
# root on Debian and Ubuntu, this target installs them; elsewhere it says what to install. `cargo
# fetch` also downloads the sources from which the derived quiche is made.
setup:
	@command -v $(CARGO) >/dev/null || { echo "cargo is missing: install Rust 1.89 or newer (rustup.rs)"; exit 1; }
	@if ! command -v cc >/dev/null || ! command -v c++ >/dev/null || ! command -v cmake >/dev/null \
	    || ! ls /usr/lib/llvm-*/lib/clang/*/include/stddef.h /usr/lib/clang/*/include/stddef.h >/dev/null 2>&1; then \
	  if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	    apt-get update && apt-get install -y --no-install-recommends gcc g++ libc6-dev make cmake libclang-dev; \
	  elif ! command -v cc >/dev/null || ! command -v c++ >/dev/null || ! command -v cmake >/dev/null; then \
	    echo "a C/C++ compiler or CMake is missing: install gcc, g++, cmake and libclang-dev (or their like)"; exit 1; \
	  else echo "found no libclang: if the build fails at bindgen, install libclang-dev (or its like)"; fi; fi
	@$(CARGO) fetch --locked --quiet || $(CARGO) fetch --locked

# Installs pandas, polars and R for `make test-results`.
readers:
	@if ! target/readers/bin/python3 -c 'import pandas, polars, pyarrow' 2>/dev/null; then \
	  if ! python3 -m venv --help >/dev/null 2>&1 && command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	    apt-get update && apt-get install -y --no-install-recommends python3-venv; fi; \
	  mkdir -p target && python3 -m venv target/readers \
	    && target/readers/bin/python3 -m pip install --quiet --disable-pip-version-check pandas polars pyarrow; fi
	@if ! command -v Rscript >/dev/null && command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  apt-get install -y --no-install-recommends r-base-core; fi

# Installs User-Mode Linux: a kernel with tc's queues that runs as a program, for the netem
# backend's tests.
uml:
	@if ! command -v linux.uml >/dev/null || ! command -v insmod >/dev/null || ! command -v ip >/dev/null; then \
	  if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	    apt-get update && apt-get install -y --no-install-recommends user-mode-linux kmod iproute2; \
	  else echo "User-Mode Linux is missing: install user-mode-linux, kmod and iproute2"; exit 1; fi; fi
