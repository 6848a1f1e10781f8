//! Hook programs: what they get, what they may not do, and how each lie is named.
//!
//! What comes in: small programs, most of them broken on purpose, beside the example of `examples/hooks`. What
//! goes out: exit codes, sentences, and what the inventory has.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use outhaul_test_kit::{Centre, Draft, Load};
use serde_json::Value;

use crate::media::is_root;
use crate::rekey::{seal_key, sealed};
use crate::site::{Site, assert_reports, code, stderr, stdout};
use crate::split::Split;

/// What a program does that keeps to the contract; each test changes one line of it.
const GOOD: [(&str, &str); 6] = [
    ("ready", r#"say '"status":"ok"'"#),
    (
        "plan",
        r#"say '"status":"ok","items":[{"item":"x","digest":"1"}]'"#,
    ),
    (
        "apply",
        r#"say '"status":"ok","steps":[{"item":"x","status":"changed"}]'"#,
    ),
    ("observe", r#"say '"status":"ok"'"#),
    ("health", r#"say '"status":"ok"'"#),
    (
        "remove",
        r#"say '"status":"ok","steps":[{"item":"x","status":"removed"}]'"#,
    ),
];

/// A site with a program of these answers; each message is kept in the site's folder.
pub fn site_with(centre: &Centre, changed: &[(&str, &str)]) -> Site {
    let site = Site::new(centre, "drone-7");
    program(&site, changed);
    configure(&site, "");
    site
}

pub fn path(site: &Site) -> PathBuf {
    site.folder.path().join("program")
}

pub fn configure(site: &Site, more: &str) {
    let program = path(site);
    site.configure(&format!(
        "[hook]\nprogram = \"{}\"\n{more}",
        program.display()
    ));
}

pub fn program(site: &Site, changed: &[(&str, &str)]) {
    let mut text = format!(
        "#!/bin/sh\nmessage=$(cat)\nverb=${{message#*'\"verb\":\"'}}\nverb=${{verb%%'\"'*}}\n\
         printf '%s\\n' \"$message\" >> {}/messages\n\
         say() {{ printf '{{\"protocol\":\"outhaul.dev/hook/v1\",%s}}' \"$1\"; }}\ncase $verb in\n",
        site.folder.path().display()
    );
    for (verb, good) in GOOD {
        let line = changed
            .iter()
            .find(|(name, _)| *name == verb)
            .map_or(good, |(_, line)| line);
        text += &format!("{verb})\n{line}\n;;\n");
    }
    text += "esac\n";
    fs::write(path(site), text).unwrap();
    fs::set_permissions(path(site), fs::Permissions::from_mode(0o755)).unwrap();
}

/// The messages that the program got, of one verb.
fn messages(site: &Site, verb: &str) -> Vec<Value> {
    let text = fs::read_to_string(site.folder.path().join("messages")).unwrap_or_default();
    let all = text.lines().map(|line| serde_json::from_str(line).unwrap());
    all.filter(|message: &Value| message["verb"] == verb)
        .collect()
}

fn names(items: &Value) -> Vec<&str> {
    let items = items.as_array().unwrap().iter();
    items.map(|item| item["item"].as_str().unwrap()).collect()
}

pub fn draft(names: &[&str]) -> Draft {
    let load = |name: &&str| Load::new(name).file("thing.yaml", format!("name: {name}\n"));
    Draft::new(names.iter().map(load)).reconciler("presses")
}

#[test]
fn a_program_that_breaks_the_contract_is_named_and_nothing_is_active() {
    let centre = Centre::new();
    let bundle = centre.publish(&draft(&["a"]));
    let much = "yes | head -c 2000000";
    let of_the_site: [(&str, &str, &[&str]); 5] = [
        (
            "ready",
            "echo hello",
            &["broke the contract", "answer to `ready` is not understood"],
        ),
        (
            "ready",
            "echo no ink >&2; exit 3",
            &["the hook for `presses` cannot do it now: no ink"],
        ),
        (
            "ready",
            r#"say '"status":"unable","message":"no ink","help":"fill it up"'"#,
            &["no ink", "help: fill it up"],
        ),
        ("ready", "exit 2", &["it does not know `ready`"]),
        (
            "apply",
            "echo no ink >&2; exit 3",
            &["cannot go on", "cannot do it now: no ink"],
        ),
    ];
    for (verb, line, words) in of_the_site {
        let site = site_with(&centre, &[(verb, line)]);
        assert_reports(&site.import(&bundle), 3, words);
        assert_eq!(site.active(), None, "{line}");
    }
    let of_the_assignment: [(&str, &str, &str); 13] = [
        (
            "plan",
            "echo '{\"protocol\":\"outhaul.dev/hook/v9\"}'",
            "of the protocol `outhaul.dev/hook/v9`",
        ),
        ("plan", "", "it answered nothing to `plan`"),
        ("plan", r#"say '"status":"ok"'"#, "it names no item"),
        (
            "plan",
            r#"say '"status":"ok","items":[{"item":"a/../../etc"}]'"#,
            "a name that no item may have",
        ),
        (
            "plan",
            r#"say '"status":"failed","message":"no ink"'"#,
            "no ink",
        ),
        ("apply", much, "it printed more than 1048576 bytes"),
        (
            "apply",
            "sleep 1000 & wait",
            "stopped while it was asked to `apply`, after 2 s, its time limit",
        ),
        (
            "apply",
            "echo torn >&2; exit 7",
            "it ended at `apply` with exit status: 7: torn",
        ),
        ("apply", "kill -9 $$", "it ended at `apply` with signal: 9"),
        ("apply", "echo one >&2; echo two >&2; exit 1", "one; two"),
        (
            "apply",
            r#"say '"status":"drifted"'"#,
            "a status that this verb does not have",
        ),
        (
            "apply",
            r#"say '"status":"ok","news":"x"'"#,
            "unknown field `news`",
        ),
        (
            "health",
            r#"say '"status":"failed","message":"no pressure"'"#,
            "`a` is not healthy: no pressure",
        ),
    ];
    for (verb, line, words) in of_the_assignment {
        let site = site_with(&centre, &[(verb, line)]);
        configure(&site, "timeout_s = 2\n");
        let output = site.import(&bundle);
        assert_eq!(code(&output), 1, "{line}: {}", stderr(&output));
        assert!(
            stdout(&output).contains(words),
            "{line}: {}",
            stdout(&output)
        );
        assert_eq!(site.active(), None, "{line}");
    }
}

#[test]
fn a_newer_bundle_follows_one_that_the_program_did_not_take() {
    let centre = Centre::new();
    let site = site_with(&centre, &[("apply", "exit 1")]);
    assert_eq!(code(&site.import(&centre.publish(&draft(&["a"])))), 1);
    program(&site, &[]);
    site.take(&centre.publish(&draft(&["a"])));
    // What the first one may have made is known.
    let planned = messages(&site, "plan");
    assert_eq!(planned.last().unwrap()["recorded"][0]["state"], "intent");
}

#[test]
fn what_is_not_healthy_yet_is_waited_for_and_then_given_up() {
    let centre = Centre::new();
    let count = "echo >> looks; [ $(wc -l < looks) -gt 2 ] && say '\"status\":\"ok\"' || \
                 say '\"status\":\"waiting\",\"message\":\"the drum is cold\"'";
    let site = site_with(&centre, &[("health", count)]);
    site.take(&centre.publish(&draft(&["a"])));
    assert_eq!(messages(&site, "health").len(), 3);
    let cold = r#"say '"status":"waiting","message":"the drum is cold"'"#;
    program(&site, &[("health", cold)]);
    configure(&site, "wait_s = 1\n");
    let output = site.import(&centre.publish(&draft(&["a"])));
    assert!(
        stdout(&output).contains("not ready after 1 s: the drum is cold"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn an_item_of_another_assignment_is_not_touched() {
    let centre = Centre::new();
    let site = site_with(&centre, &[]);
    let output = site.import(&centre.publish(&draft(&["a", "b"])));
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    let printed = stdout(&output);
    assert!(
        printed.contains("wants the item `x`, which belongs to the assignment `a`"),
        "{printed}"
    );
    let applied = messages(&site, "apply");
    assert!(
        applied
            .iter()
            .all(|message| message["assignment"]["name"] == "a"),
        "{applied:?}"
    );
}

#[test]
fn only_what_the_inventory_lists_is_given_for_removal() {
    let centre = Centre::new();
    let plan = |items: &str| format!("say '\"status\":\"ok\",\"items\":[{items}]'");
    let two = plan(r#"{"item":"one"},{"item":"two"}"#);
    let site = site_with(&centre, &[("plan", &two)]);
    site.take(&centre.publish(&draft(&["a"])));
    // It takes away what it was not asked to: nothing of its answer counts.
    let one = plan(r#"{"item":"one"}"#);
    let lie = r#"say '"status":"ok","steps":[{"item":"two","status":"removed"},{"item":"one","status":"removed"}]'"#;
    program(&site, &[("plan", &one), ("remove", lie)]);
    site.take(&centre.publish(&draft(&["a"])));
    assert_eq!(names(&messages(&site, "remove")[0]["items"]), ["two"]);
    let assignments = site.status()["assignments"].to_string();
    assert!(
        assignments.contains("removed `one`, which it was not given"),
        "{assignments}"
    );
    // So it is given again, and what it says nothing of stays.
    let silent = r#"say '"status":"ok"'"#;
    program(&site, &[("plan", &one), ("remove", silent)]);
    site.take(&centre.publish(&draft(&["a"])));
    let assignments = site.status()["assignments"].to_string();
    assert!(
        assignments.contains("did not say that it removed it"),
        "{assignments}"
    );
    let left =
        r#"say '"status":"ok","steps":[{"item":"two","status":"left","message":"it holds data"}]'"#;
    program(&site, &[("plan", &one), ("remove", left)]);
    site.take(&centre.publish(&draft(&["a"])));
    assert_eq!(messages(&site, "remove").len(), 3);
}

#[test]
fn a_program_that_others_may_change_is_not_started() {
    let centre = Centre::new();
    let bundle = centre.publish(&draft(&["a"]));
    let site = site_with(&centre, &[]);
    let mode =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(&path(&site), 0o777);
    assert_reports(
        &site.import(&bundle),
        3,
        &["may be written by others (mode 777)", "help: "],
    );
    if is_root() {
        // A group that this host does not know: whoever is in it.
        std::os::unix::fs::chown(path(&site), None, Some(4242)).unwrap();
        mode(&path(&site), 0o775);
        let refused = ["may be written by others (mode 775)", "help: "];
        assert_reports(&site.import(&bundle), 3, &refused);
        std::os::unix::fs::chown(path(&site), None, Some(0)).unwrap();
    }
    mode(&path(&site), 0o644);
    assert_reports(
        &site.import(&bundle),
        3,
        &["not a file that may be executed"],
    );
    mode(&path(&site), 0o755);
    mode(site.folder.path(), 0o777);
    assert_reports(
        &site.import(&bundle),
        3,
        &["is not started", "may be written by others (mode 777)"],
    );
    mode(site.folder.path(), 0o755);
    if is_root() {
        std::os::unix::fs::chown(path(&site), Some(65534), None).unwrap();
        assert_reports(&site.import(&bundle), 3, &["belongs to user 65534"]);
        std::os::unix::fs::chown(path(&site), Some(0), None).unwrap();
    }
    assert!(messages(&site, "ready").is_empty());
    fs::rename(path(&site), site.folder.path().join("away")).unwrap();
    assert_reports(
        &site.import(&bundle),
        3,
        &["cannot be found", "help: install the program"],
    );
    fs::rename(site.folder.path().join("away"), path(&site)).unwrap();
    site.take(&bundle);
}

#[test]
fn a_program_finds_nothing_of_the_agent_s_environment() {
    let centre = Centre::new();
    let site = site_with(
        &centre,
        &[(
            "apply",
            "tr '\\0' '\\n' < /proc/$$/environ > $HOME/found; exit 1",
        )],
    );
    configure(&site, "environment = { INK = \"black\" }\n");
    let bundle = centre.publish(&draft(&["a"]));
    let mut command = site.command(&["import", bundle.to_str().unwrap()]);
    assert_eq!(
        command.env("LEAK", "1").output().unwrap().status.code(),
        Some(1)
    );
    let home = site.state().join("hook/presses");
    let found = fs::read_to_string(home.join("found")).unwrap();
    let names: Vec<&str> = found
        .lines()
        .map(|line| line.split('=').next().unwrap())
        .collect();
    assert_eq!(names, ["HOME", "INK", "LC_ALL", "PATH"]);
    assert!(
        found.contains(&format!("HOME={}", home.display())),
        "{found}"
    );
}

#[test]
fn sealed_values_are_open_for_the_program_and_struck_out_of_what_it_says() {
    let centre = Centre::new();
    let plan = "echo; grep -h password $(printf %s \"$message\" | tr , '\\n' | sed -n 's/.*\"path\":\"\\([^\"]*\\)\".*/\\1/p') > $HOME/read\n\
                say '\"status\":\"ok\",\"items\":[{\"item\":\"x\"}]'";
    let apply = "echo 'cannot log in with hunter2-hunter2' >&2; exit 1";
    let site = site_with(&centre, &[("plan", plan), ("apply", apply)]);
    let key = seal_key(&site);
    let bundle = centre.publish(&sealed(&centre, "hunter2-hunter2", &key).reconciler("presses"));
    let output = site.import(&bundle);
    assert!(
        stdout(&output).contains("cannot log in with [sealed]"),
        "{}",
        stdout(&output)
    );
    let home = site.state().join("hook/presses");
    assert_eq!(
        fs::read_to_string(home.join("read")).unwrap(),
        "password: \"hunter2-hunter2\"\n"
    );
    // A value that would stand in the inventory is refused.
    let named = r#"say '"status":"ok","items":[{"item":"hunter2-hunter2"}]'"#;
    program(&site, &[("plan", named)]);
    let second = sealed(&centre, "hunter2-hunter2", &key).reconciler("presses");
    let output = site.import(&centre.publish(&second));
    assert!(
        stdout(&output).contains("names an item after a sealed value"),
        "{}",
        stdout(&output)
    );
    assert!(!stdout(&output).contains("hunter2"));
}

#[test]
fn a_stream_reaches_the_program_by_the_names_that_agent_toml_says() {
    let centre = Centre::new();
    let bundle = centre.publish(&draft(&["a"]));
    let site = Site::new(&centre, "drone-7");
    assert_reports(
        &site.import(&bundle),
        2,
        &[
            "`presses`, which this agent does not have",
            "under `[hook]`",
        ],
    );
    let site = site_with(&centre, &[]);
    let set = |name: &str| {
        let program = path(&site);
        site.configure(&format!(
            "reconciler = \"{name}\"\n[hook]\nprogram = \"{}\"\n",
            program.display()
        ));
    };
    set("symphony");
    assert_reports(
        &site.import(&bundle),
        2,
        &["rendered for `presses`", "`reconciler = \"symphony\"`"],
    );
    set("presses");
    site.take(&bundle);
    assert_eq!(messages(&site, "ready")[0]["reconciler"], "presses");
    // Whatever the stream is rendered for.
    let site = Site::new(&centre, "drone-8");
    program(&site, &[]);
    site.configure(&format!(
        "reconciler = \"hook\"\n[hook]\nprogram = \"{}\"\n",
        path(&site).display()
    ));
    site.take(&centre.publish(&draft(&["a"]).reconciler("flux")));
    assert_eq!(messages(&site, "ready")[0]["reconciler"], "hook");
}

#[test]
fn on_a_site_in_two_halves_the_helper_runs_the_program() {
    let centre = Centre::new();
    let split = Split::new(Site::new(&centre, "drone-7"));
    let site = &split.site;
    program(site, &[]);
    let own = format!("[hook]\nprogram = \"{}\"\n", path(site).display());
    let helper = format!("[apply]\nhelper = \"{}\"\n", split.socket().display());
    site.configure(&format!("{helper}{own}"));
    let bundle = centre.publish(&draft(&["a"]));
    let output = site.import(&bundle);
    let words = [
        "the apply helper cannot do it",
        "`presses`, which this agent does not have",
    ];
    assert_reports(&output, 3, &words);
    assert!(messages(site, "ready").is_empty());
    fs::write(split.folder().join("agent.toml"), own).unwrap();
    site.take(&bundle);
    assert_eq!(names(&messages(site, "apply")[0]["items"]), ["x"]);
    assert!(split.folder().join("hook/presses").is_dir());
    assert!(!site.state().join("hook").exists());
    let status = site.status();
    assert_eq!(status["assignments"][0]["status"], "compliant", "{status}");
}

#[test]
fn a_script_that_the_system_would_not_start_is_named_before_anything_is_applied() {
    let centre = Centre::new();
    let site = site_with(&centre, &[]);
    let bundle = centre.publish(&Draft::hello("one").reconciler("presses"));
    let good = fs::read_to_string(path(&site)).unwrap();
    let refused = |first: &str, words: &[&str]| {
        fs::write(path(&site), good.replacen("#!/bin/sh\n", first, 1)).unwrap();
        for command in ["plan", "import"] {
            let words = [&["the hook program", "would not start"], words].concat();
            assert_reports(&site.run(&[command, bundle.to_str().unwrap()]), 3, &words);
        }
        assert!(messages(&site, "ready").is_empty(), "it was not started");
    };
    refused("#!/nope\n", &["`/nope`, is not there"]);
    for env in ["/usr/bin/env ", "/usr/bin/env -S "] {
        let first = format!("#!{env}no-such-program\n");
        refused(
            &first,
            &["by `no-such-program`", "install `no-such-program`"],
        );
    }
    let crlf = ["line ends of Windows (CRLF)", "`sed -i 's/\\r$//' "];
    refused("#!/bin/sh\r\n", &crlf);
    // What is told to type works.
    let typed = format!("sed -i 's/\\r$//' '{}'", path(&site).display());
    let mended = std::process::Command::new("sh")
        .args(["-c", &typed])
        .status();
    assert!(mended.unwrap().success());
    site.take(&bundle);
}
