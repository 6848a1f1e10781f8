//! What `agent.toml` may say and what it must not; the operator's page has all of it.
//!
//! What comes in: texts of settings. What goes out: values, or a refusal that names the place. No file is read.
use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn refusal(text: &str) -> String {
    parse(text, "agent.toml").unwrap_err().to_string()
}

#[test]
fn an_empty_file_is_the_defaults() {
    assert_eq!(parse("", "agent.toml").unwrap(), AgentConfig::default());
}

/// The names that a section takes, as its own refusal lists them.
fn keys_of(section: &str) -> Vec<String> {
    let header = match section {
        "" => String::new(),
        name => format!("[{name}]\n"),
    };
    let listed = refusal(&format!("{header}no-such-key = 1\n"));
    let (_, listed) = listed.split_once("expected ").unwrap();
    let names = listed.split('`').skip(1).step_by(2);
    names.map(ToOwned::to_owned).collect()
}

#[test]
fn the_operators_page_has_every_key_with_its_default() {
    let page = include_str!("../../../../docs/operator.md");
    let (_, block) = page.split_once("```toml\n# agent.toml\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    assert_eq!(parse(block, "operator.md").unwrap(), AgentConfig::default());
    let mut section = "";
    let mut named = std::collections::BTreeSet::new();
    for line in block.lines().filter(|line| !line.is_empty()) {
        match line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            Some(name) => section = name,
            None => {
                let (key, _) = line.trim_start_matches("# ").split_once(" = ").unwrap();
                named.insert((section.to_owned(), key.to_owned()));
            }
        }
        named.insert((String::new(), section.to_owned()));
    }
    let sections = [
        "",
        "delay",
        "maintenance",
        "health",
        "apply",
        "folder",
        "ansible",
        "kubernetes",
        "argocd",
        "fleet",
        "flux",
        "hook",
        "repository",
        "hub",
        "clock",
    ];
    for section in sections {
        let keys = keys_of(section);
        assert!(!keys.is_empty(), "{section}");
        for key in keys {
            assert!(
                named.contains(&(section.to_owned(), key.clone())),
                "{section} {key}"
            );
        }
    }
    // What the page calls an example is one.
    let tried = block.replace("\n# ", "\n");
    parse(&tried, "operator.md").unwrap();
}

#[test]
fn an_unknown_key_is_named_with_its_place() {
    let message = refusal("drift_s = 60\n[folder]\ntargte = \"/srv\"\n");
    assert!(
        message.starts_with("agent.toml:3:1: unknown field `targte`"),
        "{message}"
    );
}

