# One target per chore; each works in a fresh clone with cargo, Python and make. `make help` lists them.

PYTHON ?= python3
# Processes of `make test-python`; tests of one file share one.
PYTEST_PROCESSES ?= auto
# Cargo profile of the wheel that tests run on.
WHEEL_PROFILE ?= release

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
WHEELS := target/wheels
WHEEL := $(VENV)/.wheel-$(WHEEL_PROFILE)
# Named like the wheels, so that each kind of installation replaces the others.
EDITABLE := $(VENV)/.wheel-editable
# The demo needs a wheel soon, not a fast one.
DEMO_WHEEL := $(VENV)/.wheel-demo
SELFTEST := target/selftest
SITE_VENV := target/site-venv
DIST_VENV := target/dist-venv

# All that a wheel is made of: an edit here, and only here, builds a new one.
WHEEL_SOURCES := Cargo.toml Cargo.lock pyproject.toml README.md LICENSE-THIRD-PARTY requirements/turntree.cyclonedx.json \
	$(shell find src crates python -type f -not -name '*.pyc' -not -name '*.so' 2>/dev/null)

# One interpreter for every PyO3 build, so that cargo does not rebuild PyO3 when clippy follows maturin.
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
export PIP_REQUIRE_VIRTUALENV := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo dev test test-rust test-python test-bridge test-long test-versions test-harnesses test-ray crash node services audit third-party lint lint-rust lint-python fmt bench docs site site-version profile wheel wheel-portable check-dist lock clean install

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(DEMO_WHEEL) ## set up and run examples/quickstart.py: no network, no keys
	@$(BIN)/python examples/quickstart.py

test: test-rust test-python test-bridge ## all tests: Rust without Python, then Python on the installed wheel

# Property tests have fixed seeds here, so that a change fails by its own faults; `make test-long` has random ones.
test-rust: export PROPTEST_RNG_SEED ?= 7
test-rust:
	cargo test --locked

test-python: $(VENV)/.dev $(WHEEL) node
	$(BIN)/pytest --numprocesses $(PYTEST_PROCESSES) --dist loadfile --ignore=tests/python/bridge $(PYTEST_ARGS)

# The bridge to event loops is tested alone, through functions that only this build has.
test-bridge: $(VENV)/.dev $(SELFTEST)/.built
	PYTHONPATH=$(CURDIR)/$(SELFTEST) $(BIN)/pytest tests/python/bridge $(PYTEST_ARGS)

# The same laws and the same faults as in `make test`, with many more random cases.
test-long: $(VENV)/.dev $(WHEEL) ## the property tests, the fault injection and exits of processes with many more cases, older versions of pydantic-ai, user interfaces: an hour
	PROPTEST_CASES=10000 cargo test --locked --package turntree --test it laws
	TURNTREE_LAW_FACTOR=25 $(BIN)/pytest --numprocesses $(PYTEST_PROCESSES) --dist loadfile --timeout 1800 $(LAW_TESTS) $(PYTEST_ARGS)
	TURNTREE_CHAOS_SCENARIOS=50000 $(BIN)/pytest tests/python/chaos --timeout 1200 $(PYTEST_ARGS)
	TURNTREE_LAW_FACTOR=25 TURNTREE_MODEL_EXAMPLES=100 $(BIN)/pytest tests/python/crash/test_model.py --timeout 1200 $(PYTEST_ARGS)
	TURNTREE_OLD_PYDANTIC_AI=all $(BIN)/pytest -rs $(VERSION_TESTS) -k older_versions $(PYTEST_ARGS)
	TURNTREE_MANY_CALLS=20000 $(BIN)/pytest -s tests/python/upp/test_many_calls.py $(PYTEST_ARGS)
	TURNTREE_LAW_FACTOR=25 TURNTREE_OPENAPI_CASES=5000 $(BIN)/pytest -rs -s tests/python/uaip/test_openapi.py --timeout 1200 $(PYTEST_ARGS)
	TURNTREE_UAMP_LOAD=full cargo test --release --locked --package turntree-uamp --test it loopback -- --nocapture --test-threads 1
	TURNTREE_RECIPES=1 $(BIN)/pytest -rs tests/python/recipes $(PYTEST_ARGS)
	$(MAKE) --no-print-directory test-ray
	TURNTREE_DOCS_ENVIRONMENTS=1 $(BIN)/pytest -rs tests/python/docs/test_docs_environments.py $(PYTEST_ARGS)
	TURNTREE_SHELL_CASES=20000 $(BIN)/pytest -rs tests/python/harness/test_shell_against_bash.py --timeout 3000 $(PYTEST_ARGS)
	TURNTREE_CLAIM_PROCESSES=16 TURNTREE_CLAIMS=1000 TURNTREE_CLAIM_KILLS=40 \
		$(BIN)/pytest -rs tests/python/harness/test_claims_under_kills.py --timeout 1800 $(PYTEST_ARGS)
	PROPTEST_CASES=20000 cargo test --locked --package turntree-harness --test it arbitrary
	TURNTREE_EXITS=40 $(BIN)/pytest -rs tests/python/package/test_process_exit.py $(PYTEST_ARGS)

