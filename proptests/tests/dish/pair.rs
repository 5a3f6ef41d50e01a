//! Two operators on one cluster: interleaved at every ask, one of them stale, frozen past its Lease, or dead.

use crate::{CHAIN, seeded};
use petri_proptests::dish::{
    Op,
    pair::{self, Act, Pair},
    replica::Fault,
};
use proptest::{collection::vec, option, prelude::*, sample::select};

fn act() -> impl Strategy<Value = Act> {
    let fault = option::weighted(0.1, select(vec![Fault::CrashBefore, Fault::CrashAfter, Fault::Lost]));
    prop_oneof![
        12 => (0..2usize, fault).prop_map(|(who, fault)| Act::Step { who, fault }),
        3 => (0..2usize, prop::bool::weighted(0.2)).prop_map(|(who, lost)| Act::Renew { who, lost }),
        6 => seeded::nature().prop_map(Act::Happens),
        1 => seeded::users().prop_map(Act::Happens),
        2 => select(vec![1u64, 4, 9, 16, 40]).prop_map(|secs| Act::Happens(Op::Clock { secs })),
    ]
}

fn check(acts: &[Act], survivor: usize) -> Result<(), TestCaseError> {
    let mut pair = Pair::new(&[CHAIN, "a:1; b:2<-a; c:1<-b", "a:1; b:1<-a"], true).unwrap();
    pair.dish.asks_laws = false;
    let lived = acts.iter().try_for_each(|act| pair.run(act)).and_then(|()| pair.end(survivor));
    lived.map_err(|breach| TestCaseError::fail(format!("{acts:?}\n{breach}\n{}", pair.dish.log.join("\n"))))
}

proptest! {
    #![proptest_config(seeded::options(60))]

    #[test]
    fn lead_01_and_lead_02_nobody_writes_after_its_deadline_whatever_becomes_of_the_lease(
        acts in vec(act(), 0..150),
        survivor in 0..2usize,
    ) {
        check(&acts, survivor)?;
    }
}

#[test]
fn lead_05_an_operator_that_goes_on_with_what_it_saw_long_ago_does_no_harm() {
    match pair::stale_everywhere("a:1; b:1<-a") {
        Ok(lives) => assert!(lives > 200, "{lives}"),
        Err(breach) => panic!("{breach}"),
    }
}
