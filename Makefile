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

.PHONY: setup recipes demo test test-slow audit check format lint types imports docs clean

$(READY): pyproject.toml research/pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Setting up $(VENV) (a few minutes the first time) ..."
	@$(BIN)/python -m pip install --quiet --upgrade pip
	@$(BIN)/python -m pip install --quiet --editable '.[dev]' --editable research
	@touch $(READY)

setup: $(READY)  ## the virtual environment

$(RECIPES)/.ready: pyproject.toml
	@test -x $(RECIPES)/bin/python || $(PYTHON) -m venv $(RECIPES)
	@echo "Setting up $(RECIPES) (Airflow and dbt: about two minutes) ..."
	@$(RECIPES)/bin/python -m pip install --quiet --upgrade pip
	@$(RECIPES)/bin/python -m pip install --quiet --editable '.[recipes]'
	@touch $@

recipes: $(RECIPES)/.ready  ## Airflow and dbt, for the tests of the recipes

demo: $(READY)  ## the main job on the Adult data
	@$(BIN)/python -m certifare demo

test: $(READY)  ## all tests, simulations at reduced size
	$(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal

test-slow: $(READY)  ## simulations and real-data runs at full size, and mutants of the core
	CERTIFARE_FULL=1 $(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal
	$(BIN)/python benchmarks/mutation.py --mutants 200

audit: $(READY)  ## the auditor's page, followed to the letter in a fresh environment
	CERTIFARE_FULL=1 $(BIN)/python -m pytest tests/test_documents.py -k fresh_environment

lint: $(READY)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

check: lint types imports test docs  ## what CI runs

format: $(READY)
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

clean:
	rm -rf $(VENV) $(RECIPES) site dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
