//! Writeback throttling (Linux 6.12 block/blk-wbt.c, block/blk-rq-qos.c;
//! docs/reference/writeback.md#writeback-throttling): a limit on how many writes are out to a
//! device.
//!
//! A write takes a token before it asks for a request; the token comes back when the request ends
//! or becomes part of another one. The limit on tokens depends on the purpose: the whole depth for
//! writes that a task waits for, half of it for other writeback, and a quarter for background
//! writeback. Other writeback too gets a quarter while another user has accessed the device within
//! the last tenth of a second. Every window the depth goes a step up or down, depending on whether
//! reads kept their latency beside writes.
//!
//! Size: 16 bytes a request slot. Time: a token is some 10 ns.

use super::{Bio, Dir, Purpose};
use std::collections::VecDeque;

const MS: u64 = 1_000_000;
/// The initial depth, unless the queue has less (`RWB_DEF_DEPTH`).
const DEFAULT_DEPTH: u32 = 16;
/// Length of a window in nanoseconds (`RWB_WINDOW_NSEC`).
const WINDOW: u64 = 100 * MS;
/// Target latency of reads on a rotating disk, and on one that does not rotate
/// (`wbt_default_latency_nsec`).
const LATENCY: [u64; 2] = [75 * MS, 2 * MS];
/// Fewest writes in a window for its read latencies to count (`RWB_MIN_WRITE_SAMPLES`).
const LEAST_WRITES: u32 = 3;
/// Windows in a row with verdict `Unknown` after which the depth moves a step back
/// (`RWB_UNKNOWN_BUMP`).
const UNKNOWN: u32 = 5;
/// Nanoseconds for which a dirtier's sleep counts (`wb_recent_wait`).
const RECENT_WAIT: u64 = 1000 * MS;
/// Nanoseconds for which other use of the device counts (`close_io`).
const CLOSE: u64 = 100 * MS;

/// Tokens of one kind (writeback or swap): how many are out, and the tasks that wait for one.
#[derive(Debug, Clone, Default)]
struct Tokens {
    out: u32,
    waiting: VecDeque<(u16, Purpose)>,
    /// Tasks that were given a token while they slept.
    given: Vec<u16>,
}

/// The token and issue time of a request slot.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    /// The kind of the slot's token; `None` if the request has none.
    kind: Option<u8>,
    issued: u64,
}

/// Totals over the requests that ended in a window; `least_read` is the shortest read in
/// nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    reads: u32,
    writes: u32,
    least_read: u64,
}

/// The result of a window's latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Ok,
    Unknown,
    OnlyWrites,
    Exceeded,
}

/// How many sleeping tasks were given a token, the longest sleeper first, by kind of token.
pub(super) type Given = [u32; 2];

/// The throttle of one queue.
#[derive(Debug, Clone)]
pub(super) struct Wbt {
    queue_depth: u32,
    /// Target latency of reads in nanoseconds.
    target: u64,
    max_depth: u32,
    normal: u32,
    background: u32,
    step: i32,
    scaled_max: bool,
    unknown: u32,
    tokens: [Tokens; 2],
    held: Vec<Held>,
    window: Window,
    window_ns: u64,
    timer: Option<u64>,
    /// Length of a timer tick and time of the first one, in nanoseconds; (0, 0): timers are exact.
    ticks: (u64, u64),
    /// The read that was issued first of those tracked as outstanding: its slot and issue time.
    cookie: Option<(u32, u64)>,
    /// The last time that a read asked for a request or ended.
    last_read: Option<u64>,
    dirtier_slept: Option<u64>,
}

impl Wbt {
    /// Returns the throttle of a queue that was registered with a depth of `queue_depth` and has at
    /// most `slots` requests. `rotates` says whether the disk rotates, which sets the target
    /// latency.
    pub fn new(queue_depth: u32, slots: usize, rotates: bool) -> Self {
        let mut wbt = Self {
            queue_depth,
            target: LATENCY[usize::from(!rotates)],
            max_depth: 0,
            normal: 0,
            background: 0,
            step: 0,
            scaled_max: false,
            unknown: 0,
            tokens: Default::default(),
            held: vec![Held::default(); slots],
            window: Window::default(),
            window_ns: WINDOW,
            timer: None,
            ticks: (0, 0),
            cookie: None,
            last_read: None,
            dirtier_slept: None,
        };
        wbt.set_depth();
        wbt
    }

