//! A working copy as it lies there: its objects, and what it is.
//!
//! What comes in: the working copy's folder. What goes out: answers about what is in it (which branch it
//! is, which names are taken, which templates its base has), or the refusal with the names that there
//! are; and the branch of a new environment. It changes no file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Files, ScaffoldError, git, object};
use outhaul_control::diagnostic::{Diagnostics, SourceFile};
use outhaul_control::kinds::{self, Object};
use outhaul_control::model::{BaseRepo, TemplateType};
use outhaul_git::source::{self, Cache, GitReference, SourceMap, TreeLimits};
use outhaul_kit::belongs::resolved;
use outhaul_kit::suggest::did_you_mean;
use outhaul_plane::builtin;
use outhaul_promote::order::PromotionOrder;

/// What a working copy has checked out.
pub(super) struct Here {
    pub(super) root: PathBuf,
    objects: Vec<Object>,
}

/// A branch that was made for a new environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// Its name.
    pub name: String,
    /// Files that it begins with, of the branch that it was made from.
    pub copied: usize,
    /// Files of that branch that it does not get: sites, and what is promoted, published or acknowledged
    /// there.
    pub left_out: Vec<String>,
}

/// Whether `root` is a repository without a working copy.
fn is_bare(root: &Path) -> bool {
    let has = |name: &str| root.join(name);
    // What a working copy keeps in its `.git` looks the same.
    !resolved(root).ends_with(".git")
        && has("HEAD").is_file()
        && has("objects").is_dir()
        && has("refs").is_dir()
        && !has(".git").exists()
}

/// A name for a clone of the bare repository `root`.
fn working_copy_of(root: &Path) -> String {
    let name = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let name = name
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    match name.strip_suffix(".git") {
        Some(stem) if !stem.is_empty() => stem.to_owned(),
        _ => "working-copy".to_owned(),
    }
}

impl Here {
    pub(super) fn read(root: &Path) -> Result<Self, ScaffoldError> {
        if is_bare(root) {
            return Err(ScaffoldError::Choice {
                problem: format!(
                    "`{}` is a bare repository: it has no working copy that a file could be added to",
                    root.display()
                ),
                help: format!(
                    "clone it, `git clone {0} {1}`, add the object there with `--in {1}`, commit and push",
                    root.display(),
                    working_copy_of(root)
                ),
            });
        }
        // A link to a working copy is one more name of it.
        outhaul_place::refuse_folder_of_others(&resolved(root))?;
        let opened = source::open_plain(root, "", Some(""))?;
        let is_yaml = |path: &str| {
            (path.ends_with(".yaml") || path.ends_with(".yml")) && !path.starts_with(".git/")
        };
        let mut objects = Vec::new();
        // What is wrong elsewhere is for `check` to say.
        let mut findings = Diagnostics::new();
        for file in opened.tree("", &is_yaml, &TreeLimits::YAML)?.files {
            if let Ok(text) = String::from_utf8(file.bytes) {
                let name = opened.file_name(&file.path);
                let source = Arc::new(SourceFile { name, text });
                objects.extend(kinds::read_file(&source, &mut findings));
            }
        }
        let root = root.to_owned();
        Ok(Self { root, objects })
    }

    pub(super) fn is_free(&self, kind: &'static str, name: &str) -> Result<(), ScaffoldError> {
        let taken = |object: &&Object| object.kind() == kind && object.name() == name;
        match self.objects.iter().find(taken) {
            None => Ok(()),
            Some(object) => Err(ScaffoldError::Taken {
                kind,
                name: name.to_owned(),
                place: format!(
                    "{}:{}",
                    object.location().file.name,
                    object.location().line()
                ),
            }),
        }
    }

    fn base(&self) -> Option<&BaseRepo> {
        self.objects.iter().find_map(|object| match object {
            Object::BaseRepo(base) if base.name == "main" => Some(base),
            _ => None,
        })
    }

    fn environments(&self) -> Vec<&str> {
        let name = |object: &'_ Object| matches!(object, Object::Environment(_));
        self.objects
            .iter()
            .filter(|o| name(o))
            .map(Object::name)
            .collect()
    }

