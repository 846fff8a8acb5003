# Needs make and Python 3.11 or newer; everything else is installed into .venv on first use.

PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; \
	done)
VENV := .venv
RUN := $(VENV)/bin/python

.PHONY: help demo explore page bench bench-full bench-smallest reproduce test test-core test-long test-slow test-laws test-failed test-compiled test-sanitized bench-compiled bench-compiled-large wheels docs lint release-check check-install sdist format golden crash torture clean
.DEFAULT_GOAL := help

help:  ## Show what can be made
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|'

# The store with its command line.
$(VENV)/installed: pyproject.toml
	@test -n "$(PYTHON)" || { echo "lsmkv needs Python 3.11 or newer on the PATH (or make PYTHON=...)"; exit 1; }
	@echo "First use: making $(VENV) with $$($(PYTHON) --version) and installing lsmkv into it ..."
	@$(PYTHON) -m venv $(VENV)
	@$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[cli]'
	@touch $@

# What its developers need besides.
$(VENV)/installed-dev: $(VENV)/installed
	@echo "Installing what the tests and linters need into $(VENV) ..."
	@$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

# What the measurements need besides.
$(VENV)/installed-bench: $(VENV)/installed
	@echo "Installing what the measurements need into $(VENV) ..."
	@$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[bench-charts,bench-peers,bench-objects]'
	@touch $@

demo: $(VENV)/installed  ## Write real data, look it up, and see the disk reads that the filters save
	@$(RUN) -m bench.demo

# What the live page needs besides.
$(VENV)/installed-explore: $(VENV)/installed
	@echo "Installing what the live page needs into $(VENV) ..."
	@$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[explore]'
	@touch $@

# make explore ARGS="--out page.html" for a file instead of a live page.
explore: $(VENV)/installed-explore  ## Fill a store before your eyes, in the browser (Ctrl-C ends it)
	@$(RUN) -m bench.explore $(ARGS)

# For who changes the page: its bundle is in the repository, so users need no Node.
WEB := lsmkv/explore/web
page: $(VENV)/installed  ## Build the script of `lsmkv explore` from its sources (needs Node)
	@cd $(WEB) && npm ci --no-audit --no-fund --loglevel=error
	@$(RUN) -m lsmkv.explore.schema > $(WEB)/contract.schema.json
	@cd $(WEB) && npm run --silent types && npm run --silent check && npm run --silent build

EXPERIMENTS := saved-io saved-requests wasted-reads policies compaction filters memory replay peers ycsb

bench: $(VENV)/installed-bench  ## Measure everything, the quick form: a report for each experiment in out/
	@set -e; for name in $(EXPERIMENTS); do \
		echo "== $$name"; $(RUN) -m bench $$name --quick --out out/$$name; done

bench-full: $(VENV)/installed-bench  ## The full form of the same (hours)
	@set -e; for name in $(EXPERIMENTS); do \
		echo "== $$name"; $(RUN) -m bench $$name --out out/$$name; done

# What they find is of no use at this size: it is whether they run, and pass their checks of themselves.
# saved-requests and filters are not among them: they judge a clock.
SMALLEST := "policies --parts trees --keys 5000" "policies --parts skew --keys 10000" "policies --parts repeats --keys 2000" \
	"policies --parts shift --keys 3000" \
	"replay --windows 2" \
	"memory --keys 4000 --lookups 500 --runs 1 --parts split" "wasted-reads --entries 5000 --passes 1 --bits 16 --shapes hex,names" \
	"saved-io --counts-only --datasets digits --entries 1000 --lookups 500" \
	"compaction --size-ratios 4 --write-buffers 16" "ycsb --workloads A --records 1000 --operations 1000 --repetitions 1" \
	"peers --entries 2000 --repetitions 1 --passes 1"
bench-smallest: $(VENV)/installed-bench  ## The smallest form of nearly each (four minutes of one processor)
	@mkdir -p out; set -e; for command in $(SMALLEST); do \
		echo "== $$command"; $(RUN) -m bench $$command --quick --out out/smallest > out/smallest.txt 2>&1 \
			|| { cat out/smallest.txt; exit 1; }; done

# make reproduce ARGS="--sections saved-io,figures" for some of it; --help for the rest.
reproduce: build/compiled  ## Measure every published table and picture again, and tell what agrees (hours)
	@cd $< && $(abspath $(RUN)) -m bench reproduce --out ../../out/reproduce $(ARGS)

# A file's tests run in one process, so that what they share is made once.  They sync thousands of files,
# and so have these in memory, where that has 2 GiB to spare; the long tests have theirs on a disk.
MEMORY := /dev/shm
IN_MEMORY = $$(test "$$(df -Pk $(MEMORY) 2>/dev/null | awk 'END { print $$4 }')" -gt 2097152 2>/dev/null && echo TMPDIR=$(MEMORY))
FAST = env $(IN_MEMORY) $(RUN) -m pytest -n auto --dist loadfile -o faulthandler_timeout=600 -m "not slow"
CORE := encoding storage filters memtable log sstable tree read compaction background engine api salvage inspection copies

test: $(VENV)/installed-dev  ## Run the tests that find most (under 4 minutes on two idle cores)
	@echo "Running the tests on $$(nproc 2>/dev/null || echo some) cores ..."
	@$(FAST)

test-core: $(VENV)/installed-dev  ## Run those of the store proper (a minute)
	@$(FAST) $(CORE:%=tests/%) --ignore=tests/filters/family

