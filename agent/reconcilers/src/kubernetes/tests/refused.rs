//! What the API server refuses: whose fault it is, in whose words, and that nothing was changed.
use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use outhaul_tests::kubernetes::GUEST;
use serde_json::json;

use super::*;

#[test]
fn what_the_server_refuses_is_reported_in_its_own_words_and_changes_nothing() {
    let Some(mut fixture) = Fixture::new() else {
        return;
    };
    fixture.namespace("app");
    let settings = FORCE.replace("force", "refuse");
    let with = |text: String| format!("{settings}---\n{text}");
    let good = config_map("good", "1");
    let files = |bad: &str| [("a.yaml", with(good.clone())), ("b.yaml", bad.to_owned())];
    let mut reported = |bad: &str| {
        let files = files(bad);
        let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
        let message = fixture.refused(&files);
        assert!(
            fixture.map("good").is_none(),
            "the first object was not applied either: {message}"
        );
        assert!(fixture.memory.0.is_empty(), "{message}");
        message
    };

    let missing = reported("apiVersion: example.org/v1\nkind: Press\nmetadata: {name: p}\n");
    assert!(
        missing.contains("the cluster has no kind `Press` in `example.org/v1`"),
        "{missing}"
    );
    let invalid =
        reported("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {key: 7}\n");
    assert!(
        invalid.contains("ConfigMap app/x`: the API server refuses: "),
        "{invalid}"
    );
    let typo = reported("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndta: {key: a}\n");
    assert!(
        typo.contains(".dta: field not declared in schema"),
        "{typo}"
    );
    let nowhere =
        reported("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: gone}\n");
    assert!(
        nowhere.contains("namespaces \"gone\" not found"),
        "{nowhere}"
    );
    let twice = reported("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: good}\n");
    assert!(
        twice.contains("`ConfigMap app/good` is there twice"),
        "{twice}"
    );
    let text = reported("hello\n");
    assert!(
        text.contains("`one/b.yaml`, line 1: it has no `apiVersion`"),
        "{text}"
    );
    for message in [missing, invalid, typo, nowhere] {
        assert!(
            message.ends_with("nothing of this assignment was applied"),
            "{message}"
        );
    }
}

#[test]
fn a_quota_a_policy_and_a_webhook_refuse_in_their_own_words() {
    let Some(mut fixture) = Fixture::new() else {
        return;
    };
    fixture.namespace("app");
    let (good, settings) = (config_map("good", "1"), FORCE.replace("force", "refuse"));
    let files = [("a.yaml", settings.as_str()), ("b.yaml", good.as_str())];

    // What is asked here changes nothing. The server's own copies of quotas and policies follow a moment later.
    let probe = json!({"metadata": {"name": "probe"}});
    let maps = "/api/v1/namespaces/app/configmaps?dryRun=All";
    let until = |fixture: &Fixture, said: &str| loop {
        let (_, answer) = fixture
            .server
            .ask("POST", maps, Some(("application/json", &probe)))
            .unwrap();
        if answer["message"].as_str().unwrap_or("taken").contains(said) {
            break;
        }
    };

    // The quota's controller does not run here: its one answer is written in its place.
    let quotas = "/api/v1/namespaces/app/resourcequotas";
    let none = json!({"count/configmaps": "0"});
    fixture
        .server
        .create(
            quotas,
            &json!({"metadata": {"name": "q"}, "spec": {"hard": none}}),
        )
        .unwrap();
    let counted = json!({"status": {"hard": none, "used": none}});
    fixture
        .server
        .patch(&format!("{quotas}/q/status"), "controller", &counted)
        .unwrap();
    until(&fixture, "exceeded quota");
    let full = fixture.refused(&files);
    assert!(
        full.contains("exceeded quota: q, requested: count/configmaps=1"),
        "{full}"
    );
    fixture.server.delete(&format!("{quotas}/q")).unwrap();
    until(&fixture, "taken");

    let group = "/apis/admissionregistration.k8s.io/v1";
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]);
    let policy = json!({"metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": "false", "message": "not in this shop"}]}});
    fixture
        .server
        .create(&format!("{group}/validatingadmissionpolicies"), &policy)
        .unwrap();
    let binding = json!({"metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    fixture
        .server
        .create(
            &format!("{group}/validatingadmissionpolicybindings"),
            &binding,
        )
        .unwrap();
    until(&fixture, "denied request");
    let denied = fixture.refused(&files);
    assert!(
        denied.contains("denied request: not in this shop"),
        "{denied}"
    );
    fixture
        .server
        .delete(&format!("{group}/validatingadmissionpolicybindings/p"))
        .unwrap();
    until(&fixture, "taken");

    let hook = json!({"metadata": {"name": "w"}, "webhooks": [{"name": "w.example.org", "rules": rules,
        "clientConfig": {"url": "https://127.0.0.1:1/"}, "sideEffects": "None", "admissionReviewVersions": ["v1"]}]});
    fixture
        .server
        .create(&format!("{group}/validatingwebhookconfigurations"), &hook)
        .unwrap();
    until(&fixture, "failed calling webhook");
    let silent = fixture.blocked(&files);
    assert!(
        silent.contains("failed calling webhook \"w.example.org\""),
        "{silent}"
    );
    assert!(fixture.map("good").is_none() && fixture.memory.0.is_empty());
    fixture
        .server
        .delete(&format!("{group}/validatingwebhookconfigurations/w"))
        .unwrap();
    until(&fixture, "taken");
    fixture.apply(&files);
}

/// A token of the service account `app/agent`, signed with the server's own key, that ends at `expires`.
fn account_token(fixture: &Fixture, uid: &str, expires: u64) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let issuer = "https://kubernetes.default.svc";
    let account = json!({"namespace": "app", "serviceaccount": {"name": "agent", "uid": uid}});
    let claims = json!({"iss": issuer, "aud": [issuer], "sub": "system:serviceaccount:app:agent", "iat": 1,
        "nbf": 1, "exp": expires, "kubernetes.io": account});
    let text = format!(
        "{}.{}",
        part(&json!({"alg": "RS256", "typ": "JWT"})),
        part(&claims)
    );
    let folder = fixture.folder.path().join("server");
    fs::write(folder.join("claims"), &text).unwrap();
    let mut command = std::process::Command::new("openssl");
    command
        .current_dir(folder)
        .args(["dgst", "-sha256", "-sign", "accounts.key", "claims"]);
    let signed = command.output().unwrap();
    assert!(signed.status.success(), "{signed:?}");
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signed.stdout))
}

