//! Drawn frames: of captured machines, of recordings, of a simulated run.

use guest::wire::Frame;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use top::draw::{self, Palette};
use top::here::Here;
use top::look::Look;
use top::moment::Moment;
use top::player::{Key, Player};
use top::tape::Tape;
use top::tasks::Tasks;

fn of(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(folder)
}

/// Returns a text of a captured machine.
fn captured(machine: &str, file: &str) -> Option<String> {
    fs::read_to_string(of("machine/tests/captures").join(machine).join(file)).ok()
}

/// Returns the counters of a captured machine.
fn look_of(machine: &str) -> BTreeMap<String, u64> {
    let text = captured(machine, "proc/vmstat").expect("it has them");
    machine::parse::counters(&text).expect("counters")
}

fn look(machine: &str, at: u64, change: impl Fn(&str, u64) -> u64) -> Look {
    let grown = |text: String| -> String {
        let line = |line: &str| {
            let (name, n) = line.split_once(' ').expect("a name and a number");
            format!("{name} {}\n", change(name, n.parse().expect("a number")))
        };
        text.lines().map(line).collect()
    };
    let vmstat = captured(machine, "proc/vmstat").map(grown);
    let zoneinfo = captured(machine, "proc/zoneinfo");
    let text = |path: &str| match path {
        "/proc/vmstat" => vmstat.as_deref(),
        "/proc/zoneinfo" => zoneinfo.as_deref(),
        _ => None,
    };
    Look::of(at, text, Tasks::default())
}

/// Within a tenth of a second a captured machine has scanned, stalled and written: rates are ten
/// times the increases, levels are unchanged, zones are those of its machine file, and counters
/// that its kernel lacks are not reported.
#[test]
fn captured_machines_have_their_zones_and_rates() {
    for machine in ["small-vm", "lazy-vm", "numa"] {
        let grown = |name: &str, n: u64| match name {
            "pgscan_kswapd" | "nr_dirty" => n + 40,
            "pgsteal_kswapd" | "allocstall_normal" | "nr_dirtied" => n + 10,
            _ => n,
        };
        let before = look(machine, 1_000_000_000, |_, n| n);
        let now = look(machine, 1_100_000_000, grown);
        let moment = top::look::between(&before, &now, &[]);
        let root = machine::Root::at(of("machine/tests/captures").join(machine));
        let whole = machine::Captured::read(&root).expect("a captured machine");
        let zones: Vec<_> = whole.populated().collect();
        assert_eq!(moment.zones.len(), zones.len(), "{machine}");
        for (shown, zone) in moment.zones.iter().zip(zones) {
            assert!(shown.name.ends_with(&zone.name), "{machine}");
            assert_eq!(shown.free, zone.free as f64, "{machine}");
            assert_eq!(
                shown.marks,
                zone.marks.map(|m| (m + zone.boost) as f64),
                "{machine}"
            );
        }
        // Two of the captures contain only what a machine file needs.
        let counts = |name: &str| look_of(machine).contains_key(name);
        let holds = |name: &str, value: Option<f64>, wanted: f64| match counts(name) {
            true => {
                let value = value.expect(name);
                assert!(
                    (value - wanted).abs() < 1e-6,
                    "{machine}: {name} {value}, {wanted}"
                );
            }
            false => assert_eq!(value, None, "{machine}: {name}"),
        };
        let r = moment.reclaim;
        holds("pgscan_kswapd", r.kswapd.scanned, 400.0);
        holds("pgsteal_kswapd", r.kswapd.freed, 100.0);
        holds("pgscan_direct", r.direct.scanned, 0.0);
        holds("allocstall_normal", r.stalls, 100.0);
        holds("nr_dirtied", moment.dirty.dirtied, 100.0);
        let dirty = (whole.pages("nr_dirty") + 40) as f64;
        holds("nr_dirty", moment.dirty.dirty, dirty);
        assert_eq!(counts("pgscan_kswapd"), machine == "lazy-vm");
        assert_eq!((moment.pressure[0].some, moment.waits), (None, None));
    }
}

/// A counter that decreased, for example because a CPU went away, gives no rate.
#[test]
fn what_goes_backwards_is_not_told() {
    let before = look("small-vm", 0, |_, n| n + 5);
    let now = look("small-vm", 1_000_000_000, |_, n| n);
    let moment = top::look::between(&before, &now, &[]);
    assert!(moment.reclaim.is_silent(), "{:?}", moment.reclaim);
}

