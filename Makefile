# Everything below sets up what it needs (a virtual environment in .venv) on a fresh machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check bench testbed-clean clean

demo: $(VENV)/installed
	$(BIN)/srifty plan examples/resnet50.yaml

test: $(VENV)/installed-dev
	$(BIN)/python -m pytest

check: $(VENV)/installed-dev
	scripts/check

bench: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks.planner_speed

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

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis dist
