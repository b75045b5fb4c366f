# What one does in this house. `.ci/run` is what a change must pass; the rest is for people.

# Lists the recipes.
default:
    @just --list

# The tests of the workspace, or of what is named: `just test -p evict`.
test *ARGS="--workspace":
    cargo test --locked {{ARGS}}

# Everything a change must pass.
ci:
    .ci/run

# Formatting, lints and documentation, as CI asks for them.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet

# Speed and size of the engine, the cache simulator, the live cache and the trace readers.
bench:
    cargo run --release --locked -- bench engine
    cargo run --release --locked -- bench replay
    cargo bench --locked -p lowmark-cache -p sim -p trace

# The program as it is given to others: optimised by a profile of shipped experiments, without symbols, in
# target/pgo/lowmark (a quarter of an hour on two cores).
release *OUT:
    release/build {{OUT}}

# Whether it takes more instructions than a committed table says (`tests/bench-gate/run` has the details).
bench-gate *ARGS:
    tests/bench-gate/run {{ARGS}}

# N random machines through the engine with every recount on; `just swarm 0` goes on for ever.
swarm N="1000":
    cargo run --release --locked -p swarm -- {{ if N == "0" { "" } else { N } }}

# The long tests: what is ignored elsewhere because of what it takes, power cuts under the live cache, 10,000
# kills of it, 200
# kills with resumption, every system call of the tool failing in turn, every parameter at its ends.
soak:
    cargo build --release --locked --workspace
    cargo test --release --locked --workspace -- --ignored
    LOWMARK_SEEDS=1500 cargo test --release --locked -p lowmark-cache --test faulty
    LOWMARK_KILLS=10000 cargo test --release --locked -p lowmark-cache --test kill
    LOWMARK_KILLS=1000 cargo test --release --locked -p lowmark-cache --test kv
    tests/mutants/seen
    tests/output/kill.py target/release/lowmark 200
    tests/output/faults.py target/release/lowmark
    cargo run --release --locked -p swarm -- --ends
    cargo run --release --locked -p swarm -- --trends
    target/release/lowmark kernel build --debian 6.12
    target/release/lowmark kernel build --debian 6.1
    for kernel in 6.12 6.1; do LOWMARK_TEST_KERNEL=$kernel cargo test --locked -p kernel -p lowmark --test '*'; done
    tests/kernels/same-bytes target/release/lowmark 20
    tools/docs/blocks.py target/release/lowmark kernel

# The book, where mdbook is installed (`cargo install mdbook`), into target/book; its `ci` blocks are run and compared.
book: glossary
    tools/docs/blocks.py target/release/lowmark
    mdbook build docs

# As `book`, with the blocks marked `long`.
book-long: glossary
    tools/docs/blocks.py target/release/lowmark long
    mdbook build docs

# README and docs say what their commands print: `just pages`, `just pages long`, `just pages kernel`.
pages MARK="ci":
    cargo build --release --locked
    tools/docs/blocks.py target/release/lowmark {{MARK}} --write

# The pages of words, keys, switches and kernels say what `lowmark explain` says.
glossary:
    cargo build --release --locked
    tools/docs/generated.py target/release/lowmark --write

# The two light series, those that are named, or `all`: the draws that they lack of five (`--seeds N`), each written as
# soon as it is there, so that a command that was broken off goes on. `missing`: cells of the tables without a figure
# alone; `mark-stale`: README says that an earlier engine gave them; `status`, `--check` only compare, `fill` only writes prose.
# Measures published series anew and writes their scores into data/scores.json, README and docs.
scores *SERIES:
    cargo run --release --locked -p scores -- {{SERIES}}

# What the tests would not notice, in a committed sample of changes to mm (tests/mutants).
mutants *ARGS:
    tests/mutants/run {{ARGS}}

# The Python package: built into a fresh virtual environment, and all its tests.
python:
    python/test

# The drawing of each crate's rooms in docs/rooms.md.
rooms:
    LOWMARK_WRITE=1 cargo test --locked -q -p conformance --test tidy rooms_import_one_way_and_are_drawn
