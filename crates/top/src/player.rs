//! The state of the display, and the effects of keys: without terminal and clock.

use crate::frames::Growing;
use crate::here::Here;
use crate::look::{self, Look, between};
use crate::moment::{Moment, Reclaim};
use crate::tape::{Tape, Wrong};
use kernel::running::live::{self, Live};
use std::io;
use std::time::{Duration, Instant};

/// Moments of a live source that are kept for stepping back: an hour of seconds.
const KEPT: usize = 3600;
/// Moments that the page keys step over.
const FAR: usize = 20;
/// The lowest and the highest speed of playback.
const SPEEDS: (f64, f64) = (1.0 / 64.0, 65536.0);

/// A command of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// Quit.
    Quit,
    /// Pause or continue.
    Pause,
    /// Step one moment back.
    Back,
    /// Step one moment on.
    On,
    /// Step many moments back.
    FarBack,
    /// Step many moments on.
    FarOn,
    /// Go to the beginning.
    First,
    /// Go to the end.
    Last,
    /// Double the speed.
    Faster,
    /// Halve the speed.
    Slower,
    /// Go to the next cell.
    Cell,
    /// Show or hide the help.
    Help,
}

/// The source of moments.
#[derive(Debug)]
enum Source {
    Here(Here),
    Cache(Live, Instant),
    Guest(Growing),
    Tape(Tape),
}

/// The state of the display.
#[derive(Debug)]
pub struct Player {
    source: Source,
    /// The title of the source.
    title: String,
    moments: Vec<Moment>,
    whole: Option<Reclaim>,
    last: Option<Look>,
    at: usize,
    /// Seconds of playback, in the time of the moments.
    clock: f64,
    speed: f64,
    interval: f64,
    cell: usize,
    paused: bool,
    help: bool,
    over: bool,
    failed: Option<String>,
}

impl Player {
    /// Makes a player of a source without moments yet.
    fn new(source: Source, title: String) -> Self {
        Self {
            source,
            title,
            moments: Vec::new(),
            whole: None,
            last: None,
            at: 0,
            clock: 0.0,
            speed: 1.0,
            interval: 1.0,
            cell: 0,
            paused: false,
            help: false,
            over: false,
            failed: None,
        }
    }

    /// Shows the running system, with a look per `interval`; moments exist from the second look on,
    /// because rates need two.
    pub fn here(here: Here, interval: Duration) -> Self {
        let title = format!("Linux {}, this machine", here.release);
        let mut player = Self::new(Source::Here(here), title);
        player.interval = interval.as_secs_f64();
        player
    }

    /// Shows a live cache, which is asked for a look per `interval`.
    pub fn live(cache: Live, interval: Duration) -> Self {
        let title = format!("a live cache at {}", cache.address());
        let mut player = Self::new(Source::Cache(cache, Instant::now()), title);
        player.interval = interval.as_secs_f64();
        player
    }

    /// Shows a running guest, whose frames are read five times a second.
    pub fn guest(frames: Growing) -> Self {
        let mut player = Self::new(Source::Guest(frames), "a guest".to_owned());
        player.interval = 0.2;
        player
    }

    /// Plays a cell of a tape (a recording or results) from its beginning, at `speed` times the
    /// time of the moments.
    ///
    /// # Errors
    /// The cell can't be read.
    pub fn tape(tape: Tape, cell: usize, speed: f64) -> Result<Self, Wrong> {
        let mut player = Self::new(Source::Tape(tape), String::new());
        player.speed = speed;
        player.load(cell)?;
        Ok(player)
    }

    /// Sets another title.
    pub fn called(mut self, title: &str) -> Self {
        self.title = title.to_owned();
        self
    }

