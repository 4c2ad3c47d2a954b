# One command each; `make` lists them. Everything lives in .venv, which `make clean` removes.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable
PINNED := $(VENV)/pyvenv.cfg pyproject.toml constraints.txt
# The rooms whose tests start no broker and need no torch.
FAST := $(addprefix tests/,commands/cli/test_help.py core methods registry sources wire)
# Else every process that a test starts compiles all that it imports again, a quarter of its start.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast lint docs bench bench-all dist clean

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.demo ## Producer, detector, retrainer and subscriber on one machine (1 GB); DATA=as733.parquet for real graphs, NAMES=countries.csv to name communities, VIEW=1 for a live page
	$(BIN)/stream-icd demo $(if $(DATA),--data '$(DATA)') $(if $(NAMES),--names '$(NAMES)') $(if $(VIEW),--view)

# Four processes whose threads spin for each other's cores take five times as long.
test: export OMP_NUM_THREADS ?= 1
# Brokers live for minutes: compiling them thoroughly costs more than it saves.
test: export JDK_JAVA_OPTIONS ?= -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
test: $(VENV)/.dev ## All tests, four at a time: a quarter of an hour on two cores (8 GB, with torch)
	@echo "running all tests: a quarter of an hour on two cores; the first time, Maven downloads Apache Kafka, 44 MB"
	$(BIN)/python -m pytest --numprocesses 4 --dist loadfile --no-loadscope-reorder

test-fast: export OMP_NUM_THREADS ?= 1
test-fast: $(VENV)/$(if $(OLDEST),.oldest,.fast) ## The tests of single rooms (1 GB), for another Python: PYTHON=python3.13 VENV=build/3.13; with the oldest dependencies allowed: OLDEST=1 VENV=build/oldest
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile $(FAST)

lint: $(VENV)/.dev ## ruff, mypy and the layers (8 GB, as for test)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.dev ## The documentation site, in build/docs (8 GB, as for test); every warning is an error
	$(BIN)/python -m sphinx -q -W --keep-going docs build/docs
	@echo "open build/docs/index.html"

bench: $(VENV)/.bench ## Start-up times (docs/measured/startup.md) and a fuzz run of the decoders (1.2 GB)
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.fuzz_wire

bench-all: $(VENV)/.bench ## All pages about speed and size, two hours on a quiet machine; DATA=folder of as733.parquet (docs/measured)
	$(BIN)/python -m benchmarks.all --data '$(DATA)' $(if $(QUIX),--quix-python '$(QUIX)')

dist: $(VENV)/pyvenv.cfg ## Wheel and sdist, in dist/, checked as an index checks them
	rm -rf dist
	$(BIN)/python -m venv build/dist
	build/dist/bin/python -m pip install --quiet --disable-pip-version-check build twine
	build/dist/bin/pyproject-build
	build/dist/bin/twine check --strict dist/*

clean: ## Remove .venv and everything that was built
	rm -rf $(VENV) build dist docs/commands .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps: an installation is repeated only when what is installed has changed. Tests import a part
# of it: Python compiles that part then, which is quicker than to compile all of it here.
$(VENV)/.demo: $(PINNED)
	@echo "installing stream-icd into $(VENV): 57 packages, 1 GB; a minute or two the first time"
	$(INSTALL) '.[demo,view]'
	@touch $@

$(VENV)/.dev: $(PINNED)
	@echo "installing stream-icd, torch and the tools into $(VENV): 240 packages, 8 GB; some minutes the first time"
	$(INSTALL) '.[local,train,dev]' --no-compile
	@touch $@

$(VENV)/.fast: $(PINNED)
	@echo "installing stream-icd and what its fast tests need into $(VENV): 90 packages, 1 GB; some minutes the first time"
	$(INSTALL) '.[fast]' --no-compile
	@touch $@

$(VENV)/.oldest: $(VENV)/pyvenv.cfg pyproject.toml
	@echo "installing the oldest versions that pyproject.toml allows into $(VENV): 90 packages, 1 GB; some minutes the first time"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --resolution lowest-direct --editable '.[fast]'
	@touch $@

$(VENV)/.bench: $(PINNED)
	@echo "installing stream-icd and the benchmarks' peers into $(VENV): 100 packages, 1.2 GB; some minutes the first time"
	$(INSTALL) '.[local,bench]'
	@touch $@

$(VENV)/pyvenv.cfg:
	@command -v $(PYTHON) >/dev/null || \
	  { echo "there is no $(PYTHON): install Python 3.11 or later, or name yours: make demo PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$$($(PYTHON) --version) is too old: stream-icd needs 3.11 or later; name one with make demo PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
	  { echo "$(PYTHON) comes without venv: on Debian and Ubuntu, apt install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
