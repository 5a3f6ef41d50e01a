//! The assumptions.

use super::{Answer, Call, Case, Change, Facts, Nature, Refused, Thing, Version, Which};
use Answer::{Done, News, Same, There};
use Call::{
    Create, Delete, DeleteOwn, Ends, Finalizer, Gone, List, Read, Renew, Runs, Spec, Status, Waits, Watch,
};
use Nature::{EndsBadly, EndsWell, Stays};
use Thing::{Job, Lease, Own, Secret, Space};
use Which::{First, Its, Nobodys};

const FACTS: Facts = Facts { deleting: false, finalizer: false, changes: 0, ended: None };

fn no(refused: Refused) -> Answer {
    Answer::Refused(refused)
}

/// Returns every case.
pub fn all() -> Vec<Case> {
    let case = |name, steps| Case { name, steps };
    vec![
        case("a name is taken once", names()),
        case("a delete that names another UID deletes nothing", identities()),
        case("a Job that goes holds its name until its pod is gone", foreground()),
        case("a Job that ended stays, and says so after its pod has ended", endings()),
        case("a pod waits for its Secret", waiting()),
        case("a namespace that goes takes nothing in, and has its name until it is gone", terminating()),
        case(
            "a status is written only over what was read, and what changes nothing writes nothing",
            versions(),
        ),
        case("an object that is deleted stays for its finalizer, and goes with it", finalizers()),
        case("of two that write a Lease as they read it one wins", leases()),
        case("a watch says all that happened since the list, and then how far it came", watches()),
    ]
}

fn names() -> Vec<(Call, Answer)> {
    let job = Job("a", Stays);
    vec![
        (Create(Space), Done),
        (Create(Space), no(Refused::Exists)),
        (Read(Secret("a")), no(Refused::NotFound)),
        (Create(Secret("a")), Done),
        (Create(Secret("a")), no(Refused::Exists)),
        (Read(Secret("a")), There(FACTS)),
        (Create(job), Done),
        (Create(job), no(Refused::Exists)),
    ]
}

fn identities() -> Vec<(Call, Answer)> {
    let mut steps = vec![(Create(Space), Done), (Delete(Space, Nobodys), no(Refused::Conflict))];
    for thing in [Secret("a"), Job("b", EndsWell)] {
        steps.extend([
            (Delete(thing, Nobodys), no(Refused::NotFound)),
            (Create(thing), Done),
            (Delete(thing, Nobodys), no(Refused::Conflict)),
            (Read(thing), There(FACTS)),
            (Delete(thing, Its), Done),
            (Gone(thing), Done),
            (Delete(thing, Its), no(Refused::NotFound)),
            (Create(thing), Done),
            (Delete(thing, First), no(Refused::Conflict)),
            (Read(thing), There(FACTS)),
        ]);
    }
    steps
}

fn foreground() -> Vec<(Call, Answer)> {
    let job = Job("a", Stays);
    vec![
        (Create(Space), Done),
        (Create(Secret("a")), Done),
        (Create(job), Done),
        (Runs("a"), Done),
        (Delete(job, Its), Done),
        (Read(job), There(Facts { deleting: true, ..FACTS })),
        (Delete(job, Its), Same),
        (Create(job), no(Refused::Dying)),
        (Gone(job), Done),
        (Create(job), Done),
        (Delete(job, First), no(Refused::Conflict)),
    ]
}

fn endings() -> Vec<(Call, Answer)> {
    let (well, badly) = (Job("well", EndsWell), Job("badly", EndsBadly));
    vec![
        (Create(Space), Done),
        (Create(Secret("well")), Done),
        (Create(Secret("badly")), Done),
        (Create(well), Done),
        (Create(badly), Done),
        (Ends("well"), Done),
        (Read(well), There(Facts { ended: Some(true), ..FACTS })),
        (Ends("badly"), Done),
        (Read(badly), There(Facts { ended: Some(false), ..FACTS })),
        (Create(well), no(Refused::Exists)),
        (Delete(well, Its), Done),
        (Gone(well), Done),
    ]
}

