//! The environments that a control plane lists in `.environments/`.
//!
//! What comes in: the repository with the list. What goes out: every environment in it, or the one that was asked for.
//! A mistake in the file of one environment does not hide the others. It opens nothing that an environment names.

use super::{ENVIRONMENTS, Loader, files, is_yaml, text_file};
use crate::unread;
use outhaul_control::diagnostic::Diagnostics;
use outhaul_control::kinds::{self, Object};
use outhaul_control::model::Environment;
use outhaul_git::source::{OpenedSource, SourceError, TreeLimits};

impl Loader<'_> {
    /// Every environment that the control plane in the repository `url` lists.
    pub fn environments(
        mut self,
        url: &str,
        branch: Option<&str>,
    ) -> Result<Vec<Environment>, Diagnostics> {
        match self.open_environments(url, branch) {
            Some(opened) => self.listed_in(&opened),
            None => Err(self.findings),
        }
    }

    /// The same as far as it can be read, with what is wrong with the rest.
    pub fn environments_partly(
        mut self,
        url: &str,
        branch: Option<&str>,
    ) -> (Vec<Environment>, Diagnostics) {
        let opened = self.open_environments(url, branch);
        let known = opened.map(|opened| self.read_environments(&opened));
        self.findings.sort();
        (known.unwrap_or_default(), self.findings)
    }

    /// Every environment that `opened` lists.
    pub fn listed_in(mut self, opened: &OpenedSource) -> Result<Vec<Environment>, Diagnostics> {
        let known = self.read_environments(opened);
        if self.findings.has_errors() {
            self.findings.sort();
            return Err(self.findings);
        }
        Ok(known)
    }

    pub(super) fn find_environment(&mut self, opened: &OpenedSource) -> Option<Environment> {
        let before = std::mem::take(&mut self.findings);
        let known = self.read_environments(opened);
        let name = &self.request.environment;
        let wanted = known.iter().find(|environment| environment.name == *name);
        let found = std::mem::replace(&mut self.findings, before);
        self.findings.append(match wanted {
            Some(wanted) => files::of_others(found, &wanted.location.file.name),
            None => found,
        });
        if wanted.is_none() && !self.findings.has_errors() {
            self.findings.push(files::no_such(opened, name, &known));
        }
        wanted.cloned()
    }

    fn read_environments(&mut self, opened: &OpenedSource) -> Vec<Environment> {
        let files = match opened.tree(ENVIRONMENTS, &is_yaml, &TreeLimits::YAML) {
            Ok(tree) => tree.files,
            Err(SourceError::NoSuchPath { .. }) => Vec::new(),
            Err(error) => {
                self.unreadable(&error, None);
                return Vec::new();
            }
        };
        let mut known: Vec<Environment> = Vec::new();
        for file in files {
            let name = opened.file_name(&format!("{ENVIRONMENTS}/{}", file.path));
            let file = match text_file(name, file) {
                Ok(file) => file,
                Err(finding) => {
                    self.findings.push(*finding);
                    continue;
                }
            };
            for object in kinds::read_file(&file, &mut self.findings) {
                self.findings.extend(unread::in_the_list(&object));
                if let Object::Environment(environment) = object
                    && !known.iter().any(|known| known.name == environment.name)
                {
                    known.push(environment);
                }
            }
        }
        known.sort_by(|a, b| a.name.cmp(&b.name));
        known
    }
}
