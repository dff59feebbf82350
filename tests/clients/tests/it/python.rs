//! The official Python client. `cargo xtask test` installs it; the suite itself is tests/clients/python.

use std::process::Command;

use tenure_client_tests::server::root;

#[test]
fn the_official_client_works() {
    let root = root().unwrap();
    let packages = root.join("target/tools/python");
    assert!(packages.join("kubernetes").is_dir(), "run `cargo xtask setup` first");
    let mut command = Command::new("python3");
    command.arg(root.join("tests/clients/python/suite.py")).env("PYTHONPATH", packages);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    super::script::run(&mut command, 28);
}
