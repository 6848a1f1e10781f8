//! Objects of a Kalypso observability hub, from YAML: what should run, and what reconcilers reported.
//!
//! What comes in: files that someone exported from a cluster or keeps in git, one or several documents each, lists included. What goes
//! out: descriptors and reconcilers to be recorded, or every problem with its file, document and field. Other kinds are counted
//! and left alone. It records nothing itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use outhaul_bundle::hub_api::{Descriptor, ReportedReconciler};
use outhaul_kit::{durable, media, text};
use serde::Deserialize as _;
use serde_yaml::Value;

use outhaul_kit::durable::FileError;

/// The group and version of the objects.
const API: &str = "hub.kalypso.io/v1alpha1";
/// Largest file, in bytes.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
/// Files of one import.
const MAX_FILES: usize = 50_000;
/// Longest text of a field, in characters.
const MAX_CHARS: usize = 1_000;
/// Problems that are reported one by one.
const MAX_TOLD: usize = 50;

/// What was found.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct KalypsoObjects {
    /// What should run.
    pub descriptors: Vec<Descriptor>,
    /// What was reported.
    pub reconcilers: Vec<ReportedReconciler>,
    /// Objects of other kinds, by kind.
    pub ignored: BTreeMap<String, usize>,
    problems: Vec<String>,
}

/// Why objects cannot be read; nothing is to be recorded.
#[derive(Debug, thiserror::Error)]
pub enum ObjectsError {
    /// They are not as they must be.
    #[error("{problem}")]
    Refused {
        /// What is wrong.
        problem: String,
        /// What to do.
        help: String,
    },
    /// A file failed.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Reads files, and the YAML files of folders and those below them. `commit` stands for that of descriptors that say none.
///
/// # Errors
/// [`ObjectsError::Refused`] with every problem; then nothing is to be recorded.
pub fn read(paths: &[PathBuf], commit: Option<&str>) -> Result<KalypsoObjects, ObjectsError> {
    let mut files = Vec::new();
    for path in paths {
        match path.is_dir() {
            true => below(path, &mut files)?,
            false => files.push(path.clone()),
        }
    }
    let mut found = KalypsoObjects::default();
    for file in files {
        let bytes = media::read_file(&file, MAX_BYTES)?;
        let shown = text::path(&file).clone();
        match std::str::from_utf8(&bytes) {
            Ok(text) => found.take(&shown, text, commit),
            Err(_) => found
                .problems
                .push(format!("{shown}: it is not text in UTF-8")),
        }
    }
    if found.problems.is_empty() {
        return Ok(found);
    }
    let more = found.problems.len().saturating_sub(MAX_TOLD);
    found.problems.truncate(MAX_TOLD);
    let mut problem = format!(
        "not all of it can be imported, so nothing was:\n  {}",
        found.problems.join("\n  ")
    );
    if more > 0 {
        problem.push_str(&format!("\n  and {more} more"));
    }
    Err(ObjectsError::Refused {
        problem,
        help: "correct or leave out what is named, and repeat the command".to_owned(),
    })
}

fn below(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), ObjectsError> {
    let mut entries = durable::list(folder)?;
    entries.sort();
    for path in entries {
        // A link may lead anywhere, also back here.
        let is_link = path.is_symlink();
        let is_yaml = path
            .extension()
            .is_some_and(|end| end == "yaml" || end == "yml");
        if path.is_dir() && !is_link {
            below(&path, files)?;
        } else if is_yaml && !is_link {
            files.push(path);
        }
        if files.len() > MAX_FILES {
            return Err(ObjectsError::Refused {
                problem: format!(
                    "there are more than {MAX_FILES} YAML files below `{}`",
                    text::path(folder)
                ),
                help: "name a folder with fewer".to_owned(),
            });
        }
    }
    Ok(())
}

impl KalypsoObjects {
    /// Reads one text.
    fn take(&mut self, file: &str, text: &str, commit: Option<&str>) {
        for (at, document) in serde_yaml::Deserializer::from_str(text).enumerate() {
            let place = format!("{file}, document {}", at + 1);
            match Value::deserialize(document) {
                Ok(Value::Null) => {}
                Ok(object) => self.object(&place, &object, commit),
                // What follows cannot be read either.
                Err(error) => return self.problems.push(format!("{place}: {error}")),
            }
        }
    }

