//! Times as the API writes them.

/// Whether the text is RFC 3339, as `metav1.Time` and `metav1.MicroTime` read it.
#[must_use]
pub fn is_rfc3339(text: &str) -> bool {
    text.parse::<jiff::Timestamp>().is_ok()
}
