# Developers' commands. `make check` before every commit, `make test` before every submission.
VENV ?= .venv
BIN := $(VENV)/bin
JOBS ?= auto

.PHONY: help check lint types imports quick test fuzz docs clean

help:
	@echo "make check     lint, types, import rules, unit and golden tests (about two minutes)"
	@echo "make test      the whole test suite"
	@echo "make fuzz      1000 random programs under random schedules, with a fresh seed"
	@echo "make docs      build the documentation into site/ (runs the tutorials), bring its listings up to date"
	@echo "make clean     remove what the tools leave behind"

$(BIN)/lint-imports: pyproject.toml
	python3 -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	touch $@

check: lint types imports quick

lint: $(BIN)/lint-imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(BIN)/lint-imports
	$(BIN)/mypy

imports: $(BIN)/lint-imports
	$(BIN)/lint-imports --no-logo

quick: $(BIN)/lint-imports
	$(BIN)/python -m pytest -q -n $(JOBS) tests/unit tests/golden

test: $(BIN)/lint-imports
	$(BIN)/python -m pytest -q -n $(JOBS)

fuzz: $(BIN)/lint-imports
	$(BIN)/python -m tests.fuzz --cases 1000 --seed $$(date +%s)

docs: $(BIN)/lint-imports
	$(BIN)/python -m tools.make_listings
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:
	rm -rf site build .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
