//! The dependency graph of components: levels for deploying, their reverse for undeploying.

use crate::names::ComponentName;
use petgraph::{algo::kosaraju_scc, graph::DiGraph, graph::NodeIndex};
use std::collections::{BTreeMap, BTreeSet};

/// A graph that has no levels.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// One name twice.
    #[error("component {0} is declared twice")]
    Duplicate(ComponentName),
    /// A dependency on something that is not there.
    #[error("component {component} depends on {dependency}, which does not exist")]
    Unknown {
        /// Who depends.
        component: ComponentName,
        /// On what.
        dependency: ComponentName,
    },
    /// Components that wait for each other.
    #[error("dependency cycle: {}", path(.0))]
    Cycle(Vec<ComponentName>),
}

fn path(cycle: &[ComponentName]) -> String {
    let names: Vec<&str> = cycle.iter().chain(cycle.first()).map(ComponentName::as_str).collect();
    names.join(" -> ")
}

/// Returns the components level by level (Kahn), input order kept within a level.
///
/// A component stands in the first level in which all that it depends on stands in earlier ones.
pub fn levels(
    components: &[(ComponentName, Vec<ComponentName>)],
) -> Result<Vec<Vec<ComponentName>>, GraphError> {
    let mut known = BTreeSet::new();
    for (name, _) in components {
        if !known.insert(name) {
            return Err(GraphError::Duplicate(name.clone()));
        }
    }
    for (component, dependencies) in components {
        if let Some(dependency) = dependencies.iter().find(|name| !known.contains(name)) {
            return Err(GraphError::Unknown { component: component.clone(), dependency: dependency.clone() });
        }
    }
    let mut placed: BTreeSet<&ComponentName> = BTreeSet::new();
    let mut levels = Vec::new();
    while placed.len() < components.len() {
        let free = |(name, needs): &&(ComponentName, Vec<ComponentName>)| {
            !placed.contains(name) && needs.iter().all(|need| placed.contains(need))
        };
        let level: Vec<&ComponentName> = components.iter().filter(free).map(|(name, _)| name).collect();
        if level.is_empty() {
            return Err(GraphError::Cycle(cycle(components)));
        }
        placed.extend(level.iter().copied());
        levels.push(level.into_iter().cloned().collect());
    }
    Ok(levels)
}

/// Finds one cycle and returns it in the order of its edges, beginning with its smallest name.
fn cycle(components: &[(ComponentName, Vec<ComponentName>)]) -> Vec<ComponentName> {
    let mut graph: DiGraph<&ComponentName, ()> = DiGraph::new();
    let nodes: BTreeMap<&ComponentName, NodeIndex> =
        components.iter().map(|(name, _)| (name, graph.add_node(name))).collect();
    for (name, dependencies) in components {
        for dependency in dependencies {
            if let (Some(from), Some(to)) = (nodes.get(name), nodes.get(dependency)) {
                graph.add_edge(*from, *to, ());
            }
        }
    }
    let looped = |component: &Vec<NodeIndex>| match component.as_slice() {
        [one] => graph.contains_edge(*one, *one),
        more => more.len() > 1,
    };
    let Some(knot) = kosaraju_scc(&graph).into_iter().find(looped) else { return Vec::new() };
    let knot: BTreeSet<NodeIndex> = knot.into_iter().collect();
    let Some(mut at) = knot.iter().copied().min_by_key(|node| graph.node_weight(*node).copied()) else {
        return Vec::new();
    };
    // Following any edge inside a strongly connected component must come back to a node that was passed.
    let mut walk = Vec::new();
    while !walk.contains(&at) {
        walk.push(at);
        let Some(next) = graph.neighbors(at).filter(|node| knot.contains(node)).min() else { break };
        at = next;
    }
    let from = walk.iter().position(|node| *node == at).unwrap_or(0);
    walk.into_iter().skip(from).filter_map(|node| graph.node_weight(node).copied().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a<-b c` reads: `b c` is what `a` depends on.
    fn check(graph: &str, expected: &str) {
        let name = |text: &str| ComponentName::new(text).unwrap();
        let parse = |part: &str| {
            let (one, needs) = part.split_once("<-").unwrap_or((part, ""));
            (name(one.trim()), needs.split_whitespace().map(name).collect())
        };
        let components: Vec<_> = graph.split(';').filter(|part| !part.trim().is_empty()).map(parse).collect();
        let found = match levels(&components) {
            Ok(levels) => {
                let line = |level: &Vec<ComponentName>| {
                    level.iter().map(|n| n.as_str()).collect::<Vec<_>>().join(" ")
                };
                levels.iter().map(line).collect::<Vec<_>>().join(" | ")
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "{graph}");
    }

    #[test]
    fn scenarios_1_to_6_levels_follow_dependencies_and_keep_input_order() {
        check("", "");
        check("a", "a");
        check("b; a", "b a");
        check("c<-b; b<-a; a", "a | b | c");
        check("a; b<-a; c<-a; d<-b c", "a | b c | d");
        check("a; b; c<-a b", "a b | c");
    }

    #[test]
    fn scenarios_7_to_12_a_graph_without_levels_says_why() {
        check("a<-x", "component a depends on x, which does not exist");
        check("a<-a", "dependency cycle: a -> a");
        check("a<-b; b<-a", "dependency cycle: a -> b -> a");
        check("c<-a; b<-c; a<-b", "dependency cycle: a -> b -> c -> a");
        check("a; b; a", "component a is declared twice");
        check("a; b<-a; x<-y; y<-x; z<-y", "dependency cycle: x -> y -> x");
    }
}
