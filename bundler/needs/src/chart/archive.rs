//! The archive of a chart, as far as it decides about images.
//!
//! What comes in: a `.tgz` as `helm package` makes it, bounded. What goes out: name and version, default values,
//! templates, and the charts below it. What does not unpack, or is another form than a chart, is an error; values that cannot be
//! read are a problem that is named. Nothing is written, and no path of the archive becomes one of this machine.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use flate2::read::GzDecoder;
use outhaul_control::diagnostic::SourceFile;
use outhaul_control::yaml::{self, Node, YamlValue};
use outhaul_kit::bounds::MAX_CHART_ARCHIVE_BYTES;
use serde_json::Value as Json;

use crate::values::json;

/// Most bytes of a chart and all charts below it, unpacked.
const MAX_UNPACKED: u64 = 64 << 20;
/// Most files of them.
const MAX_FILES: usize = 20_000;
/// Largest file that is looked at.
const MAX_FILE: u64 = 4 << 20;
/// Deepest charts below charts.
const MAX_DEPTH: usize = 5;

/// A chart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chart {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The version of what it installs.
    pub app_version: Option<String>,
    /// The charts that it lists as needed.
    pub dependencies: Vec<ChartDependency>,
    /// Its default values.
    pub values: Json,
    /// Its templates by their paths in it.
    pub templates: BTreeMap<String, String>,
    /// The charts that are in it.
    pub charts: Vec<Chart>,
    /// What of it cannot be read.
    pub problems: Vec<String>,
}

/// A chart that another one lists as needed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChartDependency {
    /// Its name.
    pub name: String,
    /// The key of its values, where that is another one.
    pub alias: Option<String>,
    /// The values that switch it on.
    pub condition: Option<String>,
}

/// What is left of the bounds.
struct Budget {
    bytes: u64,
    files: usize,
}

impl Chart {
    /// Reads an archive.
    ///
    /// # Errors
    /// What is wrong with it, to be put after its name.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut budget = Budget {
            bytes: MAX_UNPACKED,
            files: MAX_FILES,
        };
        unpacked(bytes, &mut budget, 0)
    }
}

fn unpacked(bytes: &[u8], budget: &mut Budget, depth: usize) -> Result<Chart, String> {
    if depth > MAX_DEPTH {
        return Err(format!("has charts below charts, deeper than {MAX_DEPTH}"));
    }
    let mut out = BoundedArchive {
        from: GzDecoder::new(bytes),
        left: budget.bytes,
    };
    let mut files = BTreeMap::new();
    let mut archive = tar::Archive::new(&mut out);
    let bad = |error: std::io::Error| format!("does not unpack: {error}");
    for entry in archive.entries().map_err(bad)? {
        let mut entry = entry.map_err(bad)?;
        budget.files = budget
            .files
            .checked_sub(1)
            .ok_or_else(|| format!("has more than {MAX_FILES} files"))?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        // All lies in one folder, which is called as the chart.
        let Some((_, path)) = path.trim_start_matches("./").split_once('/') else {
            continue;
        };
        if !is_wanted(path) {
            continue;
        }
        let max = if path.ends_with(".tgz") {
            MAX_CHART_ARCHIVE_BYTES
        } else {
            MAX_FILE
        };
        let mut content = Vec::new();
        let path = path.to_owned();
        entry
            .by_ref()
            .take(max + 1)
            .read_to_end(&mut content)
            .map_err(bad)?;
        if content.len() as u64 > max {
            return Err(format!(
                "has a file `{}` of more than {max} bytes",
                shown(&path)
            ));
        }
        files.insert(path, content);
    }
    budget.bytes = out.left;
    chart(&files, budget, depth)
}

/// What decides about images.
fn is_wanted(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_template = path.contains("templates/")
        && [".yaml", ".yml", ".tpl", ".txt"]
            .iter()
            .any(|end| name.ends_with(end));
    let is_chart = path.contains("charts/") && name.ends_with(".tgz");
    matches!(name, "Chart.yaml" | "values.yaml" | "requirements.yaml") || is_template || is_chart
}

