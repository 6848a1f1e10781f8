//! Settings that were not typed: from the environment, then from the project file.
//!
//! What comes in: the command line as typed. What goes out: the same command line with the options that
//! the environment or the project file gives, so that every command takes them as if they were typed; and
//! a record of what came from where. What was typed always wins; what contradicts it is left out. A
//! project file is read only for a command that takes one of its settings, and used only when its user
//! agreed to it or named it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory as _};

use super::Cli;
use super::failure::{self, Failure};
use crate::project::find::{self, FindError, ProjectFile};
use crate::project::trust::Records;
use crate::project::{FILE, Project, Setting};
use outhaul_control::diagnostic::Diagnostics;
use outhaul_git::source::normal_url;
use outhaul_kit::failure::{Classified as _, FailureClass};
use outhaul_registry::RegistryHosts;

mod values;

/// The variable that names a project file, or `none`.
pub(super) const VARIABLE: &str = "OUTHAUL_PROJECT";
/// What `cache` is in the environment; a project file has no such setting.
const CACHE: &str = "OUTHAUL_CACHE";

/// What surrounds the program.
pub(super) struct SettingsContext<'a> {
    /// The working folder.
    pub cwd: &'a Path,
    /// The home folder.
    pub home: Option<PathBuf>,
    /// The user.
    pub user: u32,
    /// A variable of the environment, when it is set and not empty.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Which project files were agreed to.
    pub records: Option<Records>,
}

/// A project file that was found, and what it says.
#[derive(Debug)]
pub(super) struct Located {
    pub found: ProjectFile,
    pub project: Project,
    /// Whether it was named, or agreed to.
    pub trusted: bool,
}

/// The arguments of this process, completed.
///
/// # Errors
/// [`Failure`] for a project file that cannot be used.
pub fn complete(args: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    let (args, lines) = with_surroundings(|around| completed(&args, around))?;
    failure::note_settings(lines);
    Ok(args)
}

/// Hands over what surrounds this process.
pub(super) fn with_surroundings<T>(
    then: impl FnOnce(&SettingsContext<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let cwd = std::env::current_dir().map_err(|error| {
        let message = format!("the working folder cannot be read: {error}");
        Failure::say(failure::ENVIRONMENT, message).help("change to a folder that exists")
    })?;
    let home = std::env::var_os("HOME").and_then(|home| std::fs::canonicalize(home).ok());
    then(&SettingsContext {
        cwd: &cwd,
        home,
        user: rustix::process::geteuid().as_raw(),
        variable: &|name| std::env::var(name).ok().filter(|text| !text.is_empty()),
        records: Records::of_user(),
    })
}

/// The project file that applies, when there is one.
///
/// # Errors
/// [`Failure`] for one that is there and cannot be read, or is wrong.
pub(super) fn locate(around: &SettingsContext<'_>) -> Result<Option<Located>, Failure> {
    let named = (around.variable)(VARIABLE);
    if named.as_deref() == Some("none") {
        return Ok(None);
    }
    let found = match &named {
        Some(path) => {
            let path = Path::new(path);
            let folder = path.parent().unwrap_or(Path::new("")).to_owned();
            find::read(path, folder, around.user).map(Some)
        }
        None => find::find(around.cwd, around.home.as_deref(), around.user),
    };
    let Some(found) = found.map_err(find_failure)? else {
        return Ok(None);
    };
    let project =
        Project::parse(&found.text, &shown(&found, around.cwd), &found.folder).map_err(wrong)?;
    let agreed = around
        .records
        .as_ref()
        .is_some_and(|records| records.has(&found.path, &found.text));
    Ok(Some(Located {
        trusted: named.is_some() || agreed,
        found,
        project,
    }))
}

/// Its path as people know it.
pub(super) fn shown(found: &ProjectFile, cwd: &Path) -> String {
    match found.path.strip_prefix(cwd) {
        Ok(path) => path.display().to_string(),
        Err(_) => found.path.display().to_string(),
    }
}

fn wrong(findings: Diagnostics) -> Failure {
    Failure::findings(&findings).help(format!(
        "nothing was done; `{VARIABLE}=none` leaves the project file out"
    ))
}

fn find_failure(error: FindError) -> Failure {
    let failure = Failure::of(&error);
    match error.class() {
        FailureClass::Trust => failure,
        _ => failure.help(format!(
            "nothing was done; `{VARIABLE}=none` leaves the project file out"
        )),
    }
}

/// Which level a value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Typed,
    Environment,
    File,
}

