# The commands of the README. All work on a bare machine with python3 >= 3.11 and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo docs test test-slow results lint types campaign clean

demo: $(VENV)/.installed-demo
	@$(BIN)/metasched demo

docs: $(VENV)/.installed-docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo 'The site: site/index.html'

# Both keep what JAX compiles in .cache, for each other and for the next time.
test: lint types
	@$(BIN)/python -m pytest -n auto --dist loadfile -m 'not slow'

# What starts and kills processes, runs pages and examples, opens a browser; CI runs it after `make test`.
test-slow: $(VENV)/.installed-dev
	@$(BIN)/python -m pytest -n auto --dist worksteal -m slow

results: $(VENV)/.installed-report
	@$(BIN)/python tools/readme.py
	@$(BIN)/python tools/house.py
	@$(BIN)/metasched report results --out results/page.html

# Everything that attacks us, in its long form: an hour or more. `make test-slow` has the short one.
campaign: $(VENV)/.installed-dev
	@$(BIN)/python -m campaign --out campaign.jsonl

lint: $(VENV)/.installed-dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	@$(BIN)/mypy

# One stamp an extra: reinstalled when pyproject.toml changes, and never otherwise.
$(VENV)/.installed-%: pyproject.toml
	@PYTHON='$(PYTHON)' VENV='$(VENV)' sh tools/install.sh '$*'
	@touch $@

clean:
	rm -rf $(VENV) site .mypy_cache .pytest_cache .ruff_cache .hypothesis .cache
