# make demo   a recorded scenario and its page, on a fresh machine
# make quick  lint, types and the unit tests that are not marked slow, properties with fewer examples: before every commit
# make test   everything that CI checks: lint, types and the whole test suite, including Chromium and the wheel
# make coverage  the lines that no unit test reaches; fails where they are too many
# make format fixes what `make lint` reports, as far as tools can
# make reports  the pages of all committed captures, in reports/h200; six of them are in the repository
# make site  the documentation's site in build/site, with strict links; `make reports site` adds every page to its gallery
# make man    man pages in build/man, from the commands; `man -l build/man/pinprof-record.1` shows one
# make fuzz N=1000000  that number of damaged inputs of every format; continues where it stopped
# make bench  the speed of reading recordings here, compared with perf script (docs/performance.md has the others)

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
C_FILES = $(shell find pinprof tests -name node_modules -prune -o '(' -name '*.c' -o -name '*.cpp' -o -name '*.cu' -o -name '*.h' ')' -print)
# Without npm, or where it could install nothing, JavaScript is neither checked nor formatted.
N ?= 10000
NPM_RUN = test ! -d tests/tools/node_modules || npm --prefix tests/tools --silent run --if-present
C_SOURCES := $(wildcard pinprof/machine/*.h) pinprof/collect/native/unwind.c pinprof/read/symbols/dwarf.c pinprof/read/perf/chains.c $(wildcard pinprof/inside/*.[ch])

# pytest's rewriting of the tests' assertions takes longer than many of them, so it is kept in __pycache__.
unexport PYTHONDONTWRITEBYTECODE

# What runs is said by what runs. `make SHELL="sh -x"` shows the commands.
.SILENT:
.PHONY: demo quick quick-tests test tests coverage lint lint-beside format check-python check-types check-spelling check-c \
	check-javascript check-shell wheel reports site man bench fuzz setup setup-test clean

demo: setup
	$(BIN)/pinprof run zerocopy --record

quick: setup-test
	$(MAKE) --no-print-directory --jobs 2 lint quick-tests

quick-tests: setup-test
	$(BIN)/python -m pytest --quiet --numprocesses 2 --hypothesis-profile=quick -m 'not slow' tests/unit tests/gold

test: setup-test
	$(MAKE) --no-print-directory --jobs 2 lint-beside tests

# Where the tests wait, for a browser or a recorded program.
lint-beside:
	nice $(MAKE) --no-print-directory lint site

# One runs recordings, which mostly wait, one those that stand company, one pages, and then all three the others.
# pytest rewrites and compiles each test once before, instead of once in each worker; errors are the run's to say.
tests: setup-test
	-$(BIN)/python -m pytest --collect-only -qq >/dev/null
	$(BIN)/python -m pytest --quiet --numprocesses 3

# Apart: coverage's tracer makes most code twice to five times as slow.
coverage: setup-test
	$(BIN)/python -m pytest --quiet --cov --cov-report=term-missing --numprocesses 2 \
		--hypothesis-profile=quick -m 'not slow' tests/unit tests/gold

lint: check-python check-types check-spelling check-c check-javascript check-shell

check-python: setup-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

check-types: setup-test
	$(BIN)/python -m mypy

check-spelling: setup-test
	$(BIN)/codespell
	$(BIN)/python tools/check_words.py

check-c: setup-test
	$(BIN)/clang-format --dry-run --Werror $(C_FILES)

check-javascript: setup-test
	$(NPM_RUN) check

check-shell: setup-test
	$(BIN)/shellcheck ci/*.sh deploy/*.sh .ci/* tools/*.sh

format: setup-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(C_FILES)
	$(NPM_RUN) format

wheel: setup-test
	rm -rf build dist
	$(BIN)/python -m build --wheel --no-isolation --outdir dist . > build.log 2>&1 || (cat build.log; exit 1)
	rm -rf build build.log

reports: setup
	$(BIN)/python tools/make_reports.py

# PINPROF_SITE and PINPROF_REPOSITORY are the addresses of the site and of the repository, where they are known.
site: setup-test
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

man: setup-test
	$(BIN)/python tools/man_pages.py build/man

fuzz: setup-test
	$(BIN)/python -m tests.fuzz --inputs $(N)

bench: setup-test
	$(BIN)/python tests/bench/bench_read.py

setup: $(VENV)/.installed
setup-test: $(VENV)/.installed-test

SETUP_FILES := pyproject.toml setup.py $(C_SOURCES) constraints.txt tools/setup.sh

$(VENV)/.installed: $(SETUP_FILES)
	PYTHON=$(PYTHON) tools/setup.sh $(VENV) run
	touch $@

$(VENV)/.installed-test: $(SETUP_FILES) tests/tools/package.json
	PYTHON=$(PYTHON) tools/setup.sh $(VENV) test
	touch $(VENV)/.installed $@

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .coverage .coverage.*