/// The command line with what was not typed, and where that is from.
pub(super) fn completed(
    args: &[OsString],
    around: &SettingsContext<'_>,
) -> Result<(Vec<OsString>, Vec<String>), Failure> {
    let nothing = || Ok((args.to_vec(), Vec::new()));
    let mut command = Cli::command().ignore_errors(true);
    // Help and version need no settings; what is wrong is said by who parses in earnest.
    let Ok(matches) = command.try_get_matches_from_mut(args) else {
        return nothing();
    };
    let (leaf, matches) = leaf(&command, &matches);
    let taken: Vec<_> = Setting::ALL
        .into_iter()
        .filter(|setting| takes(leaf, matches, *setting))
        .collect();
    if taken.is_empty() {
        return nothing();
    }
    let located = locate(around)?;
    let mut filler = Filler {
        leaf,
        matches,
        levels: Vec::new(),
        added: Vec::new(),
        lines: Vec::new(),
    };
    filler.cache(around);
    let mut from_file = Vec::new();
    for setting in taken {
        filler.environment(setting, around)?;
        if let Some(located) = &located
            && filler.file(setting, &located.project)
        {
            from_file.push(setting);
        }
    }
    if let Some(located) = &located
        && !from_file.is_empty()
    {
        if !located.trusted {
            return Err(untrusted(located, &from_file, around.cwd));
        }
        filler.refuse_bad_values(&located.project, &from_file, around.cwd)?;
        let path = shown(&located.found, around.cwd);
        let keys: Vec<_> = from_file
            .iter()
            .map(|setting| {
                let line = located.project.values.get(setting);
                let line = line.map_or(0, |value| value.place.line());
                format!("{} (line {line})", setting.key())
            })
            .collect();
        filler
            .lines
            .push(format!("from `{path}`: {}", keys.join(", ")));
    }
    let Filler { added, lines, .. } = filler;
    let mut all = args.to_vec();
    let end = all.iter().position(|arg| arg == "--").unwrap_or(all.len());
    all.splice(end..end, added);
    Ok((all, lines))
}

/// What of a file that nobody agreed to would have been used, and the ways out.
fn untrusted(located: &Located, from_file: &[Setting], cwd: &Path) -> Failure {
    let path = shown(&located.found, cwd);
    let message = format!(
        "the project file `{path}` is not trusted in its current form, and this command would read settings from it"
    );
    let mut failure = Failure::say(failure::TRUST, message);
    for setting in from_file {
        if let Some(value) = located.project.values.get(setting) {
            let texts = value.texts.join(", ");
            failure = failure.because(&format!("{}: {} = {texts}", value.place, setting.key()));
        }
    }
    failure
        .help("it decides what is rendered and signed, with whose keys, and which hub is asked: if it is yours, `outhaul project trust`")
        .help(format!(
            "if not, `{VARIABLE}=none` leaves it out; nothing was done"
        ))
}

/// The command that was typed, with what it was given.
fn leaf<'a>(
    mut command: &'a Command,
    mut matches: &'a ArgMatches,
) -> (&'a Command, &'a ArgMatches) {
    while let Some((name, below)) = matches.subcommand()
        && let Some(found) = command.find_subcommand(name)
    {
        (command, matches) = (found, below);
    }
    (command, matches)
}

