# Every target does the set-up it needs and nothing twice: finished steps leave stamps in .venv.
# `make help` lists the targets.

PYTHON ?= python3
FUZZ_SECONDS ?= 60
# Tests wait for servers as often as they compute; those of one file share what they start.
WORKERS ?= 2

VENV := .venv
PY := $(VENV)/bin/python
# Targets of `go install`, at the versions the benchmark was written against.
VERSITYGW := .cache/bin/versitygw
VERSITYGW_MODULE := github.com/versity/versitygw/cmd/versitygw@v1.7.0
# HDFS in one JVM, which the tests write to; its version is in the pom.
HDFS := .cache/hdfs/.fetched
HDFS_POM := tests/support/hdfs_server/pom.xml
# Hadoop's key server, likewise.
KMS := .cache/kms/.fetched
KMS_POM := tests/support/kms_server/pom.xml
MAVEN_COPY := org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies
KERNELS := $(shell find orcstream -name '*.pyx' -o -name '*.pxd')

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
# Where it is set, each program that a test starts compiles the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help venv test lint some-servers check check-wheel demo proto fuzz servers bench format clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14

venv: $(VENV)/.kernels ## the virtual environment, with everything the tests need and the kernels built

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "orcstream needs Python 3.11 or newer; name one with: make PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/.groups: pyproject.toml $(VENV)/.created
	$(PY) -m pip install --quiet --group build --group test --group lint
	@touch $@

# The editable install builds the kernels in place; later changes of kernels need only build_ext.
$(VENV)/.installed: pyproject.toml setup.py $(VENV)/.groups
	$(PY) -m pip install --quiet --no-build-isolation --editable .
	@touch $@

$(VENV)/.kernels: $(KERNELS) setup.py $(VENV)/.installed
	@test -z "$$(find $(KERNELS) setup.py -newer $(VENV)/.installed)" || { \
		echo "$(PY) setup.py --quiet build_ext --inplace"; $(PY) setup.py --quiet build_ext --inplace; }
	@touch $@

# Servers are fetched and built while packages are installed. pytest runs last, so its closing line is the last line
# printed. Files in their order: those of few and long tests would come last otherwise, when there is nothing left to
# run beside them.
test: ## lint, types and all tests
	@for tool in java javac; do command -v $$tool >/dev/null || { \
		echo "The tests ask the Java reference implementation; install a JDK (11 or newer): no $$tool on PATH." >&2; \
		exit 1; }; done
	@$(MAKE) --jobs=2 --output-sync venv some-servers lint
	$(PY) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

lint: venv ## ruff and mypy, without the tests
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

# What cannot be had is named here; the tests that need it then say that they did not run.
some-servers:
	@$(MAKE) $(VERSITYGW) || echo "Without versitygw its tests do not run; they name themselves." >&2
	@$(MAKE) $(HDFS) || echo "Without HDFS its tests do not run; they name themselves." >&2
	@$(MAKE) $(KMS) || echo "Without Hadoop's key server its tests do not run; they name themselves." >&2

check: test ## the same as test

check-wheel: venv ## build sdist, wheel from it, and test the installed wheel from an empty folder
	$(PY) scripts/check_wheel.py

demo: venv ## read ORC files from an S3 server started for it, and show what happens; then a pipeline on Spark
	$(PY) examples/demo.py
	$(PY) examples/selecting.py
	$(PY) examples/spark_pipeline.py

proto: venv ## regenerate orcstream/_proto from proto/*.proto
	$(PY) proto/generate.py

fuzz: venv ## feed damaged files to kernels built with AddressSanitizer, for FUZZ_SECONDS
	FUZZ_SECONDS=$(FUZZ_SECONDS) bash scripts/fuzz.sh $(PY)

servers: $(VERSITYGW) $(HDFS) $(KMS) ## the S3 server of the benchmark (needs Go), HDFS and its keys (need Maven)

$(VERSITYGW):
	@command -v go >/dev/null || { \
		echo "The benchmark's S3 server is built with Go (1.25 or newer): no go on PATH." >&2; exit 1; }
	GOBIN=$(CURDIR)/.cache/bin go install $(VERSITYGW_MODULE)

# All jars at once: those of another version must not stay beside them.
$(HDFS): $(HDFS_POM)
$(KMS): $(KMS_POM)
$(HDFS) $(KMS):
	@command -v mvn >/dev/null || { \
		echo "The tests ask servers of Hadoop's, whose jars are fetched by Maven: no mvn on PATH." >&2; exit 1; }
	rm -rf $(@D)
	mvn --batch-mode --quiet --file $< $(MAVEN_COPY) \
		-DincludeScope=runtime -DoutputDirectory=$(CURDIR)/$(@D)
	@touch $@

bench: venv $(VERSITYGW) ## measure against the figures of bench/README.md; ARGS="--quick local" for a part
	$(PY) -m bench.read $(ARGS)

format: venv ## let ruff rewrite what it can
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

clean: ## remove what was built, generated and cached
	rm -rf $(VENV) .cache build dist *.egg-info bench/data
	rm -rf .hypothesis .pytest_cache .mypy_cache .ruff_cache
	find orcstream \( -name '*.c' -o -name '*.so' \) -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
