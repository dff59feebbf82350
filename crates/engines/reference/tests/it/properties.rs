//! Rules of spec/referential-authorization.md, R61 and R62: the index against the obvious model.
//! Many more steps: `cargo xtask sim reference`.

use tenure_sim::reference::try_seed;

/// The index equals the model after every random change; a rebuild in any order and an emptied index too.
fn seeds(seeds: std::ops::Range<u64>, steps: usize) {
    for seed in seeds {
        if let Err(failure) = try_seed(seed, steps) {
            for change in &failure.trace {
                eprintln!("  {change:?}");
            }
            unreachable!("seed {seed}: {}", failure.what);
        }
    }
}

#[test]
fn r61_any_permutation_of_events_gives_the_same_index() {
    seeds(0..40, 40);
}

#[test]
fn r62_incremental_equals_rebuild() {
    seeds(1_000..1_008, 200);
}

#[test]
fn r111_detached_equals_indexed() {
    seeds(2_000..2_008, 150);
}

#[test]
fn any_permutation_of_events_gives_the_same_index() {
    seeds(3_000..3_020, 40);
}

#[test]
fn incremental_equals_rebuild() {
    seeds(4_000..4_004, 200);
}

#[test]
fn detached_equals_indexed() {
    seeds(5_000..5_004, 150);
}
