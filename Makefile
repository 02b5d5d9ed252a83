# Quarterdeck. `make help` lists the tasks; every task sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNS := $(VENV)/.runs
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
ARGS ?=
# what Python compiles is kept, also where it shall not lie beside the sources: tests start hundreds of processes
COMPILED := env -u PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX=$(CURDIR)/$(VENV)/compiled
FILES ?= tests/cases/apiserver.json tests/cases/nodegroup.json

.DEFAULT_GOAL := help
.PHONY: help demo up test check mutants bench docs cases kubernetes kube conformance histories format properties chart image sbom dist starttax firstrun

help: ## list the tasks
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# what the program needs; the tools of development come with the first task that uses them
$(RUNS): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Quarterdeck needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV)"
	@$(PIP) --no-compile --editable '.[terminal]'
	@touch $@

$(STAMP): $(RUNS)
	@echo "installing the tools of development"
	@$(PIP) --upgrade 'pip>=25.1'
	@$(PIP) --editable . --group dev
	@touch $@

demo: $(RUNS) ## run the main job on the embedded server (ARGS=--once ends by itself)
	@$(COMPILED) $(BIN)/quarterdeck demo $(ARGS)

up: $(RUNS) ## embedded server, controllers and operators, by one command
	@$(COMPILED) $(BIN)/quarterdeck up $(ARGS)

# once in a new clone: each of the workers would compile everything at the same time
$(VENV)/compiled/.collected: $(STAMP)
	@echo "compiling"
	@$(COMPILED) sh -c '$(BIN)/python -m pytest --collect-only tests/unit >/dev/null & \
		$(BIN)/python -m pytest --collect-only --ignore tests/unit tests >/dev/null; wait'
	@touch $@

# files in the order of their folders: those with few, long tests come first and do not wait for each other;
# many of them wait for processes, so that two cores serve four workers
test: $(VENV)/compiled/.collected ## all tests
	@$(COMPILED) $(BIN)/python -m pytest --numprocesses 4 --dist loadfile --no-loadscope-reorder $(ARGS)

properties: $(STAMP) ## the scheduler's properties over ten thousand random clusters
	@QUARTERDECK_CLUSTERS=10000 $(BIN)/python -m pytest --numprocesses 2 tests/unit/scheduler/test_scheduler_properties.py $(ARGS)

check: $(STAMP) ## format, lint, types, import contracts, generated types
	@$(BIN)/ruff format --check src tests tools benchmarks examples
	@$(BIN)/ruff check src tests tools benchmarks examples
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python tools/rooms.py --check
	@$(BIN)/python tools/k8s/generate.py --check

format: $(STAMP)
	@$(BIN)/ruff format src tests tools benchmarks examples
	@$(BIN)/ruff check --fix src tests tools benchmarks examples

mutants: $(STAMP) ## do the unit tests notice? ARGS="runtime --seconds 600 --seed 1"; not in CI
	@$(BIN)/python tools/mutants.py $(ARGS)

bench: $(STAMP) ## the benchmarks, each against its peer in the same run
	@$(BIN)/python -m benchmarks $(ARGS)

docs: $(STAMP) ## rebuild generated pages, run the examples in the docs, build the site
	@$(BIN)/python tools/docs.py $(ARGS)
	@$(PIP) --group docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet && echo "the site is in build/site"

chart: $(STAMP) ## what the Helm chart and the Kustomize base take from the program
	@$(BIN)/python tools/chart.py

dist: $(STAMP) ## the wheel and the source distribution, into dist/
	@rm -f dist/*.whl dist/quarterdeck-*.tar.gz
	@$(BIN)/python -m hatchling build --directory dist >/dev/null
	@ls dist/*.whl dist/*.tar.gz

starttax: dist ## what a start of pytest costs with the wheel installed, and without it
	@$(BIN)/python tools/starttax.py dist/*.whl

firstrun: dist ## from the wheel to a running gang, timed, in a fresh folder
	@$(BIN)/python tools/firstrun.py dist/*.whl

image: ## the container image, into dist/image.tar (BASE=debootstrap: without a registry)
	@BASE=$(BASE) sh tools/image.sh $(ARGS)

sbom: $(STAMP) ## the software bill of materials, into dist/sbom.json
	@mkdir -p dist && $(BIN)/python tools/sbom.py > dist/sbom.json

cases: $(STAMP) ## run case files over the wire: make cases FILES="a.json b.json" [KUBECONFIG=file]
	@$(BIN)/python -m tests.harness $(if $(KUBECONFIG),--kubeconfig $(KUBECONFIG)) $(ARGS) $(FILES)

kubernetes: $(STAMP) ## types and data of a release of Kubernetes: make kubernetes [VERSION=v1.36.3]
	@$(BIN)/python tools/k8s/generate.py $(if $(VERSION),--version $(VERSION),--refresh)

kube: ## build the real kube-apiserver, etcd, kubectl and Go peers, once, into a cache
	@bash tools/kube/build.sh $(ARGS)

conformance: $(STAMP) ## the same cases and suites on the real server and on ours
	@bash tools/kube/build.sh suites conformance
	@$(BIN)/python tools/conformance.py $(ARGS)

histories: $(STAMP) ## random histories told to the real server and to ours: ARGS="--seeds 100 --first 1 [--record | --replay]"
	@PYTHONPATH=tools $(BIN)/python -m histories $(ARGS)
