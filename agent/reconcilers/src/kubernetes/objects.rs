//! What an assignment asks for: its files as objects, and what the stream says about them.
//!
//! What comes in: an assignment and the site's keys. What goes out: every object of its YAML and JSON files,
//! rendered ones and payload, in the order in which they are applied, and the settings of the one
//! `KubernetesApply` among the rendered files. It asks no server, and what it cannot read is a problem, never
//! left out; files of other kinds are named as such.

use std::collections::BTreeSet;
use std::path::Path;

use outhaul_bundle::Digest;
use outhaul_kit::durable;
use outhaul_kubernetes::yaml::Budget;
use outhaul_kubernetes::{Object, manifest, order};
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::assignment::Desired;
use crate::context::ReconcilerContext;
use crate::sealed::{Keys, struck_out};

/// Largest file of manifests in bytes.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// Most objects of one assignment.
const MAX_OBJECTS: usize = 5000;
/// Longest wait that a stream may ask for: a day. Nothing else is done meanwhile.
const MAX_WAIT_S: u64 = 24 * 60 * 60;
/// The group of objects that are for the agent itself.
const OWN_GROUP: &str = "outhaul.dev";

/// What the stream says about applying.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct ApplySettings {
    /// Where objects go that name no namespace.
    pub namespace: Option<String>,
    /// What is done with objects that someone else made.
    pub conflicts: ConflictPolicy,
    /// Seconds to wait for the objects to be ready, instead of the site's own.
    pub wait_seconds: Option<u64>,
}

/// What is done with objects that someone else made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConflictPolicy {
    /// Nothing is applied.
    #[default]
    Refuse,
    /// They are adopted, and left there when the assignment goes.
    Force,
}

/// What becomes of a workload's own files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadUse {
    /// The agent applies the manifests among them.
    Applied,
    /// The controller fetches them.
    Fetched,
    /// The controller gets them within an object.
    HandedOn,
}

/// One object and the file that it is from.
#[derive(Debug)]
pub struct DesiredObject {
    /// The object.
    pub object: Object,
    /// Digest of the file, with its sealed values sealed.
    pub content: Digest,
    /// What this site changed in it, for people.
    pub note: String,
}

/// All that an assignment asks for.
#[derive(Debug, Default)]
pub struct DesiredObjects {
    /// The assignment's name.
    pub assignment: String,
    /// What the stream says.
    pub settings: ApplySettings,
    /// The objects, in the order in which they are applied.
    pub objects: Vec<DesiredObject>,
    /// The workload's own files by their paths, where they are handed on.
    pub payload: Vec<(String, Zeroizing<String>)>,
    /// Files that hold no manifests.
    pub others: Vec<String>,
    /// Values that must not be shown.
    pub values: Vec<Zeroizing<String>>,
}

/// Reads the files of `desired`; of the workload's own as `payload` says.
///
/// # Errors
/// One sentence with the file.
pub fn read(
    desired: &Desired,
    site: &dyn ReconcilerContext,
    payload: PayloadUse,
) -> Result<DesiredObjects, String> {
    let mut all = DesiredObjects {
        assignment: desired.assignment.name.to_string(),
        ..DesiredObjects::default()
    };
    // A problem may name what it found, which may be a value that was opened on the way to it.
    fill(&mut all, desired, site, payload).map_err(|problem| struck_out(&problem, &all.values))?;
    Ok(all)
}

