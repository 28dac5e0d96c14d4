# Plumbline's chores.
#
#   make run     set up, start the stack with the sample portal, and say where the search page is
#   make setup   set up only: .venv, the Elasticsearch plugin and node, a browser
#   make test    the whole suite, with a real node and a real browser
#   make faults  the long set of faults: 200 kills of processes among others; about an hour
#   make check   format, lint, types and quick tests: before each commit
#   make rehearse   run docker-compose.yml without a container engine (as root; see tests/docker/rehearse.py)
#   make lock    pin anew what pyproject.toml asks for
#   make clean   remove what make has built (not the state of a stack)
#
# It needs Python 3.11 or newer, Maven, and a JDK of version 21 or newer. Settings of pip, Maven and apt are honoured.

SHELL := /bin/sh
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help run setup test faults check lock clean plugin-test rehearse

ifndef PYTHON
PYTHON := $(shell for name in python3 python3.14 python3.13 python3.12 python3.11; do \
  $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)
endif
VENV := .venv
BIN := $(VENV)/bin
PLUGIN := services/elasticsearch/analysis-jieba
PLUGIN_SOURCES := $(shell find $(PLUGIN) -type f -not -path '$(PLUGIN)/target/*' -not -name '*.md')
PIP_TOOLS := pip-tools==7.6.2

# A stamp is named by what it stands for, so that neither a checkout's times nor an older copy can mislead it.
INSTALLED := $(VENV)/installed-$(shell cat requirements-dev.lock pyproject.toml | cksum | cut -d' ' -f1)
BUILT := $(PLUGIN)/target/built

# A JDK for Maven that is new enough, whatever `java` is on the path.
MAVEN = JAVA_HOME="$$($(BIN)/python -m services.java)" && export JAVA_HOME && mvn -B -q -Dstyle.color=never -f $(PLUGIN) -Dpython=$(abspath $(BIN)/python)

export PIP_DISABLE_PIP_VERSION_CHECK := 1

help:
	@sed -n 's/^#   //p' Makefile

run: setup
	@exec $(BIN)/plumbline up --sample

setup: $(INSTALLED) $(BUILT)
	@$(BIN)/python -m services.prerequisites

test: setup plugin-test
	$(BIN)/pytest

faults: setup
	$(BIN)/pytest tests/faults --long
	@$(BIN)/python -m tests.faults.campaign

check: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -q -m 'not node and not browser and not postgres and not slow'

plugin-test: $(BUILT)
	$(MAVEN) test

rehearse: setup
	$(BIN)/python tests/docker/rehearse.py

lock: $(INSTALLED)
	$(BIN)/pip install -q $(PIP_TOOLS)
	PIP_FIND_LINKS= $(BIN)/pip-compile -q --generate-hashes --allow-unsafe --strip-extras --no-header --no-annotate \
	  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --extra dev -o requirements-dev.lock pyproject.toml
	sed -i '/^plumbline @/d' requirements-dev.lock
	$(BIN)/pip install -q --require-hashes -r requirements-dev.lock
	$(BIN)/pip install -q --no-deps -e .
	$(BIN)/python -m services.docker.locks

clean:
	rm -rf $(VENV) $(PLUGIN)/target .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info

# pip may find other builds of a package in a folder that PIP_FIND_LINKS names; their hashes are not the pinned ones,
# so without that folder it is tried once more.
$(INSTALLED): requirements-dev.lock pyproject.toml
	@test -n "$(PYTHON)" && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or newer is missing; install it, for example by: sudo apt-get install python3 python3-venv" >&2; \
	  exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "Python's venv module is missing; install it, for example by: sudo apt-get install python3-venv" >&2; exit 1; }
	@echo "installing Python packages into $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install -q --require-hashes -r requirements-dev.lock \
	  || PIP_FIND_LINKS= $(BIN)/pip install -q --require-hashes -r requirements-dev.lock
	@$(BIN)/pip install -q --no-deps -e .
	@touch $@

$(BUILT): $(PLUGIN_SOURCES) | $(INSTALLED)
	@command -v mvn >/dev/null || { \
	  echo "Maven is missing; install it, for example by: sudo apt-get install maven" >&2; exit 1; }
	@$(BIN)/python -m services.java >/dev/null
	@echo "building the Elasticsearch plugin"
	@$(MAVEN) package -DskipTests
	@touch $@
