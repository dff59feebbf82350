//! The official JavaScript client. `cargo xtask test` installs it; the suite itself is tests/clients/js.

use std::process::Command;

use tenure_client_tests::server::root;

#[test]
fn the_official_client_works() {
    let root = root().unwrap();
    let packages = root.join("target/tools/node");
    assert!(packages.join("node_modules/@kubernetes").is_dir(), "run `cargo xtask setup` first");
    let mut command = Command::new("node");
    // The suite finds the packages by its environment, because it lies outside their folder.
    command.arg(root.join("tests/clients/js/suite.mjs")).env("TENURE_NODE_PACKAGES", packages);
    super::script::run(&mut command, 25);
}