/// The command's argument for a setting.
fn argument(leaf: &Command, setting: Setting) -> Option<&clap::Arg> {
    let id = match (setting, leaf.get_name()) {
        (Setting::Rendered, "render") | (Setting::Bundles, "bundle") => "out",
        (Setting::Rendered | Setting::Bundles, _) => return None,
        (setting, _) => setting.key(),
    };
    leaf.get_arguments().find(|arg| arg.get_id() == id)
}

/// Whether the command, as it was typed, has a use for a setting.
fn takes(leaf: &Command, matches: &ArgMatches, setting: Setting) -> bool {
    if argument(leaf, setting).is_none() {
        return false;
    }
    let of_plane = matches!(
        setting,
        Setting::ControlPlane
            | Setting::ControlPlaneBranch
            | Setting::Sources
            | Setting::AllowHosts
    );
    let of_registries = matches!(setting, Setting::RegistryMirrors | Setting::RegistryCas);
    match leaf.get_name() {
        // Without the question no hub is asked, and one that cannot be used is no reason to refuse the copy.
        "copy" if matches!(setting, Setting::Hub | Setting::HubCa) => typed(matches, "ask_hub"),
        "verify" => !(of_plane || of_registries) || typed(matches, "snapshot"),
        // Two folders are compared as they are.
        "diff" if of_plane => {
            let sides = ["before", "after"].map(|id| matches.try_get_one::<String>(id));
            let sides: Vec<_> = sides.into_iter().flatten().flatten().collect();
            sides.is_empty() || !sides.iter().all(|side| Path::new(side).is_dir())
        }
        _ => true,
    }
}

fn typed(matches: &ArgMatches, id: &str) -> bool {
    matches.try_contains_id(id).unwrap_or(false)
        && matches.value_source(id) == Some(ValueSource::CommandLine)
}

struct Filler<'a> {
    leaf: &'a Command,
    matches: &'a ArgMatches,
    levels: Vec<(Setting, Level)>,
    added: Vec<OsString>,
    lines: Vec<String>,
}

