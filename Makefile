# Everything a newcomer types. `make demo` and `make test` install what they need into .venv.

IN_RANGE := import sys, ensurepip, venv; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))
CANDIDATES := python3 python3.13 python3.12 python3.11 python3.10
# The first Python that tikgen runs on; `make PYTHON=/path/to/python test` takes another.
PYTHON ?= $(firstword $(foreach python,$(CANDIDATES),\
	$(shell $(python) -c "$(IN_RANGE)" 2>/dev/null && echo $(python))))

# One of each version, on the PATH or pyenv's.
PYTHONS = $(foreach version,3.10 3.11 3.12 3.13,$(firstword $(foreach python,\
	python$(version) $(wildcard $(HOME)/.pyenv/versions/$(version).*/bin/python),\
	$(shell $(python) -c "$(IN_RANGE)" >/dev/null 2>&1 && echo $(python)))))

VENV := .venv
IN_VENV := $(VENV)/bin/python
# Python compiles what it imports; to compile all of it takes a third of the installation.
INSTALL := $(IN_VENV) -m pip install --quiet --disable-pip-version-check --no-compile
PYTEST := $(IN_VENV) -m pytest
# One test process a core; whoever has finished takes tests from the others.
POOL := -n logical --maxprocesses 8 --dist worksteal --durations 10
COVERAGE := $(IN_VENV) -m coverage
ARCHS := cpu vulkan
SAVED := .benchmarks
WORKS := benchmarks/test_works.py --benchmark-columns=median,iqr,rounds
EXAMPLES ?= 200
TEMPLATES := $(patsubst templates/%/kernel.py.j2,%,$(wildcard templates/*/kernel.py.j2))

# The tests start hundreds of processes: they need not compile tikgen's modules each time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo quick test verify soak bench bench-gpu portfolio lint docs clean
.PHONY: docs-site docs-serve dist pythons

help: ## Show what each target does
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/libraries ## Solve the heat equation with generated kernels, in under a minute
	$(VENV)/bin/tikgen demo

quick: $(VENV)/libraries ## Run the tests that launch no kernel and start no process, in a minute
	$(PYTEST) $(POOL) --quick

test: $(VENV)/libraries ## Run the tests on cpu, then those that launch kernels on Vulkan too
	TIKGEN_TEST_ARCH=cpu $(PYTEST) $(POOL) --some -m "not slow"
	TIKGEN_TEST_ARCH=vulkan $(PYTEST) $(POOL) --some -m "arch and not slow and not once"

verify: $(VENV)/libraries ## Run all tests and measure coverage, then verify every template (EXAMPLES=200 each)
	rm -rf .coverage
	TIKGEN_TEST_ARCH=cpu $(COVERAGE) run -m pytest $(POOL)
	TIKGEN_TEST_ARCH=vulkan $(COVERAGE) run -m pytest $(POOL) -m arch
	$(COVERAGE) combine --quiet
	$(COVERAGE) json --quiet -o .coverage/lines.json
	$(IN_VENV) docs/coverage_page.py .coverage/lines.json
	@for name in $(TEMPLATES); do \
		$(VENV)/bin/tikgen verify $$name --max-examples $(EXAMPLES) $(ARCHS:%=--arch %) || exit 1; \
	done

soak: $(VENV)/libraries ## Load actors for ten minutes, with failures, and account for every message
	$(IN_VENV) benchmarks/ring_soak.py --seconds 600

bench: $(VENV)/benchmarks ## Measure on cpu and Vulkan against named peers, write docs/performance.md
	@mkdir -p $(SAVED)
	$(PYTEST) benchmarks/test_build.py benchmarks/test_launch.py --benchmark-columns=median,iqr,rounds
	TIKGEN_TEST_ARCH=cpu $(PYTEST) $(WORKS) --tune-seconds=12 --benchmark-json=$(SAVED)/cpu.json
	TIKGEN_TEST_ARCH=vulkan $(PYTEST) $(WORKS) --tune-seconds=5 --benchmark-json=$(SAVED)/vulkan.json
	$(IN_VENV) benchmarks/report.py cpu $(SAVED)/cpu.json
	$(IN_VENV) benchmarks/report.py vulkan-lavapipe $(SAVED)/vulkan.json
	$(IN_VENV) benchmarks/core.py
	$(IN_VENV) benchmarks/live.py
	$(IN_VENV) benchmarks/aot.py
	$(IN_VENV) benchmarks/aot_native.py
	$(IN_VENV) benchmarks/ring.py
	$(IN_VENV) benchmarks/build_texts.py

bench-gpu: $(VENV)/benchmarks ## The same on an NVIDIA GPU, cuda and Vulkan
	@mkdir -p $(SAVED)
	TIKGEN_TEST_ARCH=cuda $(PYTEST) $(WORKS) --tune-seconds=60 --benchmark-json=$(SAVED)/cuda.json
	TIKGEN_TEST_ARCH=vulkan $(PYTEST) $(WORKS) --tune-seconds=60 --benchmark-json=$(SAVED)/gpu-vulkan.json
	$(IN_VENV) benchmarks/report.py h200-cuda $(SAVED)/cuda.json
	$(IN_VENV) benchmarks/report.py h200-vulkan $(SAVED)/gpu-vulkan.json
	TIKGEN_TEST_ARCH=cuda $(IN_VENV) benchmarks/aot.py
	TIKGEN_TEST_ARCH=cuda $(IN_VENV) benchmarks/ring.py

portfolio: $(VENV)/benchmarks ## Measure works drawn at random for ten minutes, write docs/portfolio.md
	$(IN_VENV) benchmarks/portfolio.py --arch cpu --seconds 600 --keep cpu

lint: $(VENV)/installed ## Check style, types and spelling
	$(IN_VENV) -m ruff check .
	$(IN_VENV) -m ruff format --check .
	$(IN_VENV) -m mypy
	$(IN_VENV) -m codespell_lib

docs: $(VENV)/installed ## Write docs/templates/ and docs/files.md anew from the code
	$(IN_VENV) docs/generate.py

docs-site: $(VENV)/docs ## Build the documentation site into site/; a warning or a dead link is an error
	$(IN_VENV) -m mkdocs build --strict --quiet

docs-serve: $(VENV)/docs ## Show the site at http://127.0.0.1:8000 and rebuild it at each save
	$(IN_VENV) -m mkdocs serve

dist: $(VENV)/installed ## Build wheel and sdist, check them, run a kernel from an empty environment
	.ci/check-release

pythons: $(VENV)/installed ## The same from an empty environment of every Python found
	.ci/check-release $(PYTHONS)

clean: ## Delete .venv and everything that tools left behind
	rm -rf $(VENV) dist build site .benchmarks .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Each of these files says that an installation is done; pyproject.toml makes it due again.
$(VENV)/installed: pyproject.toml
	@$(if $(PYTHON),,echo "tikgen needs Python 3.10 to 3.13 with venv (on Debian: python3-venv); name one with make PYTHON=..."; exit 1)
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable ".[dev]"
	@touch $@

$(VENV)/libraries: $(VENV)/installed .ci/install-libraries
	@.ci/install-libraries
	@touch $@

$(VENV)/benchmarks: $(VENV)/libraries
	$(INSTALL) --editable ".[bench]"
	@touch $@

$(VENV)/docs: $(VENV)/installed
	$(INSTALL) --editable ".[docs]"
	@touch $@
