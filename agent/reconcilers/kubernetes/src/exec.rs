//! Logging in at an API server by a program that the kubeconfig names, as kubectl does (`client.authentication.k8s.io`).
//!
//! What comes in: `exec` of a kubeconfig's user. What goes out: the program to be started, which its caller looks at first, and what one run of it
//! brings: a token, a client certificate, or why there is none. Its time and its output are bounded, it never asks a person, and what it brings is in
//! no message and in no file.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use outhaul_kit::program::{self, Limits};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::access_error::AccessError;

/// The versions of the protocol that are spoken; of what is used here they are the same.
const VERSIONS: [&str; 2] = [
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
];
/// What a program is told: a site's agent has no terminal.
const INFO: &str = "KUBERNETES_EXEC_INFO";
/// Longest run, and largest answer in bytes.
const LIMITS: Limits = Limits {
    time: Duration::from_secs(30),
    output: 1024 * 1024,
    asks: false,
};

/// A program that logs in.
#[derive(Clone)]
pub struct ExecPlugin {
    /// The kubeconfig that names it.
    kubeconfig: PathBuf,
    /// The program, by name or path.
    program: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, Zeroizing<String>)>,
    version: String,
    hint: Option<String>,
    /// About the cluster, where the kubeconfig wants it to be told.
    cluster: Option<Value>,
}

/// What a program brought.
pub(crate) struct Credential {
    pub(crate) token: Option<Zeroizing<String>>,
    /// Certificates and their key, PEM.
    pub(crate) certificate: Option<(Vec<u8>, Zeroizing<Vec<u8>>)>,
    /// Until when, by the program's own words.
    pub(crate) expires: Option<Timestamp>,
}

impl ExecPlugin {
    /// What `exec` of the kubeconfig at `kubeconfig` names, for a cluster with this server and authority.
    ///
    /// # Errors
    /// What of it cannot be used here, in a sentence.
    pub(crate) fn of(
        exec: &Value,
        kubeconfig: &Path,
        cluster: (&Value, &str, &[u8]),
    ) -> Result<Self, String> {
        let text = |key: &str| exec[key].as_str().filter(|text| !text.is_empty());
        let version = text("apiVersion").unwrap_or_default();
        if !VERSIONS.contains(&version) {
            return Err(format!(
                "its user logs in by `exec` of version `{version}`, and the agent speaks {}",
                VERSIONS.map(|known| format!("`{known}`")).join(" and ")
            ));
        }
        let command = text("command").ok_or("its user's `exec` names no `command`")?;
        if text("interactiveMode") == Some("Always") {
            return Err(format!(
                "its user logs in by `{command}`, which asks a person (`interactiveMode: Always`), and the agent has none to ask; give it a token or \
                 a client certificate"
            ));
        }
        let list = |key: &str| match &exec[key] {
            Value::Null => Some(&[][..]),
            other => other.as_array().map(Vec::as_slice),
        };
        let arguments = list("args")
            .and_then(|all| all.iter().map(Value::as_str).collect::<Option<Vec<_>>>())
            .ok_or("`args` of its user's `exec` is not a list of texts")?;
        let variable = |one: &Value| {
            let value = Zeroizing::new(one["value"].as_str()?.to_owned());
            Some((one["name"].as_str()?.to_owned(), value))
        };
        let environment = list("env")
            .and_then(|all| all.iter().map(variable).collect::<Option<Vec<_>>>())
            .ok_or("`env` of its user's `exec` is not a list of names and values that are texts")?;
        let folder = kubeconfig.parent().unwrap_or(Path::new("."));
        let (entry, server, authority) = cluster;
        let told = exec["provideClusterInfo"] == Value::Bool(true);
        Ok(Self {
            kubeconfig: kubeconfig.to_owned(),
            program: match command.contains('/') {
                true => folder.join(command),
                false => command.into(),
            },
            arguments: arguments.into_iter().map(ToOwned::to_owned).collect(),
            environment,
            version: version.to_owned(),
            hint: text("installHint").map(program::shown),
            cluster: told.then(|| about(entry, server, authority)),
        })
    }

