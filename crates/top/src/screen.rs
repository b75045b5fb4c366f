//! The terminal: taken over, drawn to, and restored in any case.

use crate::draw::{self, Palette};
use crate::player::{Key, Player};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// How the display ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The user quit.
    Quit,
    /// Ctrl-C or another signal ended it.
    Interrupted,
}

/// The longest time between two checks of keys and signals.
const TICK: Duration = Duration::from_millis(50);
/// The second look is early, because rates need two.
const FIRST: Duration = Duration::from_millis(250);

/// Returns true if standard input and output are a terminal that can be drawn to.
pub fn is_there() -> bool {
    let able = std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    able && io::stdout().is_terminal() && io::stdin().is_terminal()
}

/// The terminal in use; restored on drop. After a panic, the hook that ratatui sets restores it
/// before the message.
struct Taken(ratatui::DefaultTerminal);

impl Drop for Taken {
    /// Gives the terminal back to the shell.
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Returns the command of a pressed key; `None` if the key has none (Ctrl-C is handled by the
/// caller).
fn key(event: KeyEvent) -> Option<Key> {
    Some(match event.code {
        KeyCode::Char('q') | KeyCode::Esc => Key::Quit,
        KeyCode::Char(' ') => Key::Pause,
        KeyCode::Left => Key::Back,
        KeyCode::Right => Key::On,
        KeyCode::PageUp | KeyCode::Up => Key::FarBack,
        KeyCode::PageDown | KeyCode::Down => Key::FarOn,
        KeyCode::Home => Key::First,
        KeyCode::End => Key::Last,
        KeyCode::Char('+' | '=') => Key::Faster,
        KeyCode::Char('-') => Key::Slower,
        KeyCode::Char('c') => Key::Cell,
        KeyCode::Char('?' | 'h') => Key::Help,
        _ => return None,
    })
}

/// Shows the player in the terminal until the user quits or a signal comes. Each round draws if
/// something changed, advances playback, takes a look when one is due, and waits for a key or a
/// tick.
///
/// # Errors
/// The terminal fails, or a look at the source does.
pub fn show(player: &mut Player, colour: bool) -> io::Result<Ended> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let mut terminal = Taken(ratatui::try_init()?);
    let interval = Duration::from_secs_f64(player.interval());
    player.look()?;
    let mut due = Instant::now() + interval.min(FIRST);
    let mut before = Instant::now();
    let mut drawn = None;
    loop {
        let wanted = (player.state(), player.title().to_owned(), player.helps());
        if drawn.as_ref() != Some(&wanted) {
            terminal.0.draw(|frame| {
                let area = frame.area();
                draw::frame(player, Palette(colour), area, frame.buffer_mut());
            })?;
            drawn = Some(wanted);
        }
        let now = Instant::now();
        player.pass(now - before);
        before = now;
        if player.follows() && now >= due {
            player.look()?;
            due = now + interval;
        }
        if is_gone()? {
            return Ok(Ended::Interrupted);
        }
        if event::poll(Duration::ZERO)? {
            match heard(&event::read()?, player) {
                Some(ended) => return Ok(ended),
                // A key was pressed, or the window was resized.
                None => drawn = None,
            }
        }
        if stop.load(SeqCst) {
            return Ok(Ended::Interrupted);
        }
    }
}

/// Waits until a key is pressed or a tick has passed. Returns true if the terminal has gone away,
/// which crossterm would read for ever.
fn is_gone() -> io::Result<bool> {
    let input = io::stdin();
    let mut keys = [PollFd::new(&input, PollFlags::IN)];
    let tick = Timespec {
        tv_sec: 0,
        tv_nsec: TICK.as_nanos() as _,
    };
    match poll(&mut keys, Some(&tick)) {
        Ok(_) => Ok(keys[0]
            .revents()
            .intersects(PollFlags::HUP | PollFlags::ERR)),
        // A signal, or a resized window.
        Err(Errno::INTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Executes an event of the terminal. Returns how the display ends if a key ends it, else `None`.
fn heard(event: &Event, player: &mut Player) -> Option<Ended> {
    let Event::Key(pressed) = event else {
        return None;
    };
    if pressed.kind == KeyEventKind::Release {
        return None;
    }
    let control = pressed.modifiers.contains(KeyModifiers::CONTROL);
    match (key(*pressed), control) {
        (_, true) if pressed.code == KeyCode::Char('c') => Some(Ended::Interrupted),
        (Some(key), false) if !player.key(key) => Some(Ended::Quit),
        _ => None,
    }
}
