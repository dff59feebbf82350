//! Reads what the retention engine has written, and the holders of one ConfigMap or Secret. Only reads.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use tenure_kinds::podspec::ReferenceKind;

use crate::connect::ReadError;
use crate::facts::ObservedObject;
use crate::finding::Finding;
use crate::ownership_analysis::OwnershipAnalysis;
use crate::reader::{ClusterReader, found};
use crate::retention::{HOLDERS, Holders, RetainedSubject, controller, managed};
use crate::usage::{SUBJECTS, TablePage};
use crate::wire::or_default;

const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

#[derive(Deserialize)]
struct HolderList {
    #[serde(default, deserialize_with = "or_default")]
    items: Vec<Value>,
}

impl ClusterReader {
    /// The client, for those who write; nothing in this crate does.
    #[must_use]
    pub fn client(&self) -> &kube::Client {
        &self.client
    }

    /// Every subject with owners that the retention engine wrote, in this reader's namespace or everywhere.
    ///
    /// # Errors
    /// The cluster does not answer, or does not let them be read.
    pub async fn retained(&self, everywhere: bool) -> Result<Vec<RetainedSubject>, ReadError> {
        let (kinds, _) = self.discover().await?;
        let namespace = if everywhere { "" } else { self.namespace() };
        let mut all = Vec::new();
        for (_, plural) in SUBJECTS {
            let Some(served) = kinds.called(plural).map(crate::ownership_analysis::shared) else {
                continue;
            };
            let metas = self.metas(&served, namespace).await.map_err(|error| self.failed(error))?;
            for found in found(&served, metas) {
                let managed = managed(&found.meta);
                if !managed.is_empty() {
                    all.push(RetainedSubject { subject: found.named(), managed });
                }
            }
        }
        Ok(all)
    }

    /// What keeps a ConfigMap or Secret by retention, and until when; nothing for other kinds.
    pub async fn retention(
        &self,
        look: &OwnershipAnalysis,
        found: &ObservedObject,
    ) -> Vec<Finding> {
        let plural = found.served.plural.as_str();
        if !found.served.group.is_empty() || !SUBJECTS.iter().any(|(_, own)| *own == plural) {
            return Vec::new();
        }
        let (namespace, owners) = (&found.meta.namespace, &found.meta.owner_references);
        let mut holders = Holders { opted_in: self.opted_in(found).await, ..Holders::default() };
        let kinds = &look.facts().kinds;
        for (kind, api_version) in HOLDERS {
            let named = owners.iter().any(|o| o.kind == kind && o.api_version == api_version);
            let Some(served) = kinds.find(api_version, kind).filter(|_| named) else { continue };
            // What cannot be read is not explained; the owners themselves have been told already.
            let list =
                self.get::<HolderList>(&served.path(namespace, ""), "application/json").await;
            for mut object in list.map(|list| list.items).unwrap_or_default() {
                // The items of a list do not say their kind.
                if let Value::Object(object) = &mut object {
                    object.insert("kind".to_owned(), kind.into());
                }
                holders.objects.push(object);
            }
        }
        holders.roots = self.roots(look, &holders, found).await;
        holders.explain(&found.named(), owners)
    }

    /// The roots of those holders that own the subject.
    async fn roots(
        &self,
        look: &OwnershipAnalysis,
        holders: &Holders,
        subject: &ObservedObject,
    ) -> BTreeMap<String, Value> {
        let mut roots = BTreeMap::new();
        for owner in &subject.meta.owner_references {
            let Some(uid) = holders.get(&owner.uid).and_then(controller) else { continue };
            let Some(root) = look.get(uid).filter(|_| !roots.contains_key(uid)) else { continue };
            let path = root.served.path(&root.meta.namespace, &root.meta.name);
            if let Ok(object) = self.get::<Value>(&path, "application/json").await {
                roots.insert(uid.to_owned(), object);
            }
        }
        roots
    }

    /// Whether an object opted in, as its row tells; its content is not asked for.
    async fn opted_in(&self, found: &ObservedObject) -> bool {
        let path = found.served.path(&found.meta.namespace, &found.meta.name);
        let page = self.get::<TablePage>(&path, TABLE).await;
        let mut rows = page.into_iter().flat_map(|page| page.subjects(ReferenceKind::ConfigMap));
        rows.next().is_some_and(|subject| subject.opted_in)
    }
}