#[test]
fn a_token_that_has_expired_is_named_as_such() {
    let Some(mut fixture) = Fixture::new() else {
        return;
    };
    fixture.namespace("app");
    let accounts = "/api/v1/namespaces/app/serviceaccounts";
    let account = fixture
        .server
        .create(accounts, &json!({"metadata": {"name": "agent"}}))
        .unwrap();
    let uid = account["metadata"]["uid"].as_str().unwrap().to_owned();
    let mut reported = |expires| {
        let token = account_token(&fixture, &uid, expires);
        fixture.kubeconfig = fixture
            .server
            .kubeconfig_with("account", &format!("token: {token}"));
        let reported = fixture.blocked(&[("a.yaml", NAMESPACE)]);
        assert!(!reported.contains(&token), "{reported}");
        reported
    };
    let good = reported(40_000_000_000);
    assert!(
        good.contains("User \"system:serviceaccount:app:agent\" cannot get resource"),
        "{good}"
    );
    let expired = reported(1_700_000_000);
    assert!(
        expired.contains("the API server refuses: Unauthorized"),
        "{expired}"
    );
    assert!(
        expired.contains("help: give the kubeconfig that agent.toml names a token"),
        "{expired}"
    );
}

#[test]
fn who_may_not_and_a_server_that_is_gone_are_the_sites_own_trouble() {
    let Some(mut fixture) = Fixture::new() else {
        return;
    };
    let map = config_map("good", "1");
    let files = [("a.yaml", NAMESPACE), ("b.yaml", map.as_str())];

    fixture.kubeconfig = fixture.server.kubeconfig(GUEST);
    let forbidden = fixture.blocked(&files);
    assert!(
        forbidden.contains("User \"guest\" cannot get resource \"namespaces\""),
        "{forbidden}"
    );
    assert!(
        forbidden.contains("help: give the user of the agent's kubeconfig this right"),
        "{forbidden}"
    );
    fixture.kubeconfig = fixture
        .server
        .kubeconfig_with("wrong", "token: not-a-token-at-all");
    let unknown = fixture.blocked(&files);
    assert!(
        unknown.contains("Unauthorized") && unknown.contains("has expired"),
        "{unknown}"
    );
    assert!(!unknown.contains("not-a-token-at-all"), "{unknown}");
    fixture.kubeconfig = fixture.folder.path().join("nowhere");
    let nowhere = fixture.blocked(&files);
    assert!(nowhere.contains("nowhere` cannot be read"), "{nowhere}");
    let foreign = fixture
        .server
        .kubeconfig_with("foreign", "token: admin-token");
    let config = fs::read_to_string(&foreign).unwrap();
    fs::write(&foreign, config.replace("ca.crt", "client.crt")).unwrap();
    fixture.kubeconfig = foreign;
    let untrusted = fixture.blocked(&files);
    assert!(
        untrusted.contains("invalid peer certificate"),
        "{untrusted}"
    );

    let login = "client-certificate: client.crt, client-key: client.key";
    fixture.kubeconfig = fixture.server.kubeconfig_with("certificate", login);
    fixture.server.stop();
    let gone = fixture.blocked(&files);
    assert!(
        gone.contains("the API server https://127.0.0.1:") && gone.contains("cannot be used"),
        "{gone}"
    );
    assert!(fixture.memory.0.is_empty(), "nothing was begun");
    fixture.server.go_on().unwrap();
    fixture.apply(&files);
    assert!(fixture.map("good").is_some());
}
