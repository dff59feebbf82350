//! The load generator of `cargo xtask bench`.

fn main() {}
