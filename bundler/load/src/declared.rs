//! Declared: the environments that a control plane lists, and one that it does not.
//!
//! What comes in: a request. What goes out: the environments of `.environments/`, wherever these lie, and
//! the finding about a name that is not one of them.

use super::loader::Loader;
use super::{LoadRequest, Origin, environments};
use outhaul_control::diagnostic::{Diagnostic, Diagnostics};
use outhaul_control::model::Environment;
use outhaul_git::source;
use outhaul_kit::suggest::did_you_mean;

/// As [`environments`]; for two folders what the promoted one lists, if it lists any.
///
/// # Errors
/// As [`environments`].
pub fn declared(request: &LoadRequest) -> Result<Vec<Environment>, Diagnostics> {
    match &request.from {
        Origin::Folders {
            base_dir: Some(base),
            ..
        } => match source::open_plain(base, "", None) {
            Ok(opened) => Loader::new(request).listed_in(&opened),
            // Said by whoever reads it.
            Err(_) => Ok(Vec::new()),
        },
        Origin::Folders { .. } => Ok(Vec::new()),
        Origin::Repository { .. } => environments(request),
    }
}

/// An environment by a name that the promoted folder does not list: nothing would be for it.
pub(super) fn undeclared(request: &LoadRequest, findings: &mut Diagnostics) {
    let Origin::Folders { .. } = &request.from else {
        return;
    };
    let known = declared(request).unwrap_or_default();
    let name = &request.environment;
    if known.is_empty() || known.iter().any(|one| one.name == *name) {
        return;
    }
    let names: Vec<&str> = known.iter().map(|one| one.name.as_str()).collect();
    let message = format!("the control plane lists no environment `{name}`");
    let finding = Diagnostic::error("unknown-environment", message);
    findings.push(finding.help(did_you_mean(name, &names)));
}
