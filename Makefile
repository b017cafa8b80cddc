# The two commands of the README are `make quickstart` and `make test`; each does all of its own set-up.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
ROOT ?= quickstart-data
CLUSTER ?= slurm
SEED ?= 1
MINUTES ?= 10
VENV := .venv
BIN := $(VENV)/bin

# A value as one word of a shell, spaces and quotes included.
quoted = '$(subst ','\'',$(1))'

.PHONY: quickstart test soak test-slurm fuzz slurm-pool lint ui automations report browse screenshots settings benchmark lock clean

quickstart: $(VENV)/.ready
	$(BIN)/python -m flows.quickstart --root $(call quoted,$(ROOT))

test: lint
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slurm" tests
	$(MAKE) test-slurm

# On a real Slurm, started for the tests; skipped where it is not installed (tests/slurm/install.sh), unless CI=true.
test-slurm: $(VENV)/.ready
	$(BIN)/python -m pytest -n 2 --dist loadfile -m slurm tests/slurm

# Kill whole flows at random moments, start them again, and compare with an undisturbed run; prints figures.
soak: $(VENV)/.ready
	$(BIN)/python -m tests.soak --seed $(call quoted,$(SEED)) --minutes $(call quoted,$(MINUTES))

# The Slurm work pool on the server of PREFECT_API_URL, with the defaults of a cluster profile.
slurm-pool: $(VENV)/.ready
	$(BIN)/datacomp-energon pool --name slurm --cluster $(call quoted,$(CLUSTER))

# Fuzz the readers of hostile bytes for a while; what breaks one is kept in tests/fuzz/corpus.
FUZZ_EXAMPLES ?= 20000
fuzz: $(VENV)/.ready
	FUZZ_EXAMPLES=$(call quoted,$(FUZZ_EXAMPLES)) $(BIN)/python -m pytest -q tests/fuzz

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

ui: $(VENV)/.ready
	$(BIN)/datacomp-energon ui

# Tell people of runs that failed, stalled or completed; NOTIFY names a notification block of the server.
automations: $(VENV)/.ready
	$(BIN)/datacomp-energon automations $(if $(NOTIFY),--notify $(call quoted,$(NOTIFY)))

report: $(VENV)/.ready
	$(BIN)/python -m flows.report --root $(call quoted,$(ROOT))

browse: $(VENV)/.ready
	$(BIN)/datacomp-energon browse --dataset $(call quoted,$(ROOT)/energon)

# Of report and viewer on the quickstart's data; needs Chromium (tests/browser/install.sh).
screenshots: $(VENV)/.ready
	$(BIN)/python -m tests.browser.screenshots --root $(call quoted,$(ROOT)) --folder build/screenshots

settings: $(VENV)/.ready
	$(BIN)/datacomp-energon settings > docs/settings.md

# The marker is written last, so that a set-up that was cut short is done again.
$(VENV)/.ready: pyproject.toml constraints.txt
	@test ! -L $(VENV) || { echo '$(VENV) is a link to an environment that others use: delete the link'; exit 1; }
	$(call quoted,$(PYTHON)) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

# Resolve the newest versions that pyproject.toml admits, and write them down.
lock:
	$(call quoted,$(PYTHON)) -m venv --clear build/lock
	build/lock/bin/python -m pip install --quiet '.[dev]'
	build/lock/bin/python -m pip freeze --exclude datacomp-energon | sed 's/+cpu$$//' > constraints.txt

clean:
	rm -rf $(VENV) build *.egg-info

benchmark: $(VENV)/.ready
	$(BIN)/python -m benchmarks.run