    fn object(&mut self, place: &str, object: &Value, commit: Option<&str>) {
        let kind = object["kind"].as_str().unwrap_or_default();
        if kind == "List" || kind.ends_with("List") {
            for item in object["items"].as_sequence().into_iter().flatten() {
                self.object(place, item, commit);
            }
            return;
        }
        let name = object["metadata"]["name"]
            .as_str()
            .unwrap_or("without a name");
        let mut fields = Fields {
            place: format!("{place}, {kind} `{}`", text::printable(name)),
            object,
            problems: &mut self.problems,
        };
        match (object["apiVersion"].as_str(), kind) {
            (Some(API), "DeploymentDescriptor") => {
                self.descriptors.extend(fields.descriptor(commit));
            }
            (Some(API), "Reconciler") => self.reconcilers.extend(fields.reconciler()),
            _ => *self.ignored.entry(kind.to_owned()).or_default() += 1,
        }
    }
}

/// The fields of one object, each of which may be wrong.
struct Fields<'a> {
    place: String,
    object: &'a Value,
    problems: &'a mut Vec<String>,
}

impl Fields<'_> {
    fn descriptor(&mut self, commit: Option<&str>) -> Option<Descriptor> {
        let before = self.problems.len();
        let reported = self.optional(&["status", "gitOpsCommitId"]);
        let commit = match (reported.is_empty(), commit) {
            (false, _) => reported,
            (true, Some(commit)) => commit.to_owned(),
            (true, None) => {
                self.problem("it has no `status.gitOpsCommitId`; give the commit that carries it with `--commit`");
                String::new()
            }
        };
        let found = Descriptor {
            manifests_endpoint: self.endpoint(&["spec", "deploymentTarget", "manifests"]),
            commit,
            version: self.needed(&["spec", "workloadVersion", "version"]),
            workspace: self.needed(&["spec", "workload", "application", "workspace", "name"]),
            application: self.needed(&["spec", "workload", "application", "name"]),
            workload: self.needed(&["spec", "workload", "name"]),
            source_endpoint: self.endpoint(&["spec", "workload", "source"]),
            target: self.needed(&["spec", "deploymentTarget", "name"]),
            environment: self.needed(&["spec", "deploymentTarget", "environment"]),
            build: self.optional(&["spec", "workloadVersion", "build"]),
            build_commit: self.optional(&["spec", "workloadVersion", "commit"]),
        };
        (self.problems.len() == before).then_some(found)
    }

    fn reconciler(&mut self) -> Option<ReportedReconciler> {
        let before = self.problems.len();
        let reported = ReportedReconciler {
            host: self.needed(&["spec", "hostName"]),
            reconciler: self.needed(&["spec", "reconcilerName"]),
            kind: self.one_of(&["spec", "reconcilerType"], &["flux", "arc", "wo"]),
            endpoint: self.needed(&["spec", "manifestsEndpoint"]),
            commit: self.optional(&["spec", "deployment", "gitOpsCommitId"]),
            status: String::new(),
            message: self.optional(&["spec", "deployment", "statusMessage"]),
        };
        let status = match reported.commit.is_empty() {
            true => String::new(),
            false => self.one_of(
                &["spec", "deployment", "status"],
                &["success", "failure", "in_progress"],
            ),
        };
        (self.problems.len() == before).then_some(ReportedReconciler { status, ..reported })
    }

    fn problem(&mut self, what: &str) {
        self.problems.push(format!("{}: {what}", self.place));
    }

    /// The text at a path; empty where there is none.
    fn optional(&mut self, path: &[&str]) -> String {
        let value = path.iter().fold(self.object, |value, name| &value[*name]);
        let text = match value {
            Value::Null => return String::new(),
            Value::String(text) => text.clone(),
            // `version: 1.10` is a number to YAML, and would come back as 1.1.
            _ => {
                self.problem(&format!(
                    "`{}` is not a text: put it in quotes",
                    path.join(".")
                ));
                return String::new();
            }
        };
        if text.chars().count() > MAX_CHARS || text.contains('\0') {
            self.problem(&format!(
                "`{}` has more than {MAX_CHARS} letters, or a NUL among them",
                path.join(".")
            ));
        }
        text
    }

    fn needed(&mut self, path: &[&str]) -> String {
        let before = self.problems.len();
        let text = self.optional(path);
        if text.is_empty() && self.problems.len() == before {
            self.problem(&format!("`{}` is missing", path.join(".")));
        }
        text
    }

    fn one_of(&mut self, path: &[&str], known: &[&str]) -> String {
        let text = self.needed(path);
        if !text.is_empty() && !known.contains(&text.as_str()) {
            let text = text::printable(&text).to_string();
            self.problem(&format!(
                "`{}` is `{text}`, and can be {}",
                path.join("."),
                known.join(", ")
            ));
        }
        text
    }

    /// Repository, branch and folder as one text, as Kalypso writes it.
    fn endpoint(&mut self, path: &[&str]) -> String {
        let part = |fields: &mut Self, name: &str| fields.needed(&[path, &[name]].concat());
        let (repo, branch, folder) = (part(self, "repo"), part(self, "branch"), part(self, "path"));
        format!("{repo}/{branch}/{folder}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, commit: Option<&str>) -> KalypsoObjects {
        let mut found = KalypsoObjects::default();
        found.take("a.yaml", text, commit);
        found
    }

    const DESCRIPTOR: &str = "
apiVersion: hub.kalypso.io/v1alpha1
kind: DeploymentDescriptor
metadata: {name: press-0-1-7}
spec:
  workload:
    name: press
    source: {repo: https://git.example/press, branch: main, path: .}
    application: {name: labels, workspace: {name: hall}}
  deploymentTarget:
    name: uat
    environment: dev
    manifests: {repo: https://git.example/press-gitops, branch: dev, path: uat}
  workloadVersion: {version: 0.1.7, build: '17', commit: c0ffee}
";

    #[test]
    fn a_descriptor_and_a_list_of_reconcilers_are_read_and_other_kinds_are_counted() {
        let reconcilers = "
apiVersion: v1
kind: List
items:
- apiVersion: hub.kalypso.io/v1alpha1
  kind: Reconciler
  metadata: {name: a}
  spec:
    hostName: drone-1
    reconcilerName: press.uat
    reconcilerType: flux
    manifestsStorageType: git
    manifestsEndpoint: https://git.example/press-gitops/dev/uat
    deployment: {gitOpsCommitId: abc, status: failure, statusMessage: no space}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}
";
        let found = of(&format!("{DESCRIPTOR}---\n{reconcilers}---\n"), Some("abc"));
        assert_eq!(found.problems, Vec::<String>::new());
        let descriptor = &found.descriptors[0];
        assert_eq!(
            descriptor.manifests_endpoint,
            "https://git.example/press-gitops/dev/uat"
        );
        assert_eq!(
            (&*descriptor.commit, &*descriptor.version),
            ("abc", "0.1.7")
        );
        let reported = &found.reconcilers[0];
        assert_eq!(
            (&*reported.host, &*reported.status, &*reported.message),
            ("drone-1", "failure", "no space")
        );
        assert_eq!(reported.endpoint, descriptor.manifests_endpoint);
        assert_eq!(found.ignored, BTreeMap::from([("ConfigMap".to_owned(), 1)]));
    }

    #[test]
    fn each_thing_that_is_wrong_is_named_with_its_place() {
        let found = of(DESCRIPTOR, None);
        assert!(
            found.problems[0].contains("--commit"),
            "{:?}",
            found.problems
        );
        assert!(found.descriptors.is_empty());
        let wrong = DESCRIPTOR
            .replace("version: 0.1.7", "version: 1.10")
            .replace("environment: dev", "environment: ''");
        let found = of(&wrong, Some("abc"));
        let reported = found.problems.join("\n");
        assert_eq!(found.problems.len(), 2, "{reported}");
        assert!(reported.contains("a.yaml, document 1, DeploymentDescriptor `press-0-1-7`: `spec.workloadVersion.version` is not a text"), "{reported}");
        assert!(
            reported.contains("`spec.deploymentTarget.environment` is missing"),
            "{reported}"
        );
        let found = of(
            "apiVersion: hub.kalypso.io/v1alpha1\nkind: Reconciler\nspec: {reconcilerType: argo}",
            None,
        );
        assert!(
            found
                .problems
                .iter()
                .any(|one| one.contains("is `argo`, and can be flux, arc, wo"))
        );
        assert!(of("a: [", None).problems[0].starts_with("a.yaml, document 1: "));
    }
}
