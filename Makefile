# Every target does the set-up it needs and nothing twice: finished steps leave stamps in .venv.
# `make help` lists the targets.

PYTHON ?= python3
FUZZ_SECONDS ?= 60
SOAK_SECONDS ?= 600
# Tests wait for servers as often as they compute; those of one file share what they start. A worker that ends ends the
# run: pytest-xdist would wait for its files without end.
WORKERS ?= 2

VENV := .venv
PY := $(VENV)/bin/python
# Which versions of other packages: locked (requirements/), newest (that pyproject.toml allows) or oldest (declared
# there). Each needs a virtual environment of its own.
VERSIONS := locked
# With hashes, and built with the locked setuptools where a package has no wheel.
LOCKED := --no-build-isolation --require-hashes
ifeq ($(VERSIONS),newest)
BUILD_NEEDS := --upgrade --group build
TEST_NEEDS := --upgrade --upgrade-strategy eager --requirement $(VENV)/.needs --group test --group lint
else
BUILD_NEEDS := --require-hashes --requirement requirements/build.txt
TEST_NEEDS := $(LOCKED) --requirement requirements/$(if $(filter oldest,$(VERSIONS)),oldest,test).txt
endif
# Targets of `go install`, at the versions the tests and the benchmark were written against.
VERSITYGW := .cache/bin/versitygw
VERSITYGW_MODULE := github.com/versity/versitygw/cmd/versitygw@v1.7.0
# A proxy that delays, cuts and drops what goes through it.
TOXIPROXY := .cache/bin/toxiproxy
TOXIPROXY_MODULE := github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0
# What debuggers want is not linked, which takes seconds.
NO_SYMBOLS := -s -w
PYTEST = $(PY) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart=0 $(if $(ORCSTREAM_TEST_ALL),--timeout=900) $(PYTEST_ARGS)
NEED_GO := command -v go >/dev/null || { \
	echo "S3 and the proxy of the tests are built with Go (1.25 or newer): no go on PATH." >&2; exit 1; }
# HDFS in one JVM, which the tests write to; its version is in the pom.
HDFS := .cache/hdfs/.fetched
HDFS_POM := tests/servers/hdfs_server/pom.xml
# Hadoop's key server, likewise.
KMS := .cache/kms/.fetched
KMS_POM := tests/servers/kms_server/pom.xml
# Hive and its metastore, likewise.
HIVE := .cache/hive/.fetched
HIVE_POM := tests/servers/hive_server/pom.xml
# What Spark's own reader needs for S3, which is measured against.
HADOOP_AWS := .cache/hadoop_aws/.fetched
HADOOP_AWS_POM := bench/hadoop_aws/pom.xml
# The web server, where the system has none: on PATH, or where Debian has it, which is not on that of users.
HAS_NGINX := $(shell PATH="$$PATH:/usr/sbin:/usr/local/sbin" command -v nginx)
NGINX := $(if $(HAS_NGINX),,.cache/nginx/usr/sbin/nginx)
# The browser, likewise.
HAS_CHROMIUM := $(shell command -v chromium-headless-shell || command -v chromium || command -v google-chrome)
CHROMIUM := $(if $(HAS_CHROMIUM),,.cache/chromium/usr/lib/chromium/chromium-headless-shell)
# The shells that complete commands; bash runs these recipes.
SHELLS := $(if $(shell command -v zsh),,.cache/zsh/bin/zsh) $(if $(shell command -v fish),,.cache/fish/usr/bin/fish)
# It lives for seconds: a second compiler does not pay.
MAVEN_JVM := -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
MAVEN_COPY := org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies
KERNELS := $(shell find orcstream -name '*.pyx' -o -name '*.pxd')

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
# Where it is set, each program that a test starts compiles the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help venv lock test test-newest test-oldest test-all lint-verdict lint docs some-servers check check-wheel check-integrations demo proto fuzz soak servers bench format clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14

venv: $(VENV)/.groups $(VENV)/.kernels ## the virtual environment, with everything the tests need and the kernels built

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "orcstream needs Python 3.11 or newer; name one with: make PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(if $(filter newest,$(VERSIONS)),$(PY) -m pip install --quiet --upgrade 'pip>=25.1')
	@touch $@

$(VENV)/.building: pyproject.toml requirements/build.txt $(VENV)/.created
	$(PY) -m pip install --quiet --no-compile $(BUILD_NEEDS)
	@touch $@

