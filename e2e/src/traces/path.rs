//! The critical path: what the end of a trace waited for, from the end back to the beginning.

use super::Tree;

/// A stretch of time that the end waited for one span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The place of the span.
    pub place: usize,
    /// From when.
    pub from: u64,
    /// Until when.
    pub to: u64,
}

/// Walks back from the end of a root; the stretches are in the order of time and leave no gap.
///
/// At each moment it is the deepest span that ended last before what came after it could begin.
pub fn critical_path(tree: &Tree<'_>, root: usize) -> Vec<Stretch> {
    let mut path = Vec::new();
    let (from, to) = (tree.spans[root].began, tree.spans[root].ended);
    walk(tree, root, from, to, &mut path);
    path.retain(|stretch| stretch.to > stretch.from);
    path.reverse();
    path
}

/// Covers `from` to `to` by this span and what is below it, the latest first.
fn walk(tree: &Tree<'_>, place: usize, from: u64, to: u64, path: &mut Vec<Stretch>) {
    let mut at = to;
    let mut below: Vec<(usize, (u64, u64))> =
        tree.children(place).iter().map(|below| (*below, tree.extent(*below))).collect();
    below.sort_by_key(|(_, (_, ended))| std::cmp::Reverse(*ended));
    for (child, (began, ended)) in below {
        let (began, ended) = (began.max(from), ended.min(at));
        if began >= ended {
            continue;
        }
        path.push(Stretch { place, from: ended, to: at });
        walk(tree, child, began, ended, path);
        at = began;
    }
    path.push(Stretch { place, from, to: at });
}