    /// The program, by name or path.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// What the kubeconfig says of how it is installed.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The same, with the file of the program that was found and looked at.
    #[must_use]
    pub fn started_by(self, file: PathBuf) -> Self {
        Self {
            program: file,
            ..self
        }
    }

    /// Runs the program once.
    ///
    /// # Errors
    /// [`AccessError::Plugin`] says how it failed, with the end of what it wrote on its standard error.
    pub(crate) fn log_in(&self) -> Result<Credential, AccessError> {
        let mut spec = json!({ "interactive": false });
        if let Some(cluster) = &self.cluster {
            spec["cluster"] = cluster.clone();
        }
        let info = json!({ "apiVersion": self.version, "kind": "ExecCredential", "spec": spec });
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .env(INFO, info.to_string())
            .envs(
                self.environment
                    .iter()
                    .map(|(name, value)| (name, &**value)),
            );
        let answer = program::run(&mut command, b"", &LIMITS).map(Zeroizing::new);
        let answer = answer.map_err(|fault| self.failed(fault.sentence()))?;
        self.read(&answer).map_err(|problem| self.failed(problem))
    }

    /// Why there is no access by this program.
    pub(crate) fn failed(&self, problem: String) -> AccessError {
        AccessError::Plugin {
            path: self.kubeconfig.clone(),
            program: self.program.clone(),
            problem,
        }
    }

    fn read(&self, answer: &[u8]) -> Result<Credential, String> {
        let wrong = "its answer is not an `ExecCredential` in JSON";
        let mut answer: Value = serde_json::from_slice(answer).map_err(|_| wrong)?;
        if answer["kind"] != "ExecCredential" {
            return Err(wrong.to_owned());
        }
        if answer["apiVersion"] != self.version.as_str() {
            return Err(format!(
                "it answers in version `{}`, and was asked in `{}`",
                program::shown(answer["apiVersion"].as_str().unwrap_or_default()),
                self.version
            ));
        }
        let mut status = match answer.get_mut("status").map(Value::take) {
            None | Some(Value::Null) => serde_json::Map::new(),
            Some(Value::Object(status)) => status,
            Some(_) => return Err("the `status` of its answer is not an object".to_owned()),
        };
        let expires = match status.get("expirationTimestamp") {
            None | Some(Value::Null) => None,
            Some(at) => Some(
                at.as_str()
                    .and_then(|at| at.parse::<Timestamp>().ok())
                    .ok_or("the `expirationTimestamp` that it brings is not a time")?,
            ),
        };
        let mut secret = |key: &str| match status.remove(key) {
            Some(Value::String(text)) if !text.is_empty() => Some(Zeroizing::new(text)),
            _ => None,
        };
        let token = secret("token");
        if token
            .as_ref()
            .is_some_and(|token| !token.bytes().all(|byte| byte.is_ascii_graphic()))
        {
            return Err("the token that it brings has characters that no token has".to_owned());
        }
        let certificate = match (secret("clientCertificateData"), secret("clientKeyData")) {
            (Some(chain), Some(key)) => Some((
                chain.as_bytes().to_vec(),
                Zeroizing::new(key.as_bytes().to_vec()),
            )),
            (None, None) => None,
            _ => {
                return Err(
                    "it brings a client certificate or a key, and both are needed".to_owned(),
                );
            }
        };
        if token.is_none() && certificate.is_none() {
            return Err("it brings neither a token nor a client certificate".to_owned());
        }
        Ok(Credential {
            token,
            certificate,
            expires,
        })
    }
}

impl std::fmt::Debug for ExecPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the program `{}`", self.program.display())
    }
}

