# make gate judges a target, make check is what one runs before a commit, make test runs every test of the project. Each
# sets up as much of $(VENV) as it needs.
# With VENV= (empty) they use the python3 on the PATH, which must have everything already.
VENV ?= .venv
TARGET ?= auto
PROFILE ?= quick
SEED ?= 0
WORKERS ?= auto
SANITIZER ?= compute-sanitizer
TOOLS ?= memcheck initcheck
PART ?= conformance/gate
PROFILES_OF_WRITERS := vllm-03b60164 vllm-triton flashmla arbitrary-tiles

ifeq ($(strip $(VENV)),)
PYTHON := python3
CORE :=
READY :=
else
PYTHON := $(VENV)/bin/python
CORE := $(VENV)/core
READY := $(VENV)/ready
endif

# On a machine without a GPU these targets need neither torch nor CuPy, nor what only the tests of the project need.
SMALL := $(if $(wildcard /dev/nvidia0 /dev/dxg),,$(filter auto numpy host host-% host:%,$(TARGET)))

PYTEST := $(PYTHON) -m pytest -n $(WORKERS)

# A slice of the tests: the structure, the models against each other, and most chapters on the host.
SLICE := $(addprefix conformance/selfcheck/test_,structure.py models.py twin_models.py records.py scalars.py kernel_ops.py) \
    $(addprefix conformance/gate/test_,calls.py read.py random.py geometry.py memory.py shard.py twin.py write.py merge.py)

.PHONY: gate check slice test faults lint sanitize gpu bench setup clean
.DEFAULT_GOAL := gate

gate: $(if $(SMALL),$(CORE),$(READY))
	$(PYTEST) conformance/gate --target $(TARGET) --profile $(PROFILE) --seed $(SEED) --report-dir reports

check: $(READY)
	$(MAKE) --no-print-directory --jobs 2 --output-sync=target lint slice

slice: $(READY)
	$(PYTEST) $(SLICE) --target host --partial-ok -m "not long and not heavy"

test: lint
	$(PYTEST) --target host --target numpy --target torch

# Every fault and every changed copy of the CUDA sources, by all tests of its kind: some hours of one core, for a nightly
# run. Writes reports/faults.md and reports/faults.json, and the lines of docs/faults.md.
faults: $(READY)
	$(PYTEST) conformance/selfcheck/test_mutants.py --profile nightly
	$(PYTHON) -m conformance faults

lint: $(READY)
	$(PYTHON) -m ruff check
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m mypy

# Fails on any report of compute-sanitizer, which a CUDA toolkit brings. racecheck and synccheck are for kernels that use
# shared memory or barriers.
sanitize: $(READY)
	@for tool in $(TOOLS); do \
	    echo "compute-sanitizer $$tool, target $(TARGET)"; \
	    $(SANITIZER) --tool $$tool --error-exitcode 70 --print-limit 10 $(PYTHON) -m pytest $(PART) -n 0 \
	        -m "not unsanitized" -p no:cacheprovider --exact-memory --partial-ok --require cuda --target $(TARGET) --seed $(SEED) || exit 1; \
	done

# Everything that needs a GPU.
gpu: $(READY)
	$(PYTEST) conformance/gate --target cuda --target cuda-plain --require cuda --report-dir reports
	$(PYTEST) conformance/gate/test_write.py conformance/gate/test_write_calls.py --require cuda --partial-ok \
	    $(foreach profile,$(PROFILES_OF_WRITERS),--target cuda-$(profile))
	for profile in $(PROFILES_OF_WRITERS); do $(PYTHON) -m conformance identify --target cuda-$$profile || exit 1; done
	$(PYTHON) -m pytest -n 0 $(wildcard conformance/selfcheck/test_*_gpu.py) conformance/selfcheck/test_bench_device.py \
	    conformance/selfcheck/test_memory_bits.py
	$(MAKE) sanitize TARGET=cuda
	$(PYTHON) -m conformance bench --target cuda --target cuda-plain

bench: $(READY)
	$(PYTHON) -m conformance bench

setup: $(READY)

# Without the stamp of the core the environment is made anew, so that a broken installation is never taken for a finished
# one. Python compiles what is imported; to compile all of it takes longer than to judge.
PIP := $(PYTHON) -m pip --disable-pip-version-check install --quiet --no-compile --constraint constraints.txt

$(VENV)/core: pyproject.toml constraints.txt
	python3 -m venv --clear $(VENV)
	$(PIP) --editable .
	touch $@

$(VENV)/ready: $(VENV)/core
	rm $<
	$(PIP) --editable '.[dev]'
	touch $< $@

clean:
	rm -rf $(VENV) reports .pytest_cache .mypy_cache .ruff_cache .hypothesis
