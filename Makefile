# make demo   a recorded scenario and its page, on a fresh machine
# make test   everything CI checks: lint, types and the whole test suite, Chromium and the wheel included
# make reports  the pages under reports/, again, from the committed captures
# make bench  how fast recordings are read here, beside perf script (docs/performance.md has the others)

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
C_SOURCES := pinprof/collect/nvtx/injection.c pinprof/collect/native/unwind.c pinprof/read/symbols/dwarf.c

.PHONY: demo test lint wheel reports bench setup setup-test clean

demo: setup
	$(BIN)/pinprof run zerocopy --record

test: setup-test lint
	$(BIN)/python -m pytest

lint: setup-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

wheel: setup-test
	rm -rf build dist
	$(BIN)/python -m build --wheel --no-isolation --outdir dist . > build.log 2>&1 || (cat build.log; exit 1)
	rm -rf build build.log

reports: setup
	$(BIN)/python tools/make_reports.py

bench: setup-test
	$(BIN)/python tests/bench/bench_read.py

setup: $(VENV)/.installed
setup-test: $(VENV)/.installed-test

$(VENV)/.installed: pyproject.toml setup.py $(C_SOURCES) constraints.txt tools/setup.sh
	PYTHON=$(PYTHON) tools/setup.sh $(VENV) run
	touch $@

$(VENV)/.installed-test: pyproject.toml setup.py $(C_SOURCES) constraints.txt tools/setup.sh
	PYTHON=$(PYTHON) tools/setup.sh $(VENV) test
	touch $(VENV)/.installed $@

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
