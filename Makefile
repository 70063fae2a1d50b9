# The commands of this repository. Each sets up what it needs by itself; `make help` lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo test check fmt bench docs soak lock clean

BIN := .venv/bin
CODE := src tests benchmarks examples scripts

# Arguments handed on: make demo ARGS="--folder docs", make test ARGS="tests/unit -k cards"
ARGS ?=
# Which benchmark to run: a folder of benchmarks/
WHAT ?=
# The interpreter for new virtualenvs; empty means the newest one found
PYTHON ?=
export PYTHON

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## watch an agent turn run for real (no key, no network)
	@scripts/venv.sh demo
	@$(BIN)/dsh-tools demo $(ARGS)

test: ## run all tests
	@scripts/venv.sh test
	@scripts/system-packages.sh
	@scripts/npm-packages.sh
	@$(BIN)/python -m pytest -n auto --dist loadfile $(ARGS)

check: ## format, lint, types, layers, generated files in step
	@scripts/venv.sh test
	$(BIN)/ruff format --check --quiet $(CODE)
	$(BIN)/ruff check --quiet $(CODE)
	$(BIN)/basedpyright --level error --pythonpath $(BIN)/python
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/catalogs.py --check

fmt: ## format the code and mend what lint can mend
	@scripts/venv.sh test
	@$(BIN)/ruff check --fix --quiet $(CODE) || true
	@$(BIN)/ruff format $(CODE)

bench: ## run a benchmark: make bench WHAT=call_overhead
	@[ -f "benchmarks/$(WHAT)/run.py" ] || { \
		echo "say which: make bench WHAT=NAME, where NAME is one of:" $$(cd benchmarks && ls -d */ | tr -d /); exit 2; }
	@scripts/venv.sh test
	@scripts/venv.sh bench
	@$(BIN)/python benchmarks/$(WHAT)/run.py $(ARGS)

docs: ## write the generated catalogs and indexes again
	@scripts/venv.sh test
	@$(BIN)/python scripts/catalogs.py --write

soak: ## run the long figures of the chaos, soak and crash tests
	@scripts/venv.sh test
	@scripts/system-packages.sh
	@DSH_TOOLS_SOAK=1 $(BIN)/python -m pytest -m soak $(ARGS)

lock: ## pin the requirement files again (needs uv)
	@scripts/lock.sh $(ARGS)

clean: ## remove virtualenvs and caches
	rm -rf .venv .venv-bench node_modules .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
