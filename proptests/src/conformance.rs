//! What the dish takes for granted of an API server, asked in the same words of the dish and of a real one.
//!
//! A [`Case`] is a list of calls, each with the answer it must get. [`check`] runs it against a [`Server`]: [`dish`]
//! is one, and `petri-e2e` makes another of a cluster. Where they differ, the dish is wrong.
//!
//! Not asked, because Petri relies on neither: names that the server generates, and owner references of its own
//! objects. That pods go with their Job is asked. Not asked either: that a watch from further back than the server
//! remembers is refused with 410. A young server remembers all; [`crate::dish::feed`] has that alone.

mod cases;
pub mod dish;

pub use crate::dish::{feed::Change, server::Refused};
pub use cases::all;

use crate::laws::{Breach, Verdict, require};
use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

/// One object of a case. Every case has a namespace of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Thing {
    /// The namespace.
    Space,
    /// A Secret.
    Secret(&'static str),
    /// A Job; its pod needs the Secret of the same name.
    Job(&'static str, Nature),
    /// The environment's own object, with a status of its own.
    Own,
    /// A Lease.
    Lease,
}

/// What the pod of a Job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nature {
    /// It ends well.
    EndsWell,
    /// It ends badly.
    EndsBadly,
    /// It stays, and takes some seconds to go when it is told to.
    Stays,
}

/// Which identity a delete names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// That of the object that stands there, or stood there last.
    Its,
    /// That of the first object of this name.
    First,
    /// One that nobody has.
    Nobodys,
}

/// Which version a write names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// The one that was read or written last.
    Last,
    /// The one that the object was created with.
    First,
}

/// One thing that is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Creates.
    Create(Thing),
    /// Deletes on condition of a UID; a Job in the foreground.
    Delete(Thing, Which),
    /// Deletes the own object on condition of a version.
    DeleteOwn(Version),
    /// Looks.
    Read(Thing),
    /// Replaces the status of the own object: by another one, or by what it is.
    Status(Version, bool),
    /// Changes the spec of the own object, as a user does: without a condition.
    Spec,
    /// Sets or drops the finalizer of the own object.
    Finalizer(Version, bool),
    /// Takes or renews the Lease.
    Renew(&'static str, Version),
    /// Waits until a Job's pod runs.
    Runs(&'static str),
    /// Waits until a Job has ended.
    Ends(&'static str),
    /// Waits until something is gone.
    Gone(Thing),
    /// Waits a little, and finds the pod of a Job not begun.
    Waits(&'static str),
    /// Lists the Jobs, and keeps the version of the list.
    List,
    /// Watches the Jobs from the list on, until a bookmark comes.
    Watch,
}

/// What comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was done, and changed something.
    Done,
    /// It was taken, and changed nothing: no version rose.
    Same,
    /// It was refused.
    Refused(Refused),
    /// It is there.
    There(Facts),
    /// What a watch said, repetitions left out; a bookmark's version is not behind what came before it.
    News(Vec<Change>),
    /// Something else, in words.
    Strange(String),
}

/// What a look shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// It is being deleted.
    pub deleting: bool,
    /// It has the finalizer.
    pub finalizer: bool,
    /// How often the generation of the own object rose: with the spec, and at its deletion.
    pub changes: i64,
    /// How a Job ended, if it has. One whose pod has not ended has not.
    pub ended: Option<bool>,
}

/// One assumption.
#[derive(Clone, Debug)]
pub struct Case {
    /// As a sentence.
    pub name: &'static str,
    /// What is asked, and the answer.
    pub steps: Vec<(Call, Answer)>,
}

/// Who is asked. One server is asked one case, in a namespace of its own.
pub trait Server {
    /// Does what is asked.
    fn call(&mut self, call: Call) -> impl Future<Output = Answer> + Send;
}

/// Runs a case.
///
/// # Errors
/// The first answer that is another one.
pub async fn check(server: &mut impl Server, case: &Case) -> Verdict {
    for (at, (call, expected)) in case.steps.iter().enumerate() {
        let answer = server.call(*call).await;
        require("the dish is like a real API server", answer == *expected, || {
            format!("{}: step {at}, {call:?}: {answer:?}, expected {expected:?}", case.name)
        })?;
    }
    Ok(())
}

/// Runs all cases against the dish.
///
/// # Errors
/// As [`check`].
pub fn check_dish() -> Verdict {
    all().iter().try_for_each(|case| {
        let mut server = dish::Server::default();
        let running = pin!(check(&mut server, case));
        // The dish never waits for anything.
        match running.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(verdict) => verdict,
            Poll::Pending => Err(Breach { law: "the dish answers at once", what: case.name.to_owned() }),
        }
    })
}
