//! A trace as a waterfall, in text and as SVG; what the end waited for is marked.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Stretch, Tree, critical_path};

/// Columns of a bar in text.
const COLUMNS: u64 = 60;
/// Shorter spans are left out, unless the end waited for them as long.
const SHORT: u64 = 5_000_000;
/// Lines of the summary.
const SUMMARY_MAX: usize = 12;
const ROW: usize = 16;
const LABELS: usize = 330;
const BARS: usize = 720;

struct Row {
    depth: usize,
    place: usize,
    label: String,
    critical: Vec<Stretch>,
}

struct Picture<'a> {
    tree: &'a Tree<'a>,
    began: u64,
    ended: u64,
    rows: Vec<Row>,
    left_out: usize,
    path: Vec<Stretch>,
}

impl<'a> Picture<'a> {
    /// Looks at the tree of one root.
    fn of(tree: &'a Tree<'a>, root: usize) -> Self {
        let (began, ended) = tree.extent(root);
        let path = critical_path(tree, root);
        let mut picture = Self { tree, began, ended, rows: Vec::new(), left_out: 0, path };
        picture.add(root, 0);
        picture
    }

    fn add(&mut self, place: usize, depth: usize) {
        let critical: Vec<Stretch> =
            self.path.iter().filter(|stretch| stretch.place == place).copied().collect();
        let waited: u64 = critical.iter().map(|stretch| stretch.to - stretch.from).sum();
        let (began, ended) = self.tree.extent(place);
        if depth > 0 && ended - began < SHORT && waited < SHORT {
            self.left_out += 1 + self.below(place);
            return;
        }
        self.rows.push(Row { depth, place, label: label(self.tree, place), critical });
        for child in self.tree.children(place) {
            self.add(*child, depth + 1);
        }
    }

    fn below(&self, place: usize) -> usize {
        self.tree.children(place).iter().map(|child| 1 + self.below(*child)).sum()
    }

    /// What the end waited for, the longest first: label, nanoseconds.
    fn summary(&self) -> Vec<(String, u64)> {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for stretch in &self.path {
            *sums.entry(label(self.tree, stretch.place)).or_default() += stretch.to - stretch.from;
        }
        let mut sums: Vec<(String, u64)> = sums.into_iter().collect();
        sums.sort_by_key(|(label, waited)| (std::cmp::Reverse(*waited), label.clone()));
        sums.truncate(SUMMARY_MAX);
        sums
    }

    fn remark(&self) -> String {
        let waited = self.path.iter().map(|stretch| stretch.to - stretch.from).sum();
        format!(
            "critical path {}; {} spans shorter than {} ms are left out",
            seconds(waited),
            self.left_out,
            SHORT / 1_000_000
        )
    }
}

fn label(tree: &Tree<'_>, place: usize) -> String {
    let span = tree.spans[place];
    let said = |key: &str| span.attributes.get(key).map(String::as_str);
    let mut label = span.name.clone();
    if let Some(environment) = said("petri.environment.name").filter(|_| span.name.ends_with("environment")) {
        let _ = write!(label, " {environment}");
    }
    if let Some(component) = said("petri.component") {
        let _ = write!(label, " {component}");
    }
    if let Some(failure) = &span.failure {
        let _ = write!(label, " ✗ {failure}");
    }
    label
}

fn seconds(nanos: u64) -> String {
    let micros = nanos / 1_000;
    format!("{}.{:03} s", micros / 1_000_000, micros / 1_000 % 1_000)
}

/// Draws a trace in text: `█` is what the end waited for, `░` the rest.
pub fn text(tree: &Tree<'_>, root: usize) -> String {
    let picture = Picture::of(tree, root);
    let whole = (picture.ended - picture.began).max(1);
    let column = |at: u64| (at.saturating_sub(picture.began)) * COLUMNS / whole;
    let mut out = String::new();
    for row in &picture.rows {
        let span = tree.spans[row.place];
        let bar: String = (0..COLUMNS)
            .map(|at| {
                let in_it = |from: u64, to: u64| (column(from)..=column(to.saturating_sub(1))).contains(&at);
                if row.critical.iter().any(|stretch| in_it(stretch.from, stretch.to)) {
                    '█'
                } else if in_it(span.began, span.ended) {
                    '░'
                } else {
                    ' '
                }
            })
            .collect();
        let label = format!("{:indent$}{}", "", row.label, indent = 2 * row.depth);
        let took = seconds(span.ended - span.began);
        let _ = writeln!(out, "{label:<44.44} │{bar}│ {} +{took}", seconds(span.began - picture.began));
    }
    let _ = writeln!(out, "\n{}\nThe end waited for:", picture.remark());
    for (label, waited) in picture.summary() {
        let _ = writeln!(out, "{:>9}  {label}", seconds(waited));
    }
    out
}

/// Draws a trace as SVG: dark is what the end waited for.
pub fn svg(tree: &Tree<'_>, root: usize) -> String {
    let picture = Picture::of(tree, root);
    let whole = (picture.ended - picture.began).max(1);
    let scale = |nanos: u64| nanos as f64 * BARS as f64 / whole as f64;
    let (width, height) = (LABELS + BARS + 90, ROW * (picture.rows.len() + 2));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    for (number, row) in picture.rows.iter().enumerate() {
        let span = tree.spans[row.place];
        let top = ROW * number;
        let mut bar = |from: u64, to: u64, colour: &str| {
            let x = LABELS as f64 + scale(from.saturating_sub(picture.began));
            let wide = scale(to - from).max(0.7);
            let _ = writeln!(
                out,
                "<rect x=\"{x:.1}\" y=\"{}\" width=\"{wide:.1}\" height=\"{}\" fill=\"{colour}\"/>",
                top + 3,
                ROW - 5
            );
        };
        bar(span.began, span.ended, if span.service == "petri-deployer" { "#9ecae1" } else { "#c7d3c0" });
        row.critical.iter().for_each(|stretch| bar(stretch.from, stretch.to, "#c0392b"));
        let label = row.label.replace('&', "&amp;").replace('<', "&lt;");
        let took = seconds(span.ended - span.began);
        let _ = writeln!(out, "<text x=\"{}\" y=\"{}\">{label}</text>", 6 + 10 * row.depth, top + 12);
        let _ =
            writeln!(out, "<text x=\"{}\" y=\"{}\" fill=\"#555\">{took}</text>", LABELS + BARS + 8, top + 12);
    }
    let _ = writeln!(
        out,
        "<text x=\"6\" y=\"{}\" fill=\"#c0392b\">{}</text>\n</svg>",
        height - 10,
        picture.remark()
    );
    out
}
