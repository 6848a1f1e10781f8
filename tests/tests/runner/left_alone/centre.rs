//! What `outhaul` refuses before it does anything.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use outhaul_test_kit::folder::{fill, paths};

use super::{KEYS, PLANE, World};

#[test]
fn what_was_mistyped_at_the_centre_changes_nothing() {
    let world = World::new();
    world.0.site("edge-1", "dev", "edge");
    world.0.bundle("dev");
    world.write("nobody.keys", "# nobody yet\n");
    let key = world.typed("outhaul", "secret keygen --out there.age");
    world.write("false.keys", &format!("edge-1 {}", key.stdout));
    world.typed("outhaul", &format!("render {PLANE} --out rendered"));
    // Rendered by Outhaul, copied without the record beside it, and changed by hand.
    fill(&world.path("rendered"), &world.path("copied"));
    for file in paths(&world.path("copied")) {
        fs::write(file, "by hand\n").unwrap();
    }

    let bundle = format!("bundle {PLANE} {KEYS} --out stick");
    for (line, code, says) in [
        (
            format!("{bundle} --cluster-type press"),
            2,
            "it has `edge`; nothing was written",
        ),
        (
            format!("{bundle} --seal-for nobody.keys"),
            2,
            "`nobody.keys` names no recipient; nothing was written",
        ),
        (
            format!("{bundle} --seal-for false.keys"),
            1,
            "prints the keys that are approved; nothing was written",
        ),
        (
            "secret keygen --out there.age".to_owned(),
            2,
            "`there.age` is there already; nothing was changed",
        ),
        (
            format!(
                "site enrol edge-2 --fleet fleet {PLANE} --cluster-type edge --hub-ca nobody.keys --out \
                 edge-2.kit"
            ),
            2,
            "give a PEM file with the authority's certificate; nothing was written",
        ),
        (
            "site move edge-1 --to stage --fleet fleet".to_owned(),
            2,
            "give ENVIRONMENT/CLUSTER_TYPE, such as `stage/press`; nothing was changed",
        ),
        (
            format!("slip {KEYS} --environment stage --cluster-type edge --out stage.slip"),
            2,
            "streams with bundles: `dev/edge`; nothing was written",
        ),
        (
            "demo --keep control-plane".to_owned(),
            2,
            "`control-plane` is not empty help: choose a new folder; nothing was changed",
        ),
        (
            format!("render {PLANE} --out copied"),
            2,
            "help: choose a new or empty folder, or move the file away; nothing was changed",
        ),
        (
            "promote --control-plane control-plane --to stage --hub http://127.0.0.1:1".to_owned(),
            3,
            "help: see that it runs and that the address is right; nothing was changed",
        ),
        (
            "promote --control-plane control-plane --to dev".to_owned(),
            0,
            "already; nothing was changed",
        ),
        (
            "promote --control-plane control-plane --watch --first stage --interval 0".to_owned(),
            1,
            "it stays where it is",
        ),
        (
            format!("publish git {PLANE} --to https://127.0.0.1:1/platform.git --branch dev"),
            3,
            "check the network and that you may push there; nothing was changed",
        ),
    ] {
        world.left_alone(("outhaul", &line, code, says));
    }
}

#[test]
fn a_project_file_that_cannot_be_used_lets_nothing_be_done() {
    let world = World::new();
    let refused = |code: i32, says: &str| {
        let line = "schedule --environment dev";
        world.left_alone_in("desk", ("outhaul", line, code, says));
    };
    let good = "control_plane = \"../control-plane\"\n";
    world.write("desk/outhaul.toml", good);
    refused(
        4,
        "if not, `OUTHAUL_PROJECT=none` leaves it out; nothing was done",
    );
    world.write("desk/outhaul.toml", "control_plan = \"../control-plane\"\n");
    refused(
        2,
        "nothing was done; `OUTHAUL_PROJECT=none` leaves the project file out",
    );
    fs::write(world.path("desk/outhaul.toml"), b"\xff\xfe").unwrap();
    refused(
        2,
        "is not UTF-8 text help: nothing was done; `OUTHAUL_PROJECT=none` leaves the project file out",
    );
    world.write("desk/outhaul.toml", good);
    let everyone = fs::Permissions::from_mode(0o666);
    fs::set_permissions(world.path("desk/outhaul.toml"), everyone).unwrap();
    refused(4, "help: nothing of it was used; read it, then `chmod o-w");
}

