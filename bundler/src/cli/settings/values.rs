//! The values of settings, checked before the command line is parsed: what a project file or a variable says has its place there.
//!
//! What comes in: the values that were added to a command line. What goes out: a refusal with the line of the project file or the name of
//! the variable, where a value or the file that it names cannot be used for its setting. What was typed is refused by who parses it.

use std::path::Path;

use outhaul_control::diagnostic::{Diagnostic, Diagnostics};
use outhaul_git::source::SourceMap;
use outhaul_registry::RegistryHosts;

use super::{Filler, argument, option, wrong};
use crate::cli::failure::{self, Failure};
use crate::cli::registries;
use crate::project::{Project, Setting};

impl Filler<'_> {
    /// Refuses a value of the project file that is to be used and cannot be: the option that it becomes has no place.
    pub(super) fn refuse_bad_values(
        &self,
        project: &Project,
        from_file: &[Setting],
        cwd: &Path,
    ) -> Result<(), Failure> {
        let mut findings = Diagnostics::new();
        for setting in from_file {
            let Some(value) = project.values.get(setting) else {
                continue;
            };
            let texts = value.texts.iter().enumerate();
            for (at, text) in texts.filter(|(_, text)| self.takes(*setting, text)) {
                if let Err(problem) = usable(*setting, text, cwd) {
                    let message = format!("`{}`: {problem}", setting.key());
                    let place = value.places.get(at).unwrap_or(&value.place);
                    findings.push(Diagnostic::error("project-value", message).at(place));
                }
            }
        }
        match findings.has_errors() {
            false => Ok(()),
            true => Err(wrong(findings)),
        }
    }

    /// Whether this value was added to the command line, and not overruled.
    fn takes(&self, setting: Setting, text: &str) -> bool {
        let long = argument(self.leaf, setting).and_then(clap::Arg::get_long);
        long.is_some_and(|long| self.added.contains(&option(long, text)))
    }

    /// Refuses a value of the variable `name` that is to be used and cannot be.
    pub(super) fn refuse_bad_variable(
        &self,
        setting: Setting,
        name: &str,
        (texts, cwd): (&[String], &Path),
    ) -> Result<(), Failure> {
        let used = texts.iter().filter(|text| self.takes(setting, text));
        let problems = used.map(|text| usable(setting, text, cwd));
        match problems.into_iter().find_map(Result::err) {
            None => Ok(()),
            Some(problem) => Err(Failure::say(
                failure::USAGE,
                format!("the variable {name}: {problem}"),
            )
            .help(format!("correct or unset {name}"))),
        }
    }
}

/// Whether this value, seen from `cwd`, can be used for its setting: what an option would refuse, before it becomes one.
fn usable(setting: Setting, text: &str, cwd: &Path) -> Result<(), String> {
    match setting {
        Setting::RegistryCas => {
            let read = match text.split_once('=') {
                // Of a host alone the form is wrong.
                Some((host, file)) if !file.is_empty() => {
                    format!("{host}={}", cwd.join(file).display())
                }
                _ => text.to_owned(),
            };
            registries::host_authority(&read).map(drop)
        }
        Setting::RegistryMirrors => {
            let read = RegistryHosts::read(&[text.to_owned()], &[]);
            read.map(drop).map_err(|error| error.to_string())
        }
        Setting::HubCa => registries::authority(&cwd.join(text)),
        Setting::Hub => outhaul_remote::hub_url(text).map(drop),
        Setting::AllowHosts => {
            let read = SourceMap::default().allow_hosts(&[text]);
            read.map_err(|error| error.to_string())
        }
        Setting::Sources => {
            let read = match text.rsplit_once('=') {
                Some((url, folder)) if !folder.is_empty() && !folder.contains("://") => {
                    format!("{url}={}", cwd.join(folder).display())
                }
                _ => text.to_owned(),
            };
            let read = SourceMap::parse(&[read]);
            read.map(drop).map_err(|error| error.to_string())
        }
        // Whether these are there is found by who opens them: some are made.
        Setting::ControlPlane
        | Setting::ControlPlaneBranch
        | Setting::Fleet
        | Setting::Rendered
        | Setting::Bundles => Ok(()),
    }
}
