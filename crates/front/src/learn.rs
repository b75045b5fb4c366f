//! Learns watermarks on the running Linux: counters, proposals, and settings that are tried.

use crate::failure::Failure;
use crate::guarded::{StartGuard, instance, sweep};
use kernel::proc;
use kernel::running::file::{self, About, Recording};
use kernel::running::undo::{Action, FOLDER, Guard, Undo};
use kernel::running::{Ended, Recorder, clock};
use lab::terminal::Screen;
use lab::tune::running::{Knob, Learner, Learning, Look, Period, Setting};
use machine::capture::Captured;
use machine::{Root, parse, verify};
use miette::miette;
use mm::policy::AutoWatermarks;
use serde_json::json;
use sim::RunResult;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// How to learn; the fields are options of `lowmark learn`.
pub struct Wanted<'a> {
    /// A tree of /proc and /sys to read, and to write if settings are applied; `None`: this
    /// computer's.
    pub root: Option<&'a Path>,
    /// How long to learn.
    pub duration: Duration,
    /// The time between two samples of the counters.
    pub interval: Duration,
    /// Whether to apply the proposed settings; the original ones are restored at the end.
    pub apply: bool,
    /// Is told each step as it is taken; its error, a sentence, ends the learning.
    pub tell: &'a dyn Fn(&str) -> Result<(), String>,
    /// Starts the process that restores the settings if this one is killed.
    pub guard: StartGuard,
    /// Returns the flag that ends the learning; called when it begins.
    pub stop: fn() -> Arc<AtomicBool>,
}

/// The outcome of learning.
#[derive(Debug, Clone)]
pub struct Learned {
    /// Causes and effects of each step and the proposed setting, as text.
    pub text: String,
    /// The same as JSON.
    pub json: serde_json::Value,
    /// Notes on restoring the settings.
    pub restored: Vec<String>,
    /// The reason why learning ended early; `None`: it did not.
    pub stopped: Option<String>,
}

/// The folder of the settings, below the root.
const VM: &str = "proc/sys/vm";

/// Returns the error that the machine's files can't be read or are not of a supported Linux.
fn unreadable(e: &impl std::fmt::Display) -> Failure {
    Failure::Input(miette!(
        help = "accepted: a Linux with 4 KiB pages, or a saved tree of its /proc and /sys",
        "{e}"
    ))
}

/// The settings, and the means to restore them.
struct Settings {
    dir: PathBuf,
    /// The settings at the start.
    was: Setting,
    /// The expected settings: the original ones, or those written last.
    now: Setting,
    /// The undo log and its guard, with `--apply`.
    undo: Option<(Undo, Option<Guard>)>,
}

impl Settings {
    /// Reads a setting of `/proc/sys/vm`. The error is a sentence with its path.
    fn read(&self, name: &str) -> Result<u64, String> {
        let path = self.dir.join(name);
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let number = text.trim().parse();
        number.map_err(|_| format!("{}: `{}` is not a number", path.display(), text.trim()))
    }

    /// Returns a message if another process has changed a setting since this one wrote it; `None`
    /// if all are as expected.
    fn foreign(&self) -> Result<Option<String>, String> {
        for (name, ours) in &self.now {
            let now = self.read(name)?;
            if now != *ours {
                return Ok(Some(format!(
                    "vm.{name} is {now}, but was set to {ours}: another process changed it, so tuning stops"
                )));
            }
        }
        Ok(None)
    }

    /// Writes the settings, with `--apply` only. Each is noted in the undo log first, with its
    /// original value, so that a killed `learn` can be undone.
    fn write(&mut self, setting: &Setting) -> Result<(), String> {
        let Some((undo, _)) = &mut self.undo else {
            return Ok(());
        };
        for ((name, value), (_, was)) in setting.iter().zip(&self.was) {
            let path = self.dir.join(name);
            let action = Action::Setting {
                path: path.clone(),
                was: was.to_string(),
                ours: value.to_string(),
            };
            let written = undo
                .add(action)
                .and_then(|()| fs::write(&path, value.to_string()));
            written.map_err(|e| format!("{}: {e}", path.display()))?;
        }
        self.now.clone_from(setting);
        Ok(())
    }
}

