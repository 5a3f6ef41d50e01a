//! The one loop, with a machine that counts: what is asked, in which order, and what a refusal stops.

use petri_machines::kernel::{
    Machine, Outbox,
    cycle::{Answer, Ask, Cycle, Done, Refusal, Stored},
    dialogue::Turn,
    machine::StepOf,
};

/// Wants to come to the number its world names, and says so when it is there.
#[derive(Clone, Debug, PartialEq)]
struct Counter;

impl Machine for Counter {
    type Phase = u8;
    type World = u8;
    type Command = u8;
    type Notice = &'static str;
    type Status = String;
    const VERSION: u32 = 3;

    fn dispatch(phase: u8, world: &u8, out: &mut Outbox<u8, &'static str>) -> u8 {
        if phase == *world {
            out.ensure(1);
            out.ensure(2);
            return phase;
        }
        out.moved("moved");
        *world
    }

    fn status(step: &StepOf<Self>, _: &u8) -> String {
        format!("at {}", step.phase)
    }

    fn is_watched(command: &u8) -> bool {
        *command != 2
    }
}

/// Begins a cycle over a stored phase and answers its first two questions.
fn begun(
    phase: u8,
    status: Option<&str>,
    version: u32,
    world: u8,
) -> (Cycle<Counter>, Turn<Ask<Counter>, Done>) {
    let mut cycle = Cycle::<Counter>::default();
    assert_eq!(cycle.advance(None), Turn::Ask(Ask::Read));
    let stored = Stored { phase, status: status.map(str::to_owned), version };
    let mut turn = cycle.advance(Some(Answer::Own(Some(stored))));
    if turn == Turn::Ask(Ask::Observe(phase)) {
        turn = cycle.advance(Some(Answer::World(world)));
    }
    (cycle, turn)
}

#[test]
fn a_new_record_is_stored_before_anything_is_applied_and_announced_last() {
    let (mut cycle, turn) = begun(0, None, 3, 7);
    assert_eq!(turn, Turn::Ask(Ask::Store { phase: 7, status: "at 7".to_owned() }));
    assert_eq!(cycle.advance(Some(Answer::Stored(Ok(())))), Turn::Ask(Ask::Apply(1)));
    assert_eq!(cycle.advance(Some(Answer::Applied(Ok(())))), Turn::Ask(Ask::Apply(2)));
    assert_eq!(cycle.advance(Some(Answer::Applied(Ok(())))), Turn::Ask(Ask::Notify(vec!["moved"])));
    let done = Done::Settled { wake: None, again: true };
    assert_eq!(cycle.advance(Some(Answer::Notified)), Turn::Done(done));
}

#[test]
fn what_did_not_change_is_not_written() {
    let (_, turn) = begun(7, Some("at 7"), 3, 7);
    assert_eq!(turn, Turn::Ask(Ask::Apply(1)));
}

#[test]
fn a_status_that_differs_is_written_although_the_record_is_the_same() {
    let (_, turn) = begun(7, Some("at 6"), 3, 7);
    assert_eq!(turn, Turn::Ask(Ask::Store { phase: 7, status: "at 7".to_owned() }));
}

#[test]
fn after_a_conflict_nothing_is_applied() {
    let (mut cycle, _) = begun(0, None, 3, 7);
    let turn = cycle.advance(Some(Answer::Stored(Err(Refusal::Retry))));
    assert_eq!(turn, Turn::Done(Done::Refused(Refusal::Retry)));
}

#[test]
fn a_refused_command_stops_the_rest_but_the_stored_transition_is_still_announced() {
    let (mut cycle, _) = begun(0, None, 3, 7);
    cycle.advance(Some(Answer::Stored(Ok(()))));
    let turn = cycle.advance(Some(Answer::Applied(Err(Refusal::Backoff))));
    assert_eq!(turn, Turn::Ask(Ask::Notify(vec!["moved"])));
    assert_eq!(cycle.advance(Some(Answer::Notified)), Turn::Done(Done::Refused(Refusal::Backoff)));
}

#[test]
fn a_record_of_a_newer_release_is_left_alone() {
    let (_, turn) = begun(0, None, 4, 7);
    assert_eq!(turn, Turn::Done(Done::Held { found: 4 }));
}

#[test]
fn an_object_that_is_gone_ends_the_cycle_and_so_does_an_answer_out_of_turn() {
    let mut cycle = Cycle::<Counter>::default();
    cycle.advance(None);
    assert_eq!(cycle.advance(Some(Answer::Own(None))), Turn::Done(Done::Gone));
    let mut cycle = Cycle::<Counter>::default();
    cycle.advance(None);
    assert_eq!(cycle.advance(Some(Answer::Notified)), Turn::Done(Done::OutOfTurn));
    assert_eq!(cycle.advance(None), Turn::Done(Done::OutOfTurn));
}