    /// Makes windows end at timer ticks (tick length and first tick, in nanoseconds).
    pub fn with_ticks(mut self, ticks: (u64, u64)) -> Self {
        self.ticks = ticks;
        self
    }

    /// Returns when a timer that is set for `ns` nanoseconds fires: rounded up to a tick behind the
    /// one asked for, so that a timer is never early (`calc_index` of kernel/time/timer.c, 4.8).
    fn timer_end(&self, now: u64, ns: u64) -> u64 {
        match self.ticks {
            (0, _) => now + ns,
            (tick, first) => first + ((now + tick - first) / tick + ns / tick) * tick,
        }
    }

    /// Returns the kind of token that a bio needs; `None` for a bio that is never held back.
    fn kind(bio: &Bio) -> Option<usize> {
        match (bio.dir, bio.purpose) {
            (Dir::Read, _) | (_, Purpose::Exempt) => None,
            (_, Purpose::Swap) => Some(1),
            _ => Some(0),
        }
    }

    /// Recomputes the limits on writes that are out from the step (0: the initial depth; above:
    /// less; below: more): the whole depth, a half for writeback and a quarter for background
    /// writeback (`rq_depth_calc_max_depth`, `calc_wb_limits`). Returns true if the depth can't be
    /// raised further.
    fn set_depth(&mut self) -> bool {
        let depth = DEFAULT_DEPTH.min(self.queue_depth);
        let mut at_most = false;
        self.max_depth = match self.step {
            // A device that takes one request at a time still gets a second one queued.
            _ if self.queue_depth == 1 => {
                at_most = self.step <= 0;
                if at_most { 2 } else { 1 }
            }
            0 => depth,
            1.. => 1 + ((depth - 1) >> self.step.min(31)),
            _ => {
                let most = 3 * self.queue_depth / 4;
                let wider = u64::from(depth - 1) << self.step.unsigned_abs().min(31);
                at_most = wider + 1 > u64::from(most);
                if at_most { most } else { wider as u32 + 1 }
            }
        };
        (self.normal, self.background) = if self.max_depth <= 2 {
            (self.max_depth, 1)
        } else {
            (self.max_depth.div_ceil(2), self.max_depth.div_ceil(4))
        };
        at_most
    }

    /// Returns true if `then` is known and less than `span` nanoseconds before `now`.
    fn within(then: Option<u64>, now: u64, span: u64) -> bool {
        then.is_some_and(|then| now < then + span)
    }

    /// Returns the most tokens of its kind that may be out for a write of this purpose
    /// (`get_limit`): the whole depth if a task waits for the write, the page goes to swap, or a
    /// dirtier was put to sleep recently; a quarter for background writeback or beside recent
    /// reads; otherwise a half.
    fn limit(&self, now: u64, purpose: Purpose) -> u32 {
        let whole_depth = matches!(purpose, Purpose::Waited | Purpose::Swap);
        if whole_depth || Self::within(self.dirtier_slept, now, RECENT_WAIT) {
            self.max_depth
        } else if purpose == Purpose::Background || Self::within(self.last_read, now, CLOSE) {
            self.background
        } else {
            self.normal
        }
    }

    /// Notes that a task that dirtied pages was put to sleep: writes get the whole depth for a
    /// while, to let that task continue.
    pub fn dirtier_sleeps(&mut self, now: u64) {
        self.dirtier_slept = Some(now);
    }

    /// Takes a token at `now` for a write of `task`; reads need none and are only noted. `Err`
    /// holds the kind of token (0: writeback, 1: swap) for which the task must sleep. A task that
    /// was woken asks again and then has its token.
    pub fn ask(&mut self, now: u64, task: u16, bio: &Bio) -> Result<(), u8> {
        let Some(kind) = Self::kind(bio) else {
            if bio.dir == Dir::Read {
                self.last_read = Some(now);
            }
            return Ok(());
        };
        let limit = self.limit(now, bio.purpose);
        let tokens = &mut self.tokens[kind];
        if let Some(at) = tokens.given.iter().position(|&t| t == task) {
            tokens.given.swap_remove(at);
        } else if tokens.waiting.is_empty() && tokens.out < limit {
            tokens.out += 1;
        } else {
            if !tokens.waiting.iter().any(|w| w.0 == task) {
                tokens.waiting.push_back((task, bio.purpose));
            }
            return Err(kind as u8);
        }
        self.wrote(now);
        Ok(())
    }

