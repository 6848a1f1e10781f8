//! How this site reaches its cluster.
//!
//! What comes in: `[kubernetes]` of agent.toml. What goes out: everything that a connection needs. A program by which the kubeconfig logs in is held
//! to what every program of a reconciler is: the system would start it, and nobody but root and this user may change it. It connects to nothing, and
//! starts no program.

use outhaul_kubernetes::{Access, ClientError, ExecPlugin};

use super::site_error::site_error;
use crate::error::ApplyError;
use crate::hook::{self, Changeable, LOOK_FIRST};
use crate::settings::KubernetesConfig;

/// The access that is set.
///
/// # Errors
/// [`ApplyError::Cluster`] for a kubeconfig that cannot be used, [`ApplyError::Program`] for a program by which it logs in.
pub fn of(config: &KubernetesConfig) -> Result<Access, ApplyError> {
    let access = match &config.kubeconfig {
        Some(path) => Access::from_kubeconfig(path, config.context.as_deref()),
        None => Access::from_pod(),
    };
    let access = access.map_err(|error| site_error(&ClientError::Access(error)))?;
    let (Some(plugin), Some(kubeconfig)) = (access.plugin(), &config.kubeconfig) else {
        return Ok(access);
    };
    // Whoever may change the file names the program.
    if let Some(Changeable { problem, way_out }) = hook::changeable_by_others(kubeconfig, None) {
        return Err(ApplyError::Cluster {
            problem: format!(
                "the kubeconfig `{}` names a program, which is not started: {problem}",
                kubeconfig.display()
            ),
            help: format!("{LOOK_FIRST}, then {way_out}; then repeat the command"),
        });
    }
    let file = hook::startable(plugin.program(), None)?.ok_or_else(|| gone(plugin))?;
    Ok(access.started_by(file))
}

fn gone(plugin: &ExecPlugin) -> ApplyError {
    let hint = plugin.hint();
    let hint = hint.map_or_else(String::new, |hint| {
        format!("; the kubeconfig says of it: {hint}")
    });
    ApplyError::Program {
        program: plugin.program().display().to_string(),
        problem:
            "it is not installed, and the kubeconfig that agent.toml names logs in by it (`exec`)"
                .into(),
        help: format!(
            "install it on this host, or name a kubeconfig with a token or a client certificate under `[kubernetes]` in agent.toml{hint}; then repeat \
             the command"
        ),
    }
}
