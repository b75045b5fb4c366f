# The commands of people who work on this project. A change must pass `.ci/run`; the rest is for
# convenience.

# Lists the recipes.
default:
    @just --list

# Runs the tests of the workspace, or of named packages: `just test -p evict`.
test *ARGS="--workspace":
    cargo test --locked {{ARGS}}

# Runs all checks that a change must pass.
ci:
    .ci/run

# Checks formatting, lints and documentation, as CI does.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet

# Measures speed and size of the engine, the cache simulator, the live cache and the trace readers.
bench:
    cargo run --release --locked -- bench engine
    cargo run --release --locked -- bench replay
    cargo bench --locked -p lowmark-cache -p sim -p trace

# Optimised by a profile of shipped experiments, without symbols, in target/pgo/lowmark; takes a
# quarter of an hour on two cores.
# Builds the program for distribution.
release *OUT:
    release/build {{OUT}}

# `tests/bench-gate/run` has the details.
# Checks that the program takes no more instructions than a committed table says.
bench-gate *ARGS:
    tests/bench-gate/run {{ARGS}}

# Runs N random machines in the engine with every recount on; `just swarm 0` never ends.
swarm N="1000":
    cargo run --release --locked -p swarm -- {{ if N == "0" { "" } else { N } }}

# It takes hours on two cores; `.ci/soak --list` names its steps, and `just soak STEP …` runs some.
# Runs the long tests.
soak *STEPS:
    .ci/soak {{STEPS}}

# Needs mdbook (`cargo install mdbook`). Runs the `ci` blocks of pages and compares their output.
# Builds the book into target/book.
book: glossary
    tools/docs/blocks.py target/release/lowmark
    mdbook build docs

# Builds the book as `book` does, and runs blocks marked `long` as well.
book-long: glossary
    tools/docs/blocks.py target/release/lowmark long
    mdbook build docs

# Writes output of commands into README and docs: `just pages`, `just pages long` or `kernel`.
pages MARK="ci":
    cargo build --release --locked
    tools/docs/blocks.py target/release/lowmark {{MARK}} --write

# Writes the pages of words, keys, switches and kernels from `lowmark explain`.
glossary:
    cargo build --release --locked
    tools/docs/generated.py target/release/lowmark --write

# It measures the two light series, named ones, or `all`: the draws that they lack of five (or of N
# with `--seeds N`). Each draw is written when it is done, so that an interrupted command continues
# where it stopped. `missing` measures only cells of the tables without a figure; `mark-stale` makes
# README say that an earlier engine gave the scores; `status` and `--check` only compare, and `fill`
# only writes prose.
# Measures published series anew and writes their scores into data/scores.json, README and docs.
scores *SERIES:
    cargo run --release --locked -p scores -- {{SERIES}}

# Finds changes to mm that the tests would not notice, in a committed sample (tests/mutants).
mutants *ARGS:
    tests/mutants/run {{ARGS}}

# Builds the Python package into a fresh virtual environment, and runs all its tests.
python:
    python/test

# Writes the drawing of each crate's rooms into docs/rooms.md.
rooms:
    LOWMARK_WRITE=1 cargo test --locked -q -p conformance --test tidy rooms_import_one_way_and_are_drawn