# The same test as in `make test`, with more kills. It needs the servers of `make services`, or says what it leaves out.
crash: $(VENV)/.dev $(WHEEL) ## kill programs with open sessions, 1000 times for each engine of stores: 10 minutes
	TURNTREE_CRASHES=$${TURNTREE_CRASHES:-1000} $(BIN)/pytest -rs tests/python/crash/test_crash.py tests/python/durable/test_durable_crash.py -s $(PYTEST_ARGS)

# The real Vercel AI SDK and the SDK of MCP on the other end. Where it cannot be had, the tests that need it say that they were skipped;
# TURNTREE_REQUIRE_NODE=1 makes that a failure.
node: ## the packages of tests/node, for the tests against the real Vercel AI SDK and the SDK of MCP
	@if ! command -v npm >/dev/null || ! command -v node >/dev/null; then \
		echo "turntree: npm is missing, so nothing is tested against the real Vercel AI SDK; on Debian: apt-get install nodejs npm" >&2; \
	else $(MAKE) --no-print-directory tests/node/node_modules/.installed || test -z "$$CI$$TURNTREE_REQUIRE_NODE"; fi

tests/node/node_modules/.installed: tests/node/package.json tests/node/package-lock.json
	cd tests/node && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

# The folder that has the harnesses: about 1 GB. Nothing of them is part of turntree.
HARNESSES ?= target/harnesses
test-harnesses: $(VENV)/.dev $(WHEEL) ## our hooks in the real Claude Code, Codex and OpenCode, against a scripted model: 3 minutes; installs 1 GB
	mkdir -p $(HARNESSES)
	npm install --prefix $(HARNESSES) --no-audit --no-fund --loglevel=error \
		@anthropic-ai/claude-code@2.1.329 @openai/codex@0.169.0 opencode-ai@1.18.33
	cargo build --locked --package turntree-harness --bin turntree-hook
	PATH="$(CURDIR)/target/debug:$$PATH" TURNTREE_HARNESSES="$(abspath $(HARNESSES))" \
		$(BIN)/pytest -rs tests/python/harness/test_real_harnesses.py $(PYTEST_ARGS)

# In a folder of its own: the environment of the other tests shows what turntree does without Ray.
RAY := target/ray
test-ray: $(VENV)/.dev $(WHEEL) ## the examples for Ray on a local cluster: 2 minutes; installs 1 GB
	$(PIP) install --upgrade --target $(RAY) --constraint requirements/dev.lock 'ray[data]==2.60.0'
	PYTHONPATH=$(CURDIR)/$(RAY) $(BIN)/pytest -rs tests/python/docs/test_ray.py $(PYTEST_ARGS)

# The tests find the servers by variables: eval "$$(make services)". `tools/test-services stop` stops them.
services: ## start PostgreSQL and Redis for the tests of stores; prints the variables for the shell
	@tools/test-services start

LAW_TESTS = $(shell grep -rl 'support.laws import cases' tests/python --include='test_*.py')

VERSION_TESTS = $(addprefix tests/python/thread_protocol/test_thread_protocol_, versions.py downgrade.py)

test-versions: $(VENV)/.dev $(WHEEL) ## turntree beside older versions of pydantic-ai; needs a package index
	TURNTREE_OLD_PYDANTIC_AI=1 $(BIN)/pytest -rs $(VERSION_TESTS) -k older_versions $(PYTEST_ARGS)

lint: lint-rust lint-python ## formatting, clippy, ruff and strict types; changes nothing

lint-rust: $(VENV)/.created
	cargo fmt --all --check
	cargo clippy --all-targets --locked -- -D warnings
	cargo clippy --package turntree-python --locked -- -D warnings
	cargo clippy --package turntree-python --locked --features bridge-selftest -- -D warnings
	$(BIN)/python tools/third_party.py --check
	@if command -v cargo-deny >/dev/null; then cargo deny check bans licenses sources; \
		else echo "turntree: cargo-deny is missing, so deny.toml is not checked; install it with: cargo install cargo-deny --locked"; fi

lint-python: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/basedpyright

audit: ## known vulnerabilities of the dependencies; needs the network, and says what it cannot check
	tools/audit

