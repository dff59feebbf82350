//! The file of a `clusterTrustBundle` source: which bundles it takes, and their certificates, each once
//! (R89, R89a). How bundles are read is the host's.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;
use tenure_core::selector::LabelSelector;
use tenure_machinery::{Object, ObjectExt};

use crate::pem;

/// The certificates that `source` asks for, out of all bundles of the cluster. `seed` decides their
/// order, so that no program comes to rely on it.
///
/// # Errors
/// No bundle is the one that was asked for, and the source is not optional.
pub fn trust_anchors<'a>(
    source: &Object,
    bundles: impl IntoIterator<Item = &'a Object>,
    seed: u64,
) -> Result<Vec<u8>, String> {
    let optional = source.bool_at(&["optional"]).unwrap_or_default();
    let mut bundles = bundles.into_iter();
    let found: Vec<&Object> = match (source.str_at(&["name"]), source.str_at(&["signerName"])) {
        (Some(name), _) => {
            let found: Vec<&Object> = bundles.find(|it| it.name() == name).into_iter().collect();
            if found.is_empty() && !optional {
                return Err(format!("clustertrustbundle {name:?} not found"));
            }
            found
        }
        (None, Some(signer)) => {
            let selector = selector(source)?;
            let found: Vec<&Object> =
                bundles.filter(|it| selects(selector.as_ref(), signer, it)).collect();
            if found.is_empty() && !optional {
                let why = "combination of signerName and labelSelector matched zero \
                           ClusterTrustBundles";
                return Err(why.into());
            }
            found
        }
        (None, None) => {
            return Err("a clusterTrustBundle source needs a name or a signerName".into());
        }
    };
    let texts = found.iter().filter_map(|it| it.str_at(&["spec", "trustBundle"]));
    let anchors: BTreeSet<Vec<u8>> = texts.flat_map(pem::certificates).collect();
    let mut anchors: Vec<&[u8]> = anchors.iter().map(Vec::as_slice).collect();
    anchors.sort_by_key(|der| place(seed, der));
    Ok(pem::write_certificates(anchors).into_bytes())
}

/// No selector selects nothing, an empty one everything.
fn selector(source: &Object) -> Result<Option<LabelSelector>, String> {
    let Some(written) = source.map_at(&["labelSelector"]) else { return Ok(None) };
    let read = LabelSelector::from_object(written);
    read.map(Some).ok_or_else(|| "the labelSelector cannot be understood".into())
}

fn selects(selector: Option<&LabelSelector>, signer: &str, bundle: &Object) -> bool {
    let label = |key: &str| bundle.at(&["metadata", "labels", key]).and_then(Value::as_str);
    let own = bundle.str_at(&["spec", "signerName"]).unwrap_or_default();
    own == signer && selector.is_some_and(|selector| selector.matches(label))
}

/// Where a certificate stands among others: FNV-1a, begun with the seed.
fn place(seed: u64, der: &[u8]) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let begin = 0xcbf2_9ce4_8422_2325 ^ seed;
    der.iter().fold(begin, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}
