# Everything below sets up what it needs (a virtual environment in .venv) on a fresh machine.
PYTHON ?= python3
VENV := .venv
# The version that the tests last ran with.
TORCH ?= torch==2.13.0
BIN := $(VENV)/bin
# Tests at the same time: most of them wait for processes that they started.
WORKERS ?= 4
PYTEST := $(BIN)/python -m pytest -n $(WORKERS)

.PHONY: demo test test-torch check docs package-check bench reproduce testbed testbed-clean clean

demo: $(VENV)/installed
	scripts/demo

test: $(VENV)/installed-dev
	$(PYTEST)

# The tests that `test` skips for lack of PyTorch or Ray, with both; some need root.
test-torch: $(VENV)/installed-torch
	$(PYTEST) $$(grep -rlE 'importorskip\("(torch|ray)"|needs_ray|find_spec\("torch"\)' \
	    tests --include='test_*.py')

check: $(VENV)/installed-dev
	scripts/check

# The documentation as a site, in build/site; warnings are errors.
docs: $(VENV)/installed-docs
	$(BIN)/python tools/build_docs.py

# sdist and wheel, installed into a new environment and used there, without this repository.
package-check: $(VENV)/installed-docs
	scripts/package-check

bench: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks.planner_speed

# The paper, figure by figure: under 20 minutes, with FULL=1 hours. Says what it skips and why:
# root, torch or the public data (SRIFTY_PUBLIC_DATA) may be missing.
reproduce: $(VENV)/installed-dev
	@$(MAKE) --no-print-directory $(VENV)/installed-train || echo "torch cannot be installed here"
	$(BIN)/python -m benchmarks.paper.reproduce $(if $(FULL),--full)

# Forecasts against runs on the emulated cluster, the short version; needs root.
testbed:
	@$(PYTHON) -m benchmarks.testbed.preflight
	@$(MAKE) --no-print-directory $(VENV)/installed-train
	$(BIN)/python -m benchmarks.testbed run --short

# Removes what killed runs of the emulated cluster left; needs root and nothing installed.
testbed-clean:
	$(PYTHON) -m benchmarks.testbed.sweep

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $@

$(VENV)/installed-train: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[train]"
	touch $@

$(VENV)/installed-torch: $(VENV)/installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev,ray,train]"
	touch $@

$(VENV)/installed-docs: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	touch $@

clean:
	rm -rf $(VENV) .runs build .pytest_cache .ruff_cache .hypothesis dist
