//! Waiting around a commit of the journal of ext4 as it is today (Linux 6.12 fs/jbd2/transaction.c,
//! commit.c; `ext4_writeback = "by-extent"`; docs/reference/writeback.md#ext4-of-today).
//!
//! A commit first locks the transaction: no task can join it, and the commit waits until all tasks
//! that are in it have left. The flusher is in it for as long as it takes to submit an extent,
//! which includes waiting for the device. Then the metadata are written to the journal. Until they
//! are there, their buffers cannot be changed: tasks that write to a file wait, and so do the
//! flusher before its next extent and the conversion of extents whose data is written, whose pages
//! stay under writeback. The commit record comes last; only a fsync waits for it.
//!
//! Only the journal's thread commits. A fsync requests a commit of the running transaction and
//! waits.

use super::SimMm;
use mm::world::{Tasks, Waited, WaitedKind};
use std::cell::Cell;

/// The state of a journal's transactions.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    /// Number of tasks in the running transaction.
    updates: Cell<u32>,
    locked: Cell<bool>,
    /// True while the metadata of the last commit are being written to the journal.
    shadow: Cell<bool>,
    /// True if a commit of the running transaction is requested (`j_commit_request`).
    asked: Cell<bool>,
    /// Number of commits that have begun since mounting, that have ended, and that have failed
    /// (`j_commit_sequence`).
    begun: Cell<u64>,
    ended: Cell<u64>,
    failed: Cell<u64>,
}

impl Transactions {
    /// Waits while `holds` returns true of the transactions; it is tested again after each wake-up.
    async fn wait_while<const T: bool>(&self, mm: &SimMm<T>, holds: impl Fn(&Self) -> bool) {
        let queue = mm.world.transaction_queue();
        while holds(self) {
            let ticket = mm.world.sched.ticket(queue);
            mm.world.waits_on(Waited::on(WaitedKind::Request, 0));
            mm.world.sched.wait(queue, ticket, None).await;
        }
    }

    /// Wakes all tasks that wait for a change of the transactions.
    fn wake<const T: bool>(mm: &SimMm<T>) {
        mm.world.sched.wake(mm.world.transaction_queue());
    }

    /// Joins the running transaction until [`Self::leave`]. Waits first while it is locked, and
    /// then, inside it, until metadata may be changed, because giving pages new blocks changes
    /// metadata.
    pub async fn join<const T: bool>(&self, mm: &SimMm<T>) {
        self.wait_while(mm, |t| t.locked.get()).await;
        self.updates.set(self.updates.get() + 1);
        self.wait_while(mm, |t| t.shadow.get()).await;
    }

    /// Leaves the running transaction.
    pub fn leave<const T: bool>(&self, mm: &SimMm<T>) {
        let left = self.updates.get().checked_sub(1);
        self.updates.set(left.expect("who leaves has joined"));
        Self::wake(mm);
    }

    /// Waits until a transaction can be joined and metadata buffers can be changed, for a change
    /// that takes no time.
    pub async fn change<const T: bool>(&self, mm: &SimMm<T>) {
        self.wait_while(mm, |t| t.locked.get() || t.shadow.get())
            .await;
    }

    /// Requests a commit of the running transaction from the journal's thread and waits for it
    /// (`jbd2_complete_transaction`). Returns true if no commit failed meanwhile.
    pub async fn complete<const T: bool>(&self, mm: &SimMm<T>, volume: u32) -> bool {
        let failed = self.failed.get();
        let wanted = self.begun.get() + 1;
        self.asked.set(true);
        mm.world.sched.wake(mm.world.jbd2_queue(volume));
        self.wait_while(mm, |t| t.ended.get() < wanted).await;
        self.failed.get() == failed
    }

    /// Returns true if a commit is requested that has not begun.
    pub fn is_asked(&self) -> bool {
        self.asked.get()
    }

    /// Notes that the commit of the running transaction begins.
    pub fn begins(&self) {
        debug_assert!(self.begun.get() == self.ended.get(), "one commit at a time");
        self.asked.set(false);
        self.begun.set(self.begun.get() + 1);
    }

    /// Notes that the commit has ended, and wakes waiters.
    pub fn ends<const T: bool>(&self, mm: &SimMm<T>, ok: bool) {
        self.ended.set(self.ended.get() + 1);
        self.failed.set(self.failed.get() + u64::from(!ok));
        debug_assert!(self.begun.get() == self.ended.get(), "one commit at a time");
        Self::wake(mm);
    }

    /// Locks the running transaction, waits until all tasks have left it and opens the next one;
    /// the metadata of the locked one cannot be changed from here until [`Self::unshadow`].
    pub async fn switch<const T: bool>(&self, mm: &SimMm<T>) {
        self.locked.set(true);
        self.wait_while(mm, |t| t.updates.get() > 0).await;
        self.shadow.set(true);
        self.locked.set(false);
        Self::wake(mm);
    }

    /// Notes that the metadata are in the journal, and wakes tasks that want to change them.
    pub fn unshadow<const T: bool>(&self, mm: &SimMm<T>) {
        self.shadow.set(false);
        Self::wake(mm);
    }
}