    /// Reads a cell of the tape and goes to its beginning; a live source has none, and nothing
    /// happens.
    ///
    /// # Errors
    /// The cell can't be read.
    fn load(&mut self, cell: usize) -> Result<(), Wrong> {
        let Source::Tape(tape) = &self.source else {
            return Ok(());
        };
        let played = tape.read(cell)?;
        self.title = match (&*tape.cells[cell].name, tape.cells.len()) {
            ("", _) => tape.title.clone(),
            (name, 1) => format!("{name}, {}", tape.title),
            (name, n) => format!("{name}, {} of {n} in {}", cell + 1, tape.title),
        };
        (self.moments, self.whole) = (played.moments, played.whole);
        (self.cell, self.over) = (cell, false);
        self.go(0);
        Ok(())
    }

    /// Shows the moment of index `at`, or the last one, and sets the clock of playback to its time.
    fn go(&mut self, at: usize) {
        self.at = at.min(self.moments.len().saturating_sub(1));
        self.clock = self.moment().map_or(0.0, |m| m.at);
    }

    /// Goes to the last moment that is not after the time `seconds`, in the time of the moments.
    pub fn seek(&mut self, seconds: f64) {
        let after = self.moments.partition_point(|m| m.at <= seconds);
        self.go(after.saturating_sub(1));
    }

    /// Returns true for a live source, false for playback.
    pub fn follows(&self) -> bool {
        !matches!(self.source, Source::Tape(_))
    }

    /// Returns the seconds between two looks at a live source.
    pub fn interval(&self) -> f64 {
        self.interval
    }

    /// Returns the shown moment.
    pub fn moment(&self) -> Option<&Moment> {
        self.moments.get(self.at)
    }

    /// Returns the moments up to the shown one.
    pub fn history(&self) -> &[Moment] {
        &self.moments[..self.moments.len().min(self.at + 1)]
    }

    /// Returns reclaim over the whole run, if moments do not report it.
    pub fn whole(&self) -> Option<&Reclaim> {
        self.whole.as_ref()
    }

    /// Returns the title.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Returns true if the help is shown.
    pub fn helps(&self) -> bool {
        self.help
    }

    /// Returns true if there are several cells.
    pub fn has_cells(&self) -> bool {
        matches!(&self.source, Source::Tape(tape) if tape.cells.len() > 1)
    }

    /// Returns the time of the shown moment as text; for playback with the time of the last one.
    pub fn when(&self) -> String {
        let last = self.moments.last().map_or(0.0, |m| m.at);
        let at = self.moment().map_or(0.0, |m| m.at);
        match self.follows() {
            true => format!("{at:.1} s"),
            false => format!("{at:.1} of {last:.1} s"),
        }
    }

    /// Returns the time of the shown moment and the state of playback (or the last error) as text,
    /// for the title's right end.
    pub fn state(&self) -> String {
        let when = self.when();
        let end = self.at + 1 >= self.moments.len();
        let status = match (&self.failed, self.paused, self.follows()) {
            (Some(why), ..) => why.as_str(),
            (None, _, true) if self.over && end => "ended",
            (None, true, _) => "paused",
            (None, false, true) => return when,
            (None, false, false) if end => "end",
            (None, false, false) => "plays",
        };
        match self.follows() {
            true => format!("{when}, {status}"),
            false => format!("{when}, {}x, {status}", self.speed),
        }
    }

    /// Executes the command of a key; returns false if the display is to end.
    pub fn key(&mut self, key: Key) -> bool {
        let last = self.moments.len().saturating_sub(1);
        match key {
            Key::Quit => return false,
            Key::Help => self.help = !self.help,
            Key::Pause => {
                self.paused = !self.paused;
                // A live source continues with the latest moment; playback at its end starts from
                // the beginning.
                match self.paused {
                    false if self.follows() => self.go(last),
                    false if self.at == last => self.go(0),
                    _ => {}
                }
            }
            Key::Faster => self.speed = (self.speed * 2.0).min(SPEEDS.1),
            Key::Slower => self.speed = (self.speed / 2.0).max(SPEEDS.0),
            Key::Cell => {
                if let Source::Tape(tape) = &self.source {
                    let next = (self.cell + 1) % tape.cells.len();
                    self.failed = self.load(next).err().map(|e| e.what);
                }
            }
            Key::Back | Key::On | Key::FarBack | Key::FarOn | Key::First | Key::Last => {
                self.paused = true;
                self.go(match key {
                    Key::Back => self.at.saturating_sub(1),
                    Key::On => self.at + 1,
                    Key::FarBack => self.at.saturating_sub(FAR),
                    Key::FarOn => self.at + FAR,
                    Key::First => 0,
                    _ => last,
                });
            }
        }
        true
    }

