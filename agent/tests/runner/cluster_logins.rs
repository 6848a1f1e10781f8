//! How a site proves to its cluster who it is, and what the cluster refuses: on a real API server.
//!
//! What comes in: `OUTHAUL_KUBE_APISERVER`, programs that log in, the files of a pod, tokens that have expired, an admission policy. What goes out:
//! objects in the cluster; or a refusal with the words of the program or the server, and a cluster in which nothing is half applied.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use outhaul_test_kit::{Centre, Draft};
use outhaul_tests::Checked as _;
use serde_json::json;

use crate::reconciler_kubernetes::Kubernetes;
use crate::reconcilers::Fixture as _;
use crate::site::{Site, assert_reports, stdout};

/// A site beside a cluster, and bundles for it.
struct Beside {
    cluster: Kubernetes,
    centre: Centre,
    site: Site,
}

impl Beside {
    fn new() -> Option<Self> {
        let mut cluster = Kubernetes::new()?;
        cluster.clean();
        let centre = Centre::new();
        let site = Site::new(&centre, "drone-7");
        Some(Self {
            cluster,
            centre,
            site,
        })
    }

    fn bundle(&self, content: &str) -> PathBuf {
        let draft = Draft::new([self.cluster.load("press", content)]);
        self.centre.publish(&draft.kubernetes())
    }

    /// The content of the object that bundles bring.
    fn content(&self) -> Option<String> {
        self.cluster.there().remove("press")
    }

    /// The site's kubeconfig, whose user logs in by `login`.
    fn log_in_by(&self, login: &str) -> PathBuf {
        let kubeconfig = self.cluster.server().kubeconfig_with("site", login);
        self.site
            .configure(&format!("[kubernetes]\nkubeconfig = {kubeconfig:?}\n"));
        kubeconfig
    }

    /// `plan` and `import` of a bundle are refused with these words, and nothing is applied.
    #[track_caller]
    fn is_refused(&self, bundle: &Path, words: &[&str]) {
        let (before, kept) = (self.content(), self.site.kept()[2].clone());
        let refused = self.site.import(bundle);
        assert_reports(&refused, 3, words);
        assert_eq!(self.content(), before);
        assert_eq!(self.site.kept()[2], kept);
    }
}

