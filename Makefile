# Each target does its own set-up: on a fresh Debian or Ubuntu machine as root, python3, python3-venv, git,
# make and ca-certificates are enough. What can't be installed is named, with the command that does it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
READY := .venv/.ready
# a uv that runs (a shim of a version manager may be there and not work), else one of our own
UV := $(shell uv --version >/dev/null 2>&1 && command -v uv || echo .venv-uv/bin/uv)
JOBS ?= 2
OUT ?= out/demo

.PHONY: help test check unit cluster demo bench docs format lock clean tshark browser lab

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 16

test: tshark browser lab cluster check unit ## everything that must pass before a change lands

check: $(READY) ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

unit: $(READY) ## the tests alone; skipped ones are listed with the reason
	timeout --kill-after=30 1500 $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup --timeout 300 -rs

cluster: $(READY) ## build kube-apiserver and etcd for tests, once (5 minutes; kept in ~/.cache/storage-analyzer)
	$(BIN)/python -m tests.cluster

demo: tshark $(READY) ## a real NFS cluster in trouble, and what the tool says of it; writes reports to out/demo
	@.ci/system-packages lab || true
	@$(BIN)/python captures/recipes/demo.py $(OUT)

bench: tshark $(READY) ## speed and memory, as figures
	$(BIN)/python -m tests.bench

docs: $(READY) ## write the pages that are made from the code
	$(BIN)/python -m docs.generate

format: $(READY) ## format the code and mend what the linter can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: ## renew uv.lock after a change of dependencies in pyproject.toml
	@$(MAKE) $(UV)
	$(UV) lock

clean: ## remove what the targets above made
	rm -rf .venv .venv-uv out .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

tshark browser lab:
	@.ci/system-packages $(if $(filter browser,$@),chromium,$@)

$(READY): pyproject.toml uv.lock
	@[ $(UV) != .venv-uv/bin/uv ] || $(MAKE) .venv-uv/bin/uv
	$(UV) sync --locked --all-extras --quiet
	@touch $@

.venv-uv/bin/uv:
	@python3 -m venv .venv-uv || { echo "Run this, then try again: sudo apt-get install -y python3-venv" >&2; exit 1; }
	.venv-uv/bin/python -m pip install --quiet --disable-pip-version-check 'uv>=0.5'
