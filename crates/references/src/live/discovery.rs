//! What a cluster serves, as the index wants to hear it (R58).

use std::collections::BTreeMap;

use kube::discovery::{Discovery, Scope};
use tenure_reference::{Resource, ServedType, preference_order};

/// Every type a cluster serves, each with its versions in the order the API server prefers.
///
/// # Errors
/// The cluster does not answer.
pub async fn served(client: &kube::Client) -> kube::Result<Vec<ServedType>> {
    let found = match Discovery::new(client.clone()).run_aggregated().await {
        Ok(found) => found,
        // Servers before 1.30 may not have the one document for all groups.
        Err(_) => Discovery::new(client.clone()).run().await?,
    };
    let mut types: BTreeMap<Resource, ServedType> = BTreeMap::new();
    for group in found.groups() {
        let mut versions: Vec<String> = group.versions().map(str::to_owned).collect();
        preference_order(group.preferred_version().unwrap_or_default(), &mut versions);
        for version in versions {
            for (api, can) in group.versioned_resources(&version) {
                let resource = Resource::new(&api.group, &api.plural);
                let row = types.entry(resource.clone()).or_insert_with(|| ServedType {
                    resource,
                    kind: api.kind,
                    namespaced: can.scope == Scope::Namespaced,
                    versions: Vec::new(),
                });
                if !row.versions.contains(&version) {
                    row.versions.push(version.clone());
                }
            }
        }
    }
    Ok(types.into_values().collect())
}