fn script(path: &Path, text: &str) {
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

const VERSION: &str = "client.authentication.k8s.io/v1";

fn exec(program: &Path, more: &str) -> String {
    format!("exec: {{apiVersion: {VERSION}, interactiveMode: Never, command: {program:?}{more}}}")
}

#[test]
fn a_program_that_the_kubeconfig_names_logs_in_and_again_when_its_token_is_not_believed_any_more() {
    let Some(beside) = Beside::new() else {
        return;
    };
    let folder = beside.cluster.folder();
    let (program, runs) = (folder.join("log-in"), folder.join("runs"));
    // The first token has expired by the time that it is used.
    script(
        &program,
        &format!(
            "echo \"$1 $KUBERNETES_EXEC_INFO\" >> {runs:?}\n[ $(wc -l < {runs:?}) -gt 1 ] && token=admin-token || token=old-token\n\
             echo '{{\"apiVersion\":\"{VERSION}\",\"kind\":\"ExecCredential\",\"status\":{{\"token\":\"'$token'\"}}}}'"
        ),
    );
    beside.log_in_by(&exec(
        &program,
        ", args: [for-site], provideClusterInfo: true",
    ));
    beside.site.take(&beside.bundle("one"));
    assert_eq!(beside.content().as_deref(), Some("one"));
    let told = fs::read_to_string(&runs).unwrap();
    let port = format!(
        "\"server\":\"https://127.0.0.1:{}\"",
        beside.cluster.server().port
    );
    for word in ["for-site ", "\"interactive\":false", &port] {
        assert!(told.contains(word), "{word}: {told}");
    }
    let secret = |text: &str| text.contains("admin-token") || text.contains("old-token");
    let printed = beside.site.run(&["--verbose", "status"]);
    assert!(!secret(&String::from_utf8_lossy(&printed.stderr)));
    // A client certificate, as some programs bring.
    let certificates = beside.cluster.kubeconfig().parent().unwrap().to_owned();
    script(
        &program,
        &format!(
            "q() {{ sed ':a;N;$!ba;s/\\n/\\\\n/g' {certificates:?}/$1; }}\n\
             printf '{{\"apiVersion\":\"{VERSION}\",\"kind\":\"ExecCredential\",\"status\":{{\"clientCertificateData\":\"%s\\\\n\",\"clientKeyData\":\"%s\\\\n\"}}}}' \
             \"$(q client.crt)\" \"$(q client.key)\""
        ),
    );
    beside.site.take(&beside.bundle("two"));
    assert_eq!(beside.content().as_deref(), Some("two"));
}

#[test]
fn a_program_that_does_not_log_in_is_named_with_what_it_said_and_nothing_is_applied() {
    let Some(beside) = Beside::new() else {
        return;
    };
    let program = beside.cluster.folder().join("log-in");
    let two = beside.bundle("one");
    let kubeconfig = beside.log_in_by(&exec(&program, ", installHint: see the wiki"));
    beside.is_refused(&two, &["is not installed", "says of it: see the wiki"]);
    script(&program, "echo the password has expired >&2; exit 1");
    let words = [
        "log-in`, which brought nothing: exit status: 1: the password has expired",
        "by running it by hand as the agent's user",
    ];
    beside.is_refused(&two, &words);
    script(&program, "echo hello");
    beside.is_refused(&two, &["its answer is not an `ExecCredential` in JSON"]);
    fs::write(&program, "#!/usr/bin/env no-such-program\n").unwrap();
    beside.is_refused(&two, &["install `no-such-program`"]);
    // Whoever may change one of them decides what runs on this host.
    script(&program, "exit 1");
    for file in [&program, &kubeconfig] {
        fs::set_permissions(file, fs::Permissions::from_mode(0o777)).unwrap();
        beside.is_refused(
            &two,
            &["may be written by others (mode 777)", "`chmod go-w "],
        );
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    beside.log_in_by("token: admin-token");
    beside.site.take(&two);
    assert_eq!(beside.content().as_deref(), Some("one"));
}

/// A token that the server itself issues for the account `outhaul` of the scenario's namespace.
fn account_token(beside: &Beside) -> String {
    let namespace = beside.cluster.namespace();
    let server = beside.cluster.server();
    let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "outhaul"}});
    server.create(&accounts, &account).unwrap();
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "outhaul"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "outhaul", "namespace": namespace}],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    server.create(bindings, &binding).unwrap();
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600},
    });
    let made = server.create(&format!("{accounts}/outhaul/token"), &request);
    made.unwrap()["status"]["token"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// `arguments` where the files of a pod are, as Kubernetes puts them there; `None` where no mount namespace can be made.
fn in_pod(beside: &Beside, files: &Path, arguments: &[&str]) -> Option<Output> {
    let command = beside.site.command(arguments);
    let mut inside = Command::new("unshare");
    inside.args(["--mount", "--map-root-user", "sh", "-c"]);
    inside.arg(
        "mount -t tmpfs none /run && mkdir -p /run/secrets/kubernetes.io && \
         cp -r \"$1\" /run/secrets/kubernetes.io/serviceaccount || exit 99; shift; exec \"$@\"",
    );
    inside.arg("sh").arg(files).arg(command.get_program());
    inside.args(command.get_args());
    inside.env("OUTHAUL_STATE", beside.site.state());
    inside.env("KUBERNETES_SERVICE_HOST", "127.0.0.1");
    let port = beside.cluster.server().port.to_string();
    inside.env("KUBERNETES_SERVICE_PORT", port);
    let output = inside.checked().ok()?;
    outhaul_tests::mounted_or_skip(output)
}

#[test]
fn in_a_pod_no_kubeconfig_is_needed_and_a_token_that_is_replaced_is_read_again() {
    let Some(beside) = Beside::new() else {
        return;
    };
    let files = beside.cluster.folder().join("pod");
    fs::create_dir(&files).unwrap();
    let authority = beside.cluster.server().authority().unwrap();
    fs::copy(authority, files.join("ca.crt")).unwrap();
    fs::write(files.join("token"), account_token(&beside)).unwrap();
    let one = beside.bundle("one");
    // Outside there is neither.
    beside.is_refused(
        &one,
        &["no kubeconfig is set", "write two lines into agent.toml"],
    );
    let import = ["import", one.to_str().unwrap()];
    let Some(taken) = in_pod(&beside, &files, &import) else {
        return;
    };
    assert_reports(&taken, 0, &[]);
    assert_eq!(beside.content().as_deref(), Some("one"));
    // One that has expired, or that the server never issued.
    fs::write(files.join("token"), "expired").unwrap();
    let two = beside.bundle("two");
    let import = ["import", two.to_str().unwrap()];
    let refused = in_pod(&beside, &files, &import).unwrap();
    let words = [
        "the API server refuses: Unauthorized",
        "wrong or has expired",
    ];
    assert_reports(&refused, 3, &words);
    assert_eq!(beside.content().as_deref(), Some("one"));
    let namespace = beside.cluster.namespace();
    let account = format!("/api/v1/namespaces/{namespace}/serviceaccounts/outhaul/token");
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let again = beside.cluster.server().create(&account, &request).unwrap();
    fs::write(
        files.join("token"),
        again["status"]["token"].as_str().unwrap(),
    )
    .unwrap();
    let gone_on = in_pod(&beside, &files, &["apply"]).unwrap();
    assert_reports(&gone_on, 0, &[]);
    assert_eq!(beside.content().as_deref(), Some("two"));
}

/// A token of the account with the server's own signature, whose time is over.
fn expired(beside: &Beside, issued: &str) -> String {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;

    let mut parts = issued.split('.');
    let (header, claims) = (parts.next().unwrap(), parts.next().unwrap());
    let mut claims: serde_json::Value =
        serde_json::from_slice(&BASE64.decode(claims).unwrap()).unwrap();
    for time in ["iat", "nbf", "exp"] {
        claims[time] = (claims[time].as_i64().unwrap() - 100_000).into();
    }
    let signed = format!("{header}.{}", BASE64.encode(claims.to_string()));
    let folder = beside.cluster.kubeconfig().parent().unwrap();
    fs::write(folder.join("signed"), &signed).unwrap();
    let mut openssl = Command::new("openssl");
    openssl.current_dir(folder);
    openssl.args(["dgst", "-sha256", "-sign", "accounts.key", "signed"]);
    let signature = openssl.output().unwrap().stdout;
    format!("{signed}.{}", BASE64.encode(signature))
}

#[test]
fn a_token_that_has_expired_is_reported_as_that_and_the_bundle_goes_on_with_a_new_one() {
    let Some(beside) = Beside::new() else {
        return;
    };
    let issued = account_token(&beside);
    let old = expired(&beside, &issued);
    beside.log_in_by(&format!("token: {old}"));
    let words = [
        "the API server refuses: Unauthorized",
        "is wrong or has expired",
        "a token or certificate that is valid",
    ];
    let one = beside.bundle("one");
    beside.is_refused(&one, &words);
    let next = beside.site.status()["next"].to_string();
    assert!(next.contains("is wrong or has expired"), "{next}");
    beside.log_in_by(&format!("token: {issued}"));
    assert_eq!(beside.site.ok(&["apply"])["active"], 1);
    assert_eq!(beside.content().as_deref(), Some("one"));
}

#[test]
fn what_an_admission_policy_denies_is_said_in_its_words_and_nothing_is_half_applied() {
    let Some(beside) = Beside::new() else {
        return;
    };
    beside.log_in_by("token: admin-token");
    beside.site.take(&beside.bundle("one"));
    let server = beside.cluster.server();
    let group = "/apis/admissionregistration.k8s.io/v1";
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "no-night"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"],
            }]},
            "validations": [{
                "expression": "!has(object.data) || !('content' in object.data) || object.data['content'] != 'night'",
                "message": "no press runs at night",
            }],
        },
    });
    server
        .create(&format!("{group}/validatingadmissionpolicies"), &policy)
        .unwrap();
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "no-night"},
        "spec": {"policyName": "no-night", "validationActions": ["Deny"]},
    });
    let bindings = format!("{group}/validatingadmissionpolicybindings");
    server.create(&bindings, &binding).unwrap();
    let denied = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe"}, "data": {"content": "night"},
    });
    let path = format!(
        "/api/v1/namespaces/{}/configmaps",
        beside.cluster.namespace()
    );
    // The server reads new policies by and by.
    let until = Instant::now() + Duration::from_secs(60);
    let made = || {
        server
            .ask("POST", &path, Some(("application/json", &denied)))
            .unwrap()
            .0
    };
    while made() != 422 {
        assert!(Instant::now() < until, "the policy does not hold");
        server
            .ask("DELETE", &format!("{path}/probe"), None)
            .unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    let loads = [
        beside.cluster.load("aaa", "day"),
        beside.cluster.load("press", "night"),
    ];
    let two = beside.centre.publish(&Draft::new(loads).kubernetes());
    let taken = beside.site.import(&two);
    assert_reports(&taken, 1, &[]);
    let printed = stdout(&taken);
    for words in ["denied", "no press runs at night", "ConfigMap"] {
        assert!(printed.contains(words), "{printed}");
    }
    // What ran is what runs.
    assert_eq!(beside.site.active(), Some(1));
    let there = beside.cluster.there();
    assert_eq!(there.get("press").map(String::as_str), Some("one"));
    assert_eq!(there.get("aaa"), None, "{there:?}");
    let next = beside.site.status()["attention"].to_string();
    assert!(next.contains("no press runs at night"), "{next}");
    beside.site.take(&beside.bundle("three"));
}
