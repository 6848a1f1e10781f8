//! Promotion policies that change after a promotion: what was promoted by the rules of then stays, and nothing else comes in by it.
//!
//! What comes in: a control plane that `outhaul init` wrote, whose environment `stage` was promoted through the gate of `dev`, and commits
//! that tighten, loosen or remove the policy of that step. What must come out: bundles of what was promoted validly, and a refusal of
//! everything that only other policies than those of its promotion would let in.

use std::fs;

use super::gate::GateFixture;
use super::repositories::{commit, git};

const KEYS: &str = "--fleet fleet --passphrase-file passphrase";
const PLANE: &str = "--environment stage --control-plane cp";
const POLICY: &str = "cp/.environments/policy.yaml";

/// `stage` was promoted when one site of one had confirmed.
struct Policies(GateFixture);

impl Policies {
    fn new() -> Self {
        let made = Self(GateFixture::new());
        made.0.opens(&["dev"]);
        made.policy("minConfirmedPercent: 50");
        made.0.ok("promote --control-plane cp --to dev");
        made.0.ok(&made.promote());
        made.ships();
        made
    }

    fn promote(&self) -> String {
        let hub = self.0.hub();
        format!("promote --control-plane cp --to stage --hub {hub}")
    }

    fn watch(&self) -> String {
        let hub = self.0.hub();
        format!("promote --control-plane cp --watch --interval 0 --hub {hub}")
    }

    /// Writes the policy of the step from `dev` to `stage` on `main`.
    fn policy(&self, rules: &str) {
        let text = format!(
            "apiVersion: outhaul.dev/v1alpha1\nkind: PromotionPolicy\nmetadata: {{name: to-stage}}\nspec:\n  from: dev\n  to: stage\n  {rules}\n"
        );
        fs::write(self.0.path(POLICY), text).unwrap();
        commit(&self.0.path("cp"), rules);
    }

    fn remove_policy(&self) {
        fs::remove_file(self.0.path(POLICY)).unwrap();
        commit(&self.0.path("cp"), "without a policy");
    }

    fn message(&self) -> String {
        git(&self.0.path("cp"), &["log", "-1", "--format=%B", "stage"])
    }

    /// Replaces the newest commit of `stage` by one with another message.
    fn rewrite(&self, message: &str) {
        let cp = self.0.path("cp");
        let (tree, parent) = (self.0.at("stage^{tree}"), self.0.at("stage^"));
        let made = git(&cp, &["commit-tree", &tree, "-p", &parent, "-m", message]);
        git(&cp, &["update-ref", "refs/heads/stage", &made]);
    }

    #[track_caller]
    fn ships(&self) {
        self.0.ok(&format!("bundle {PLANE} {KEYS} --out stick"));
    }

    #[track_caller]
    fn refuses(&self, says: &str) {
        let (_, _, err) = self
            .0
            .ends(1, &format!("bundle {PLANE} {KEYS} --out stick"));
        assert!(
            err.contains(says) && err.contains("nothing was written"),
            "{err}"
        );
    }
}

#[test]
fn a_policy_that_is_tightened_or_removed_applies_to_the_next_promotion_and_stops_no_earlier_one() {
    let made = Policies::new();
    let policies = made.0.at("main");
    assert!(
        made.message()
            .contains(&format!("\nOuthaul-Policies: {policies}\n")),
        "{}",
        made.message()
    );
    for rules in ["minConfirmedSites: 2", "minConfirmedPercent: 100"] {
        made.policy(rules);
        made.ships();
    }
    made.policy("minConfirmedSites: 2");
    let (_, out, err) = made.0.ok(&format!("check {PLANE} --output lines"));
    assert!(!out.contains("unpromoted-base"), "{out}{err}");
    // The hub of this test opens for one site; the answer is held to the policy of now.
    made.0.change();
    made.0.ok("promote --control-plane cp --to dev");
    let before = made.0.at("stage");
    let (_, _, err) = made.0.ends(3, &made.promote());
    assert!(err.contains("counts as none"), "{err}");
    assert_eq!(made.0.at("stage"), before);
    made.remove_policy();
    made.ships();
}

