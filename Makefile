# Two commands: `make demo` shows Feedline at work, `make test` checks everything.
# Both do all the set-up they need. Builds and tools are cached outside the clone.

CACHE := $(HOME)/.cache/feedline
export CARGO_TARGET_DIR ?= $(CACHE)/target
TOOLS := $(CACHE)/tools
export PATH := $(TOOLS)/bin:$(PATH)
VENV := $(CACHE)/venv
# Debian's python3-torch belongs to this interpreter.
SYSTEM_PYTHON := /usr/bin/python3

.PHONY: help demo test check lint deny doc unit jobs setup python-env bench gpu-check test-frameworks fuzz-smoke metrics bpf clean-cache

help:
	@echo "make demo   see Feedline at work on a small training job (builds first; no other step)"
	@echo "make test   every check: format, lints, licences, docs, tests, real training jobs"
	@echo "make bench  measure Feedline itself: attribution, overhead, store"
	@echo "make gpu-check  the same on this machine's GPU, written down under docs/gpu/"
	@echo "make test-frameworks  a real job for each framework's loader (installs them first: 10 GB)"

demo:
	cargo run --quiet --no-default-features -- demo

test: setup lint deny doc unit jobs
	@echo "make test: all checks passed"

setup:
	tests/setup.sh "$(TOOLS)"

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings

# Crates for other systems are looked at too, so all of them have to be here.
deny:
	cargo fetch --quiet --locked
	cargo deny --offline check licenses bans sources

doc:
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet

unit: python-env
	cargo nextest run --workspace --no-fail-fast
	cargo test --workspace --doc --quiet

jobs:
	cargo build --quiet --workspace
	FEEDLINE="$(CARGO_TARGET_DIR)/debug/feedline" $(SYSTEM_PYTHON) -B -m unittest discover -s tests/jobs -p 'test_*.py'
	$(SYSTEM_PYTHON) -B -m unittest discover -s python/tests -t python -p 'test_*.py'

python-env:
	tests/python-env.sh "$(VENV)"

bench:
	cargo run --quiet -- bench all

# The part of the lab that needs a CUDA device, in under eight minutes; as root, for kernel events.
gpu-check:
	cargo build --quiet --no-default-features
	tests/gpu-check.sh $(CARGO_TARGET_DIR)/debug/feedline

# One real job for each framework's loader, watched by pid; installs some 10 GB on first use, so it
# is not part of `make test`.
test-frameworks:
	cargo build --quiet --no-default-features
	$(SYSTEM_PYTHON) tests/frameworks/run.py --feedline $(CARGO_TARGET_DIR)/debug/feedline --write docs/frameworks.md

# Rebuilds the programs for the kernel (needs clang-19, llvm-19 and libbpf-dev); the object is committed.
bpf:
	$(MAKE) --always-make -C collectors/src/kernel/bpf

# Rewrites the generated reference of tables and columns.
metrics:
	FEEDLINE_UPDATE=1 cargo nextest run -p feedline --test integration generated