fn fill(
    all: &mut DesiredObjects,
    desired: &Desired,
    site: &dyn ReconcilerContext,
    payload_use: PayloadUse,
) -> Result<(), String> {
    let keys = site.keys().map_err(|error| error.to_string())?;
    let mut budget = Budget::default();
    let mut said = false;
    for (at, (file, path, shown)) in desired.files().enumerate() {
        let payload = at >= desired.assignment.files.len();
        if payload && payload_use == PayloadUse::Fetched {
            continue;
        }
        let ending = file
            .path
            .as_str()
            .rsplit_once('.')
            .map_or("", |(_, ending)| ending);
        let hands_on = payload && payload_use == PayloadUse::HandedOn;
        if !hands_on
            && !matches!(
                ending.to_ascii_lowercase().as_str(),
                "yaml" | "yml" | "json"
            )
        {
            all.others.push(shown);
            continue;
        }
        let opened = keys
            .open_file(&path, &shown, &desired.binding())
            .map_err(|error| error.to_string())?;
        let text = match opened {
            Some(opened) => {
                all.values.extend(opened.values);
                if !hands_on {
                    no_sealed_names(&*keys, &path, &shown)?;
                }
                opened.text
            }
            None => {
                let bytes =
                    durable::read(&path, MAX_FILE_BYTES).map_err(|error| error.to_string())?;
                let text =
                    String::from_utf8(bytes).map_err(|_| format!("`{shown}` is not text"))?;
                Zeroizing::new(text)
            }
        };
        if hands_on {
            all.payload.push((file.path.to_string(), text));
            continue;
        }
        for object in manifest::objects(&text, &shown, &mut budget)? {
            if object.key.group == OWN_GROUP {
                if payload || said {
                    return Err(format!(
                        "{}: one `KubernetesApply` may be among the rendered files, and none in the payload",
                        object.place
                    ));
                }
                said = true;
                all.settings = settings(&object)?;
                continue;
            }
            all.objects.push(DesiredObject {
                object,
                content: file.content,
                note: String::new(),
            });
            if all.objects.len() > MAX_OBJECTS {
                return Err(format!("it has more than {MAX_OBJECTS} objects"));
            }
        }
    }
    if all.objects.is_empty() {
        return Err("it has no manifests to apply".into());
    }
    Ok(())
}

/// Names are in the inventory, in every log of the cluster and in what its server says: none is sealed.
fn no_sealed_names(keys: &dyn Keys, path: &Path, shown: &str) -> Result<(), String> {
    const STAND_IN: &str = "outhaul-sealed-value";
    let bytes = durable::read(path, MAX_FILE_BYTES).map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|_| format!("`{shown}` is not text"))?;
    let text = keys.without_sealed(&text, STAND_IN);
    for object in manifest::objects(&text, shown, &mut Budget::default())? {
        let key = object.key.to_string();
        if key.contains(STAND_IN) || object.version.contains(STAND_IN) {
            return Err(format!(
                "{}: `{}`: a sealed value cannot be part of an object's name, namespace, kind or version: these \
                 are in the inventory and in logs",
                object.place,
                key.replace(STAND_IN, "[sealed]")
            ));
        }
    }
    Ok(())
}

fn settings(object: &Object) -> Result<ApplySettings, String> {
    if object.key.kind != "KubernetesApply" {
        return Err(format!(
            "{}: `{}` is not known here",
            object.place, object.key.kind
        ));
    }
    let spec = object.value["spec"].clone();
    let spec = if spec.is_null() {
        serde_json::json!({})
    } else {
        spec
    };
    let place = &object.place;
    let settings: ApplySettings =
        serde_json::from_value(spec).map_err(|error| format!("{place}: `spec`: {error}"))?;
    if let Some(seconds) = settings.wait_seconds
        && !(1..=MAX_WAIT_S).contains(&seconds)
    {
        return Err(format!(
            "{place}: `spec.waitSeconds` is {seconds}; it may be 1 to {MAX_WAIT_S}"
        ));
    }
    if let Some(namespace) = &settings.namespace
        && !manifest::fits(namespace)
    {
        return Err(format!(
            "{place}: `spec.namespace`: `{}` cannot be a name",
            namespace.escape_debug()
        ));
    }
    Ok(settings)
}

impl DesiredObjects {
    /// The namespace for objects that name none: the one that the stream says, else the only one that the
    /// assignment itself makes.
    pub fn namespace(&self) -> Option<String> {
        if let Some(said) = &self.settings.namespace {
            return Some(said.clone());
        }
        let mut made = self
            .objects
            .iter()
            .filter(|wanted| wanted.object.key.is_namespace());
        match (made.next(), made.next()) {
            (Some(only), None) => Some(only.object.key.name.clone()),
            _ => None,
        }
    }

    /// Puts the objects into the order in which they are applied, once each has its namespace.
    ///
    /// # Errors
    /// When two are the same.
    pub fn arrange(&mut self) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for wanted in &self.objects {
            if !seen.insert(&wanted.object.key) {
                let Object { key, place, .. } = &wanted.object;
                return Err(format!("{place}: `{key}` is there twice"));
            }
        }
        self.objects.sort_by_cached_key(|wanted| {
            (order::rank(&wanted.object.key), wanted.object.key.clone())
        });
        Ok(())
    }
}