/// A counter's name and the rate made from it.
type Rate = (&'static str, fn(&Moment) -> Option<f64>);

/// Rates times their durations equal the increases of the counters over the whole recording.
#[test]
fn rates_of_recordings_sum_up_to_their_counters() {
    for release in ["6.1", "6.12", "6.18"] {
        let path = of("kernel/tests/recordings").join(format!("linux-{release}.z"));
        let played = Tape::open(&path)
            .expect("a recording")
            .read(0)
            .expect("moments");
        let counters = kernel::running::file::Recording::read(&path)
            .expect("a recording")
            .result()
            .counters;
        let rates: [Rate; 6] = [
            ("pgscan_kswapd", |m| m.reclaim.kswapd.scanned),
            ("pgsteal_kswapd", |m| m.reclaim.kswapd.freed),
            ("pgscan_direct", |m| m.reclaim.direct.scanned),
            ("pswpout", |m| m.reclaim.swap_out),
            ("workingset_refault_file", |m| m.reclaim.refaults_file),
            ("nr_dirtied", |m| m.dirty.dirtied),
        ];
        for (counter, rate) in rates {
            let mut before = 0.0;
            let mut sum = 0.0;
            for moment in &played.moments {
                sum += rate(moment).expect("told") * (moment.at - before);
                before = moment.at;
            }
            let counted = counters[counter] as f64;
            assert!(
                (sum - counted).abs() < 0.5,
                "{release}: {counter} {counted}, {sum}"
            );
        }
        assert!(
            played
                .moments
                .iter()
                .all(|m| m.zones.iter().all(|z| z.marks[0] < z.marks[2]))
        );
    }
}

fn drawn(player: &Player, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen");
    let draw = |frame: &mut ratatui::Frame<'_>| {
        let area = frame.area();
        draw::frame(player, Palette(true), area, frame.buffer_mut());
    };
    terminal.draw(draw).expect("a frame");
    let screen = terminal.backend().to_string();
    let lines = screen.lines().map(|l| l.trim_matches('"').trim_end());
    lines.collect::<Vec<_>>().join("\n")
}

fn played(path: &Path) -> Player {
    Player::tape(Tape::open(path).expect("what can be played"), 0, 1.0).expect("moments")
}

/// Writes a guest's frames of a machine in trouble: below min, over the dirty limit, with pressure.
fn trouble(dir: &Path) -> PathBuf {
    let path = dir.join("frames");
    let mut file = BufWriter::new(File::create(&path).expect("space"));
    let mut say = |frame: Frame| frame.write(&mut file).expect("space");
    say(Frame::Hello("6.12.9".into()));
    for second in 0..30_u64 {
        let at = second * 1_000_000_000;
        let own = |name: &str, text: String| Frame::Look(at, name.into(), text.into_bytes());
        let free = [9000, 2000, 1500, 800][second as usize % 4];
        let zone = |name: &str, free: u64, high: u64| {
            let (min, low) = (high / 3, high * 2 / 3);
            format!(
                "Node 0, zone {name}\n  pages free {free}\n  min {min}\n  low {low}\n  high {high}\n  spanned 60000\n  \
                 present 60000\n  managed 50000\n"
            )
        };
        say(own(
            "/proc/zoneinfo",
            zone("DMA32", free, 3000) + &zone("Normal", 5 * free, 2400),
        ));
        say(own(
            "/proc/vmstat",
            format!(
                "nr_dirty {}\nnr_writeback 900\nnr_dirty_threshold 5000\nnr_dirty_background_threshold 2500\n\
                 nr_dirtied {}\nnr_written {}\npgscan_kswapd {}\npgsteal_kswapd {}\npgscan_direct {}\npgsteal_direct {}\n\
                 allocstall_dma32 1\nallocstall_normal {}\npswpin 0\npswpout {}\nworkingset_refault_file {}\n\
                 nr_vmscan_write {}\n",
                1000 + second * 150,
                second * 4000,
                second * 3600,
                second * 120_000,
                second * 60_000,
                second * 900,
                second * 300,
                second * 12,
                second * 40,
                second / 20,
                second * 7,
            ),
        ));
        let sectors = second * 40_000;
        say(own(
            "/proc/diskstats",
            format!(" 254 0 vda 1 0 8 0 9 0 {sectors} 0 12 0 0\n"),
        ));
        say(own(
            "/proc/pressure/memory",
            "some avg10=37.00 avg60=0.00 total=0\nfull avg10=2.00 total=0\n".to_owned(),
        ));
    }
    say(Frame::Bye);
    file.flush().expect("space");
    path
}

