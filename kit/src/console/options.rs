//! `--color`, `--verbose` and `--quiet`, which all programs understand.
//!
//! What comes in: the command line and the environment (`NO_COLOR`, `CLICOLOR`, `CLICOLOR_FORCE`, `TERM`).
//! What goes out: whether standard output and standard error are coloured, and how much is printed. Colour is
//! for terminals, unless it is asked for.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::sync::atomic::{AtomicBool, AtomicI8, Ordering};

use clap::ValueEnum;

static COLOUR_OUT: AtomicBool = AtomicBool::new(false);
static COLOUR_ERR: AtomicBool = AtomicBool::new(false);
static LEVEL: AtomicI8 = AtomicI8::new(0);

/// What every command of every program understands.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct Options {
    /// When text is coloured: `auto` colours terminals and follows `NO_COLOR` and `CLICOLOR`
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value_t,
        help_heading = "Messages"
    )]
    color: When,
    /// Say more on standard error; twice for debugging
    #[arg(
        short,
        long,
        global = true,
        action = clap::ArgAction::Count,
        conflicts_with = "quiet",
        help_heading = "Messages"
    )]
    verbose: u8,
    /// Say only errors and warnings on standard error
    #[arg(short, long, global = true, help_heading = "Messages")]
    quiet: bool,
}

/// When text is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum When {
    /// Always.
    Always,
    /// On a terminal, unless the environment says otherwise.
    #[default]
    Auto,
    /// Never.
    Never,
}

impl Options {
    /// Holds from now on, for this process.
    pub fn apply(self) {
        colour(self.color);
        let level = if self.quiet {
            -1
        } else {
            i8::try_from(self.verbose).unwrap_or(i8::MAX)
        };
        LEVEL.store(level, Ordering::Relaxed);
    }

    /// How much the log prints, by the usual names; `normal` is what it prints without options.
    pub fn log_level(self, normal: &'static str) -> &'static str {
        match (self.quiet, self.verbose) {
            (true, _) if normal == "info" => "warn",
            (true, _) => "error",
            (false, 0) => normal,
            (false, 1) if normal == "info" => "debug",
            (false, 1) => "info",
            (false, 2) => "debug",
            (false, _) => "trace",
        }
    }
}

/// What is known of colour before the command line is parsed: its error is coloured, too.
pub(super) fn before_parsing(arguments: &[OsString]) {
    let given = |wanted: &str| {
        let joined = format!("--color={wanted}");
        let pairs = arguments.windows(2);
        arguments.iter().any(|word| *word == *joined)
            || pairs
                .into_iter()
                .any(|pair| pair[0] == "--color" && pair[1] == *wanted)
    };
    colour(match (given("always"), given("never")) {
        (true, _) => When::Always,
        (_, true) => When::Never,
        _ => When::Auto,
    });
}

fn colour(when: When) {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let wanted = |is_terminal: bool| match when {
        When::Always => true,
        When::Never => false,
        When::Auto => wants(is_terminal, variable),
    };
    COLOUR_OUT.store(wanted(io::stdout().is_terminal()), Ordering::Relaxed);
    COLOUR_ERR.store(wanted(io::stderr().is_terminal()), Ordering::Relaxed);
}

/// The customs of <https://no-color.org> and <https://bixense.com/clicolors>.
fn wants(is_terminal: bool, variable: impl Fn(&str) -> String) -> bool {
    if !variable("NO_COLOR").is_empty() {
        return false;
    }
    if !matches!(variable("CLICOLOR_FORCE").as_str(), "" | "0") {
        return true;
    }
    is_terminal && variable("CLICOLOR") != "0" && variable("TERM") != "dumb"
}

/// Whether standard output is coloured.
pub fn is_coloured_out() -> bool {
    COLOUR_OUT.load(Ordering::Relaxed)
}

pub(super) fn is_coloured_err() -> bool {
    COLOUR_ERR.load(Ordering::Relaxed)
}

pub(super) fn is_quiet() -> bool {
    LEVEL.load(Ordering::Relaxed) < 0
}

/// Whether `--verbose` was given.
pub fn is_verbose() -> bool {
    LEVEL.load(Ordering::Relaxed) > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_decides_about_colour_as_elsewhere() {
        for (set, terminal, wanted) in [
            (&[][..], true, true),
            (&[], false, false),
            (&[("NO_COLOR", "1")], true, false),
            (&[("NO_COLOR", "")], true, true),
            (&[("CLICOLOR", "0")], true, false),
            (&[("TERM", "dumb")], true, false),
            (&[("CLICOLOR_FORCE", "1")], false, true),
            (&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], true, false),
        ] {
            let variable = |name: &str| {
                let found = set.iter().find(|(known, _)| *known == name);
                found.map_or_else(String::new, |(_, value)| (*value).to_owned())
            };
            assert_eq!(wants(terminal, variable), wanted, "{set:?} {terminal}");
        }
    }
}
