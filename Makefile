# Everything here needs Python >= 3.11 and make. The first target that needs packages creates .venv from the pinned set
# in constraints.txt; later calls reuse it until pyproject.toml or constraints.txt change.
#
#   make train                                   PPO on CartPole-v1, two sampler workers, about a minute
#   make train ALGO=ppo ENV=ALE/Pong-v5 ARGS="--steps 1500000 --seed 1"
#   make test                                    lint, types, fast tests (JOBS=2: in two processes)

ALGO   ?= ppo
ENV    ?= CartPole-v1
ARGS   ?=
JOBS   ?= 3
FAULTS ?= 200
PYTHON ?= python3
# For example PIP_ARGS="--extra-index-url https://download.pytorch.org/whl/cpu" for the small CPU-only torch.
PIP_ARGS ?=

VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
EXTRAS := dev,docs,fast,plot,atari,minatar,mujoco,envpool,tensorboard,wandb,mlflow,trackio,ray,sweep,optuna,slurm,hub,onnx
PYTEST := $(BIN)/python -m pytest

.PHONY: help install train test fast test-slow test-gpu test-portable soak check-package lint format docs bench clean

help:
	@echo "make train [ALGO=ppo ENV=CartPole-v1 ARGS='--steps 100000']   train, evaluate, record a video"
	@echo "make test         ruff, mypy and the fast tests (what .ci/run calls)"
	@echo "make test-slow    learning runs and fault storms; make test-gpu: what needs CUDA"
	@echo "make test-portable   exactness, layouts, resuming and numerics as on other CPUs (PROFILES='sse avx2')"
	@echo "make soak         random faults in samplers, runs and sweeps (FAULTS=200)"
	@echo "make check-package   build and install the package, as strangers get it; its tests"
	@echo "make lint         ruff and mypy alone; make format: let ruff rewrite"
	@echo "make docs         the documentation site, in docs/_build"
	@echo "make bench        steps per second of sampling and training"
	@echo "make clean        remove caches and build products (not .venv, not data/)"

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "rlpyt needs Python 3.11 or newer; PYTHON=$(PYTHON) is: $$($(PYTHON) --version 2>&1)."; \
	  echo "Install one, or name it: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "Could not create $(VENV). On Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@echo "Installing the pinned packages into $(VENV) (once; the first time takes minutes)."
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet $(PIP_ARGS) -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@

train: $(STAMP)
	@$(BIN)/rlpyt train $(ALGO) $(ENV) $(ARGS)

# Lint uses one processor, and so does the first reading of the test files; pytest-xdist would read them in each process.
test: $(STAMP)
	@$(MAKE) --no-print-directory -j2 lint fast

fast: $(STAMP)
	@$(PYTEST) --collect-only -qq > /dev/null || true
	$(PYTEST) -n $(JOBS) --dist loadfile --no-loadscope-reorder

test-slow: $(STAMP)
	$(PYTEST) -m slow --timeout=3600

test-portable: $(STAMP)
	$(BIN)/python tests/portable.py $(PROFILES) -- -n $(JOBS) --dist loadfile

check-package: $(STAMP)
	$(BIN)/python -m tests.check_package

soak: $(STAMP)
	$(BIN)/python -m tests.soak.chaos --faults $(FAULTS)
	$(BIN)/python -m benchmarks.chaos_sweep

test-gpu: $(STAMP)
	$(PYTEST) -m gpu

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP)
	$(BIN)/python -m sphinx -q -W --keep-going docs docs/_build
	@echo "docs/_build/index.html"

bench: $(STAMP)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet $(PIP_ARGS) -c constraints.txt -e '.[bench]'
	$(BIN)/python -m benchmarks.sampling
	$(BIN)/python -m benchmarks.training

clean:
	rm -rf build dist docs/_build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