    /// The environment at the end of the chain, which a new one comes after.
    pub(super) fn last(&self) -> Result<Option<String>, ScaffoldError> {
        let environments = self.objects.iter().filter_map(|object| match object {
            Object::Environment(found) => Some((found.name.clone(), found.clone())),
            _ => None,
        });
        let policies = self.objects.iter().filter_map(|object| match object {
            Object::Promotion(policy) => Some(policy),
            _ => None,
        });
        let order = PromotionOrder::of(&environments.collect(), policies);
        match order.last().as_slice() {
            [] => Ok(None),
            [last] => Ok(Some((*last).to_owned())),
            several => Err(ScaffoldError::Choice {
                problem: format!(
                    "several environments are the last of the chain: `{}`",
                    several.join("`, `")
                ),
                help: "name the one before the new one with `--from NAME`, whose branch it then begins with; nothing was written"
                    .to_owned(),
            }),
        }
    }

    /// Refuses a name that no environment has.
    pub(super) fn has_environment(&self, name: &str) -> Result<(), ScaffoldError> {
        let known = self.environments();
        if known.contains(&name) {
            return Ok(());
        }
        Err(ScaffoldError::Choice {
            problem: format!(
                "there is no environment `{name}` in `{}`",
                self.root.display()
            ),
            help: format!("{}; nothing was written", did_you_mean(name, &known)),
        })
    }

    /// Refuses a second composition policy: an environment has one, which its base may bring.
    pub(super) fn has_no_composition(&self) -> Result<(), ScaffoldError> {
        let of_base = self.of_base().unwrap_or_default();
        for object in self.objects.iter().chain(&of_base) {
            if let Object::Composition(_) = object {
                return Err(ScaffoldError::Choice {
                    problem: format!(
                        "an environment has one composition policy, and `{}` is there already, in `{}`",
                        object.name(),
                        object.location().file_line()
                    ),
                    help: "change that one; nothing was written".to_owned(),
                });
            }
        }
        Ok(())
    }

    pub(super) fn on_environment(&self, kind: &'static str) -> Result<(), ScaffoldError> {
        let environments = self.environments();
        if self.base().is_some() || environments.is_empty() {
            return Ok(());
        }
        let path = self.root.clone();
        let help = format!(
            "type `git -C {} switch {}`",
            path.display(),
            environments.join("` or `")
        );
        Err(ScaffoldError::WrongBranch {
            kind,
            belongs: "an environment's branch",
            path,
            here: "what all environments share (`main`)",
            help,
        })
    }

    /// Refuses a folder in which nothing of a control plane lies: what is written there is read by nobody.
    pub(super) fn is_control_plane(&self) -> Result<(), ScaffoldError> {
        if !self.objects.is_empty() || self.root.join(".environments").is_dir() {
            return Ok(());
        }
        Err(ScaffoldError::Choice {
            problem: format!(
                "`{}` is not a control plane: no object of one lies there, and no `.environments/`",
                self.root.display()
            ),
            help: "name the control plane's working copy with `--in DIR`; `outhaul init` makes a control plane"
                .to_owned(),
        })
    }

    pub(super) fn on_main(&self, kind: &'static str) -> Result<(), ScaffoldError> {
        if self.base().is_none() {
            return Ok(());
        }
        let path = self.root.clone();
        Err(ScaffoldError::WrongBranch {
            kind,
            belongs: "`main`, from which it is promoted",
            help: format!("type `git -C {} switch main`", path.display()),
            path,
            here: "an environment's branch",
        })
    }

    pub(super) fn has_cluster_type(&self, name: &str) -> Result<(), ScaffoldError> {
        let is_one = |object: &&Object| matches!(object, Object::ClusterType(_));
        let known: Vec<&str> = self
            .objects
            .iter()
            .filter(is_one)
            .map(Object::name)
            .collect();
        if known.contains(&name) {
            return Ok(());
        }
        Err(ScaffoldError::Choice {
            problem: format!(
                "there is no cluster type `{name}` in `{}`",
                self.root.display()
            ),
            help: format!("{}; nothing was written", did_you_mean(name, &known)),
        })
    }

    /// Templates are on the commit of `main` that this environment is based on, when that can be read.
    pub(super) fn has_template(&self, kind: TemplateType, name: &str) -> Result<(), ScaffoldError> {
        // Where `main` lies elsewhere, `check` will say.
        let Some(objects) = self.of_base() else {
            return Ok(());
        };
        let known: Vec<String> = objects
            .into_iter()
            .filter_map(|object| match object {
                Object::Template(template) if template.kind == kind => Some(template.name),
                _ => None,
            })
            .collect();
        if known.iter().any(|known| known == name) {
            return Ok(());
        }
        let what = kind.as_str();
        let more = if builtin::find(name).is_some_and(|builtin| builtin.kind == kind) {
            format!("; or on `main` type `outhaul new template {name}`, commit it, and promote it")
        } else {
            String::new()
        };
        Err(ScaffoldError::Choice {
            problem: format!(
                "the commit of `main` that this is based on has no {what} template `{name}`"
            ),
            help: format!("{}{more}; nothing was written", did_you_mean(name, &known)),
        })
    }

