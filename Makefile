# `make run` shows the main job on real input; `make test` is everything that must stay green.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BENCHES := wire edge accuracy
NATIVE := fabric/headtail_fabric/rans/native

.PHONY: help run test lint types imports unit bench fuzz sanitise firmware-qemu firmware-natmod clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/.run  ## a real detector, cut in two, on a real clip
	$(BIN)/headtail run --out out

test: lint types imports unit  ## lint, types, import rules and all tests

lint: $(VENV)/.dev  ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev $(VENV)/.stubs  ## mypy --strict, and the firmware against its boards' stubs
	$(BIN)/mypy
	$(BIN)/basedpyright -p firmware/types/rp2.json
	$(BIN)/basedpyright -p firmware/types/esp32.json

imports: $(VENV)/.dev  ## import-linter
	$(BIN)/lint-imports

# Many tests wait for processes: two at a time take half as long on two cores.
WORKERS ?= 2
# How often a failing test is run again; each that needed it is named at the end.
RERUNS ?= 0
unit: $(VENV)/.dev  ## pytest, the system tests with real processes and sockets included
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --reruns $(RERUNS) -rR

bench: $(VENV)/.dev  ## every benchmark; figures go to out/bench-NAME.json
	mkdir -p out
	for name in $(BENCHES); do $(BIN)/headtail bench $$name --json out/bench-$$name.json || exit 1; done

TARGET ?= wire
INPUTS ?= 1000000
fuzz: $(VENV)/.dev  ## optional: a parser under mutated input; TARGET=wire INPUTS=1000000
	PYTHONPATH=tests/support $(BIN)/python -m fuzzing $(TARGET) --inputs $(INPUTS)

SANITISED := -std=c11 -O1 -g -fwrapv -fsanitize=address,undefined -fno-sanitize-recover=all
sanitise: $(VENV)/.dev  ## optional: the entropy coder's kernels in C under sanitisers (gcc)
	$(CC) $(SANITISED) -shared -fPIC $(NATIVE)/kernels.c -o $(NATIVE)/_kernels.so
	LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so)" \
		ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc \
		$(BIN)/pytest -p no:xdist tests/fabric/test_rans_native.py tests/fabric/test_rans_coder.py; \
		status=$$?; $(BIN)/pip install -q --no-deps -e .; exit $$status

firmware-qemu: $(VENV)/.dev  ## optional: the firmware on an emulated Cortex-M3, built from Debian's source
	firmware/emulated/build.sh
	$(BIN)/pytest tests/firmware/test_firmware_emulated.py -rs
	$(BIN)/pytest tests/firmware/test_firmware_memory.py tests/firmware/test_firmware_front_costs.py -rs -m "long or not long"
	$(BIN)/headtail bench mcu

firmware-natmod: $(VENV)/.dev  ## optional: the firmware's kernels in C, as native modules
	firmware/natmod/build.sh
	$(BIN)/pytest tests/firmware/test_firmware_natmod.py -rs -m "long or not long"
	$(BIN)/headtail bench mcu

clean:  ## remove what was installed and made here
	rm -rf $(VENV) out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .import_linter_cache

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("Headtail needs Python 3.11 or later") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

KERNELS := $(NATIVE)/kernels.c tools/hatch_build.py
$(VENV)/.run: $(BIN)/python pyproject.toml $(KERNELS)
	$(BIN)/pip install -q -e '.[build]'
	touch $@

# A release that exists for the CPU alone: without it pip takes gigabytes of CUDA.
$(VENV)/.dev: $(BIN)/python pyproject.toml $(KERNELS)
	$(BIN)/pip install -q torch==2.13.0
	$(BIN)/pip install -q -e '.[dev]'
	touch $@ $(VENV)/.run

# What MicroPython's modules look like on each board; beside each other, since they differ.
$(VENV)/.stubs: $(BIN)/python
	$(BIN)/pip install -q --upgrade --target $(VENV)/stubs/rp2 micropython-rp2-rpi_pico_w-stubs==1.29.0.post1
	$(BIN)/pip install -q --upgrade --target $(VENV)/stubs/esp32 micropython-esp32-esp32_generic_s3-stubs==1.29.0.post1
	touch $@