/// Every world at both sizes, and the text for scripts.
#[test]
fn frames_at_two_sizes() {
    let dir = tempfile::tempdir().expect("a folder");
    let recording = of("kernel/tests/recordings/linux-6.12.z");
    let shown = |path: &Path, title: &str, at: f64| {
        let mut player = played(path).called(title);
        player.seek(at);
        player
    };
    let trouble = shown(&trouble(dir.path()), "a guest, Linux 6.12.9", 27.5);
    let recording = shown(&recording, "results/record/latest", 1e9);
    let run = of("top/tests/run");
    let mut simulated = shown(
        &run,
        "policy=linux-6.12, 1 of 2 in results/mine/latest",
        3.3,
    );
    for (name, player) in [
        ("trouble", &trouble),
        ("recording", &recording),
        ("simulated", &simulated),
    ] {
        for (width, height) in [(80, 24), (120, 40)] {
            let frame = drawn(player, width, height);
            insta::assert_snapshot!(format!("{name}_{width}x{height}"), frame);
        }
        insta::assert_snapshot!(format!("{name}_text"), draw::text(player));
    }
    simulated.key(Key::Help);
    insta::assert_snapshot!("help_80x24", drawn(&simulated, 80, 24));
}

/// Windows of every size are drawn, and no line of text exceeds 80 columns.
#[test]
fn any_window_is_drawn() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut player = played(&trouble(dir.path()));
    for width in [1, 20, 79, 80, 200] {
        for height in [1, 2, 3, 10, 24, 60] {
            drawn(&player, width, height);
        }
    }
    while player.moment().is_some_and(|m| m.at < 29.0) {
        player.key(Key::On);
        let text = draw::text(&player);
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    }
}

/// The running Linux has a frame with figures.
#[test]
fn the_running_linux_is_shown() {
    let Ok(here) = Here::new(Path::new("/")) else {
        eprintln!("no /proc/vmstat here: not tried");
        return;
    };
    let mut player = Player::here(here, Duration::from_millis(100));
    player.look().expect("a look");
    player.look().expect("a look");
    let text = draw::text(&player);
    for panel in ["zones", "dirty pages", "reclaim", "who waits", "disks"] {
        assert!(text.contains(panel), "{text}");
    }
    assert!(
        player
            .moment()
            .expect("a moment")
            .reclaim
            .kswapd
            .scanned
            .is_some(),
        "{text}"
    );
}

/// A recording of a live cache shows the latencies between two looks, and `-` for operations that
/// did not occur. The panel also fits on a small screen.
#[test]
fn latencies_of_a_live_cache() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("frames");
    let mut file = BufWriter::new(File::create(&path).expect("space"));
    let mut say = |frame: Frame| frame.write(&mut file).expect("space");
    say(Frame::Hello("lowmark-cache".into()));
    let latency = "lowmark-cache/latency";
    let looks = [
        "hit 1e-7 100\nmiss 0.001 5\n",
        "hit 1e-7 199\nhit 2.5e-6 200\nmiss 0.001 5\nmiss 0.002 7\n",
    ];
    for (second, text) in (0_u64..).zip(looks) {
        let at = second * 1_000_000_000;
        let own = |name: &str, text: &str| Frame::Look(at, name.into(), text.into());
        say(own("/proc/vmstat", "nr_dirty 5\n"));
        say(own(latency, text));
    }
    say(Frame::Bye);
    drop(file);
    let player = played(&path);
    for height in [24, 60] {
        let frame = drawn(&player, 80, height);
        let line = |name: &str| {
            let found = frame.lines().find(|l| l.starts_with(name));
            let found = found.unwrap_or_else(|| panic!("{name}: {frame}"));
            found.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            line(" hit "),
            "hit 100 100 ns 2.50 µs miss 2.0 2.00 ms 2.00 ms"
        );
        assert_eq!(line(" write "), "write 0.0 - - throttle 0.0 - -");
    }
}