    /// The objects of the commit of `main` that this environment is based on, when it can be read.
    fn of_base(&self) -> Option<Vec<Object>> {
        let base = self.base()?;
        let reference = match &base.commit {
            Some(commit) => GitReference::Commit {
                id: commit.value.clone(),
                near: None,
            },
            None => GitReference::Branch(base.at.branch.clone()),
        };
        let url = self.root.to_string_lossy().into_owned();
        let is_yaml = |path: &str| path.ends_with(".yaml") || path.ends_with(".yml");
        let tree = source::open_given(&url, &reference, &SourceMap::default(), &Cache::of_user())
            .and_then(|opened| opened.tree(&base.at.path, &is_yaml, &TreeLimits::YAML));
        let objects =
            tree.ok()?.files.into_iter().flat_map(|file| {
                objects(file.path, String::from_utf8_lossy(&file.bytes).into_owned())
            });
        Some(objects.collect())
    }

    /// What the branch of the environment `from` gives a new one: its files, and those that stay its own.
    fn files_of(&self, from: &str) -> Result<(Files, Vec<String>), ScaffoldError> {
        let url = self.root.to_string_lossy().into_owned();
        let reference = GitReference::Branch(from.to_owned());
        let tree = source::open_given(&url, &reference, &SourceMap::default(), &Cache::of_user())
            .and_then(|opened| opened.tree("", &|_| true, &TreeLimits::YAML))?;
        let (mut files, mut left_out) = (Files::new(), Vec::new());
        for file in tree.files {
            let own = |object: &Object| {
                matches!(
                    object,
                    Object::Acknowledgement(_)
                        | Object::BaseRepo(_)
                        | Object::GitOpsRepo(_)
                        | Object::Site(_)
                )
            };
            let Ok(text) = String::from_utf8(file.bytes) else {
                left_out.push(file.path);
                continue;
            };
            let found = objects(file.path.clone(), text.clone());
            let is_base = |object: &Object| matches!(object, Object::BaseRepo(_));
            if !found.is_empty() && found.iter().all(is_base) {
                // The new environment gets one of its own.
                continue;
            }
            match found.iter().any(own) {
                true => left_out.push(file.path),
                false => drop(files.insert(file.path, text)),
            }
        }
        left_out.extend(tree.skipped);
        Ok((files, left_out))
    }

    pub(super) fn url(&self, given: Option<&str>) -> Result<String, ScaffoldError> {
        let of = |object: &Object| match object {
            Object::Environment(e) => Some(e.control_plane.repo.value.clone()),
            _ => None,
        };
        given
            .map(str::to_owned)
            .or_else(|| self.objects.iter().find_map(of))
            .ok_or_else(|| ScaffoldError::Choice {
                problem: "no other environment says where this control plane is".to_owned(),
                help: "give `--url https://git.example.org/control-plane`".to_owned(),
            })
    }

    /// The branch of a new environment, with its base, and with what the branch of `from` holds; `None`
    /// where there is no git.
    pub(super) fn branch(
        &self,
        name: &str,
        environment: &str,
        from: Option<&str>,
    ) -> Result<Option<Branch>, ScaffoldError> {
        if !source::git::is_repository(&self.root) || !git::is_there() {
            return Ok(None);
        }
        let repository = git::open(&self.root);
        if repository.commit_of(name).is_some() {
            return Ok(None);
        }
        let Some(main) = repository.commit_of("main") else {
            return Ok(None);
        };
        let url = environment
            .lines()
            .find_map(|line| line.trim().strip_prefix("repo: "))
            .unwrap_or_default()
            .trim_matches('"')
            .to_owned();
        let (mut files, left_out) = match from {
            Some(from) => self.files_of(from)?,
            None => (Files::new(), Vec::new()),
        };
        let copied = files.len();
        let base = object::base_repo(&url, Some(&main));
        files.insert("base-repo.yaml".to_owned(), base);
        repository.branch(name, &format!("Initial `{name}` configuration"), &files)?;
        Ok(Some(Branch {
            name: name.to_owned(),
            copied,
            left_out,
        }))
    }
}

/// What a file of YAML holds; what is wrong with it is for `check` to say.
fn objects(path: String, text: String) -> Vec<Object> {
    if !path.ends_with(".yaml") && !path.ends_with(".yml") {
        return Vec::new();
    }
    let source = Arc::new(SourceFile { name: path, text });
    kinds::read_file(&source, &mut Diagnostics::new())
}
