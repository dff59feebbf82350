//! The README's examples are those of the proposal.

use tenure_client_tests::server;

/// The examples are the proposal's, but for what the README says.
#[test]
fn r48_the_examples_beside_the_readme_are_those_of_the_proposal() {
    for (file, test) in [
        ("env", "[ -n \"${OWNER_REFERENCES}\" ]"),
        ("volume", "[ -e /etc/podinfo/ownerReferences ]"),
    ] {
        let path =
            server::root().unwrap().join(format!("docs/examples/owner-references-{file}.yaml"));
        let text = std::fs::read_to_string(path).unwrap();
        let own: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let own = own.join("\n") + "\n";
        let proposed = own.replace(test, &format!("[{test}]")).replace("printf", "echo -en");
        let example = super::owners::example(file);
        assert_eq!(proposed, example);
    }
}
