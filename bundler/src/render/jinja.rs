//! Jinja: the engine as templates get it, and values on their way into and out of it.
//!
//! What comes in: a template and the data of one assignment. What goes out: its text, no longer than it
//! may be, or what is wrong with it and where. The engine reaches neither the clock nor the network nor
//! a file, and counts its steps; what fills the memory in a few of them is for
//! [`super::jinja_process`].

use std::collections::BTreeMap;
use std::sync::Arc;

use outhaul_gocompat as go;
use outhaul_gocompat::{GoValue, TemplateView};

use super::jinja_process::Problem;

/// Steps that one Jinja manifest may take: as much as a large loop needs, well below a second.
const JINJA_FUEL: u64 = 2_000_000;

/// Longest text of one Jinja manifest, in bytes: ten times what a Kubernetes server accepts.
const MAX_JINJA_BYTES: usize = 16 << 20;

pub(super) fn problem(error: &minijinja::Error) -> Problem {
    let what = match error.kind() {
        minijinja::ErrorKind::WriteFailure => {
            format!("its text is longer than {MAX_JINJA_BYTES} bytes")
        }
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

/// One template on its own, for a process of its own.
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

fn to_jinja(value: &GoValue) -> minijinja::Value {
    use minijinja::Value;
    match value {
        GoValue::Null => Value::from(()),
        GoValue::Bool(truth) => Value::from(*truth),
        GoValue::Int(number) => Value::from(*number),
        GoValue::Uint(number) => Value::from(*number),
        GoValue::Float(number) => Value::from(*number),
        GoValue::Str(text) => Value::from(Arc::clone(text)),
        GoValue::Time(text) => Value::from(text.clone()),
        GoValue::Bytes(bytes) => Value::from_bytes(bytes.clone()),
        GoValue::List(items) => items.iter().map(to_jinja).collect(),
        GoValue::Map(map) => Value::from_pairs(
            map.iter()
                .map(|(key, value)| (to_jinja(key), to_jinja(value))),
        ),
    }
}

/// A value that a template made, as the rest of the program has it.
pub(super) fn from_jinja(value: &minijinja::Value) -> GoValue {
    use minijinja::value::ValueKind;
    match value.kind() {
        ValueKind::Bool => GoValue::Bool(value.is_true()),
        ValueKind::Number => match (
            value.is_integer(),
            value.as_i64(),
            value.to_string().parse(),
        ) {
            (true, Some(number), _) => GoValue::Int(number),
            (_, _, Ok(number)) => GoValue::Float(number),
            _ => GoValue::from(value.to_string()),
        },
        ValueKind::Undefined | ValueKind::None => GoValue::Null,
        ValueKind::Seq | ValueKind::Iterable => GoValue::List(
            value
                .try_iter()
                .into_iter()
                .flatten()
                .map(|v| from_jinja(&v))
                .collect(),
        ),
        ValueKind::Map => {
            let mut map = go::GoMap::default();
            for key in value.try_iter().into_iter().flatten() {
                let item = value.get_item(&key).unwrap_or_default();
                map.insert(key.to_string(), from_jinja(&item));
            }
            GoValue::Map(map)
        }
        _ => GoValue::from(value.to_string()),
    }
}
