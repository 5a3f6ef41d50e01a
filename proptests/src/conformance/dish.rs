//! The dish as a server of the suite: its requests, and its cluster's own doings where a case waits.

use super::{Answer, Call, Change, Facts, Nature, Refused, Thing, Version, Which};
use crate::dish::{
    Op,
    apply::job_name,
    cluster::{Access3, Cluster, Job, Own, Pod, Specs},
    feed::Feed,
    nature,
    pair::Lease,
    server::Written,
    spec, user,
};
use petri_machines::{
    environment::{Record, Status},
    job::{self, JobFailure},
    names::{ComponentName, Digest, JobName, NamespaceName, Uid},
    reason::FailureReason,
};
use std::collections::BTreeMap;

/// How far the server is before a case begins: it has forgotten all that.
const LIVED: u64 = 100;

/// A dish that answers.
#[derive(Debug)]
pub struct Server {
    cluster: Cluster,
    specs: Specs,
    feed: Feed,
    listed: u64,
    lease: Option<Lease>,
    uids: BTreeMap<Thing, Vec<Uid>>,
    versions: BTreeMap<Thing, (u64, u64)>,
    natures: BTreeMap<ComponentName, Nature>,
}

impl Default for Server {
    fn default() -> Self {
        let mut cluster = Cluster::new(None);
        cluster.own = None;
        Self {
            cluster,
            specs: ["a:1", "a:2"].iter().filter_map(|line| spec::parse(line).ok()).collect(),
            feed: Feed::lived(LIVED),
            listed: 0,
            lease: None,
            uids: BTreeMap::new(),
            versions: BTreeMap::new(),
            natures: BTreeMap::new(),
        }
    }
}

impl super::Server for Server {
    async fn call(&mut self, call: Call) -> Answer {
        let before = self.cluster.jobs();
        let answer = self.answer(call);
        self.feed.note(&before, &self.cluster.jobs());
        answer.unwrap_or_else(Answer::Refused)
    }
}

fn space() -> NamespaceName {
    let candidates = NamespaceName::candidates(&Cluster::owner());
    candidates.into_iter().next().unwrap_or_else(|| unreachable!("there are twelve"))
}

fn component(name: &str) -> ComponentName {
    ComponentName::new(name).unwrap_or_else(|_| unreachable!("the cases name labels"))
}

fn name(of: &str) -> JobName {
    job_name(&component(of), job::Op::Deploy, 1)
}

fn written(written: Written) -> Result<Answer, Refused> {
    written.map(|changed| if changed { Answer::Done } else { Answer::Same })
}

impl Server {
    fn answer(&mut self, call: Call) -> Result<Answer, Refused> {
        match call {
            Call::Create(thing) => {
                let answer = self.create(thing)?;
                let uid = self.uid(thing);
                self.uids.entry(thing).or_default().extend(uid);
                if let Some(version) = self.version(thing) {
                    self.versions.insert(thing, (version, version));
                }
                Ok(answer)
            }
            Call::Delete(thing, which) => self.delete(thing, which),
            Call::DeleteOwn(version) => {
                let done = self.cluster.delete_own(self.named(Thing::Own, version));
                self.note(Thing::Own, done)
            }
            Call::Read(thing) => self.read(thing),
            Call::Status(version, changes) => {
                let own = self.cluster.own.as_ref();
                let mut record: Record = own.and_then(|own| own.record.clone()).unwrap_or_default();
                record.memory.serial += u64::from(changes);
                let done = self.cluster.replace_status(self.named(Thing::Own, version), record, shown());
                self.note(Thing::Own, done)
            }
            Call::Spec => written(Ok(user(&mut self.cluster, &self.specs, &Op::Spec { spec: 1 }))),
            Call::Finalizer(version, held) => {
                let done = self.cluster.set_finalizer(self.named(Thing::Own, version), held);
                self.note(Thing::Own, done)
            }
            Call::Renew(who, version) => {
                let version = self.named(Thing::Lease, version);
                let lease = self.lease.as_mut().ok_or(Refused::NotFound)?;
                let done = lease.replace(version, who.len(), self.cluster.now).map(|()| true);
                self.note(Thing::Lease, done)
            }
            Call::Runs(job) => Ok(if nature::pod_starts(&mut self.cluster, &component(job)) {
                Answer::Done
            } else {
                Answer::Strange("its pod does not start".to_owned())
            }),
            Call::Waits(job) => Ok(if nature::pod_starts(&mut self.cluster, &component(job)) {
                Answer::Strange("its pod starts".to_owned())
            } else {
                Answer::Done
            }),
            Call::Ends(job) => Ok(self.ends(&component(job))),
            Call::Gone(_) => {
                while nature::deleted_jobs_go(&mut self.cluster) || nature::namespaces_go(&mut self.cluster) {
                }
                Ok(Answer::Done)
            }
            Call::List => {
                self.listed = self.feed.version();
                Ok(Answer::Done)
            }
            Call::Watch => self.watch(self.listed),
        }
    }

