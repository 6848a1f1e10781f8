//! A sealed value, from the config where it was written to the Secret on site.
//!
//! What comes in: a control plane with the templates that come with Outhaul, a value sealed for one site.
//! What must come out: the Secret in the target holds the value, and nothing else on any disk does.

use std::fs;

use outhaul_test_kit::folder::paths;

use super::system::SystemFixture;

/// With what YAML takes for syntax, so that a value that is only pasted in would show.
const VALUE: &str = "it's: a \"secret\" # \\ {x} 4711";

fn seal(fixture: &SystemFixture, key: &str, value: &str) -> String {
    let mut command = fixture.command(&outhaul_tests::program("outhaul").unwrap());
    command.args(["secret", "seal", "--recipient", &format!("edge-1={key}")]);
    command.args(["--fleet", "fleet", "--environment", "dev"]);
    command.args(["--workload", "hello", "--key", "PASSWORD"]);
    command.stdin(std::process::Stdio::piped());
    command.stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), value.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// `dev` gets the templates for Secrets, and a config with the sealed value.
fn use_secret(fixture: &SystemFixture, sealed: &str) {
    for template in ["secret", "namespace"] {
        fixture.run(
            "outhaul",
            0,
            &["new", "template", template, "--in", "control-plane"],
        );
    }
    fixture.on_branch("control-plane", "main", |_| {});
    fixture.run(
        "outhaul",
        0,
        &["promote", "--control-plane", "control-plane", "--to", "dev"],
    );
    fixture.on_branch("control-plane", "dev", |folder| {
        let path = folder.join("cluster-types/edge.yaml");
        let text = fs::read_to_string(&path).unwrap();
        let text = text
            .replace("configType: env-file", "configType: secret")
            .replace(
                "namespaceService: folder-namespace",
                "namespaceService: namespace",
            );
        fs::write(path, text).unwrap();
        let password = format!("PASSWORD={sealed}");
        let config = [
            "new",
            "config",
            "database",
            "--in",
            "control-plane",
            "--set",
            &password,
        ];
        fixture.run("outhaul", 0, &config);
    });
}

/// Writes the sealed value into its config again.
fn replace_secret(fixture: &SystemFixture, old: &str, new: &str) {
    fixture.on_branch("control-plane", "dev", |folder| {
        let path = folder.join("configs/database.yaml");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(old), "{text}");
        fs::write(path, text.replace(old, new)).unwrap();
    });
}

#[test]
fn a_sealed_value_that_was_damaged_fails_its_bundle_and_what_ran_runs_again() {
    let fixture = SystemFixture::new();
    let init = ["init", "control-plane", "--environments", "dev"];
    fixture.run("outhaul", 0, &init);
    fixture.fleet();
    let key = fixture.site("edge-1", "dev", "edge");
    let sealed = seal(&fixture, &key, VALUE);
    use_secret(&fixture, &sealed);
    fixture.bundle("dev");
    fixture.carry("edge-1");
    let target = "hello-dev/platform-config.yaml";
    let before = fixture.applied("edge-1", target);
    // One letter in the middle of the word, as a slip of the hand in an editor does it.
    let at = sealed.len() - 20;
    let other = if sealed.as_bytes()[at] == b'A' {
        'B'
    } else {
        'A'
    };
    let damaged = format!("{}{other}{}", &sealed[..at], &sealed[at + 1..]);
    replace_secret(&fixture, &sealed, &damaged);
    fixture.bundle("dev");
    let ran = fixture.agent("edge-1", 1, &["import", "stick"]);
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(said.contains("decryption failed"), "{said}");
    assert_eq!(fixture.applied("edge-1", target), before);
    let status = fixture.agent("edge-1", 0, &["status"]).stdout;
    assert!(status.contains("active: bundle 1"), "{status}");
}

#[test]
fn a_secret_is_in_the_clear_in_the_target_and_nowhere_else() {
    let fixture = SystemFixture::new();
    fixture.run(
        "outhaul",
        0,
        &["init", "control-plane", "--environments", "dev"],
    );
    fixture.fleet();
    let key = fixture.site("edge-1", "dev", "edge");
    let sealed = seal(&fixture, &key, VALUE);
    assert!(sealed.starts_with("ENC[age,"), "{sealed}");

    use_secret(&fixture, &sealed);
    let checked = fixture.plane(0, "check", "dev", &["--strict"]);
    assert!(checked.stderr.contains("no findings"), "{}", checked.stderr);

    fixture.bundle("dev");
    fixture.carry("edge-1");
    let target = "hello-dev/platform-config.yaml";
    let applied = fixture.applied("edge-1", target);
    let (map, secret) = applied.split_once("\n---\n").unwrap();
    assert!(
        map.contains("kind: ConfigMap") && !map.contains("PASSWORD"),
        "{map}"
    );
    // A JSON string is a YAML text in double quotes.
    let as_yaml = serde_json::to_string(VALUE).unwrap();
    assert!(secret.contains("kind: Secret"), "{secret}");
    assert!(
        secret.contains(&format!("\"PASSWORD\": {as_yaml}\n")),
        "{secret}"
    );
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(fixture.path(&format!("sites/edge-1/applied/{target}")))
            .unwrap()
            .permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);

    // Nowhere else: control plane, bundle, the agent's state, reports, the hub.
    fixture.home("edge-1");
    let inner = &as_yaml[1..as_yaml.len() - 1];
    let clear: Vec<_> = paths(&fixture.path("."))
        .into_iter()
        .filter(|path| {
            let bytes = fs::read(path).unwrap();
            [VALUE, inner].iter().any(|text| {
                bytes
                    .windows(text.len())
                    .any(|part| part == text.as_bytes())
            })
        })
        .collect();
    assert_eq!(clear.len(), 1, "{clear:?}");
    assert!(clear[0].ends_with(target), "{clear:?}");
}

#[test]
fn a_host_with_ansible_gets_its_secret_in_a_file_that_a_shell_reads() {
    if !outhaul_tests::available_or_skip("ansible-playbook") {
        return;
    }
    let fixture = SystemFixture::new();
    let init = [
        "init",
        "control-plane",
        "--environments",
        "dev",
        "--reconciler",
        "ansible",
    ];
    fixture.run("outhaul", 0, &init);
    fixture.fleet();
    let key = fixture.site("edge-1", "dev", "edge");
    let value = "pa\"$`id` #1";
    let password = format!("PASSWORD={}", seal(&fixture, &key, value));
    fixture.on_branch("control-plane", "dev", |_| {
        let config = [
            "new",
            "config",
            "database",
            "--in",
            "control-plane",
            "--set",
            &password,
        ];
        fixture.run("outhaul", 0, &config);
    });
    let root = fixture.path("root");
    let settings = format!(
        "[ansible]\nvars = {{ site_root = {:?} }}\n",
        root.display().to_string()
    );
    fs::write(fixture.path("sites/edge-1/agent.toml"), settings).unwrap();
    fixture.bundle("dev");
    fixture.carry("edge-1");
    let home = root.join("dev-edge-hello-dev");
    let said = fs::read_to_string(home.join("hello.txt")).unwrap();
    assert_eq!(said, "Hello from dev\n");
    let mut shell = fixture.command(std::path::Path::new("sh"));
    let script = ". \"$0\"; printf %s \"$PASSWORD\"";
    shell
        .arg("-c")
        .arg(script)
        .arg(home.join("platform-config.env"));
    assert_eq!(
        outhaul_tests::run_expecting(&mut shell, 0).unwrap().stdout,
        value
    );
}
