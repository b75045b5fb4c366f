//! `lowmark top`.

use crate::cli::Top;
use crate::text;
use front::failure::Failure;
use kernel::running::live::Live;
use miette::miette;
use std::path::Path;
use top::frames::{Growing, guests};
use top::here::Here;
use top::player::Player;
use top::screen::{self, Ended};
use top::tape::{Tape, Wrong};

/// Shows the running Linux, a guest, a live cache or a recording in the terminal until the user
/// quits; `--once` prints one frame as text. Rates need two samples, so a live source is then
/// sampled twice.
pub fn run(args: &Top) -> Result<(), Failure> {
    if !args.once && !screen::is_there() {
        return Err(Failure::Input(miette!(
            help = "accepted: standard input and output at a terminal; `--once` prints one frame as text",
            "standard input or output is not a terminal"
        )));
    }
    let mut player = match (&args.what, &args.guest, &args.live) {
        (Some(path), ..) => tape(args, path)?,
        (None, Some(file), _) => Player::guest(guest(file.as_deref())?),
        (None, None, Some(address)) => Player::live(cache(address)?, args.interval),
        (None, None, None) => {
            let here = Here::new(Path::new("/")).map_err(|e| Failure::System(miette!("{e}")))?;
            Player::here(here, args.interval)
        }
    };
    let failed = |e: std::io::Error| Failure::System(miette!("{e}"));
    if args.guest.is_some() {
        // A file that holds no frames is wrong input.
        let looked = player.look();
        looked.map_err(|e| Failure::Input(miette!(help = FRAMES, "{e}")))?;
    } else if args.once {
        player.look().map_err(failed)?;
    }
    if args.once {
        if args.what.is_none() && args.guest.is_none() {
            std::thread::sleep(args.interval);
            player.look().map_err(failed)?;
        }
        return text::print(&top::draw::text(&player));
    }
    match screen::show(&mut player, text::screen().colour).map_err(failed)? {
        Ended::Quit => Ok(()),
        Ended::Interrupted => Err(Failure::Stopped("interrupted".to_owned())),
    }
}

/// Returns the error for a recording or cell that can't be shown.
fn wrong(why: Wrong) -> Failure {
    Failure::Input(miette!(help = why.accepted, "{}", why.what))
}

/// Opens a recording and seeks to its start position: `--at`, or the end with `--once`.
fn tape(args: &Top, path: &Path) -> Result<Player, Failure> {
    let tape = Tape::open(path).map_err(wrong)?;
    let cell = args.cell.as_ref().map_or(Ok(0), |cell| tape.find(cell));
    let mut player = Player::tape(tape, cell.map_err(wrong)?, args.speed).map_err(wrong)?;
    match (args.at, args.once) {
        (Some(at), _) => player.seek(at.as_secs_f64()),
        (None, true) => player.seek(f64::INFINITY),
        (None, false) => {}
    }
    Ok(player)
}

/// Returns the live cache at a loopback address, after checking that one answers there.
pub fn cache(address: &str) -> Result<Live, Failure> {
    let wrong =
        |why: String, help: String| Failure::Input(miette!(help = help, "{address}: {why}"));
    let cache = Live::parse(address).map_err(|help| wrong("no live cache".to_owned(), help))?;
    if let Err(e) = cache.page() {
        let help =
            "accepted: the address at which a program's cache serves its metrics (docs/live.md)";
        return Err(wrong(e.to_string(), help.to_owned()));
    }
    Ok(cache)
}

/// The frames that can be shown.
const FRAMES: &str = "accepted: `--guest` while `lowmark run` runs a real kernel \
    (`policy = \"kernel:NAME\"`) as the same user, or the `frames` file of its folder";

/// Opens the frames of the guest to show: those in `file`, or of the youngest guest that runs on
/// this host.
fn guest(file: Option<&Path>) -> Result<Growing, Failure> {
    let Some(path) = file
        .map(Path::to_owned)
        .or_else(|| guests(&std::env::temp_dir()).into_iter().next())
    else {
        return Err(Failure::Input(miette!(
            help = FRAMES,
            "no guest is running"
        )));
    };
    let opened = Growing::open(&path);
    opened.map_err(|e| Failure::Input(miette!(help = FRAMES, "can't read {}: {e}", path.display())))
}