/// Determines which settings the kernel has for its watermarks and how they are computed:
/// `wmark_low_kbytes` and `wmark_high_kbytes` (*tunable-watermarks*), `watermark_scale_factor`, or
/// only `min_free_kbytes`.
fn learning(root: &Root, captured: &Captured) -> Result<Learning, Failure> {
    let zones = verify::zones(captured).map_err(|e| unreadable(&e))?;
    let release = parse::release(&captured.release).unwrap_or((0, 0));
    let there = |name: &str| root.path(&format!("{VM}/{name}")).exists();
    // A setting that has a value of its own.
    let set = |name: &str| -> Result<Option<u64>, Failure> {
        let path = format!("{VM}/{name}");
        let value = root.optional(&path, parse::number);
        // 0: the kernel computes the value.
        value
            .map(|v| v.filter(|v| *v > 0))
            .map_err(|e| unreadable(&e))
    };
    let mut formula = captured
        .era()
        .marks(captured.settings.watermark_scale_factor);
    formula.low_kbytes = set("wmark_low_kbytes")?;
    formula.high_kbytes = set("wmark_high_kbytes")?;
    let knob = if there("wmark_low_kbytes") && there("wmark_high_kbytes") {
        Knob::Explicit
    } else if there("watermark_scale_factor") {
        Knob::ScaleFactor(if release >= (5, 19) { 3000 } else { 1000 })
    } else {
        Knob::MinFree
    };
    Ok(Learning {
        zones: zones.into_iter().map(|(_, info)| info).collect(),
        min_free_kbytes: captured.settings.min_free_kbytes,
        formula,
        knob,
    })
}

/// Takes a sample at `at_ns` (nanoseconds since the start): counters of direct reclaims and of
/// kswapd's work, and whether a zone is below its low watermark.
fn look(root: &Root, at_ns: u64) -> Result<Look, String> {
    let text = root.text("proc/vmstat").map_err(|e| e.to_string())?;
    let stat = proc::vmstat(&text);
    // Before 4.8, and for some since, counters are per zone, so they are summed.
    // The counter of this name, or the sum over its zones.
    let all = |name: &str| match stat.get(name) {
        Some(n) => *n,
        None => stat
            .iter()
            .filter(|(n, _)| {
                n.strip_prefix(name)
                    .is_some_and(|zone| zone.starts_with('_'))
            })
            .filter(|(n, _)| !n.ends_with("_throttle"))
            .map(|(_, n)| n)
            .sum(),
    };
    let zones = root.text("proc/zoneinfo").map_err(|e| e.to_string())?;
    let zones = parse::zoneinfo(&zones).map_err(|e| e.to_string())?;
    Ok(Look {
        at_ns,
        stalls: all("allocstall"),
        runs: all("pageoutrun"),
        scanned: all("pgscan_kswapd"),
        freed: match stat.get("kswapd_steal") {
            Some(n) => *n,
            None => all("pgsteal_kswapd"),
        },
        below_low: zones.iter().any(|z| z.managed > 0 && z.free < z.marks[1]),
    })
}

/// Checks that the counters that learning needs exist; their absence is an error.
fn check_counters(root: &Root) -> Result<(), Failure> {
    let text = root.text("proc/vmstat").map_err(|e| unreadable(&e))?;
    let stat = proc::vmstat(&text);
    for name in ["allocstall", "pgscan_kswapd", "pageoutrun"] {
        if !stat.keys().any(|n| n.starts_with(name)) {
            return Err(unreadable(&format!(
                "this kernel's /proc/vmstat has no {name}"
            )));
        }
    }
    Ok(())
}

