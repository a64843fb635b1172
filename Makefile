# Two commands do everything: `make demo` runs the main job, `make test` passes the tests. Both install what is missing first.
.PHONY: demo test check setup lint doc deny fuzz bench

CARGO ?= cargo
# Cases per fuzz property; `make fuzz` runs long, the tests run few.
FUZZ_CASES ?= 100000

demo: setup
	$(CARGO) run --release --locked -- compare --report fathom.html

test: setup
	$(CARGO) test --workspace --locked --no-fail-fast
	$(CARGO) test --locked -p h3-noq --features datagram --test datagram

# Every check, as CI runs them.
check: setup lint doc test deny

lint: setup
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

doc: setup
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

# Licences, duplicate and banned crates, sources. Needs cargo-deny; without it this says so and goes on.
deny:
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny check bans licenses sources; \
	else echo "deny: skipped, cargo-deny is not installed (cargo install --locked cargo-deny)"; fi

# Codec, frame walker, transport parameters and estimator against any input.
fuzz: setup
	FATHOM_FUZZ_CASES=$(FUZZ_CASES) $(CARGO) test --release --locked -p fathom-frames

# What a controller costs per ACK frame, beside quinn's own; what the frame costs a bulk transfer.
bench: setup
	$(CARGO) bench --locked -p fathom-cc --bench on_acks
	$(CARGO) bench --locked -p fathom-bench --bench frame_cost

# A C compiler builds ring's assembly; Debian and Ubuntu get one here, elsewhere the message says what to do.
setup:
	@command -v $(CARGO) >/dev/null || { echo "cargo is missing: install Rust 1.89 or newer (rustup.rs)"; exit 1; }
	@command -v cc >/dev/null || { \
	  if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then apt-get update && apt-get install -y gcc libc6-dev; \
	  else echo "a C compiler is missing: install gcc or clang"; exit 1; fi; }
