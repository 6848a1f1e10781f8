//! Where the API server is, and how this program proves who it is: a kubeconfig, or the pod that it runs in.
//!
//! What comes in: a kubeconfig and the name of a context, or the files that Kubernetes puts into a pod. What
//! goes out: one [`Access`] with everything read. A server without TLS, or one whose certificate is not to
//! be verified, is refused. Secrets are wiped when dropped and never shown.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use serde_json::Value;
use zeroize::Zeroizing;

use crate::access_error::AccessError;
use crate::exec::ExecPlugin;
use crate::yaml;

/// Largest kubeconfig, certificate or token in bytes.
const MAX_BYTES: u64 = 1024 * 1024;
/// What Kubernetes puts into every pod that has a service account.
const IN_POD: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Everything that a connection needs.
#[derive(Clone)]
pub struct Access {
    /// The server's URL, without a slash at its end.
    pub server: String,
    /// Certificates of the authority to trust, PEM.
    pub authority: Vec<u8>,
    /// How it proves who it is.
    pub identity: ApiCredentials,
}

/// How this program proves who it is.
#[derive(Clone)]
pub enum ApiCredentials {
    /// Nothing at all.
    Nobody,
    /// A token.
    Token(Zeroizing<String>),
    /// A token in a file, which is replaced from time to time.
    TokenFile(PathBuf),
    /// A certificate and its key, PEM.
    Certificate {
        /// The certificates.
        chain: Vec<u8>,
        /// The key.
        key: Zeroizing<Vec<u8>>,
    },
    /// What a program brings, each time that it is needed.
    Program(Box<ExecPlugin>),
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("server", &self.server)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ApiCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nobody => "nobody",
            Self::Token(_) => "a token",
            Self::TokenFile(_) => "a token in a file",
            Self::Certificate { .. } => "a certificate",
            Self::Program(_) => "what a program brings",
        })
    }
}

/// Reads `path`, at most [`MAX_BYTES`] of it.
pub(crate) fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, AccessError> {
    let failed = |source| AccessError::File {
        path: path.to_owned(),
        source,
    };
    let mut bytes = Zeroizing::new(Vec::new());
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(failed(io::Error::other(format!(
            "more than {MAX_BYTES} bytes"
        ))));
    }
    Ok(bytes)
}

impl Access {
    /// By the kubeconfig at `path` and its `context`, or its current one.
    ///
    /// # Errors
    /// [`AccessError`]
    pub fn from_kubeconfig(path: &Path, context: Option<&str>) -> Result<Self, AccessError> {
        let bytes = read(path)?;
        let wrong = |problem: String| AccessError::Wrong {
            path: path.to_owned(),
            problem,
        };
        let text = std::str::from_utf8(&bytes).map_err(|_| wrong("it is not text".into()))?;
        let documents = yaml::documents(text).map_err(|error| wrong(error.to_string()))?;
        let [(_, config)] = documents.as_slice() else {
            return Err(wrong("it is not a kubeconfig".into()));
        };
        read_config(config, path, context).map_err(|problem| match problem {
            Problem::Said(problem) => wrong(problem),
            Problem::File(error) => error,
        })
    }

    /// The program that logs in, where one does.
    pub fn plugin(&self) -> Option<&ExecPlugin> {
        match &self.identity {
            ApiCredentials::Program(plugin) => Some(plugin),
            _ => None,
        }
    }

    /// The same, with the file of the program that logs in, which was found and looked at.
    #[must_use]
    pub fn started_by(mut self, file: PathBuf) -> Self {
        if let ApiCredentials::Program(plugin) = self.identity {
            self.identity = ApiCredentials::Program(Box::new(plugin.started_by(file)));
        }
        self
    }

    /// By the service account of the pod in which this program runs.
    ///
    /// # Errors
    /// [`AccessError::Nowhere`] outside a pod.
    pub fn from_pod() -> Result<Self, AccessError> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let (Some(host), Some(port)) = (
            variable("KUBERNETES_SERVICE_HOST"),
            variable("KUBERNETES_SERVICE_PORT"),
        ) else {
            return Err(AccessError::Nowhere);
        };
        let folder = Path::new(IN_POD);
        let host = match host.contains(':') {
            true => format!("[{host}]"),
            false => host,
        };
        Ok(Self {
            server: format!("https://{host}:{port}"),
            authority: read(&folder.join("ca.crt"))?.to_vec(),
            identity: ApiCredentials::TokenFile(folder.join("token")),
        })
    }
}

enum Problem {
    Said(String),
    File(AccessError),
}

impl From<String> for Problem {
    fn from(problem: String) -> Self {
        Self::Said(problem)
    }
}

impl From<AccessError> for Problem {
    fn from(error: AccessError) -> Self {
        Self::File(error)
    }
}

