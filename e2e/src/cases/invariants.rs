//! What must hold whatever fails: laws over the audit log and over the lives of the Jobs.

mod jobs;
mod writes;

use std::time::Duration;

use super::audit::{Audit, Request};
use crate::petri::{Error, MANAGEMENT, Petri};
use jobs::Witness;

/// The operator's account.
pub const OPERATOR: &str = "system:serviceaccount:petri-system:petri-operator";
/// How long the last events may take to be seen.
const SETTLE: Duration = Duration::from_secs(1);

/// Watches a case from its begin, and judges it at its end.
pub struct Invariants {
    audit: Audit,
    witness: Witness,
    requests: Vec<Request>,
}

impl Invariants {
    /// Begins to watch.
    pub fn start(petri: &Petri<'_>) -> Result<Self, Error> {
        let audit = Audit::from_now(petri.lab.audit_log())?;
        Ok(Self { audit, witness: Witness::start(&petri.lab.client()), requests: Vec::new() })
    }

    /// Returns what the operator has asked since the begin.
    pub fn requests(&mut self) -> Result<&[Request], Error> {
        let news = self.audit.news()?;
        self.requests.extend(news.into_iter().filter(|request| request.is_by(OPERATOR)));
        Ok(&self.requests)
    }

    /// Returns how many Jobs were made.
    pub fn jobs(&self) -> usize {
        self.witness.count()
    }

    /// Judges what was seen: every law that was broken, by name; else how much was judged.
    pub async fn judge(mut self) -> Result<String, Error> {
        tokio::time::sleep(SETTLE).await;
        let mut broken = self.witness.one_live_job();
        let jobs = self.jobs();
        let requests = self.requests()?;
        let namespaces = [MANAGEMENT, petri_crds::meta::SHARED_NAMESPACE];
        broken.extend(writes::s1_only_own_namespaces(requests, &namespaces));
        broken.extend(writes::s9_only_the_leader_writes(requests));
        broken.extend(writes::s10_every_delete_names_a_uid(requests));
        broken.extend(writes::s11_no_status_write_changes_nothing(requests));
        let writes = requests.iter().filter(|request| request.write().is_some()).count();
        if !broken.is_empty() {
            return Err(Error::Wrong(broken.join("\n")));
        }
        if writes == 0 {
            return Err(Error::Wrong("no write of the operator was seen: nothing was judged".to_owned()));
        }
        Ok(format!("{jobs} Jobs, {writes} writes judged"))
    }
}
