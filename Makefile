# Two commands do everything: `make demo` runs the main job, `make test` passes the tests. Both install what is missing first.
.PHONY: demo test check setup uml readers backends sensitivity league lint format doc site deny fuzz bench test-quiche test-tokio-quiche test-packages test-packages-tokio-quiche test-packages-frameworks test-results semver msrv chromium soak interop h2load stock proxy judge-cross-check sweeps

CARGO ?= cargo
# A workspace of its own; in the same target directory, what both need is built once.
TOKIO_QUICHE = --manifest-path cc/quiche/tokio/Cargo.toml --target-dir target --locked
# Modules that a macro declares: `cargo fmt` does not see them.
IN_LISTS = $(wildcard cc/src/algorithms/*.rs cc/src/algorithms/*/*.rs bench/netsim/src/queue/*.rs)
# Cases per fuzz property; `make fuzz` runs long, the tests run few.
FUZZ_CASES ?= 100000
# Cells of `make interop` at once.
JOBS ?= 6

# The first table comes of the laboratory alone, on one stack; then the whole program is built, and compares all stacks.
demo: setup
	$(CARGO) run --release --locked -p fathom-experiments --features quiche --bin first-look
	$(CARGO) build --release --locked --features quiche
	target/release/fathom compare --stack all --seeds 3 --responses 2000 --report fathom.html

# Compiles nothing that `make demo` has compiled (tests/build.rs compares).
test: setup uml
	$(CARGO) test --release --workspace --features quiche --locked --no-fail-fast

# What docs/results.md shows of pandas, polars and R is run with them: installs them first, below target/ or, as root, from Debian.
test-results: setup readers
	FATHOM_READERS="$(CURDIR)/target/readers/bin" \
	  $(CARGO) test --release --workspace --features quiche --locked --test fathom-tests results::programs -- --ignored

# The same plan on the three backends, at full length: run it on a machine that does nothing else.
backends: setup uml
	$(CARGO) run --release --locked --features quiche -- compare bench/plans/backends.toml --backend all --report backends.html

# Does the battery find controllers that are broken on purpose, and only those? Writes docs/judge-sensitivity.md; some twenty minutes of CPU time.
sensitivity: setup
	FATHOM_WRITE=1 $(CARGO) test --release --locked -p fathom-judge --test judge-tests sensitivity:: -- --ignored --nocapture

# docs/league.md: controllers of every stack, and ours on quinn, judged. Stored runs are not repeated; an hour of CPU time without any.
league: setup
	$(CARGO) build --release --locked --features quiche
	bench/judge/league.sh target/release/fathom

# A study on a real Slurm, in an S3 server, and as a job of Kubernetes (docs/sweeps.md). As root: installs Slurm, munge and Python packages.
sweeps: setup
	@command -v slurmctld >/dev/null && command -v munged >/dev/null || { apt-get update && \
	  apt-get install -y --no-install-recommends slurm-wlm slurm-wlm-basic-plugins munge; }
	$(CARGO) test --release --locked -p fathom-experiments --features quiche,object-store --lib store
	$(CARGO) build --release --locked --features quiche,object-store
	for of in slurm s3 k8s; do bench/plans/cluster/$$of.sh target/release/fathom target/sweeps/$$of || exit 1; done

# Stock quiche's unit tests on the derived crate, and that both crates send the same packets. `make test` runs these too.
test-quiche: setup
	$(CARGO) test --release --locked -p quiche@0.30.1 --lib
	$(CARGO) test --release --workspace --features quiche --locked --test same_trace

# tokio-quiche, unmodified, on the derived quiche: its telemetry alone is two hundred crates, so `make test` does without and CI does not.
test-tokio-quiche: setup
	$(CARGO) test --release $(TOKIO_QUICHE)

# The crates as packaged, in a workspace of somebody else: servers of quinn's and noq's own examples adopt them, with ring and with AWS-LC. `cargo package` takes what is committed or not.
test-packages: setup
	$(CARGO) test --release --locked --features quiche --test fathom-tests -- --include-ignored --nocapture --test-threads 1 packages::crates packages::packaged

# Frameworks that accept connections themselves, on the packaged crates: salvo, and iroh, which brings three hundred crates.
test-packages-frameworks: setup
	$(CARGO) test --release --locked --features quiche --test fathom-tests -- --include-ignored --nocapture packages::frameworks

# The same of tokio-quiche's own server, on the derived quiche.
test-packages-tokio-quiche: setup
	$(CARGO) test --release $(TOKIO_QUICHE) --no-run
	$(CARGO) test --release --locked --features quiche --test fathom-tests -- --include-ignored --nocapture packages::tokio

# What is published compiles with the oldest Rust that it names. Installs that one.
MSRV = $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
msrv: setup
	rustup toolchain install $(MSRV) --profile minimal --no-self-update
	cargo +$(MSRV) check --locked --target-dir target/msrv -p fathom-units -p fathom-cc -p fathom-frames -p fathom-netsim -p fathom-plugin -p fathom-quinn \
	  -p fathom-noq -p h3-noq --all-features

# Do the published crates keep what they promised? Against the commit BASE, by default the newest release's. Installs cargo-semver-checks below target/.
BASE ?= $(shell git describe --tags --abbrev=0 --match 'v*' 2>/dev/null)
semver: setup
	@test -n "$(BASE)" || { echo "there is no release yet; name a commit: make semver BASE=COMMIT"; exit 2; }
	@command -v cargo-semver-checks >/dev/null || test -x target/tools/bin/cargo-semver-checks \
	  || $(CARGO) install --locked --root target/tools cargo-semver-checks
	PATH="$$PATH:$(CURDIR)/target/tools/bin" $(CARGO) semver-checks --default-features --baseline-rev $(BASE) -p fathom-units -p fathom-cc -p fathom-frames -p fathom-netsim \
	  -p fathom-plugin -p fathom-quinn -p fathom-noq -p h3-noq

# Every check, as CI runs them.
check: setup lint doc test test-tokio-quiche

# In the release profile, which has built what build scripts make already.
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

# The documentation site, in target/site/book: the pages, and the API of the crates. Installs mdBook below target/.
MDBOOK_VERSION = 0.5.4
site: doc
	@command -v mdbook >/dev/null || test -x target/mdbook/bin/mdbook \
	  || $(CARGO) install --locked --root target/mdbook --version $(MDBOOK_VERSION) --no-default-features --features search mdbook
	PATH="$$PATH:$(CURDIR)/target/mdbook/bin" docs/site/build.sh

# Licences, banned crates and sources are checked by `make test` (tests/dependencies.rs). cargo-deny asks the same, and known
# vulnerabilities where the network has the list of them.
deny:
	@command -v cargo-deny >/dev/null || { echo "cargo-deny is missing: cargo install --locked cargo-deny"; exit 1; }
	cargo-deny check bans licenses sources
	cargo-deny check advisories

# Codec, frame walker, transport parameters and estimator against any input; the plug-in's and the controllers' tests beside them. In a
# profile that panics where a number overflows, which a release would wrap.
fuzz: setup
	FATHOM_FUZZ_CASES=$(FUZZ_CASES) $(CARGO) test --profile checked --locked -p fathom-frames -p fathom-plugin -p fathom-cc

# What a controller costs per ACK frame, beside quinn's own; what the frame costs a bulk transfer.
bench: setup
	$(CARGO) bench --locked -p fathom-cc --bench ack_cost
	$(CARGO) bench --locked -p fathom-experiments --bench frame_cost

# A browser loads a page from `fathom serve` and says over what each part came: h3, on quinn and noq. Needs no network but to install.
chromium: setup
	@if ! command -v chromium-headless-shell >/dev/null && ! command -v chromium >/dev/null && ! command -v google-chrome >/dev/null; then \
	  if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	    apt-get update && { apt-get install -y --no-install-recommends chromium-headless-shell \
	      || apt-get install -y --no-install-recommends chromium; }; \
	  else echo "Chromium is missing: install chromium-headless-shell or chromium"; exit 1; fi; fi
	$(CARGO) test --release --workspace --features quiche --locked --test fathom-tests browser:: -- --ignored --nocapture

# A minute under load on each stack, through a path that does everything wrong that a path can, and a minute of attack. Prints what it
# measured.
soak: setup
	$(CARGO) test --release --workspace --features quiche --locked --test fathom-tests -- --ignored --nocapture --test-threads 1 soak:: attack:: attack_proxy::

# Our endpoints and other stacks' against each other, every test of the quic-interop-runner that needs no container. Installs peers below
# target/peers from their registries; docs/interop.md says what each test shows. Cells wait more than they work: several at once.
interop: setup
	$(CARGO) build --release --locked -p fathom-interop --features quiche
	target/release/fathom-interop --install --jobs $(JOBS) --json target/interop.json

# `fathom load` beside h2load with HTTP/3, which is built from Debian's sources first: as root, some 900 MB under target/.
h2load: setup
	$(CARGO) build --release --locked
	bench/http/beside/h2load.sh target/h2load
	python3 bench/http/beside/beside.py --fathom target/release/fathom --h2load target/h2load/h2load

# What `fathom serve` costs beside the least server on the same stack as it comes. A quiet machine, please.
stock: setup
	$(CARGO) build --release --locked --features quiche
	$(CARGO) build --release --locked -p fathom-http --example stock_quinn
	$(CARGO) build --release --locked -p fathom-quiche-stock --example stock_quiche
	for stack in quinn quiche; do python3 bench/http/beside/stock.py --fathom target/release/fathom \
	  --stock target/release/examples/stock_$$stack --stack $$stack || exit 1; done

# `fathom serve` in front of nginx and a Python application: no wrong byte, certificates replaced under load, Chromium over TCP and HTTP/3, and
# requests per second beside Caddy's HTTP/3 proxy. Installs what it needs, as root.
proxy: setup
	@for program in nginx:nginx-light caddy:caddy certutil:libnss3-tools chromium:chromium openssl:openssl curl:curl; do \
	  command -v $${program%%:*} >/dev/null || apt-get install -y --no-install-recommends $${program##*:} || exit 1; done
	$(CARGO) build --release --locked --features quiche
	python3 bench/http/beside/site.py --fathom target/release/fathom

# `fathom judge` in virtual time beside the kernel's queues, and beside other projects' servers (docs/judge-evidence.md): as root, an hour
# and a half of real time on a machine that does nothing else.
judge-cross-check: setup uml
	$(CARGO) build --release --locked --features quiche
	python3 bench/judge/beside/cross_check.py
	interop/peers/quic-go/install && interop/peers/ngtcp2/install
	python3 bench/judge/beside/foreign.py

# A C compiler builds ring's assembly; BoringSSL, under quiche, wants C++, CMake and libclang's headers. Debian and Ubuntu get them here,
# elsewhere the message says what to do. `cargo fetch` also brings the sources that the derived quiche is made from.
setup:
	@command -v $(CARGO) >/dev/null || { echo "cargo is missing: install Rust 1.89 or newer (rustup.rs)"; exit 1; }
	@if ! command -v cc >/dev/null || ! command -v c++ >/dev/null || ! command -v cmake >/dev/null \
	    || ! ls /usr/lib/llvm-*/lib/clang/*/include/stddef.h /usr/lib/clang/*/include/stddef.h >/dev/null 2>&1; then \
	  if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	    apt-get update && apt-get install -y --no-install-recommends gcc g++ libc6-dev make cmake libclang-dev; \
	  elif ! command -v cc >/dev/null || ! command -v c++ >/dev/null || ! command -v cmake >/dev/null; then \
	    echo "a C/C++ compiler or CMake is missing: install gcc, g++, cmake and libclang-dev (or their like)"; exit 1; \
	  fi; fi
	@$(CARGO) fetch --locked --quiet || $(CARGO) fetch --locked

# Programs that read our results, for the test of docs/results.md.
readers:
	@if ! target/readers/bin/python3 -c 'import pandas, polars, pyarrow' 2>/dev/null; then \
	  if ! python3 -m venv --help >/dev/null 2>&1 && command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	    apt-get update && apt-get install -y --no-install-recommends python3-venv; fi; \
	  mkdir -p target && python3 -m venv target/readers \
	    && target/readers/bin/python3 -m pip install --quiet --disable-pip-version-check pandas polars pyarrow; fi
	@if ! command -v Rscript >/dev/null && command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  apt-get install -y --no-install-recommends r-base-core; fi

# A kernel with tc's queues for the tests of the netem backend, as a program.
uml:
	@if ! command -v linux.uml >/dev/null || ! command -v insmod >/dev/null || ! command -v ip >/dev/null; then \
	  if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	    apt-get update && apt-get install -y --no-install-recommends user-mode-linux kmod iproute2; \
	  else echo "User-Mode Linux is missing: install user-mode-linux, kmod and iproute2"; exit 1; fi; fi
