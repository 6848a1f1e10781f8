//! `Template`: Kalypso's (Go text/template) and ours (Jinja).
//!
//! What comes in: the object's fields. What goes out: a [`Template`]. A template's text is text: it is
//! never read as YAML, whatever it looks like. Whether it parses is checked when it is used.

use serde_json::Value;

use super::super::diagnostic::Diagnostic;
use super::super::model::{
    Language, RECONCILER_LABEL, ReconcilerKind, Spanned, Template, TemplateType,
};
use super::fields::{FieldReader, Fields};
use super::metadata::Metadata;
use super::shape::{
    Field, KindSchema, LABELS, any_text, kind, may, must, object, one_of, pattern, some,
};
use super::{KALYPSO, OUTHAUL};
use outhaul_kit::suggest::{did_you_mean, nearest};

/// Longest ending of a file.
const MAX_ENDING: usize = 32;
/// Content types that Kalypso knows; of another one it makes YAML.
const KALYPSO_TYPES: [&str; 2] = ["yaml", "sh"];
/// Endings that templates usually have, for telling a slip of the hand from an ending that is meant.
const USUAL_ENDINGS: [&str; 19] = [
    "bash",
    "cnf",
    "conf",
    "container",
    "env",
    "ini",
    "json",
    "jsonl",
    "properties",
    "py",
    "service",
    "sh",
    "timer",
    "toml",
    "txt",
    "xml",
    "xsl",
    "yaml",
    "yml",
];
const TYPES: [TemplateType; 3] = [
    TemplateType::Reconciler,
    TemplateType::Namespace,
    TemplateType::Config,
];

/// What both groups' templates have.
fn common_fields(language: &'static str, ending: Value) -> Vec<Field> {
    vec![
        must(
            "type",
            "What it makes.",
            one_of(&TYPES.map(TemplateType::as_str)),
        ),
        may(
            "contentType",
            "The ending of the files: `sh`, or `yaml` when left out.",
            ending,
        ),
        must("manifests", language, some(any_text("kind: ConfigMap"))),
    ]
}

pub(super) fn kalypso_described() -> KindSchema {
    kind(
        KALYPSO,
        "Template",
        "How an assignment becomes manifests, in Go's text/template.",
        LABELS,
        object(common_fields(
            "The manifests, each as text in Go's template language (`- |`).",
            any_text("yaml"),
        )),
    )
}

pub(super) fn own_described() -> KindSchema {
    let mut fields = common_fields(
        "The manifests, each as text in Jinja (`- |`).",
        pattern("^([A-Za-z0-9]+([.][A-Za-z0-9]+)*)?$", "yaml"),
    );
    fields.push(may(
        "reconciler",
        "What makes its result real on site: one that Outhaul knows, or the name of a hook program; inferred \
         from its text when left out.",
        reconciler_shape(),
    ));
    kind(
        OUTHAUL,
        "Template",
        "How an assignment becomes manifests, in Jinja.",
        LABELS,
        object(fields),
    )
}

/// Any name; an editor offers those that are known.
fn reconciler_shape() -> Value {
    let known: Vec<String> = ReconcilerKind::KNOWN
        .iter()
        .map(|kind| kind.as_str().to_owned())
        .collect();
    let mut any = pattern("^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$", "symphony");
    any["examples"] = known.into();
    any
}

pub(super) fn kalypso(reader: &mut FieldReader<'_>, object: &Fields<'_>) -> Option<Template> {
    read(reader, object, Language::Go)
}

pub(super) fn own(reader: &mut FieldReader<'_>, object: &Fields<'_>) -> Option<Template> {
    read(reader, object, Language::Jinja)
}

