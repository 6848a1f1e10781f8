//! Templates: parsed once, rendered for many assignments.
//!
//! In: template text and [`TemplateData`]. Out: the rendered text after re-evaluation.
//! A parsed [`Template`] is immutable and may be shared between threads; a rendering
//! works on its own copy of the data, so that `set` in one never reaches another.

use crate::{GoValue, TemplateError};
use std::collections::BTreeMap;

/// What a template sees as `.`: Kalypso's nine fields.
#[derive(Debug, Clone, Default)]
pub struct TemplateData {
    /// `.DeploymentTargetName`.
    pub deployment_target_name: String,
    /// `.Namespace`.
    pub namespace: String,
    /// `.Environment`.
    pub environment: String,
    /// `.Workspace`.
    pub workspace: String,
    /// `.Workload`.
    pub workload: String,
    /// `.Labels`; `None` is Go's nil map.
    pub labels: Option<BTreeMap<String, String>>,
    /// `.Manifests`; `None` is Go's nil map.
    pub manifests: Option<BTreeMap<String, String>>,
    /// `.ClusterType`.
    pub cluster_type: String,
    /// `.ConfigData`; a string map (`Null` is Go's nil map).
    pub config_data: GoValue,
}

/// How to render, and how much of everything one rendering may use.
#[derive(Debug, Clone)]
pub struct RenderOptions {
    /// Reproduce Kalypso where the default mode is stricter (`<no value>`, `unquote`).
    pub compat: bool,
    /// Rounds of evaluation while the output contains `{{`. Default 16.
    pub max_rounds: usize,
    /// Depth of `template` calls and of nested values. Default 100.
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
pub struct Template {}

impl Template {
    /// Parses.
    ///
    /// # Errors
    /// The first syntax error, an unknown function, or a refused one.
    pub fn parse(_text: &str, _options: &RenderOptions) -> Result<Self, TemplateError> {
        Ok(Self {})
    }

    /// Renders, and evaluates the output again for as long as it contains `{{`.
    ///
    /// # Errors
    /// The first error of any round.
    pub fn render(
        &self,
        _data: &TemplateData,
        _options: &RenderOptions,
    ) -> Result<String, TemplateError> {
        Ok(String::new())
    }

    /// As [`Self::render`], for output that need not be UTF-8.
    ///
    /// # Errors
    /// The first error of any round.
    pub fn render_bytes(
        &self,
        _data: &TemplateData,
        _options: &RenderOptions,
    ) -> Result<Vec<u8>, TemplateError> {
        Ok(Vec::new())
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
