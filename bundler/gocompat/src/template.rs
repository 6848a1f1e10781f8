//! Templates: parsed once, rendered for many assignments.
//!
//! In: template text and [`TemplateData`]. Out: the rendered text after re-evaluation.
//! A parsed [`Template`] is immutable and may be shared between threads; a rendering
//! works on its own copy of the data, so that `set` in one never reaches another.

use crate::data::{Fields, TemplateData, TemplateView};
use crate::functions::{Env, restore_literals};
use crate::runtime::{Budget, Fault, Value, root};
use crate::{TemplateError, TemplateErrorKind};
use tree::Tree;

mod eval;
mod exec;
mod lexer;
mod literal;
mod methods;
mod parser;
mod reach;
mod tree;

/// How to render, and how much of everything one rendering may use.
#[derive(Debug, Clone)]
pub struct RenderOptions {
    /// Reproduce Kalypso by default mode is stricter (`<no value>`, `unquote`).
    pub compat: bool,
    /// Rounds of evaluation while the output contains `{{`. Default 16.
    pub max_rounds: usize,
    /// Depth of `template` calls in each other. Default 100.
    pub max_depth: usize,
    /// Evaluated nodes, calls and visited values. Default 10 million.
    pub max_steps: u64,
    /// Bytes that all functions and the output of all rounds may produce. Default 64 MiB.
    pub max_bytes: u64,
}

impl Default for RenderOptions {
    fn default() -> Self {
        Self {
            compat: false,
            max_rounds: 16,
            max_depth: 100,
            max_steps: 10_000_000,
            max_bytes: 64 << 20,
        }
    }
}

/// A parsed template.
#[derive(Debug)]
pub struct Template {
    text: Vec<u8>,
    tree: Tree,
    reach: reach::Reach,
}

impl Template {
    /// Parses.
    ///
    /// # Errors
    /// The first syntax error, an unknown function, or a refused one.
    pub fn parse(text: &str, options: &RenderOptions) -> Result<Self, TemplateError> {
        Self::parse_bytes(text.as_bytes().to_vec(), options, 1)
    }

    fn parse_bytes(
        text: Vec<u8>,
        options: &RenderOptions,
        round: usize,
    ) -> Result<Self, TemplateError> {
        match parser::parse(&text, !options.compat) {
            Ok(tree) => {
                let reach = reach::Reach::of(&tree);
                Ok(Self { text, tree, reach })
            }
            Err(error) => Err(place(&text, error.at, error.message, error.kind, round)),
        }
    }

    /// The fields that the first round can see. Output of one round is the same for all data that are
    /// equal in them.
    pub fn fields(&self) -> Fields {
        self.reach.fields
    }

    /// Renders, and evaluates the output again for as long as it contains `{{`.
    ///
    /// # Errors
    /// The first error of any round; output that is not UTF-8.
    pub fn render(
        &self,
        data: &TemplateData,
        options: &RenderOptions,
    ) -> Result<String, TemplateError> {
        Ok(self.render_view(data.view(), options)?.text)
    }

    /// As [`Self::render`], from borrowed data.
    ///
    /// # Errors
    /// As [`Self::render`].
    pub fn render_view(
        &self,
        data: TemplateView<'_>,
        options: &RenderOptions,
    ) -> Result<Rendered, TemplateError> {
        let (bytes, rounds) = self.rounds(data, options)?;
        let text = String::from_utf8(bytes).map_err(|_| TemplateError {
            message: "the output is not valid UTF-8".to_owned(),
            line: 1,
            column: 1,
            kind: TemplateErrorKind::NotText,
            round: 1,
        })?;
        Ok(Rendered { text, rounds })
    }

    /// As [`Self::render`], for output that need not be UTF-8.
    ///
    /// # Errors
    /// The first error of any round.
    pub fn render_bytes(
        &self,
        data: &TemplateData,
        options: &RenderOptions,
    ) -> Result<Vec<u8>, TemplateError> {
        Ok(self.rounds(data.view(), options)?.0)
    }

    fn rounds(
        &self,
        data: TemplateView<'_>,
        options: &RenderOptions,
    ) -> Result<(Vec<u8>, usize), TemplateError> {
        let budget = Budget::new(options.max_steps, options.max_bytes);
        let env = Env {
            budget: &budget,
            compat: options.compat,
        };
        let mut dot = root(&data, |at| Fields::at(at).within(self.reach.fields));
        let mut out = self.round(&dot, &env, options, 1)?;
        let mut round = 1;
        while contains_open(&out) {
            if round == 1 && !self.reach.changes {
                // The next rounds' text may name any field, and nothing was changed in this one.
                dot = root(&data, |_| true);
            }
            round += 1;
            if round > options.max_rounds {
                let message = format!(
                    "the output still contains {{{{ after {} rounds of evaluation",
                    options.max_rounds
                );
                return Err(place(&out, 0, message, TemplateErrorKind::Limit, round));
            }
            let next = Self::parse_bytes(out, options, round)?;
            out = next.round(&dot, &env, options, round)?;
        }
        let out = if options.compat {
            out
        } else {
            restore_literals(out)
        };
        Ok((out, round))
    }

    fn round(
        &self,
        dot: &Value,
        env: &Env<'_>,
        options: &RenderOptions,
        round: usize,
    ) -> Result<Vec<u8>, TemplateError> {
        // Most outputs are as long as their template, or hold a config besides.
        let expected = 2 * self.text.len().min(1 << 16);
        exec::execute(&self.tree, dot, env, options.max_depth, expected).map_err(|error| {
            let (message, kind) = match error.fault {
                Fault::Go(message) => (message, TemplateErrorKind::Execution),
                Fault::Undefined(message) => (message, TemplateErrorKind::Undefined),
                Fault::Refused(message) => (message, TemplateErrorKind::Refused),
                Fault::Limit(what) => (
                    format!("the rendering reached {what}"),
                    TemplateErrorKind::Limit,
                ),
            };
            place(&self.text, error.at, message, kind, round)
        })
    }
}

/// Text, and how many rounds of evaluation it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The text.
    pub text: String,
    /// 1, or more when a value brought `{{` into the text.
    pub rounds: usize,
}

fn contains_open(text: &[u8]) -> bool {
    // Searching text is vectorised, comparing pairs of bytes is not.
    match std::str::from_utf8(text) {
        Ok(text) => text.contains("{{"),
        Err(_) => text.windows(2).any(|pair| pair == b"{{"),
    }
}

/// An error at a byte offset of a template.
fn place(
    text: &[u8],
    at: usize,
    message: String,
    kind: TemplateErrorKind,
    round: usize,
) -> TemplateError {
    let before = &text[..at.min(text.len())];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let column = before
        .iter()
        .rev()
        .take_while(|byte| **byte != b'\n')
        .count()
        + 1;
    TemplateError {
        message,
        line,
        column,
        kind,
        round,
    }
}

/// Parses and renders in one step; for a template that is used once.
///
/// # Errors
/// As [`Template::parse`] and [`Template::render`].
pub fn render(
    template: &str,
    data: &TemplateData,
    options: &RenderOptions,
) -> Result<String, TemplateError> {
    Template::parse(template, options)?.render(data, options)
}