impl Filler<'_> {
    /// The level that a setting has its value from; `None` while it has none.
    fn level(&self, setting: Setting) -> Option<Level> {
        let arg = argument(self.leaf, setting)?;
        if typed(self.matches, arg.get_id().as_str()) {
            return Some(Level::Typed);
        }
        let found = self.levels.iter().find(|(one, _)| *one == setting);
        found.map(|(_, level)| *level)
    }

    /// Whether a value of `level` fits what there is.
    fn is_open(&self, setting: Setting, level: Level) -> bool {
        let Some(arg) = argument(self.leaf, setting) else {
            return false;
        };
        if !setting.is_list() && self.level(setting).is_some() {
            return false;
        }
        // What belongs to another control plane or hub than the one that is used does not fit it.
        if let Some(whole) = setting.part_of()
            && argument(self.leaf, whole).is_some()
            && self.level(whole).is_none_or(|found| found < level)
        {
            return false;
        }
        let excludes = |one: &clap::Arg, other: &clap::Arg| {
            let conflicts = self.leaf.get_arg_conflicts_with(one);
            conflicts
                .iter()
                .any(|found| found.get_id() == other.get_id())
        };
        !self.leaf.get_arguments().any(|other| {
            typed(self.matches, other.get_id().as_str())
                && (excludes(arg, other) || excludes(other, arg))
        })
    }

    fn environment(
        &mut self,
        setting: Setting,
        around: &SettingsContext<'_>,
    ) -> Result<(), Failure> {
        let name = setting.variable();
        let Some(text) = (around.variable)(&name) else {
            return Ok(());
        };
        let texts: Vec<String> = match setting {
            setting if setting.is_list() => text.split_whitespace().map(str::to_owned).collect(),
            _ => vec![text],
        };
        if self.fill(setting, Level::Environment, &texts) {
            self.refuse_bad_variable(setting, &name, (&texts, around.cwd))?;
            self.lines.push(format!("from the environment: {name}"));
        }
        Ok(())
    }

    fn file(&mut self, setting: Setting, project: &Project) -> bool {
        let Some(value) = project.values.get(&setting) else {
            return false;
        };
        self.fill(setting, Level::File, &value.texts)
    }

    fn cache(&mut self, around: &SettingsContext<'_>) {
        if let Some(path) = (around.variable)(CACHE)
            && self.leaf.get_arguments().any(|arg| arg.get_id() == "cache")
            && !typed(self.matches, "cache")
        {
            self.added.push(option("cache", &path));
            self.lines.push(format!("from the environment: {CACHE}"));
        }
    }

    /// Adds the values that nothing before them overrules; whether there are any.
    fn fill(&mut self, setting: Setting, level: Level, texts: &[String]) -> bool {
        if !self.is_open(setting, level) {
            return false;
        }
        let Some(long) = argument(self.leaf, setting).and_then(clap::Arg::get_long) else {
            return false;
        };
        let known = match setting {
            Setting::Sources => self.sources(long),
            _ => BTreeSet::new(),
        };
        // A host has one authority: that of the first level that names one.
        let hosts: BTreeSet<String> = match setting {
            Setting::RegistryCas => self
                .before("registry_cas", long)
                .iter()
                .map(|text| host_of(text))
                .collect(),
            _ => BTreeSet::new(),
        };
        let before = self.added.len();
        for text in texts {
            if setting == Setting::Sources && is_known(&known, text) {
                continue;
            }
            if hosts.contains(&host_of(text)) {
                continue;
            }
            self.added.push(option(long, text));
        }
        self.levels.push((setting, level));
        self.added.len() > before
    }

    /// The sources that there are: URL, and branch when it is one branch's.
    fn sources(&self, long: &str) -> BTreeSet<(String, Option<String>)> {
        let before = self.before("sources", long);
        before.iter().filter_map(|text| source(text)).collect()
    }

    /// The values of an option that there are: those that were typed, then those that were added.
    fn before(&self, id: &str, long: &str) -> Vec<String> {
        let prefix = format!("--{long}=");
        let typed = self.matches.try_get_many::<String>(id);
        let typed = typed.ok().flatten().into_iter().flatten().cloned();
        let added = self.added.iter().filter_map(|arg| arg.to_str());
        let added = added.filter_map(|arg| arg.strip_prefix(&prefix).map(str::to_owned));
        typed.chain(added).collect()
    }
}

fn option(long: &str, value: &str) -> OsString {
    OsString::from(format!("--{long}={value}"))
}

/// The host of `HOST=FILE`, under one of its names.
fn host_of(text: &str) -> String {
    let host = text.split('=').next().unwrap_or_default();
    RegistryHosts::host_of(host).unwrap_or_else(|| host.to_owned())
}

fn source(text: &str) -> Option<(String, Option<String>)> {
    let (url, _) = text.rsplit_once('=')?;
    Some(match url.rsplit_once('#') {
        Some((url, branch)) => (normal_url(url), Some(branch.to_owned())),
        None => (normal_url(url), None),
    })
}

fn is_known(known: &BTreeSet<(String, Option<String>)>, text: &str) -> bool {
    source(text).is_some_and(|(url, branch)| {
        known.contains(&(url.clone(), None)) || known.contains(&(url, branch))
    })
}

/// What to add to a message about a missing option.
pub fn missing(text: &str) -> Option<String> {
    let settings = Setting::ALL.into_iter();
    let named =
        settings.filter(|one| text.contains(&format!("--{} <", one.key().replace('_', "-"))));
    let keys: Vec<_> = named.map(|one| format!("`{}`", one.key())).collect();
    (!keys.is_empty()).then(|| {
        format!(
            "help: {} can also be set in an `{FILE}` in this folder or a parent folder (`outhaul project`), or in the environment",
            keys.join(" and ")
        )
    })
}

/// The arguments of a command line.
#[cfg(test)]
pub(super) fn words(text: &str) -> Vec<OsString> {
    text.split(' ').map(OsString::from).collect()
}

#[cfg(test)]
mod tests;