    /// Advances playback by `time` of the user, times the speed; a pause, the end, or a live source
    /// stops it.
    pub fn pass(&mut self, time: Duration) {
        if self.paused || self.follows() {
            return;
        }
        let last = self.moments.last().map_or(0.0, |m| m.at);
        self.clock = (self.clock + time.as_secs_f64() * self.speed).min(last);
        let after = self.moments.partition_point(|m| m.at <= self.clock);
        self.at = self.at.max(after.saturating_sub(1));
    }

    /// Takes a look at a live source and adds the moments since the last look; a tape needs none. A
    /// live cache that has answered before and fails now has ended.
    ///
    /// # Errors
    /// A guest's frames can't be read, or the live cache does not answer.
    pub fn look(&mut self) -> io::Result<()> {
        let (looks, disks) = match &mut self.source {
            Source::Tape(_) => return Ok(()),
            Source::Here(here) => (vec![here.look()], here.disks.clone()),
            Source::Cache(cache, begun) => {
                let at = begun.elapsed().as_nanos() as u64;
                let look = match cache.look() {
                    Ok(files) => look::of_files(at, &files),
                    // A cache that has answered before has ended, or is about to.
                    Err(_) if self.last.is_some() => {
                        self.over = true;
                        return Ok(());
                    }
                    Err(e) => return Err(e),
                };
                self.over = false;
                (vec![look], vec![live::DISKS.to_owned()])
            }
            Source::Guest(frames) => {
                let looks = frames.more()?;
                if let Some(release) = frames.release() {
                    self.title = format!("a guest, Linux {release}");
                }
                self.over = frames.over();
                let first = self.last.as_ref().or(looks.first());
                let disks = first.map_or_else(Vec::new, Look::busy_disks);
                (looks, disks)
            }
        };
        for look in looks {
            if let Some(before) = &self.last {
                let moment = between(before, &look, &disks);
                self.add(moment);
            }
            self.last = Some(look);
        }
        Ok(())
    }