/// Learns watermarks on the running Linux: samples its counters, and proposes (or with `--apply`
/// sets) higher watermarks after direct reclaims. Restores the original settings at the end.
pub fn learn(wanted: &Wanted<'_>) -> Result<Learned, Failure> {
    let root = match wanted.root {
        Some(dir) => Root::at(dir),
        None => Root::live(),
    };
    if root.is_live() {
        sweep();
    }
    let captured = Captured::read(&root).map_err(|e| unreadable(&e))?;
    check_counters(&root)?;
    let learning = learning(&root, &captured)?;
    let mut settings = Settings {
        dir: root.path(VM),
        was: learning.defaults(),
        now: learning.defaults(),
        undo: None,
    };
    if wanted.apply {
        settings.undo = Some(guarded(wanted, &settings)?);
    }
    let learner = Learner::new(learning, AutoWatermarks::default());
    let stop = (wanted.stop)();
    let mut course = Course {
        root: &root,
        settings,
        learner,
        start: clock(),
        next: 0,
        tell: wanted.tell,
        aside: None,
        interval: wanted.interval.as_nanos() as u64,
    };
    let begun = course.tick(0);
    let watched = begun.and_then(|()| watch(wanted, &root, &mut course, &stop));
    // Restore the settings first.
    let back = match &mut course.settings.undo {
        Some((undo, _)) => undo.undo(),
        None => Ok(Vec::new()),
    };
    let failed = |why: String| Failure::System(miette!("{why}"));
    let (ended, traced) = watched.map_err(failed)?;
    let back = back.map_err(|e| failed(format!("the setting could not be restored: {e}")))?;
    let stopped = match (ended, &course.aside) {
        (_, Some(why)) => Some(why.clone()),
        (Ended::Asked, None) => Some("interrupted".to_owned()),
        _ => None,
    };
    Ok(Learned {
        text: shown(&course, wanted.apply, traced.as_ref()),
        json: json(&course, traced.as_ref()),
        restored: back,
        stopped,
    })
}

/// Checks that the settings can be written, and starts the undo log and its guard: a process that
/// restores the settings if this one is killed.
fn guarded(wanted: &Wanted<'_>, settings: &Settings) -> Result<(Undo, Option<Guard>), Failure> {
    let names = settings.now.iter().map(|(name, _)| settings.dir.join(name));
    for path in names {
        let open = fs::OpenOptions::new().write(true).open(&path);
        open.map_err(|e| {
            Failure::Input(miette!(
                help =
                    "accepted: `--apply` as root; without `--apply` the settings are only printed",
                "{}: {e}",
                path.display()
            ))
        })?;
    }
    let folder = match wanted.root {
        Some(dir) => dir.join(FOLDER.trim_start_matches('/')),
        None => FOLDER.into(),
    };
    let undo = Undo::new(&folder);
    let guard = undo.and_then(|undo| {
        let guard = (wanted.guard)(&undo)?;
        Ok((undo, Some(guard)))
    });
    guard.map_err(|e| Failure::System(miette!("{}: {e}", folder.display())))
}

/// The state of a running `learn`.
struct Course<'a> {
    root: &'a Root,
    settings: Settings,
    learner: Learner,
    /// The start, as a time of [`clock`].
    start: u64,
    /// The time of the next sample, since the start.
    next: u64,
    interval: u64,
    /// [`Wanted::tell`].
    tell: &'a dyn Fn(&str) -> Result<(), String>,
    /// The reason why learning stopped early: another process changed a setting.
    aside: Option<String>,
}

impl Course<'_> {
    /// Takes a sample if one is due at `now` (nanoseconds since the start), and applies and tells
    /// the settings that follow from it. Learning stops, without an error, if another process has
    /// changed a setting (`aside`).
    fn tick(&mut self, now: u64) -> Result<(), String> {
        if now < self.next || self.aside.is_some() {
            return Ok(());
        }
        while self.next <= now {
            self.next += self.interval;
        }
        if let Some(why) = self.settings.foreign()? {
            self.aside = Some(why);
            return Ok(());
        }
        if self.learner.see(look(self.root, now)?)
            && let Some(period) = self.learner.periods().last().cloned()
        {
            self.settings.write(&period.setting)?;
            let did = match self.settings.undo {
                Some(_) => "set",
                None => "would set",
            };
            let cause = period.cause.map_or_else(String::new, |c| c.text());
            let at = period.from_ns as f64 / 1e9;
            (self.tell)(&format!(
                "{at:8.1} s  {cause}; {did} {}\n",
                setting_text(&period.setting)
            ))?;
        }
        Ok(())
    }
}

