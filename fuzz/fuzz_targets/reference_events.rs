//! Events of referential authorization: after any of them the index says what the obvious model says.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenure_sim::random::Random;
use tenure_sim::reference::{ReferenceSimulation, SimulatedChange};

// Every two bytes choose one change.
fuzz_target!(|bytes: &[u8]| {
    let mut run = ReferenceSimulation::new(7);
    for word in bytes.chunks_exact(2).take(200) {
        let mut random = Random::new(u64::from(word[0]) << 8 | u64::from(word[1]));
        let change = SimulatedChange::random(&mut random, &run.truth);
        run.apply(&change);
    }
    run.compare().expect("the index equals the model");
});
