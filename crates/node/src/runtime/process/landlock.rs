//! Abstract Unix sockets (R141): they have no file, so a mount namespace does not hide them, and pods
//! share the node's network. Landlock keeps a container to those of its own processes. Files are not
//! restricted here: a container has no names for others'.

use ::landlock::{
    CompatLevel, Compatible as _, Ruleset, RulesetAttr as _, RulesetCreated,
    RulesetCreatedAttr as _, RulesetError, Scope,
};

/// Whether the kernel can do it; why not.
pub(super) fn supported() -> Result<(), String> {
    ruleset().map(drop).map_err(|error| format!("Linux 6.12 or later with Landlock: {error}"))
}

/// Keeps this process and all that come from it to abstract sockets of their own, for good. Whoever
/// calls may do everything in its user namespace: new privileges are not given up here.
pub(super) fn restrict() -> Result<(), String> {
    let set = |ruleset: RulesetCreated| ruleset.no_new_privs(false).restrict_self();
    ruleset().and_then(set).map(drop).map_err(|error| error.to_string())
}

fn ruleset() -> Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .scope(Scope::AbstractUnixSocket)?
        .create()
}
