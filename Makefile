# The commands of developers. The set-up runs once: a stamp in .venv has the digest of the installed requirements.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
# Tests start hundreds of processes. With this variable, each of them would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
# One more than the number of processors, because tests also wait for the disk, for servers and for each other.
WORKERS ?= $(shell expr $$(nproc) + 1)
digest = $(shell cat $(1) 2>/dev/null | sha256sum | cut -c1-16)
RUNTIME := .venv/.runtime-$(call digest,requirements/runtime.txt pyproject.toml)
DEV := .venv/.dev-$(call digest,requirements/dev.txt pyproject.toml)
# With more than four workers, the tests wait for the disk and not for a processor.
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses=4
COMPILE := $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header --quiet $(PINS)
CHECKS := check-style check-types check-imports check-conformance check-schemas check-docs check-hygiene check-structure check-words check-agent

.PHONY: help demo examples test long conformance compat crash crash-tasks crash-plans crash-goals crash-steps crash-web check $(CHECKS) bench docs pins release system clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' Makefile | while IFS='|' read -r target what; do \
		printf '%-16s %s\n' "$$target" "$$what"; done

$(RUNTIME):
	@sh scripts/bootstrap.sh runtime $@

# The development requirements include those of the runtime, in the same versions.
$(DEV):
	@sh scripts/bootstrap.sh dev $@
	@rm -f .venv/.runtime-*; touch $(RUNTIME)

system:
	@sh scripts/system_packages.sh

demo: $(RUNTIME) ## run a demo of Remit, in a folder that is removed afterwards
	@$(BIN)/remit demo

# dbt needs packages that conflict with the development tools, so it has a separate environment for the tests.
DBT := .cache/dbt/.$(call digest,requirements/dbt.txt)

$(DBT): $(DEV)
	@rm -rf .cache/dbt
	@$(BIN)/uv venv --quiet --python $(BIN)/python .cache/dbt
	@$(BIN)/uv pip install --quiet --compile-bytecode --python .cache/dbt/bin/python --require-hashes \
		-r requirements/dbt.txt
	@touch $@

# The agent libraries of the worked examples have a separate environment too.
EXAMPLES := .cache/examples/.$(call digest,requirements/examples.txt)

$(EXAMPLES): $(DEV)
	@rm -rf .cache/examples
	@$(BIN)/uv venv --quiet --python $(BIN)/python .cache/examples
	@$(BIN)/uv pip install --quiet --compile-bytecode --python .cache/examples/bin/python --require-hashes \
		-r requirements/examples.txt
	@touch $@

