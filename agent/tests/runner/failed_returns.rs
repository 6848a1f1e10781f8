//! Going back to the bundle before failed as well: what the import, `status` and a newer bundle that waits say of it.
//!
//! What comes in: a hook whose program applies nothing any more. What must come out: why the active bundle is only partly applied, and what repairs it.

use outhaul_test_kit::Centre;

use crate::hooks::{draft, program, site_with};
use crate::site::{assert_reports, stdout};

#[test]
fn a_return_that_failed_as_well_is_not_called_one() {
    let centre = Centre::new();
    let site = site_with(&centre, &[]);
    site.take(&centre.publish(&draft(&["a"])));
    program(&site, &[("apply", "exit 1")]);
    let failed = site.import(&centre.publish(&draft(&["a", "b"])));
    let repair =
        "help: fix what is named there, then run `outhaul-agent apply` to apply bundle 1 again";
    assert_reports(&failed, 1, &[repair]);
    let status = stdout(&site.run(&["status"]));
    let words = "going back to bundle 1 failed as well";
    assert!(status.contains(words), "{status}");
    assert!(!status.contains("bundle 1 is active again"), "{status}");
    // A newer one that waits says nothing of that.
    site.ok(&["hold", "--who", "ann", "--why", "harvest"]);
    let next = centre.publish(&draft(&["a"]));
    let waits = site.ok(&["import", next.to_str().unwrap()]);
    assert_eq!(waits["state"], "gated", "{waits}");
    let to_do = site.status()["to_do"].to_string();
    assert!(
        to_do.contains("bundle 1 is only partly applied ("),
        "{to_do}"
    );
    assert!(to_do.contains(words), "{to_do}");
}
