//! The package of an assignment: its definition among the rendered files, or a package in its payload.
//!
//! What comes in: an assignment's files, all of them verified. What goes out: the package's name, and a package file. One that is made
//! here says in its annotations for which assignment it was made, and of what. Sealed values are opened in memory only, and such a
//! package lies there, too.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use outhaul_bundle::report::AssignmentResult;
use outhaul_bundle::zarf::{DEFINITION, is_package_file, is_package_name};
use outhaul_kit::durable::{self, at};
use outhaul_kit::heartbeat::Heartbeat;
use outhaul_kubernetes::yaml;
use serde_json::Value;
use zeroize::Zeroizing;

use super::deployed::CONTENT;
use super::program::Zarf;
use crate::assignment::Desired;
use crate::context::ReconcilerContext;
use crate::kubernetes::ownership::{ANNOTATION, Owner, SITE_ANNOTATION};
use crate::outcome::Stop;
use crate::sealed::{OpenedFolder, copy_opened, struck_out};

/// Largest definition in bytes.
const MAX_DEFINITION_BYTES: u64 = 1024 * 1024;

/// Where a package comes from.
#[derive(Debug)]
pub struct PackageSource {
    /// Its name.
    pub name: String,
    /// Its definition, in which sealed values are sealed.
    pub definition: Value,
    from: Form,
}

#[derive(Debug)]
enum Form {
    /// It is made of this definition, which is the rendered file of that path.
    Definition(PathBuf),
    /// It came as this file.
    Package(PathBuf),
}

/// A package file, and what must not be shown of it. What it was made in goes with this value.
#[derive(Debug)]
pub struct MadePackage {
    /// The file.
    pub path: PathBuf,
    /// Values that were opened for it.
    pub values: Vec<Zeroizing<String>>,
    folder: Option<PathBuf>,
    opened: Option<OpenedFolder>,
}

impl MadePackage {
    /// The folder in memory that it was made in, where it has opened values.
    pub fn in_memory(&self) -> Option<&Path> {
        self.opened.as_ref().map(|opened| opened.scratch.path())
    }
}

impl Drop for MadePackage {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder
            && let Err(error) = durable::remove_tree(folder)
        {
            tracing::warn!("what a package was made in stays: {error}");
        }
    }
}

impl PackageSource {
    /// Looks for the one package of an assignment.
    pub fn of(desired: &Desired, program: &Zarf, heartbeat: &Heartbeat) -> Result<Self, Stop> {
        let mut found = Vec::new();
        for file in &desired.assignment.files {
            let shown = file.path.as_str();
            let path = desired.rendered.join(shown);
            if !is_yaml(shown) {
                continue;
            }
            let bytes = durable::read(&path, MAX_DEFINITION_BYTES)?;
            let text = String::from_utf8_lossy(&bytes);
            if !text.contains(DEFINITION) {
                continue;
            }
            for definition in definitions(&text, shown).map_err(Stop::failed)? {
                found.push(Self {
                    name: name_of(&definition, shown)?,
                    from: Form::Definition(PathBuf::from(shown)),
                    definition,
                });
            }
        }
        for file in &desired.assignment.payload {
            if is_package_file(file.path.as_str()) {
                let path = desired.payload.join(file.path.as_str());
                let shown = format!("payload/{}", file.path);
                let text = program.definition(&path, heartbeat)?;
                let definition = definitions(&text, &shown).map_err(Stop::failed)?.pop();
                let Some(definition) = definition else {
                    return Err(Stop::failed(format!("`{shown}` has no definition")));
                };
                found.push(Self {
                    name: name_of(&definition, &shown)?,
                    from: Form::Package(path),
                    definition,
                });
            }
        }
        match found.len() {
            1 => found.pop().ok_or_else(|| Stop::failed("no package")),
            0 => Err(Stop::failed(format!(
                "none of its rendered files is a `{DEFINITION}`, and its payload has no `zarf-package-*.tar.zst`"
            ))),
            many => Err(Stop::failed(format!(
                "it has {many} packages; an assignment is one package, with as many components as are needed"
            ))),
        }
    }

