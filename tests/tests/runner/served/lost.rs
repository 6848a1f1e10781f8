//! What was shipped once is not available any more: it is taken from the bundle that the stream shipped last.
//!
//! What comes in: a centre without its cache, its registry, a commit or its lock. What must come out: the next bundle,
//! with what the sites have; a move only when it was asked for; and of what cannot travel its own finding.

use super::damage::Site;
use super::*;

const OTHER: &str = "https://git.store.example/other";

fn change_report(scene: &SystemFixture) {
    scene.on_branch("manifests", "dev", |folder| {
        fs::write(folder.join("notes.md"), "changed\n").unwrap();
    });
}

#[test]
fn an_image_that_nobody_has_any_more_comes_out_of_the_bundle_that_was_shipped_last() {
    let Some(mut site) = Site::new() else { return };
    let before = fs::read_to_string(site.scene.path("fleet/outhaul.lock")).unwrap();
    // Another machine, without the lock; the tag has moved on.
    push(&site.scene, &site.crane, &site.image, "second");
    fs::remove_file(site.scene.path("fleet/outhaul.lock")).unwrap();
    change_report(&site.scene);
    let reported = site.bundle(&[]);
    assert!(
        !reported.stderr.contains("updated:"),
        "{}",
        reported.everything()
    );
    let lock = || fs::read_to_string(site.scene.path("fleet/outhaul.lock")).unwrap();
    assert_eq!(lock(), before);

    // No registry, and nothing in the cache.
    site.registry = None;
    fs::remove_dir_all(site.scene.path("cache")).unwrap();
    site.scene.on_branch("manifests", "dev", |folder| {
        fs::write(folder.join("notes.md"), "changed again\n").unwrap();
    });
    site.bundle(&[]);
    let shown = site
        .scene
        .run("outhaul", 0, &["inspect", "stick/dev-store-3.outhaul"]);
    let line = format!("  image       {} (", site.image);
    assert!(shown.stdout.contains(&line), "{}", shown.everything());
    site.scene.carry(SITE);
    Site::is_whole(&site.layer(3));

    // And with that bundle gone it is refused, in words that are true, and with a way out.
    fs::remove_dir_all(site.scene.path("cache")).unwrap();
    fs::remove_dir_all(site.scene.path("fleet/bundles")).unwrap();
    change_report(&site.scene);
    let reported = site.try_bundle(3, &[]);
    for words in ["sites keep what they have", "`--update`", &site.image] {
        assert!(
            reported.stderr.contains(words),
            "{words}: {}",
            reported.everything()
        );
    }
    assert!(
        !reported.stderr.contains("nothing was before"),
        "{}",
        reported.everything()
    );
}

#[test]
fn a_damaged_copy_of_a_layer_at_the_centre_is_named_removed_and_brought_anew() {
    let Some(site) = Site::new() else { return };
    // The layer is by far the largest that is kept.
    let kept = outhaul_test_kit::folder::paths(&site.scene.path("cache"));
    let of_images = kept
        .into_iter()
        .filter(|path| path.parent().is_some_and(|at| at.ends_with("sha256")));
    let layer = of_images
        .max_by_key(|path| fs::metadata(path).unwrap().len())
        .unwrap();
    let whole = fs::read(&layer).unwrap();
    super::damage::damage(&layer);
    // The bundle before does not have it either; and a killed run left something beside it.
    fs::remove_dir_all(site.scene.path("fleet/bundles")).unwrap();
    fs::create_dir(site.scene.path("fleet/bundles")).unwrap();
    let left = site.scene.path("fleet/bundles/.outhaul-AbCdEf");
    fs::write(&left, "half").unwrap();
    let ran = site.try_bundle(3, &["--renew"]);
    for words in [
        &site.image,
        layer.to_str().unwrap(),
        "was removed",
        "run it again",
    ] {
        assert!(ran.stderr.contains(words), "{words}: {}", ran.everything());
    }
    assert!(!left.exists());
    let ran = site.bundle(&["--renew"]);
    assert_eq!(fs::read(&layer).unwrap(), whole, "{}", ran.everything());
    site.scene.carry(SITE);
}

