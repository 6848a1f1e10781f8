//! Promotion policies of a control plane that lie where none is read.
//!
//! What comes in: the branch that lists the environments, or that of an environment. What goes out: an error at each promotion policy outside
//! the folder of the list, on the branch of an environment, or in a file of the list with another ending, whatever its name: a step would be
//! decided by the default rules, and whoever wrote the policy would not know. Files outside that folder that `.sourceignore` lists are left
//! out on purpose, and so are those that are larger than a control plane's may be. It changes nothing.

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;

use super::error_text::error_chain;
use super::{Chain, ENVIRONMENTS, Link, PromoteError, open_environment, refuse};
use outhaul_control::diagnostic::{Diagnostic, Diagnostics, Location, SourceFile};
use outhaul_control::kinds::{self, Object};
use outhaul_control::model::PromotionPolicy;
use outhaul_control::{MISPLACED_POLICY, not_beside, of_an_environment};
use outhaul_git::source::ignore::Ignore;
use outhaul_git::source::{OpenedSource, SourceError, TreeLimits};

const KIND: &str = "PromotionPolicy";

/// What a branch is for.
#[derive(Debug, Clone, Copy)]
pub(super) enum BranchUse<'a> {
    /// It lists the environments.
    List,
    /// It has an environment's own content. A copy of a policy that counts, the same to the byte, does no harm there: a branch that was made
    /// from that of the list has one.
    Environment(&'a [PromotionPolicy]),
}

/// Why a policy in a file is not read.
#[derive(Clone, Copy)]
enum Reason {
    /// It lies in another folder.
    Folder,
    /// The name of the file ends in another way.
    Ending,
    /// It lies on the branch of an environment.
    Branch,
}

impl BranchUse<'_> {
    /// Why a policy in the file at `path` would not be read; `None` for one that is read, and for what is no YAML outside the folder of
    /// the list.
    fn reason(self, path: &str) -> Option<Reason> {
        let is_listed = is_listed(path);
        let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
        let is_yaml = ["yaml", "yml", "json"].contains(&ending.to_ascii_lowercase().as_str());
        match (self, is_listed, ending) {
            (Self::Environment(_), _, _) => (is_listed || is_yaml).then_some(Reason::Branch),
            (Self::List, true, "yaml" | "yml") => None,
            (Self::List, true, _) => Some(Reason::Ending),
            (Self::List, false, _) => is_yaml.then_some(Reason::Folder),
        }
    }

    /// Whether the file is one whose policies count elsewhere.
    fn is_copy(self, text: &str) -> bool {
        let Self::Environment(policies) = self else {
            return false;
        };
        let mut files = policies.iter().map(|policy| &policy.location.file);
        files.any(|file| file.text == text)
    }
}

/// Whether the file lies beside the environments.
fn is_listed(path: &str) -> bool {
    let below = path.strip_prefix(ENVIRONMENTS);
    below.is_some_and(|rest| rest.starts_with('/'))
}

