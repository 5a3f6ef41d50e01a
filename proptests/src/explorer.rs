//! The explorer: every state of a bounded world, until there is no new one.
//!
//! Nodes are (record, cluster) in canonical form; edges are all that the operator, the cluster, users, time and faults
//! may do. At the end the frontier is empty (closure), every bottom component of the graph is settled (no dead end),
//! and in peace nothing goes round in a circle (no flapping).

pub mod edges;
pub mod node;

use crate::{
    dish::{cluster::Cluster, cluster::Specs, spec},
    laws::Breach,
};
use edges::{Edge, Found, Maker, edges};
use node::{Budget, Node};
use petgraph::{
    algo::kosaraju_scc,
    graph::{DiGraph, NodeIndex},
    visit::EdgeRef as _,
};
use petri_machines::environment::Phase;
use std::collections::{HashMap, VecDeque};

/// A bounded world.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// What may be asked for; the first is asked for at the beginning.
    pub specs: Vec<String>,
    /// Seconds until it expires.
    pub ttl_secs: Option<u64>,
    /// What may happen how often.
    pub budget: Budget,
    /// States after which exploring gives up: that is a failure, not a result.
    pub states_max: usize,
}

/// What became of a state, kept when the state itself is not.
#[derive(Clone, Debug)]
struct Seen {
    settled: bool,
    from: Option<(NodeIndex, String)>,
    shows: String,
}

/// What exploring came to.
#[derive(Debug)]
pub struct Report {
    /// Distinct states.
    pub states: usize,
    /// Edges.
    pub edges: usize,
    /// What was found on the way.
    pub found: Found,
}

/// Explores a world to closure and checks the graph.
///
/// # Errors
/// The first breach, with the path to it.
pub fn explore(bounds: &Bounds) -> Result<Report, Breach> {
    let specs = bounds.specs.iter().map(|line| spec::parse(line)).collect::<Result<Specs, _>>();
    let specs = specs.map_err(|error| Breach { law: "bounds", what: error.to_string() })?;
    let mut graph: DiGraph<Seen, Maker> = DiGraph::new();
    let mut known: HashMap<u128, NodeIndex> = HashMap::new();
    let mut frontier = VecDeque::new();
    let mut found = Found::default();
    let mut cluster = Cluster::new(bounds.ttl_secs);
    cluster.names_uids = true;
    let first = Node { cluster, budget: bounds.budget }.canonical();
    let at = graph.add_node(Seen { settled: false, from: None, shows: "the beginning".to_owned() });
    known.insert(first.fingerprint(), at);
    frontier.push_back((at, first));
    while let Some((at, node)) = frontier.pop_front() {
        let out = edges(&node, &specs, &mut found).map_err(|breach| with_path(&graph, at, breach))?;
        graph[at].settled = is_settled(&node, &specs);
        for Edge { maker, what, to } in out {
            let next = *known.entry(to.fingerprint()).or_insert_with(|| {
                let shows = shows(&to);
                let next = graph.add_node(Seen { settled: false, from: Some((at, what)), shows });
                frontier.push_back((next, to));
                next
            });
            graph.add_edge(at, next, maker);
        }
        if graph.node_count() > bounds.states_max {
            let what = format!("more than {} states, {} unexplored", bounds.states_max, frontier.len());
            return Err(Breach { law: "closure", what });
        }
    }
    no_dead_end(&graph)?;
    no_flapping(&graph)?;
    Ok(Report { states: graph.node_count(), edges: graph.edge_count(), found })
}

/// Gone without a trace; or ready for what is asked for, or failed, with nothing under way.
fn is_settled(node: &Node, specs: &Specs) -> bool {
    let Some(own) = &node.cluster.own else { return node.cluster.traces().is_empty() };
    if own.deletion {
        return false;
    }
    match own.record.as_ref().map(|record| &record.phase) {
        Some(Phase::Ready { plan }) => {
            node.is_still() && matches!(specs.get(own.spec), Some(Ok(wanted)) if wanted.digest == *plan)
        }
        Some(Phase::Failed { .. }) => node.is_still(),
        Some(Phase::Pending | Phase::Deploying { .. } | Phase::Terminating { .. }) | None => false,
    }
}

fn shows(node: &Node) -> String {
    let record = Cluster::record(&node.cluster).map(crate::dish::tell::record_line);
    record.unwrap_or_else(|| if node.cluster.own.is_some() { "nothing stored" } else { "gone" }.to_owned())
}

/// Law 7: in peace (no users, no faults) every bottom strongly connected component is settled.
fn no_dead_end(graph: &DiGraph<Seen, Maker>) -> Result<(), Breach> {
    let quiet = in_peace(graph);
    for component in kosaraju_scc(&quiet) {
        let leaves = |node: &NodeIndex| quiet.edges(*node).any(|edge| !component.contains(&edge.target()));
        if component.iter().any(leaves) {
            continue;
        }
        if let Some(stuck) = component.iter().find(|node| !graph[**node].settled) {
            let what = format!("no way out of {}", graph[*stuck].shows);
            return Err(with_path(graph, *stuck, Breach { law: "no dead end", what }));
        }
    }
    Ok(())
}

/// Law 8: in peace nothing goes round in a circle, except by standing still.
fn no_flapping(graph: &DiGraph<Seen, Maker>) -> Result<(), Breach> {
    match kosaraju_scc(&in_peace(graph)).into_iter().find(|component| component.len() > 1) {
        None => Ok(()),
        Some(circle) => {
            let shows: Vec<&str> = circle.iter().take(5).map(|node| graph[*node].shows.as_str()).collect();
            let what = format!("a circle of {}: {}", circle.len(), shows.join(" → "));
            Err(with_path(graph, circle[0], Breach { law: "no flapping", what }))
        }
    }
}

fn in_peace(graph: &DiGraph<Seen, Maker>) -> DiGraph<(), ()> {
    graph.filter_map(
        |_, _| Some(()),
        |_, maker| matches!(maker, Maker::Operator | Maker::Cluster | Maker::Clock).then_some(()),
    )
}

/// Adds the way from the beginning.
fn with_path(graph: &DiGraph<Seen, Maker>, at: NodeIndex, breach: Breach) -> Breach {
    let mut steps = vec![format!("  here: {}", graph[at].shows)];
    let mut at = at;
    while let Some((from, what)) = &graph[at].from {
        steps.push(format!("  {what}\n    from {}", graph[*from].shows));
        at = *from;
    }
    steps.reverse();
    Breach { what: format!("{}\n{}", breach.what, steps.join("\n")), ..breach }
}
