//! Images that no container names: in a custom resource, in a variable by which an operator starts more, listed by hand.
//!
//! What comes in: a workload with all three, and a real registry. What must come out: each of them is named with its place while nothing
//! brings it; with the field configured and the others listed all travel, pinned, and a site serves them; a list with a wrong name is
//! refused at its place.

use std::fs;

use outhaul_tests::{Ran, isolated_or_skip};

use super::{Registry, at_plain_mirror, crane_or_skip, push, with_flux, with_image};
use crate::cluster::{SITE, follow_the_example};
use crate::system::SystemFixture;

const LIST: &str = "outhaul-files.toml";

fn with_press(fixture: &SystemFixture, registry: &str) {
    let text = format!(
        "apiVersion: press.example/v1\nkind: Press\nmetadata: {{name: a, namespace: reports}}\nspec:\n  inks:\n    - {{colour: blue, image: {registry}/team/ink:3}}\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, namespace: reports}}\ndata:\n  workers: --worker={registry}/team/worker:2 --later={registry}/team/later:4\n"
    );
    fixture.on_branch("manifests", "dev", |folder| {
        fs::write(folder.join("press.yaml"), &text).unwrap();
    });
}

fn with_list(fixture: &SystemFixture, text: &str) {
    fixture.on_branch("manifests", "dev", |folder| {
        fs::write(folder.join(LIST), text).unwrap();
    });
}

fn with_fields(fixture: &SystemFixture, path: &str) {
    fixture.on_branch("control-plane", "dev", |folder| {
        let file = folder.join("delivery/cluster.yaml");
        let text = fs::read_to_string(&file).unwrap();
        let lines = text.lines().filter(|line| !line.contains("imageFields"));
        let text = lines.collect::<Vec<_>>().join("\n");
        let field =
            format!("imageFields: [{{apiVersion: press.example/v1, kind: Press, path: '{path}'}}]");
        fs::write(file, format!("{}\n  {field}\n", text.trim_end())).unwrap();
    });
}

#[track_caller]
fn assert_says(ran: &Ran, all: impl IntoIterator<Item = impl AsRef<str>>) {
    let said = ran.everything();
    for words in all {
        let words = words.as_ref();
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn images_that_no_container_names_are_reported_until_a_list_or_a_field_brings_them() {
    if !isolated_or_skip() {
        return;
    }
    let Some(crane) = crane_or_skip() else { return };
    let mut fixture = SystemFixture::new();
    follow_the_example(&mut fixture);
    let registry = Registry::start(&crane);
    let at = registry.address.clone();
    let images = ["stock-report:1.4.0", "ink:3", "worker:2", "later:4"];
    let digests = images.map(|name| push(&fixture, &crane, &format!("{at}/team/{name}"), name));
    with_image(&fixture, &format!("{at}/team/stock-report:1.4.0"));
    with_press(&fixture, &at);
    let allowed = ["--allow-host", at.as_str()];
    let keys = ["--fleet", "fleet", "--passphrase-file", "passphrase"];
    let estimate = [&keys[..], &["--estimate"], &allowed].concat();

    // Named, each at its place, by `check` and by an estimate.
    let unknown = [
        format!(
            "no bundle brings `{at}/team/ink:3` to the sites of `store`: `spec.inks[*].image` of this `Press`"
        ),
        format!(
            "no bundle brings `{at}/team/worker:2` to the sites of `store`: `data.workers` of this `ConfigMap`"
        ),
        format!("no bundle brings `{at}/team/later:4`"),
    ];
    for ran in [
        fixture.plane(0, "check", "dev", &allowed),
        fixture.plane(0, "bundle", "dev", &estimate),
    ] {
        let places = ["press.yaml:6:29", "press.yaml:12:12"].map(str::to_owned);
        assert_says(&ran, unknown.iter().chain(&places));
    }

    // A path that no object has is said.
    with_fields(&fixture, "spec.inks.image");
    let ran = fixture.plane(0, "check", "dev", &allowed);
    let idle = "no object of kind `Press` (press.example/v1) has an image in `spec.inks.image`";
    assert!(ran.everything().contains(idle), "{}", ran.everything());
    with_fields(&fixture, "spec.inks[*].image");
    with_list(&fixture, "[[image]]\nname = \"a b\"\n");
    let ran = fixture.plane(1, "check", "dev", &allowed);
    let wrong = [
        "its list of files is wrong: `name` is not the name of an image",
        "outhaul-files.toml:2:",
    ];
    assert_says(&ran, wrong);
    with_list(&fixture, "[[image]]\nname = \"localhost/Worker:2\"\n");
    let ran = fixture.plane(1, "check", "dev", &allowed);
    let wrong = [
        "`localhost/Worker:2` is not the name of an image",
        "outhaul-files.toml:2:8",
    ];
    assert_says(&ran, wrong);

    let listed = format!(
        "[[image]]\nname = \"{at}/team/worker:2\"\n\n[[image]]\nname = \"{at}/team/later:4\"\n"
    );
    with_list(&fixture, &listed);
    let ran = fixture.plane(0, "bundle", "dev", &estimate);
    assert!(
        !ran.everything().contains("image-field-unknown"),
        "{}",
        ran.everything()
    );
    for (name, digest) in images.iter().zip(&digests) {
        let line = format!("  image       {at}/team/{name} at {}", &digest[7..19]);
        assert!(ran.stdout.contains(&line), "{line}: {}", ran.everything());
    }
    let bundle = [&keys[..], &["--out", "stick"], &allowed].concat();
    let ran = fixture.plane(0, "bundle", "dev", &bundle);
    assert!(
        !ran.everything().contains("image-field-unknown"),
        "{}",
        ran.everything()
    );
    let lock = fs::read_to_string(fixture.path("fleet/outhaul.lock")).unwrap();
    let shown = fixture.run("outhaul", 0, &["inspect", "stick/dev-store-1.outhaul"]);
    for (name, digest) in images.iter().zip(&digests) {
        let pinned = format!("\"{at}/team/{name}\": \"{digest}\"");
        assert!(lock.contains(&pinned), "{lock}");
        let line = format!("  image       {at}/team/{name} (");
        assert!(shown.stdout.contains(&line), "{}", shown.stdout);
    }
    fixture.carry(SITE);
    let script = r#"for name in stock-report:1.4.0 ink:3 worker:2 later:4; do "$CRANE" digest "$AT/team/$name"; done"#;
    let listen = at.replace("localhost", "127.0.0.1");
    let programs = [
        ("CRANE", crane.as_path()),
        ("AT", std::path::Path::new(&at)),
    ];
    let pulled = at_plain_mirror(&fixture, &listen, script, &programs);
    assert!(pulled.starts_with(&digests.join("\n")), "{pulled}");
    a_repository_lists_images(&mut fixture, &bundle);
}

/// A repository that a reconciler fetches itself may list images, which it does not get from there.
fn a_repository_lists_images(fixture: &mut SystemFixture, bundle: &[&str]) {
    with_flux(fixture);
    fixture.plane(0, "bundle", "dev", bundle);
    let shown = fixture.run("outhaul", 0, &["inspect", "stick/dev-store-2.outhaul"]);
    for words in ["  repository  ", "/team/worker:2 ("] {
        assert!(shown.stdout.contains(words), "{}", shown.stdout);
    }
}
