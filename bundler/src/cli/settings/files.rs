//! The files that settings name, read before the command is: what a project file or a variable names has its place there.
//!
//! What comes in: the values that were added to a command line. What goes out: a refusal with the line of the project file or the name of
//! the variable, where a file cannot be used for its setting. What was typed is refused by who parses it.

use std::path::Path;

use outhaul_control::diagnostic::{Diagnostic, Diagnostics};

use super::{Filler, argument, option, wrong};
use crate::cli::failure::{self, Failure};
use crate::cli::registries;
use crate::project::{Project, Setting};

impl Filler<'_> {
    /// Refuses a value of the project file that is to be used and names a file that cannot be: the option that it becomes has no place.
    pub(super) fn refuse_bad_files(
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
                if let Err(problem) = named_file(*setting, text, cwd) {
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

    /// Refuses a value of the variable `name` that is to be used and names a file that cannot be.
    pub(super) fn refuse_bad_variable(
        &self,
        setting: Setting,
        name: &str,
        (texts, cwd): (&[String], &Path),
    ) -> Result<(), Failure> {
        let used = texts.iter().filter(|text| self.takes(setting, text));
        let problems = used.map(|text| named_file(setting, text, cwd));
        match problems.into_iter().find_map(Result::err) {
            None => Ok(()),
            Some(problem) => Err(Failure::say(
                failure::USAGE,
                format!("the variable {name}: {problem}"),
            )),
        }
    }
}

/// Whether the file that a setting names by this value, seen from `cwd`, can be used for it.
fn named_file(setting: Setting, text: &str, cwd: &Path) -> Result<(), String> {
    let file = match setting {
        Setting::RegistryCas => text.split_once('=').map(|(_, file)| file),
        Setting::HubCa => Some(text),
        _ => None,
    };
    // What has no file is refused as the option that it becomes.
    file.map_or(Ok(()), |file| registries::authority(&cwd.join(file)))
}
