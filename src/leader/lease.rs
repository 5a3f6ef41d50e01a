//! The Lease object: what one look at it means, and what to write. Pure; the loop is in the parent module.
use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::Lease,
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use std::time::Duration;
use tokio::time::Instant;

/// Whose the Lease is, from the view of one candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// Nobody's: it may be taken.
    Free,
    /// Ours: it may be renewed.
    Ours,
    /// Somebody else's.
    Theirs,
}

/// What a candidate has seen of another holder. Times of other machines are never compared with ours: a Lease has
/// expired when it was *seen* unchanged for its whole duration.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    seen: Option<(String, Instant)>,
}

impl Watcher {
    /// Classifies the Lease as read at `now`.
    pub(super) fn view(&mut self, lease: &Lease, identity: &str, now: Instant) -> View {
        match holder(lease) {
            None => return View::Free,
            Some(holder) if holder == identity => return View::Ours,
            Some(_) => {}
        }
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        let since = match &self.seen {
            Some((known, since)) if *known == version => *since,
            _ => {
                self.seen = Some((version, now));
                now
            }
        };
        if now >= since + duration(lease) { View::Free } else { View::Theirs }
    }
}

/// Returns who holds it.
pub(super) fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// The duration that the holder promised; a missing or absurd one counts as one second.
fn duration(lease: &Lease) -> Duration {
    let secs = lease.spec.as_ref().and_then(|spec| u64::try_from(spec.lease_duration_seconds?).ok());
    Duration::from_secs(secs.unwrap_or(1).max(1))
}

/// A Lease that does not exist yet: nobody's, and without a resourceVersion.
pub(super) fn unborn(name: &str) -> Lease {
    Lease { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, spec: None }
}

/// Makes it ours, or renews it; `resourceVersion` stays, so that the write fails if somebody wrote since.
pub(super) fn taken(mut lease: Lease, identity: &str, term: Duration, now: Timestamp) -> Lease {
    let mut spec = lease.spec.take().unwrap_or_default();
    if spec.holder_identity.as_deref() != Some(identity) {
        spec.lease_transitions = Some(spec.lease_transitions.map_or(0, |count| count.saturating_add(1)));
        spec.acquire_time = Some(MicroTime(now));
    }
    spec.holder_identity = Some(identity.to_owned());
    spec.lease_duration_seconds = Some(i32::try_from(term.as_secs()).unwrap_or(i32::MAX));
    spec.renew_time = Some(MicroTime(now));
    lease.spec = Some(spec);
    lease
}

/// Gives it up, in the form that client-go's candidates know too: no holder, one second.
pub(super) fn released(mut lease: Lease, now: Timestamp) -> Lease {
    let mut spec = lease.spec.take().unwrap_or_default();
    spec.holder_identity = Some(String::new());
    spec.lease_duration_seconds = Some(1);
    spec.renew_time = Some(MicroTime(now));
    lease.spec = Some(spec);
    lease
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(holder: &str, version: &str) -> Lease {
        let mut lease = taken(unborn("x"), holder, Duration::from_secs(15), Timestamp::UNIX_EPOCH);
        lease.metadata.resource_version = Some(version.to_owned());
        lease
    }

    fn at(secs: u64) -> Instant {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *START.get_or_init(Instant::now) + Duration::from_secs(secs)
    }

    #[test]
    fn a_foreign_lease_is_free_only_after_it_was_seen_unchanged_for_its_whole_duration() {
        let mut watcher = Watcher::default();
        let first = lease("other", "1");
        assert_eq!(watcher.view(&first, "me", at(0)), View::Theirs);
        assert_eq!(watcher.view(&first, "me", at(14)), View::Theirs);
        assert_eq!(watcher.view(&lease("other", "2"), "me", at(14)), View::Theirs);
        assert_eq!(watcher.view(&lease("other", "2"), "me", at(29)), View::Free);
    }

    #[test]
    fn an_old_renew_time_alone_does_not_free_a_lease() {
        // The holder's clock may be years behind ours: only what we saw ourselves counts.
        let mut watcher = Watcher::default();
        assert_eq!(watcher.view(&lease("other", "1"), "me", at(1_000_000)), View::Theirs);
    }

    #[test]
    fn a_released_lease_is_free_at_once_and_an_own_one_is_ours() {
        let mut watcher = Watcher::default();
        let gone = released(lease("other", "3"), Timestamp::UNIX_EPOCH);
        assert_eq!(watcher.view(&gone, "me", at(0)), View::Free);
        assert_eq!(watcher.view(&lease("me", "4"), "me", at(0)), View::Ours);
    }

    #[test]
    fn a_renewal_keeps_the_acquire_time_and_a_takeover_counts_a_transition() {
        let later = Timestamp::from_second(60).unwrap();
        let renewed = taken(lease("me", "1"), "me", Duration::from_secs(15), later).spec.unwrap();
        assert_eq!(renewed.acquire_time, Some(MicroTime(Timestamp::UNIX_EPOCH)));
        assert_eq!((renewed.renew_time, renewed.lease_transitions), (Some(MicroTime(later)), Some(0)));
        let stolen = taken(lease("other", "1"), "me", Duration::from_secs(15), later).spec.unwrap();
        assert_eq!((stolen.acquire_time, stolen.lease_transitions), (Some(MicroTime(later)), Some(1)));
    }
}
