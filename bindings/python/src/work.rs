//! Work outside the interpreter: other Python threads run meanwhile, Ctrl-C ends it, progress is passed on.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bdo::{Event, Host};
use bdo_data::cohort::Observer;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::failure::Failure;

/// How long a signal may wait.
const PATIENCE: Duration = Duration::from_millis(50);

/// Does work on a thread of its own. This one looks for signals and hands events to the listener; an exception of either ends
/// the work and is raised once it has ended.
pub(crate) fn outside<T: Send>(
    py: Python<'_>,
    listener: Option<Py<PyAny>>,
    work: impl FnOnce(Host) -> Result<T, Failure> + Send,
) -> PyResult<T> {
    let stop = Arc::new(AtomicBool::new(false));
    let (events, received) = channel();
    let host = Host { stop: stop.clone(), events };
    let (done, raised) = py.detach(move || {
        std::thread::scope(|scope| {
            let working = scope.spawn(move || work(host));
            let (mut raised, mut looked): (Option<PyErr>, Instant) = (None, Instant::now());
            loop {
                let event = match received.recv_timeout(PATIENCE) {
                    Ok(event) => Some(event),
                    Err(RecvTimeoutError::Timeout) => None,
                    // The work has ended, and nobody is left who could tell anything.
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                if event.is_none() || listener.is_some() || looked.elapsed() > PATIENCE {
                    looked = Instant::now();
                    let passed_on = Python::attach(|py| {
                        py.check_signals()?;
                        event.zip(listener.as_ref()).map_or(Ok(()), |(event, to)| tell(to.bind(py), event))
                    });
                    if let Err(error) = passed_on {
                        stop.store(true, Ordering::Relaxed);
                        raised.get_or_insert(error);
                    }
                }
            }
            match working.join() {
                Ok(done) => (done, raised),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    });
    match raised {
        Some(error) => Err(error),
        None => done.map_err(|failure| failure.into_exception(py)),
    }
}

/// Events as calls of a listener's methods.
fn tell(listener: &Bound<'_, PyAny>, event: Event) -> PyResult<()> {
    match event {
        Event::Started { what, total } => listener.call_method1("started", (what, total)),
        Event::At { done, total, message } => listener.call_method1("at", (done, total, message)),
        Event::Finished => listener.call_method0("finished"),
        Event::Said(line) => listener.call_method1("said", (line,)),
    }
    .map(|_| ())
}

/// Tells a host how far the encoding of scans is.
pub(crate) struct Watch {
    pub(crate) host: Host,
    pub(crate) total: usize,
}

impl Watch {
    pub(crate) fn start(host: Host, what: &str, total: usize) -> Self {
        host.tell(Event::Started { what: what.to_owned(), total: total as u64 });
        Self { host, total }
    }
}

impl Observer for Watch {
    fn advance(&self, done: usize, _rejected: usize) {
        self.host.tell(Event::At { done: done as u64, total: self.total as u64, message: String::new() });
    }

    fn stop_requested(&self) -> bool {
        self.host.stop.load(Ordering::Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.host.tell(Event::Finished);
    }
}

/// The threads of this process that work on calls. A fork takes none of its parent's threads along, so it gets its own.
pub(crate) fn threads() -> Result<Arc<ThreadPool>, Failure> {
    static POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    match pool.take() {
        Some((process, threads)) if process == std::process::id() => {
            *pool = Some((process, threads.clone()));
            Ok(threads)
        }
        of_parent => {
            // Ending threads that are not there would wait for them.
            std::mem::forget(of_parent);
            let made = ThreadPoolBuilder::new().build().map_err(Failure::of_data)?;
            let threads = Arc::new(made);
            *pool = Some((std::process::id(), threads.clone()));
            Ok(threads)
        }
    }
}

/// Verbs work on threads that belong to the process that first ran one; after a fork they would wait for ever.
pub(crate) fn refuse_after_fork() -> PyResult<()> {
    static OWNER: AtomicU32 = AtomicU32::new(0);
    let own = std::process::id();
    let owner = OWNER.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed).unwrap_or_else(|owner| owner);
    if owner == 0 || owner == own {
        return Ok(());
    }
    Err(PyRuntimeError::new_err(format!(
        "expected a process that has not been forked from one in which bdo worked, found a fork of process {owner}; \
         hint: start it with multiprocessing's spawn"
    )))
}