fn read_config(config: &Value, path: &Path, context: Option<&str>) -> Result<Access, Problem> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let context = match context.or(config["current-context"].as_str()) {
        Some(name) if !name.is_empty() => name,
        _ => {
            return Err("it has no `current-context`; name one in agent.toml"
                .to_owned()
                .into());
        }
    };
    let named = |list: &str, item: &str, name: &str| -> Result<Value, Problem> {
        let entries = config[list]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let found = entries.iter().find(|entry| entry["name"] == name);
        found
            .map(|entry| entry[item].clone())
            .ok_or_else(|| format!("it has no {item} `{name}`").into())
    };
    let chosen = named("contexts", "context", context)?;
    let name = |key: &str| {
        let name = chosen[key].as_str().map(ToOwned::to_owned);
        name.ok_or_else(|| Problem::Said(format!("the context `{context}` names no {key}")))
    };
    let cluster = named("clusters", "cluster", &name("cluster")?)?;
    let user = named("users", "user", &name("user")?)?;

    let server = cluster["server"]
        .as_str()
        .unwrap_or_default()
        .trim_end_matches('/');
    if !outhaul_kit::url::is_https(server) {
        return Err("its server must begin with `https://`".to_owned().into());
    }
    for (key, why) in [
        (
            "insecure-skip-tls-verify",
            "the server's certificate is always verified",
        ),
        ("proxy-url", "proxies are not used"),
        (
            "tls-server-name",
            "the server must be called by the name in its certificate",
        ),
    ] {
        if !matches!(cluster[key], Value::Null | Value::Bool(false)) && cluster[key] != "" {
            return Err(format!("`{key}` cannot be used here: {why}; remove it").into());
        }
    }
    let authority = data(&cluster, "certificate-authority", folder)?
        .ok_or_else(|| "its cluster has no `certificate-authority`".to_owned())?;

    for key in ["auth-provider", "username", "as"] {
        if !matches!(user[key], Value::Null) && user[key] != "" {
            return Err(format!(
                "its user logs in by `{key}`, which the agent does not do; give it a token, a client certificate or an `exec` program"
            )
            .into());
        }
    }
    let identity = match &user["exec"] {
        Value::Null => read_user(&user, folder)?,
        exec @ Value::Object(_) => {
            let cluster = (&cluster, server, &authority[..]);
            ApiCredentials::Program(Box::new(ExecPlugin::of(exec, path, cluster)?))
        }
        _ => return Err("the `exec` of its user is not a map".to_owned().into()),
    };
    Ok(Access {
        server: server.to_owned(),
        authority: authority.to_vec(),
        identity,
    })
}

/// By what the user of a kubeconfig logs in, where no program does it.
fn read_user(user: &Value, folder: &Path) -> Result<ApiCredentials, Problem> {
    let token = |key: &str| user[key].as_str().filter(|text| !text.is_empty());
    let certificate = data(user, "client-certificate", folder)?;
    Ok(match (certificate, data(user, "client-key", folder)?) {
        (Some(chain), Some(key)) => ApiCredentials::Certificate {
            chain: chain.to_vec(),
            key,
        },
        (None, None) => match (token("tokenFile"), token("token")) {
            (Some(path), _) => ApiCredentials::TokenFile(folder.join(path)),
            (None, Some(token)) => ApiCredentials::Token(Zeroizing::new(token.to_owned())),
            (None, None) => ApiCredentials::Nobody,
        },
        _ => {
            return Err("its user has a client certificate or a key, and needs both"
                .to_owned()
                .into());
        }
    })
}

/// What stands in a kubeconfig itself, as base64, or in a file that it names.
fn data(object: &Value, key: &str, folder: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, Problem> {
    if let Some(text) = object[format!("{key}-data")]
        .as_str()
        .filter(|text| !text.is_empty())
    {
        let decoded = base64::engine::general_purpose::STANDARD.decode(text.trim());
        let decoded = decoded.map_err(|_| format!("`{key}-data` is not base64"))?;
        return Ok(Some(Zeroizing::new(decoded)));
    }
    match object[key].as_str().filter(|path| !path.is_empty()) {
        Some(path) => Ok(Some(read(&folder.join(path))?)),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
        contexts: [{name: here, context: {cluster: c, user: u}}, {name: nobody, context: {cluster: c, user: x}}]\n\
        clusters: [{name: c, cluster: {server: 'https://127.0.0.1:6443/', certificate-authority-data: Q0E=}}]\n";

    fn access(config: &str, user: &str, context: Option<&str>) -> Result<Access, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        std::fs::write(
            &path,
            format!("{config}users: [{{name: u, user: {{{user}}}}}]\n"),
        )
        .unwrap();
        std::fs::write(folder.path().join("key.pem"), "KEY").unwrap();
        Access::from_kubeconfig(&path, context).map_err(|error| error.to_string())
    }

    #[test]
    fn tokens_and_certificates_are_read_and_never_shown() {
        let by_token = access(CONFIG, "token: very-secret", None).unwrap();
        assert_eq!(by_token.server, "https://127.0.0.1:6443");
        assert_eq!(by_token.authority, b"CA");
        let shown = format!("{by_token:?}");
        assert!(
            shown.contains("a token") && !shown.contains("very-secret"),
            "{shown}"
        );
        let user = "client-certificate-data: Q0VSVA==, client-key: key.pem";
        let ApiCredentials::Certificate { chain, key } =
            access(CONFIG, user, Some("here")).unwrap().identity
        else {
            unreachable!("it has a certificate");
        };
        assert_eq!(
            (chain.as_slice(), key.as_slice()),
            (&b"CERT"[..], &b"KEY"[..])
        );
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let reported =
            |config: &str, user: &str, context| access(config, user, context).unwrap_err();
        assert!(reported(CONFIG, "", Some("there")).contains("no context `there`"));
        assert!(reported(CONFIG, "", Some("nobody")).contains("no user `x`"));
        assert!(reported(CONFIG, "auth-provider: {name: x}", None).contains("logs in by `auth-"));
        assert!(
            reported(CONFIG, "exec: {command: x}", None).contains("logs in by `exec` of version")
        );
        assert!(reported(CONFIG, "client-key: key.pem", None).contains("needs both"));
        assert!(
            reported(CONFIG, "client-key: gone.pem", None).contains("gone.pem` cannot be read")
        );
        let plain = CONFIG.replace("https://", "http://");
        assert!(reported(&plain, "", None).contains("must begin with `https://`"));
        let trusting = CONFIG.replace("{server", "{insecure-skip-tls-verify: true, server");
        assert!(reported(&trusting, "", None).contains("always verified"));
        assert!(reported("- x\n", "", None).contains("kubeconfig`: "));
    }
}