#[test]
fn an_environment_on_the_branch_of_another_is_not_promoted() {
    let world = World::new();
    world.0.on_branch("control-plane", "main", |folder| {
        let path = folder.join(".environments/stage.yaml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, text.replace("branch: stage", "branch: dev")).unwrap();
    });
    world.left_alone((
        "outhaul",
        "promote --control-plane control-plane --to stage",
        2,
        "is promoted into both; `stage` stays where it is",
    ));
}

#[test]
fn an_environment_that_cannot_be_moved_stays_where_it_is() {
    let world = World::new();
    world.0.on_branch("control-plane", "main", |folder| {
        fs::write(folder.join("note.txt"), "a change\n").unwrap();
    });
    // Its files would seem to be reverted in the working copy.
    world.0.git("control-plane", &["switch", "--quiet", "dev"]);
    world.left_alone((
        "outhaul",
        "promote --control-plane control-plane --to dev",
        2,
        "environment `dev` stays where it is: branch `dev` is checked out",
    ));
    // Two environments of which nobody can tell which comes first.
    world.0.on_branch("control-plane", "main", |folder| {
        for (old, new) in [("dev", "north"), ("stage", "south")] {
            let path = folder.join(format!(".environments/{old}.yaml"));
            let text = fs::read_to_string(&path).unwrap();
            let lines = text
                .lines()
                .filter(|line| !line.contains("outhaul.dev/after") && line.trim() != "labels:");
            let text = lines.collect::<Vec<_>>().join("\n") + "\n";
            let text = text.replace(&format!("name: {old}"), &format!("name: {new}"));
            fs::remove_file(path).unwrap();
            fs::write(folder.join(format!(".environments/{new}.yaml")), text).unwrap();
        }
    });
    world.left_alone((
        "outhaul",
        "promote --control-plane control-plane --to south",
        1,
        "in `.environments/`; nothing was changed",
    ));
    world.0.git("control-plane", &["switch", "--quiet", "main"]);
    world.left_alone((
        "outhaul",
        "new environment east --in control-plane",
        2,
        "name the one before the new one with `--from NAME`, whose branch it then begins with; nothing was written",
    ));
}

#[test]
fn what_is_not_shipped_leaves_the_stick_and_the_platform_repository_as_they_are() {
    let world = World::new();
    world.typed("outhaul", "secret keygen --out reader.age");
    let key = world
        .typed("outhaul", "secret keygen --out second.age")
        .stdout;
    world.write("readers.keys", &format!("reader {key}"));
    world.0.on_branch("control-plane", "dev", |folder| {
        let policy = "apiVersion: outhaul.dev/v1alpha1\nkind: DeliveryPolicy\nmetadata:\n  name: open\nspec:\n  \
                      clusterTypeSelector: {}\n  encryption: none\n";
        fs::write(folder.join("delivery.yaml"), policy).unwrap();
    });
    world.left_alone((
        "outhaul",
        &format!("bundle {PLANE} {KEYS} --out stick --seal-for readers.keys"),
        1,
        "leave `--seal-for` out, or choose other streams with `--cluster-type`; nothing was written",
    ));

    // Nothing that was assigned can be rendered, and nothing ever was.
    world
        .0
        .git(".", &["init", "--quiet", "--bare", "platform.git"]);
    world.0.on_branch("control-plane", "dev", |folder| {
        let path = folder.join("cluster-types/edge.yaml");
        let text = fs::read_to_string(&path).unwrap();
        let text = text.replace("configType: env-file", "configType: nothing");
        fs::write(path, text).unwrap();
    });
    world.left_alone((
        "outhaul",
        &format!("publish git {PLANE} --to platform.git --branch dev"),
        1,
        "nothing was published: every assignment is broken, and the branch has no last good output",
    ));

    // A later environment whose base commit no gate let in. That it was looked at is remembered.
    fs::create_dir(world.path("serve")).unwrap();
    world.write(
        "serve.toml",
        "state = \"serve\"\ncontrol_plane = \"control-plane\"\ninterval = \"1h\"\n[[environment]]\nname = \
         \"stage\"\nbundle = { fleet = \"fleet\", passphrase_file = \"passphrase\", out = \"bundles\" }\n",
    );
    world.left_alone((
        "outhaul",
        "serve --config serve.toml --once",
        1,
        "help: promote it with `outhaul promote --to stage --hub URL` (with `--commit` and `--backwards`, where it went back), or go past the gate with `--override-gate REASON --override-by NAME`, which is recorded; nothing was written",
    ));
}