impl Chain<'_> {
    /// Refuses a step while a promotion policy lies on the branch of the environment that is moved, or on that of the one `before` it.
    ///
    /// # Errors
    /// [`PromoteError::Findings`] with each such policy, or that a branch cannot be read.
    pub(super) fn refuse_policies_on(
        &self,
        link: &Link,
        before: Option<&Link>,
    ) -> Result<(), PromoteError> {
        let mut findings = self.policies_on(&link.opened)?;
        if let Some(before) = before {
            findings.append(self.policies_on(&before.opened)?);
        }
        refuse(findings)
    }

    /// Refuses to follow the chain while a promotion policy lies on the branch of an environment that is not `followed`: it may be what
    /// was to make it so. A branch that cannot be read has nothing to follow, and the others are.
    ///
    /// # Errors
    /// [`PromoteError::Findings`] with each such policy.
    pub(super) fn refuse_policies_beside(
        &self,
        followed: &dyn Fn(&str) -> bool,
    ) -> Result<(), PromoteError> {
        let mut findings = Diagnostics::new();
        for environment in self.environments.values() {
            let sources = self.environment_sources(&environment.control_plane.repo.value);
            let opened = match followed(&environment.name) {
                true => None,
                false => open_environment(environment, &sources, self.cache).ok(),
            };
            if let Some(found) = opened.and_then(|opened| self.policies_on(&opened).ok()) {
                findings.append(found);
            }
        }
        refuse(findings)
    }

    /// An error for each promotion policy on the branch of an environment; none where that branch is the one that lists the environments,
    /// which was looked at. An environment is the later one of a step and the earlier one of another: what was found on its branch at a
    /// commit is remembered.
    fn policies_on(&self, opened: &OpenedSource) -> Result<Diagnostics, PromoteError> {
        // The name of a file has the repository; the commit is written out in it in part.
        let key = (opened.file_name(""), opened.commit.clone());
        if let Some(known) = self.policies_beside.borrow().get(&key) {
            return Ok(known.clone());
        }
        let found = beside(&self.opened, &self.policies, opened)?;
        self.policies_beside.borrow_mut().insert(key, found.clone());
        Ok(found)
    }
}

/// The same where `list` is the branch that lists the environments, with these policies.
pub(super) fn beside(
    list: &OpenedSource,
    policies: &[PromotionPolicy],
    opened: &OpenedSource,
) -> Result<Diagnostics, PromoteError> {
    // A folder's is the digest of what is in it.
    match opened.commit == list.commit {
        true => Ok(Diagnostics::new()),
        false => of(opened, BranchUse::Environment(policies)),
    }
}

/// That nobody can say whether policies lie on `branch`, in words, where none is read.
pub(super) fn not_looked_at(branch: &str, error: &PromoteError) -> Diagnostic {
    let message = format!(
        "whether promotion policies lie where none is read is not known: {}",
        error_chain(error)
    );
    Diagnostic::error(MISPLACED_POLICY, message)
        .help(format!(
            "see that each file of {branch} can be read; one outside `{ENVIRONMENTS}/` can be listed in `.sourceignore`"
        ))
}

/// An error for each promotion policy of the branch that is not read.
///
/// # Errors
/// [`PromoteError`] when the branch cannot be read.
pub(super) fn of(
    opened: &OpenedSource,
    branch: BranchUse<'_>,
) -> Result<Diagnostics, PromoteError> {
    let mut findings = Diagnostics::new();
    let is_list = |path: &str| path == ".sourceignore";
    let list = opened.tree("", &is_list, &TreeLimits::YAML)?.files.pop();
    let ignore = list.map_or_else(Ignore::default, |file| {
        Ignore::parse(&String::from_utf8_lossy(&file.bytes)).0
    });
    let wanted =
        |path: &str| branch.reason(path).is_some() && (is_listed(path) || !ignore.ignores(path));
    opened.each_streamed::<SourceError>("", &wanted, &TreeLimits::PAYLOAD, &mut |file| {
        let mut bytes = Vec::new();
        let most = TreeLimits::YAML.max_file_bytes;
        let read = file
            .content
            .take(most.saturating_add(1))
            .read_to_end(&mut bytes);
        read.map_err(|error| SourceError::Unreadable {
            path: PathBuf::from(&file.path),
            error,
        })?;
        // Nobody writes a policy of that size, and data in the repository keeps nobody from promoting.
        if bytes.len() as u64 > most {
            return Ok(());
        }
        // Some editors save UTF-16: without the zero bytes its Latin letters are the same text.
        bytes.retain(|byte| *byte != 0);
        let text = String::from_utf8_lossy(&bytes);
        let is_meant = text.contains(KIND) && !branch.is_copy(&text);
        if let Some(reason) = branch.reason(&file.path).filter(|_| is_meant) {
            let source = SourceFile {
                name: opened.file_name(&file.path),
                text: text.into_owned(),
            };
            in_file(&Arc::new(source), reason, &mut findings);
        }
        Ok(())
    })?;
    Ok(findings)
}

