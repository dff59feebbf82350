//! Texts of objects with places to fill. What fills them is checked by whoever hands it in.

use crate::{AttachFeature, FEATURE, MANAGED_BY, VERSION};

/// The version that is written to every object.
const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// Documents of a feature, one after the other, each object with its labels (A3).
pub(super) fn documents(feature: AttachFeature, texts: &[impl AsRef<str>]) -> String {
    let (manager, tenure) = MANAGED_BY;
    let name = feature.name();
    let labels = format!("{{{manager}: {tenure}, {FEATURE}: {name}, {VERSION}: \"{RELEASE}\"}}");
    let whole: Vec<&str> = texts.iter().map(|text| text.as_ref().trim_end()).collect();
    fill(&whole.join("\n---\n"), &[("LABELS", &labels), ("RELEASE", RELEASE)]) + "\n"
}

/// A text with `@NAME@` replaced by what is given for `NAME`.
pub(super) fn fill(text: &str, places: &[(&str, &str)]) -> String {
    places
        .iter()
        .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("@{name}@"), value))
}
