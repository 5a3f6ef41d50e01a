//! Ends the labs of this process when it is asked to end: Ctrl-C, SIGTERM, the end of the terminal.
//!
//! A signal runs no destructor, so a thread waits for one; a test needs to do nothing for it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{RwLock, RwLockReadGuard};

use super::home::Home;
use super::teardown::teardown;

static LIVE: Mutex<BTreeSet<Home>> = Mutex::new(BTreeSet::new());
static LISTENER: Once = Once::new();

/// Set once the process has been asked to end: from then on only the listener acts.
static ENDING: AtomicBool = AtomicBool::new(false);
/// Held for reading while something of a lab is being made, so that nothing is made behind the back of the
/// listener, which takes it for writing.
static MAKING: RwLock<()> = RwLock::const_new(());

/// Permission to make something of a lab, for as long as the value lives; none comes after a signal.
pub async fn making() -> RwLockReadGuard<'static, ()> {
    let permission = MAKING.read().await;
    if is_ending() { std::future::pending().await } else { permission }
}

/// True when a signal is ending the labs of this process, so that what fails now fails for that reason.
pub fn is_ending() -> bool {
    ENDING.load(Ordering::SeqCst)
}

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
        start_listener();
        Guard { home: home.clone(), armed: true }
    }

    /// From now on nothing ends the lab by itself.
    pub fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        while is_ending() {
            // The listener ends the lab and then the process, with the signal's exit code.
            std::thread::park();
        }
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

/// From now on a signal ends the labs of this process, and the process after them.
pub fn start_listener() {
    LISTENER.call_once(|| {
        std::thread::spawn(|| {
            if let Err(error) = listen() {
                eprintln!("lab: a signal will not end the lab: {error}");
            }
        });
    });
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
    ENDING.store(true, Ordering::SeqCst);
    let _nothing_more = MAKING.blocking_write();
    let live = live();
    for home in live.iter() {
        eprintln!("lab: interrupted, ending {}", home.name());
        if let Err(error) = teardown(home) {
            eprintln!("lab: {error}");
        }
    }
    std::process::exit(code)
}
