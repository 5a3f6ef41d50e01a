//! Ends the labs of this process when it is asked to end: Ctrl-C, SIGTERM, the end of the terminal.
//!
//! A signal runs no destructor, so a thread waits for one; a test needs to do nothing for it.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use tokio::signal::unix::{SignalKind, signal};

use super::home::Home;
use super::teardown::teardown;

static LIVE: Mutex<BTreeSet<Home>> = Mutex::new(BTreeSet::new());
static LISTENER: Once = Once::new();

/// Ends a lab when it is dropped, or when the process is asked to end.
#[derive(Debug)]
pub struct Guard {
    home: Home,
    armed: bool,
}

impl Guard {
    /// From now on the lab ends with this value.
    pub fn new(home: &Home) -> Self {
        live().insert(home.clone());
        LISTENER.call_once(|| {
            std::thread::spawn(|| {
                if let Err(error) = listen() {
                    eprintln!("lab: a signal will not end the lab: {error}");
                }
            });
        });
        Guard { home: home.clone(), armed: true }
    }

    /// From now on nothing ends the lab by itself.
    pub fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.armed
            && let Err(error) = teardown(&self.home)
        {
            eprintln!("lab: {error}");
        }
        live().remove(&self.home);
    }
}

fn live() -> MutexGuard<'static, BTreeSet<Home>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listen() -> std::io::Result<()> {
    // Its own small runtime: the one that started the lab may be blocked, or gone.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let code = runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        Ok::<_, std::io::Error>(tokio::select! {
            _ = interrupt.recv() => 130,
            _ = terminate.recv() => 143,
            _ = hangup.recv() => 129,
        })
    })?;
    // Held to the end: nothing starts another lab meanwhile.
    let live = live();
    for home in live.iter() {
        eprintln!("lab: interrupted, ending {}", home.name());
        if let Err(error) = teardown(home) {
            eprintln!("lab: {error}");
        }
    }
    std::process::exit(code)
}
