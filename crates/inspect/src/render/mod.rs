//! How answers look: text for people, JSON for programs, drawings. Nothing is decided here.

pub mod access;
mod draw;
mod paint;
mod picture;
mod row_style;
mod rules;
mod svg;
mod text;
mod unused;

use serde::Serialize;

pub use draw::{dot, mermaid};
pub use paint::Paint;
pub use svg::svg;
pub use text::{audit, plan, tree, why};
pub use unused::unused;

/// An answer as JSON, for programs.
#[must_use]
pub fn json(answer: &impl Serialize) -> String {
    // Answers hold strings, numbers and lists only, which cannot fail.
    let mut text = serde_json::to_string_pretty(answer).unwrap_or_default();
    text.push('\n');
    text
}
