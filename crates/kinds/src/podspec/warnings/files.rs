//! Files of volumes that hide or contain one another.

use tenure_machinery::Object;

use super::{WARNINGS_MAX, Warnings};
use crate::podspec::view::{has, items, map, text as text_of};

/// A file of a volume, and what it comes from.
struct ProjectedFile<'a> {
    path: &'a str,
    source: String,
}

impl ProjectedFile<'_> {
    fn shown(&self) -> String {
        if self.source.is_empty() {
            format!("{:?}", self.path)
        } else {
            format!("{:?} ({})", self.path, self.source)
        }
    }
}

/// Files of one volume that hide or contain one another.
pub(super) fn warn_overlaps(volume: &Object, warnings: &mut Warnings) {
    let name = text_of(volume, "name");
    for (source, member, of) in
        [("configMap", "name", "ConfigMap"), ("secret", "secretName", "Secret")]
    {
        if let Some(keyed) = map(volume, source) {
            let what = format!("{of} {:?}", text_of(keyed, member));
            warn_overlapping(name, &what, item_files(keyed, ""), warnings);
        }
    }
    if let Some(fields) = map(volume, "downwardAPI") {
        warn_overlapping(name, "DownwardAPI", item_files(fields, ""), warnings);
    }
    let Some(projected) = map(volume, "projected") else { return };
    let mut files = Vec::new();
    for source in items(projected, "sources") {
        if source.values().all(serde_json::Value::is_null) {
            warnings.push(|| format!("volume {name:?} (Projected) has no sources provided"));
        }
        files.extend(projected_files(source));
    }
    warn_overlapping(name, "Projected", files, warnings);
}

fn item_files<'a>(source: &'a Object, what: &str) -> Vec<ProjectedFile<'a>> {
    let file = |item| ProjectedFile { path: text_of(item, "path"), source: what.to_owned() };
    items(source, "items").map(file).collect()
}

fn projected_files(source: &Object) -> Vec<ProjectedFile<'_>> {
    for (member, of) in [("configMap", "ConfigMap"), ("secret", "Secret")] {
        if let Some(keyed) = map(source, member).filter(|keyed| has(keyed, "items")) {
            return item_files(keyed, &format!("{of} {:?}", text_of(keyed, "name")));
        }
    }
    if let Some(fields) = map(source, "downwardAPI").filter(|fields| has(fields, "items")) {
        return item_files(fields, "DownwardAPI");
    }
    let file = |path, source: String| ProjectedFile { path, source };
    if let Some(token) = map(source, "serviceAccountToken") {
        return vec![file(text_of(token, "path"), "ServiceAccountToken".to_owned())];
    }
    if let Some(bundle) = map(source, "clusterTrustBundle") {
        let name = ["name", "signerName"].into_iter().find(|member| has(bundle, member));
        let name = name.map(|member| text_of(bundle, member)).unwrap_or_default();
        return vec![file(text_of(bundle, "path"), format!("ClusterTrustBundle {name:?}"))];
    }
    let Some(certificate) = map(source, "podCertificate") else { return Vec::new() };
    [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ]
    .into_iter()
    .map(|(member, of)| file(text_of(certificate, member), of.to_owned()))
    .collect()
}

fn warn_overlapping(
    volume: &str,
    what: &str,
    mut files: Vec<ProjectedFile<'_>>,
    warnings: &mut Warnings,
) {
    for file in &mut files {
        file.path = file.path.trim_end_matches('/');
    }
    for (one, other) in overlaps(&files) {
        let (Some(one), Some(other)) = (files.get(one), files.get(other)) else { continue };
        warnings.push(|| {
            let (one, other) = (one.shown(), other.shown());
            format!("volume {volume:?} ({what}): overlapping paths: {one} with {other}")
        });
    }
}

/// Pairs of files of which one lies at or inside the other, the later of them first. Sorted by their parts,
/// what contains a file stands before it, so that no pair has to be tried.
fn overlaps(files: &[ProjectedFile<'_>]) -> Vec<(usize, usize)> {
    let mut sorted: Vec<(usize, &str)> = files
        .iter()
        .map(|file| file.path)
        .enumerate()
        .filter(|(_, path)| !path.is_empty())
        .collect();
    sorted.sort_by(|(_, one), (_, other)| one.split('/').cmp(other.split('/')));
    let contains = |outer: &str, inner: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let mut around: Vec<(usize, &str)> = Vec::new();
    let mut pairs = Vec::new();
    for (index, path) in sorted {
        while around.last().is_some_and(|(_, outer)| !contains(outer, path)) {
            around.pop();
        }
        for (other, _) in around.iter().take(WARNINGS_MAX.saturating_sub(pairs.len())) {
            pairs.push((index.max(*other), index.min(*other)));
        }
        around.push((index, path));
    }
    pairs.sort_unstable();
    pairs
}
