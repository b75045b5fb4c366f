//! Who waits for whom around a commit of ext4's journal of today (Linux 6.12 fs/jbd2/transaction.c,
//! commit.c; `ext4_writeback = "by-extent"`; docs/reference/writeback.md#ext4-of-today).
//!
//! A commit first locks the transaction: nobody joins it, and it waits for those who are in it. The
//! flusher is, for as long as it takes to hand over an extent, which waits for the device. Then the
//! metadata go to the journal; until they are there, their buffers can't be changed: whoever writes to a
//! file waits, and so do the flusher before its next extent and the conversion of extents whose data is written, whose
//! pages stay under writeback. What comes then is the commit record, for which nobody waits but a fsync.
//!
//! The journal's thread commits, nobody else. A fsync asks for the running transaction's commit and waits.

use super::SimMm;
use mm::world::{Tasks, Waited, WaitedKind};
use std::cell::Cell;

/// The state of a journal.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    /// Tasks in the running transaction.
    updates: Cell<u32>,
    locked: Cell<bool>,
    /// The metadata of the last commit are on their way.
    shadow: Cell<bool>,
    /// The running transaction's commit is asked for (`j_commit_request`).
    asked: Cell<bool>,
    /// How many commits have begun and have ended since mounting, and how many of these failed (`j_commit_sequence`).
    begun: Cell<u64>,
    ended: Cell<u64>,
    failed: Cell<u64>,
}

impl Transactions {
    async fn wait_while<const T: bool>(&self, mm: &SimMm<T>, holds: impl Fn(&Self) -> bool) {
        let queue = mm.world.transaction_queue();
        while holds(self) {
            let ticket = mm.world.sched.ticket(queue);
            mm.world.waits_on(Waited::on(WaitedKind::Request, 0));
            mm.world.sched.wait(queue, ticket, None).await;
        }
    }

    fn wake<const T: bool>(mm: &SimMm<T>) {
        mm.world.sched.wake(mm.world.transaction_queue());
    }

    /// Joins the running transaction, and stays in it until [`Self::leave`]. What gets new blocks changes metadata, too: it
    /// waits in the transaction until they may be changed.
    pub async fn join<const T: bool>(&self, mm: &SimMm<T>) {
        self.wait_while(mm, |t| t.locked.get()).await;
        self.updates.set(self.updates.get() + 1);
        self.wait_while(mm, |t| t.shadow.get()).await;
    }

    /// Leaves it.
    pub fn leave<const T: bool>(&self, mm: &SimMm<T>) {
        let left = self.updates.get().checked_sub(1);
        self.updates.set(left.expect("who leaves has joined"));
        Self::wake(mm);
    }

    /// Changes metadata in passing: waits for a transaction to join, and for buffers that may be changed.
    pub async fn change<const T: bool>(&self, mm: &SimMm<T>) {
        self.wait_while(mm, |t| t.locked.get() || t.shadow.get())
            .await;
    }

    /// Has the journal's thread commit the running transaction, and waits for it (`jbd2_complete_transaction`). Returns whether all commits
    /// until then reached the journal.
    pub async fn complete<const T: bool>(&self, mm: &SimMm<T>, volume: u32) -> bool {
        let failed = self.failed.get();
        let wanted = self.begun.get() + 1;
        self.asked.set(true);
        mm.world.sched.wake(mm.world.jbd2_queue(volume));
        self.wait_while(mm, |t| t.ended.get() < wanted).await;
        self.failed.get() == failed
    }

    /// Whether a commit is asked for that has not begun.
    pub fn is_asked(&self) -> bool {
        self.asked.get()
    }

    /// The running transaction's commit begins.
    pub fn begins(&self) {
        debug_assert!(self.begun.get() == self.ended.get(), "one commit at a time");
        self.asked.set(false);
        self.begun.set(self.begun.get() + 1);
    }

    /// It has ended.
    pub fn ends<const T: bool>(&self, mm: &SimMm<T>, ok: bool) {
        self.ended.set(self.ended.get() + 1);
        self.failed.set(self.failed.get() + u64::from(!ok));
        debug_assert!(self.begun.get() == self.ended.get(), "one commit at a time");
        Self::wake(mm);
    }

    /// Locks the running transaction, waits until nobody is in it and makes room for the next one, while
    /// its metadata stay as they are.
    pub async fn switch<const T: bool>(&self, mm: &SimMm<T>) {
        self.locked.set(true);
        self.wait_while(mm, |t| t.updates.get() > 0).await;
        self.shadow.set(true);
        self.locked.set(false);
        Self::wake(mm);
    }

    /// The metadata are in the journal.
    pub fn unshadow<const T: bool>(&self, mm: &SimMm<T>) {
        self.shadow.set(false);
        Self::wake(mm);
    }
}
