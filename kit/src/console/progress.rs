//! How far long work is: bytes or things done, with a rate, on standard error.
//!
//! What comes in: what was done since the last time. What goes out: on a terminal one line that is written
//! over, from two seconds on; in a log a line every 30 seconds; with `--output json` or `--quiet` nothing.
//! The work never waits for it, and fails for no reason of it.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::options;
use crate::size;

/// Work that is done sooner prints nothing.
const SILENT: Duration = Duration::from_secs(2);
const ON_A_TERMINAL: Duration = Duration::from_millis(200);
const IN_A_LOG: Duration = Duration::from_secs(30);

/// What one number of a [`Meter`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Things, by their plural.
    Things(&'static str),
}

/// Whether this process shows progress at all.
static ENABLED: AtomicBool = AtomicBool::new(false);

/// Whether a line of progress stands on the terminal now.
static SHOWN: Mutex<bool> = Mutex::new(false);

/// One piece of long work.
#[derive(Debug)]
pub struct Meter {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    what: String,
    unit: Unit,
    total: Option<u64>,
    done: u64,
    begun: Instant,
    last: Option<Instant>,
    every: Option<Duration>,
    on_terminal: bool,
}

impl Meter {
    /// Work on `what`, such as `reading dev.outhaul`, of `total` when that is known.
    pub fn new(what: &str, unit: Unit, total: Option<u64>) -> Self {
        let on_terminal = io::stderr().is_terminal();
        let wanted = ENABLED.load(Ordering::Relaxed) && !options::is_quiet();
        let every = if on_terminal { ON_A_TERMINAL } else { IN_A_LOG };
        Self {
            state: Mutex::new(State {
                what: crate::text::printable(what).into_owned(),
                unit,
                total,
                done: 0,
                begun: Instant::now(),
                last: None,
                every: wanted.then_some(every),
                on_terminal,
            }),
        }
    }

    /// So much more is done.
    pub fn add(&self, done: u64) {
        if let Ok(mut state) = self.state.lock() {
            state.done = state.done.saturating_add(done);
            state.show();
        }
    }

    /// So much is done altogether.
    pub fn set(&self, done: u64) {
        if let Ok(mut state) = self.state.lock() {
            state.done = done;
            state.show();
        }
    }

    /// So much is to be done, as far as is known now.
    pub fn of(&self, total: u64) {
        if let Ok(mut state) = self.state.lock() {
            state.total = Some(total);
        }
    }
}

/// What is read or written through it counts.
#[derive(Debug)]
pub struct Counted<'m, T> {
    inner: T,
    meter: &'m Meter,
}

impl Meter {
    /// Counts what goes through `inner`.
    pub fn counts<T>(&self, inner: T) -> Counted<'_, T> {
        Counted { inner, meter: self }
    }
}

impl<T: io::Read> io::Read for Counted<'_, T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.meter.add(count as u64);
        Ok(count)
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        pause();
    }
}

impl State {
    fn show(&mut self) {
        let Some(every) = self.every else { return };
        let now = Instant::now();
        let first = if self.on_terminal { SILENT } else { IN_A_LOG };
        let due = match self.last {
            None => now.duration_since(self.begun) >= first,
            Some(last) => now.duration_since(last) >= every,
        };
        if !due {
            return;
        }
        self.last = Some(now);
        let line = line(
            &self.what,
            self.unit,
            self.done,
            self.total,
            now.duration_since(self.begun),
        );
        if !self.on_terminal {
            let _ = writeln!(io::stderr().lock(), "{line}");
        } else if let Ok(mut shown) = SHOWN.lock() {
            let _ = write!(io::stderr().lock(), "\r\u{1b}[K{line}");
            *shown = true;
        }
    }
}

/// Sets whether this process shows progress: not when a program reads what it prints.
pub(super) fn enable(enabled: bool) {
    ENABLED.store(enabled, Ordering::Relaxed);
}

/// Takes a line of progress away, so that something else can be printed.
pub(super) fn pause() {
    if let Ok(mut shown) = SHOWN.lock()
        && *shown
    {
        let _ = write!(io::stderr().lock(), "\r\u{1b}[K");
        *shown = false;
    }
}

/// `reading dev.outhaul: 1.5 GiB of 3.0 GiB (50 %), 120.0 MiB/s, 13 s left`.
fn line(what: &str, unit: Unit, done: u64, total: Option<u64>, took: Duration) -> String {
    let rate = per_second(done, took);
    let mut text = format!("{what}: {}", amount(unit, done, total.is_none()));
    if let Some(total) = total {
        let percent = done
            .min(total)
            .saturating_mul(100)
            .checked_div(total)
            .unwrap_or(100);
        text.push_str(&format!(" of {} ({percent} %)", amount(unit, total, true)));
    }
    match unit {
        Unit::Bytes => text.push_str(&format!(", {}/s", size::text(rate))),
        Unit::Things(_) => text.push_str(&format!(", {rate}/s")),
    }
    if let Some(left) = total.map(|total| total.saturating_sub(done))
        && let Some(seconds) = left.checked_div(rate)
    {
        text.push_str(&format!(", {} left", span(seconds)));
    }
    text
}

fn per_second(done: u64, took: Duration) -> u64 {
    let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).max(1);
    u64::try_from(u128::from(done) * 1000 / u128::from(ms)).unwrap_or(u64::MAX)
}

fn amount(unit: Unit, number: u64, named: bool) -> String {
    match unit {
        Unit::Bytes => size::text(number),
        Unit::Things(name) if named => format!("{number} {name}"),
        Unit::Things(_) => number.to_string(),
    }
}

fn span(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_much_how_fast_and_how_long() {
        let minute = Duration::from_secs(60);
        let gib = 1024 * 1024 * 1024;
        assert_eq!(
            line("reading a", Unit::Bytes, 3 * gib, Some(6 * gib), minute),
            "reading a: 3.0 GiB of 6.0 GiB (50 %), 51.2 MiB/s, 60 s left"
        );
        assert_eq!(
            line("packing", Unit::Things("files"), 1200, None, minute),
            "packing: 1200 files, 20/s"
        );
        assert_eq!(
            line("x", Unit::Bytes, 0, Some(0), Duration::ZERO),
            "x: 0 bytes of 0 bytes (100 %), 0 bytes/s"
        );
    }
}
