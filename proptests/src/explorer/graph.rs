//! What the graph of a world must show: no dead end, no flapping.

use crate::laws::Breach;

/// The edges that are taken in peace, as compressed rows: without users, without faults, without standing still.
#[derive(Debug, Default)]
pub struct Rows {
    starts: Vec<usize>,
    targets: Vec<u32>,
    settled: Vec<bool>,
}

impl Rows {
    /// Adds the row of the next state.
    pub fn push(&mut self, settled: bool, targets: impl IntoIterator<Item = u32>) {
        self.starts.push(self.targets.len());
        self.targets.extend(targets);
        self.settled.push(settled);
    }

    fn row(&self, at: usize) -> &[u32] {
        let end = self.starts.get(at + 1).copied().unwrap_or(self.targets.len());
        &self.targets[self.starts[at]..end]
    }

    /// Laws 7 and 8. In peace nothing goes round in a circle: then every strongly connected component is one state,
    /// and the bottom ones are the states without a way on; each of those must be settled.
    ///
    /// # Errors
    /// The breach and the state it is seen in.
    pub fn check(&self) -> Result<(), (u32, Breach)> {
        let mut incoming = vec![0u32; self.starts.len()];
        self.targets.iter().for_each(|target| incoming[*target as usize] += 1);
        let mut free: Vec<usize> = (0..incoming.len()).filter(|at| incoming[*at] == 0).collect();
        let mut removed = 0;
        while let Some(at) = free.pop() {
            removed += 1;
            for target in self.row(at) {
                let target = *target as usize;
                incoming[target] -= 1;
                if incoming[target] == 0 {
                    free.push(target);
                }
            }
        }
        if removed < incoming.len() {
            let circle = self.circle(&incoming);
            let what = format!("a circle of {} states: {circle:?}", circle.len());
            return Err((circle[0], Breach { law: "no flapping", what }));
        }
        let stuck = (0..self.starts.len()).find(|at| self.row(*at).is_empty() && !self.settled[*at]);
        match stuck.and_then(|at| u32::try_from(at).ok()) {
            None => Ok(()),
            Some(at) => Err((at, Breach { law: "no dead end", what: "no way out".to_owned() })),
        }
    }

    /// Finds one circle among the states that no order could be given to.
    fn circle(&self, incoming: &[u32]) -> Vec<u32> {
        let (mut path, mut place) = (Vec::new(), vec![usize::MAX; incoming.len()]);
        let mut dead = vec![false; incoming.len()];
        for first in (0..incoming.len()).filter(|at| incoming[*at] > 0) {
            let mut at = first;
            while !dead[at] {
                if place[at] != usize::MAX {
                    return path.split_off(place[at]);
                }
                place[at] = path.len();
                path.push(u32::try_from(at).unwrap_or(u32::MAX));
                let on = self.row(at).iter().find(|on| incoming[**on as usize] > 0 && !dead[**on as usize]);
                at = match on {
                    Some(on) => *on as usize,
                    None => {
                        // A way that ends is no part of a circle: back to where it began.
                        dead[at] = true;
                        path.iter().for_each(|one| place[*one as usize] = usize::MAX);
                        path.clear();
                        first
                    }
                };
            }
        }
        vec![0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rows: &[(bool, &[u32])]) -> Option<(u32, &'static str)> {
        let mut graph = Rows::default();
        rows.iter().for_each(|(settled, targets)| graph.push(*settled, targets.iter().copied()));
        graph.check().err().map(|(at, breach)| (at, breach.law))
    }

    #[test]
    fn a_way_that_ends_settled_is_fine_and_one_that_ends_elsewhere_is_a_dead_end() {
        assert_eq!(check(&[(false, &[1, 2]), (true, &[]), (true, &[])]), None);
        assert_eq!(check(&[(false, &[1, 2]), (true, &[]), (false, &[])]), Some((2, "no dead end")));
    }

    #[test]
    fn a_circle_is_found_though_ways_that_end_leave_it() {
        let rows: &[(bool, &[u32])] = &[(false, &[1]), (false, &[3, 2]), (false, &[1]), (true, &[])];
        assert_eq!(check(rows), Some((1, "no flapping")));
    }
}
