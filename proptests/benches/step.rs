//! How fast an environment steps, and how often it allocates: `cargo bench -p petri-proptests`.
//!
//! Small is what people run; 64 components are the most that a template may have. Time and allocations must grow no
//! faster than the components do.

use allocation_counter::measure;
use criterion::{BatchSize, Criterion};
use petri_machines::{
    environment::{Environment, Record, World},
    kernel::Machine as _,
};
use petri_proptests::dish::{Dish, Op, observe::observe};
use std::hint::black_box;

/// Components, four to a level: as many as are worked on at once.
fn spec(components: usize) -> String {
    let part = |n: usize| {
        let level = n / 4;
        let below = if level > 0 { format!("<-c{}", level * 4 - 1) } else { String::new() };
        format!("c{n}:1{below}")
    };
    (0..components).map(part).collect::<Vec<_>>().join("; ")
}

/// What the operator sees after these operations.
fn sight(components: usize, ops: &[Op]) -> (Record, World) {
    let mut dish = Dish::new(&[&spec(components)], None).expect("a specification");
    dish.asks_laws = false;
    for op in ops {
        dish.run(op).expect("no law is broken");
    }
    let own = dish.cluster.own.clone().expect("it is there");
    let record = own.record.clone().unwrap_or_default();
    let world = observe(&dish.cluster, &dish.specs, &own, &record, None);
    (record, world)
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let begun = vec![Op::Cycle; 12];
    let leaves = vec![Op::Settle, Op::Delete, Op::Cycle];
    for (what, ops) in [("ready", vec![Op::Settle]), ("deploying", begun), ("leaving", leaves)] {
        let mut group = criterion.benchmark_group(what);
        for components in [1, 10, 64] {
            let (record, world) = sight(components, &ops);
            let step = |record: Record| Environment::step(record, &world).expect("it settles");
            let held = record.clone();
            let info = measure(|| drop(black_box(step(held))));
            println!("{what}, {components} components: {} allocations a step", info.count_total);
            group.bench_function(components.to_string(), |bench| {
                bench.iter_batched(
                    || record.clone(),
                    |record| black_box(step(record)),
                    BatchSize::SmallInput,
                );
            });
        }
        group.finish();
    }
    criterion.final_summary();
}
