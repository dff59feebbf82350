//! Rows of boxes as SVG, indented by depth, arms to the one above. Readable on light and dark ground, in any
//! browser, without a script. What a box stands for is not known here.

use std::fmt::Write as _;

const ROW_HEIGHT: usize = 54;
const BOX_HEIGHT: usize = 42;
const INDENT: usize = 36;
const MARGIN: usize = 16;
/// The width of one letter in a box; names are set in a fixed pitch.
const LETTER: usize = 8;
/// Deeper boxes are drawn at this depth, so that a long chain stays a picture.
const DEPTH_MAX: usize = 60;

const STYLE: &str = "\
text{font:13px ui-monospace,monospace;fill:#1b1b1b}\
.kind{font-size:11px;fill:#5f5f5f}\
.note{font-size:11px;fill:#5f5f5f}\
rect{fill:#ffffff;stroke-width:1.5}\
path{fill:none;stroke:#8a8a8a;stroke-width:1.2}\
.blocks{stroke-width:2.4}\
.loose{stroke:#c62828;stroke-dasharray:4 3}\
.bad{fill:#c62828}\
.alive{stroke:#2e7d32}.terminating{stroke:#b26a00;fill:#fff6e5}\
.absent{stroke:#c62828;stroke-dasharray:4 3}.unread{stroke:#757575;stroke-dasharray:4 3}\
.plain{stroke:#757575}\
@media(prefers-color-scheme:dark){\
text{fill:#e8e8e8}.kind,.note{fill:#a8a8a8}rect{fill:#1e1e1e}path{stroke:#8a8a8a}\
.alive{stroke:#66bb6a}.terminating{stroke:#ffb74d;fill:#3a2c12}.bad{fill:#ef9a9a}\
.loose,.absent{stroke:#ef9a9a}}";

/// What is drawn.
pub(super) struct Picture {
    /// What it shows, for those who cannot see it.
    pub(super) title: String,
    /// The rows, each after the one it hangs on.
    pub(super) boxes: Vec<Boxed>,
}

/// One row.
#[derive(Default)]
pub(super) struct Boxed {
    /// How deep it hangs.
    pub(super) depth: usize,
    /// How the box looks.
    pub(super) class: &'static str,
    /// How the arm to the row above looks.
    pub(super) arm: &'static str,
    /// What is told when the pointer rests on it.
    pub(super) about: String,
    /// The small line.
    pub(super) kind: String,
    /// The large line.
    pub(super) name: String,
    /// Beside the box.
    pub(super) side: String,
    /// Beside the box: what is wrong.
    pub(super) bad: String,
}

impl Picture {
    /// The picture as SVG.
    pub(super) fn svg(&self) -> String {
        let mut body = String::new();
        let mut width = 0;
        // The middle of the last row at each depth: where arms begin.
        let mut rows: Vec<usize> = Vec::new();
        for (index, row) in self.boxes.iter().enumerate() {
            let depth = row.depth.min(DEPTH_MAX);
            let (x, y) = (MARGIN + depth * INDENT, MARGIN + index * ROW_HEIGHT);
            rows.truncate(depth);
            if let (Some(above), true) = (rows.last(), depth > 0) {
                arm(&mut body, row, x, y, *above);
            }
            rows.push(y);
            width = width.max(boxed(&mut body, row, x, y));
        }
        let height = MARGIN * 2 + self.boxes.len() * ROW_HEIGHT;
        let mut text = String::new();
        let _ = writeln!(
            text,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{height}\" \
             viewBox=\"0 0 {w} {height}\" role=\"img\">\n<title>{}</title>\n<style>{STYLE}</style>",
            escaped(&self.title),
            w = width + MARGIN,
        );
        text.push_str(&body);
        text.push_str("</svg>\n");
        text
    }
}

fn arm(body: &mut String, row: &Boxed, x: usize, y: usize, above: usize) {
    let (from, bottom, middle) = (x - INDENT / 2, above + BOX_HEIGHT, y + BOX_HEIGHT / 2);
    let class = row.arm;
    let _ = writeln!(body, "<path class=\"{class}\" d=\"M{from} {bottom}V{middle}H{x}\"/>");
}

/// Draws one row and gives the place where its drawing ends.
fn boxed(body: &mut String, row: &Boxed, x: usize, y: usize) -> usize {
    let letters = row.name.chars().count().max(row.kind.chars().count());
    let width = letters * LETTER + 24;
    let _ = writeln!(
        body,
        "<g><title>{}</title><rect class=\"{}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" \
         height=\"{BOX_HEIGHT}\" rx=\"6\"/><text class=\"kind\" x=\"{tx}\" y=\"{ky}\">{}</text>\
         <text x=\"{tx}\" y=\"{ny}\">{}</text><text class=\"note\" x=\"{sx}\" y=\"{ky}\">{}</text>\
         <text class=\"note bad\" x=\"{sx}\" y=\"{ny}\">{}</text></g>",
        escaped(&row.about),
        row.class,
        escaped(&row.kind),
        escaped(&row.name),
        escaped(&row.side),
        escaped(&row.bad),
        tx = x + 12,
        sx = x + width + 10,
        ky = y + 16,
        ny = y + 33,
    );
    x + width + 10 + row.side.chars().count().max(row.bad.chars().count()) * 7
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
