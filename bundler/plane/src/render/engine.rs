//! Both template languages behind one call: parsed once, rendered for many assignments.
//!
//! What comes in: the control plane's templates, then for each assignment a template's name and the
//! data. What goes out: the text of all its manifests, joined, or findings with their places in the
//! template's file. No engine can reach the clock, the network, the environment or a file.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use outhaul_gocompat as go;
use outhaul_gocompat::{Fields, RenderOptions, TemplateView};

use super::culprit::{self, Culprit};
use super::jinja::{Problem, bounded, environment, jinja_context, problem};
use super::jinja_process::{self, Process};
use super::place;
use crate::compose::Mode;
use crate::inputs::Inputs;
use crate::templates;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics, Location};
use outhaul_control::model::{Language, ReconcilerKind, Spanned, Template, TemplateType};
use outhaul_kit::suggest::did_you_mean;

/// Texts that many assignments have in common, because their template sees nothing of the others'
/// fields: by template, and by target or cluster type. For one thread.
#[derive(Debug, Default)]
pub struct Shared<'a> {
    /// The target that is rendered now.
    pub target: &'a str,
    /// The cluster type that it is rendered for.
    pub cluster_type: &'a str,
    texts: HashMap<(usize, &'a str), Arc<str>>,
}

/// One manifest's text.
enum Text {
    Own(String),
    Shared(Arc<str>),
}

impl Text {
    fn as_str(&self) -> &str {
        match self {
            Self::Own(text) => text,
            Self::Shared(text) => text,
        }
    }
}