test-long: test-slow test-laws  ## Run the other tests

# LONG="slow and not longest": the shorter ones; ROOMS="tests/read tests/tree": those of some folders.
LONG := slow
ROOMS :=
test-slow: $(VENV)/installed-dev  ## Run those that take seconds and more
	@$(RUN) -m pytest -n auto --dist loadfile -m "$(LONG)" $(ROOMS)

test-laws: $(VENV)/installed-dev  ## Run the property tests at length
	@$(RUN) -m pytest -n auto --dist loadfile -m "hypothesis and not slow" --hypothesis-profile=long

test-failed: $(VENV)/installed-dev  ## Run the tests that failed last once more, one after the other
	@$(RUN) -m pytest -m "slow or not slow" --last-failed --last-failed-no-failures none

# Wheels are built from nothing: what an earlier build left must not get in.
wheels: $(VENV)/installed  ## Build a wheel compiled for this Python, and a pure one, in dist/
	@rm -rf build dist
	@LSMKV_PURE=0 $(RUN) -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@rm -rf build
	@LSMKV_PURE=1 $(RUN) -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@ls dist

# With the C of the compiled modules: needs Python 3.11, whose C serves all later versions.
sdist: $(VENV)/installed-dev  ## Build the source distribution of a release, in dist/
	@$(RUN) -m tools.source_distribution

# A copy of the checkout with the wheel's files over it: the checkout itself is never compiled.
build/compiled: $(VENV)/installed-dev wheels
	@mkdir -p $@
	@git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t $@
	@$(RUN) -m zipfile -e dist/*-cp*.whl $@

.PHONY: build/compiled
test-compiled: build/compiled  ## Run the test suite on the compiled build
	@cd $< && $(abspath $(RUN)) -m lsmkv --version
	@cd $< && env $(IN_MEMORY) $(abspath $(RUN)) -m pytest -n auto --dist loadfile -m "not slow" tests

# make test-sanitized ARGS=--short for a few minutes of it, ARGS=3.13 for one version of Python.
test-sanitized: $(VENV)/installed-dev  ## Run tests and torture with AddressSanitizer and UBSan (an hour for each Python)
	@$(RUN) -m tools.sanitized $(ARGS)

bench-compiled: build/compiled  ## Measure the compiled build beside the peers: a report in out/peers, tables in docs/performance.md
	@cd $< && $(abspath $(RUN)) -m bench peers --out ../../out/peers --into ../../docs/performance.md

LARGE := --entries 5000000 --repetitions 6 --passes 3 --engines lsmkv,rocksdb,leveldb,lmdb --phases $\
	readrandom,readmissing,multi_get,readseq,readreverse,seekrandom,seekrandom_100,readmissing_cold,open
LARGE_FILL := --entries 5000000 --repetitions 6 --engines lsmkv,rocksdb,leveldb --phases sustained,fillbatch,disk_zstd

bench-compiled-large: build/compiled  ## The same with 5,000,000 entries (an hour): reports in out/peers-large*
	@cd $< && $(abspath $(RUN)) -m bench peers $(LARGE) --out ../../out/peers-large
	@cd $< && $(abspath $(RUN)) -m bench peers $(LARGE_FILL) --out ../../out/peers-large-fill

lint: $(VENV)/installed-dev  ## Check style, types and what is depended on
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy
	@$(RUN) -m tools.dependencies

# make release-check ARGS="--tag v0.1.0" compares the tag, too.
release-check: $(VENV)/installed-dev  ## Check that this commit can be released, and what users would install
	@$(RUN) -m tools.release_check $(ARGS)
	@$(RUN) -m tools.check_install

# Needs a C compiler, and a package index for what builds ask for.
check-install: $(VENV)/installed-dev  ## Build wheels from a source distribution, install and use them (some minutes)
	@$(RUN) -m tools.check_install

# What the site needs besides.
$(VENV)/installed-docs: $(VENV)/installed-dev
	@echo "Installing what the site needs into $(VENV) ..."
	@$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

# A warning is an error: so links are checked, too.
SITE := out/site
docs: $(VENV)/installed-docs  ## Build the site in out/site, and check it (a minute)
	@rm -rf $(SITE)
	@PYTHONPATH=. $(RUN) -m sphinx --quiet --fail-on-warning --keep-going -d out/doctrees docs $(SITE)
	@LSMKV_SITE=$(abspath $(SITE)) $(RUN) -m pytest tests/whole/test_site.py

format: $(VENV)/installed-dev  ## Format the code
	@$(RUN) -m ruff check --fix-only --quiet .
	@$(RUN) -m ruff format .

golden: $(VENV)/installed-dev  ## Rewrite the golden files after a deliberate change of format
	@$(RUN) -m pytest -q --rewrite-golden $$(git grep -lw golden -- "tests/*/test_*.py" ":!tests/tools")

crash: $(VENV)/installed-dev  ## Kill a writer again and again, and check what it left
	@$(RUN) -m torture.crash.kill_loop --rounds 200

# make torture ARGS=--long for hours of it, ARGS=--ci for a few minutes; python -m torture --help for the rest.
torture: $(VENV)/installed-dev  ## Try to make the store lose data, lie or leak: ten minutes (ARGS=--long: hours)
	@$(RUN) -m torture $(ARGS)

clean:  ## Remove what was made
	@rm -rf $(VENV) build dist out *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
