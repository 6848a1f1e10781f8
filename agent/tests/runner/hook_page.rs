//! `docs/hooks.md` shows what is really said between the agent and a hook program, and a program that works.
//!
//! What comes in: the example for static pods, with its messages kept, and the program of the page. What goes out: a verdict on
//! the page.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use outhaul_test_kit::{Centre, Draft, Load};
use outhaul_tests::{available_or_skip, workspace_root};
use serde_json::Value;

use crate::hooks::{configure, path};
use crate::site::{Site, code, stdout};

/// What the page shows: this site's folders, and digests, are others on each machine.
fn as_shown(message: &str, site: &Site) -> String {
    let value: Value = serde_json::from_str(message).unwrap();
    let text = serde_json::to_string_pretty(&value).unwrap();
    let text = text.replace(
        &site.state().display().to_string(),
        "/var/lib/outhaul-agent",
    );
    let fleet = value["assignment"]["fleet"].as_str().unwrap_or("no fleet");
    text.replace(fleet, "f3e1")
}

#[test]
fn the_page_for_authors_shows_real_messages() {
    if !available_or_skip("python3") {
        return;
    }
    let page = fs::read_to_string(workspace_root().join("docs/hooks.md")).unwrap();
    let centre = Centre::new();
    let site = Site::new(&centre, "press-7");
    let folder = site.folder.path();
    fs::create_dir(folder.join("pods")).unwrap();
    let text = format!(
        "#!/bin/sh\nmessage=$(cat)\nprintf '%s\\n' \"$message\" >> {0}/messages\n\
         printf %s \"$message\" | python3 {1} | tee -a {0}/messages\necho >> {0}/messages\n",
        folder.display(),
        workspace_root()
            .join("examples/hooks/static-pods")
            .display()
    );
    fs::write(path(&site), text).unwrap();
    fs::set_permissions(path(&site), fs::Permissions::from_mode(0o755)).unwrap();
    let pods = folder.join("pods");
    configure(
        &site,
        &format!("environment = {{ STATIC_PODS = \"{}\" }}\n", pods.display()),
    );
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: printer}\n";
    let loads = |names: &[&str]| {
        let load = |name: &&str| Load::new(name).file("pod.yaml", pod);
        Draft::new(names.iter().map(load)).reconciler("static-pods")
    };
    site.take(&centre.publish(&loads(&["a", "b", "c", "printer"])));
    fs::write(pods.join("printer.pod.yaml"), "someone's").unwrap();
    site.ok(&["run", "--once"]);
    site.take(&centre.publish(&loads(&["a", "b", "c"])));
    let all = fs::read_to_string(folder.join("messages")).unwrap();
    let lines: Vec<&str> = all.lines().collect();
    let is_shown = |message: &str| {
        let value: Value = serde_json::from_str(message).unwrap();
        value["assignment"]["name"] == "printer" || value["verb"] == "ready"
    };
    let (mut verbs, mut missing) = (Vec::new(), Vec::new());
    for pair in lines.chunks(2).filter(|pair| is_shown(pair[0])) {
        let message: Value = serde_json::from_str(pair[0]).unwrap();
        let verb = message["verb"].as_str().unwrap().to_owned();
        if verbs.contains(&verb) {
            continue;
        }
        let pair = [pair[0], pair[1]].map(|one| as_shown(one, &site));
        missing.extend(pair.into_iter().filter(|shown| !page.contains(shown)));
        verbs.push(verb);
    }
    assert!(
        missing.is_empty(),
        "docs/hooks.md lacks:\n{}",
        missing.join("\n")
    );
    verbs.sort();
    assert_eq!(
        verbs,
        ["apply", "health", "observe", "plan", "ready", "remove"]
    );
}

#[test]
fn the_smallest_program_of_the_page_works_as_it_stands() {
    if !available_or_skip("python3") {
        return;
    }
    let page = fs::read_to_string(workspace_root().join("docs/hooks.md")).unwrap();
    let (_, program) = page.split_once("```python\n").unwrap();
    let (program, _) = program.split_once("```").unwrap();
    let centre = Centre::new();
    let site = Site::new(&centre, "press-7");
    fs::write(path(&site), program).unwrap();
    fs::set_permissions(path(&site), fs::Permissions::from_mode(0o755)).unwrap();
    configure(&site, "");
    let draft = |names: &[&str], text: &str| {
        let load = |name: &&str| Load::new(name).file("press.yaml", text);
        Draft::new(names.iter().map(load)).reconciler("press")
    };
    let kept = |name: &str| {
        let file = site
            .state()
            .join("hook/press/kept")
            .join(name)
            .join("press.yaml");
        fs::read_to_string(file).ok()
    };
    site.take(&centre.publish(&draft(&["a", "b", "c", "d"], "speed: 1\n")));
    assert_eq!(kept("d").as_deref(), Some("speed: 1\n"));
    let file = site.state().join("hook/press/kept/a/press.yaml");
    fs::write(file, "speed: 9\n").unwrap();
    site.ok(&["run", "--once"]);
    assert_eq!(site.status()["assignments"][0]["status"], "drifted");
    site.take(&centre.publish(&draft(&["a", "b", "c"], "speed: 2\n")));
    assert_eq!(kept("a").as_deref(), Some("speed: 2\n"));
    assert_eq!(kept("d"), None);
    site.ok(&["rollback", "--who", "ann"]);
    assert_eq!(kept("d").as_deref(), Some("speed: 1\n"));
    assert_eq!(site.status()["assignments"][0]["status"], "compliant");
}

#[test]
fn the_smallest_program_keeps_what_is_executable_and_refuses_what_it_does_not_know() {
    if !available_or_skip("python3") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let program = home.path().join("program");
    let page = fs::read_to_string(workspace_root().join("docs/hooks.md")).unwrap();
    let (_, text) = page.split_once("```python\n").unwrap();
    fs::write(&program, text.split_once("```").unwrap().0).unwrap();
    let from = home.path().join("from");
    fs::write(&from, "#!/bin/sh\n").unwrap();
    let ask = |protocol: &str, verb: &str, executable: bool| {
        let content = "sha256:54a0";
        let file = serde_json::json!({ "name": "run", "path": from, "content": content, "executable": executable });
        let question = serde_json::json!({
            "protocol": protocol, "verb": verb, "assignment": { "name": "press", "files": [file] },
        });
        let asked = home.path().join("asked");
        fs::write(&asked, question.to_string()).unwrap();
        let mut python = Command::new("python3");
        python.arg(&program).env("HOME", home.path());
        let done = python.stdin(fs::File::open(&asked).unwrap()).output();
        let done = done.unwrap();
        (code(&done), stdout(&done))
    };
    let known = "outhaul.dev/hook/v1";
    let kept = home.path().join("kept/press/run");
    for executable in [true, false] {
        assert_eq!(ask(known, "apply", executable).0, 0);
        let mode = fs::metadata(&kept).unwrap().permissions().mode();
        assert_eq!(mode & 0o111 != 0, executable);
        assert!(ask(known, "observe", executable).1.contains("\"ok\""));
        let other = ask(known, "observe", !executable).1;
        assert!(other.contains("drifted"), "{other}");
    }
    assert_eq!(ask("outhaul.dev/hook/v2", "apply", true).0, 2);
    assert_eq!(ask(known, "dance", true).0, 2);
    let mode = fs::metadata(&kept).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0, "it was not touched");
}
