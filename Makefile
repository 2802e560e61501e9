# Everything is set up in .venv of this checkout; nothing is installed anywhere else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Where the tests' folders are: in memory where there is enough of it, since they wait for the disk half of their time.
FASTEST = $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 1000000 { found = "/dev/shm" } END { print found ? found : "$${TMPDIR:-/tmp}" }')

.PHONY: help demo test coverage test-cluster test-servers check bench bench-peers format clean
.DEFAULT_GOAL := help

help:            ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 12

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Harken needs Python 3.11 or newer; name one: make PYTHON=python3.12 $(MAKECMDGOALS)" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable '.[all,multilingual]' --group dev
	@$(BIN)/python -m compileall -q src  # also where Python is told to keep none of what it compiles
	@touch $(READY)

demo: $(READY)   ## Import real conversations, embed them, search them
	@$(BIN)/python tools/demo.py

# More processes than cores: a quarter of a test's time is waiting for other processes.
TESTS = set -e; folder=$$(mktemp -d "$(FASTEST)/harken-tests-XXXXXX"); trap 'rm -rf "$$folder"' EXIT; trap 'exit 1' INT TERM; \
	PYTHONDONTWRITEBYTECODE= COVERAGE_FILE="$$folder/coverage" $(BIN)/python -m pytest -n 3 --dist worksteal --basetemp="$$folder/pytest"

test: $(READY)   ## Run every test
	@$(TESTS)

coverage: $(READY) ## Run every test, and tell which lines none of them runs
	@$(TESTS) --cov --cov-report=term-missing:skip-covered

test-cluster: $(READY) ## Run the tests of a server on a Citus cluster; CLUSTER_ARCHIVES=FOLDER has the sources to build it of
	@$(BIN)/python tools/cluster.py build "$(CLUSTER_ARCHIVES)"
	@set -e; folder=$$(mktemp -d "$(FASTEST)/harken-tests-XXXXXX"); trap 'rm -rf "$$folder"' EXIT; trap 'exit 1' INT TERM; \
	HARKEN_TEST_CLUSTER=1 $(BIN)/python -m pytest --basetemp="$$folder/pytest" tests/cluster tests/store tests/flow \
		tests/unit/storage/postgres/test_round_trips.py tests/unit/storage/postgres/test_large_spaces.py

# Those of the package, and one that was built for the cluster; others by SERVERS="16 /usr/lib/postgresql/17/bin".
SERVERS ?= 16 18 $(wildcard .cluster/usr/lib/postgresql/*/bin)
test-servers: $(READY) ## Run the tests of a server on each of SERVERS: 16, 18, or the programs' folder of one with pgvector
	@set -e; folder=$$(mktemp -d "$(FASTEST)/harken-tests-XXXXXX"); trap 'rm -rf "$$folder"' EXIT; trap 'exit 1' INT TERM; \
	for server in $(SERVERS); do echo "PostgreSQL: $$server"; \
	HARKEN_TEST_POSTGRES="$$server" $(BIN)/python -m pytest -n 2 --basetemp="$$folder/pytest" tests/store/test_postgres.py \
		tests/unit/storage/postgres tests/flow/test_both_engines.py tests/flow/test_same_order.py tests/flow/test_team_*.py \
		tests/serve/test_team_http.py tests/faults/test_rolling_upgrade.py; done

check: $(READY)  ## Format, lint, types, import contracts, the house
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy src/harken/aio.py src/harken/client.py  # whose types others take from their .pyi
	$(BIN)/lint-imports
	$(BIN)/python tools/check_house.py

bench: $(READY)  ## Measure quality and speed; takes a while
	$(BIN)/python benchmarks/retrieval.py --rerank --ablations
	$(BIN)/python benchmarks/autorag.py
	$(BIN)/python benchmarks/speed.py

bench-peers: $(READY) ## Measure other memories beside Harken; fetches some 4 GB the first time
	$(BIN)/python benchmarks/peers.py

format: $(READY) ## Format and repair what can be repaired
	$(BIN)/python tools/async_stub.py
	$(BIN)/python tools/clients.py
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:           ## Remove what the commands above made
	rm -rf $(VENV) .demo .peers .coverage .coverage.* .pytest_cache .ruff_cache .mypy_cache .hypothesis .import_linter_cache
