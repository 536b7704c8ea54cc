//! Another program that calls a verb: it is told what a terminal would show, and says when to stop.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;

/// Who called.
#[derive(Debug, Clone)]
pub struct Host {
    /// Set from outside to end work early, as a signal does for the program.
    pub stop: Arc<AtomicBool>,
    /// Where events go.
    pub events: Sender<Event>,
}

/// What a verb tells while it works.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Work on so many items begins; 0 where their number is not known yet.
    Started {
        /// What is done.
        what: String,
        /// Items.
        total: u64,
    },
    /// So many items are done.
    At {
        /// Items done.
        done: u64,
        /// Of so many.
        total: u64,
        /// What else there is to say.
        message: String,
    },
    /// The work that began last has ended.
    Finished,
    /// A line for people, starting with `note:`, `warning:` or what else it is.
    Said(String),
}

impl Host {
    /// If nobody listens any more, work goes on.
    pub fn tell(&self, event: Event) {
        let _ = self.events.send(event);
    }
}