/// Every template, parsed.
pub struct Engines<'a> {
    control_plane: Inputs<'a>,
    compat: bool,
    options: RenderOptions,
    go: BTreeMap<(&'a str, usize), Result<go::Template, go::TemplateError>>,
    jinja: minijinja::Environment<'static>,
    process: Process,
    jinja_errors: BTreeMap<(&'a str, usize), minijinja::Error>,
}

impl<'a> Engines<'a> {
    /// Parses all templates; an error is kept until something needs its template.
    pub fn new(control_plane: Inputs<'a>, mode: Mode) -> Self {
        let options = RenderOptions {
            compat: mode.compat,
            ..RenderOptions::default()
        };
        let mut engines = Self {
            control_plane,
            compat: mode.compat,
            go: BTreeMap::new(),
            jinja: environment(),
            process: Process::default(),
            jinja_errors: BTreeMap::new(),
            options,
        };
        for template in control_plane.templates.values() {
            for (at, manifest) in template.manifests.iter().enumerate() {
                let key = (template.name.as_str(), at);
                match template.language {
                    Language::Go => {
                        let parsed = go::Template::parse(&manifest.value, &engines.options);
                        engines.go.insert(key, parsed);
                    }
                    Language::Jinja => {
                        let name = jinja_name(&template.name, at);
                        let text = manifest.value.clone();
                        if let Err(error) = engines.jinja.add_template_owned(name, text) {
                            engines.jinja_errors.insert(key, error);
                        }
                    }
                }
            }
        }
        engines
    }

    /// What keeps templates from being parsed, used or not.
    pub fn unparsable(&self) -> Diagnostics {
        let mut findings = Diagnostics::new();
        for template in self.control_plane.templates.values() {
            for (at, manifest) in template.manifests.iter().enumerate() {
                let key = (template.name.as_str(), at);
                let found = match (self.go.get(&key), self.jinja_errors.get(&key)) {
                    (Some(Err(error)), _) => go_finding(template, manifest, error),
                    (_, Some(error)) => jinja_finding(template, manifest, &problem(error)),
                    _ => continue,
                };
                findings.push(*found);
            }
        }
        findings
    }

    /// Where the first container that sets `key` does so.
    pub fn first_set(&self, key: &str) -> Option<&'a Location> {
        let mut containers = self.control_plane.configs.values();
        containers.find_map(|container| Some(&container.data.get(key)?.location))
    }

    /// Whether Kalypso's defects are reproduced.
    pub fn compat(&self) -> bool {
        self.compat
    }

    /// Whether the agent applies what the template `name` renders to a cluster itself.
    pub fn makes_objects(&self, name: &str) -> bool {
        let template = self.control_plane.templates.get(name);
        template.and_then(|template| template.reconciler.as_ref())
            == Some(&ReconcilerKind::Kubernetes)
    }

    /// The reconciler for which the template `name` is, where the agent itself is that.
    pub fn applied_by_the_agent(&self, name: &str) -> Option<&'static str> {
        templates::kind_of(self.control_plane.templates.get(name)?)
    }

    /// The ending of the file that a template's text goes into.
    pub fn ending(&self, name: &str, kind: TemplateType) -> String {
        let template = self.control_plane.templates.get(name);
        let content_type = template.and_then(|template| template.content_type.as_ref());
        match (template.map(|template| template.language), content_type) {
            (Some(Language::Jinja), Some(ending)) => ending.value.clone(),
            // Kalypso looks at the content type of config templates only (its defect 16).
            (_, Some(text))
                if text.value == "sh" && (kind == TemplateType::Config || !self.compat) =>
            {
                "sh".into()
            }
            _ => "yaml".into(),
        }
    }

    /// The text of every manifest of the template `name`, joined as documents. `data` is that of the
    /// pair that `shared` names.
    pub fn render(
        &self,
        name: &Spanned<String>,
        kind: TemplateType,
        data: TemplateView<'_>,
        shared: &mut Shared<'a>,
    ) -> Result<String, Diagnostics> {
        let template = self.find(name, kind)?;
        let mut findings = Diagnostics::new();
        let mut texts = Vec::new();
        let context = match template.language {
            Language::Jinja => Some(jinja_context(data)),
            Language::Go => None,
        };
        for (at, manifest) in template.manifests.iter().enumerate() {
            let rendered = match &context {
                None => self.render_go(template, at, manifest, data, shared),
                Some(context) => self.render_jinja(template, at, manifest, context, data),
            };
            match rendered {
                // An empty document is dropped; white space is kept, as Kalypso keeps it.
                Ok(text) if text.as_str().is_empty() => {}
                Ok(text) => texts.push(text),
                Err(finding) => findings.push(*finding),
            }
        }
        if findings.is_empty() {
            Ok(self.join(texts))
        } else {
            Err(findings)
        }
    }

    fn find(
        &self,
        name: &Spanned<String>,
        kind: TemplateType,
    ) -> Result<&'a Template, Diagnostics> {
        let templates = &self.control_plane.templates;
        let known = || {
            let names: Vec<_> = templates
                .values()
                .filter(|template| template.kind == kind)
                .map(|template| format!("`{}`", template.name))
                .collect();
            if names.is_empty() {
                "none exist".to_owned()
            } else {
                names.join(", ")
            }
        };
        match templates.get(&name.value) {
            Some(template) if template.kind == kind => Ok(template),
            Some(template) => Err(Diagnostic::error(
                "template-type",
                format!(
                    "template `{}` is a {} template",
                    name.value,
                    template.kind.as_str()
                ),
            )
            .at(&name.location)
            .label(format!("a {} template is needed here", kind.as_str()))
            .related(&template.location, "it is written here")
            .help(format!("{} templates are: {}", kind.as_str(), known()))
            .into()),
            None => Err(Diagnostic::error(
                "missing-template",
                format!("there is no {} template `{}`", kind.as_str(), name.value),
            )
            .at(&name.location)
            .help(format!("{} templates are: {}", kind.as_str(), known()))
            .into()),
        }
    }

    fn render_go(
        &self,
        template: &Template,
        at: usize,
        manifest: &Spanned<String>,
        data: TemplateView<'_>,
        shared: &mut Shared<'a>,
    ) -> Result<Text, Box<Diagnostic>> {
        let parsed = match self.go.get(&(template.name.as_str(), at)) {
            Some(Ok(parsed)) => parsed,
            Some(Err(error)) => return Err(go_finding(template, manifest, error)),
            None => return Ok(Text::Own(String::new())),
        };
        let alike = match parsed.fields() {
            fields if fields.within(Fields::TARGET) => Some(shared.target),
            fields if fields.within(Fields::CLUSTER_TYPE) => Some(shared.cluster_type),
            _ => None,
        };
        let key = alike.map(|name| (std::ptr::from_ref(parsed).addr(), name));
        if let Some(text) = key.and_then(|key| shared.texts.get(&key)) {
            return Ok(Text::Shared(Arc::clone(text)));
        }
        let rendered = parsed
            .render_view(data, &self.options)
            .map_err(|error| go_finding(template, manifest, &error))?;
        // A later round may have seen any field.
        if let Some(key) = key.filter(|_| rendered.rounds == 1) {
            let text: Arc<str> = rendered.text.into();
            shared.texts.insert(key, Arc::clone(&text));
            return Ok(Text::Shared(text));
        }
        Ok(Text::Own(rendered.text))
    }

    fn render_jinja(
        &self,
        template: &Template,
        at: usize,
        manifest: &Spanned<String>,
        context: &minijinja::Value,
        data: TemplateView<'_>,
    ) -> Result<Text, Box<Diagnostic>> {
        if let Some(error) = self.jinja_errors.get(&(template.name.as_str(), at)) {
            return Err(jinja_finding(template, manifest, &problem(error)));
        }
        let name = jinja_name(&template.name, at);
        let rendered = if jinja_process::is_needed(&manifest.value) {
            self.process.render(&manifest.value, data)
        } else {
            bounded(&self.jinja, &name, context)
        };
        rendered.map(Text::Own).map_err(|problem| {
            let parsed = self.jinja.get_template(&name).ok();
            let culprit = parsed.zip(problem.start).and_then(|(parsed, start)| {
                culprit::find(&parsed, &self.jinja, context, FIELDS, start)
            });
            match culprit {
                Some(culprit) => named(template, manifest, culprit),
                None => jinja_finding(template, manifest, &problem),
            }
        })
    }

    /// Documents with `---` between them. Kalypso glues it to a text without a line end (its defect
    /// 13), which only `--compat` reproduces.
    fn join(&self, mut texts: Vec<Text>) -> String {
        if let (Some(Text::Own(_)), 1) = (texts.first(), texts.len())
            && let Some(Text::Own(only)) = texts.pop()
        {
            return only;
        }
        let length = texts.iter().map(|text| text.as_str().len() + 5).sum();
        let mut joined = String::with_capacity(length);
        for (at, text) in texts.iter().enumerate() {
            if at > 0 {
                if !self.compat && !joined.ends_with('\n') {
                    joined.push('\n');
                }
                joined.push_str("---\n");
            }
            joined.push_str(text.as_str());
        }
        joined
    }
}