examples: $(EXAMPLES) ## run the worked examples: agents of three libraries with tools of Remit
	@for each in examples/*_loop.py examples/*_agent.py; do echo "== $$each"; \
		env -u REMIT_AGENT -u REMIT_TOKEN PYTHONPATH=src .cache/examples/bin/python "$$each" || exit 1; done

test: $(DEV) $(DBT) $(EXAMPLES) system ## run the tests
	@$(BIN)/python -m compileall -q src tests
	@$(PYTEST)

long: $(DEV) $(DBT) $(EXAMPLES) system ## run the tests with the long ones: more cases, more rounds, whole sequences (slow)
	@REMIT_LONG=1 $(PYTEST) -m "not slow_crash"

# The suite needs a newer Node.js than Debian has. It is one of its pinned packages, which npm downloads by hash.
SUITE := .cache/mcp-conformance/.$(call digest,tests/mcp_server/conformance/package.json tests/mcp_server/conformance/package-lock.json)

$(SUITE):
	@command -v npm >/dev/null || sh scripts/install_packages.sh nodejs npm
	@rm -rf .cache/mcp-conformance && mkdir -p .cache/mcp-conformance
	@cp tests/mcp_server/conformance/package.json tests/mcp_server/conformance/package-lock.json .cache/mcp-conformance
	@npm ci --prefix .cache/mcp-conformance --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
	@touch $@

conformance: $(DEV) $(SUITE) ## run the official MCP conformance suite, and 10,000 calls of the HTTP API against its OpenAPI (slow)
	@$(BIN)/python -m tests.mcp_server.conformance .cache/mcp-conformance
	@$(BIN)/python -m tests.web.api.fuzz --calls 10000

compat: $(DEV) ## compare the output for users with the previous version, and open a workspace of that version
	@$(BIN)/python -m tests.compat

crash: $(DEV) system ## run the full crash sweep (slow)
	@$(PYTEST) -m slow_crash

crash-tasks: $(DEV) system ## stop tasks at every change to a disk: kill, power cut, full disk (slow; needs root)
	@$(BIN)/python -m tests.crash.tasks --thin $(or $(THIN),1)

crash-goals: $(DEV) system ## run 10,000 goals on each store while workers are killed: one effect each (slow; GOALS=2000 for fewer)
	@$(BIN)/python -m tests.crash.goals --goals $(or $(GOALS),10000)
	@$(BIN)/python -m tests.crash.goals --goals $(or $(GOALS),10000) --store postgresql

crash-steps: $(DEV) system ## run 1,000 goals with several steps on each store while workers are killed (slow; GOALS=100 for fewer)
	@$(BIN)/python -m tests.crash.steps --goals $(or $(GOALS),1000)
	@$(BIN)/python -m tests.crash.steps --goals $(or $(GOALS),1000) --store postgresql

crash-plans: $(DEV) system ## stop plans and their rollbacks at every change to a disk (slow; needs root; THIN=9 for every 9th point)
	@$(BIN)/python -m tests.crash.plans --thin $(or $(THIN),1)

crash-web: $(DEV) system ## kill the server at every step of every request, under load and at any moment (slow)
	@$(PYTEST) -m slow_crash tests/crash/web

check: $(CHECKS) ## run the checks: style, types, imports, conformance, schemas, docs, hygiene, structure, words, the agent core's guardrails

check-style: $(DEV)
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@echo "style: ok"

check-types: $(DEV)
	@$(BIN)/mypy

check-imports: $(DEV)
	@$(BIN)/lint-imports --no-logo --cache-dir .cache/import-linter

check-conformance: $(DEV)
	@$(BIN)/python scripts/conformance.py --check

check-schemas: $(DEV)
	@$(BIN)/python -m remit.contracts.schemas --check
	@echo "schemas: ok"

check-docs: $(DEV)
	@$(BIN)/python scripts/generate_reference.py --check
	@echo "docs: ok"

check-hygiene: $(DEV)
	@$(BIN)/python scripts/check_hygiene.py

check-structure: $(DEV)
	@$(BIN)/python scripts/check_structure.py

check-words: $(DEV)
	@$(BIN)/python scripts/check_words.py

check-agent: $(DEV)
	@sh scripts/check_agent_execution_core.sh

# Two gates. A breach of a guardrail must be fixed. A person may waive a service level until a date (remit slo --help).
release: $(DEV) ## build the release in dist, if the guardrails and the service levels are met
	@rm -rf dist
	@sh scripts/check_agent_execution_core.sh || { \
		echo "release: refused: the agent core breaks a guardrail. Fix the violations above and try again." >&2; exit 1; }
	@$(BIN)/remit slo gate || { \
		echo "release: refused: a service level is not met. Fix the cause, or ask a person to waive it until a date, and try again." >&2; \
		exit 1; }
	@$(BIN)/python -m hatchling build --directory dist >/dev/null
	@cd dist && sha256sum -- *

PEERS := .cache/peers/.$(call digest,requirements/peers.txt)

$(PEERS): $(DEV)
	@rm -rf .cache/peers
	@$(BIN)/uv venv --quiet .cache/peers
	@$(BIN)/uv pip install --quiet --python .cache/peers/bin/python --require-hashes -r requirements/peers.txt
	@command -v bwrap >/dev/null || sh scripts/install_packages.sh bubblewrap
	@touch $@

bench: $(PEERS) ## print the figures that the documentation quotes
	@$(BIN)/python bench/all.py

docs: $(DEV) ## regenerate the generated pages
	@$(BIN)/python scripts/conformance.py --write
	@$(BIN)/python scripts/generate_reference.py --write

pins: $(DEV) ## pin the requirements again (PINS=--upgrade for newer versions)
	@$(COMPILE) --extra mcp --extra postgres --extra sql --extra web --group build -o requirements/runtime.txt
	@$(COMPILE) --extra browser --extra mcp --extra otel --extra postgres --extra sql --extra web --group build --group dev -c requirements/runtime.txt -o requirements/dev.txt
	@$(COMPILE) --extra dbt -o requirements/dbt.txt
	@$(COMPILE) --group examples -c requirements/runtime.txt -o requirements/examples.txt
	@$(COMPILE:pyproject.toml=) --group peers -o requirements/peers.txt

clean: ## remove all files that make and the tools have created
	@rm -rf .venv .cache .hypothesis build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
