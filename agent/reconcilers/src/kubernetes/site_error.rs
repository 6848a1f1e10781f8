//! What keeps a site from applying anything to its cluster, with what to do next.
//!
//! What comes in: what went wrong with the API server. What goes out: an [`ApplyError`] in the server's own words,
//! for which no bundle is to blame. It decides nothing.

use outhaul_kubernetes::{AccessError, ClientError, Key, Reason};

use crate::error::ApplyError;

/// What keeps the site from applying one object.
pub(super) fn site_error_of(key: &Key, trouble: &ClientError) -> ApplyError {
    match site_error(trouble) {
        ApplyError::Cluster { problem, help } => ApplyError::Cluster {
            problem: format!("`{key}`: {problem}"),
            help,
        },
        other => other,
    }
}

/// What keeps the site from applying, with the server's own words.
pub(super) fn site_error(trouble: &ClientError) -> ApplyError {
    let said = trouble.to_string();
    let help = match trouble.refusal().map(|refusal| refusal.reason) {
        None if matches!(trouble, ClientError::Unreachable { .. })
            && said.contains("certificate") =>
        {
            "see this machine's clock (`date`), by which certificates are checked, and that `certificate-authority` in \
             the kubeconfig that agent.toml names is the one of this API server"
        }
        None if matches!(trouble, ClientError::Access(AccessError::Nowhere)) => {
            "write two lines into agent.toml: `[kubernetes]` and `kubeconfig = \"/etc/rancher/k3s/k3s.yaml\"`, with the \
             path of this cluster's"
        }
        None if matches!(trouble, ClientError::Access(AccessError::Plugin { .. })) => {
            "see what that program needs, by running it by hand as the agent's user; the agent asks it again automatically; or name a kubeconfig with \
             a token or a client certificate under `[kubernetes]` in agent.toml"
        }
        None if matches!(trouble, ClientError::Access(_)) => {
            "mend the kubeconfig that `kubeconfig` and `context` under `[kubernetes]` in agent.toml name, or name another one; the agent \
             needs a server, a `certificate-authority`, and a token, a client certificate or an `exec` program"
        }
        None => {
            "see that the API server runs and is reached from here, and that `kubeconfig` and `context` under \
             `[kubernetes]` in agent.toml are right"
        }
        Some(Reason::Unauthorized) => {
            "give the kubeconfig that agent.toml names a token or certificate that is valid, and see this machine's clock (`date`), by which they \
             expire; in a pod Kubernetes replaces the token"
        }
        Some(Reason::Forbidden) => {
            "give the user of the agent's kubeconfig this right (a Role or ClusterRole, and its binding)"
        }
        Some(Reason::Conflict) => {
            "someone else has set these fields since: `outhaul-agent apply` takes them back; to keep what was changed, \
             ask the centre to change it"
        }
        Some(_) => "see what the API server lacks; the agent tries again",
    };
    let problem = match trouble {
        // Of the server's own words there is only this one.
        ClientError::Refused(refusal) if refusal.reason == Reason::Unauthorized => format!(
            "the API server refuses: {refusal}: the token or certificate by which the agent logs in is wrong or has expired"
        ),
        ClientError::Refused(refusal) => format!("the API server refuses: {refusal}"),
        other => other.to_string(),
    };
    ApplyError::Cluster {
        problem,
        help: help.into(),
    }
}

impl From<ClientError> for ApplyError {
    fn from(trouble: ClientError) -> Self {
        site_error(&trouble)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_no_kubeconfig_is_set_the_help_says_which_lines_to_write() {
        let help = |trouble| match site_error(&trouble) {
            ApplyError::Cluster { help, .. } => help,
            other => panic!("{other}"),
        };
        let nowhere = help(ClientError::Access(AccessError::Nowhere));
        assert!(nowhere.starts_with("write two lines"), "{nowhere}");
        let problem = "its user logs in by `auth-provider`, which the agent does not do";
        let by_program = help(ClientError::Access(AccessError::Wrong {
            path: "k".into(),
            problem: problem.into(),
        }));
        assert!(
            by_program.starts_with("mend the kubeconfig"),
            "{by_program}"
        );
        let silent = help(ClientError::Unreachable {
            server: "https://a".into(),
            problem: "no kubeconfig is set".into(),
        });
        assert!(silent.starts_with("see that the API server"), "{silent}");
    }
}
