//! Scaffold: a control plane to start from, and single objects to add to one.
//!
//! What comes in: names and choices. What goes out: a git repository with `main` and one branch per
//! environment that passes `outhaul check` and renders at once; or one more file in a working copy. It
//! writes only what is not there, never overwrites, and everything it writes is for people to change.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use outhaul_control::diagnostic::Diagnostics;
use outhaul_git::address::{Address, AddressError};
use outhaul_git::program::ProgramError;
use outhaul_git::source::SourceError;
use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_kit::suggest::did_you_mean;
use outhaul_kit::url_secrets::without_secrets;
use outhaul_kit::{interrupt, working_folder};
use outhaul_place::PlaceRefused;
use outhaul_plane::builtin;

pub mod add;
mod git;
mod here;
pub mod object;
mod sample;

/// Files of one branch: path and text.
pub type Files = BTreeMap<String, String>;

/// What to write.
#[derive(Debug, Clone)]
pub struct ScaffoldPlan {
    /// The address that the control plane will have, for the objects that name it.
    pub url: String,
    /// The environments, first to last.
    pub environments: Vec<String>,
    /// Names of reconciler templates, one cluster type for each.
    pub reconcilers: Vec<String>,
}

/// What was written.
#[derive(Debug, Clone)]
pub struct ScaffoldedPlane {
    /// Whether it is a git repository; otherwise one folder per branch.
    pub git: bool,
    /// Every branch with its commit (empty without git) and its files, `main` first.
    pub branches: Vec<(String, String, Vec<String>)>,
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScaffoldError {
    /// Something is there already.
    #[error("`{}` is not empty\nhelp: name a folder that does not exist; nothing was written", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// A file is in the way.
    #[error("`{}` is there already\nhelp: choose another name, or change that file; nothing was written", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// An object of this kind and name is there.
    #[error(
        "there is an object of kind {kind} called `{name}` already, in `{place}`\nhelp: choose another name, or change that one; nothing was written"
    )]
    Taken {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// File and line.
        place: String,
    },
    /// A name that Kubernetes and files do not take.
    #[error(
        "`{name}` cannot be the name of {what}\nhelp: use lower-case letters, digits and `-`, at most 40, first and last a letter or digit"
    )]
    Name {
        /// What it was to name.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A list that names one thing twice, or nothing.
    #[error("{problem}\nhelp: {help}")]
    Choice {
        /// What is wrong.
        problem: String,
        /// A way out.
        help: String,
    },
    /// The object belongs on another branch.
    #[error("{} {kind} belongs on {belongs}, and `{}` is {here}\nhelp: {help}; nothing was written", article(kind), path.display())]
    WrongBranch {
        /// The kind.
        kind: &'static str,
        /// Where it belongs.
        belongs: &'static str,
        /// The working copy.
        path: PathBuf,
        /// What it is.
        here: &'static str,
        /// What to type.
        help: String,
    },
    /// The working copy has findings, or the new object has.
    #[error("what is there cannot be read")]
    Findings(Diagnostics),
    /// It is a folder of someone else.
    #[error(transparent)]
    Place(#[from] PlaceRefused),
    /// The working copy cannot be read.
    #[error("the working copy cannot be read")]
    Source(#[from] SourceError),
    /// A file cannot be written.
    #[error("cannot {doing} `{}`", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Git failed.
    #[error(transparent)]
    Git(#[from] ProgramError),
    /// Git failed while a new control plane was made.
    #[error(
        "the control plane cannot be made in `{}`\nhelp: see that there is room on that disk (`df -h`) and that you may write there, and run it again", path.display()
    )]
    Made {
        /// The folder that it was to be in.
        path: PathBuf,
        /// What git said.
        source: ProgramError,
    },
}

fn article(word: &str) -> &'static str {
    match word.starts_with(['a', 'e', 'i', 'o', 'u']) {
        true => "an",
        false => "a",
    }
}

impl Classified for ScaffoldError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Io { .. } | Self::Git(_) | Self::Made { .. } => FailureClass::Environment,
            Self::Source(error) => error.class(),
            Self::Place(error) => error.class(),
            _ => FailureClass::Usage,
        }
    }
}