#[test]
fn attack_a_policy_that_is_loosened_later_lets_nothing_in_that_was_promoted_before() {
    let made = Policies::new();
    let text = made.message();
    // Forged or made by a copy: a promotion that its own policies do not let in.
    let weak = text.replace("1 of 1 sites", "1 of 3 sites");
    made.rewrite(&weak);
    made.refuses("1 of 3 sites confirmed, where 50 % must");
    made.policy("minConfirmedPercent: 1");
    made.refuses("1 of 3 sites confirmed, where 50 % must");
    made.remove_policy();
    made.refuses("1 of 3 sites confirmed, where 50 % must");
    // `check` and `promote --watch` say it, with the way out.
    let (_, out, _) = made.0.ok(&format!("check {PLANE} --output lines"));
    assert!(
        out.contains("warning[unpromoted-base]") && out.contains("1 of 3 sites"),
        "{out}"
    );
    made.policy("minConfirmedPercent: 50");
    made.0.closes();
    let (_, _, err) = made.0.ok(&made.watch());
    assert!(
        err.contains("`stage` is at that commit already, and no record shows")
            && err.contains("1 of 3 sites"),
        "{err}"
    );
    made.0.opens(&["dev"]);
    let base = made.0.base("stage");
    made.0.ok(&made.watch());
    assert_eq!(made.0.base("stage"), base);
    made.ships();
}

#[test]
fn attack_policies_of_a_commit_that_is_not_on_the_branch_or_older_than_the_promoted_one_do_not_count()
 {
    let made = Policies::new();
    let cp = made.0.path("cp");
    let text = made.message();
    let named = made.0.at("main");
    let weak = |policies: &str| {
        text.replace("1 of 1 sites", "1 of 3 sites").replace(
            &format!("Outhaul-Policies: {named}"),
            &format!("Outhaul-Policies: {policies}"),
        )
    };
    // On a branch beside, which nobody merged.
    git(&cp, &["checkout", "--quiet", "-b", "loose"]);
    made.policy("minConfirmedPercent: 1");
    git(&cp, &["checkout", "--quiet", "main"]);
    let beside = made.0.at("loose");
    made.rewrite(&weak(&beside));
    made.refuses("1 of 3 sites confirmed, where 50 % must");
    // Of no commit that is there, and not the id of one.
    for other in [&"0".repeat(40), "main"] {
        made.rewrite(&weak(other));
        made.refuses("1 of 3 sites confirmed, where 50 % must");
    }
    // Loose once, before the promoted commit was there.
    made.policy("minConfirmedPercent: 1");
    let old = made.0.at("main");
    made.policy("minConfirmedPercent: 50");
    let new = made.0.change();
    made.0.ok("promote --control-plane cp --to dev");
    made.0.ok(&made.promote());
    let (text, named) = (made.message(), made.0.at("main"));
    assert_eq!((made.0.base("stage"), &named), (new.clone(), &new));
    made.ships();
    let forged = text.replace("1 of 1 sites", "1 of 3 sites").replace(
        &format!("Outhaul-Policies: {named}"),
        &format!("Outhaul-Policies: {old}"),
    );
    assert_ne!(forged, text);
    made.rewrite(&forged);
    made.refuses("1 of 3 sites confirmed, where 50 % must");
}

#[test]
fn a_promotion_that_names_no_policies_is_held_to_those_of_now() {
    let made = Policies::new();
    let text = made.message();
    let named = format!("Outhaul-Policies: {}\n", made.0.at("main"));
    made.rewrite(&text.replace(&named, ""));
    made.ships();
    made.policy("minConfirmedSites: 2");
    made.refuses("1 of 1 sites confirmed, where 100 %, and at least 2, must");
}
