# `make` prints the targets. To choose the interpreter: make clean setup PYTHON=python3.12

# The first Python on the path that is new enough.
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)

VENV  := .venv
BIN   := $(VENV)/bin
# What running needs is installed, and what linting and testing need besides.
RUN   := $(VENV)/.installed
ALL   := $(VENV)/.installed-all
# pytest's workers, one a core. tests/conftest.py says what runs in one of them, and what is begun first.
EXTRAS := spark,follow,test,lint,docs
XDIST := -n auto --maxprocesses 8 --dist loadgroup --no-loadscope-reorder

# The first name pins what pip installs, and the second what it builds with; before pip 25.3 the
# first does both. The path is relative, so the tree may lie in a folder with a space in its name.
export PIP_CONSTRAINT := .constraints.txt
export PIP_BUILD_CONSTRAINT := .constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help setup check lint test test-integration test-all bench docs dist clean

help: ## print this list
	@echo "Highwater: make targets"
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1|\2/p' Makefile | \
		while IFS='|' read -r name text; do printf '  %-16s %s\n' "$$name" "$$text"; done

setup: $(ALL) ## create .venv and install the project, all pinned dependencies and the tools for tests
	@:

# Python compiles a module when it is first imported: most of what the packages have never is. Where it may not write
# what it compiled, pip does it once.
COMPILED := $(if $(PYTHONDONTWRITEBYTECODE),,--no-compile)

# The environment with the project and what the extras of the first argument need.
define install
	@if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
		if [ -z "$(PYTHON)" ]; then echo "make: no Python 3.11 or newer found; name one with PYTHON=" >&2; exit 1; fi; \
		echo "setup: creating $(VENV) with $(PYTHON)"; \
		$(PYTHON) -m venv --clear $(VENV); \
	fi
	@echo "setup: installing the pinned dependencies$(if $(1), and the tools for tests)"
	@$(BIN)/python -m pip install --quiet $(COMPILED) -c .constraints.txt -e '.$(1)'
endef

$(RUN): pyproject.toml .constraints.txt
	@rm -f $@
	$(call install)
	@touch $@

$(ALL): pyproject.toml .constraints.txt
	@rm -f $@
	$(call install,[$(EXTRAS)])
	@touch $(RUN) $@

check: $(RUN) ## check the protocol: run `highwater check`
	@$(BIN)/highwater check

lint: setup ## ruff check, ruff format --check, mypy, import-linter, the vocabulary of prose, the size in tokens
	@echo "lint: ruff check"
	@$(BIN)/ruff check --quiet .
	@echo "lint: ruff format"
	@$(BIN)/ruff format --check --quiet .
	@echo "lint: mypy"
	@$(BIN)/python -m mypy --no-error-summary
	@echo "lint: the directions of imports"
	@found=$$($(BIN)/lint-imports --no-cache --no-logo 2>&1) || { echo "$$found" >&2; exit 1; }
	@echo "lint: vocabulary"
	@found=$$($(BIN)/python -m docs.pages.vocabulary) || { echo "$$found" >&2; exit 1; }
	@echo "lint: size"
	@found=$$($(BIN)/python -m tests.house.size) || { echo "$$found" >&2; exit 1; }

test: lint ## lint, then the tests, without those marked slow or integration
	@echo "test: pytest"
	@$(BIN)/python -m pytest $(XDIST)

test-integration: setup ## the tests with Spark, Kafka's code, a browser and pip, without those marked slow
	@echo "test: pytest, integration tests"
	@$(BIN)/python -m pytest $(XDIST) -m "integration and not slow"

test-all: lint ## lint, then every test; with HIGHWATER_TESTS=whole no sample, but all of it
	@echo "test: pytest, slow tests included"
	@$(BIN)/python -m pytest $(XDIST) -m ""

bench: setup ## run the benchmarks
	@$(BIN)/python -m docs.bench

docs: setup ## build the site of the docs in build/site
	@$(BIN)/python -m docs.pages

dist: setup ## build the wheel and the source distribution, the same bytes each time, and the bill of materials
	@$(BIN)/python -m tests.packaging.release --out dist
	@$(BIN)/python -m tests.packaging.bom --out dist/highwater.cdx.json

clean: ## remove .venv, the caches and the build output
	@rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find highwater model invariants checker traces docs tests -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