fn in_file(file: &Arc<SourceFile>, reason: Reason, findings: &mut Diagnostics) {
    // What else is wrong with the file is reported by whoever loads it.
    let mut unread = Diagnostics::new();
    let objects = kinds::read_file(file, &mut unread);
    let mut found = 0;
    for object in &objects {
        if let Object::Promotion(policy) = object {
            found += 1;
            findings.push(finding(
                &format!("promotion policy `{}`", policy.name),
                &policy.location,
                reason,
            ));
        }
    }
    // A file of another ending need not be YAML at all.
    let is_broken = unread.has_errors() || matches!(reason, Reason::Ending);
    if let Some(at) = written(&file.text).filter(|_| found == 0 && is_broken) {
        let at = Location::new(file, at..at + KIND.len());
        findings.push(finding("this promotion policy", &at, reason));
    }
}

/// Where a document of a file that does not read is a promotion policy by its own line.
pub(super) fn written(text: &str) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let Some((key, value)) = line.split_once(':') else {
            at += line.len();
            continue;
        };
        // In JSON it may be indented.
        let is_kind =
            key.trim_start_matches('\u{feff}').trim_end() == "kind" || key.trim() == "\"kind\"";
        let value = value.split(" #").next().unwrap_or_default().trim();
        if is_kind && value.trim_end_matches(',').trim_matches(['"', '\'']) == KIND {
            return line.find(KIND).map(|start| at + start);
        }
        at += line.len();
    }
    None
}

