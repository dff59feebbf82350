//! Rows of boxes as SVG: a heading, boxes indented by depth with arrows between them, columns beside them,
//! and a legend of what is in the picture. Readable on light and dark ground, in any browser, without a
//! script. What a box stands for is not known here.

use std::fmt::Write as _;

const MARGIN: usize = 24;
const HEADING_HEIGHT: usize = 58;
const COLUMNS_HEIGHT: usize = 24;
const ROW_HEIGHT: usize = 50;
const BOX_HEIGHT: usize = 40;
const INDENT: usize = 36;
/// Where an arm leaves the box above it.
const TRUNK: usize = 16;
const LEGEND_HEIGHT: usize = 24;
/// Legends are not broken into lines shorter than this.
const LEGEND_WIDTH: usize = 620;
const GAP: usize = 24;
/// Deeper boxes are drawn at this depth, so that a long chain stays a picture.
const DEPTH_MAX: usize = 60;

const STYLE: &str = "\
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,\"DejaVu Sans Mono\",monospace;fill:#1f2328}\
.title{font-size:17px;font-weight:600}\
.small{font-size:12px;fill:#57606a}\
.kind{font-size:11px;fill:#57606a}\
.column{font-size:11px;fill:#57606a;letter-spacing:.5px}\
.ground{fill:#ffffff}\
.box{stroke-width:1.5;fill:#ffffff;stroke:#8c959f}\
.arm{fill:none;stroke:#6e7781;stroke-width:1.4}\
.guide{fill:none;stroke:#d0d7de;stroke-width:1;stroke-dasharray:1 4}\
.rule{stroke:#d0d7de;stroke-width:1}\
.head{fill:#6e7781}.head.loose{fill:#cf222e}\
.blocks{stroke-width:2.8}\
.loose{stroke:#cf222e;stroke-dasharray:5 3}\
.inside{stroke-dasharray:2 4}\
.good{fill:#eefbf1;stroke:#1a7f37}\
.waiting{fill:#fff8e1;stroke:#9a6700}\
.failing{fill:#fff0ee;stroke:#cf222e}\
.terminating{fill:#f7f0ff;stroke:#8250df}\
.absent{fill:#fff0ee;stroke:#cf222e;stroke-dasharray:5 3}\
.unread{fill:#f6f8fa;stroke:#6e7781;stroke-dasharray:5 3}\
.origin{fill:#eef6ff;stroke:#0969da}\
text.good{fill:#116329;stroke:none}text.waiting{fill:#7d4e00;stroke:none}\
text.failing,text.absent,text.loose{fill:#b31d28;stroke:none}\
text.terminating{fill:#6639ba;stroke:none}\
@media(prefers-color-scheme:dark){\
text{fill:#e6edf3}.small,.kind,.column{fill:#9da7b1}.ground{fill:#0d1117}\
.box{fill:#161b22;stroke:#8b949e}.arm{stroke:#8b949e}.guide,.rule{stroke:#30363d}\
.head{fill:#8b949e}.head.loose{fill:#ff7b72}.arm.loose{stroke:#ff7b72}\
.good{fill:#0f2417;stroke:#3fb950}.waiting{fill:#2b2111;stroke:#d29922}\
.failing,.absent{fill:#2d1416;stroke:#ff7b72}.terminating{fill:#21183a;stroke:#a371f7}\
.unread{fill:#161b22;stroke:#8b949e}.origin{fill:#0c1e36;stroke:#58a6ff}\
text.good{fill:#56d364}text.waiting{fill:#e3b341}\
text.failing,text.absent,text.loose{fill:#ffa198}text.terminating{fill:#d2a8ff}}";