third-party: $(VENV)/.created ## after a change of Cargo.lock: the licence texts and the SBOM of the wheel
	$(BIN)/python tools/third_party.py

fmt: $(VENV)/.dev ## format Rust and Python in place
	cargo fmt --all
	$(BIN)/ruff check --fix --quiet || true
	$(BIN)/ruff format

bench: $(VENV)/.dev wheel ## criterion benches, then side by side with other libraries
	cargo bench --locked
	$(BIN)/python benches/python/compare.py --wheel "$$(ls -t dist/turntree-*.whl | head -n 1)"

docs: $(VENV)/.dev $(WHEEL) ## Rust API to target/doc, Python API to docs/api
	cargo doc --no-deps --locked
	$(BIN)/pdoc --docformat google --output-directory docs/api turntree

# Warnings are errors: links and anchors that lead nowhere, pages without a place in the navigation, references that cannot be read.
site: $(SITE_VENV)/.installed ## the documentation site with the reference of the Python API, in target/site
	NO_MKDOCS_2_WARNING=1 $(SITE_VENV)/bin/mkdocs build --strict --quiet

# Each version has a folder; the selector of the theme reads their list. `target/sites` is what is published, as static files.
VERSION ?= dev
site-version: $(SITE_VENV)/.installed ## the site as VERSION=… beside those of other versions, in target/sites
	TURNTREE_SITE_VERSION=$(VERSION) NO_MKDOCS_2_WARNING=1 $(SITE_VENV)/bin/mkdocs build --strict --quiet --site-dir target/sites/$(VERSION)
	$(SITE_VENV)/bin/python tools/site_versions.py target/sites

$(SITE_VENV)/.installed: requirements/site.lock
	$(PYTHON) -m venv --clear $(SITE_VENV)
	$(SITE_VENV)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --requirement requirements/site.lock
	@touch $@

# maturin adds no programs to an extension module by itself; tools/build-hook says how they come into the wheel.
wheel: $(VENV)/.build ## the wheel that is published, with the native hook program, in dist/
	tools/build-hook
	$(BIN)/maturin build --profile dist --locked --out dist

# The wheels below run on other distributions: zig links them with the symbols of an older glibc, or with musl. Other targets than
# that of this machine need their standard library: rustup target add aarch64-unknown-linux-gnu.
WHEEL_TARGET ?= x86_64-unknown-linux-gnu
IS_MUSL := $(findstring musl,$(WHEEL_TARGET))
COUNTS := target/counts
COUNTS_FILE := $(COUNTS)/$(WHEEL_TARGET).profdata

# Counts belong to the names that the compiler makes, and these depend on settings that cargo-zigbuild changes. zig itself cannot link
# the library that writes counts.
LIKE_ZIGBUILD := CARGO_TARGET_APPLIES_TO_HOST=false CARGO_UNSTABLE_TARGET_APPLIES_TO_HOST=true \
	__CARGO_TEST_CHANNEL_OVERRIDE_DO_NOT_USE_THIS=nightly
COUNTED_BUILD := $(LIKE_ZIGBUILD) RUSTFLAGS=-Cprofile-generate=$(CURDIR)/$(COUNTS)/raw CARGO_TARGET_DIR=target/counted

profile: $(COUNTS_FILE) ## count what hot paths run, for a faster `make wheel-portable`: half an hour, on a machine of WHEEL_TARGET

$(COUNTS_FILE): $(WHEEL_SOURCES) tools/profile_workload.py | $(VENV)/.dev
	rustup component add llvm-tools
	rm -rf $(COUNTS)
	$(COUNTED_BUILD) $(BIN)/maturin build --profile dist --locked --target $(WHEEL_TARGET) --out $(COUNTS)
	$(COUNTED_BUILD) cargo build --profile dist --locked --target $(WHEEL_TARGET) --package turntree-harness --bin turntree-hook
	$(PIP) install --no-deps --no-index --target $(COUNTS)/package $(COUNTS)/turntree-*.whl
	LLVM_PROFILE_FILE=$(CURDIR)/$(COUNTS)/raw/%4m.profraw PYTHONPATH=$(CURDIR)/$(COUNTS)/package \
		$(BIN)/python tools/profile_workload.py target/counted/$(WHEEL_TARGET)/dist/turntree-hook
	"$$(dirname "$$(rustc --print target-libdir)")/bin/llvm-profdata" merge --output $@ $(COUNTS)/raw

# A loop over bytes runs a thousand times as often as an agent. The limits keep such runs among the code that is optimized for speed.
wheel-portable: export RUSTFLAGS = $(if $(wildcard $(COUNTS_FILE)),-Cprofile-use=$(CURDIR)/$(COUNTS_FILE) \
	-Cllvm-args=-profile-summary-cutoff-hot=999000 -Cllvm-args=-pgso-cutoff-instr-prof=999990)