    /// Takes back the token of a bio of `task` that was merged and needs no request of its own: the
    /// one that the task holds (`held`), or was given while it slept. `given`: counts the sleepers
    /// that get tokens by this.
    pub fn merged(&mut self, now: u64, task: u16, held: bool, bio: &Bio, given: &mut Given) {
        let Some(kind) = Self::kind(bio) else {
            return;
        };
        let tokens = &mut self.tokens[kind];
        let given_at = tokens.given.iter().position(|&t| t == task);
        if let Some(at) = given_at {
            tokens.given.swap_remove(at);
        }
        if held || given_at.is_some() {
            self.give_back(now, kind, given);
        }
    }

    /// Records in the request slot which kind of token its bio holds.
    pub fn queued(&mut self, slot: u32, bio: &Bio) {
        self.held[slot as usize] = Held {
            kind: Self::kind(bio).map(|kind| kind as u8),
            issued: 0,
        };
    }

    /// Takes back the token of the request in slot `gone`, which became part of another one.
    /// `given`: counts the sleepers that get tokens by this.
    pub fn joined(&mut self, now: u64, gone: u32, given: &mut Given) {
        if let Some(kind) = self.held[gone as usize].kind.take() {
            self.give_back(now, usize::from(kind), given);
        }
    }

    /// Notes that the device was given a request at `now`. A read is tracked as outstanding
    /// (`cookie`) if no other one is, because one that waits long lowers the limit on writes.
    pub fn issued(&mut self, now: u64, slot: u32, dir: Dir) {
        self.held[slot as usize].issued = now;
        if dir == Dir::Read && self.cookie.is_none() {
            self.cookie = Some((slot, now));
        }
    }

    /// Notes that a request ended, for the window's latencies, and takes its token back. `given`:
    /// counts the sleepers that get tokens by this.
    pub fn ended(&mut self, now: u64, slot: u32, dir: Dir, given: &mut Given) {
        let Held { kind, issued } = std::mem::take(&mut self.held[slot as usize]);
        let window = &mut self.window;
        match dir {
            Dir::Read => {
                let took = now.saturating_sub(issued);
                window.least_read = if window.reads == 0 {
                    took
                } else {
                    window.least_read.min(took)
                };
                window.reads += 1;
                self.last_read = Some(now);
                if self.cookie.is_some_and(|(of, _)| of == slot) {
                    self.cookie = None;
                }
            }
            Dir::Write => window.writes += 1,
        }
        if let Some(kind) = kind {
            self.give_back(now, usize::from(kind), given);
        }
    }

    /// Takes a token of a kind back. Sleepers are served only once half a background share is free
    /// (`wbt_rqw_done`). `given`: counts the sleepers that get tokens, by kind.
    fn give_back(&mut self, now: u64, kind: usize, given: &mut Given) {
        let tokens = &mut self.tokens[kind];
        tokens.out = tokens
            .out
            .checked_sub(1)
            .expect("a token that nobody has came back");
        let out = tokens.out;
        if out > 0 && (out >= self.normal || self.normal - out < self.background / 2) {
            return;
        }
        self.give_to_sleepers(now, kind, given);
    }

    /// Gives tokens of a kind to tasks that sleep for one, in their order, until one would exceed
    /// its limit. `given`: counts the tasks, by kind; the caller wakes them.
    fn give_to_sleepers(&mut self, now: u64, kind: usize, given: &mut Given) {
        while let Some(&(task, purpose)) = self.tokens[kind].waiting.front() {
            if self.tokens[kind].out >= self.limit(now, purpose) {
                break;
            }
            let tokens = &mut self.tokens[kind];
            tokens.waiting.pop_front();
            tokens.given.push(task);
            tokens.out += 1;
            given[kind] += 1;
        }
    }

    /// Notes a write: windows are measured from now on.
    pub fn wrote(&mut self, now: u64) {
        if self.timer.is_none() {
            self.start_window(now);
        }
    }

