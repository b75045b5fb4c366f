//! What the engine traces, kept in a ring for whoever reads it ([`crate::Cache::events`]).
//!
//! An event is told where it happens, under the engine's locks and in a CPU slot, so no program's code is called
//! there: it goes into a ring of a bounded size, and what finds no room there is counted. With no ring an event
//! is not built, and what is left is the test of a word.

use crate::cpu;
use crate::sync::Mutex;
use mm::world::TaskId;
use mm::world::event::Event;
use std::collections::VecDeque;
use std::time::Duration;

/// Which events are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tracing {
    /// Events that are kept until they are read, 1 to 16777216; further ones are counted and lost.
    pub room: u32,
    /// Also those that come page by page, several in the life of each ([`Event::by_page`]).
    pub pages: bool,
}

impl Default for Tracing {
    /// 4096 events, without those of pages.
    fn default() -> Self {
        Self {
            room: 4096,
            pages: false,
        }
    }
}

/// Whose event it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Who {
    /// kswapd.
    Kswapd,
    /// The flusher of a device, by its number in the cache.
    Flusher(u32),
    /// A thread that makes transfers, or one that folds counters.
    Transfers,
    /// A thread of the program, by its number in the cache: one that ends gives it back.
    Program(u32),
    /// Whoever shuts the cache down.
    Shutdown,
}

/// An event as it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traced {
    /// When, since the cache began.
    pub at: Duration,
    /// Whose it is.
    pub who: Who,
    /// What happened; [`Event::name`] is the kernel's name for it.
    pub event: Event,
}

/// What came since the last time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Events {
    /// In the order in which they were told.
    pub events: Vec<Traced>,
    /// Events that found no room behind them.
    pub lost: u64,
}

#[derive(Default)]
struct Kept {
    /// When, whose, what.
    events: VecDeque<(u64, Option<TaskId>, Event)>,
    lost: u64,
}

/// Where events are kept.
pub(crate) struct Ring {
    tracing: Tracing,
    kept: Mutex<Kept>,
}

impl Ring {
    pub fn new(tracing: Tracing) -> Self {
        Self {
            tracing,
            kept: Mutex::new(Kept {
                events: VecDeque::with_capacity(tracing.room as usize),
                lost: 0,
            }),
        }
    }

    /// Keeps an event, if it is wanted and there is room.
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

    /// Takes out what is there; `who`: whose a task's events are.
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
