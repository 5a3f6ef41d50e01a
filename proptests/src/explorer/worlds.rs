//! The bounded worlds of the proof: one to three components in every order, with and without a time to live, furniture,
//! specifications that change and change back, deletion at any time.

use super::{Bounds, state::Budget};

/// States after which a world is taken for unbounded.
pub const STATES_MAX: usize = 40_000_000;

fn world(specs: &[&str], ttl_secs: Option<u64>, (specs_left, faults, retries): (u8, u8, u8)) -> Bounds {
    Bounds {
        specs: specs.iter().map(|line| (*line).to_owned()).collect(),
        ttl_secs,
        budget: Budget { specs: specs_left, faults, retries },
        draws: false,
        states_max: STATES_MAX,
    }
}

/// Every graph of three components, up to isomorphism.
pub const GRAPHS_OF_THREE: [&str; 6] = [
    "a:1; b:1; c:1",
    "a:1; b:1<-a; c:1",
    "a:1; b:1<-a; c:1<-a",
    "a:1; b:1; c:1<-a b",
    "a:1; b:1<-a; c:1<-b",
    "a:1; b:1<-a; c:1<-a b",
];

/// The worlds that take half a minute.
pub fn standard() -> Vec<Bounds> {
    vec![
        world(&["a:1", "a:2"], None, (2, 0, 0)),
        world(&["a:1"], Some(100), (0, 1, 1)),
        world(&["a:1", "! nothing", "! still nothing"], Some(100), (2, 0, 0)),
        world(&["a:1!", "a:2!"], None, (1, 0, 1)),
        world(&["a:1; +Secret/pull:1; +HTTPRoute/web:1", "a:1; +Secret/pull:2"], None, (1, 1, 0)),
        world(&["a:1; b:1<-a", "a:1"], None, (1, 0, 0)),
        world(&["a:1!; b:1!<-a", "b:1!; a:1!<-b"], None, (1, 0, 0)),
        world(&["a:1!; b:1!<-a; c:1!<-b"], None, (0, 0, 0)),
    ]
}

/// All worlds.
pub fn all() -> Vec<Bounds> {
    let mut all = standard();
    all.extend([
        world(&["a:1", "a:2"], None, (2, 2, 1)),
        world(&["a:1", "a:2"], Some(100), (2, 2, 1)),
        world(&["a:1", "! nothing", "! still nothing"], Some(100), (2, 2, 1)),
        // Furniture multiplies by what stands of it: a second fault does not end within the time of the whole.
        world(&["a:1; +Secret/pull:1; +HTTPRoute/web:1", "a:1; +Secret/pull:2"], Some(100), (2, 1, 1)),
        world(&["a:1; b:1"], None, (0, 1, 0)),
        world(&["a:1; b:1", "a:2; b:1"], None, (2, 0, 0)),
        world(&["a:1; b:1<-a", "a:1; b:2<-a"], None, (1, 1, 0)),
        world(&["a:1; b:1<-a", "a:1"], Some(100), (2, 0, 0)),
        world(&["a:1!; b:1!<-a", "b:1!; a:1!<-b"], None, (2, 0, 0)),
        world(&["a:1; b:1<-a"], Some(100), (0, 1, 0)),
    ]);
    all.extend(GRAPHS_OF_THREE.iter().map(|graph| world(&[graph], None, (0, 0, 0))));
    all.push(world(&["a:1!; b:1!<-a; c:1!<-b", "a:1!; b:2!<-a; c:1!<-b"], None, (2, 0, 0)));
    all
}