/// A second deployment target, for which the template of Flux fetches another repository.
fn with_another(scene: &mut SystemFixture) {
    with_flux(scene);
    scene.on_branch("control-plane", "main", |folder| {
        let path = folder.join("templates/flux-git.yaml");
        let text = fs::read_to_string(&path).unwrap();
        let own = "url: {{ Manifests.repo | quote }}";
        assert!(text.contains(own));
        let other = format!(
            "url: {{% if 'second' in DeploymentTargetName %}}{OTHER}{{% else %}}{{{{ Manifests.repo }}}}{{% endif %}}"
        );
        fs::write(path, text.replace(own, &other)).unwrap();
    });
    scene.on_branch("control-plane", "dev", |folder| {
        let path = folder.join("delivery/cluster.yaml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, text.replace("images: reference", "images: carry")).unwrap();
    });
    // No image: only repositories are looked for here.
    scene.on_branch("manifests", "dev", |folder| {
        fs::write(
            folder.join("report.yaml"),
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
        )
        .unwrap();
    });
    scene.on_branch("stock-report", "main", |folder| {
        let path = folder.join("workload.yaml");
        let text = fs::read_to_string(&path).unwrap();
        let at = text.find("    - name: nightly").unwrap();
        let second = text[at..].replace("name: nightly", "name: second");
        fs::write(path, format!("{text}{second}")).unwrap();
    });
    fs::create_dir_all(scene.path("from-other/dev")).unwrap();
    fs::write(scene.path("from-other/dev/a.yaml"), "a: 1\n").unwrap();
    scene.repository(&scene.path("from-other"), "other");
    scene.sources.push(format!("{OTHER}=other"));
}

#[test]
fn another_repository_s_submodule_is_one_assignment_s_finding_and_a_lost_commit_is_taken_from_the_last_bundle()
 {
    if !available_or_skip("git") {
        return;
    }
    let mut scene = SystemFixture::new();
    follow_the_example(&mut scene);
    with_another(&mut scene);
    let id = scene.git("other", &["rev-parse", "dev"]);
    let entry = format!("160000,{id},sub2");
    scene.git("other", &["checkout", "--quiet", "dev"]);
    scene.git("other", &["update-index", "--add", "--cacheinfo", &entry]);
    scene.git("other", &["commit", "--quiet", "-m", "a submodule"]);
    let keys = TO_STICK;
    let reported = scene.plane(1, "bundle", "dev", &keys);
    for words in ["`sub2`", OTHER, "submodule", "second", "not-collected"] {
        assert!(
            reported.stderr.contains(words),
            "{words}: {}",
            reported.everything()
        );
    }
    // The rest ships, and nothing is pinned that did not travel.
    assert!(scene.path("stick/dev-store-1.outhaul").is_file());
    let lock = || fs::read_to_string(scene.path("fleet/outhaul.lock")).unwrap_or_default();
    assert!(!lock().contains(OTHER), "{}", lock());

    scene.git("other", &["rm", "--quiet", "--cached", "sub2"]);
    scene.git("other", &["commit", "--quiet", "-m", "without it"]);
    let reported = scene.plane(0, "bundle", "dev", &keys);
    assert!(
        !reported.stderr.contains("updated:"),
        "{}",
        reported.everything()
    );
    let commit = scene.git("other", &["rev-parse", "dev"]);
    assert!(lock().contains(&commit), "{}", lock());

    // The commit is rewritten away: the next bundle has it from the one before.
    scene.git(
        "other",
        &["commit", "--quiet", "--amend", "-m", "rewritten"],
    );
    scene.git("other", &["checkout", "--quiet", "--detach"]);
    scene.git("other", &["reflog", "expire", "--expire=now", "--all"]);
    scene.git("other", &["gc", "--quiet", "--prune=now"]);
    change_report(&scene);
    let reported = scene.plane(0, "bundle", "dev", &keys);
    let shown = scene.run("outhaul", 0, &["inspect", "stick/dev-store-3.outhaul"]);
    let line = format!("  repository  {OTHER}: refs/heads/dev at {}", &commit[..15]);
    assert!(
        shown.stdout.contains(&line),
        "{}{}",
        reported.everything(),
        shown.stdout
    );
    // Only an update moves it, and says so.
    let update = [&keys[..], &["--update"]].concat();
    let reported = scene.plane(0, "bundle", "dev", &update);
    assert!(
        reported.stderr.contains(&format!(
            "updated: {OTHER} refs/heads/dev from {commit} to "
        )),
        "{}",
        reported.everything()
    );

    // A submodule again, in what is pinned, without the bundle that has it: the way out is named.
    scene.git("other", &["checkout", "--quiet", "dev"]);
    scene.git(
        "other",
        &["commit", "--quiet", "--amend", "-m", "rewritten again"],
    );
    scene.git("other", &["checkout", "--quiet", "--detach"]);
    scene.git("other", &["reflog", "expire", "--expire=now", "--all"]);
    scene.git("other", &["gc", "--quiet", "--prune=now"]);
    fs::remove_dir_all(scene.path("fleet/bundles")).unwrap();
    let reported = scene.plane(1, "bundle", "dev", &keys);
    for words in ["`--update`", "sites keep what they have", OTHER] {
        assert!(
            reported.stderr.contains(words),
            "{words}: {}",
            reported.everything()
        );
    }
}
