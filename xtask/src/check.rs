//! `cargo xtask check`: the rules that no compiler holds for us. All findings at once.
//!
//! `left-alone`: each sentence that something was left alone has a test. `files`: lengths, headers, names, paths of someone's machine, snapshots that nobody reviewed.
//! `sizes`: lines of a crate.
//! `declared`: each Rust file belongs to a module. `crates`: what may reach what. `purity`: what plans and decides touches no clock, file or network. `manifests`: every member inherits versions and lints. `members`: each has a
//! README and a line in `ARCHITECTURE.md`, whose paths exist, and uses its dependencies. `features`: tests and
//! programs are built with the same ones. `once`: shared bounds, hashing streams, the start of git and the rows of the site's machine stand in one place, and no module is in another crate. `names`: so do names of formats. Modules that import
//! each other, and the units of `systemd/`, where systemd is there to ask.

mod crates;
mod declared;
mod features;
mod files;
mod manifests;
mod members;
mod names;
mod once;
mod purity;
mod sizes;

use anyhow::Result;

/// Checks the rules of the repository that the compiler does not.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: cargo xtask check")]
pub struct Args {}

impl Args {
    #[expect(clippy::unused_self, reason = "called as every subcommand is")]
    /// Runs all checks and returns the findings.
    pub fn run(&self) -> Result<Vec<String>> {
        let mut findings = files::findings()?;
        findings.extend(crates::findings()?);
        findings.extend(declared::findings()?);
        findings.extend(manifests::findings()?);
        findings.extend(members::findings()?);
        findings.extend(features::findings()?);
        findings.extend(names::findings()?);
        findings.extend(once::findings()?);
        findings.extend(purity::findings()?);
        findings.extend(sizes::findings()?);
        findings.extend(crate::circles::findings()?);
        findings.extend(crate::left_alone::findings()?);
        findings.extend(crate::units::findings()?);
        if findings.is_empty() {
            eprintln!(
                "files, crates, manifests, pure files, modules and units are as they should be"
            );
        }
        Ok(findings)
    }
}