/// Writes a control plane into `folder`, which must be empty or not there.
///
/// # Errors
/// [`ScaffoldError`]; a folder that was not empty is as it was.
pub fn control_plane(folder: &Path, plan: &ScaffoldPlan) -> Result<ScaffoldedPlane, ScaffoldError> {
    check(plan)?;
    let is_there = folder.is_dir();
    let beside = match folder.parent() {
        _ if is_there => folder,
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    working_folder::remove_left(beside, BEGUN);
    let mut entries = match fs::read_dir(folder) {
        Ok(entries) => Some(entries),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(source) => return Err(io("list", folder)(source)),
    };
    if entries
        .as_mut()
        .is_some_and(|entries| entries.next().is_some())
    {
        let path = folder.to_owned();
        return Err(ScaffoldError::NotEmpty { path });
    }
    fs::create_dir_all(beside).map_err(io("create", beside))?;
    // What fails or is killed in the middle leaves no half control plane, which the next try would refuse.
    let new = || {
        let mut name = tempfile::Builder::new();
        name.prefix(BEGUN).tempdir_in(beside)
    };
    let (begun, _temporary) =
        interrupt::make(new, tempfile::TempDir::path).map_err(io("create", folder))?;
    let _in_use = working_folder::in_use(begun.path()).map_err(io("write", begun.path()))?;
    let whole = begun.path().join("control-plane");
    fs::create_dir(&whole).map_err(io("create", &whole))?;
    let written = write_plane(&whole, plan).map_err(|error| match error {
        ScaffoldError::Git(source) => ScaffoldError::Made {
            path: folder.to_owned(),
            source,
        },
        error => error,
    })?;
    match is_there {
        false => fs::rename(&whole, folder).map_err(io("create", folder))?,
        true => {
            for entry in fs::read_dir(&whole).map_err(io("list", &whole))? {
                let entry = entry.map_err(io("list", &whole))?;
                let to = folder.join(entry.file_name());
                fs::rename(entry.path(), &to).map_err(io("write", &to))?;
            }
        }
    }
    Ok(written)
}

/// Begins the name of the folder in which a control plane is made before it takes its place.
const BEGUN: &str = ".outhaul-init-";

fn write_plane(folder: &Path, plan: &ScaffoldPlan) -> Result<ScaffoldedPlane, ScaffoldError> {
    let main = sample::main(plan);
    let mut branches = Vec::new();
    let listed = |files: &Files| files.keys().cloned().collect::<Vec<_>>();
    if !git::is_there() {
        write_all(&folder.join("main"), &main)?;
        branches.push(("main".to_owned(), String::new(), listed(&main)));
        for (branch, files) in sample::branches(plan, None) {
            write_all(&folder.join(&branch), &files)?;
            branches.push((branch, String::new(), listed(&files)));
        }
        return Ok(ScaffoldedPlane {
            git: false,
            branches,
        });
    }
    let repository = git::init(folder)?;
    let first = repository.branch("main", "A control plane to start from", &main)?;
    branches.push(("main".to_owned(), first.clone(), listed(&main)));
    for (branch, files) in sample::branches(plan, Some(&first)) {
        let message = format!("Initial `{branch}` configuration");
        let commit = repository.branch(&branch, &message, &files)?;
        branches.push((branch, commit, listed(&files)));
    }
    repository.check_out("main")?;
    Ok(ScaffoldedPlane {
        git: true,
        branches,
    })
}

fn check(plan: &ScaffoldPlan) -> Result<(), ScaffoldError> {
    for (what, names) in [
        ("an environment", &plan.environments),
        ("a reconciler", &plan.reconcilers),
    ] {
        if names.is_empty() {
            return Err(ScaffoldError::Choice {
                problem: format!("{what} is needed"),
                help: "name at least one".to_owned(),
            });
        }
        for (at, name) in names.iter().enumerate() {
            sound_name(what, name)?;
            if names.iter().take(at).any(|other| other == name) {
                return Err(ScaffoldError::Choice {
                    problem: format!("`{name}` is named twice"),
                    help: "name each once".to_owned(),
                });
            }
        }
    }
    if let Some(name) = plan
        .environments
        .iter()
        .find(|name| matches!(name.as_str(), "main" | sample::APPLICATION))
    {
        return Err(ScaffoldError::Choice {
            problem: format!("no environment can be called `{name}`, which is another branch"),
            help: "call it for example `dev`".to_owned(),
        });
    }
    for name in &plan.reconcilers {
        let known: Vec<&str> = reconcilers().collect();
        if !known.contains(&name.as_str()) {
            return Err(ScaffoldError::Choice {
                problem: format!("there is no reconciler template `{name}`"),
                help: did_you_mean(name, &known),
            });
        }
    }
    address(&plan.url)
}

/// Names of the reconciler templates that come with Outhaul.
pub fn reconcilers() -> impl Iterator<Item = &'static str> {
    let of_reconcilers =
        |b: &&builtin::Builtin| b.kind == outhaul_control::model::TemplateType::Reconciler;
    builtin::ALL.iter().filter(of_reconcilers).map(|b| b.name)
}

/// Whether `name` can be a part of a namespace's name, of a branch's and of a file's.
///
/// # Errors
/// [`ScaffoldError::Name`]
pub fn sound_name(what: &'static str, name: &str) -> Result<(), ScaffoldError> {
    let bytes = name.as_bytes();
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
    let sound =
        bytes.len() <= 40 && edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(inner);
    sound.then_some(()).ok_or_else(|| ScaffoldError::Name {
        what,
        name: name.to_owned(),
    })
}

/// Whether `url` can stand in an object as it is.
///
/// # Errors
/// [`ScaffoldError::Choice`]
pub fn address(url: &str) -> Result<(), ScaffoldError> {
    let refused = |problem: String| {
        Err(ScaffoldError::Choice {
            problem,
            help: "write for example https://git.example.org/team/app".to_owned(),
        })
    };
    // What is behind them may hold a token.
    if let Some(end) = url.find(['?', '#', '"']) {
        let shown = without_secrets(&url[..end]);
        return refused(format!(
            "`{shown}…` is not the address of a repository: it continues with `{}`",
            &url[end..=end]
        ));
    }
    match Address::parse(url) {
        // A folder of this machine: whoever renders names a copy of it with `--source`.
        Ok(_) | Err(AddressError::Local { .. }) => Ok(()),
        Err(error) => refused(error.to_string()),
    }
}

fn write_all(folder: &Path, files: &Files) -> Result<(), ScaffoldError> {
    for (path, text) in files {
        write_new(&folder.join(path), text)?;
    }
    Ok(())
}

/// Writes a file that is not there yet.
fn write_new(path: &Path, text: &str) -> Result<(), ScaffoldError> {
    use std::io::Write as _;
    let parent = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(io("create", parent))?;
    let mut file = match fs::File::create_new(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let path = path.to_owned();
            return Err(ScaffoldError::Exists { path });
        }
        Err(source) => return Err(io("create", path)(source)),
    };
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(io("write", path))
}

fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> ScaffoldError + use<> {
    let path = path.to_owned();
    move |source| ScaffoldError::Io {
        doing,
        path,
        source,
    }
}

#[cfg(test)]
mod tests;
