//! Findings as text for people: the line, a caret, the text beside it, and a way out.
//!
//! What comes in: [`Diagnostics`]. What goes out: text for a terminal or a log. It draws only lines
//! around the place, none where that is a secret, and never prints control characters that a file brought along.

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use super::{Diagnostic, Diagnostics, Location, Severity};

/// What is said where a line is not drawn.
const HIDDEN: &str = "a line that holds what looks like a secret is not shown";

pub(super) fn render(diagnostics: &Diagnostics, colour: bool) -> String {
    let renderer = if colour {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    let mut text = String::new();
    for diagnostic in diagnostics.iter() {
        text.push_str(&one(diagnostic, &renderer));
        text.push_str("\n\n");
    }
    if let Some(summary) = summary(diagnostics) {
        text.push_str(&summary);
        text.push('\n');
    }
    text
}

fn one(diagnostic: &Diagnostic, renderer: &Renderer) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let message = annotate_snippets::normalize_untrusted_str(&diagnostic.message);
    let title = level.primary_title(message).id(diagnostic.code);
    let has_secret = |location: &Location| !location.secrets().is_empty();
    let mut is_hidden = false;
    let mut group = match &diagnostic.location {
        Some(location) if !diagnostic.shows_text || has_secret(location) => {
            is_hidden = diagnostic.shows_text;
            title.element(
                Origin::path(location.file.name.as_str())
                    .line(location.line())
                    .char_column(location.column()),
            )
        }
        Some(location) => title.element(snippet(location, &diagnostic.label, true)),
        None => Group::with_title(title),
    };
    for (location, text) in &diagnostic.related {
        group = match has_secret(location) {
            true => {
                is_hidden = true;
                let file = location.file.name.as_str();
                let text = format!("{file}:{}:{}: {text}", location.line(), location.column());
                group.element(Level::NOTE.message(text))
            }
            false => group.element(snippet(location, text, false)),
        };
    }
    if is_hidden {
        group = group.element(Level::NOTE.message(HIDDEN));
    }
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(help.as_str()));
    }
    renderer.render(&[group])
}

fn snippet<'a>(
    location: &'a Location,
    label: &'a str,
    primary: bool,
) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
    let kind = if primary {
        AnnotationKind::Primary
    } else {
        AnnotationKind::Context
    };
    let text = &location.file.text;
    // A place at the very end of a file would otherwise be drawn on a line that is not there.
    let start = location.span.start.min(text.trim_end().len());
    let end = end_on_same_line(text, start, location.span.end);
    // A reader counts some characters otherwise than they are long, and half of one cannot be drawn.
    let start = (0..=start)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0);
    let end = (end..=text.len())
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(text.len());
    let mut annotation = kind.span(start..end);
    if !label.is_empty() {
        annotation = annotation.label(label);
    }
    Snippet::source(text.as_str())
        .path(location.file.name.as_str())
        .annotation(annotation)
}

/// Where the caret's underline stops: a block that spans many lines is pointed at by its first.
fn end_on_same_line(text: &str, start: usize, end: usize) -> usize {
    let line_end = text
        .get(start..)
        .and_then(|rest| rest.find('\n'))
        .map_or(text.len(), |n| start + n);
    end.clamp(start, line_end.max(start))
}

fn summary(diagnostics: &Diagnostics) -> Option<String> {
    let plural =
        |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let errors = diagnostics.count(Severity::Error);
    let warnings = diagnostics.count(Severity::Warning);
    match (errors, warnings) {
        (0, 0) => None,
        (0, w) => Some(format!("{}.", plural(w, "warning"))),
        (e, 0) => Some(format!("{}.", plural(e, "error"))),
        (e, w) => Some(format!("{}, {}.", plural(e, "error"), plural(w, "warning"))),
    }
}
