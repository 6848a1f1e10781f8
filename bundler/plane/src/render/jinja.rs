//! Jinja: the engine as templates get it.
//!
//! What comes in: a template and the data of one assignment. What goes out: its text, no longer than it
//! may be, or what is wrong with it and where. The engine reaches neither the clock nor the network nor
//! a file, and counts its steps; what fills the memory in a few of them is for
//! [`super::jinja_process`].

use std::collections::BTreeMap;

use outhaul_gocompat as go;
use outhaul_gocompat::TemplateView;
use serde::{Deserialize, Serialize};

use super::jinja_value::to_jinja;

/// What is wrong with a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Problem {
    /// The line in the template, from 1.
    pub line: usize,
    /// The byte in the template, where it is known.
    pub start: Option<usize>,
    /// What.
    pub what: String,
}

/// Steps that one Jinja manifest may take: as much as a large loop needs, well below a second.
const JINJA_FUEL: u64 = 2_000_000;

/// Longest text of one Jinja manifest, in bytes: ten times what a Kubernetes server accepts.
const MAX_JINJA_BYTES: usize = 16 << 20;

pub(super) fn problem(error: &minijinja::Error) -> Problem {
    let what = match error.kind() {
        minijinja::ErrorKind::WriteFailure => {
            format!("its text is longer than {MAX_JINJA_BYTES} bytes")
        }
        minijinja::ErrorKind::OutOfFuel => format!(
            "it takes more than {JINJA_FUEL} steps, as a loop without an end does, and was stopped"
        ),
        kind => error
            .detail()
            .map_or_else(|| kind.to_string(), str::to_owned),
    };
    Problem {
        line: error.line().unwrap_or(1),
        start: error.range().map(|range| range.start),
        what,
    }
}

/// The text of one template, which is not written any further when it gets too long.
pub(super) fn bounded(
    jinja: &minijinja::Environment<'_>,
    name: &str,
    context: &minijinja::Value,
) -> Result<String, Problem> {
    let mut out = Bounded::default();
    jinja
        .get_template(name)
        .and_then(|parsed| {
            parsed
                .render_captured_to(context.clone(), &mut out)
                .map(drop)
        })
        .map_err(|error| problem(&error))?;
    String::from_utf8(out.bytes).map_err(|error| Problem {
        line: 1,
        start: None,
        what: error.to_string(),
    })
}

#[derive(Default)]
struct Bounded {
    bytes: Vec<u8>,
}

impl std::io::Write for Bounded {
    fn write(&mut self, more: &[u8]) -> std::io::Result<usize> {
        if self.bytes.len() + more.len() > MAX_JINJA_BYTES {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(more);
        Ok(more.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// One template on its own, for a separate process.
pub(super) struct One(Result<minijinja::Environment<'static>, Problem>);

impl One {
    /// Parses it.
    pub fn new(text: &str) -> Self {
        let mut jinja = environment();
        let added = jinja.add_template_owned("one".to_owned(), text.to_owned());
        Self(added.map(|()| jinja).map_err(|error| problem(&error)))
    }

    /// Its text for `data`.
    pub fn render(&self, data: &go::TemplateData) -> Result<String, Problem> {
        let jinja = self.0.as_ref().map_err(Clone::clone)?;
        bounded(jinja, "one", &jinja_context(data.view()))
    }
}

pub(super) fn environment() -> minijinja::Environment<'static> {
    let mut environment = minijinja::Environment::new();
    environment.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
    let mut syntax = minijinja::syntax::SyntaxConfig::builder();
    syntax.keep_trailing_newline(true);
    // Without custom delimiters there is nothing in the syntax that could be refused.
    if let Ok(syntax) = syntax.build() {
        environment.set_syntax(syntax);
    }
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_fuel(Some(JINJA_FUEL));
    environment.set_recursion_limit(50);
    super::filters::add(&mut environment);
    environment
}

/// The data under the names that Go templates know it by.
pub(super) fn jinja_context(data: TemplateView<'_>) -> minijinja::Value {
    let map = |labels: Option<&BTreeMap<String, String>>| {
        minijinja::Value::from_pairs(labels.cloned().unwrap_or_default())
    };
    minijinja::Value::from_pairs([
        (
            "DeploymentTargetName",
            minijinja::Value::from(data.deployment_target_name),
        ),
        ("Namespace", minijinja::Value::from(data.namespace)),
        ("Environment", minijinja::Value::from(data.environment)),
        ("Workspace", minijinja::Value::from(data.workspace)),
        ("Workload", minijinja::Value::from(data.workload)),
        ("Labels", map(data.labels)),
        ("Manifests", map(data.manifests)),
        ("ClusterType", minijinja::Value::from(data.cluster_type)),
        ("ConfigData", to_jinja(data.config_data)),
    ])
}
