//! What the tests of all reconcilers stand on: a site in a temporary folder, its key, and an inventory in memory.
//!
//! What comes in: a folder. What goes out: [`ReconcilerContext`] whose values open with a real key, a [`Ledger`] that
//! records what was reported to it, and assignments with their files on disk. Nothing of it is in a program.
use std::fs;
use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_bundle::index::{Assignment, DriftPolicy, File as IndexFile};
use outhaul_kit::durable::FileError;
use outhaul_seal::marker::{self, MarkerContext, Syntax};
use outhaul_seal::{Identities, Identity};

use crate::assignment::Desired;
use crate::context::ReconcilerContext;
use crate::inventory::{Item, Ledger, LedgerError, Phase};
use crate::sealed::{Binding, Keys, OpenedText, SealedError};

/// A site whose folder is this one.
#[derive(Debug)]
pub struct FakeContext(pub PathBuf);

impl FakeContext {
    /// The public half of its key, which is made when there is none.
    pub fn public_key(root: &Path) -> String {
        let path = root.join("identities/site.age");
        if !path.exists() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            Identity::generate().save(&path).unwrap();
        }
        Identity::load(&path).unwrap().recipient().to_string()
    }
}

impl ReconcilerContext for FakeContext {
    fn keys(&self) -> Result<Box<dyn Keys>, SealedError> {
        let keys = Identities::load_folder(&self.0.join("identities")).unwrap();
        Ok(Box::new(HeldKeys(keys)))
    }

    fn earlier(&self, _generation: u64, _assignment: &str, _site: &str) -> Option<Desired> {
        None
    }

    fn index(&self, generation: u64) -> Result<Digest, FileError> {
        Ok(Digest::of(&generation.to_be_bytes()))
    }

    fn kept(&self, assignment: &str) -> PathBuf {
        self.0.join("kept").join(assignment)
    }

    fn marks(&self, _generation: u64) -> PathBuf {
        self.0.join("marks")
    }

    fn ansible(&self) -> PathBuf {
        self.0.join("ansible")
    }

    fn hook(&self, name: &str) -> PathBuf {
        self.0.join("hook").join(name)
    }
}

struct HeldKeys(Identities);

impl Keys for HeldKeys {
    fn open_file(
        &self,
        path: &Path,
        shown: &str,
        here: &Binding<'_>,
    ) -> Result<Option<OpenedText>, SealedError> {
        let text = fs::read_to_string(path).unwrap();
        let here = MarkerContext {
            fleet: here.fleet,
            environment: here.environment,
            workload: here.workload,
        };
        let opened = marker::unseal_values(&text, &self.0, Syntax::of_file(shown), &here)
            .map_err(|problem| SealedError::Value(format!("`{shown}`, {problem}")))?;
        Ok((!opened.values.is_empty()).then_some(OpenedText {
            text: opened.text,
            values: opened.values,
        }))
    }

    fn without_sealed(&self, text: &str, instead: &str) -> String {
        marker::replace_markers(text, instead)
    }
}

/// Records what was reported to it, as the database would.
#[derive(Default)]
pub struct MemoryLedger(pub Vec<Item>);

impl Ledger for MemoryLedger {
    fn intend(&mut self, items: &[Item]) -> Result<(), LedgerError> {
        self.forget(items)?;
        self.0.extend_from_slice(items);
        Ok(())
    }

    fn confirm(&mut self, _kind: &str, _assignment: &str) -> Result<(), LedgerError> {
        self.0
            .iter_mut()
            .for_each(|item| item.phase = Phase::Applied);
        Ok(())
    }

    fn other_holder(&self, _: &str, _: &str, _: &str) -> Result<Option<String>, LedgerError> {
        Ok(None)
    }

    fn forget(&mut self, items: &[Item]) -> Result<(), LedgerError> {
        let same = |a: &Item, b: &Item| a.item == b.item && a.assignment == b.assignment;
        self.0
            .retain(|known| !items.iter().any(|item| same(item, known)));
        Ok(())
    }
}

/// The assignment `name` of `site`, with `files` as they were rendered into `folder`.
pub fn desired(
    folder: &Path,
    site: &str,
    name: &str,
    drift: DriftPolicy,
    files: &[(&str, &str)],
) -> Desired {
    let rendered = folder.join("rendered");
    let files = files.iter().map(|(path, text)| {
        let to = rendered.join(path);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(&to, text).unwrap();
        IndexFile {
            path: path.parse().unwrap(),
            content: Digest::of(text.as_bytes()),
            size: text.len() as u64,
            executable: false,
        }
    });
    Desired {
        generation: 1,
        fleet: "f".parse().unwrap(),
        environment: "dev".parse().unwrap(),
        site: site.parse().unwrap(),
        drift,
        assignment: Assignment {
            name: name.parse().unwrap(),
            workload: "app".into(),
            workspace: "team".into(),
            policies: Vec::new(),
            config_version: Digest::of(b""),
            files: files.collect(),
            payload: Vec::new(),
            sites: None,
            overlays: Vec::new(),
            site_values: None,
            bootstrap: None,
        },
        payload: rendered.clone(),
        rendered,
        site_values: std::collections::BTreeMap::new(),
    }
}