    /// A namespace is made with the rights that pods need: those are no matter of this suite.
    fn create(&mut self, thing: Thing) -> Result<Answer, Refused> {
        match thing {
            Thing::Space => {
                let done = self.cluster.create_namespace(&space())?;
                if let Some(space) = self.cluster.spaces.get_mut(&space()) {
                    space.access = Access3 { operator: true, account: true, deployer: true };
                }
                written(Ok(done))
            }
            Thing::Secret(of) => {
                written(self.cluster.create_secret(&space(), &name(of), Digest::of(&["payload"])))
            }
            Thing::Job(of, nature) => {
                self.natures.insert(component(of), nature);
                let job = Job {
                    uid: Cluster::owner(),
                    component: component(of),
                    op: job::Op::Deploy,
                    serial: 1,
                    pod: Pod::Waiting,
                    mounted: None,
                    complaint: None,
                    deleting: false,
                };
                written(self.cluster.create_job(&space(), &name(of), job))
            }
            Thing::Own => {
                self.cluster.own = Some(Own::new(None));
                Ok(Answer::Done)
            }
            Thing::Lease => {
                self.lease = Some(Lease::default());
                Ok(Answer::Done)
            }
        }
    }

    fn delete(&mut self, thing: Thing, which: Which) -> Result<Answer, Refused> {
        let known = self.uids.get(&thing);
        let nobodys = || Uid::new("nobodys").unwrap_or_else(|_| unreachable!("not empty"));
        let uid = match which {
            Which::Its => known.and_then(|uids| uids.last().cloned()),
            Which::First => known.and_then(|uids| uids.first().cloned()),
            Which::Nobodys => None,
        };
        let uid = uid.unwrap_or_else(nobodys);
        written(match thing {
            Thing::Space => self.cluster.delete_namespace(&space(), &uid),
            Thing::Secret(of) => self.cluster.delete_secret(&space(), &name(of), &uid),
            Thing::Job(of, _) => self.cluster.delete_job(&space(), &name(of), &uid),
            Thing::Own | Thing::Lease => return Ok(Answer::Strange("not deleted by UID".to_owned())),
        })
    }

    fn read(&mut self, thing: Thing) -> Result<Answer, Refused> {
        let within = || self.cluster.spaces.get(&space()).ok_or(Refused::NotFound);
        let facts = match thing {
            Thing::Space => Facts { deleting: within()?.terminating, ..Facts::default() },
            Thing::Secret(of) => {
                within()?.secrets.get(&name(of)).ok_or(Refused::NotFound)?;
                Facts::default()
            }
            Thing::Job(of, _) => {
                let job = within()?.jobs.get(&name(of)).ok_or(Refused::NotFound)?;
                let ended = (!job.is_live()).then_some(job.pod == Pod::Succeeded);
                Facts { deleting: job.deleting, ended, ..Facts::default() }
            }
            Thing::Own => {
                let own = self.cluster.own.as_ref().ok_or(Refused::NotFound)?;
                let (deleting, finalizer) = (own.deletion, own.finalizer);
                Facts { deleting, finalizer, changes: own.generation - 1, ..Facts::default() }
            }
            Thing::Lease => {
                self.lease.ok_or(Refused::NotFound)?;
                Facts::default()
            }
        };
        self.saw(thing);
        Ok(Answer::There(facts))
    }

    fn ends(&mut self, job: &ComponentName) -> Answer {
        let badly =
            JobFailure { reason: FailureReason::HelmFailed, message: String::new(), disrupted: false };
        let failure = (self.natures.get(job) == Some(&Nature::EndsBadly)).then_some(badly);
        nature::pod_starts(&mut self.cluster, job);
        match nature::pod_ends(&mut self.cluster, job, failure) {
            Some(_) => Answer::Done,
            None => Answer::Strange("its pod does not end".to_owned()),
        }
    }

    fn watch(&self, from: u64) -> Result<Answer, Refused> {
        let mut said: Vec<Change> = self.feed.since(from)?.into_iter().map(|news| news.change).collect();
        said.dedup();
        Ok(Answer::News(said))
    }

    fn uid(&self, thing: Thing) -> Option<Uid> {
        let within = self.cluster.spaces.get(&space())?;
        match thing {
            Thing::Space => Some(within.uid.clone()),
            Thing::Secret(of) => within.secrets.get(&name(of)).map(|secret| secret.uid.clone()),
            Thing::Job(of, _) => within.jobs.get(&name(of)).map(|job| job.uid.clone()),
            Thing::Own | Thing::Lease => None,
        }
    }

    fn version(&self, thing: Thing) -> Option<u64> {
        match thing {
            Thing::Own => self.cluster.own.as_ref().map(|own| own.resource_version),
            Thing::Lease => self.lease.map(|lease| lease.resource_version),
            Thing::Space | Thing::Secret(_) | Thing::Job(..) => None,
        }
    }

    fn named(&self, thing: Thing, version: Version) -> u64 {
        let (first, last) = self.versions.get(&thing).copied().unwrap_or_default();
        if version == Version::First { first } else { last }
    }

    fn saw(&mut self, thing: Thing) {
        if let (Some(version), Some((_, last))) = (self.version(thing), self.versions.get_mut(&thing)) {
            *last = version;
        }
    }

    fn note(&mut self, thing: Thing, done: Written) -> Result<Answer, Refused> {
        if done.is_ok() {
            self.saw(thing);
        }
        written(done)
    }
}

fn shown() -> Status {
    Status {
        phase: "Pending",
        conditions: Vec::new(),
        namespace: None,
        namespace_uid: None,
        url: None,
        expires_at: None,
        deploy_started_at: None,
        observed_generation: 1,
        components: Vec::new(),
        history: Vec::new(),
    }
}
