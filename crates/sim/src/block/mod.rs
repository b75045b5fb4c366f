//! The block layer of a 2011 Linux: one request queue per device
//! (docs/reference/writeback.md#request-queue).
//!
//! ```text
//!  task ── submit(bio) ──► merge into a queued request            (needs no request)
//!                     └──► RequestList: may the task have one?    (128 a class, batching to 192)
//!                            └─ no: the task sleeps on its class   (Submit::WouldBlock)
//!                     └──► Elevator: block order and age, a class each
//!  dispatch() ────────────► DiskModel::service, as many as the device's depth
//!  complete() ◄─────────── due requests: a Done for every bio, and a Wake for sleepers
//! ```
//!
//! The queue is a pure state machine: its caller passes in the time and the random number
//! generator, and the queue never blocks. The executor drives it:
//!
//! 1. A task that has a bio calls [`Queue::submit`]. On [`Submit::WouldBlock`] the task joins the
//!    FIFO of sleepers of the bio's class, which the executor keeps. Requests that the task holds
//!    in a plug ([`Queue::submit_plugged`]) must go to [`Queue::unplug`] first, as in the kernel's
//!    `schedule`.
//!    Once woken, the task calls [`IoContext::woken`] and submits again.
//!    On [`Submit::Merged`] the executor handles the [`Wake`] as after a completion.
//! 2. After a submission or an unplug the executor calls [`Queue::dispatch`] and schedules an event
//!    at the time that `dispatch` returns, if that is earlier than the event already scheduled. An
//!    early or repeated event does no harm.
//! 3. At that event the executor calls [`Queue::complete`], hands each [`Done`] to the owner of its
//!    tag, wakes tasks as the [`Wake`] says, and calls `dispatch` again.
//!
//! Size: a request slot is 40 bytes and there are 192 per class, so 15 KiB; a bio node is 24 bytes
//! and the slab grows to the largest number ever queued, at most one per block (49 152 for a disk,
//! 1.2 MB). Nothing is allocated once that high-water mark is reached. Time: a page that extends a
//! request costs some 30 ns, a request of its own 250 ns from submission to completion.

mod bio;
mod cfq;
mod device;
mod elevator;
mod faults;
mod form;
#[cfg(test)]
mod model_check;
mod queue;
mod request_list;
mod volume;
mod wbt;

pub use bio::{Bio, Class, Dir, Done, IoError, Purpose};
pub use device::{Device, Ended};
pub use elevator::Slot;
pub use form::Form;
pub use queue::{Queue, Stats, Submit};
pub use request_list::{Admission, IoContext, Limits, RequestList, Wake};
pub use volume::Volume;