/// Learns until the end of `--duration`, `stop` (Ctrl-C), or another reason to stop. Returns the
/// reason, and the traced direct reclaims if permissions allowed tracing. The error is a sentence.
fn watch(
    wanted: &Wanted<'_>,
    root: &Root,
    course: &mut Course<'_>,
    stop: &AtomicBool,
) -> Result<(Ended, Option<RunResult>), String> {
    let limit = wanted.duration.as_nanos() as u64;
    let mut failed = None;
    let start = course.start;
    // Takes a sample if one is due; returns the reason if learning is over.
    let mut over = || {
        if stop.load(SeqCst) {
            return Some(Ended::Asked);
        }
        let now = clock() - start;
        if let Err(why) = course.tick(now) {
            failed = Some(why);
        }
        let done = failed.is_some() || course.aside.is_some();
        done.then_some(Ended::Done(clock()))
    };
    let traced = match root.is_live() {
        true => traced(&mut over, limit, wanted.guard),
        false => None,
    };
    let (ended, result) = match traced {
        Some(done) => done?,
        None => loop {
            if let Some(ended) = over() {
                break (ended, None);
            }
            if clock() - start >= limit {
                break (Ended::Limit, None);
            }
            std::thread::sleep(wanted.interval.min(Duration::from_millis(100)));
        },
    };
    match failed {
        Some(why) => Err(why),
        None => Ok((ended, result)),
    }
}

type Watched = Result<(Ended, Option<RunResult>), String>;

/// Learns while the tracepoints of direct reclaim are recorded. `over` is called all the time and
/// returns the reason to stop; `limit` is the longest time in nanoseconds. Returns the reason and
/// the recording's figures; `None`: permissions do not allow tracing, and nothing was done.
fn traced(
    over: &mut dyn FnMut() -> Option<Ended>,
    limit: u64,
    guard: StartGuard,
) -> Option<Watched> {
    let (instance, guard) = instance(false, guard);
    let instance = instance.ok()?;
    let spool = tempfile::tempfile().ok()?;
    let record = || -> Watched {
        let failed = |e: std::io::Error| format!("a temporary file: {e}");
        let writer = file::writer(BufWriter::new(&spool), &About::default()).map_err(failed)?;
        // The recording needs few looks of its own: the counters are sampled anyway.
        let minute = 60_000_000_000;
        let ring = kernel::running::RING_KB;
        let mut recorder = Recorder::new(writer, Path::new("/"), Ok(instance), ring, minute)?;
        recorder.begin()?;
        let ended = recorder.follow(Some(limit), None, over)?;
        let (writer, _) = recorder.end(None, Vec::new())?;
        writer
            .finish()
            .and_then(|mut to| to.flush())
            .map_err(failed)?;
        let fd = std::os::fd::AsRawFd::as_raw_fd(&spool);
        let recording = Recording::read(Path::new(&format!("/proc/self/fd/{fd}")));
        Ok((ended, Some(recording.map_err(failed)?.result())))
    };
    let done = record();
    drop(guard);
    Some(done)
}

/// Formats settings as `vm.NAME = VALUE`, joined by commas.
fn setting_text(setting: &Setting) -> String {
    let all = setting.iter().map(|(name, n)| format!("vm.{name} = {n}"));
    all.collect::<Vec<_>>().join(", ")
}

