# Each target does its own set-up: a virtual environment in .venv, filled from both pyproject.toml files.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RECIPES := .venv-recipes

#: What is formatted and linted: the product, and the research beside it.
SOURCES := src tests research benchmarks examples docs/theme

#: Tests run in this many processes.
PROCESSES ?= auto

#: Where versions of Python and of the requirements are tried: the mathematics, tables, a fit, an encode, a verify.
CORE := tests/test_api.py tests/certificates/test_certificate.py tests/growth/test_grower.py tests/tables/test_table.py \
	tests/encoders/test_tree.py tests/document/test_verification.py tests/cli/test_fit.py tests/cli/test_encode.py \
	tests/cli/test_verify.py
RESOLUTION ?= highest
LOCK := requirements-dev.lock

.PHONY: setup recipes spark lock demo test test-all test-core test-slow coverage audit check format lint types imports docs clean

$(READY): pyproject.toml research/pyproject.toml $(LOCK)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Setting up $(VENV) (a few minutes the first time) ..."
	@$(BIN)/python -m pip install --quiet --upgrade pip
	@$(BIN)/python -m pip install --quiet --constraint $(LOCK) --editable '.[dev]' --editable research
	@touch $(READY)

setup: $(READY)  ## the virtual environment

$(RECIPES)/.ready: pyproject.toml
	@test -x $(RECIPES)/bin/python || $(PYTHON) -m venv $(RECIPES)
	@echo "Setting up $(RECIPES) (Airflow and dbt: about two minutes) ..."
	@$(RECIPES)/bin/python -m pip install --quiet --upgrade pip
	@$(RECIPES)/bin/python -m pip install --quiet --editable '.[recipes]'
	@touch $@

spark: $(READY)  ## Spark (about 450 MB; needs Java), for its tests
	@$(BIN)/python -m pip install --quiet --constraint $(LOCK) --editable '.[spark]'

lock: $(READY)  ## the newest versions of what developers install, into the lock file
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --extra dev --no-header pyproject.toml -o $(LOCK)

recipes: $(RECIPES)/.ready  ## Airflow and dbt, for the tests of the recipes

demo: $(READY)  ## the main job on the Adult data
	@$(BIN)/python -m certifare demo

test: $(READY)  ## the quick tests, for the loop: every path, and no test marked slow
	$(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal -m "not slow"

test-all: $(READY)  ## all tests, simulations at reduced size
	$(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal

test-core: $(READY)  ## the core with PYTHON and RESOLUTION (highest, lowest-direct), in an environment of its own
	$(BIN)/uv venv --quiet --clear --python $(PYTHON) .venv-core
	$(BIN)/uv pip install --quiet --python .venv-core --resolution $(RESOLUTION) --editable '.[test]'
	.venv-core/bin/python -m pytest -W default -n $(PROCESSES) --dist worksteal -m "not slow" $(CORE)

coverage: $(READY)  ## all tests, and the lines and branches that none of them runs
	$(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal --cov --cov-report term:skip-covered

test-slow: coverage  ## coverage, then all tests with simulations at full size, and mutants of the core
	CERTIFARE_FULL=1 $(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal
	$(BIN)/python benchmarks/mutation.py --mutants 200

audit: $(READY)  ## the journeys of five roles, in a fresh environment
	$(BIN)/python -m pytest tests/test_documents.py -k fresh_environment

lint: $(READY)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

check: lint types imports test-all  ## what CI runs; the tests build the documentation

format: $(READY)
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

clean:
	rm -rf $(VENV) .venv-* site .coverage dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