fn chart(
    files: &BTreeMap<String, Vec<u8>>,
    budget: &mut Budget,
    depth: usize,
) -> Result<Chart, String> {
    if depth > MAX_DEPTH {
        return Err(format!("has charts below charts, deeper than {MAX_DEPTH}"));
    }
    let Some(description) = files.get("Chart.yaml") else {
        return Err("has no `Chart.yaml`: it is not the archive of a chart".to_owned());
    };
    let description = parsed("Chart.yaml", description)?;
    let text = |node: &Node, key: &str| match node.field(key).map(|node| &node.value) {
        Some(YamlValue::String(text) | YamlValue::Number(text)) if !text.is_empty() => {
            Some(text.clone())
        }
        _ => None,
    };
    let mut made = Chart {
        name: text(&description, "name").ok_or("has no name in its `Chart.yaml`")?,
        version: text(&description, "version").ok_or("has no version in its `Chart.yaml`")?,
        app_version: text(&description, "appVersion"),
        ..Chart::default()
    };
    let older = files.get("requirements.yaml");
    let older = older.and_then(|bytes| parsed("requirements.yaml", bytes).ok());
    for of in std::iter::once(&description).chain(&older) {
        if let Some(YamlValue::Sequence(items)) = of.field("dependencies").map(|node| &node.value) {
            made.dependencies
                .extend(items.iter().map(|item| ChartDependency {
                    name: text(item, "name").unwrap_or_default(),
                    alias: text(item, "alias"),
                    condition: text(item, "condition"),
                }));
        }
    }
    match files
        .get("values.yaml")
        .map(|bytes| parsed("values.yaml", bytes))
    {
        Some(Ok(node)) => made.values = json(&node),
        Some(Err(problem)) => made.problems.push(format!("the chart {problem}")),
        None => {}
    }
    let mut below: BTreeMap<&str, BTreeMap<String, Vec<u8>>> = BTreeMap::new();
    for (path, bytes) in files {
        if let Some(path) = path.strip_prefix("charts/") {
            match path.split_once('/') {
                Some((folder, path)) => {
                    let folder = below.entry(folder).or_default();
                    folder.insert(path.to_owned(), bytes.clone());
                }
                None if path.ends_with(".tgz") => {
                    let one = unpacked(bytes, budget, depth + 1);
                    made.charts.push(one.map_err(|problem| {
                        format!("has `charts/{}`, which {problem}", shown(path))
                    })?);
                }
                None => {}
            }
        } else if path.starts_with("templates/") {
            let text = String::from_utf8_lossy(bytes).into_owned();
            made.templates.insert(path.clone(), text);
        }
    }
    for (folder, files) in below {
        if files.contains_key("Chart.yaml") {
            let one = chart(&files, budget, depth + 1);
            let one =
                one.map_err(|problem| format!("has `charts/{}`, which {problem}", shown(folder)))?;
            made.charts.push(one);
        }
    }
    Ok(made)
}

/// The one document of a file; an empty map for an empty one.
fn parsed(name: &str, bytes: &[u8]) -> Result<Node, String> {
    let file = Arc::new(SourceFile {
        name: name.to_owned(),
        text: String::from_utf8_lossy(bytes).into_owned(),
    });
    let documents = yaml::parse(&file).map_err(|finding| {
        let at = finding.location.as_ref().map(ToString::to_string);
        let at = at.unwrap_or_else(|| name.to_owned());
        format!(
            "has a `{name}` that cannot be read ({at}): {}",
            finding.message
        )
    })?;
    let empty = || Node {
        value: YamlValue::Mapping(Vec::new()),
        span: 0..0,
    };
    Ok(documents.into_iter().next().unwrap_or_else(empty))
}

fn shown(path: &str) -> String {
    let good = path.chars().filter(|c| !c.is_control());
    good.take(120).collect()
}

/// What is unpacked, as much as may be.
struct BoundedArchive<R> {
    from: R,
    left: u64,
}

impl<R: Read> Read for BoundedArchive<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.left = self.left.checked_sub(count as u64).ok_or_else(|| {
            std::io::Error::other(format!("it has more than {MAX_UNPACKED} bytes unpacked"))
        })?;
        Ok(count)
    }
}
