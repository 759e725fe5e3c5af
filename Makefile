# Two commands do everything on a fresh machine: `make demo` and `make test`.

SHELL := /bin/bash
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.10 python3; do \
  command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help env parts demo test check lint words campaign bench clean

help:
	@echo "make demo      the whole way on a private box on this machine: host add … stop"
	@echo "make test      the whole suite"
	@echo "make check     ruff, mypy, import-linter, then the whole suite"
	@echo "make campaign  the long repetitions (an hour and more)"
	@echo "make bench     the benchmarks of bench/ (ten minutes); prints the table of docs/BENCHMARKS.md"

env: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "cloudrun needs Python 3.10 or newer on this machine; install one and say: make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,train]'
	@touch $(STAMP)

# The real parts that the suite and the demo drive: sshd, screen, tmux.
parts:
	@bash tests/parts.sh

demo:
	@bash tests/parts.sh || true
	@$(MAKE) --no-print-directory env
	$(BIN)/python -m tests.demo

test: parts
	@$(MAKE) --no-print-directory env
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not campaign" --durations=10

# What users read: gathered from the code, merged into the Chinese catalogue, compiled.
words: env
	$(BIN)/python tools/words.py

lint: env
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/vermin --quiet --no-tips --target=3.8- --eval-annotations --violations remote_agent

check: lint test

campaign: parts env
	$(BIN)/python -m pytest -m campaign --timeout=7200

bench:
	@bash tests/parts.sh rsync:rsync
	@$(MAKE) --no-print-directory env
	$(BIN)/python -m bench.tee
	$(BIN)/python -m bench.cli --markdown

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .import_linter_cache .pytest_cache .hypothesis .demo
