//! What a watch of the Jobs is told: every change in order, a bookmark at the end, and 410 when it asks for what the
//! server has forgotten.

use super::server::Refused;
use petri_machines::{job::JobView, names::ComponentName};
use std::collections::VecDeque;

/// Changes that the server remembers.
const REMEMBERED: usize = 16;

/// The Jobs of all namespaces that are ours, as a list shows them.
pub type Jobs = Vec<(ComponentName, JobView)>;

/// What became of a Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// It is there.
    Added,
    /// It is different.
    Modified,
    /// It is gone.
    Deleted,
    /// Nothing: the watch is told how far it has come.
    Bookmark,
}

/// One piece of news.
#[derive(Clone, Debug, PartialEq)]
pub struct News {
    /// What happened.
    pub change: Change,
    /// The Job as it is then, or was last; none for a bookmark.
    pub job: Option<(ComponentName, JobView)>,
    /// How far the server was then.
    pub version: u64,
}

/// The server's memory of what happened to Jobs.
#[derive(Clone, Debug, Default)]
pub struct Feed {
    version: u64,
    news: VecDeque<News>,
}

impl Feed {
    /// Returns the memory of a server that has come so far and forgotten all of it.
    pub fn lived(version: u64) -> Self {
        Self { version, news: VecDeque::new() }
    }

    /// Returns how far the server is: the version of a list that is made now.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Notes how two lists differ.
    pub fn note(&mut self, before: &Jobs, after: &Jobs) {
        let same = |list: &Jobs, job: &JobView| list.iter().find(|(_, one)| one.uid == job.uid).cloned();
        for (component, job) in before.iter().filter(|(_, job)| same(after, job).is_none()) {
            self.push(Change::Deleted, component, job);
        }
        for (component, job) in after {
            match same(before, job) {
                None => self.push(Change::Added, component, job),
                Some((_, was)) if was != *job => self.push(Change::Modified, component, job),
                Some(_) => {}
            }
        }
    }

    fn push(&mut self, change: Change, component: &ComponentName, job: &JobView) {
        self.version += 1;
        let job = Some((component.clone(), job.clone()));
        self.news.push_back(News { change, job, version: self.version });
        if self.news.len() > REMEMBERED {
            self.news.pop_front();
        }
    }

    /// Returns what happened after a version, and a bookmark.
    ///
    /// # Errors
    /// `Expired` when something of it is forgotten.
    pub fn since(&self, version: u64) -> Result<Vec<News>, Refused> {
        let oldest = self.news.front().map_or(self.version, |news| news.version - 1);
        if version < oldest {
            return Err(Refused::Expired);
        }
        let news = self.news.iter().filter(|news| news.version > version).cloned();
        let bookmark = News { change: Change::Bookmark, job: None, version: self.version };
        Ok(news.chain([bookmark]).collect())
    }
}

/// Brings a list up to date with the news, as a cache does.
pub fn apply(list: &mut Jobs, news: Vec<News>) {
    for News { change, job, .. } in news {
        let Some((component, job)) = job else { continue };
        list.retain(|(_, one)| one.uid != job.uid);
        if change != Change::Deleted {
            list.push((component, job));
        }
    }
    list.sort_by(|(_, one), (_, other)| one.name.cmp(&other.name));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_is_refused_and_what_is_remembered_ends_with_a_bookmark() {
        let feed = Feed::lived(100);
        assert_eq!(feed.since(1), Err(Refused::Expired));
        let bookmark = News { change: Change::Bookmark, job: None, version: 100 };
        assert_eq!(feed.since(100), Ok(vec![bookmark]));
    }
}