/// Returns the direct reclaims per second of a period; 0 if it has no length.
fn rate(p: &Period) -> f64 {
    let seconds = (p.to_ns - p.from_ns) as f64 / 1e9;
    if seconds > 0.0 {
        p.stalls as f64 / seconds
    } else {
        0.0
    }
}

/// Formats cause and effect of each step as a table, then the traced direct reclaims and the
/// proposed setting. `traced` is `None` where tracing was not possible.
fn shown(course: &Course<'_>, applied: bool, traced: Option<&RunResult>) -> String {
    let mut table = Screen::here().table([
        "from, s",
        "cause",
        "setting",
        "low, kB",
        "direct reclaims",
        "a second",
        "kswapd's runs",
        "scanned",
        "freed",
    ]);
    for p in course.learner.periods() {
        let cause = p.cause.map_or_else(|| "as it was".to_owned(), |c| c.text());
        table.add_row([
            format!("{:.1}", p.from_ns as f64 / 1e9),
            cause,
            setting_text(&p.setting),
            (p.low * 4).to_string(),
            p.stalls.to_string(),
            format!("{:.2}", rate(p)),
            p.runs.to_string(),
            p.scanned.to_string(),
            p.freed.to_string(),
        ]);
    }
    let mut out = format!("{table}\n");
    if let Some(result) = traced
        && let Some(sums) = &result.reclaim
    {
        let longest = result
            .metrics
            .get("alloc_wait_max")
            .map_or(0.0, |m| m.value);
        out += &format!(
            "tracepoints: {} direct reclaims, {:.3} s in all, the longest {:.3} ms\n",
            sums.direct_reclaims,
            sums.stalled_ns as f64 / 1e9,
            longest / 1e3,
        );
    }
    out += &proposal(course, applied);
    out
}

/// Formats the settings to start with at the next boot, and how far they are from the original
/// ones.
fn proposal(course: &Course<'_>, applied: bool) -> String {
    let Some((setting, low)) = course.learner.learned() else {
        return "nothing was learned: there was no direct reclaim, and kswapd kept up\n".to_owned();
    };
    let mut out = String::from("to start with this setting at the next boot, in /etc/sysctl.d:\n");
    for (name, n) in &setting {
        out += &format!("  vm.{name} = {n}\n");
    }
    out += &format!("low watermarks of {} kB in all", low * 4);
    let default = course.learner.periods()[0].low;
    out += &format!(
        ", {:.2} times those of the start",
        low as f64 / default.max(1) as f64
    );
    if course.learner.at_cap() {
        out += &format!(
            "; this is the limit (at most {} times): add memory, or allocate less at a time",
            course.learner.cap()
        );
    }
    if !applied {
        out += "; nothing was set, so the steps are untested guesses (`--apply` tests them)";
    }
    out + "\n"
}

/// Returns the course of learning as JSON: every step with its cause and effects, and the learned
/// setting.
fn json(course: &Course<'_>, traced: Option<&RunResult>) -> serde_json::Value {
    let of = |setting: &Setting| -> serde_json::Value {
        let all = setting
            .iter()
            .map(|(name, n)| ((*name).to_owned(), json!(n)));
        all.collect::<serde_json::Map<_, _>>().into()
    };
    let periods = course.learner.periods().iter();
    json!({
        "applied": course.settings.undo.is_some(),
        "periods": periods.map(|p| json!({
            "from_s": p.from_ns as f64 / 1e9,
            "to_s": p.to_ns as f64 / 1e9,
            "cause": p.cause.map(|c| c.text()),
            "setting": of(&p.setting),
            "low_kbytes": p.low * 4,
            "direct_reclaims": p.stalls,
            "kswapd_runs": p.runs,
            "pages_scanned": p.scanned,
            "pages_freed": p.freed,
        })).collect::<Vec<_>>(),
        "learned": course.learner.learned().map(|(setting, _)| of(&setting)),
        "at_cap": course.learner.at_cap(),
        "stepped_aside": course.aside,
        "traced": traced.and_then(|r| r.reclaim.as_ref()),
    })
}
