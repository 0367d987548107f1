# make lab    the workbench in JupyterLab
# make test   everything that is tested
# Both make .venv first; a second run finds it ready.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -qq
NODE   := widgets/node_modules

.DEFAULT_GOAL := help
.PHONY: help setup lab test browser node lint bundle format notebooks bench clean

help:
	@echo "make lab      JupyterLab on notebooks/01-first-strategy.ipynb (ARGS=--no-browser on a headless host)"
	@echo "make test     lint, unit tests, doctests, README and docs code, notebooks, browser tests (ARGS=... goes to pytest)"
	@echo "make setup    .venv with everything for users and tests"
	@echo "make lint     formatting, lint and types, of Python and of JavaScript"
	@echo "make bundle   the views' JavaScript and styles into static/dist, after a change of them"
	@echo "make format   format the code"
	@echo "make notebooks  run the tutorials and keep their outputs (ARGS=01-first-strategy.ipynb)"
	@echo "make bench    compile and simulate times of the named cases (ARGS=--json)"
	@echo "make clean    remove .venv and caches"

setup: $(VENV)/.for-tests ;@:

# What users need, the workbench included; no torch.
$(VENV)/.for-users: pyproject.toml
	@PYTHON="$(PYTHON)" sh tools/make_venv.sh $(VENV)
	@echo "Installing Proteus and JupyterLab into $(VENV) (about a minute) ..."
	@$(PIP) install -e '.[lab]'
	@touch $@

$(VENV)/.for-tests: $(VENV)/.for-users constraints.txt
	@echo "Installing what the tests need, torch among it, into $(VENV) (about a minute) ..."
	@$(PIP) install -e '.[test]' -c constraints.txt
	@touch $@

lab: $(VENV)/.for-users
	@$(BIN)/proteus lab $(ARGS)

browser: $(VENV)/.for-tests
	@$(BIN)/python -m tests.find_browser --install

# Node.js is only for those who change the JavaScript: the bundles are in the repository.
node: $(VENV)/.for-tests
	@$(BIN)/python -m tests.find_node --install

$(NODE)/.for-checks: widgets/package.json widgets/package-lock.json | setup
	@$(BIN)/python -m tests.find_node
	@echo "Installing what checks and bundles the JavaScript into $(NODE) (some seconds) ..."
	@cd widgets && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

bundle: $(NODE)/.for-checks
	@cd widgets && npm run --silent bundle

test: setup browser node lint
	@$(BIN)/python -m pytest $(ARGS)

lint: setup $(NODE)/.for-checks
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@cd widgets && npm run --silent lint

format: setup
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

notebooks: setup
	@$(BIN)/python tools/refresh_notebooks.py $(ARGS)

bench: $(VENV)/.for-users
	@$(BIN)/proteus bench $(ARGS)

clean:
	rm -rf $(VENV) $(NODE) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	find proteus widgets tests -name __pycache__ -type d -prune -exec rm -rf {} +