    /// Adds a moment of a live source, drops the oldest one beyond an hour, and shows the new one
    /// unless paused.
    fn add(&mut self, moment: Moment) {
        self.moments.push(moment);
        if self.moments.len() > KEPT {
            self.moments.remove(0);
            self.at = self.at.saturating_sub(1);
        }
        if !self.paused {
            self.go(self.moments.len() - 1);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Makes a playback of a few moments, a second apart.
    pub(crate) fn of_moments(moments: Vec<Moment>) -> Player {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1-a.csv");
        std::fs::write(&path, "time [s],dirty global [pages]\n0,1\n").unwrap();
        let mut player = Player::tape(Tape::open(&path).unwrap(), 0, 1.0).unwrap();
        player.title = "results/mine/latest: policy=linux-6.12".to_owned();
        player.moments = moments;
        player
    }

    fn seconds(n: usize) -> Player {
        let moment = |i| Moment {
            at: i as f64,
            ..Moment::default()
        };
        of_moments((0..n).map(moment).collect())
    }

    fn at(player: &Player) -> f64 {
        player.moment().unwrap().at
    }

    #[test]
    fn playback_goes_by_time_and_speed_and_ends() {
        let mut p = seconds(100);
        p.pass(Duration::from_millis(900));
        assert_eq!(at(&p), 0.0);
        p.pass(Duration::from_millis(200));
        assert_eq!(at(&p), 1.0);
        p.key(Key::Faster);
        p.key(Key::Faster);
        p.pass(Duration::from_secs(2));
        assert_eq!(at(&p), 9.0);
        assert!(
            p.state().contains("9.0 of 99.0 s, 4x, plays"),
            "{}",
            p.state()
        );
        p.pass(Duration::from_secs(1000));
        assert_eq!(at(&p), 99.0);
        assert!(p.state().ends_with("end"));
        assert_eq!(p.history().len(), 100);
    }

    #[test]
    fn steps_stop_playback_where_they_lead() {
        let mut p = seconds(50);
        p.key(Key::On);
        p.key(Key::FarOn);
        assert_eq!(at(&p), 21.0);
        p.pass(Duration::from_secs(5));
        assert_eq!(at(&p), 21.0, "it is paused");
        p.key(Key::Back);
        p.key(Key::Pause);
        p.pass(Duration::from_secs(5));
        assert_eq!(at(&p), 25.0);
        p.key(Key::Last);
        assert_eq!(at(&p), 49.0);
        p.key(Key::On);
        p.key(Key::Pause);
        assert_eq!(at(&p), 0.0, "from the beginning");
        p.seek(7.5);
        assert_eq!(at(&p), 7.0);
        p.key(Key::First);
        p.key(Key::FarBack);
        assert_eq!(at(&p), 0.0);
        assert!(!p.key(Key::Quit) && p.key(Key::Help) && p.helps());
    }

    #[test]
    fn cells_follow_each_other_and_begin_anew() {
        let dir = tempfile::tempdir().unwrap();
        let series = dir.path().join("series");
        std::fs::create_dir(&series).unwrap();
        std::fs::write(
            series.join("1-a.csv"),
            "time [s],dirty global [pages]\n0,1\n9,1\n",
        )
        .unwrap();
        std::fs::write(
            series.join("2-b.csv"),
            "time [s],dirty global [pages]\n3,7\n4,7\n",
        )
        .unwrap();
        let mut p = Player::tape(Tape::open(dir.path()).unwrap(), 0, 1.0).unwrap();
        p.pass(Duration::from_secs(20));
        p.key(Key::Cell);
        assert_eq!((at(&p), p.moment().unwrap().dirty.dirty), (3.0, Some(7.0)));
        assert!(p.title().starts_with("b, 2 of 2 in "), "{}", p.title());
        std::fs::remove_file(series.join("1-a.csv")).unwrap();
        p.key(Key::Cell);
        assert!(
            p.state().contains("1-a.csv"),
            "what is wrong is said: {}",
            p.state()
        );
    }

    #[test]
    fn what_goes_on_can_be_stopped_and_looked_back_at() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc")).unwrap();
        let pages = |n: u64| {
            let text = format!("nr_free_pages 5\npgscan_kswapd {n}\n");
            std::fs::write(dir.path().join("proc/vmstat"), text).unwrap();
        };
        pages(100);
        let mut p = Player::here(Here::new(dir.path()).unwrap(), Duration::from_secs(1));
        p.look().unwrap();
        assert!(p.moment().is_none(), "one look makes no rate");
        for n in [200, 300, 400] {
            pages(n);
            p.look().unwrap();
        }
        assert_eq!(p.history().len(), 3);
        assert!(p.moment().unwrap().reclaim.kswapd.scanned.unwrap() > 0.0);
        p.key(Key::Back);
        let there = at(&p);
        p.look().unwrap();
        assert_eq!(at(&p), there, "paused");
        p.key(Key::Pause);
        assert!(at(&p) > there);
    }

    #[test]
    fn without_proc_there_is_nothing_to_show() {
        let dir = tempfile::tempdir().unwrap();
        let why = Here::new(dir.path()).unwrap_err();
        assert!(why.contains("vmstat"), "{why}");
    }
}