#[test]
fn values_out_of_range_and_plain_http_are_refused() {
    assert!(refusal("keep_generations = 1").contains("it must be 2 to 10"));
    assert!(refusal("outbox_max = 1").contains("`outbox_max` is 1, it must be 20 to 1000000"));
    assert!(refusal("drift_s = 1").contains("drift_s"));
    assert!(refusal("[ansible]\ntimeout_s = 0").contains("ansible.timeout_s"));
    assert!(refusal("[ansible]\nvault_password_file = \"v\"").contains("absolute path"));
    assert!(refusal("[folder]\ntarget = \"srv\"").contains("absolute path"));
    assert!(refusal("[apply]\nhelper = \"apply.sock\"").contains("absolute path"));
    assert!(refusal("[apply]\nsilence_s = 1").contains("apply.silence_s"));
    assert!(refusal("[kubernetes]\nwait_s = 0").contains("kubernetes.wait_s"));
    assert!(refusal("[kubernetes]\nkubeconfig = \"k\"").contains("absolute path"));
    assert!(refusal("[hook]\nwait_s = 0").contains("hook.wait_s"));
    assert!(refusal("[hook]\nprogram = \"k\"").contains("absolute path"));
    assert!(refusal("[hook]\nenvironment = { \"A=B\" = \"\" }").contains("`A=B`"));
    assert!(refusal("reconciler = \"anisble\"").contains("any other name needs `program`"));
    assert!(refusal("reconciler = \"../x\"").contains("not the name of a reconciler"));
    let named = "reconciler = \"symphony\"\n[hook]\nprogram = \"/usr/local/lib/symphony\"\n";
    assert_eq!(
        parse(named, "agent.toml").unwrap().reconciler.as_str(),
        "symphony"
    );
    assert!(refusal("[delay]\nlonger_h = 1").contains("longest_h"));
    assert!(refusal("[delay]\nlongest_h = 0").contains("it must be 1 to 8760"));
    assert!(refusal("[delay]\nfolder = \"d\"").contains("absolute path"));
    for wrong in [
        "{ program = [\"/bin/true\"] }",
        "{ name = \"../x\", program = [\"/bin/true\"] }",
        "{ name = \"x\", program = [\"true\"] }",
        "{ name = \"x\", program = [\"/bin/true\"], url = \"http://127.0.0.1/\" }",
        "{ name = \"x\", url = \"http://example.org/\" }",
        "{ name = \"x\", url = \"http://127.0.0.1/\", timeout_s = 61 }",
    ] {
        assert!(
            refusal(&format!("[delay]\nask = [{wrong}]")).contains("delay.ask"),
            "{wrong}"
        );
        assert!(
            refusal(&format!("[health]\nask = [{wrong}]")).contains("health.ask"),
            "{wrong}"
        );
    }
    assert!(refusal("[health]\nsoak_s = 604801").contains("health.soak_s"));
    assert!(refusal("[health]\nmax_returns = 0").contains("1 to 100"));
    let windows = "windows = [{ days = [\"sat\"], from = \"22:00\", to = \"04:00\" }]";
    assert!(
        refusal(&format!("[maintenance]\n{windows}")).contains("`maintenance.offset` is missing")
    );
    assert!(refusal(&format!("[maintenance]\noffset = \"CET\"\n{windows}")).contains("`CET`"));
    for wrong in ["24:00", "7:30", "22", "22:60", "+1:00"] {
        let windows = windows.replace("22:00", wrong);
        let text = format!("[maintenance]\noffset = \"-05:30\"\n{windows}");
        assert!(refusal(&text).contains("maintenance.windows"), "{wrong}");
    }
    let text = format!("[maintenance]\noffset = \"-05:30\"\n{windows}");
    let (windows, offset) = parse(&text, "agent.toml")
        .unwrap()
        .maintenance
        .windows()
        .unwrap();
    assert_eq!((windows.len(), offset.seconds()), (1, -19_800));
    assert!(refusal("[clock]\nsynchronized = \"run/set\"").contains("absolute path"));
    let http = refusal("[repository]\nurl = \"http://example.org/\"");
    assert!(http.contains("https"), "{http}");
    assert!(parse("[hub]\nurl = \"http://127.0.0.1:8080\"", "agent.toml").is_ok());
}

#[test]
fn attack_settings_that_somebody_else_may_write_are_not_followed() {
    for (owner, mode, words) in [
        (65_534, 0o100_600, "belongs to user 65534"),
        (1_000, 0o100_666, "may be written by anybody (mode 666)"),
        (0, 0o100_646, "may be written by anybody (mode 646)"),
    ] {
        let problem = of_others(owner, mode, 1_000).unwrap();
        assert!(problem.contains(words), "{problem}");
    }
    assert_eq!(of_others(0, 0o100_644, 1_000), None);
    assert_eq!(of_others(1_000, 0o100_664, 1_000), None);
    // As the file lies there.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.toml");
    fs::write(&path, "drift_s = 60\n").unwrap();
    assert_eq!(load(&path).unwrap().drift_s, 60);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let refused = load(&path).unwrap_err().to_string();
    assert!(
        refused.contains("is not followed: it may be written by anybody"),
        "{refused}"
    );
}