/// What is drawn.
pub(super) struct Picture {
    /// What it shows.
    pub(super) title: String,
    /// One line more about it.
    pub(super) about: String,
    /// The names of the columns beside the boxes.
    pub(super) columns: Vec<&'static str>,
    /// The rows, each after the one it hangs on.
    pub(super) boxes: Vec<Boxed>,
    /// What classes of boxes mean; only those in the picture are told.
    pub(super) boxes_mean: Vec<(&'static str, &'static str)>,
    /// What classes of arms mean.
    pub(super) arms_mean: Vec<(&'static str, &'static str)>,
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
    /// Beside the box: text and how it looks, one for each column.
    pub(super) cells: Vec<(String, &'static str)>,
}

/// Where things stand.
struct PictureLayout {
    /// Where each column begins.
    columns: Vec<usize>,
    /// Where the rows begin.
    top: usize,
    width: usize,
}

impl Picture {
    /// The picture as SVG.
    pub(super) fn svg(&self) -> String {
        let layout = self.layout();
        let mut body = String::new();
        self.heading(&layout, &mut body);
        // The top of the last row at each depth: where arms begin.
        let mut rows: Vec<usize> = Vec::new();
        for (index, row) in self.boxes.iter().enumerate() {
            let (x, y) = (left(row), layout.top + index * ROW_HEIGHT);
            rows.truncate(row.depth.min(DEPTH_MAX));
            if let (Some(above), true) = (rows.last(), row.depth > 0) {
                arm(&mut body, row.arm, x - INDENT + TRUNK, above + BOX_HEIGHT, x, y);
            }
            rows.push(y);
            boxed(&mut body, row, x, y, &layout);
        }
        let bottom = layout.top + self.boxes.len() * ROW_HEIGHT;
        let height = self.legend(&layout, bottom + 8, &mut body) + MARGIN / 2;
        let (width, title) = (layout.width, escaped(&self.title));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n<defs>{}{}</defs>\n\
             <rect class=\"ground\" width=\"{width}\" height=\"{height}\"/>\n{body}</svg>\n",
            head("tenure-head", ""),
            head("tenure-head-loose", "loose"),
        )
    }

    fn layout(&self) -> PictureLayout {
        let boxes_end = self.boxes.iter().map(|row| left(row) + box_width(row)).max().unwrap_or(0);
        let mut x = boxes_end + GAP;
        let mut columns = Vec::new();
        for (at, name) in self.columns.iter().enumerate() {
            let texts = self.boxes.iter().filter_map(|row| row.cells.get(at));
            let widest = texts.map(|(text, _)| wide(text, 12)).max().unwrap_or(0);
            columns.push(x);
            if widest > 0 {
                x += widest.max(wide(name, 12)) + GAP;
            }
        }
        let heading = wide(&self.title, 17).max(wide(&self.about, 12)) + MARGIN;
        PictureLayout {
            columns,
            top: MARGIN + HEADING_HEIGHT + COLUMNS_HEIGHT,
            width: x.max(MARGIN + heading).max(MARGIN * 2 + LEGEND_WIDTH),
        }
    }

    fn heading(&self, layout: &PictureLayout, body: &mut String) {
        text(body, "title", MARGIN, MARGIN + 14, &self.title);
        text(body, "small", MARGIN, MARGIN + 36, &self.about);
        let y = layout.top - 12;
        for (at, (name, x)) in self.columns.iter().zip(&layout.columns).enumerate() {
            let used = |row: &Boxed| row.cells.get(at).is_some_and(|(text, _)| !text.is_empty());
            if self.boxes.iter().any(used) {
                text(body, "column", *x, y, name);
            }
        }
    }

    /// Draws what the looks of this picture mean, and gives the place where it ends.
    fn legend(&self, layout: &PictureLayout, top: usize, body: &mut String) -> usize {
        let boxes = self
            .boxes_mean
            .iter()
            .filter(|(class, _)| self.boxes.iter().any(|row| row.class == *class));
        let arms = self
            .arms_mean
            .iter()
            .filter(|(class, _)| self.boxes.iter().any(|row| row.depth > 0 && row.arm == *class));
        let end = layout.width - MARGIN;
        let _ = writeln!(body, "<path class=\"rule\" d=\"M{MARGIN} {top}H{end}\"/>");
        let (mut x, mut y) = (MARGIN, top + LEGEND_HEIGHT);
        let items = boxes.map(|item| (true, item)).chain(arms.map(|item| (false, item)));
        for (is_box, (class, meaning)) in items {
            let sample = if is_box { 18 } else { 34 };
            let width = sample + 8 + wide(meaning, 12);
            if x > MARGIN && x + width > end {
                (x, y) = (MARGIN, y + LEGEND_HEIGHT);
            }
            if is_box {
                let _ = writeln!(
                    body,
                    "<rect class=\"box {class}\" x=\"{x}\" y=\"{}\" width=\"{sample}\" \
                     height=\"13\" rx=\"3\"/>",
                    y - 11
                );
            } else {
                let (middle, end) = (y - 4, x + sample);
                let (head, _) = head_of(class);
                let class = joined("arm", class);
                let _ = writeln!(body, "<path class=\"{class}\" d=\"M{x} {middle}H{end}\"{head}/>");
            }
            text(body, "small", x + sample + 8, y, meaning);
            x += width + GAP;
        }
        y + LEGEND_HEIGHT / 2
    }
}