    /// Starts a window over which read latencies are measured; a smaller depth makes it shorter
    /// (`rwb_arm_timer`).
    fn start_window(&mut self, now: u64) {
        self.window_ns = match self.step {
            1.. => (WINDOW << 4) / (((self.step as u64) + 1) << 8).isqrt(),
            _ => WINDOW,
        };
        self.window = Window::default();
        self.timer = Some(self.timer_end(now, self.window_ns));
    }

    /// Returns when the window ends; `None` if no window is running.
    pub fn timer(&self) -> Option<u64> {
        self.timer
    }

    /// Ends the window if its time has come, and adapts the depth: less if reads took too long,
    /// otherwise more; after several windows without a verdict, back towards the initial depth
    /// (`wb_timer_fn`). `given`: counts the sleepers that get tokens by this.
    pub fn tick(&mut self, now: u64, given: &mut Given) {
        if self.timer.is_none_or(|at| now < at) {
            return;
        }
        self.timer = None;
        match self.verdict(now) {
            Verdict::Exceeded => self.lower_depth(true),
            Verdict::Ok | Verdict::OnlyWrites => self.raise_depth(now, given),
            Verdict::Unknown => {
                self.unknown += 1;
                if self.unknown >= UNKNOWN {
                    match self.step {
                        1.. => self.raise_depth(now, given),
                        0 => {}
                        _ => self.lower_depth(false),
                    }
                }
            }
        }
        if self.step != 0 || self.out() > 0 {
            self.start_window(now);
        }
    }

    /// Returns how many tokens are out.
    fn out(&self) -> u32 {
        self.tokens.iter().map(|r| r.out).sum()
    }

    /// Judges the window that ends at `now` by the latencies of its reads (`latency_exceeded`):
    /// `Exceeded` if the shortest read, or the wait of one that has not ended, was above the
    /// target.
    fn verdict(&self, now: u64) -> Verdict {
        let oldest_read_waits = self.cookie.map_or(0, |(_, since)| now - since.min(now));
        let window = &self.window;
        if oldest_read_waits > self.window_ns
            || (oldest_read_waits > self.target && window.reads == 0)
        {
            Verdict::Exceeded
        } else if window.reads < 1 || window.writes < LEAST_WRITES {
            let slept = Self::within(self.dirtier_slept, now, RECENT_WAIT);
            if window.writes > 0 || slept || self.out() > 0 {
                Verdict::OnlyWrites
            } else {
                Verdict::Unknown
            }
        } else if window.least_read > self.target {
            Verdict::Exceeded
        } else {
            Verdict::Ok
        }
    }

    /// Raises the limit on writes that are out by a step, unless it is at its most, and gives
    /// tokens to sleepers (`scale_up`). `given`: counts these.
    fn raise_depth(&mut self, now: u64, given: &mut Given) {
        if self.scaled_max {
            return;
        }
        self.step -= 1;
        self.scaled_max = self.set_depth();
        self.unknown = 0;
        for kind in 0..self.tokens.len() {
            self.give_to_sleepers(now, kind, given);
        }
    }

