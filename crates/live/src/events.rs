//! Trace events of the engine, kept in a ring until the program reads them
//! ([`crate::Cache::events`]).
//!
//! The engine emits an event under its locks and in a CPU slot, so no code of the program is called
//! there: the event goes into a ring of bounded size, and an event that finds no room is counted as
//! lost. Without a ring events are not built, and only the test of a word is left.

use crate::cpu;
use crate::sync::Mutex;
use mm::world::TaskId;
use mm::world::event::Event;
use std::collections::VecDeque;
use std::time::Duration;

/// Which events are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tracing {
    /// Events kept until they are read, 1 to 16777216; further ones are counted and lost.
    pub room: u32,
    /// True: also keep the events of single pages, several in the life of each page
    /// ([`Event::by_page`]).
    pub pages: bool,
}

impl Default for Tracing {
    /// 4096 events, without those of single pages.
    fn default() -> Self {
        Self {
            room: 4096,
            pages: false,
        }
    }
}

/// The source of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Who {
    /// kswapd.
    Kswapd,
    /// The flusher of a device, by its number in the cache.
    Flusher(u32),
    /// A thread that makes transfers, or the one that folds counters.
    Transfers,
    /// A thread of the program, by its number in the cache; a thread that ends gives its number
    /// back.
    Program(u32),
    /// The thread that shuts the cache down.
    Shutdown,
}

/// An event as it was emitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traced {
    /// The time since the cache began.
    pub at: Duration,
    /// The source of the event.
    pub who: Who,
    /// The event itself; [`Event::name`] is the kernel's name for it.
    pub event: Event,
}

/// The events since the last call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Events {
    /// The events in the order in which they were emitted.
    pub events: Vec<Traced>,
    /// Events after these that found no room.
    pub lost: u64,
}

#[derive(Default)]
struct Kept {
    /// Time in nanoseconds, task, event.
    events: VecDeque<(u64, Option<TaskId>, Event)>,
    lost: u64,
}

/// The buffer in which events are kept.
pub(crate) struct Ring {
    tracing: Tracing,
    kept: Mutex<Kept>,
}

impl Ring {
    /// Returns an empty buffer with room for the events that `tracing` asks for.
    pub fn new(tracing: Tracing) -> Self {
        Self {
            tracing,
            kept: Mutex::new(Kept {
                events: VecDeque::with_capacity(tracing.room as usize),
                lost: 0,
            }),
        }
    }

    /// Keeps an event of time `at` (nanoseconds) if it is wanted and there is room; counts it as
    /// lost if there is none.
    #[cold]
    pub fn keep(&self, at: u64, event: &Event) {
        if event.by_page() && !self.tracing.pages {
            return;
        }
        let told = (at, cpu::if_task(), *event);
        let mut kept = self.kept.lock();
        match kept.events.len() < self.tracing.room as usize {
            true => kept.events.push_back(told),
            false => kept.lost += 1,
        }
    }

    /// Takes all kept events out; `who` maps a task to the source of its events.
    pub fn take(&self, who: impl Fn(Option<TaskId>) -> Who) -> Events {
        let mut room = VecDeque::with_capacity(self.tracing.room as usize);
        let mut kept = self.kept.lock();
        std::mem::swap(&mut room, &mut kept.events);
        let lost = std::mem::take(&mut kept.lost);
        drop(kept);
        let traced = |(at, task, event)| Traced {
            at: Duration::from_nanos(at),
            who: who(task),
            event,
        };
        Events {
            events: room.into_iter().map(traced).collect(),
            lost,
        }
    }
}
