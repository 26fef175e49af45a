# Everything here works on a fresh machine that has Python 3.11 or newer, git and make:
# the virtual environment is made and filled on first use.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "enginewatch needs Python 3.11 or newer; say which with PYTHON=python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

.PHONY: venv
venv: $(READY) ## Make the virtual environment

# Without ENGINE a recorded incident of a real vLLM server is served as if it were live:
# forty quiet seconds, then a flood of long prompts, and quiet again.
.PHONY: run
run: $(READY) ## Watch ENGINE=http://host:8000, or a recorded incident when none is given
ifdef ENGINE
	$(BIN)/enginewatch run $(ENGINE)
else
	$(BIN)/enginewatch replay tests/data/vllm-prefill-flood.prom.xz \
	  --speed 1 --from 140s --until 265s --watch
endif

# Test files side by side. More jobs than cores make servers and deadlines miss each other.
JOBS ?= 2

.PHONY: test
test: $(READY) ## The whole test suite, linters and types included
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile
	$(MAKE) lint

.PHONY: lint
lint: $(READY) ## Style, types, and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: chaos
chaos: $(READY) ## Induce each hazard and see the page come and go; TARGET=staging.yml NAME=... for yours
	$(BIN)/python -m pytest chaos/ $(if $(TARGET),--target $(TARGET) --i-mean '$(NAME)')

# Seconds of ordinary load in which nobody may be paged.
QUIET_FOR ?= 3600

.PHONY: soak
soak: $(READY) ## The crash tests, long: killed 150 times; then an hour of load without an alert
	$(BIN)/python -m tests.soak
	$(BIN)/python -m pytest chaos/ -k load_alone --quiet-for $(QUIET_FOR)

.PHONY: bench
bench: $(READY) ## Speed and memory beside the peers, as tables
	$(BIN)/python -m bench

# vLLM has a virtual environment of its own (chaos/fp4/README.md); this names its Python.
FP4_VLLM_PYTHON ?=

.PHONY: fp4-proof
fp4-proof: $(READY) ## FP4 damage on real vLLM: what the canary says, and after how many answers
	PYTHONPATH=chaos $(BIN)/python -m chaos.fp4.prove --vllm "$(FP4_VLLM_PYTHON)" \
	  --out $(or $(OUT),fp4-proof-out)

# Runs under the Python that has PyTorch, which need not be this project's; what it lacks of the
# daemon's dependencies is taken from GPU_SITE. GPU_CHECK=--pretend runs it on a simulated driver.
GPU_PYTHON ?= python3
GPU_SITE   ?= /tmp/enginewatch-site
GPU_WHEELS := annotated-types apscheduler google-re2 nvidia-ml-py sniffio starlette tenacity \
              typing-inspection tzlocal uvicorn

.PHONY: gpu-check
gpu-check: ## Real GPU: readings, an out-of-memory, a stopped process; saves what it saw
	@[ ! -d gpu-wheels ] || $(GPU_PYTHON) -m pip install --quiet --no-index --no-deps \
	  --no-cache-dir --upgrade --target $(GPU_SITE) gpu-wheels/*.whl
	PYTHONPATH=watchdog:chaos:.:$(GPU_SITE) $(GPU_PYTHON) -m tests.gpu.check \
	  --out $(or $(OUT),gpu-check-out) $(GPU_CHECK)

.PHONY: gpu-memory
gpu-memory: ## Real GPU: what preflight says a model needs, against what it takes
	@[ ! -d gpu-wheels ] || $(GPU_PYTHON) -m pip install --quiet --no-index --no-deps \
	  --no-cache-dir --upgrade --target $(GPU_SITE) gpu-wheels/*.whl
	PYTHONPATH=watchdog:.:$(GPU_SITE) $(GPU_PYTHON) -m tests.gpu.memory \
	  --out $(or $(OUT),gpu-check-out) $(GPU_CHECK)

# chaos/gpu/README.md says what it does, and how it is run without a GPU.
GPU_STALL = --backend nccl --gpus $$(nvidia-smi --list-gpus | wc -l)

.PHONY: gpu-stall
gpu-stall: ## Real ranks over NCCL on every GPU: stopped, killed and delayed, against NCCL's own words
	@[ ! -d gpu-wheels ] || $(GPU_PYTHON) -m pip install --quiet --no-index --no-deps \
	  --no-cache-dir --upgrade --target $(GPU_SITE) gpu-wheels/*.whl
	PYTHONPATH=watchdog:chaos:.:$(GPU_SITE) $(GPU_PYTHON) -m chaos.gpu.stall \
	  --out $(or $(OUT),gpu-stall-out) $(GPU_STALL)

.PHONY: gpu-wheels
gpu-wheels: $(READY) ## Wheels for gpu-check on a machine without network (x86-64, Python 3.12)
	$(BIN)/python -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.12 \
	  --implementation cp $(foreach n,17 27 28 34,--platform manylinux_2_$(n)_x86_64) \
	  --platform manylinux2014_x86_64 --dest gpu-wheels $(GPU_WHEELS) \
	  pydantic==$$($(BIN)/python -c 'import pydantic; print(pydantic.VERSION)') \
	  pydantic-core==$$($(BIN)/python -c 'import pydantic_core; print(pydantic_core.__version__)')

# Compiled where nvcc is, loaded where a GPU is: the folder is all that has to travel.
.PHONY: gpu-cubins
gpu-cubins: ## Compile the images that gpu-cubins-check loads (needs nvcc 13)
	PYTHONPATH=watchdog:. $(GPU_PYTHON) -m tests.gpu.cubins build gpu-cubins

.PHONY: gpu-cubins-check
gpu-cubins-check: ## Real GPU: does the driver load what preflight says it loads?
	PYTHONPATH=watchdog:. $(GPU_PYTHON) -m tests.gpu.cubins check gpu-cubins \
	  --out $(or $(OUT),gpu-check-out)

.PHONY: clean
clean: ## Remove the virtual environment and everything made by tools
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