/// What to write instead of a field that the data does not have (Kalypso's own page names some).
fn unknown_field(message: &str) -> Option<String> {
    let field = message
        .strip_prefix("can't evaluate field ")?
        .strip_suffix(" in type scheduler.dataType")?;
    Some(match field {
        "Repo" | "Branch" | "Path" => format!("write `.Manifests.{}`", field.to_lowercase()),
        _ => did_you_mean(field, FIELDS),
    })
}

/// The fields of the data.
const FIELDS: &[&str] = &[
    "ClusterType",
    "ConfigData",
    "DeploymentTargetName",
    "Environment",
    "Labels",
    "Manifests",
    "Namespace",
    "Workload",
    "Workspace",
];

fn go_finding(
    template: &Template,
    manifest: &Spanned<String>,
    error: &go::TemplateError,
) -> Box<Diagnostic> {
    let place = if error.round == 1 {
        place::inside(&manifest.location, error.line, error.column)
    } else {
        manifest.location.clone()
    };
    let mut finding = Diagnostic::error(
        "template",
        format!("template `{}`: {}", template.name, error.message),
    )
    .at(&place);
    if let Some(help) = unknown_field(&error.message) {
        finding = finding.help(help);
    }
    if error.round > 1 {
        finding = finding.help(format!(
            "a value brought `{{{{` into the text; this is line {} of the text after round {}",
            error.line,
            error.round - 1
        ));
    }
    Box::new(finding)
}

fn jinja_finding(
    template: &Template,
    manifest: &Spanned<String>,
    problem: &Problem,
) -> Box<Diagnostic> {
    let column = problem.start.map_or(1, |start| {
        let before = manifest.value.get(..start).unwrap_or_default();
        before.len() - before.rfind('\n').map_or(0, |at| at + 1) + 1
    });
    let message = format!("template `{}`: {}", template.name, problem.what);
    let finding = Diagnostic::error("template", message).at(&place::inside(
        &manifest.location,
        problem.line,
        column,
    ));
    Box::new(match problem.what.contains("end of variable block") {
        true => finding.help("a value is written `{{ NAME }}`, with two braces on each side"),
        false => finding,
    })
}

/// The finding about a name that the data does not have.
fn named(template: &Template, manifest: &Spanned<String>, culprit: Culprit) -> Box<Diagnostic> {
    let before = manifest.value.get(..culprit.at).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.len() - before.rfind('\n').map_or(0, |at| at + 1) + 1;
    let message = format!("template `{}`: {}", template.name, culprit.message);
    let at = place::inside(&manifest.location, line, column);
    Box::new(
        Diagnostic::error("template", message)
            .at(&at)
            .help(culprit.help),
    )
}

fn jinja_name(template: &str, at: usize) -> String {
    format!("{template}#{at}")
}