# What the package itself needs comes along, since mypy reads it too. Not compiled to bytecode: little of it is
# ever imported, and that is compiled then. The Spark wheel that pip makes of what PyPI has is 450 MB of archives,
# which are not compressed again.
$(VENV)/.groups: pyproject.toml $(wildcard requirements/*.txt) $(VENV)/.building
	@$(PY) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")' \
		> $(VENV)/.needs
	@printf '[bdist_wheel]\ncompression = stored\n' > $(VENV)/.wheels
	DIST_EXTRA_CONFIG=$(CURDIR)/$(VENV)/.wheels \
		$(PY) -m pip install --quiet --no-compile $(TEST_NEEDS)
	@touch $@

# The editable install builds the kernels in place; later changes of kernels need only build_ext. It needs nothing
# of what is installed beside it.
$(VENV)/.installed: pyproject.toml setup.py $(VENV)/.building
	$(PY) -m pip install --quiet --no-build-isolation --no-deps --editable .
	@touch $@

$(VENV)/.kernels: $(KERNELS) setup.py $(VENV)/.installed
	@test -z "$$(find $(KERNELS) setup.py -newer $(VENV)/.installed)" || { \
		echo "$(PY) setup.py --quiet build_ext --inplace"; $(PY) setup.py --quiet build_ext --inplace; }
	@touch $@

# The lock of every package that tests, lint and documentation use, with hashes.
lock: $(VENV)/.created ## update requirements/: the newest versions that pyproject.toml allows, and the oldest
	$(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/pip install --quiet --upgrade 'pip>=25.1'
	$(VENV)/lock/bin/pip install --quiet --group lock
	$(VENV)/lock/bin/python scripts/lock.py

# Servers are fetched, packages installed, kernels built and the source linted side by side. If lint passes, pytest's
# closing line is the last line printed; if not, lint's findings and both verdicts follow it. Files in their order: those of few and long tests would come last otherwise, when there is nothing left to
# run beside them.
test: ## all tests, and lint
	@for tool in java javac; do command -v $$tool >/dev/null || { \
		echo "The tests ask the Java reference implementation; install a JDK (11 or newer): no $$tool on PATH." >&2; \
		exit 1; }; done
	@$(MAKE) --jobs=4 --output-sync venv $(if $(ORCSTREAM_REQUIRE_SERVERS),servers,some-servers) lint-verdict
	@echo "$(PYTEST)"; tests=passed; $(PYTEST) || tests=FAILED; \
	if [ -s $(VENV)/lint.txt ]; then \
		cat $(VENV)/lint.txt; echo "tests: $$tests; lint: FAILED, as shown above"; exit 1; \
	fi; \
	[ $$tests = passed ]

# Failing, it stops nothing: what it found is shown after the tests. Old packages have other types.
lint-verdict: $(VENV)/.groups
	@rm -f $(VENV)/lint.txt
	@$(if $(filter oldest,$(VERSIONS)),true,$(MAKE) lint >$(VENV)/lint.running 2>&1 \
		&& echo "lint: passed" || mv $(VENV)/lint.running $(VENV)/lint.txt)

test-newest: ## the same with the newest versions of other packages, which the lock may not have yet
	@rm -f .venv-newest/.building .venv-newest/.groups
	@$(MAKE) test VERSIONS=newest VENV=.venv-newest

# Another Python has no wheels of the oldest versions.
test-oldest: ## the same tests with the oldest versions of other packages that pyproject.toml allows; needs Python 3.11
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' \
		|| { echo "the oldest versions need Python 3.11; name one with: make PYTHON=... test-oldest" >&2; exit 1; }
	@$(MAKE) test VERSIONS=oldest VENV=.venv-oldest

# It needs no kernels, which are built beside it. Workers of mypy give up on a busy machine before they have started.
lint: $(VENV)/.groups ## ruff and mypy, without the tests
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

# The reference shows signatures as the package makes them, so that is built first. Without --quiet, which would keep warnings
# from being counted.
docs: venv $(VENV)/.docs ## the site of the documentation, into build/site
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict

$(VENV)/.docs: pyproject.toml requirements/docs.txt $(VENV)/.building
	$(PY) -m pip install --quiet --no-compile $(LOCKED) --requirement requirements/docs.txt
	@touch $@

# What cannot be had is named here, and the tests that need it at their end.
some-servers:
	@$(MAKE) $(VERSITYGW) || echo "Without versitygw its tests do not run." >&2
	@$(MAKE) $(TOXIPROXY) || echo "Without toxiproxy its tests do not run." >&2
	@$(MAKE) $(HDFS) || echo "Without HDFS its tests do not run." >&2
	@$(MAKE) $(KMS) || echo "Without Hadoop's key server its tests do not run." >&2
	@$(MAKE) $(HIVE) || echo "Without Hive its tests do not run." >&2
	@$(if $(NGINX),$(MAKE) $(NGINX),true) || echo "Without nginx its tests do not run." >&2
	@$(if $(CHROMIUM),$(MAKE) $(CHROMIUM),true) || echo "Without Chromium its tests do not run." >&2
	@$(if $(strip $(SHELLS)),$(MAKE) $(SHELLS),true) || echo "Without zsh and fish their tests do not run." >&2

check: test ## the same as test

test-all: ## everything there is, each part although others fail, and a table at the end (half an hour)
	@$(PYTHON) scripts/test_all.py

check-wheel: venv ## build sdist, wheel from it, and test the installed wheel from an empty folder
	$(PY) scripts/check_wheel.py

check-integrations: venv ## docs/integrations.md by the wheel with one extra each, in fresh environments; ARGS="dask" for one
	$(PY) scripts/check_integrations.py $(ARGS)

demo: venv ## read ORC files from an S3 server started for it, and show what happens; then a pipeline on Spark
	$(PY) examples/demo.py
	$(PY) examples/selecting.py
	$(PY) examples/spark_pipeline.py

proto: venv ## regenerate orcstream/_proto from proto/*.proto
	$(PY) proto/generate.py

fuzz: venv ## feed damaged files to kernels built with AddressSanitizer, for FUZZ_SECONDS
	FUZZ_SECONDS=$(FUZZ_SECONDS) bash scripts/fuzz.sh $(PY)

soak: venv $(VERSITYGW) $(TOXIPROXY) ## readers and writers on a store and a network that fail, for SOAK_SECONDS
	$(PY) -m tests.soak --seconds $(SOAK_SECONDS)

# An S3 server and a network that fails (need Go), HDFS, its key server and Hive (need Maven), a web server and a browser
# (need Debian, or to be on PATH).
servers: $(VERSITYGW) $(TOXIPROXY) $(HDFS) $(KMS) $(HIVE) $(NGINX) $(CHROMIUM) $(SHELLS) ## the servers of tests and benchmarks, built or fetched into .cache

$(VERSITYGW):
	@$(NEED_GO)
	GOBIN=$(CURDIR)/.cache/bin go install -ldflags='$(NO_SYMBOLS)' $(VERSITYGW_MODULE)

# Its program is called "server".
$(TOXIPROXY):
	@$(NEED_GO)
	GOBIN=$(CURDIR)/.cache/toxiproxy go install -ldflags='$(NO_SYMBOLS)' $(TOXIPROXY_MODULE)
	@mkdir -p $(@D) && mv .cache/toxiproxy/server $@ && rmdir .cache/toxiproxy

# All jars at once: those of another version must not stay beside them.
$(HDFS): $(HDFS_POM)
$(KMS): $(KMS_POM)
$(HIVE): $(HIVE_POM)
$(HADOOP_AWS): $(HADOOP_AWS_POM)
$(HDFS) $(KMS) $(HIVE) $(HADOOP_AWS):
	@command -v mvn >/dev/null || { echo "These jars are fetched by Maven: no mvn on PATH." >&2; exit 1; }
	rm -rf $(@D)
	MAVEN_OPTS="$(MAVEN_JVM)" mvn --batch-mode --quiet --file $< $(MAVEN_COPY) \
		-DincludeScope=runtime -DoutputDirectory=$(CURDIR)/$(@D)
	@touch $@

.cache/nginx/usr/sbin/nginx:
	bash scripts/fetch_debian.sh $(CURDIR)/.cache/nginx nginx

.cache/chromium/usr/lib/chromium/chromium-headless-shell:
	bash scripts/fetch_debian.sh $(CURDIR)/.cache/chromium chromium-headless-shell

.cache/zsh/bin/zsh:
	bash scripts/fetch_debian.sh $(CURDIR)/.cache/zsh zsh

.cache/fish/usr/bin/fish:
	bash scripts/fetch_debian.sh $(CURDIR)/.cache/fish fish

bench: venv $(VERSITYGW) ## measure against the figures of bench/README.md; ARGS="--quick local" for a part
	@$(MAKE) $(HADOOP_AWS) || echo "Without hadoop-aws, Spark's own reader is not measured on S3." >&2
	$(PY) -m bench.read $(ARGS)

format: venv ## let ruff rewrite what it can
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

clean: ## remove what was built, generated and cached
	rm -rf .venv .venv-newest .venv-oldest .cache build dist *.egg-info bench/data
	rm -rf .hypothesis .pytest_cache .mypy_cache .ruff_cache
	find orcstream \( -name '*.c' -o -name '*.so' \) -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