wheel-portable: $(VENV)/.build $(DIST_VENV)/.installed ## a wheel for manylinux_2_28 or musllinux_1_2, in dist/; WHEEL_TARGET=… for others than x86-64
	$(DIST_VENV)/bin/python -m pip --disable-pip-version-check --quiet install cargo-zigbuild ziglang
	PATH="$(CURDIR)/$(DIST_VENV)/bin:$$PATH" tools/build-hook $(WHEEL_TARGET)$(if $(IS_MUSL),,.2.28) zig
	PATH="$(CURDIR)/$(DIST_VENV)/bin:$$PATH" $(BIN)/maturin build --profile dist --locked --target $(WHEEL_TARGET) --zig \
		--compatibility $(if $(IS_MUSL),musllinux_1_2,manylinux_2_28) --out dist

# Metadata that the index accepts, and wheels without files that do not belong in them. DIST names what to check.
DIST ?= dist/*
check-dist: $(DIST_VENV)/.installed ## check the wheels and source distributions in dist/ as twine and check-wheel-contents do
	$(DIST_VENV)/bin/twine check --strict $(DIST)
	$(DIST_VENV)/bin/check-wheel-contents $(filter %.whl,$(wildcard $(DIST)))

$(DIST_VENV)/.installed: requirements/dist.lock
	$(PYTHON) -m venv --clear $(DIST_VENV)
	$(DIST_VENV)/bin/python -m pip --disable-pip-version-check --quiet install --requirement requirements/dist.lock
	@touch $@

dev: $(EDITABLE) ## edit and run: turntree in .venv as an editable debug build; run it again after an edit of Rust code
	$(BIN)/maturin develop --profile dev --locked --skip-install

install: $(VENV)/.dev $(WHEEL) ## the development environment with turntree in it, in .venv

lock: $(VENV)/.created ## resolve the development environment anew: requirements/dev.lock
	$(PIP) install uv
	{ sed -n '/^#/p' requirements/dev.lock; $(BIN)/uv pip compile --group pyproject.toml:dev --universal \
		--python-version 3.11 --upgrade --no-annotate --no-header --quiet; } > requirements/dev.lock.new
	mv requirements/dev.lock.new requirements/dev.lock

clean: ## remove everything that was built
	rm -rf $(VENV) dist turntree._core.data docs/api .pytest_cache .ruff_cache .mypy_cache .hypothesis
	cargo clean

# The stamps below hold what has been done to .venv, so that a second run does nothing.

$(VENV)/.created:
	@command -v cargo >/dev/null || { echo "turntree: cargo is missing; install Rust 1.89 or newer from https://rustup.rs" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null \
		|| { echo "turntree: '$(PYTHON)' is not Python 3.10 or newer; name one with: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
		|| { echo "turntree: '$(PYTHON)' has no venv module; on Debian: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

# maturin alone, at its pinned version: enough to build the wheel and run the demo.
$(VENV)/.build: requirements/dev.lock | $(VENV)/.created
	$(PIP) install --constraint requirements/dev.lock maturin
	@touch $@

$(VENV)/.dev: requirements/dev.lock | $(VENV)/.build
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "turntree: tests and lints need Python 3.11 or newer; name one with: make clean test PYTHON=python3.12" >&2; exit 1; }
	$(PIP) install --requirement requirements/dev.lock
	@touch $@

$(EDITABLE): pyproject.toml | $(VENV)/.dev
	PATH="$(CURDIR)/$(BIN):$$PATH" MATURIN_PEP517_ARGS="--profile dev --locked" $(PIP) install --no-deps --no-build-isolation --editable .
	@rm -f $(VENV)/.wheel-* && touch $@

# The profile is part of the stamp's name: `.wheel-release` says that .venv has a wheel of this profile.
$(VENV)/.wheel-%: $(WHEEL_SOURCES) | $(VENV)/.build
	rm -f $(WHEELS)/turntree-*.whl python/turntree/_core*.so
	$(BIN)/maturin build --profile $* --locked --out $(WHEELS)
	$(PIP) install --force-reinstall --no-deps --no-index $(WHEELS)/turntree-*.whl
	@rm -f $(VENV)/.wheel-* && touch $@

$(SELFTEST)/.built: $(WHEEL_SOURCES) | $(VENV)/.build
	rm -rf $(SELFTEST)
	$(BIN)/maturin build --profile dev --locked --features bridge-selftest --out $(SELFTEST)/wheels
	$(PIP) install --no-deps --no-index --target $(SELFTEST) $(SELFTEST)/wheels/turntree-*.whl
	@touch $@
