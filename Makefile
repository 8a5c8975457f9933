# make demo     sets up and finds the knee of the embedded, simulated replica
# make test     sets up and passes the tests; `make help` lists the rest
PYTHON ?= python3
VENV ?= .venv
PEERS ?=
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

unexport PYTHONDONTWRITEBYTECODE  # every process that a test starts would compile all of it again

.PHONY: help demo bench test check test-vllm real-vllm test-install screenshots install clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | sort

demo: $(VENV)/.run ## set up and probe the embedded replica, live (no terminal: as lines)
	$(BIN)/kneescope demo --peak-rps 50

install: $(VENV)/.run ## set up the product alone, in $(VENV)

test: $(VENV)/.dev ## set up and run the tests (no vLLM needed): first on all cores, then those that need the machine for themselves
	@$(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal -m 'not vllm and not alone'; first=$$?; \
	$(BIN)/python -m pytest -m alone; second=$$?; [ $$first = 0 ] && exit $$second; exit $$first

check: $(VENV)/.dev ## lint, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

real-vllm: $(VENV)/.dev ## set up the real vLLM for the CPU in the user's cache folder (3.5 GB, once)
	$(BIN)/python -m tests.real_vllm.install

test-vllm: $(VENV)/.dev ## probe the real vLLM (skipped, and said, where it cannot be installed)
	$(BIN)/python -m pytest -m vllm tests/real_vllm

test-install: $(VENV)/.dev ## build the wheel, install it as users do (pip, pipx, uv, a container) and run it
	$(BIN)/python -m tests.install

bench: $(VENV)/.dev ## the load generator beside other clients, and with the screen on and off (an hour, on a quiet machine; PEERS="--aiperf PATH")
	$(BIN)/python -m tests.benchmarks.transport 3
	$(BIN)/python -m tests.benchmarks.screen_lateness 3
	$(BIN)/python -m tests.benchmarks.peers $(PEERS)

screenshots: $(VENV)/.dev ## draw the pictures in screenshots/ again, from the recorded run
	PYTHONPATH=. $(BIN)/python screenshots/render.py screenshots/demo.jsonl screenshots

clean: ## remove the environment and caches
	rm -rf $(VENV) build *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "kneescope needs Python 3.11 or newer; name one with PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install --upgrade "pip>=25.1"
	$(PIP) --quiet install --constraint constraints.txt --editable .  # twice quiet: setuptools warns at length
	touch $@

$(VENV)/.dev: $(VENV)/.run
	$(PIP) install --constraint constraints.txt --group dev
	touch $@
