# The two commands of the README, and the smaller ones they are made of.

SHELL := /bin/bash

.PHONY: demo test setup build bench fmt licences

# Builds, starts the service, runs the flights job and shows its rows. Ctrl-C ends it;
# DEMO_SECONDS=n ends it by itself.
demo:
	@scripts/demo.sh

# Everything CI runs.
test:
	@scripts/test.sh

# Installs what is missing on this machine, and builds RocksDB once.
setup:
	@scripts/setup.sh

build: setup
	@. scripts/env.sh && cargo build --locked -p millrace

fmt:
	@cargo fmt --all

licences:
	@scripts/licences.sh

# Measures the Nexmark queries with a release build.
bench: setup
	@scripts/bench.sh
