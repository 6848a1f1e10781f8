//! `cargo xtask`: the repository's own checks and measurements, one file per subcommand.
//!
//! What comes in: the repository as it lies on disk. What goes out: findings or figures on stdout, talk
//! on stderr; exit code 0 when all is well, 1 with findings, 3 when something could not be run.

mod bench;
mod check;
mod circles;
mod deb;
mod demo;
mod left_alone;
mod man;
mod repository;
mod sentences;
mod size;
mod timings;
mod units;

use std::process::ExitCode;

use clap::Parser;

/// Outhaul's own checks and measurements.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask", after_help = "Example: cargo xtask check")]
enum Command {
    Check(check::Args),
    Circles(circles::Args),
    Deb(deb::Args),
    Demo(demo::Args),
    LeftAlone(left_alone::Args),
    Man(man::Args),
    Size(size::Args),
    Timings(timings::Args),
    Units(units::Args),
    Bench(bench::Args),
}

fn main() -> ExitCode {
    let outcome = match Command::parse() {
        Command::Check(args) => args.run(),
        Command::Circles(args) => args.run(),
        Command::Deb(args) => args.run(),
        Command::Demo(args) => args.run(),
        Command::LeftAlone(args) => args.run(),
        Command::Man(args) => args.run(),
        Command::Size(args) => args.run(),
        Command::Timings(args) => args.run(),
        Command::Units(args) => args.run(),
        Command::Bench(args) => args.run(),
    };
    match outcome {
        Ok(findings) if findings.is_empty() => ExitCode::SUCCESS,
        Ok(findings) => {
            for finding in &findings {
                println!("{finding}");
            }
            eprintln!("{} findings", findings.len());
            ExitCode::from(1)
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(3)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    /// Cargo runs this package's tests last: by now every other test has passed or been skipped.
    #[test]
    fn what_was_skipped_is_summed_up() {
        if let Some(summary) = outhaul_tests::summary() {
            let _ = std::io::stderr().lock().write_all(summary.as_bytes());
        }
    }
}
