//! Rules of spec/downward-api.md: how a command ended.

use proptest::prelude::*;
use serde_json::{Value, json};
use tenure_streams::outcome::CommandOutcome;

#[test]
fn r128_an_exit_code_is_a_cause_of_the_status() {
    let status: Value = serde_json::from_slice(&CommandOutcome::of_code(7).status()).unwrap();
    assert_eq!(
        status,
        json!({
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": "command terminated with non-zero exit code: exit status 7",
            "details": { "causes": [{ "reason": "ExitCode", "message": "7" }] },
        })
    );
    let success: Value = serde_json::from_slice(&CommandOutcome::of_code(0).status()).unwrap();
    assert_eq!(success, json!({ "metadata": {}, "status": "Success" }));
}

#[test]
fn r128_an_outcome_is_read_as_it_was_written() {
    for outcome in [CommandOutcome::Success, CommandOutcome::Code(137), CommandOutcome::Code(-1)] {
        assert_eq!(CommandOutcome::read(&outcome.status()), outcome);
    }
    let failed = CommandOutcome::Failed("no such file".into());
    assert_eq!(
        CommandOutcome::read(&failed.status()),
        CommandOutcome::Failed("Internal error occurred: no such file".into())
    );
    assert_eq!(CommandOutcome::read(b""), CommandOutcome::Success);
    assert_eq!(CommandOutcome::read(b"gone"), CommandOutcome::Failed("gone".into()));
}

proptest! {
    #[test]
    fn any_bytes_are_an_outcome(bytes: Vec<u8>) {
        let _ = CommandOutcome::read(&bytes);
    }
}