/// What a program is told of the cluster.
fn about(entry: &Value, server: &str, authority: &[u8]) -> Value {
    let extensions = entry["extensions"].as_array();
    let config = extensions.into_iter().flatten();
    let config = config
        .filter(|one| one["name"] == "client.authentication.k8s.io/exec")
        .map(|one| one["extension"].clone())
        .next();
    json!({
        "server": server,
        "certificate-authority-data": STANDARD.encode(authority),
        "config": config,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn plugin(script: &str, more: &Value) -> (tempfile::TempDir, Result<ExecPlugin, String>) {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("log-in");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let mut exec = json!({ "apiVersion": VERSIONS[0], "command": "./log-in" });
        for (key, value) in more.as_object().unwrap() {
            exec[key] = value.clone();
        }
        let kubeconfig = folder.path().join("kubeconfig");
        let cluster = (&Value::Null, "https://here", &b"CA"[..]);
        let made = ExecPlugin::of(&exec, &kubeconfig, cluster);
        (folder, made)
    }

    fn answer(status: &str) -> String {
        let version = VERSIONS[0];
        format!(
            "echo '{{\"apiVersion\":\"{version}\",\"kind\":\"ExecCredential\",\"status\":{status}}}'"
        )
    }

    #[test]
    fn a_program_gets_what_the_kubeconfig_says_and_brings_a_token_or_a_certificate() {
        let told = json!({
            "args": ["for", "a site"], "env": [{ "name": "WHERE", "value": "north" }], "provideClusterInfo": true,
        });
        let script = "case \"$1,$2,$WHERE,$KUBERNETES_EXEC_INFO\" in \
                      *for,a\\ site,north,*'\"certificate-authority-data\":\"Q0E=\"'*'\"interactive\":false'*) ;; *) exit 4 ;; esac\n";
        let script = format!("{script}{}", answer(r#"{"token":"very-secret"}"#));
        let (_folder, made) = plugin(&script, &told);
        let made = made.unwrap();
        assert_eq!(&**made.log_in().unwrap().token.unwrap(), "very-secret");
        let script = answer(
            r#"{"clientCertificateData":"CERT","clientKeyData":"KEY","expirationTimestamp":"2026-11-29T10:00:00Z"}"#,
        );
        let (_folder, made) = plugin(&script, &json!({"args": null, "env": null}));
        let brought = made.unwrap().log_in().unwrap();
        assert_eq!(brought.expires.unwrap().as_second(), 1_795_946_400);
        let (chain, key) = brought.certificate.unwrap();
        assert_eq!((&chain[..], &key[..]), (&b"CERT"[..], &b"KEY"[..]));
    }

    #[test]
    fn a_program_that_fails_or_answers_something_else_is_named_with_what_it_said() {
        for (script, words) in [
            (
                "echo the password has expired >&2; exit 1",
                "exit status: 1: the password has expired",
            ),
            ("echo no", "not an `ExecCredential`"),
            (
                "head -c 2000000 /dev/zero",
                "it wrote more than 1048576 bytes",
            ),
            (&answer("{}"), "neither a token nor a client certificate"),
            (&answer("null"), "neither a token nor a client certificate"),
            (
                &answer(r#""expired""#),
                "`status` of its answer is not an object",
            ),
            (&answer("7"), "`status` of its answer is not an object"),
            (&answer("[]"), "`status` of its answer is not an object"),
            (
                &answer(r#"{"token":"a","expirationTimestamp":"soon"}"#),
                "`expirationTimestamp` that it brings is not a time",
            ),
            (&answer(r#"{"clientKeyData":"KEY"}"#), "both are needed"),
            (&answer(r#"{"token":"a b"}"#), "no token has"),
            (
                &answer("{}").replace("/v1", "/v1beta1"),
                "it answers in version",
            ),
        ] {
            let (_folder, made) = plugin(script, &json!({}));
            let failed = made.unwrap().log_in().err().unwrap().to_string();
            assert!(failed.contains(words), "{words}: {failed}");
            assert!(failed.contains("log-in`"), "{failed}");
        }
        for (more, words) in [
            (
                json!({"apiVersion": "client.authentication.k8s.io/v1alpha1"}),
                "v1alpha1`, and the agent speaks",
            ),
            (json!({"interactiveMode": "Always"}), "asks a person"),
            (json!({"command": ""}), "names no `command`"),
            (
                json!({"args": [1]}),
                "`args` of its user's `exec` is not a list",
            ),
            (
                json!({"args": "token"}),
                "`args` of its user's `exec` is not a list",
            ),
            (
                json!({"env": {"WHERE": "north"}}),
                "`env` of its user's `exec` is not a list",
            ),
            (
                json!({"env": [{"name": "WHERE", "value": 7}]}),
                "`env` of its user's `exec` is not a list",
            ),
        ] {
            let refused = plugin("", &more).1.unwrap_err();
            assert!(refused.contains(words), "{refused}");
        }
    }
}