fn read(reader: &mut FieldReader<'_>, object: &Fields<'_>, language: Language) -> Option<Template> {
    let metadata = Metadata::read(reader, object);
    let spec = reader.section(object, "spec")?;
    let written = reader.text(&spec, "type");
    let content_type = reader
        .optional_text(&spec, "contentType")
        .filter(|c| !c.value.is_empty());
    let labels = metadata.as_ref().map(|metadata| &metadata.labels);
    // Kalypso's has no such field, only the label.
    let reconciler = match language {
        Language::Go => None,
        Language::Jinja => reader.optional_text(&spec, "reconciler"),
    };
    let reconciler = reconciler.or_else(|| labels?.get(RECONCILER_LABEL).cloned());
    if let Some(written) = &content_type {
        match language {
            Language::Jinja => is_ending(reader, written).then_some(())?,
            Language::Go => is_kalypso_type(reader, written),
        }
    }
    let manifests = reader.texts(&spec, "manifests");
    let complete = manifests.len() == reader.list(&spec, "manifests").len();
    let kind = kind_of(reader, &written?)?;
    let reconciler = match reconciler {
        None => None,
        Some(written) => Some(reconciler_of(reader, &written)?),
    };
    if manifests.is_empty() && complete {
        let location = reader.location(spec.node);
        reader.report(
            Diagnostic::error(
                "missing-field",
                format!("`{}.manifests` is empty", spec.what),
            )
            .at(&location)
            .help("give at least one manifest, as a block of text (`- |`)"),
        );
    }
    let metadata = metadata?;
    complete.then_some(Template {
        name: metadata.name,
        language,
        kind,
        content_type,
        reconciler,
        manifests,
        location: metadata.location,
    })
}

/// It becomes part of a file's name, here and on site.
fn is_ending(reader: &mut FieldReader<'_>, written: &Spanned<String>) -> bool {
    let ending = &written.value;
    let sound = ending.len() <= MAX_ENDING
        && ending
            .split('.')
            .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric()));
    if !sound {
        reader.report(
            Diagnostic::error(
                "bad-value",
                format!("`{ending}` is not the ending of a file"),
            )
            .at(&written.location)
            .help("write letters and digits, such as `yaml`, `sh` or `service`"),
        );
    } else if !USUAL_ENDINGS.contains(&ending.as_str())
        && let Some(near) = nearest(ending, &USUAL_ENDINGS)
    {
        reader.report(
            Diagnostic::warning(
                "unknown-content-type",
                format!(
                    "the files of this template end in `.{ending}`, which is not a usual ending"
                ),
            )
            .at(&written.location)
            .help(format!("did you mean `{near}`?")),
        );
    }
    sound
}

/// Kalypso says nothing of another content type, and makes YAML.
fn is_kalypso_type(reader: &mut FieldReader<'_>, written: &Spanned<String>) {
    let text = &written.value;
    if !KALYPSO_TYPES.contains(&text.as_str()) {
        reader.report(
            Diagnostic::warning(
                "unknown-content-type",
                format!(
                    "content type `{text}` is unknown to Kalypso: the files are treated as YAML"
                ),
            )
            .at(&written.location)
            .help(did_you_mean(text, &KALYPSO_TYPES)),
        );
    }
}

fn kind_of(reader: &mut FieldReader<'_>, written: &Spanned<String>) -> Option<TemplateType> {
    let kind = TYPES
        .into_iter()
        .find(|kind| kind.as_str() == written.value);
    if kind.is_none() {
        reader.report(
            Diagnostic::error(
                "bad-value",
                format!("unknown template type `{}`", written.value),
            )
            .at(&written.location)
            .help(did_you_mean(
                &written.value,
                &TYPES.map(TemplateType::as_str),
            )),
        );
    }
    kind
}

/// Any name: what Outhaul does not know itself is a hook program on site. One that is nearly a name that it
/// knows is most likely that one.
fn reconciler_of(
    reader: &mut FieldReader<'_>,
    written: &Spanned<String>,
) -> Option<ReconcilerKind> {
    let known = ReconcilerKind::KNOWN;
    let names: Vec<&str> = known.iter().map(ReconcilerKind::as_str).collect();
    let kind = ReconcilerKind::named(&written.value);
    match &kind {
        None => reader.report(
            Diagnostic::error(
                "unknown-reconciler",
                format!("`{}` is not the name of a reconciler", written.value),
            )
            .at(&written.location)
            .help(did_you_mean(&written.value, &names)),
        ),
        Some(ReconcilerKind::Other(_)) => {
            if let Some(near) = nearest(&written.value, &names) {
                reader.report(
                    Diagnostic::warning(
                        "unknown-reconciler",
                        format!(
                            "`{}` is not a reconciler that Outhaul knows: its sites need a hook program of this name",
                            written.value
                        ),
                    )
                    .at(&written.location)
                    .help(format!("did you mean `{near}`?")),
                );
            }
        }
        Some(_) => {}
    }
    kind
}