    /// Lowers the limit on writes that are out by a step. If the limit was raised above the initial
    /// one, a `hard` step returns it to that at once (`scale_down`).
    fn lower_depth(&mut self, hard: bool) {
        if self.max_depth == 1 {
            return;
        }
        self.step = if self.step < 0 && hard {
            0
        } else {
            self.step + 1
        };
        self.scaled_max = false;
        self.set_depth();
        self.unknown = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bio(dir: Dir, purpose: Purpose) -> Bio {
        Bio {
            tag: 0,
            dir,
            sync: dir == Dir::Read,
            block: 0,
            blocks: 1,
            purpose,
        }
    }

    /// Returns how many writes of a purpose are admitted at once.
    fn admits(mut wbt: Wbt, now: u64, purpose: Purpose) -> u32 {
        let write = bio(Dir::Write, purpose);
        (0..)
            .take_while(|&task| wbt.ask(now, task, &write).is_ok())
            .count() as u32
    }

    #[test]
    fn shares_are_of_the_depth_and_by_who_writes() {
        let wbt = Wbt::new(62, 256, true);
        let of = |purpose| admits(wbt.clone(), 0, purpose);
        assert_eq!(of(Purpose::Background), 4);
        assert_eq!(of(Purpose::Writeback), 8);
        assert_eq!(of(Purpose::Waited), 16);
        assert_eq!(admits(wbt.clone(), 0, Purpose::Swap), 16);
        // A recent read takes the flusher down to the background's share; a sleeping dirtier gives
        // it the whole depth.
        let mut nearby = wbt.clone();
        nearby
            .ask(0, 0, &bio(Dir::Read, Purpose::Writeback))
            .expect("reads pass");
        assert_eq!(admits(nearby.clone(), CLOSE - 1, Purpose::Writeback), 4);
        assert_eq!(admits(nearby, CLOSE, Purpose::Writeback), 8);
        let mut slept = wbt;
        slept.dirtier_sleeps(0);
        assert_eq!(
            admits(slept.clone(), RECENT_WAIT - 1, Purpose::Background),
            16
        );
        assert_eq!(admits(slept, RECENT_WAIT, Purpose::Background), 4);
    }

    /// A device that comes up counts as one whose dirtier slept: if something is written then, its
    /// windows widen the depth for a second, and half a second without I/O takes a step back.
    #[test]
    fn a_device_that_came_up_begins_wide() {
        let step = |written: bool, ms: u64| {
            let mut wbt = Wbt::new(62, 256, true);
            wbt.dirtier_sleeps(0);
            if written {
                wbt.wrote(0);
            }
            for at in 1..=ms {
                wbt.tick(at * MS, &mut [0; 2]);
            }
            wbt.step
        };
        assert_eq!([100, 200, 1000].map(|ms| step(true, ms)), [-1, -2, -2]);
        assert_eq!([1400, 1900].map(|ms| step(true, ms)), [-1, 0]);
        assert_eq!(step(false, 1900), 0);
    }

    /// A window that begins at a tick has one more tick; one that begins behind a tick also gets
    /// the rest of that tick.
    #[test]
    fn windows_end_at_ticks() {
        let end = |now: u64| {
            let mut wbt = Wbt::new(62, 256, true).with_ticks((10 * MS, 3 * MS));
            wbt.wrote(now);
            wbt.timer().expect("a window") / MS
        };
        assert_eq!(
            [3, 4, 12, 13, 0].map(|ms| end(ms * MS)),
            [113, 113, 113, 123, 103]
        );
    }

    /// Windows with writes alone widen the depth up to three quarters of the queue's. For a device
    /// that takes one request at a time that is one, less than the initial two.
    #[test]
    fn writes_alone_widen_it_to_three_quarters() {
        for (depth, most) in [(62, 46), (256, 192), (2, 1)] {
            let mut wbt = Wbt::new(depth, 256, true);
            let write = bio(Dir::Write, Purpose::Waited);
            wbt.ask(0, 0, &write).expect("the first has room");
            let mut given = Given::default();
            for _ in 0..10 {
                let at = wbt.timer().expect("a write is out");
                wbt.tick(at - 1, &mut given);
                wbt.tick(at, &mut given);
            }
            assert_eq!(wbt.max_depth, most, "{depth}");
        }
    }

    /// Reads of 3 ms beside writes are slow for a disk that does not rotate, and quick for one that
    /// does.
    #[test]
    fn the_target_is_75_ms_of_a_disk_that_turns_and_else_2() {
        let step = |rotates| {
            let mut wbt = Wbt::new(256, 256, rotates);
            let write = bio(Dir::Write, Purpose::Waited);
            let mut given = Given::default();
            for slot in 1..4 {
                wbt.ask(0, 1, &write).expect("there is room");
                wbt.queued(slot, &write);
                wbt.ended(MS, slot, Dir::Write, &mut given);
            }
            wbt.issued(0, 0, Dir::Read);
            wbt.ended(3 * MS, 0, Dir::Read, &mut given);
            wbt.tick(wbt.timer().expect("a write was there"), &mut given);
            wbt.step
        };
        assert_eq!([step(true), step(false)], [-1, 1]);
    }

    /// A window whose quickest read was slow halves the depth; one whose quickest read was in time
    /// doubles it again.
    #[test]
    fn slow_reads_narrow_it() {
        let mut wbt = Wbt::new(62, 256, true);
        let mut given = Given::default();
        let mut window = |wbt: &mut Wbt, took: u64| {
            let write = bio(Dir::Write, Purpose::Waited);
            let start = wbt.timer().unwrap_or(0);
            wbt.ask(start, 0, &write).expect("there is room");
            for slot in 0..3 {
                wbt.ended(start, slot, Dir::Write, &mut given);
            }
            wbt.issued(start, 9, Dir::Read);
            wbt.ended(start + took, 9, Dir::Read, &mut given);
            wbt.queued(0, &write);
            wbt.ended(start, 0, Dir::Write, &mut given);
            let at = wbt.timer().expect("armed");
            wbt.tick(at, &mut given);
            wbt.max_depth
        };
        let kept = wbt.target;
        assert_eq!(window(&mut wbt, kept + 1), 8);
        assert_eq!(window(&mut wbt, kept + 1), 4);
        assert_eq!(window(&mut wbt, kept), 8);
        // A read that is still out counts too.
        wbt.issued(0, 9, Dir::Read);
        wbt.ask(0, 0, &bio(Dir::Write, Purpose::Waited))
            .expect("there is room");
        wbt.tick(u64::MAX / 2, &mut given);
        assert_eq!(wbt.max_depth, 4);
    }

    /// Sleepers get tokens in their order, and not before half of a background share is free.
    #[test]
    fn sleepers_are_woken_in_batches_and_in_order() {
        let mut wbt = Wbt::new(256, 256, true);
        wbt.dirtier_sleeps(0);
        for _ in 0..3 {
            wbt.raise_depth(0, &mut Given::default());
        }
        let write = bio(Dir::Write, Purpose::Writeback);
        let after = RECENT_WAIT;
        let (normal, background) = (wbt.normal, wbt.background);
        for slot in 0..normal {
            wbt.ask(after, 0, &write).expect("there is room");
            wbt.queued(slot, &write);
        }
        for task in 1..=3 {
            assert_eq!(wbt.ask(after, task, &write), Err(0));
        }
        let mut given = Given::default();
        for slot in 0..background / 2 {
            assert_eq!(given, [0, 0], "{slot} of {background} / 2");
            wbt.ended(after, slot, Dir::Write, &mut given);
        }
        assert_eq!(given, [3, 0]);
        // A task that comes in between would get no token before those that were woken.
        for task in 1..=3 {
            assert_eq!(wbt.ask(after, task, &write), Ok(()));
        }
    }

    /// A task that was given its token asleep and then finds a request to extend passes the token
    /// on.
    #[test]
    fn what_is_merged_after_all_gives_its_token_back() {
        let mut wbt = Wbt::new(2, 256, true);
        let write = bio(Dir::Write, Purpose::Waited);
        for slot in 0..2 {
            wbt.ask(0, 0, &write).expect("there is room");
            wbt.queued(slot, &write);
        }
        assert_eq!(wbt.ask(0, 1, &write), Err(0));
        assert_eq!(wbt.ask(0, 2, &write), Err(0));
        let mut given = Given::default();
        wbt.ended(0, 0, Dir::Write, &mut given);
        assert_eq!((given, wbt.out()), ([1, 0], 2));
        wbt.merged(0, 1, false, &write, &mut given);
        assert_eq!((given, wbt.out()), ([2, 0], 2));
        // A task that never waited for a token has none to give back.
        wbt.merged(0, 7, false, &write, &mut given);
        assert_eq!(wbt.out(), 2);
        assert_eq!(wbt.ask(0, 2, &write), Ok(()));
        wbt.merged(0, 2, true, &write, &mut given);
        assert_eq!(wbt.out(), 1);
    }

    #[test]
    fn logs_and_reads_are_never_held_back() {
        let wbt = Wbt::new(2, 256, true);
        let mut full = wbt.clone();
        while full.ask(0, 7, &bio(Dir::Write, Purpose::Waited)).is_ok() {}
        assert_eq!(full.ask(0, 1, &bio(Dir::Write, Purpose::Exempt)), Ok(()));
        assert_eq!(full.ask(0, 1, &bio(Dir::Read, Purpose::Waited)), Ok(()));
        // Swap has tokens of its own.
        assert_eq!(full.ask(0, 1, &bio(Dir::Write, Purpose::Swap)), Ok(()));
    }
}