fn left(row: &Boxed) -> usize {
    MARGIN + row.depth.min(DEPTH_MAX) * INDENT
}

fn box_width(row: &Boxed) -> usize {
    wide(&row.name, 13).max(wide(&row.kind, 11)) + 24
}

/// How wide a text is: letters have a fixed pitch of six tenths of their height, or a little more.
fn wide(text: &str, size: usize) -> usize {
    (text.chars().count() * size * 61).div_ceil(100)
}

/// The head of an arrow.
fn head(id: &str, class: &str) -> String {
    format!(
        "<marker id=\"{id}\" viewBox=\"0 0 9 8\" refX=\"9\" refY=\"4\" markerWidth=\"9\" \
         markerHeight=\"8\" markerUnits=\"userSpaceOnUse\" orient=\"auto\">\
         <path class=\"{}\" d=\"M0 0L9 4L0 8z\"/></marker>",
        joined("head", class)
    )
}

/// Which head an arm has; what is inside something has none.
fn head_of(class: &str) -> (&'static str, bool) {
    match class {
        "inside" => ("", false),
        "loose" => (" marker-end=\"url(#tenure-head-loose)\"", true),
        _ => (" marker-end=\"url(#tenure-head)\"", true),
    }
}

fn arm(body: &mut String, class: &str, from: usize, bottom: usize, x: usize, y: usize) {
    let middle = y + BOX_HEIGHT / 2;
    let (head, has_head) = head_of(class);
    let class = joined("arm", class);
    let (bend, end) = (middle - 6, if has_head { x - 1 } else { x });
    let _ = writeln!(
        body,
        "<path class=\"{class}\" d=\"M{from} {bottom}V{bend}q0 6 6 6H{end}\"{head}/>"
    );
}

/// Draws one row.
fn boxed(body: &mut String, row: &Boxed, x: usize, y: usize, layout: &PictureLayout) {
    let width = box_width(row);
    let _ = writeln!(
        body,
        "<g><title>{}</title><rect class=\"box {}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" \
         height=\"{BOX_HEIGHT}\" rx=\"6\"/>",
        escaped(&row.about),
        row.class,
    );
    text(body, "kind", x + 12, y + 15, &row.kind);
    text(body, "name", x + 12, y + 32, &row.name);
    body.push_str("</g>\n");
    let middle = y + BOX_HEIGHT / 2;
    let mut cells = layout.columns.iter().zip(&row.cells).filter(|(_, (text, _))| !text.is_empty());
    if let Some((first, _)) = cells.clone().next() {
        let (from, to) = (x + width + 8, first.saturating_sub(8));
        if from < to {
            let _ = writeln!(body, "<path class=\"guide\" d=\"M{from} {middle}H{to}\"/>");
        }
    }
    for (x, (said, class)) in cells.by_ref() {
        text(body, &joined("small", class), *x, middle + 4, said);
    }
}

fn text(body: &mut String, class: &str, x: usize, y: usize, said: &str) {
    let said = escaped(said);
    let _ = writeln!(body, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{said}</text>");
}

/// Two classes, of which the second may be empty.
fn joined(first: &str, second: &str) -> String {
    if second.is_empty() { first.to_owned() } else { format!("{first} {second}") }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