fn finding(what: &str, at: &Location, reason: Reason) -> Diagnostic {
    let (message, help) = match reason {
        Reason::Folder => (
            not_beside(what),
            format!(
                "move it to `{ENVIRONMENTS}/` on the control plane's main branch, beside the environments; where it is no policy of this \
                 control plane, list the file in `.sourceignore`"
            ),
        ),
        Reason::Ending => (
            format!("{what} is not read: the name of its file does not end in `.yaml` or `.yml`"),
            "rename the file, or remove it where the policy is not meant; in a text about policies, indent the line `kind: PromotionPolicy`"
                .to_owned(),
        ),
        Reason::Branch => (
            of_an_environment(what),
            format!(
                "move it to `{ENVIRONMENTS}/` on the control plane's main branch, beside the environments, or remove it from the branch of the \
                 environment"
            ),
        ),
    };
    Diagnostic::error(MISPLACED_POLICY, message)
        .at(at)
        .help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        found_on(BranchUse::List, path, text)
    }

    fn found_on(branch: BranchUse<'_>, path: &str, text: &str) -> Vec<String> {
        let mut findings = Diagnostics::new();
        if let Some(reason) = branch.reason(path) {
            let (name, text) = (path.to_owned(), text.to_owned());
            in_file(&Arc::new(SourceFile { name, text }), reason, &mut findings);
        }
        let line = |one: &Diagnostic| {
            let at = one.location.as_ref().map(Location::file_line);
            format!("{}: {}", at.unwrap_or_default(), one.message)
        };
        findings.iter().map(line).collect()
    }

    const POLICY: &str = "apiVersion: outhaul.dev/v1alpha1\nkind: PromotionPolicy\nmetadata:\n  name: p\nspec:\n  from: dev\n  to: stage\n";

    #[test]
    fn a_policy_is_found_where_it_is_not_read_and_only_there() {
        let elsewhere =
            "promotion policy `p` does not lie beside the environments: it has no effect";
        let json = r#"{"apiVersion": "outhaul.dev/v1alpha1", "kind": "PromotionPolicy", "metadata": {"name": "p"}, "spec": {"from": "dev", "to": "stage"}}"#;
        assert_eq!(
            found("policies/p.yaml", POLICY),
            [format!("policies/p.yaml:4: {elsewhere}")]
        );
        assert_eq!(found(".environments-old/p.yml", POLICY).len(), 1);
        let ending = "promotion policy `p` is not read: the name of its file does not end in `.yaml` or `.yml`";
        for (path, text) in [
            (".environments/p.json", json),
            (".environments/p.YAML", POLICY),
            (".environments/p.yaml.txt", POLICY),
            (".environments/p.ymal", POLICY),
            (".environments/eu/p", POLICY),
            (".environments/p.yaml~", POLICY),
        ] {
            let said = found(path, text);
            assert!(said.len() == 1 && said[0].ends_with(ending), "{said:?}");
        }
        for path in [
            ".environments/p.yaml",
            ".environments/eu/p.yml",
            "p.md",
            "p",
        ] {
            assert_eq!(found(path, POLICY), Vec::<String>::new(), "{path}");
        }
    }

    #[test]
    fn in_a_file_of_any_name_beside_the_environments_the_line_of_the_kind_is_enough() {
        let broken = "{\n  \"kind\": \"PromotionPolicy\",\n";
        for text in [
            "\u{feff}kind: PromotionPolicy # ours\n",
            "kind: 'PromotionPolicy'\r\n",
            broken,
        ] {
            assert_eq!(found(".environments/p.txt", text).len(), 1, "{text:?}");
        }
        for text in [
            "A kind: PromotionPolicy\n",
            "  kind: PromotionPolicy\n",
            "kind: PromotionPolicyList\n",
        ] {
            assert_eq!(found(".environments/README.md", text), Vec::<String>::new());
        }
    }

    #[test]
    fn on_the_branch_of_an_environment_only_a_copy_of_one_that_counts_does_no_harm() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        };
        let utf16: Vec<u8> = POLICY.bytes().flat_map(|byte| [byte, 0]).collect();
        file("scheduling/p.yaml", POLICY.as_bytes());
        file(".environments/copy.yaml", POLICY.as_bytes());
        file(".environments/wide.txt", &utf16);
        file("notes.txt", POLICY.as_bytes());
        let opened = outhaul_git::source::open_plain(folder.path(), "", None).unwrap();
        let found = |policies: &[PromotionPolicy]| {
            let findings = of(&opened, BranchUse::Environment(policies)).unwrap();
            findings.iter().count()
        };
        assert_eq!(found(&[]), 3);
        let source = Arc::new(SourceFile {
            name: "main/.environments/p.yaml".to_owned(),
            text: POLICY.to_owned(),
        });
        let mut unread = Diagnostics::new();
        let policies: Vec<PromotionPolicy> = kinds::read_file(&source, &mut unread)
            .into_iter()
            .filter_map(|object| match object {
                Object::Promotion(policy) => Some(policy),
                _ => None,
            })
            .collect();
        // What is saved as UTF-16 is the same text.
        assert_eq!(found(&policies), 0);
        let own = found_on(BranchUse::Environment(&policies), "dev/p.yml", POLICY);
        let says = "dev/p.yml:4: promotion policy `p` is an environment's own: it has no effect";
        assert_eq!(own, [says]);
    }

    #[test]
    fn a_file_larger_than_a_control_planes_may_be_keeps_no_other_from_being_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let most = usize::try_from(TreeLimits::YAML.max_file_bytes).unwrap();
        std::fs::write(folder.path().join("a.json"), vec![b' '; most + 1]).unwrap();
        std::fs::write(folder.path().join("p.yaml"), POLICY).unwrap();
        let opened = outhaul_git::source::open_plain(folder.path(), "", None).unwrap();
        let findings = of(&opened, BranchUse::List).unwrap();
        assert_eq!(findings.iter().count(), 1, "{}", findings.render(false));
        assert!(findings.render(false).contains("p.yaml"));
    }

    #[test]
    fn one_that_does_not_read_is_found_by_its_kind_and_a_text_about_one_is_none() {
        let broken = POLICY.replace("to: stage", "two: stage");
        assert_eq!(
            found("p.yaml", &broken),
            [
                "p.yaml:2: this promotion policy does not lie beside the environments: it has no effect"
            ]
        );
        let about = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  text: |\n    kind: PromotionPolicy\n";
        assert_eq!(found("c.yaml", about), Vec::<String>::new());
    }
}
