# Every target makes its own .venv first, on a machine with nothing but Python 3.11 or newer, git and make.
# PYTHON=... picks the interpreter, ARGS=... goes to pytest, the benchmarks or the lock.

.DEFAULT_GOAL := help
.PHONY: help setup demo test docs explore parity soak bench e2e attack lint format image imagelock release ci lock clean

# Kept whatever the environment says: tests start hundreds of processes that would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
READY := .venv/.ready

help: ## say what there is
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv from requirements.lock

demo: $(READY) ## show in a minute what Tonnage is for, on an embedded cluster
	$(BIN)/tonnage demo $(ARGS)

test: $(READY) ## run all tests, with ruff, mypy and the import contracts among them
	@$(BIN)/python tools/chromium > /dev/null || true # without a browser its tests are skipped, and say so
	@$(BIN)/python tools/tsc > /dev/null || true # likewise without a TypeScript compiler
	$(BIN)/python -m pytest -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --dist loadgroup $(ARGS) # one more than cores: tests also wait

explore: $(READY) ## play seeds of the race explorer on all cores (SEEDS=0..499)
	$(BIN)/python tools/explore $(SEEDS)

parity: $(READY) ## compare with the recorded answers of kube-scheduler and cluster-autoscaler
	$(BIN)/python tools/parity

soak: $(READY) ## play months of churn and look for what grows (DAYS=1000)
	TONNAGE_SOAK_DAYS=$(or $(DAYS),1000) $(BIN)/python -m pytest tests/soak

bench: $(READY) ## run the benchmarks
	$(BIN)/python -m benchmarks $(ARGS)

e2e: $(READY) ## run against a real control plane, which is built the first time
	$(BIN)/python tools/control-plane build
	$(BIN)/python tools/go-tools build
	$(BIN)/python -m pytest tests/e2e -n 2 --dist loadfile --durations=5 $(ARGS)

attack: $(READY) ## attack run and extender on a real control plane, and print what came of it
	$(BIN)/python tools/control-plane build
	$(BIN)/python -m tests.attacks $(ARGS)

docs: ## build docs/ as a site into build/site, with every link checked
	tools/docs $(ARGS)

lint: $(READY) ## check style, types and import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY) ## format, and fix what can be fixed
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

image: $(READY) ## build the images as OCI layouts into build/image, and run them
	rm -rf build/image
	$(BIN)/python tools/image build build/image
	$(BIN)/python tools/image check build/image

imagelock: $(READY) ## take Debian's newest packages into deploy/image/debian.lock
	$(BIN)/python tools/image lock

release: $(READY) ## build all that a release has into dist/, twice, and compare (ARGS=--dirty)
	$(BIN)/python tools/release check $(ARGS)

ci: ## what continuous integration runs: lint, test, e2e and release
	$(MAKE) lint test e2e release

lock: ## write requirements.lock anew from pyproject.toml (ARGS=--upgrade for newer versions)
	tools/lock $(ARGS)

clean: ## remove .venv, caches and build products
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests tools benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(READY): requirements.lock pyproject.toml tools/setup
	tools/setup
	@touch $@
