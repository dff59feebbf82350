//! What relying parties read to find the keys (`/.well-known/openid-configuration`).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::key::KeySet;

/// The discovery document: who issues, where the keys are, how tokens are signed.
#[must_use]
pub fn openid_configuration(keys: &KeySet, issuer: &str, jwks_uri: &str) -> Value {
    let algorithms =
        keys.verifying().iter().map(|key| key.algorithm().name()).collect::<BTreeSet<_>>();
    json!({
        "issuer": issuer,
        "jwks_uri": jwks_uri,
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": algorithms,
    })
}