fn waiting() -> Vec<(Call, Answer)> {
    vec![
        (Create(Space), Done),
        (Create(Job("a", Stays)), Done),
        (Waits("a"), Done),
        (Create(Secret("a")), Done),
        (Runs("a"), Done),
    ]
}

fn terminating() -> Vec<(Call, Answer)> {
    let job = Job("a", Stays);
    vec![
        (Create(Space), Done),
        (Create(Secret("a")), Done),
        (Create(job), Done),
        (Runs("a"), Done),
        (Delete(Space, Its), Done),
        (Read(Space), There(Facts { deleting: true, ..FACTS })),
        (Create(Secret("b")), no(Refused::Terminating)),
        (Create(Job("b", EndsWell)), no(Refused::Terminating)),
        (Create(Space), no(Refused::Dying)),
        (Delete(Space, Its), Same),
        (Gone(Space), Done),
        (Read(job), no(Refused::NotFound)),
        (Create(Secret("b")), no(Refused::NotFound)),
        (Delete(Space, Its), no(Refused::NotFound)),
        (Create(Space), Done),
        (Delete(Space, First), no(Refused::Conflict)),
        (Read(Secret("a")), no(Refused::NotFound)),
    ]
}

fn versions() -> Vec<(Call, Answer)> {
    use Version::{First, Last};
    vec![
        (Create(Space), Done),
        (Create(Own), Done),
        (Status(Last, true), Done),
        (Status(Last, false), Same),
        (Status(First, true), no(Refused::Conflict)),
        (Read(Own), There(FACTS)),
        (Spec, Done),
        (Status(Last, true), no(Refused::Conflict)),
        (Read(Own), There(Facts { changes: 1, ..FACTS })),
        (Status(Last, true), Done),
        (Read(Own), There(Facts { changes: 1, ..FACTS })),
        (DeleteOwn(First), no(Refused::Conflict)),
        (DeleteOwn(Last), Done),
        (Read(Own), no(Refused::NotFound)),
        (Status(Last, true), no(Refused::NotFound)),
        (DeleteOwn(Last), no(Refused::NotFound)),
    ]
}

fn finalizers() -> Vec<(Call, Answer)> {
    use Version::{First, Last};
    let held = Facts { finalizer: true, ..FACTS };
    let doomed = Facts { deleting: true, changes: 1, ..held };
    vec![
        (Create(Space), Done),
        (Create(Own), Done),
        (Finalizer(Last, true), Done),
        (Finalizer(Last, true), Same),
        (Finalizer(First, false), no(Refused::Conflict)),
        (Read(Own), There(held)),
        (DeleteOwn(Last), Done),
        (Read(Own), There(doomed)),
        (DeleteOwn(Last), Same),
        (Status(Last, true), Done),
        (Read(Own), There(doomed)),
        (Finalizer(Last, false), Done),
        (Read(Own), no(Refused::NotFound)),
        (Finalizer(Last, false), no(Refused::NotFound)),
    ]
}

fn leases() -> Vec<(Call, Answer)> {
    use Version::{First, Last};
    vec![
        (Create(Space), Done),
        (Create(Lease), Done),
        (Renew("a", First), Done),
        (Renew("b", First), no(Refused::Conflict)),
        (Renew("a", Last), Done),
        (Read(Lease), There(FACTS)),
        (Renew("b", Last), Done),
        (Renew("a", First), no(Refused::Conflict)),
    ]
}

fn watches() -> Vec<(Call, Answer)> {
    let job = Job("a", Stays);
    vec![
        (Create(Space), Done),
        (List, Done),
        (Create(job), Done),
        (Delete(job, Its), Done),
        (Gone(job), Done),
        (Watch, News(vec![Change::Added, Change::Modified, Change::Deleted, Change::Bookmark])),
        (List, Done),
        (Watch, News(vec![Change::Bookmark])),
    ]
}