    /// The package as a file.
    pub fn make(
        &self,
        desired: &Desired,
        content: &str,
        site: &dyn ReconcilerContext,
        program: &Zarf,
        heartbeat: &Heartbeat,
    ) -> Result<MadePackage, Stop> {
        let path = match &self.from {
            Form::Package(path) => {
                return Ok(MadePackage {
                    path: path.clone(),
                    values: Vec::new(),
                    folder: None,
                    opened: None,
                });
            }
            Form::Definition(path) => path,
        };
        let opened = opened(desired, site)?;
        let (folder, mut definition) = match &opened {
            // The definition itself may have sealed values.
            Some(opened) => {
                let folder = opened.scratch.path().to_owned();
                let bytes = durable::read(&folder.join(path), MAX_DEFINITION_BYTES)?;
                let text = Zeroizing::new(String::from_utf8_lossy(&bytes).into_owned());
                let shown = path.to_string_lossy();
                let again = definitions(&text, &shown)
                    .map_err(|how| Stop::failed(struck_out(&how, &opened.values)))?
                    .pop();
                (folder, again.unwrap_or_else(|| self.definition.clone()))
            }
            None => {
                let folder = program.folder().join("work");
                durable::remove_tree(&folder)?;
                durable::make_folder(&folder)?;
                for file in &desired.assignment.files {
                    copy(&desired.rendered, &folder, file.path.as_str())?;
                }
                (folder, self.definition.clone())
            }
        };
        // What an opened value put there has not been looked at before.
        let Some(metadata) = definition["metadata"].as_object_mut() else {
            let problem = "the definition of the package has no `metadata`";
            return Err(Stop::failed(problem.to_owned()));
        };
        let annotations = metadata.entry("annotations").or_insert(Value::Null);
        if !annotations.is_object() {
            *annotations = Value::Object(serde_json::Map::new());
        }
        let owner = Owner::of(desired);
        annotations[ANNOTATION] = owner.assignment.into();
        annotations[SITE_ANNOTATION] = owner.site.into();
        annotations[CONTENT] = content.into();
        // JSON is YAML, which is what Zarf reads there.
        let bytes = Zeroizing::new(definition.to_string());
        durable::write(&folder.join("zarf.yaml"), bytes.as_bytes(), 0o600)?;
        if desired.payload.is_dir() {
            let link = folder.join("payload");
            symlink(&desired.payload, &link).map_err(at("link", &link))?;
        }
        let values = opened
            .as_ref()
            .map(|opened| opened.values.clone())
            .unwrap_or_default();
        let made = program
            .create(&folder, heartbeat)
            .map_err(|stop| without(stop, &values))?;
        Ok(MadePackage {
            path: made,
            values,
            folder: opened.is_none().then_some(folder),
            opened,
        })
    }
}

/// Whether its package comes as a file of the payload.
pub fn is_ready_made(desired: &Desired) -> bool {
    let mut payload = desired.assignment.payload.iter();
    payload.any(|file| is_package_file(file.path.as_str()))
}

/// A copy in memory of the rendered files with their values; `None` when nothing in them is sealed.
fn opened(desired: &Desired, site: &dyn ReconcilerContext) -> Result<Option<OpenedFolder>, Stop> {
    let keys = site.keys();
    let opened = keys.and_then(|keys| copy_opened(&*keys, &desired.rendered, &desired.binding()));
    opened.map_err(Stop::sealed)
}

/// What is sealed in an assignment's rendered files, opened: what the API server says may quote it.
pub fn values(
    desired: &Desired,
    site: &dyn ReconcilerContext,
) -> Result<Vec<Zeroizing<String>>, Stop> {
    let opened = opened(desired, site)?;
    Ok(opened.map(|opened| opened.values).unwrap_or_default())
}

/// A result without opened values.
pub fn redacted(mut found: AssignmentResult, values: &[Zeroizing<String>]) -> AssignmentResult {
    found.message = struck_out(&found.message, values);
    for step in &mut found.steps {
        step.name = struck_out(&step.name, values);
        step.message = struck_out(&step.message, values);
    }
    found
}

/// Without opened values in what is said. Zarf cuts long commands in its messages, and of a value that is cut a part would stay.
pub fn without(stop: Stop, values: &[Zeroizing<String>]) -> Stop {
    match stop {
        Stop::Assignment(steps, why) if !values.is_empty() && why.contains("...") => {
            let command = why.split(": ").next().unwrap_or_default();
            let why = format!(
                "{command}: what it printed is not shown, because this assignment has sealed values and Zarf cut its message"
            );
            Stop::Assignment(steps, why)
        }
        Stop::Assignment(steps, why) => Stop::Assignment(steps, struck_out(&why, values)),
        site @ Stop::Site(_) => site,
    }
}

/// The definitions of packages in a text.
fn definitions(text: &str, shown: &str) -> Result<Vec<Value>, String> {
    let documents = yaml::documents(text).map_err(|error| format!("`{shown}`, {error}"))?;
    let values = documents.into_iter().map(|(_, value)| value);
    Ok(values.filter(|value| value["kind"] == DEFINITION).collect())
}

/// A package's name: a part of the API's paths, and an argument of the command.
fn name_of(definition: &Value, shown: &str) -> Result<String, Stop> {
    let name = definition["metadata"]["name"].as_str().unwrap_or_default();
    match is_package_name(name) {
        true => Ok(name.to_owned()),
        false => Err(Stop::failed(format!(
            "`{shown}`: `metadata.name` of a package is lower-case letters, digits and `-`"
        ))),
    }
}

fn is_yaml(path: &str) -> bool {
    let extension = Path::new(path).extension();
    extension.is_some_and(|extension| extension == "yaml" || extension == "yml")
}

/// Copies one verified file; nothing of it has to outlive a power cut.
fn copy(from: &Path, to: &Path, name: &str) -> Result<(), Stop> {
    let (from, to) = (from.join(name), to.join(name));
    if let Some(parent) = to.parent() {
        durable::make_folder(parent)?;
    }
    fs::copy(&from, &to).map_err(at("copy", &from))?;
    Ok(())
}
