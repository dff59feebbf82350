//! Rules of spec/api-server.md: answers of webhooks that are rubbish (R163, R129). The entry of the fuzz targets,
//! with their seeds and random changes of them.

use std::path::Path;

use tenure_server::fuzzing::{UID, admission_answer, conversion_answer};

/// How many changed answers of each seed are read.
const ROUNDS: usize = 1_500;
/// What JSON is made of, and what reviews are made of.
const WORDS: [&str; 20] = [
    "null",
    "true",
    "-1",
    "1e999",
    "{}",
    "[]",
    "\"\"",
    "\"\\ud800\"",
    "\u{0}",
    "[[[[[[[[",
    "\"uid\":",
    UID,
    "\"op\":\"move\"",
    "\"path\":\"\"",
    "9223372036854775808",
    "\"metadata\":null",
    ",",
    "}",
    "\"é\"",
    "\"convertedObjects\":[]",
];

/// The same numbers every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % end.max(1)
    }
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// An answer with a few places changed.
fn changed(seed: &[u8], others: &[Vec<u8>], numbers: &mut Numbers) -> Vec<u8> {
    let mut text = seed.to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(text.len());
        let end = (at + numbers.below(24)).min(text.len());
        let new = match numbers.below(4) {
            0 => Vec::new(),
            1 => vec![u8::try_from(numbers.below(256)).unwrap()],
            2 => WORDS[numbers.below(WORDS.len())].as_bytes().to_vec(),
            _ => {
                let other = &others[numbers.below(others.len())];
                let from = numbers.below(other.len());
                other[from..(from + numbers.below(64)).min(other.len())].to_vec()
            }
        };
        text.splice(at..end, new);
    }
    text
}

fn read(target: &str, read: fn(&[u8]) -> usize) {
    let (seeds, mut numbers) = (seeds(target), Numbers(0x9e37_79b9_7f4a_7c15));
    let good = seeds.iter().filter(|seed| read(seed) > 0).count();
    assert!(good >= 2, "seeds of {target} are answers");
    let mut taken = 0;
    for seed in &seeds {
        for _ in 0..ROUNDS {
            taken += usize::from(read(&changed(seed, &seeds, &mut numbers)) > 0);
        }
    }
    // Neither all rubbish nor all unharmed: both ways are gone.
    let all = ROUNDS * seeds.len();
    assert!(taken > 20 && taken < all, "{taken} of {all}");
}

#[test]
fn r163_answers_of_admission_webhooks_that_are_rubbish_are_refused() {
    read("admission_answer", admission_answer);
    let deep = format!("{{\"response\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(admission_answer(deep.as_bytes()), 0);
}

#[test]
fn r129_answers_of_conversion_webhooks_that_are_rubbish_are_refused() {
    read("conversion_answer", conversion_answer);
    let deep = format!("{{\"response\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(conversion_answer(deep.as_bytes()), 0);
}
